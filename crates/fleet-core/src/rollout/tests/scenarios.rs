//! Acceptance scenarios of the placement specification for rollouts, by number.

use expect_test::expect;
use fleet_api::kinds::{Namespaced, Obj};

use super::fixture::{Fares, RolloutFixture, bump, snapshot, writes_text};
use crate::plan::Wake;
use crate::rollout::{
    BindingFacts, ClusterOverrides, ClusterPhase, Observed, PlacementFacts, RolloutOutcome, Wait, Write, plan,
};

const THREE_READY: &str = "c1 Bound @0 ready started\nc2 Bound @0 ready started\nc3 Bound @0 ready started";

/// Three clusters of which the first got a bad image and the others wait.
fn bad_image() -> RolloutFixture {
    let mut fixture = RolloutFixture::new("u=1", THREE_READY);
    let plan = fixture.run();
    expect![[r"
        c1 to web-1-snapshot
        c2 held back
        c3 held back"]]
    .assert_eq(&writes_text(&plan));
    fixture.report("c1", Fares::Applying);
    assert!(fixture.run().is_idle());
    fixture.report("c1", Fares::Failing);
    assert!(fixture.run().is_idle());
    fixture
}

#[test]
fn placement_29_scaled_to_zero_everything_is_removed() {
    let mut fixture = RolloutFixture::new("n=0", "c1 Bound @1 ready started\nc2 Bound @1 ready started");
    fixture.unschedule("c1 c2");
    expect![[r"
        c1 removed
        c2 removed"]]
    .assert_eq(&writes_text(&fixture.run()));
    fixture.clean_up();
    assert_eq!(fixture.run().report.outcome, RolloutOutcome::UpToDate);
}

#[test]
fn placement_33_an_apply_strategy_reaches_all_clusters_at_once() {
    let mut fixture = RolloutFixture::new(
        "u=1",
        "c1 Bound @1 ready started\nc2 Bound @1 ready started\nc3 Unscheduled @1 ready\nc4 Scheduled",
    );
    fixture.edit("u=1 apply=ReportDiff");
    expect![[r"
        c1 applies by ReportDiff
        c2 applies by ReportDiff
        c3 applies by ReportDiff
        c4 to web-1-snapshot
        c1 started
        c2 started"]]
    .assert_eq(&writes_text(&fixture.run()));
    fixture.report("c1 c2 c4", Fares::Diff);
    expect!["c3 removed"].assert_eq(&writes_text(&fixture.run()));
}

#[test]
fn placement_33_a_strategy_that_only_spells_out_defaults_is_no_change() {
    let mut fixture = RolloutFixture::new("u=1", "c1 Bound @1 ready started");
    fixture.bindings[0].spec.apply_strategy = None;
    assert!(fixture.run().is_idle());
}

#[test]
fn placement_33_new_content_waits_until_clusters_report_under_the_new_strategy() {
    let mut fixture = RolloutFixture::new("u=1", THREE_READY);
    fixture.edit("u=1 apply=ServerSideApply");
    expect![[r"
        c1 applies by ServerSideApply
        c2 applies by ServerSideApply
        c3 applies by ServerSideApply
        c1 held back
        c2 held back
        c3 held back"]]
    .assert_eq(&writes_text(&fixture.run()));
    fixture.report("c1 c2", Fares::Ready);
    expect!["c3 to web-1-snapshot"].assert_eq(&writes_text(&fixture.run()));
    fixture.report("c3", Fares::Ready);
    expect!["c1 to web-1-snapshot"].assert_eq(&writes_text(&fixture.run()));
}

#[test]
fn placement_33_an_edit_while_clusters_adopt_a_new_strategy_respects_max_unavailable() {
    let mut fixture = RolloutFixture::new("u=1", &THREE_READY.replace("@0", "@1"));
    fixture.edit("u=1 apply=ServerSideApply");
    drop(fixture.run());
    fixture.report("c1 c2 c3", Fares::Applying);
    fixture.latest = Some(2);
    expect![[r"
        c1 held back
        c2 held back
        c3 held back"]]
    .assert_eq(&writes_text(&fixture.run()));
    fixture.report("c1", Fares::Ready);
    assert!(fixture.run().is_idle());
    fixture.report("c2", Fares::Ready);
    expect!["c3 to web-2-snapshot"].assert_eq(&writes_text(&fixture.run()));
    fixture.report("c3", Fares::Ready);
    expect!["c1 to web-2-snapshot"].assert_eq(&writes_text(&fixture.run()));
}

#[test]
fn placement_40_a_bad_image_stops_at_one_cluster() {
    let fixture = bad_image();
    assert_eq!(fixture.plan().report.outcome, RolloutOutcome::Waiting { waiting: 2 });
}

#[test]
fn placement_41_a_fixed_image_goes_to_the_failed_cluster_at_once_and_then_one_by_one() {
    let mut fixture = bad_image();
    fixture.latest = Some(2);
    expect!["c1 to web-2-snapshot"].assert_eq(&writes_text(&fixture.run()));
    fixture.report("c1", Fares::Ready);
    expect!["c2 to web-2-snapshot"].assert_eq(&writes_text(&fixture.run()));
    fixture.report("c2", Fares::Applying);
    assert!(fixture.run().is_idle());
    fixture.report("c2", Fares::Ready);
    expect!["c3 to web-2-snapshot"].assert_eq(&writes_text(&fixture.run()));
    fixture.report("c3", Fares::Ready);
    assert_eq!(fixture.run().report.outcome, RolloutOutcome::UpToDate);
}

#[test]
fn placement_42_blocked_clusters_keep_a_snapshot_that_is_gone() {
    let mut fixture = bad_image();
    fixture.latest = Some(3);
    expect!["c1 to web-3-snapshot"].assert_eq(&writes_text(&fixture.run()));
    for cluster in ["c2", "c3"] {
        assert_eq!(fixture.named(&format!("web-{cluster}")).spec.resource_snapshot_name, "web-0-snapshot");
    }
    for cluster in ["c1", "c2", "c3"] {
        fixture.report(cluster, Fares::Ready);
        drop(fixture.run());
    }
    assert_eq!(fixture.run().report.outcome, RolloutOutcome::UpToDate);
}

#[test]
fn placement_43_untrackable_resources_roll_one_by_one_after_the_period() {
    let mut fixture = RolloutFixture::new("u=1 period=30", &THREE_READY.replace("ready", "untrackable"));
    fixture.latest = Some(0);
    fixture.pass(10);
    fixture.latest = Some(1);
    let plan = fixture.run();
    expect![[r"
        c1 held back
        c2 held back
        c3 held back"]]
    .assert_eq(&writes_text(&plan));
    assert_eq!(plan.wake, Wake::At("2026-11-15T12:00:30Z".parse().unwrap()));
    fixture.pass(19);
    assert!(fixture.run().is_idle());
    fixture.pass(1);
    expect!["c1 to web-1-snapshot"].assert_eq(&writes_text(&fixture.run()));
    fixture.pass(5);
    fixture.report("c1", Fares::Untrackable);
    let plan = fixture.run();
    assert!(plan.is_idle());
    assert_eq!(plan.wake, Wake::At("2026-11-15T12:01:05Z".parse().unwrap()));
    fixture.pass(30);
    expect!["c2 to web-1-snapshot"].assert_eq(&writes_text(&fixture.run()));
}

#[test]
fn last_02_an_untrackable_cluster_keeps_its_content_for_the_period_also_where_no_cluster_must_stay_ready() {
    for limits in ["fixed=c1 u=1 period=60", "fixed=c1 u=100% period=60", "u=100% period=60"] {
        let mut fixture = RolloutFixture::new(limits, "c1 Bound @0 untrackable started");
        fixture.pass(1);
        let plan = fixture.run();
        assert_eq!(writes_text(&plan), "c1 held back", "{limits}");
        assert_eq!(plan.wake, Wake::At("2026-11-15T12:01:00Z".parse().unwrap()), "{limits}");
        fixture.pass(58);
        assert!(fixture.run().is_idle(), "{limits}");
        fixture.pass(1);
        assert_eq!(writes_text(&fixture.run()), "c1 to web-1-snapshot", "{limits}");
    }
}

#[test]
fn placement_44_a_job_counts_as_ready_after_the_period_of_its_own_report() {
    let mut fixture = RolloutFixture::new("u=1 period=60", &THREE_READY.replace("ready", "untrackable"));
    fixture.pass(61);
    for next in ["c1 to web-1-snapshot", "c2 to web-1-snapshot", "c3 to web-1-snapshot"] {
        assert!(writes_text(&fixture.run()).contains(next));
        fixture.report(&next[..2], Fares::Untrackable);
        fixture.pass(59);
        assert!(fixture.run().is_idle());
        // A repeated report does not restart the wait.
        fixture.report(&next[..2], Fares::Untrackable);
        fixture.pass(1);
    }
    assert_eq!(fixture.run().report.outcome, RolloutOutcome::UpToDate);
}

#[test]
fn placement_45_another_cluster_starts_while_the_old_one_is_stuck() {
    let mut fixture = RolloutFixture::new("fixed=c2", "c1 Bound @1 ready started\nc2 Scheduled");
    fixture.unschedule("c1");
    expect![[r"
        c1 removed
        c2 to web-1-snapshot"]]
    .assert_eq(&writes_text(&fixture.run()));
    fixture.report("c2", Fares::Ready);
    assert_eq!(fixture.run().report.outcome, RolloutOutcome::UpToDate);
    fixture.clean_up();
    assert_eq!(fixture.run().report.outcome, RolloutOutcome::UpToDate);
}

#[test]
fn placement_46_a_cluster_picked_again_waits_until_its_old_binding_is_gone_and_blocks_no_other() {
    let mut fixture = RolloutFixture::new(
        "u=1",
        "c1 Unscheduled @1 ready deleting name=old
         c1 Scheduled
         c2 Scheduled",
    );
    expect!["c2 to web-1-snapshot"].assert_eq(&writes_text(&fixture.run()));
    fixture.clean_up();
    expect!["c1 to web-1-snapshot"].assert_eq(&writes_text(&fixture.run()));
}

#[test]
fn placement_47_a_third_cluster_starts_only_when_an_evicted_one_is_gone() {
    let mut fixture =
        RolloutFixture::new("n=2 s=0", "c1 Bound @1 ready started\nc2 Bound @1 silent started\nc3 Scheduled");
    expect!["c3 held back"].assert_eq(&writes_text(&fixture.run()));
    super::fixture::mark_deleting(fixture.named("web-c1"), "2026-11-15T12:00:00Z".parse().unwrap());
    assert!(fixture.run().is_idle());
    fixture.clean_up();
    expect!["c3 to web-1-snapshot"].assert_eq(&writes_text(&fixture.run()));
}

#[test]
fn placement_48_no_binding_moves_once_the_strategy_is_external() {
    let mut fixture =
        RolloutFixture::new("type=External", "c1 Bound @0 ready started\nc2 Scheduled\nc3 Unscheduled @0 ready");
    let plan = fixture.run();
    assert!(plan.is_idle());
    assert_eq!(plan.report.outcome, RolloutOutcome::ManagedByRuns);
}

#[test]
fn placement_49_clusters_that_left_are_removed_and_join_again() {
    let mut fixture = RolloutFixture::new("u=1", "c1 Bound @1 ready started\nc2 Bound @1 ready started");
    fixture.unschedule("c1 c2");
    expect![[r"
        c1 removed
        c2 removed"]]
    .assert_eq(&writes_text(&fixture.run()));
    fixture.clean_up();
    fixture.add("c1 Scheduled\nc2 Scheduled");
    expect![[r"
        c1 to web-1-snapshot
        c2 to web-1-snapshot"]]
    .assert_eq(&writes_text(&fixture.run()));
}

#[test]
fn placement_62_63_64_overrides_roll_out_although_resources_did_not_change() {
    let mut fixture = RolloutFixture::new("u=1", "c1 Bound @1 ready started\nc2 Bound @1 ready started");
    fixture.pin("c1", "limits-0");
    fixture.pin("c2", "limits-0");
    expect![[r"
        c1 to web-1-snapshot with limits-0
        c2 held back"]]
    .assert_eq(&writes_text(&fixture.run()));
    fixture.report("c1", Fares::Ready);
    expect!["c2 to web-1-snapshot with limits-0"].assert_eq(&writes_text(&fixture.run()));
    fixture.report("c2", Fares::Ready);
    assert_eq!(fixture.run().report.outcome, RolloutOutcome::UpToDate);

    fixture.pin("c1", "limits-1");
    fixture.pin("c2", "limits-1");
    expect![[r"
        c1 to web-1-snapshot with limits-1
        c2 held back"]]
    .assert_eq(&writes_text(&fixture.run()));
    fixture.report("c1", Fares::Ready);
    fixture.overrides.as_mut().unwrap().clear();
    expect!["c1 to web-1-snapshot\nc2 held back"].assert_eq(&writes_text(&{
        fixture.named("web-c2").status.as_mut().unwrap().conditions.retain(|one| one.type_ != "RolloutStarted");
        fixture.run()
    }));
    fixture.report("c1", Fares::Ready);
    expect!["c2 to web-1-snapshot"].assert_eq(&writes_text(&fixture.run()));
    assert_eq!(fixture.bindings[0].spec.cluster_resource_override_snapshots, None);
}

#[test]
fn placement_63_no_cluster_is_rolled_without_an_override_that_is_just_being_replaced() {
    let mut fixture =
        RolloutFixture::new("u=1", "c1 Bound @1 ready started cro=limits-0\nc2 Scheduled\nc3 Unscheduled @1 ready");
    fixture.overrides = None;
    expect!["c3 removed"].assert_eq(&writes_text(&fixture.run()));
    fixture.overrides = Some(std::collections::BTreeMap::default());
    fixture.pin("c1", "limits-1");
    fixture.pin("c2", "limits-1");
    expect![[r"
        c2 to web-1-snapshot with limits-1
        c1 held back"]]
    .assert_eq(&writes_text(&fixture.run()));
}

#[test]
fn placement_63_a_deleted_override_unblocks_waiting_clusters() {
    let mut fixture = RolloutFixture::new("u=0", "c1 Bound @1 ready started");
    fixture.pin("c1", "limits-0");
    expect!["c1 held back"].assert_eq(&writes_text(&fixture.run()));
    fixture.overrides.as_mut().unwrap().clear();
    expect!["c1 started"].assert_eq(&writes_text(&fixture.run()));
}

#[test]
fn placement_73_a_cluster_that_is_gone_blocks_only_itself() {
    let mut fixture = RolloutFixture::new("u=1", "c1 Bound @0 ready started\nc2 Bound @0 ready started");
    fixture.overrides.as_mut().unwrap().insert("c1".to_owned(), ClusterOverrides::ClusterGone);
    expect!["c2 to web-1-snapshot"].assert_eq(&writes_text(&fixture.run()));
}

#[test]
fn placement_61_bindings_of_clusters_that_left_are_abandoned_without_using_the_budget() {
    let mut fixture = RolloutFixture::new(
        "n=3 u=1",
        "c1 Bound @1 ready started\nc2 Bound @1 ready started\nc3 Bound @1 ready started",
    );
    fixture.unschedule("c1");
    fixture.unschedule("c2");
    let latest = snapshot(1);
    let mut observed = fixture.observe(Some(&latest));
    let removed = |observed: &Observed<'_>| {
        let writes = plan(observed, fixture.now).writes;
        writes.iter().filter(|write| matches!(write, Write::Remove { .. })).count()
    };
    assert_eq!(removed(&observed), 0, "as long as they are there, they may be what keeps the service up");
    for binding in &mut observed.bindings {
        *binding = binding.with_cluster_gone(binding.cluster != "c3");
    }
    assert_eq!(removed(&observed), 2);
}

#[test]
fn pl_r1_the_missing_cluster_consumes_max_unavailable() {
    let mut fixture = RolloutFixture::new("n=3", "c1 Bound @0 ready started\nc2 Bound @0 ready started");
    expect![[r"
        c1 held back
        c2 held back"]]
    .assert_eq(&writes_text(&fixture.run()));
    fixture.edit("n=3 u=2");
    expect!["c1 to web-1-snapshot"].assert_eq(&writes_text(&fixture.run()));
}

#[test]
fn a_revived_binding_continues_from_where_it_was() {
    let mut fixture = RolloutFixture::new("u=1", "c1 Bound @0 ready started\nc2 Bound @1 ready started");
    fixture.unschedule("c1");
    let binding = fixture.named("web-c1");
    binding.spec.state = fleet_api::types::BindingState::Bound;
    bump(binding);
    fixture.report("c1", Fares::Ready);
    expect!["c1 to web-1-snapshot"].assert_eq(&writes_text(&fixture.run()));
}

#[test]
fn namespaced_placements_are_observed_alike() {
    let fixture = RolloutFixture::new("n=1 delete=Abandon", "c1 Bound @0 ready");
    let placement = Obj::<fleet_api::kinds::Placement, Namespaced>::named("web", fixture.placement.spec.clone());
    assert!(PlacementFacts::of(&placement).abandons());
    let mut binding = Obj::<fleet_api::kinds::Binding, Namespaced>::named("web-c1", fixture.bindings[0].spec.clone());
    binding.metadata.generation = Some(7);
    let facts = BindingFacts::of(&binding);
    assert_eq!((facts.name, facts.cluster, facts.generation, facts.abandoned), ("web-c1", "c1", 7, false));
}

#[test]
fn audit_20_nothing_is_removed_before_the_scheduler_has_decided_for_the_latest_placement() {
    let mut fixture = RolloutFixture::new("fixed=c2,c3,c4 u=1", "c1 Unscheduled @1 ready started");
    assert!(fixture.run().is_idle(), "too few clusters are ready");
    fixture.edit("fixed=c1 u=1");
    fixture.scheduled = false;
    let plan = fixture.run();
    assert!(plan.is_idle(), "the scheduler may pick the cluster again");
    assert_eq!(plan.report.clusters[0].phase, ClusterPhase::Waiting(Wait::Scheduling));
    fixture.scheduled = true;
    expect!["c1 removed"].assert_eq(&writes_text(&fixture.run()));
}
