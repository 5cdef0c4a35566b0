//! Acceptance scenarios of a binding's status. Names carry the scenario's number.

use expect_test::{Expect, expect};
use fleet_api::conditions::Condition;
use fleet_api::time::Time;
use fleet_api::types::{DiffDetails, DriftDetails, EmbeddedObject, FINDINGS_PER_LIST, PatchDetail};
use jiff::SignedDuration;

use super::fixture::{ClusterWorld, condition};
use super::render::{plan_text, short_status, status_text};
use crate::overrides::tests::fixture::{bare, envelope};
use crate::workgen::Start;

fn shop() -> Vec<EmbeddedObject> {
    vec![bare("Namespace shop"), bare("ConfigMap shop/settings")]
}

/// Works `web-0` and `web-work`.
fn two_works() -> ClusterWorld {
    let mut world = ClusterWorld::new("web");
    world.freeze(0, &[&shop(), &[bare("Secret shop/a")]]);
    world.bind(0);
    world.settle();
    world
}

/// What is said after RolloutStarted, Overridden and WorkSynchronized.
fn check(world: &mut ClusterWorld, expected: Expect) {
    world.settle();
    let text = status_text(world.status());
    let said: Vec<&str> = text.lines().skip(3).collect();
    expected.assert_eq(&said.join("\n"));
}

fn drift() -> DriftDetails {
    let time = Time::new("2026-11-15T11:00:00Z".parse().unwrap());
    DriftDetails {
        observation_time: time,
        observed_in_member_cluster_generation: 7,
        first_drifted_observed_time: time,
        observed_drifts: vec![PatchDetail { path: "/spec/x".to_owned(), ..PatchDetail::default() }],
    }
}

fn diff() -> DiffDetails {
    let drift = drift();
    DiffDetails {
        observation_time: drift.observation_time,
        observed_in_member_cluster_generation: None,
        first_diffed_observed_time: drift.first_drifted_observed_time,
        observed_diffs: drift.observed_drifts,
    }
}

