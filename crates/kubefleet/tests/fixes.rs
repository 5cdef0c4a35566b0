//! What `kubefleet diagnose` prints, pasted as it stands into a shell with a real kubectl, mends what it was printed for.
//!
//! `KUBECTL=PATH cargo test -p kubefleet --test fixes -- --ignored`; `cargo xtask real-apiserver` builds one. All other
//! fixes are pasted without a kubectl, in `src/diagnose/tests`.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "shared/shell.rs"]
mod shell;

use std::time::Duration;

use shell::{Shell, start_up, workplace};

/// How often something is asked for that no `kubectl wait` can wait for, and how long in between.
const ASKED: usize = 120;
const PAUSE: Duration = Duration::from_millis(500);

/// The twin kinds of one story.
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

/// A person at a shell, with one of the stories in mind.
struct Person {
    shell: Shell,
    words: Words,
}

impl Person {
    /// `-n letters`, or nothing.
    fn place(&self) -> String {
        self.words.namespace.map(|namespace| format!("-n {namespace}")).unwrap_or_default()
    }

    /// What a command prints; it must end with one of these codes.
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

    /// Asks until the answer has this in it.
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

    /// Pastes the recommended fix as it stands; words in angle brackets are replaced.
    fn pastes_fix(&mut self, told: &str, entry: &str, words: &[(&str, &str)]) {
        assert!(told.contains(&format!("[{entry}")), "{entry} is not told:\n{told}");
        let mut fix = fix(told);
        for (word, value) in words {
            fix = fix.replace(word, value);
        }
        self.types(&format!("( set -e\n{fix}\n)"), &["0"]);
    }

    fn waits(&mut self, kind: &str, name: &str, what: &str) {
        let place = self.place();
        self.types(&format!("kubectl wait {kind} {name} {place} --for={what} --timeout=120s"), &["0"]);
    }

    /// The run waits at its gate, and the fix that is printed opens it.
    fn approves(&mut self, run: &str) {
        let request = self.words.request;
        self.waits(request, &format!("{run}-before-all"), "create");
        let subject = format!("run/{run}");
        let place = self.place();
        self.asks_until(&format!("kubefleet diagnose {subject} {place}"), "[UR-50]");
        let told = self.diagnoses(&subject);
        self.pastes_fix(&told, "UR-50", &[]);
    }
}

/// What stands below the first `fix:`, up to the next fix or finding.
fn fix(told: &str) -> String {
    let below = told.lines().skip_while(|line| !line.starts_with("  fix: ")).skip(1);
    let own = below.take_while(|line| !line.starts_with("  or: ") && !line.is_empty());
    own.collect::<Vec<_>>().join("\n")
}

/// An app whose image is none, a placement that waits for runs, and a strategy whose runs wait for approval.
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

fn tells_the_story(shell: Shell, words: Words) -> Shell {
    let mut person = Person { shell, words };
    let (kind, run) = (person.words.placement, person.words.run);
    if let Some(namespace) = person.words.namespace {
        for member in ["member1", "member2", "member3"] {
            person.types(&format!("kubectl --context {member} create namespace {namespace}"), &["0"]);
        }
    }
    let manifests = manifests(&person.words);
    person.types(&format!("kubectl apply -f - <<'EOF'\n{manifests}EOF"), &["0"]);
    let place = person.place();
    // The hub learns of the members' namespaces with their heartbeats.
    let chosen = "jsonpath='{.status.placementStatuses[*].clusterName}'";
    person.asks_until(&format!("kubectl get {kind} web {place} -o {chosen}"), "member1 member2 member3");

    person.asks_until(&format!("kubefleet diagnose placement/web {place}"), "[UR-01]");
    let told = person.diagnoses("placement/web");
    person.pastes_fix(&told, "UR-01", &[]);
    person.approves("web-run");

    person.asks_until(&format!("kubefleet diagnose placement/web {place}"), "is no image reference");
    let told = person.diagnoses("placement/web");
    person.pastes_fix(&told, "PL-V1", &[("<image>", "nginx:1.27")]);
    person.approves("web-run-2");
    person.waits(run, "web-run-2", "condition=Succeeded");
    let all_is_well = "Nothing found that is not as it should be.";
    person.asks_until(&format!("kubefleet diagnose placement/web {place}"), all_is_well);

    let change = r#"{"spec":{"placementName":"other"}}"#;
    let refusal = person.types(&format!("kubectl patch {run} web-run-2 {place} --type=merge -p '{change}'"), &["1"]);
    let quoted = refusal.replace('\'', r"'\''");
    let told = person.types(&format!("kubefleet diagnose --refused '{quoted}'"), &["0"]);
    assert!(told.contains("[UR-70]") && told.contains("create another run for the other placement"), "{told}");
    person.shell
}

#[test]
#[ignore = "needs a kubectl, named by KUBECTL"]
fn what_is_printed_mends_what_it_is_printed_for_by_a_real_kubectl() {
    let directory = tempfile::tempdir().unwrap();
    let path = workplace(directory.path());
    let _up = start_up(directory.path());
    let mut shell = Shell::start(directory.path(), &path);
    shell.types("export KUBECONFIG=$PWD/kubefleet.kubeconfig");
    let shell = tells_the_story(shell, CLUSTER_SCOPED);
    tells_the_story(shell, NAMESPACED);
}

#[test]
fn a_fix_is_what_stands_below_its_name() {
    let told = "error: no [A]\n  why\n  fix: so\n    # a\n    kubectl delete crp a\nkubectl create -f - <<'EOF'\nkind: A\nEOF\n  or: so\n    kubectl edit crp a\n";
    assert_eq!(fix(told), "    # a\n    kubectl delete crp a\nkubectl create -f - <<'EOF'\nkind: A\nEOF");
    assert_eq!(fix("note: all is well\n"), "");
}
