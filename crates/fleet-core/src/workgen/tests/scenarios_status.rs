//! Acceptance scenarios of a binding's status. Names have the scenario's number.

use expect_test::{Expect, expect};
use fleet_api::conditions::Condition;
use fleet_api::time::Time;
use fleet_api::types::{DiffDetails, DriftDetails, EmbeddedObject, FINDINGS_PER_LIST, PatchDetail};
use jiff::SignedDuration;

use super::fixture::{ClusterWorld, condition};
use super::render::{plan_text, short_status, status_text};
use crate::overrides::tests::fixture::{bare, envelope};
use crate::workgen::RolloutStart;

fn shop() -> Vec<EmbeddedObject> {
    vec![bare("Namespace shop"), bare("ConfigMap shop/settings")]
}

/// Works `web-0` and `web-work`.
fn two_works() -> ClusterWorld {
    let mut fixture = ClusterWorld::new("web");
    fixture.freeze(0, &[&shop(), &[bare("Secret shop/a")]]);
    fixture.bind(0);
    fixture.settle();
    fixture
}

/// The conditions after RolloutStarted, Overridden and WorkSynchronized.
fn check(fixture: &mut ClusterWorld, expected: Expect) {
    fixture.settle();
    let text = status_text(fixture.status());
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
fn work_conditions_are_aggregated_and_undecided_works_come_first() {
    let mut fixture = two_works();
    check(&mut fixture, expect!["Applied=False@2 ApplyInProgress: Resources are being applied"]);
    fixture.report_work("web-0", "Applied=False");
    check(
        &mut fixture,
        expect!["Applied=False@2 NotAllWorkHaveBeenApplied: Work object web-work has not yet completed the apply op"],
    );
    fixture.report_work("web-work", "Applied");
    check(
        &mut fixture,
        expect![[r#"
            Applied=False@2 NotAllWorkHaveBeenApplied: Work object web-0 has failed to apply
            failed Secret shop/a"#]],
    );
    fixture.report_work("web-0", "Applied Available=False");
    check(
        &mut fixture,
        expect![[r#"
            Applied=True@2 AllWorkHaveBeenApplied: All corresponding work objects are applied
            Available=False@2 NotAllWorkAreAvailable: Work object web-work has not yet completed availability check"#]],
    );
    fixture.report_work("web-work", "Applied Available");
    check(
        &mut fixture,
        expect![[r#"
            Applied=True@2 AllWorkHaveBeenApplied: All corresponding work objects are applied
            Available=False@2 NotAllWorkAreAvailable: Work object web-0 is not yet available
            failed Secret shop/a"#]],
    );
    fixture.report_work("web-0", "Applied Available=NotTrackable");
    check(
        &mut fixture,
        expect![[r#"
            Applied=True@2 AllWorkHaveBeenApplied: All corresponding work objects are applied
            Available=True@2 NotAllWorkAreAvailabilityTrackable: The availability of work object web-0 is not trackable"#]],
    );
    fixture.report_work("web-0", "Applied Available");
    check(
        &mut fixture,
        expect![[r#"
            Applied=True@2 AllWorkHaveBeenApplied: All corresponding work objects are applied
            Available=True@2 AllWorkAreAvailable: All corresponding work objects are available"#]],
    );
}

#[test]
fn conditions_of_an_older_work_do_not_count() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.settle();
    fixture.report_all("Applied Available");
    fixture.work("web-work").metadata.generation = Some(2);
    check(&mut fixture, expect!["Applied=False@2 ApplyInProgress: Resources are being applied"]);
}

#[test]
fn placement_30_31_failed_resources_are_listed() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.settle();
    fixture.report_work("web-work", "Applied=False");
    fixture.of_manifest("web-work", "settings", |manifest| {
        manifest.conditions = vec![serde_json::from_value(condition("Applied", 1)).unwrap()];
    });
    check(
        &mut fixture,
        expect![[r#"
            Applied=False@2 NotAllWorkHaveBeenApplied: Work object web-work has failed to apply
            failed Namespace shop"#]],
    );
    let copied: &Condition = &fixture.status().failed_placements[0].condition;
    assert_eq!((copied.message.as_str(), copied.type_.as_str()), ("said by the member", "Applied"));
}

#[test]
fn placement_32_33_report_diff_applies_nothing() {
    let mut fixture = two_works();
    fixture.report_all("Applied Available");
    fixture.settle();
    fixture.apply_strategy("{type: ReportDiff}");
    check(
        &mut fixture,
        expect!["DiffReported=False@3 DiffReportInProgress: Diff reporting on resources is in progress"],
    );
    fixture.report_work("web-0", "DiffReported");
    check(
        &mut fixture,
        expect![
            "DiffReported=False@3 NotAllWorkHaveDiffReported: Work object web-work has not yet completed diff reporting"
        ],
    );
    fixture.report_work("web-work", "DiffReported=False");
    fixture.of_manifest("web-work", "settings", |manifest| manifest.diff_details = Some(diff()));
    check(
        &mut fixture,
        expect!["DiffReported=False@3 NotAllWorkHaveDiffReported: Work object web-work has failed to report diff"],
    );
    fixture.report_work("web-work", "DiffReported");
    fixture.of_manifest("web-work", "settings", |manifest| manifest.diff_details = Some(diff()));
    check(
        &mut fixture,
        expect![[r#"
            DiffReported=True@3 AllWorkHaveDiffReported: All corresponding work objects have reported diff
            diffed ConfigMap shop/settings"#]],
    );
    assert_eq!(fixture.status().diffed_placements[0].observed_diffs, diff().observed_diffs);
    fixture.apply_strategy("{type: ClientSideApply}");
    check(&mut fixture, expect!["Applied=False@4 ApplyInProgress: Resources are being applied"]);
}

#[test]
fn placement_34_a_drift_that_stops_the_apply_is_listed_as_failed_and_drifted() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.settle();
    fixture.report_work("web-work", "Applied=False");
    fixture.of_manifest("web-work", "shop", |manifest| {
        manifest.conditions.clear();
        manifest.diff_details = Some(diff());
    });
    fixture.of_manifest("web-work", "settings", |manifest| manifest.drift_details = Some(drift()));
    check(
        &mut fixture,
        expect![[r#"
            Applied=False@2 NotAllWorkHaveBeenApplied: Work object web-work has failed to apply
            failed ConfigMap shop/settings
            drifted ConfigMap shop/settings
            diffed Namespace shop"#]],
    );
    assert_eq!(fixture.status().drifted_placements[0].target_cluster_observed_generation, 7);
    fixture.report_work("web-work", "Applied Available");
    fixture.of_manifest("web-work", "settings", |manifest| manifest.drift_details = Some(drift()));
    fixture.of_manifest("web-work", "shop", |manifest| manifest.diff_details = Some(diff()));
    check(
        &mut fixture,
        expect![[r#"
            Applied=True@2 AllWorkHaveBeenApplied: All corresponding work objects are applied
            Available=True@2 AllWorkAreAvailable: All corresponding work objects are available
            drifted ConfigMap shop/settings"#]],
    );
}

#[test]
fn placement_40_41_unavailable_resources_are_listed_until_they_are_available() {
    let mut fixture = ClusterWorld::with("web", &[bare("Deployment shop/web")]);
    fixture.settle();
    fixture.report_all("Applied Available=False");
    check(
        &mut fixture,
        expect![[r#"
            Applied=True@2 AllWorkHaveBeenApplied: All corresponding work objects are applied
            Available=False@2 NotAllWorkAreAvailable: Work object web-work is not yet available
            failed Deployment shop/web"#]],
    );
    assert_eq!(fixture.status().failed_placements[0].condition.type_, "Available");
    fixture.report_all("Applied Available");
    fixture.settle();
    assert_eq!(fixture.status().failed_placements, []);
}

#[test]
fn lists_are_sorted_and_cut_to_their_limit() {
    let many: Vec<EmbeddedObject> = (0..70).rev().map(|number| bare(&format!("ConfigMap shop/c{number:02}"))).collect();
    let wrapped = envelope("ResourceEnvelope shop/env", &many[..50]);
    let mut fixture = ClusterWorld::new("web");
    let mut main = many.clone();
    main.push(wrapped);
    fixture.freeze(0, &[&main]);
    fixture.bind(0);
    fixture.settle();
    fixture.report_all("Applied=False");
    fixture.settle();
    let failed = &fixture.status().failed_placements;
    assert_eq!(failed.len(), FINDINGS_PER_LIST);
    let text = |place: usize| super::render::resource_text(&failed[place].resource);
    expect!["ConfigMap shop/c00"].assert_eq(&text(0));
    expect!["ConfigMap shop/c20"].assert_eq(&text(20));
    expect!["ConfigMap shop/c20 in ResourceEnvelope shop/env"].assert_eq(&text(21));
    expect!["ConfigMap shop/c59 in ResourceEnvelope shop/env"].assert_eq(&text(99));
}

fn transition(fixture: &ClusterWorld, type_: &str) -> SignedDuration {
    let found = fixture.status().conditions.iter().find(|one| one.type_ == type_).unwrap();
    let start: jiff::Timestamp = super::fixture::START.parse().unwrap();
    found.last_transition_time.instant().duration_since(start)
}

#[test]
fn transition_times_stay_while_nothing_changes() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.settle();
    fixture.report_all("Applied Available=NotTrackable");
    fixture.settle();
    fixture.pass(100);
    fixture.of_manifest("web-work", "settings", |manifest| manifest.drift_details = Some(drift()));
    fixture.settle();
    assert_eq!(fixture.status().drifted_placements.len(), 1);
    assert_eq!(transition(&fixture, "Available"), SignedDuration::ZERO);
}

#[test]
fn new_content_restarts_waits_without_a_write_in_between() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.settle();
    fixture.report_all("Applied Available=NotTrackable");
    fixture.settle();
    fixture.pass(100);
    fixture.freeze(1, &[&[bare("ConfigMap shop/other")]]);
    fixture.bind(1);
    let plan = fixture.plan();
    assert!(plan.status.as_ref().unwrap().defer.is_some());
    for write in &plan.writes {
        fixture.write(write);
    }
    fixture.report_all("Applied Available=NotTrackable");
    fixture.settle();
    expect!["RolloutStarted=True Overridden=True WorkSynchronized=True Applied=True Available=True"]
        .assert_eq(&short_status(fixture.status()));
    assert_eq!(transition(&fixture, "Available"), SignedDuration::from_secs(100));
    assert_eq!(transition(&fixture, "Overridden"), SignedDuration::ZERO);
}

/// Executes plans as the runtime does: defers a deferrable status and replaces it with a newer one. Counts the writes.
fn writes_of_an_update(fixture: &mut ClusterWorld, member: &[&str]) -> (usize, usize) {
    let (mut works, mut statuses) = (0, 0);
    for words in member.iter().copied().map(Some).chain([None]) {
        let plan = fixture.plan();
        works += plan.writes.len();
        for write in &plan.writes {
            fixture.write(write);
        }
        if let Some(new) = plan.status.filter(|new| new.defer.is_none()) {
            statuses += 1;
            fixture.binding.status = Some(new.status);
        }
        if let Some(words) = words {
            fixture.report_all(words);
        }
    }
    assert!(fixture.plan().is_idle(), "{}", plan_text(&fixture.plan()));
    (works, statuses)
}

#[test]
fn an_update_costs_one_write_of_the_work_and_one_of_the_status() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.settle();
    fixture.report_all("Applied Available");
    fixture.settle();
    fixture.start = RolloutStart::ImpliedByBinding;
    fixture.freeze(1, &[&[bare("ConfigMap shop/other")]]);
    // The rollout writes only the binding's spec.
    fixture.change_binding(|binding| binding.spec.resource_snapshot_name = "web-1-snapshot".to_owned());
    let slow_start = ["Applied Available=False", "Applied Available=False", "Applied Available"];
    assert_eq!(writes_of_an_update(&mut fixture, &slow_start), (1, 1));
    expect!["RolloutStarted=True Overridden=True WorkSynchronized=True Applied=True Available=True"]
        .assert_eq(&short_status(fixture.status()));
    assert!(fixture.status().conditions.iter().all(|one| one.observed_generation == fixture.binding.generation()));
}

#[test]
fn the_annotation_of_a_staged_run_starts_the_rollout_for_one_generation() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.settle();
    fixture.report_all("Applied Available");
    fixture.settle();
    fixture.freeze(1, &[&[bare("ConfigMap shop/other")]]);
    let note = |binding: &mut fleet_api::kinds::ClusterResourceBinding, text: &str| {
        let notes = binding.metadata.annotations.get_or_insert_default();
        notes.insert(fleet_api::well_known::annotations::MOVED_BY_RUN.to_owned(), text.to_owned());
    };
    let next = fixture.binding.generation() + 1;
    fixture.change_binding(|binding| {
        binding.spec.resource_snapshot_name = "web-1-snapshot".to_owned();
        note(binding, &format!("1/run-a/{next}"));
    });
    assert_eq!(writes_of_an_update(&mut fixture, &["Applied Available=False", "Applied Available"]), (1, 1));
    let started = fixture.status().conditions.iter().find(|one| one.type_ == "RolloutStarted").unwrap().clone();
    assert!(started.message.ends_with("resourceSnapshotIndex: 1, updateRun: run-a"), "{started:?}");
    // The scheduler changes the binding: RolloutStarted is not set until the run renews its annotation.
    fixture.change_binding(|binding| binding.spec.scheduling_policy_snapshot_name = "web-1".to_owned());
    assert!(fixture.plan().is_idle(), "{}", plan_text(&fixture.plan()));
    let (generation, later) = (fixture.binding.generation(), fixture.now + jiff::SignedDuration::from_mins(1));
    fixture.now = later;
    note(&mut fixture.binding, &format!("/run-b/{generation}"));
    fixture.settle();
    let renewed = fixture.status().conditions.iter().find(|one| one.type_ == "RolloutStarted").unwrap().clone();
    assert!(renewed.message.ends_with("resourceSnapshotIndex: , updateRun: run-b"), "{renewed:?}");
    assert_ne!(renewed.last_transition_time, started.last_transition_time);
}

#[test]
fn a_first_placement_costs_no_more_if_the_binding_was_created_with_its_finalizer() {
    let mut fixture = ClusterWorld::with("web", &shop());
    fixture.binding.metadata.finalizers = Some(vec![fleet_api::well_known::finalizers::WORK.to_owned()]);
    fixture.binding.status = None;
    fixture.start = RolloutStart::ImpliedByBinding;
    assert_eq!(writes_of_an_update(&mut fixture, &["Applied", "Applied Available"]), (1, 1));
}
