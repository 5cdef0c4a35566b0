//! Troubleshooting entries and acceptance scenarios of evictions, by their ids.

use expect_test::{Expect, expect};
use fleet_api::conditions::eviction::EvictionExecuted;
use fleet_api::well_known::annotations;

use super::fixture::{EvictionFixture, THREE_READY, budget, status_text, writes_text};
use crate::eviction::{Report, Verdict, verdict};
use crate::rollout::tests::fixture::{Fares, mark_deleting};

fn check(fixture: &mut EvictionFixture, expected: Expect) {
    let plan = fixture.run(0);
    let lines = [writes_text(&plan), status_text(fixture.evictions[0].status.as_ref().unwrap())];
    expected.assert_eq(lines.join("\n").trim_start());
}

fn message(fixture: &mut EvictionFixture) -> String {
    drop(fixture.run(0));
    status_text(fixture.evictions[0].status.as_ref().unwrap()).lines().last().unwrap().to_owned()
}

#[test]
fn ev_1_the_placement_is_missing() {
    let mut fixture = EvictionFixture::new("", "");
    fixture.placement_exists = false;
    check(
        &mut fixture,
        expect![[r"
            Valid=False ClusterResourcePlacementEvictionInvalid @1
            Failed to find ClusterResourcePlacement targeted by eviction"]],
    );
    assert!(matches!(verdict(&fixture.evictions[0]), Verdict::NothingToEvict { .. }));
}

#[test]
fn ev_2_the_placement_is_being_deleted() {
    let mut fixture = EvictionFixture::new("fixed=c1", "");
    fixture.placed.placement.metadata.deletion_timestamp =
        Some(serde_json::from_value(serde_json::json!(fixture.placed.now)).unwrap());
    check(
        &mut fixture,
        expect![[r"
            Valid=False ClusterResourcePlacementEvictionInvalid @1
            Found deleting ClusterResourcePlacement targeted by eviction"]],
    );
}

#[test]
fn ev_3_no_binding_targets_the_cluster() {
    check(
        &mut EvictionFixture::new("", "c2 Bound @1 ready"),
        expect![[r"
            Valid=False ClusterResourcePlacementEvictionInvalid @1
            Failed to find scheduler decision for placement in cluster targeted by eviction"]],
    );
}

#[test]
fn ev_4_two_bindings_target_the_cluster() {
    let mut fixture = EvictionFixture::new("", "c1 Bound @1 ready deleting name=old\nc1 Scheduled");
    check(
        &mut fixture,
        expect![[r"
            Valid=False ClusterResourcePlacementEvictionInvalid @1
            Found more than one scheduler decision for placement in cluster targeted by eviction"]],
    );
    assert!(matches!(verdict(&fixture.evictions[0]), Verdict::Invalid { .. }));
}

#[test]
fn ev_5_scheduling_45_a_placement_that_names_its_clusters_is_not_evicted() {
    check(
        &mut EvictionFixture::new("fixed=c1", "c1 Bound @1 ready"),
        expect![[r"
            Valid=False ClusterResourcePlacementEvictionInvalid @1
            Found ClusterResourcePlacement with PickFixed placement type targeted by eviction"]],
    );
}

#[test]
fn ev_6_scheduling_47_a_binding_without_a_rollout_is_not_evicted() {
    let mut fixture = EvictionFixture::new("", "c1 Scheduled");
    check(
        &mut fixture,
        expect![[r"
            Valid=True ClusterResourcePlacementEvictionValid @1
            Executed=False ClusterResourcePlacementEvictionNotExecuted @1
            Eviction is blocked, placement has not propagated resources to target cluster yet"]],
    );
    assert!(matches!(verdict(&fixture.evictions[0]), Verdict::Blocked { .. }));
}

#[test]
fn ev_6_an_unscheduled_binding_counts_by_its_previous_state() {
    let mut fixture = EvictionFixture::new("", "c1 Unscheduled");
    assert!(message(&mut fixture).contains("has not propagated"));
    let mut fixture = EvictionFixture::new("", "c1 Unscheduled @1 ready");
    let before = [(annotations::PREVIOUS_BINDING_STATE.to_owned(), "Bound".to_owned())];
    fixture.placed.bindings[0].metadata.annotations = Some(before.into());
    assert_eq!(message(&mut fixture), EvictionExecuted::NoBudget.to_string());
}

#[test]
fn ev_7_a_pick_all_placement_needs_an_absolute_min_available() {
    for words in ["u=1", "u=100%", "min=50%"] {
        let mut fixture = EvictionFixture::new("", THREE_READY);
        fixture.budget = Some(budget(words));
        check(
            &mut fixture,
            expect![[r"
                Valid=True ClusterResourcePlacementEvictionValid @1
                Executed=False ClusterResourcePlacementEvictionNotExecuted @1
                Eviction is blocked by misconfigured ClusterResourcePlacementDisruptionBudget, either MaxUnavailable is specified or MinAvailable is specified as a percentage for PickAll ClusterResourcePlacement"]],
        );
    }
}

#[test]
fn ev_8_scheduling_43_a_budget_blocks_at_its_minimum() {
    let mut fixture = EvictionFixture::new("", THREE_READY);
    fixture.budget = Some(budget("min=3"));
    check(
        &mut fixture,
        expect![[r"
            Valid=True ClusterResourcePlacementEvictionValid @1
            Executed=False ClusterResourcePlacementEvictionNotExecuted @1
            Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 3, totalPlacements: 3"]],
    );
    let mut fixture = EvictionFixture::new("", THREE_READY);
    fixture.budget = Some(budget("min=2"));
    check(
        &mut fixture,
        expect![[r"
            evict-0 begun
            web-c1 deleted
            Valid=True ClusterResourcePlacementEvictionValid @1
            Executed=True ClusterResourcePlacementEvictionExecuted @1
            Eviction is allowed by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 3, totalPlacements: 3"]],
    );
}

#[test]
fn ev_9_scheduling_41_without_a_budget_every_eviction_is_allowed() {
    let mut fixture = EvictionFixture::new("", THREE_READY);
    check(
        &mut fixture,
        expect![[r"
            evict-0 begun
            web-c1 deleted
            Valid=True ClusterResourcePlacementEvictionValid @1
            Executed=True ClusterResourcePlacementEvictionExecuted @1
            Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified"]],
    );
    assert!(matches!(verdict(&fixture.evictions[0]), Verdict::Executed { .. }));
}

#[test]
fn ev_9_a_binding_that_is_already_being_deleted_is_reported_as_executed() {
    let mut fixture = EvictionFixture::new("", "c1 Bound @1 ready deleting");
    fixture.budget = Some(budget("min=9"));
    check(
        &mut fixture,
        expect![[r"
            Valid=True ClusterResourcePlacementEvictionValid @1
            Executed=True ClusterResourcePlacementEvictionExecuted @1
            Eviction is allowed, resources propagated by placement is currently being removed from cluster targeted by eviction"]],
    );
}

#[test]
fn ev_9_failed_and_diff_only_clusters_use_no_budget() {
    for fares in ["failing", "applying", "override-failed", "diff", "diff-failing"] {
        let mut fixture = EvictionFixture::new("", &format!("c1 Bound @1 {fares}\nc2 Bound @1 ready"));
        fixture.budget = Some(budget("min=9"));
        assert_eq!(message(&mut fixture), EvictionExecuted::PlacementFailed.to_string(), "{fares}");
    }
}

#[test]
fn scheduling_42_a_cluster_that_is_picked_again_may_be_evicted_again() {
    let mut fixture = EvictionFixture::new("", THREE_READY);
    drop(fixture.run(0));
    fixture.placed.clean_up();
    fixture.placed.add("c1 Bound @1 silent");
    let again = fixture.evict("c1");
    assert!(matches!(fixture.run(again).report, Report::Executed(EvictionExecuted::NoBudget)));
}

#[test]
fn scheduling_44_limits_are_rounded_up() {
    let table = [
        ("u=0", false),
        ("u=0%", false),
        ("u=1", true),
        ("u=33%", true),
        ("min=3", false),
        ("min=100%", false),
        ("min=2", true),
        ("min=66%", true),
        ("min=67%", false),
        ("", false),
        ("min=some", false),
    ];
    for (words, allowed) in table {
        let mut fixture = EvictionFixture::new("n=3", THREE_READY);
        fixture.budget = Some(budget(words));
        let report = fixture.run(0).report;
        assert_eq!(matches!(report, Report::Executed(_)), allowed, "{words}: {report:?}");
    }
}

#[test]
fn scheduling_44_clusters_that_are_missing_or_not_available_count() {
    for (bindings, allowed) in [
        ("c1 Bound @1 ready\nc2 Bound @1 ready\nc3 Bound @1 failing", false),
        ("c1 Bound @1 ready\nc2 Bound @1 ready\nc3 Scheduled", false),
        ("c1 Bound @1 ready\nc2 Bound @1 ready\nc3 Bound @1 untrackable", true),
        ("c1 Bound @1 silent\nc2 Bound @1 ready\nc3 Bound @1 ready", false),
        ("c1 Bound @1 ready\nc2 Bound @1 ready\nc3 Bound @1 ready deleting", false),
    ] {
        let mut fixture = EvictionFixture::new("n=3", bindings);
        fixture.budget = Some(budget("u=1"));
        assert_eq!(matches!(fixture.run(0).report, Report::Executed(_)), allowed, "{bindings}");
    }
}

#[test]
fn scheduling_46_a_blocked_eviction_is_final() {
    let mut fixture = EvictionFixture::new("n=3", THREE_READY);
    fixture.budget = Some(budget("u=0"));
    drop(fixture.run(0));
    fixture.budget = None;
    let plan = fixture.run(0);
    assert!(plan.is_idle());
    assert!(matches!(plan.report, Report::Decided(Verdict::Blocked { .. })));
    let again = fixture.evict("c1");
    assert!(matches!(fixture.run(again).report, Report::Executed(_)));
}

#[test]
fn an_invalid_eviction_is_final() {
    let mut fixture = EvictionFixture::new("", "");
    drop(fixture.run(0));
    fixture.placed.add(THREE_READY);
    assert!(fixture.run(0).is_idle());
}

#[test]
fn a_deleted_eviction_evicts_nothing() {
    let mut fixture = EvictionFixture::new("", THREE_READY);
    fixture.evictions[0].metadata.deletion_timestamp =
        Some(serde_json::from_value(serde_json::json!(fixture.placed.now)).unwrap());
    let plan = fixture.run(0);
    assert!(plan.is_idle());
    assert_eq!(plan.report, Report::Withdrawn);
}

/// The state after a crash between the deletion and its record.
fn cut_short() -> EvictionFixture {
    let mut fixture = EvictionFixture::new("", THREE_READY);
    let plan = fixture.plan(0);
    plan.writes.iter().for_each(|write| fixture.write(write));
    assert_eq!(verdict(&fixture.evictions[0]), Verdict::Pending);
    fixture
}

/// What may happen after a crash between the deletion and its record.
fn sequels(fixture: &EvictionFixture) -> [EvictionFixture; 5] {
    let [mut gone, mut replaced, mut without_placement] = [fixture.clone(), fixture.clone(), fixture.clone()];
    gone.placed.clean_up();
    replaced.placed.add("c1 Scheduled name=new");
    let mut succeeded = replaced.clone();
    succeeded.placed.clean_up();
    without_placement.placement_exists = false;
    [fixture.clone(), gone, replaced, succeeded, without_placement]
}

#[test]
fn audit_20_an_interrupted_eviction_reports_why_it_was_allowed() {
    for fixture in &mut sequels(&cut_short()) {
        assert_eq!(message(fixture), EvictionExecuted::NoBudget.to_string());
    }
    let mut failed = EvictionFixture::new("", "c1 Bound @1 failing\nc2 Bound @1 ready");
    let plan = failed.plan(0);
    plan.writes.iter().for_each(|write| failed.write(write));
    failed.placed.clean_up();
    assert_eq!(message(&mut failed), EvictionExecuted::PlacementFailed.to_string());
    let mut budgeted = EvictionFixture::new("n=3", THREE_READY);
    budgeted.budget = Some(budget("u=1"));
    let plan = budgeted.plan(0);
    plan.writes.iter().for_each(|write| budgeted.write(write));
    budgeted.budget = None;
    assert_eq!(message(&mut budgeted), EvictionExecuted::AllowedByBudget { available: 3, total: 3 }.to_string());
}

#[test]
fn an_eviction_whose_reason_was_not_recorded_is_reported_as_executed() {
    let mut fixture = cut_short();
    let annotations = fixture.evictions[0].metadata.annotations.get_or_insert_default();
    annotations.remove(annotations::EVICTION_ALLOWED_BY);
    for fixture in &mut sequels(&fixture) {
        assert_eq!(message(fixture), EvictionExecuted::AlreadyBeingRemoved.to_string());
    }
}

#[test]
fn an_eviction_that_is_allowed_for_another_reason_than_recorded_is_recorded_again() {
    let mut fixture = EvictionFixture::new("", THREE_READY);
    let plan = fixture.plan(0);
    fixture.write(&plan.writes[0]);
    fixture.placed.report("c1", Fares::Failing);
    let plan = fixture.plan(0);
    assert_eq!(writes_text(&plan), "evict-0 begun\nweb-c1 deleted");
    plan.writes.iter().for_each(|write| fixture.write(write));
    assert_eq!(message(&mut fixture), EvictionExecuted::PlacementFailed.to_string());
}

#[test]
fn last_09_an_interrupted_eviction_deletes_no_second_binding() {
    let mut again = cut_short();
    again.placed.clean_up();
    again.placed.add("c1 Bound @1 ready name=new");
    again.placed.named("new").metadata.uid = Some("second".to_owned());
    let at = |text: &str| Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(text.parse().unwrap()));
    // Both within one second: only the uid distinguishes the two bindings.
    again.evictions[0].metadata.creation_timestamp = at("2026-01-01T00:00:05Z");
    again.placed.named("new").metadata.creation_timestamp = at("2026-01-01T00:00:05Z");
    let plan = again.run(0);
    assert_eq!(plan.report, Report::Executed(EvictionExecuted::NoBudget));
    assert_eq!(writes_text(&plan), "");
}

#[test]
fn last_09_an_eviction_interrupted_before_the_deletion_deletes_the_recorded_binding() {
    let mut fixture = EvictionFixture::new("", THREE_READY);
    let begun = fixture.plan(0).writes[0].clone();
    fixture.write(&begun);
    assert_eq!(writes_text(&fixture.run(0)), "web-c1 deleted");
}

#[test]
fn an_eviction_that_was_interrupted_before_the_deletion_is_decided_again() {
    let mut fixture = EvictionFixture::new("n=3", THREE_READY);
    fixture.budget = Some(budget("u=1"));
    let plan = fixture.plan(0);
    fixture.write(&plan.writes[0]);
    fixture.placed.report("c2", Fares::Failing);
    let plan = fixture.run(0);
    assert_eq!(plan.report, Report::Blocked(EvictionExecuted::BlockedByBudget { available: 2, total: 3 }));
    assert_eq!(writes_text(&plan), "");
}

#[test]
fn a_deleted_binding_is_not_available_even_if_its_generation_did_not_change() {
    let mut fixture = EvictionFixture::new("n=3", THREE_READY);
    let now = fixture.placed.now;
    mark_deleting(fixture.placed.named("web-c2"), now);
    fixture.placed.report("c2", Fares::Ready);
    fixture.budget = Some(budget("u=1"));
    assert_eq!(fixture.run(0).report, Report::Blocked(EvictionExecuted::BlockedByBudget { available: 2, total: 3 }));
}
