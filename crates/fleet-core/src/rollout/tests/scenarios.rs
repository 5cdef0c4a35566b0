//! Acceptance scenarios of the placement spec that concern rollouts, by number.

use expect_test::expect;
use fleet_api::kinds::{Namespaced, Obj};

use super::fixture::{Fares, World, bump, snapshot, writes_text};
use crate::plan::Wake;
use crate::rollout::{BindingFacts, ClusterOverrides, Observed, Outcome, PlacementFacts, Write, plan};

const THREE_READY: &str = "c1 Bound @0 ready started\nc2 Bound @0 ready started\nc3 Bound @0 ready started";

/// Three clusters of which the first got a bad image and the others wait.
fn bad_image() -> World {
    let mut world = World::new("u=1", THREE_READY);
    let plan = world.run();
    expect![[r"
        c1 to web-1-snapshot
        c2 held back
        c3 held back"]]
    .assert_eq(&writes_text(&plan));
    world.report("c1", Fares::Applying);
    assert!(world.run().is_idle());
    world.report("c1", Fares::Failing);
    assert!(world.run().is_idle());
    world
}

#[test]
fn placement_29_scaled_to_zero_everything_goes() {
    let mut world = World::new("n=0", "c1 Bound @1 ready started\nc2 Bound @1 ready started");
    world.unschedule("c1 c2");
    expect![[r"
        c1 removed
        c2 removed"]]
    .assert_eq(&writes_text(&world.run()));
    world.clean_up();
    assert_eq!(world.run().report.outcome, Outcome::UpToDate);
}

#[test]
fn placement_33_an_apply_strategy_reaches_all_clusters_at_once() {
    let mut world = World::new(
        "u=1",
        "c1 Bound @1 ready started\nc2 Bound @1 ready started\nc3 Unscheduled @1 ready\nc4 Scheduled",
    );
    world.edit("u=1 apply=ReportDiff");
    expect![[r"
        c1 applies by ReportDiff
        c2 applies by ReportDiff
        c3 applies by ReportDiff
        c4 to web-1-snapshot
        c1 started
        c2 started"]]
    .assert_eq(&writes_text(&world.run()));
    world.report("c1 c2 c4", Fares::Diff);
    expect!["c3 removed"].assert_eq(&writes_text(&world.run()));
}

#[test]
fn placement_33_a_strategy_that_only_spells_out_defaults_is_no_change() {
    let mut world = World::new("u=1", "c1 Bound @1 ready started");
    world.bindings[0].spec.apply_strategy = None;
    assert!(world.run().is_idle());
}

#[test]
fn placement_33_new_content_waits_until_clusters_report_under_the_new_strategy() {
    let mut world = World::new("u=1", THREE_READY);
    world.edit("u=1 apply=ServerSideApply");
    expect![[r"
        c1 applies by ServerSideApply
        c2 applies by ServerSideApply
        c3 applies by ServerSideApply
        c1 held back
        c2 held back
        c3 held back"]]
    .assert_eq(&writes_text(&world.run()));
    world.report("c1 c2", Fares::Ready);
    expect!["c3 to web-1-snapshot"].assert_eq(&writes_text(&world.run()));
    world.report("c3", Fares::Ready);
    expect!["c1 to web-1-snapshot"].assert_eq(&writes_text(&world.run()));
}

#[test]
fn placement_33_an_edit_while_clusters_take_over_a_new_strategy_reaches_no_more_than_may_be_unavailable() {
    let mut world = World::new("u=1", &THREE_READY.replace("@0", "@1"));
    world.edit("u=1 apply=ServerSideApply");
    drop(world.run());
    world.report("c1 c2 c3", Fares::Applying);
    world.latest = Some(2);
    expect![[r"
        c1 held back
        c2 held back
        c3 held back"]]
    .assert_eq(&writes_text(&world.run()));
    world.report("c1", Fares::Ready);
    assert!(world.run().is_idle());
    world.report("c2", Fares::Ready);
    expect!["c3 to web-2-snapshot"].assert_eq(&writes_text(&world.run()));
    world.report("c3", Fares::Ready);
    expect!["c1 to web-2-snapshot"].assert_eq(&writes_text(&world.run()));
}

#[test]
fn placement_40_a_bad_image_stops_at_one_cluster() {
    let world = bad_image();
    assert_eq!(world.plan().report.outcome, Outcome::Waiting { waiting: 2 });
}

#[test]
fn placement_41_a_fixed_image_goes_to_the_failed_cluster_at_once_and_then_one_by_one() {
    let mut world = bad_image();
    world.latest = Some(2);
    expect!["c1 to web-2-snapshot"].assert_eq(&writes_text(&world.run()));
    world.report("c1", Fares::Ready);
    expect!["c2 to web-2-snapshot"].assert_eq(&writes_text(&world.run()));
    world.report("c2", Fares::Applying);
    assert!(world.run().is_idle());
    world.report("c2", Fares::Ready);
    expect!["c3 to web-2-snapshot"].assert_eq(&writes_text(&world.run()));
    world.report("c3", Fares::Ready);
    assert_eq!(world.run().report.outcome, Outcome::UpToDate);
}

#[test]
fn placement_42_blocked_clusters_keep_a_snapshot_that_is_gone() {
    let mut world = bad_image();
    world.latest = Some(3);
    expect!["c1 to web-3-snapshot"].assert_eq(&writes_text(&world.run()));
    for cluster in ["c2", "c3"] {
        assert_eq!(world.named(&format!("web-{cluster}")).spec.resource_snapshot_name, "web-0-snapshot");
    }
    for cluster in ["c1", "c2", "c3"] {
        world.report(cluster, Fares::Ready);
        drop(world.run());
    }
    assert_eq!(world.run().report.outcome, Outcome::UpToDate);
}

#[test]
fn placement_43_untrackable_resources_roll_one_by_one_after_the_period() {
    let mut world = World::new("u=1 period=30", &THREE_READY.replace("ready", "untrackable"));
    world.latest = Some(0);
    world.pass(10);
    world.latest = Some(1);
    let plan = world.run();
    expect![[r"
        c1 held back
        c2 held back
        c3 held back"]]
    .assert_eq(&writes_text(&plan));
    assert_eq!(plan.wake, Wake::At("2026-11-15T12:00:30Z".parse().unwrap()));
    world.pass(19);
    assert!(world.run().is_idle());
    world.pass(1);
    expect!["c1 to web-1-snapshot"].assert_eq(&writes_text(&world.run()));
    world.pass(5);
    world.report("c1", Fares::Untrackable);
    let plan = world.run();
    assert!(plan.is_idle());
    assert_eq!(plan.wake, Wake::At("2026-11-15T12:01:05Z".parse().unwrap()));
    world.pass(30);
    expect!["c2 to web-1-snapshot"].assert_eq(&writes_text(&world.run()));
}

#[test]
fn placement_44_a_job_counts_as_ready_after_the_period_of_its_own_report() {
    let mut world = World::new("u=1 period=60", &THREE_READY.replace("ready", "untrackable"));
    world.pass(61);
    for next in ["c1 to web-1-snapshot", "c2 to web-1-snapshot", "c3 to web-1-snapshot"] {
        assert!(writes_text(&world.run()).contains(next));
        world.report(&next[..2], Fares::Untrackable);
        world.pass(59);
        assert!(world.run().is_idle());
        // A report that says the same again does not start the wait anew.
        world.report(&next[..2], Fares::Untrackable);
        world.pass(1);
    }
    assert_eq!(world.run().report.outcome, Outcome::UpToDate);
}

#[test]
fn placement_45_another_cluster_starts_while_the_old_one_is_stuck() {
    let mut world = World::new("fixed=c2", "c1 Bound @1 ready started\nc2 Scheduled");
    world.unschedule("c1");
    expect![[r"
        c1 removed
        c2 to web-1-snapshot"]]
    .assert_eq(&writes_text(&world.run()));
    world.report("c2", Fares::Ready);
    assert_eq!(world.run().report.outcome, Outcome::UpToDate);
    world.clean_up();
    assert_eq!(world.run().report.outcome, Outcome::UpToDate);
}

#[test]
fn placement_46_a_cluster_picked_again_waits_until_its_old_binding_is_gone_and_holds_up_nobody() {
    let mut world = World::new(
        "u=1",
        "c1 Unscheduled @1 ready deleting name=old
         c1 Scheduled
         c2 Scheduled",
    );
    expect!["c2 to web-1-snapshot"].assert_eq(&writes_text(&world.run()));
    world.clean_up();
    expect!["c1 to web-1-snapshot"].assert_eq(&writes_text(&world.run()));
}

#[test]
fn placement_47_a_third_cluster_starts_only_when_an_evicted_one_is_gone() {
    let mut world = World::new("n=2 s=0", "c1 Bound @1 ready started\nc2 Bound @1 silent started\nc3 Scheduled");
    expect!["c3 held back"].assert_eq(&writes_text(&world.run()));
    super::fixture::mark_deleting(world.named("web-c1"), "2026-11-15T12:00:00Z".parse().unwrap());
    assert!(world.run().is_idle());
    world.clean_up();
    expect!["c3 to web-1-snapshot"].assert_eq(&writes_text(&world.run()));
}

#[test]
fn placement_48_nothing_moves_once_runs_have_taken_over() {
    let mut world = World::new("type=External", "c1 Bound @0 ready started\nc2 Scheduled\nc3 Unscheduled @0 ready");
    let plan = world.run();
    assert!(plan.is_idle());
    assert_eq!(plan.report.outcome, Outcome::LeftToRuns);
}

#[test]
fn placement_49_clusters_that_left_are_let_go_and_join_again() {
    let mut world = World::new("u=1", "c1 Bound @1 ready started\nc2 Bound @1 ready started");
    world.unschedule("c1 c2");
    expect![[r"
        c1 removed
        c2 removed"]]
    .assert_eq(&writes_text(&world.run()));
    world.clean_up();
    world.add("c1 Scheduled\nc2 Scheduled");
    expect![[r"
        c1 to web-1-snapshot
        c2 to web-1-snapshot"]]
    .assert_eq(&writes_text(&world.run()));
}

#[test]
fn placement_62_63_64_overrides_roll_out_although_resources_did_not_change() {
    let mut world = World::new("u=1", "c1 Bound @1 ready started\nc2 Bound @1 ready started");
    world.pin("c1", "limits-0");
    world.pin("c2", "limits-0");
    expect![[r"
        c1 to web-1-snapshot with limits-0
        c2 held back"]]
    .assert_eq(&writes_text(&world.run()));
    world.report("c1", Fares::Ready);
    expect!["c2 to web-1-snapshot with limits-0"].assert_eq(&writes_text(&world.run()));
    world.report("c2", Fares::Ready);
    assert_eq!(world.run().report.outcome, Outcome::UpToDate);

    world.pin("c1", "limits-1");
    world.pin("c2", "limits-1");
    expect![[r"
        c1 to web-1-snapshot with limits-1
        c2 held back"]]
    .assert_eq(&writes_text(&world.run()));
    world.report("c1", Fares::Ready);
    world.overrides.as_mut().unwrap().clear();
    expect!["c1 to web-1-snapshot\nc2 held back"].assert_eq(&writes_text(&{
        world.named("web-c2").status.as_mut().unwrap().conditions.retain(|one| one.type_ != "RolloutStarted");
        world.run()
    }));
    world.report("c1", Fares::Ready);
    expect!["c2 to web-1-snapshot"].assert_eq(&writes_text(&world.run()));
    assert_eq!(world.bindings[0].spec.cluster_resource_override_snapshots, None);
}

#[test]
fn placement_63_no_cluster_is_rolled_without_an_override_that_is_just_being_replaced() {
    let mut world = World::new("u=1", "c1 Bound @1 ready started cro=limits-0\nc2 Scheduled\nc3 Unscheduled @1 ready");
    world.overrides = None;
    expect!["c3 removed"].assert_eq(&writes_text(&world.run()));
    world.overrides = Some(std::collections::BTreeMap::default());
    world.pin("c1", "limits-1");
    world.pin("c2", "limits-1");
    expect![[r"
        c2 to web-1-snapshot with limits-1
        c1 held back"]]
    .assert_eq(&writes_text(&world.run()));
}

#[test]
fn placement_63_an_override_that_is_taken_back_releases_whoever_was_held() {
    let mut world = World::new("u=0", "c1 Bound @1 ready started");
    world.pin("c1", "limits-0");
    expect!["c1 held back"].assert_eq(&writes_text(&world.run()));
    world.overrides.as_mut().unwrap().clear();
    expect!["c1 started"].assert_eq(&writes_text(&world.run()));
}

#[test]
fn placement_73_a_cluster_that_is_gone_holds_up_nobody_but_itself() {
    let mut world = World::new("u=1", "c1 Bound @0 ready started\nc2 Bound @0 ready started");
    world.overrides.as_mut().unwrap().insert("c1".to_owned(), ClusterOverrides::ClusterGone);
    expect!["c2 to web-1-snapshot"].assert_eq(&writes_text(&world.run()));
}

#[test]
fn placement_61_what_is_on_clusters_that_left_the_fleet_is_given_up_without_a_charge() {
    let mut world =
        World::new("n=3 u=1", "c1 Bound @1 ready started\nc2 Bound @1 ready started\nc3 Bound @1 ready started");
    world.unschedule("c1");
    world.unschedule("c2");
    let latest = snapshot(1);
    let mut observed = world.observe(Some(&latest));
    let removed = |observed: &Observed<'_>| {
        let writes = plan(observed, world.now).writes;
        writes.iter().filter(|write| matches!(write, Write::Remove { .. })).count()
    };
    assert_eq!(removed(&observed), 0, "as long as they are there, they may be what keeps the service up");
    for binding in &mut observed.bindings {
        *binding = binding.gone_if(binding.cluster != "c3");
    }
    assert_eq!(removed(&observed), 2);
}

#[test]
fn pl_r1_the_missing_cluster_consumes_max_unavailable() {
    let mut world = World::new("n=3", "c1 Bound @0 ready started\nc2 Bound @0 ready started");
    expect![[r"
        c1 held back
        c2 held back"]]
    .assert_eq(&writes_text(&world.run()));
    world.edit("n=3 u=2");
    expect!["c1 to web-1-snapshot"].assert_eq(&writes_text(&world.run()));
}

#[test]
fn a_revived_binding_goes_on_from_where_it_was() {
    let mut world = World::new("u=1", "c1 Bound @0 ready started\nc2 Bound @1 ready started");
    world.unschedule("c1");
    let binding = world.named("web-c1");
    binding.spec.state = fleet_api::types::BindingState::Bound;
    bump(binding);
    world.report("c1", Fares::Ready);
    expect!["c1 to web-1-snapshot"].assert_eq(&writes_text(&world.run()));
}

#[test]
fn namespaced_placements_give_the_same_facts() {
    let world = World::new("n=1 delete=Abandon", "c1 Bound @0 ready");
    let placement = Obj::<fleet_api::kinds::Placement, Namespaced>::named("web", world.placement.spec.clone());
    assert!(PlacementFacts::of(&placement).abandons());
    let mut binding = Obj::<fleet_api::kinds::Binding, Namespaced>::named("web-c1", world.bindings[0].spec.clone());
    binding.metadata.generation = Some(7);
    let facts = BindingFacts::of(&binding);
    assert_eq!((facts.name, facts.cluster, facts.generation, facts.abandoned), ("web-c1", "c1", 7, false));
}