#[test]
fn what_members_say_is_summed_up_and_the_undecided_come_first() {
    let mut world = two_works();
    check(&mut world, expect!["Applied=False@2 ApplyInProgress: Resources are being applied"]);
    world.member_says("web-0", "Applied=False");
    check(
        &mut world,
        expect!["Applied=False@2 NotAllWorkHaveBeenApplied: Work object web-work has not yet completed the apply op"],
    );
    world.member_says("web-work", "Applied");
    check(
        &mut world,
        expect![[r#"
            Applied=False@2 NotAllWorkHaveBeenApplied: Work object web-0 has failed to apply
            failed Secret shop/a"#]],
    );
    world.member_says("web-0", "Applied Available=False");
    check(
        &mut world,
        expect![[r#"
            Applied=True@2 AllWorkHaveBeenApplied: All corresponding work objects are applied
            Available=False@2 NotAllWorkAreAvailable: Work object web-work has not yet completed availability check"#]],
    );
    world.member_says("web-work", "Applied Available");
    check(
        &mut world,
        expect![[r#"
            Applied=True@2 AllWorkHaveBeenApplied: All corresponding work objects are applied
            Available=False@2 NotAllWorkAreAvailable: Work object web-0 is not yet available
            failed Secret shop/a"#]],
    );
    world.member_says("web-0", "Applied Available=NotTrackable");
    check(
        &mut world,
        expect![[r#"
            Applied=True@2 AllWorkHaveBeenApplied: All corresponding work objects are applied
            Available=True@2 NotAllWorkAreAvailabilityTrackable: The availability of work object web-0 is not trackable"#]],
    );
    world.member_says("web-0", "Applied Available");
    check(
        &mut world,
        expect![[r#"
            Applied=True@2 AllWorkHaveBeenApplied: All corresponding work objects are applied
            Available=True@2 AllWorkAreAvailable: All corresponding work objects are available"#]],
    );
}

#[test]
fn what_was_said_of_an_older_work_does_not_count() {
    let mut world = ClusterWorld::with("web", &shop());
    world.settle();
    world.all_say("Applied Available");
    world.work("web-work").metadata.generation = Some(2);
    check(&mut world, expect!["Applied=False@2 ApplyInProgress: Resources are being applied"]);
}

#[test]
fn placement_30_31_what_failed_is_listed() {
    let mut world = ClusterWorld::with("web", &shop());
    world.settle();
    world.member_says("web-work", "Applied=False");
    world.of_manifest("web-work", "settings", |manifest| {
        manifest.conditions = vec![serde_json::from_value(condition("Applied", 1)).unwrap()];
    });
    check(
        &mut world,
        expect![[r#"
            Applied=False@2 NotAllWorkHaveBeenApplied: Work object web-work has failed to apply
            failed Namespace shop"#]],
    );
    let copied: &Condition = &world.status().failed_placements[0].condition;
    assert_eq!((copied.message.as_str(), copied.type_.as_str()), ("said by the member", "Applied"));
}

#[test]
fn placement_32_33_where_differences_are_only_reported_nothing_is_applied() {
    let mut world = two_works();
    world.all_say("Applied Available");
    world.settle();
    world.apply_strategy("{type: ReportDiff}");
    check(&mut world, expect!["DiffReported=False@3 DiffReportInProgress: Diff reporting on resources is in progress"]);
    world.member_says("web-0", "DiffReported");
    check(
        &mut world,
        expect![
            "DiffReported=False@3 NotAllWorkHaveDiffReported: Work object web-work has not yet completed diff reporting"
        ],
    );
    world.member_says("web-work", "DiffReported=False");
    world.of_manifest("web-work", "settings", |manifest| manifest.diff_details = Some(diff()));
    check(
        &mut world,
        expect!["DiffReported=False@3 NotAllWorkHaveDiffReported: Work object web-work has failed to report diff"],
    );
    world.member_says("web-work", "DiffReported");
    world.of_manifest("web-work", "settings", |manifest| manifest.diff_details = Some(diff()));
    check(
        &mut world,
        expect![[r#"
            DiffReported=True@3 AllWorkHaveDiffReported: All corresponding work objects have reported diff
            diffed ConfigMap shop/settings"#]],
    );
    assert_eq!(world.status().diffed_placements[0].observed_diffs, diff().observed_diffs);
    world.apply_strategy("{type: ClientSideApply}");
    check(&mut world, expect!["Applied=False@4 ApplyInProgress: Resources are being applied"]);
}

#[test]
fn placement_34_a_drift_that_stops_the_apply_is_listed_as_failed_and_drifted() {
    let mut world = ClusterWorld::with("web", &shop());
    world.settle();
    world.member_says("web-work", "Applied=False");
    world.of_manifest("web-work", "shop", |manifest| {
        manifest.conditions.clear();
        manifest.diff_details = Some(diff());
    });
    world.of_manifest("web-work", "settings", |manifest| manifest.drift_details = Some(drift()));
    check(
        &mut world,
        expect![[r#"
            Applied=False@2 NotAllWorkHaveBeenApplied: Work object web-work has failed to apply
            failed ConfigMap shop/settings
            drifted ConfigMap shop/settings
            diffed Namespace shop"#]],
    );
    assert_eq!(world.status().drifted_placements[0].target_cluster_observed_generation, 7);
    world.member_says("web-work", "Applied Available");
    world.of_manifest("web-work", "settings", |manifest| manifest.drift_details = Some(drift()));
    world.of_manifest("web-work", "shop", |manifest| manifest.diff_details = Some(diff()));
    check(
        &mut world,
        expect![[r#"
            Applied=True@2 AllWorkHaveBeenApplied: All corresponding work objects are applied
            Available=True@2 AllWorkAreAvailable: All corresponding work objects are available
            drifted ConfigMap shop/settings"#]],
    );
}

#[test]
fn placement_40_41_what_does_not_become_available_is_listed_until_it_does() {
    let mut world = ClusterWorld::with("web", &[bare("Deployment shop/web")]);
    world.settle();
    world.all_say("Applied Available=False");
    check(
        &mut world,
        expect![[r#"
            Applied=True@2 AllWorkHaveBeenApplied: All corresponding work objects are applied
            Available=False@2 NotAllWorkAreAvailable: Work object web-work is not yet available
            failed Deployment shop/web"#]],
    );
    assert_eq!(world.status().failed_placements[0].condition.type_, "Available");
    world.all_say("Applied Available");
    world.settle();
    assert_eq!(world.status().failed_placements, []);
}

#[test]
fn lists_are_sorted_and_cut_to_their_limit() {
    let many: Vec<EmbeddedObject> = (0..70).rev().map(|number| bare(&format!("ConfigMap shop/c{number:02}"))).collect();
    let wrapped = envelope("ResourceEnvelope shop/env", &many[..50]);
    let mut world = ClusterWorld::new("web");
    let mut main = many.clone();
    main.push(wrapped);
    world.freeze(0, &[&main]);
    world.bind(0);
    world.settle();
    world.all_say("Applied=False");
    world.settle();
    let failed = &world.status().failed_placements;
    assert_eq!(failed.len(), FINDINGS_PER_LIST);
    let text = |place: usize| super::render::resource_text(&failed[place].resource);
    expect!["ConfigMap shop/c00"].assert_eq(&text(0));
    expect!["ConfigMap shop/c20"].assert_eq(&text(20));
    expect!["ConfigMap shop/c20 in ResourceEnvelope shop/env"].assert_eq(&text(21));
    expect!["ConfigMap shop/c59 in ResourceEnvelope shop/env"].assert_eq(&text(99));
}

fn transition(world: &ClusterWorld, type_: &str) -> SignedDuration {
    let found = world.status().conditions.iter().find(|one| one.type_ == type_).unwrap();
    let start: jiff::Timestamp = super::fixture::START.parse().unwrap();
    found.last_transition_time.instant().duration_since(start)
}

#[test]
fn transition_times_stay_while_nothing_changes() {
    let mut world = ClusterWorld::with("web", &shop());
    world.settle();
    world.all_say("Applied Available=NotTrackable");
    world.settle();
    world.pass(100);
    world.of_manifest("web-work", "settings", |manifest| manifest.drift_details = Some(drift()));
    world.settle();
    assert_eq!(world.status().drifted_placements.len(), 1);
    assert_eq!(transition(&world, "Available"), SignedDuration::ZERO);
}

#[test]
fn with_new_content_waits_begin_anew_although_nothing_was_written_in_between() {
    let mut world = ClusterWorld::with("web", &shop());
    world.settle();
    world.all_say("Applied Available=NotTrackable");
    world.settle();
    world.pass(100);
    world.freeze(1, &[&[bare("ConfigMap shop/other")]]);
    world.bind(1);
    let plan = world.plan();
    assert!(plan.status.as_ref().unwrap().interim);
    for write in &plan.writes {
        world.write(write);
    }
    world.all_say("Applied Available=NotTrackable");
    world.settle();
    expect!["RolloutStarted=True Overridden=True WorkSynchronized=True Applied=True Available=True"]
        .assert_eq(&short_status(world.status()));
    assert_eq!(transition(&world, "Available"), SignedDuration::from_secs(100));
    assert_eq!(transition(&world, "Overridden"), SignedDuration::ZERO);
}

/// Carries plans out as the runtime does: an interim status is held back, and dropped for a newer one. Counts the writes.
fn writes_of_an_update(world: &mut ClusterWorld, member: &[&str]) -> (usize, usize) {
    let (mut works, mut statuses) = (0, 0);
    for words in member.iter().copied().map(Some).chain([None]) {
        let plan = world.plan();
        works += plan.writes.len();
        for write in &plan.writes {
            world.write(write);
        }
        if let Some(new) = plan.status.filter(|new| !new.interim) {
            statuses += 1;
            world.binding.status = Some(new.status);
        }
        if let Some(words) = words {
            world.all_say(words);
        }
    }
    assert!(world.plan().is_idle(), "{}", plan_text(&world.plan()));
    (works, statuses)
}

#[test]
fn an_update_costs_one_write_of_the_work_and_one_of_the_status() {
    let mut world = ClusterWorld::with("web", &shop());
    world.settle();
    world.all_say("Applied Available");
    world.settle();
    world.start = Start::MeantByBinding;
    world.freeze(1, &[&[bare("ConfigMap shop/other")]]);
    // The rollout writes the binding's spec and nothing else.
    world.change_binding(|binding| binding.spec.resource_snapshot_name = "web-1-snapshot".to_owned());
    let slow_start = ["Applied Available=False", "Applied Available=False", "Applied Available"];
    assert_eq!(writes_of_an_update(&mut world, &slow_start), (1, 1));
    expect!["RolloutStarted=True Overridden=True WorkSynchronized=True Applied=True Available=True"]
        .assert_eq(&short_status(world.status()));
    assert!(world.status().conditions.iter().all(|one| one.observed_generation == world.binding.generation()));
}

#[test]
fn a_staged_runs_note_says_that_the_rollout_started_for_one_generation() {
    let mut world = ClusterWorld::with("web", &shop());
    world.settle();
    world.all_say("Applied Available");
    world.settle();
    world.freeze(1, &[&[bare("ConfigMap shop/other")]]);
    let note = |binding: &mut fleet_api::kinds::ClusterResourceBinding, text: &str| {
        let notes = binding.metadata.annotations.get_or_insert_default();
        notes.insert(fleet_api::well_known::annotations::MOVED_BY_RUN.to_owned(), text.to_owned());
    };
    let next = world.binding.generation() + 1;
    world.change_binding(|binding| {
        binding.spec.resource_snapshot_name = "web-1-snapshot".to_owned();
        note(binding, &format!("1/run-a/{next}"));
    });
    assert_eq!(writes_of_an_update(&mut world, &["Applied Available=False", "Applied Available"]), (1, 1));
    let started = world.status().conditions.iter().find(|one| one.type_ == "RolloutStarted").unwrap().clone();
    assert!(started.message.ends_with("resourceSnapshotIndex: 1, updateRun: run-a"), "{started:?}");
    // The scheduler touches the binding: until a run renews its note, nothing is said of the new generation.
    world.change_binding(|binding| binding.spec.scheduling_policy_snapshot_name = "web-1".to_owned());
    assert!(world.plan().is_idle(), "{}", plan_text(&world.plan()));
    let (generation, later) = (world.binding.generation(), world.now + jiff::SignedDuration::from_mins(1));
    world.now = later;
    note(&mut world.binding, &format!("/run-b/{generation}"));
    world.settle();
    let renewed = world.status().conditions.iter().find(|one| one.type_ == "RolloutStarted").unwrap().clone();
    assert!(renewed.message.ends_with("resourceSnapshotIndex: , updateRun: run-b"), "{renewed:?}");
    assert_ne!(renewed.last_transition_time, started.last_transition_time);
}

#[test]
fn a_first_placement_costs_no_more_if_the_binding_was_created_with_its_finalizer() {
    let mut world = ClusterWorld::with("web", &shop());
    world.binding.metadata.finalizers = Some(vec![fleet_api::well_known::finalizers::WORK.to_owned()]);
    world.binding.status = None;
    world.start = Start::MeantByBinding;
    assert_eq!(writes_of_an_update(&mut world, &["Applied", "Applied Available"]), (1, 1));
}
