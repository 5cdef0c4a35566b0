//! A scenario depends on its seed alone, and all scenarios together contain every action.

use std::collections::BTreeSet;

use super::*;

#[test]
fn one_seed_gives_one_scenario() {
    for seed in 0..8 {
        assert_eq!(scenario(seed), scenario(seed));
        assert_ne!(scenario(seed).actions, scenario(seed + 4).actions);
        assert!(scenario(seed).actions.len() >= ScenarioKind::of(seed).length());
    }
}

#[test]
fn every_range_of_seeds_has_all_kinds() {
    let kinds: Vec<ScenarioKind> = (40..44).map(|seed| scenario(seed).kind).collect();
    assert_eq!(kinds, ScenarioKind::ALL);
}

/// The first words of all actions in scenarios of a kind.
fn words(kind: ScenarioKind) -> BTreeSet<String> {
    let seeds = (0..400).filter(|seed| ScenarioKind::of(*seed) == kind);
    let actions = seeds.flat_map(|seed| {
        let Scenario { setup, actions, .. } = scenario(seed);
        setup.into_iter().chain(actions)
    });
    let word = |action: Action| {
        let mut words = action.what.split(' ');
        let first = words.next().unwrap_or_default().to_owned();
        if first == "on" { words.nth(1).map(|word| format!("{word} on member")).unwrap_or(first) } else { first }
    };
    actions.map(word).collect()
}

#[test]
fn every_action_occurs() {
    for (kind, expected) in [
        (
            ScenarioKind::Placing,
            "again clear create delete edit join label leave limits namespace place policy remove taint",
        ),
        (
            ScenarioKind::Rolling,
            "again apply budget create delete edit evict image join label leave limits override place remove",
        ),
        (ScenarioKind::Applying, "again apply create delete edit join leave place remove"),
        (ScenarioKind::Staging, "approve create delete edit join label leave override place run stop strategy"),
    ] {
        let found = words(kind);
        let missing: Vec<&str> = expected.split(' ').filter(|word| !found.contains(*word)).collect();
        assert!(missing.is_empty(), "{kind:?} has no {missing:?}, only {found:?}");
    }
    let on_members = ["create", "delete", "edit", "namespace"].map(|word| format!("{word} on member"));
    assert!(on_members.iter().all(|word| words(ScenarioKind::Applying).contains(word)));
}

#[test]
fn approval_requests_are_named_after_their_gates() {
    let stage = serde_json::json!({"name": "prod", "beforeStageTasks": [{"type": "Approval"}],
        "afterStageTasks": [{"type": "TimedWait", "waitTime": "5s"}]});
    assert_eq!(gates_of_stage(&stage), ["before-prod"]);
}

fn gates_of_stage(stage: &Value) -> Vec<String> {
    super::staging::gates_of(stage)
}

#[test]
fn some_actions_overlap_and_the_last_never_does() {
    let overlaps = |seed: &u64| scenario(*seed).actions.iter().any(|action| action.next_after.is_some());
    assert!((0..100).any(|seed| overlaps(&seed)));
    let ends_overlapping = |seed: u64| scenario(seed).actions.last().is_some_and(|action| action.next_after.is_some());
    assert!(!(0..400).any(ends_overlapping));
}

#[test]
fn members_rejoin_with_a_running_agent_and_with_a_restarted_one() {
    let joining = (0..400).flat_map(|seed| scenario(seed).actions).filter_map(|action| action.joining);
    let mut seen: BTreeMap<String, BTreeSet<bool>> = BTreeMap::new();
    for joining in joining {
        seen.entry(joining.member.name.to_string()).or_default().insert(joining.keeps_agent);
    }
    assert!(seen.values().any(|lives| lives.len() == 2), "{seen:?}");
    let first =
        |seed: u64| scenario(seed).setup.into_iter().filter_map(|action| action.joining).any(|one| one.keeps_agent);
    assert!(!(0..400).any(first), "a member that joins for the first time has no agent yet");
}

#[test]
fn create_requests_that_are_retried_use_the_name_of_a_deleted_object() {
    let mut retrying = 0;
    for seed in 0..400 {
        let Scenario { actions, .. } = scenario(seed);
        for (number, action) in actions.iter().enumerate().filter(|(_, action)| action.retries_conflict) {
            let name = action.body["metadata"]["name"].as_str().unwrap_or_default();
            let gives_up = |before: &Action| before.method == "DELETE" && before.path.ends_with(name);
            assert!(actions[..number].iter().any(gives_up), "{seed}: {}", action.what);
            retrying += 1;
        }
    }
    assert!(retrying > 0);
}

#[test]
fn some_hubs_collect_changes_and_some_content_is_untracked() {
    let scenarios = || (0..100).map(scenario);
    assert!(scenarios().any(|one| one.snapshot_intervals == SnapshotIntervals::default()));
    assert!(scenarios().any(|one| one.snapshot_intervals == SnapshotIntervals::NONE));
    assert!(scenarios().any(|one| one.untracked_for.is_some()));
    assert!(scenarios().any(|one| one.kind == ScenarioKind::Rolling && one.untracked_for.is_none()));
}

#[test]
fn limits_are_lifted_before_an_eviction_if_content_may_have_failed() {
    let mut evictions = 0;
    for seed in 0..2000 {
        let actions = scenario(seed).actions;
        let may_fail =
            |action: &Action| ["nonexistent:", "/metadata/labels/none"].iter().any(|one| action.what.contains(one));
        let Some(first) = actions.iter().position(may_fail) else { continue };
        for (before, action) in actions.iter().zip(&actions[1..]).skip(first) {
            if action.what.starts_with("evict ") {
                evictions += 1;
                assert!(
                    before.what.starts_with("limits ") && before.what.ends_with(" lifted"),
                    "seed {seed}: {}",
                    before.what
                );
                assert_eq!(before.next_after, None, "seed {seed}");
            }
        }
    }
    assert_ne!(evictions, 0);
}

#[test]
fn scenarios_record_their_tolerances() {
    let all: Vec<Tolerance> = (0..400).map(|seed| scenario(seed).tolerance).collect();
    assert!(all.iter().any(|one| one.overlapping_changes) && all.iter().any(|one| !one.overlapping_changes));
    assert!(all.iter().any(|one| !one.left_members.is_empty() && one.runs_with_leaves.is_empty()));
    assert!(all.iter().any(|one| !one.runs_with_leaves.is_empty()));
    assert!(all.iter().any(|one| !one.interrupted_runs.is_empty()));
}
