//! The fixes that `kubefleet diagnose` prints, pasted into a shell with a real kubectl, fix the problem.
//!
//! `KUBECTL=PATH cargo test -p kubefleet --test fixes -- --ignored`; `cargo xtask real-apiserver` builds one. All other fixes
//! are pasted without a kubectl, in `src/diagnose/tests`.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "shared/shell.rs"]
mod shell;

use std::time::Duration;

use shell::{Shell, start_up, workplace};

/// Attempts and delay for states that `kubectl wait` cannot wait for.
const ASKED: usize = 120;
const PAUSE: Duration = Duration::from_millis(500);

/// The kinds of one scope.
struct Words {
    namespace: Option<&'static str>,
    placement: &'static str,
    run: &'static str,
    strategy: &'static str,
    request: &'static str,
}

const CLUSTER_SCOPED: Words = Words {
    namespace: None,
    placement: "ClusterResourcePlacement",
    run: "ClusterStagedUpdateRun",
    strategy: "ClusterStagedUpdateStrategy",
    request: "ClusterApprovalRequest",
};

const NAMESPACED: Words = Words {
    namespace: Some("letters"),
    placement: "ResourcePlacement",
    run: "StagedUpdateRun",
    strategy: "StagedUpdateStrategy",
    request: "ApprovalRequest",
};

/// A user at a shell, with the kinds of one scope.
struct User {
    shell: Shell,
    words: Words,
}

impl User {
    /// `-n letters`, or nothing.
    fn place(&self) -> String {
        self.words.namespace.map(|namespace| format!("-n {namespace}")).unwrap_or_default()
    }

    /// Runs a command that must exit with one of these codes; returns its output.
    fn types(&mut self, command: &str, codes: &[&str]) -> String {
        let (seen, code) = self.shell.types(command);
        let seen = seen.join("\n");
        assert!(codes.contains(&code.as_str()), "{command}\nended with {code}:\n{seen}");
        seen
    }

    fn diagnoses(&mut self, subject: &str) -> String {
        let place = self.place();
        self.types(&format!("kubefleet diagnose {subject} {place}"), &["0", "3"])
    }

    /// Repeats a command until its output contains this text.
    fn asks_until(&mut self, command: &str, wanted: &str) {
        let mut seen = String::new();
        for _ in 0..ASKED {
            seen = self.types(command, &["0", "1", "3"]);
            if seen.contains(wanted) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("{command} never said {wanted:?}:\n{seen}");
    }

    /// Pastes the recommended fix; placeholders in angle brackets are replaced.
    fn pastes_fix(&mut self, output: &str, entry: &str, words: &[(&str, &str)]) {
        assert!(output.contains(&format!("[{entry}")), "{entry} is not reported:\n{output}");
        let mut fix = fix(output);
        for (word, value) in words {
            fix = fix.replace(word, value);
        }
        self.types(&format!("( set -e\n{fix}\n)"), &["0"]);
    }

    fn waits(&mut self, kind: &str, name: &str, what: &str) {
        let place = self.place();
        self.types(&format!("kubectl wait {kind} {name} {place} --for={what} --timeout=120s"), &["0"]);
    }

    /// The run waits at its gate, and the printed fix opens it.
    fn approves(&mut self, run: &str) {
        let request = self.words.request;
        self.waits(request, &format!("{run}-before-all"), "create");
        let subject = format!("run/{run}");
        let place = self.place();
        self.asks_until(&format!("kubefleet diagnose {subject} {place}"), "[UR-50]");
        let output = self.diagnoses(&subject);
        self.pastes_fix(&output, "UR-50", &[]);
    }
}

/// The text below the first `fix:`, up to the next fix or finding.
fn fix(output: &str) -> String {
    let below = output.lines().skip_while(|line| !line.starts_with("  fix: ")).skip(1);
    let own = below.take_while(|line| !line.starts_with("  or: ") && !line.is_empty());
    own.collect::<Vec<_>>().join("\n")
}

/// An app with an invalid image, a placement that waits for runs, and a strategy with an approval.
fn manifests(words: &Words) -> String {
    let Words { namespace, placement, strategy, .. } = words;
    let (place, selectors) = match namespace {
        None => (String::new(), "[{group: '', version: v1, kind: Namespace, name: parcels}]"),
        Some(namespace) => {
            (format!(", namespace: {namespace}"), "[{group: apps, version: v1, kind: Deployment, name: web}]")
        }
    };
    let space = namespace.unwrap_or("parcels");
    format!(
        "apiVersion: v1
kind: Namespace
metadata: {{name: {space}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: {space}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: web, image: 'nginx:1:2'}}]}}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: {placement}
metadata: {{name: web{place}}}
spec: {{resourceSelectors: {selectors}, strategy: {{type: External}}}}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: {strategy}
metadata: {{name: careful{place}}}
spec: {{stages: [{{name: all, labelSelector: {{}}, beforeStageTasks: [{{type: Approval}}]}}]}}
"
    )
}

