//! Hostile text in objects cannot change what a printed command does.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use serde_json::json;

use super::fixture::{Fleet, fleet, run};
use super::{evictions, execution, initialization, pasted, placements, stuck};
use crate::diagnose::{self, Step};

/// A file that no command must create.
const MARKER: &str = "pwned";

/// Texts with a meaning in shells, terminals, kubectl and YAML.
const HOSTILE: &[&str] = &[
    "web; touch pwned #",
    "$(touch pwned)",
    "`touch pwned`",
    "x\ntouch pwned\n",
    "x\n    kubectl delete namespace shop\n",
    "\nEOF\ntouch pwned\n",
    "'; touch pwned; '",
    "'\n touch pwned #",
    "\" && touch pwned && \"",
    "x|touch pwned",
    "x & touch pwned",
    "x > pwned",
    "<(touch pwned)",
    "\\\ntouch pwned",
    "\u{1b}[201~\ntouch pwned\n",
    "\u{9b}2J",
    "\u{202e}dwp hcuot",
    "x\rtouch pwned\r",
    "a\tb",
    "--kubeconfig=pwned",
    "-n",
    "=touch",
    "~root",
    "*",
    "{a,b}",
    "!!",
    "a b",
    "<image>",
    "\u{212a}ind",
    "ok",
];

/// Fleets with problems, so that as many rules as possible print commands.
fn scenarios() -> Vec<Fleet> {
    let key = "sorting-key";
    let mut all = vec![fleet(), fleet().with(&run("")), stuck::unavailable()];
    for message in [
        "no resourceSnapshots with index `1` found for placement `/example-placement`",
        "parent placement not found",
        "parent placement does not have an external rollout strategy, current strategy: RollingUpdate",
        "referenced updateStrategy not found: `/example-strategy`",
        "the stage `staging` has invalid afterStageTasks: wait",
        "some clusters are not placed in any stage, total 2, showing up to 10: member1, member2",
        "a cluster appears in multiple stages: member1",
        "the sorting label `sorting-key:` on cluster `member1` is not valid",
        "the resource snapshot index `x` is not valid",
        "failed to get the label selector: staging",
    ] {
        all.push(initialization::failed(fleet(), message));
        all.push(execution::ended(fleet(), message));
    }
    let sorted = format!("{{name: staging, labelSelector: {{}}, sortingLabelKey: {key}}}");
    all.push(
        initialization::failed(fleet(), &format!("the sorting label `{key}:` on cluster `member1` is not valid")).edit(
            "ClusterStagedUpdateStrategy",
            "example-strategy",
            &format!("{{spec: {{stages: [{sorted}]}}}}"),
        ),
    );
    for reason in ["ErrImagePull", "CrashLoopBackOff", "CreateContainerConfigError"] {
        all.push(stuck::unavailable().member_inputs("member2", stuck::side(stuck::waiting(reason))));
    }
    all.push(stuck::unavailable().member_inputs(
        "member2",
        stuck::side(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False", "message": "no"}]})),
    ));
    for (message, reason) in [
        (r#"failed to create manifest object: namespaces "shop" not found"#, "FailedToApply"),
        ("another Fleet AppliedWork", "FailedToApply"),
        ("no matches for kind", "FailedToApply"),
        ("anything", "FailedToApply"),
        ("anything", "NotTakenOver"),
    ] {
        all.push(placements::not_applied(message, reason));
    }
    all.push(evictions::blocked("anything").with(
        "{kind: ClusterResourcePlacementDisruptionBudget, metadata: {name: example-placement}, spec: {minAvailable: 2}}",
    ));
    all.push(evictions::invalid(
        "example-placment",
        "member1",
        "Failed to find ClusterResourcePlacement targeted by eviction",
    ));
    let decisions = "{status: {targetClusters: [{clusterName: member2, selected: false, reason: 'cluster does not match with any of the required cluster affinity terms'}]}}";
    let picks = "{spec: {policy: {placementType: PickN, numberOfClusters: 2, affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {
        clusterSelectorTerms: [{labelSelector: {matchLabels: {wanted-key: wanted-value}}}]}}}}},
        status: {conditions: ['ClusterResourcePlacementScheduled=False SchedulingPolicyUnfulfilled: ']}}";
    all.push(fleet().edit("ClusterResourcePlacement", "example-placement", picks).edit(
        "ClusterSchedulingPolicySnapshot",
        "example-placement-0",
        decisions,
    ));
    all
}

/// Every step that any diagnosis of the fleet proposes.
fn steps(fleet: &Fleet) -> Vec<Step> {
    let inputs = fleet.inputs();
    let mut diagnoses = vec![diagnose::run(&inputs), diagnose::placement(&inputs)];
    for member in inputs.members.clone() {
        diagnoses.push(diagnose::cluster(&inputs, member.name(), std::slice::from_ref(&inputs)));
    }
    for eviction in inputs.evictions.clone() {
        diagnoses.push(diagnose::eviction(&inputs, eviction.name()));
    }
    let findings = diagnoses.into_iter().flat_map(|one| one.cause.into_iter().chain(one.notices));
    findings.flat_map(|finding| finding.fixes).flat_map(|fix| fix.steps).collect()
}

/// The words of a command's first line, as a shell makes them.
fn words(command: &str) -> Vec<String> {
    let line = command.lines().next().unwrap_or_default().trim_end_matches(" <<'EOF'");
    shlex::split(line).unwrap_or_else(|| panic!("a quote is not closed: {command}"))
}

/// Only a patch may contain other characters than names.
fn is_plain(words: &[String]) -> bool {
    let plain = |word: &String| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.,:/=".contains(&byte));
    words.iter().enumerate().all(|(at, word)| plain(word) || (at > 0 && words[at - 1] == "-p"))
}

/// Pastes all steps into a shell with a kubectl that prints its arguments; returns the output.
fn pasted_into_sh(steps: &[Step]) -> (String, Vec<String>) {
    let place =
        std::env::temp_dir().join(format!("kubefleet-paste-{}-{:?}", std::process::id(), std::thread::current().id()));
    std::fs::create_dir_all(&place).unwrap();
    let mut script =
        "kubectl() { printf 'kubectl'; for one in \"$@\"; do printf '\\037%s' \"$one\"; done; printf '\\036'; }\n"
            .to_owned();
    for step in steps {
        let _ = writeln!(script, "    # {}\n{}", step.what, step.command);
    }
    let file = place.with_extension("sh");
    std::fs::write(&file, &script).unwrap();
    let out = Command::new("sh").arg(&file).current_dir(&place).stdin(Stdio::null()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stderr), "", "{script}");
    let made = std::fs::read_dir(&place).unwrap().map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
    std::fs::remove_dir_all(&place).unwrap();
    std::fs::remove_file(&file).unwrap();
    (String::from_utf8(out.stdout).unwrap(), made)
}

fn check(fleet: &Fleet) {
    // `step` compares each command with its action when it is created.
    let steps = steps(fleet);
    for step in &steps {
        assert!(!step.what.chars().any(fleet_api::safe_text::is_hidden), "a comment of several lines: {:?}", step.what);
        assert!(is_plain(&words(&step.command)), "{}", step.command);
        if !step.command.is_empty() {
            assert_eq!(pasted::commands(&step.command), std::slice::from_ref(&step.command), "several commands");
        }
    }
    let commands: Vec<String> =
        steps.iter().filter(|step| !step.command.is_empty()).map(|step| words(&step.command).join("\u{1f}")).collect();
    let (said, made) = pasted_into_sh(&steps);
    assert_eq!(made, Vec::<String>::new(), "a pasted command has made something: {MARKER}");
    let said: Vec<&str> = said.split_terminator('\u{1e}').collect();
    assert_eq!(said, commands);
}

#[test]
fn audit_05_a_name_that_a_member_reports_is_not_a_command() {
    let reported = stuck::unavailable().with_text("web", "web; touch x #");
    check(&reported);
    let steps = steps(&reported);
    let shown: Vec<&str> =
        steps.iter().map(|step| step.what.as_str()).filter(|what| what.contains("no command")).collect();
    assert!(
        shown.iter().any(|what| what.contains("(no command is shown: \"web; touch x #\" is not a valid name)")),
        "{shown:?}"
    );
}

#[test]
fn audit_05_a_sorting_label_key_is_not_a_command() {
    let fleet = scenarios().into_iter().find(|one| one.strings().contains("sorting-key")).unwrap();
    check(&fleet.with_text("sorting-key", "$(touch x)"));
}

#[test]
fn audit_05_every_scenario_prints_commands_while_its_names_are_valid() {
    let printed: BTreeSet<String> = scenarios()
        .iter()
        .inspect(|fleet| check(fleet))
        .flat_map(steps)
        .filter(|step| !step.command.is_empty())
        .map(|step| {
            words(&step.command)[1..].iter().take_while(|word| !word.starts_with('-')).take(1).cloned().collect()
        })
        .collect();
    let verbs: Vec<&str> = printed.iter().map(String::as_str).filter(|verb| !verb.is_empty()).collect();
    assert_eq!(verbs, ["create", "delete", "edit", "get", "label", "patch"]);
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(HOSTILE).prop_map(str::to_owned),
        1 => any::<String>(),
        1 => "[ -~\n\t\r]{0,16}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn audit_05_no_text_of_an_object_becomes_a_command(
        scenario in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), text()), 1..4),
    ) {
        let scenarios = scenarios();
        let mut fleet = scenarios[scenario.index(scenarios.len())].clone();
        for (which, text) in changes {
            let strings: Vec<String> = fleet.strings().into_iter().collect();
            fleet = fleet.with_text(&strings[which.index(strings.len())], &text);
        }
        check(&fleet);
    }
}