fn plays_the_scenario(shell: Shell, words: Words) -> Shell {
    let mut user = User { shell, words };
    let (kind, run) = (user.words.placement, user.words.run);
    if let Some(namespace) = user.words.namespace {
        for member in ["member1", "member2", "member3"] {
            user.types(&format!("kubectl --context {member} create namespace {namespace}"), &["0"]);
        }
    }
    let manifests = manifests(&user.words);
    user.types(&format!("kubectl apply -f - <<'EOF'\n{manifests}EOF"), &["0"]);
    let place = user.place();
    // Members report their namespaces with their heartbeats.
    let chosen = "jsonpath='{.status.placementStatuses[*].clusterName}'";
    user.asks_until(&format!("kubectl get {kind} web {place} -o {chosen}"), "member1 member2 member3");

    user.asks_until(&format!("kubefleet diagnose placement/web {place}"), "[UR-01]");
    let output = user.diagnoses("placement/web");
    user.pastes_fix(&output, "UR-01", &[]);
    user.approves("web-run");

    user.asks_until(&format!("kubefleet diagnose placement/web {place}"), "is not a valid image reference");
    let output = user.diagnoses("placement/web");
    user.pastes_fix(&output, "PL-V1", &[("<image>", "nginx:1.27")]);
    user.approves("web-run-2");
    user.waits(run, "web-run-2", "condition=Succeeded");
    let all_is_well = "No problem found.";
    user.asks_until(&format!("kubefleet diagnose placement/web {place}"), all_is_well);

    let change = r#"{"spec":{"placementName":"other"}}"#;
    let refusal = user.types(&format!("kubectl patch {run} web-run-2 {place} --type=merge -p '{change}'"), &["1"]);
    let quoted = refusal.replace('\'', r"'\''");
    let output = user.types(&format!("kubefleet diagnose --refused '{quoted}'"), &["0"]);
    assert!(output.contains("[UR-70]") && output.contains("create another run for the other placement"), "{output}");
    user.shell
}

#[test]
#[ignore = "needs a kubectl, named by KUBECTL"]
fn printed_fixes_work_with_a_real_kubectl() {
    let directory = tempfile::tempdir().unwrap();
    let path = workplace(directory.path());
    let _up = start_up(directory.path());
    let mut shell = Shell::start(directory.path(), &path);
    shell.types("export KUBECONFIG=$PWD/kubefleet.kubeconfig");
    let shell = plays_the_scenario(shell, CLUSTER_SCOPED);
    plays_the_scenario(shell, NAMESPACED);
}

#[test]
fn a_fix_is_the_text_below_its_heading() {
    let output = "error: no [A]\n  why\n  fix: so\n    # a\n    kubectl delete crp a\nkubectl create -f - <<'EOF'\nkind: A\nEOF\n  or: so\n    kubectl edit crp a\n";
    assert_eq!(fix(output), "    # a\n    kubectl delete crp a\nkubectl create -f - <<'EOF'\nkind: A\nEOF");
    assert_eq!(fix("note: all is well\n"), "");
}
