//! Troubleshooting entries and acceptance scenarios of evictions, by their ids.

use expect_test::{Expect, expect};
use fleet_api::conditions::eviction::EvictionExecuted;
use fleet_api::well_known::annotations;

use super::fixture::{THREE_READY, World, budget, status_text, writes_text};
use crate::eviction::{Observed, Report, Verdict, plan, verdict};
use crate::rollout::tests::fixture::{Fares, mark_deleting};

fn check(world: &mut World, expected: Expect) {
    let plan = world.run(0);
    let lines = [writes_text(&plan), status_text(world.evictions[0].status.as_ref().unwrap())];
    expected.assert_eq(lines.join("\n").trim_start());
}

fn message(world: &mut World) -> String {
    drop(world.run(0));
    status_text(world.evictions[0].status.as_ref().unwrap()).lines().last().unwrap().to_owned()
}

#[test]
fn ev_1_the_placement_is_missing() {
    let mut world = World::new("", "");
    world.placement_exists = false;
    check(
        &mut world,
        expect![[r"
            Valid=False ClusterResourcePlacementEvictionInvalid @1
            Failed to find ClusterResourcePlacement targeted by eviction"]],
    );
    assert!(matches!(verdict(&world.evictions[0]), Verdict::NothingThere { .. }));
}

#[test]
fn ev_2_the_placement_is_being_deleted() {
    let mut world = World::new("fixed=c1", "");
    world.placed.placement.metadata.deletion_timestamp =
        Some(serde_json::from_value(serde_json::json!(world.placed.now)).unwrap());
    check(
        &mut world,
        expect![[r"
            Valid=False ClusterResourcePlacementEvictionInvalid @1
            Found deleting ClusterResourcePlacement targeted by eviction"]],
    );
}

#[test]
fn ev_3_no_binding_targets_the_cluster() {
    check(
        &mut World::new("", "c2 Bound @1 ready"),
        expect![[r"
            Valid=False ClusterResourcePlacementEvictionInvalid @1
            Failed to find scheduler decision for placement in cluster targeted by eviction"]],
    );
}

#[test]
fn ev_4_two_bindings_target_the_cluster() {
    let mut world = World::new("", "c1 Bound @1 ready deleting name=old\nc1 Scheduled");
    check(
        &mut world,
        expect![[r"
            Valid=False ClusterResourcePlacementEvictionInvalid @1
            Found more than one scheduler decision for placement in cluster targeted by eviction"]],
    );
    assert!(matches!(verdict(&world.evictions[0]), Verdict::Invalid { .. }));
}

#[test]
fn ev_5_scheduling_45_a_placement_that_names_its_clusters_is_not_evicted() {
    check(
        &mut World::new("fixed=c1", "c1 Bound @1 ready"),
        expect![[r"
            Valid=False ClusterResourcePlacementEvictionInvalid @1
            Found ClusterResourcePlacement with PickFixed placement type targeted by eviction"]],
    );
}

#[test]
fn ev_6_scheduling_47_nothing_was_placed_yet() {
    let mut world = World::new("", "c1 Scheduled");
    check(
        &mut world,
        expect![[r"
            Valid=True ClusterResourcePlacementEvictionValid @1
            Executed=False ClusterResourcePlacementEvictionNotExecuted @1
            Eviction is blocked, placement has not propagated resources to target cluster yet"]],
    );
    assert!(matches!(verdict(&world.evictions[0]), Verdict::Blocked { .. }));
}

#[test]
fn ev_6_what_was_given_up_counts_by_what_it_was_before() {
    let mut world = World::new("", "c1 Unscheduled");
    assert!(message(&mut world).contains("has not propagated"));
    let mut world = World::new("", "c1 Unscheduled @1 ready");
    let before = [(annotations::PREVIOUS_BINDING_STATE.to_owned(), "Bound".to_owned())];
    world.placed.bindings[0].metadata.annotations = Some(before.into());
    assert_eq!(message(&mut world), EvictionExecuted::NoBudget.to_string());
}

#[test]
fn ev_7_a_budget_that_makes_no_sense_where_all_clusters_are_wanted() {
    for words in ["u=1", "u=100%", "min=50%"] {
        let mut world = World::new("", THREE_READY);
        world.budget = Some(budget(words));
        check(
            &mut world,
            expect![[r"
                Valid=True ClusterResourcePlacementEvictionValid @1
                Executed=False ClusterResourcePlacementEvictionNotExecuted @1
                Eviction is blocked by misconfigured ClusterResourcePlacementDisruptionBudget, either MaxUnavailable is specified or MinAvailable is specified as a percentage for PickAll ClusterResourcePlacement"]],
        );
    }
}

#[test]
fn ev_8_scheduling_43_as_many_as_must_stay() {
    let mut world = World::new("", THREE_READY);
    world.budget = Some(budget("min=3"));
    check(
        &mut world,
        expect![[r"
            Valid=True ClusterResourcePlacementEvictionValid @1
            Executed=False ClusterResourcePlacementEvictionNotExecuted @1
            Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 3, totalPlacements: 3"]],
    );
    let mut world = World::new("", THREE_READY);
    world.budget = Some(budget("min=2"));
    check(
        &mut world,
        expect![[r"
            evict-0 begun
            web-c1 deleted
            Valid=True ClusterResourcePlacementEvictionValid @1
            Executed=True ClusterResourcePlacementEvictionExecuted @1
            Eviction is allowed by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 3, totalPlacements: 3"]],
    );
}

#[test]
fn ev_9_scheduling_41_without_a_budget_everything_is_allowed() {
    let mut world = World::new("", THREE_READY);
    check(
        &mut world,
        expect![[r"
            evict-0 begun
            web-c1 deleted
            Valid=True ClusterResourcePlacementEvictionValid @1
            Executed=True ClusterResourcePlacementEvictionExecuted @1
            Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified"]],
    );
    assert!(matches!(verdict(&world.evictions[0]), Verdict::Executed { .. }));
}

#[test]
fn ev_9_what_is_already_going_is_let_go() {
    let mut world = World::new("", "c1 Bound @1 ready deleting");
    world.budget = Some(budget("min=9"));
    check(
        &mut world,
        expect![[r"
            Valid=True ClusterResourcePlacementEvictionValid @1
            Executed=True ClusterResourcePlacementEvictionExecuted @1
            Eviction is allowed, resources propagated by placement is currently being removed from cluster targeted by eviction"]],
    );
}

#[test]
fn ev_9_what_failed_or_only_reports_differences_costs_no_budget() {
    for fares in ["failing", "applying", "override-failed", "diff", "diff-failing"] {
        let mut world = World::new("", &format!("c1 Bound @1 {fares}\nc2 Bound @1 ready"));
        world.budget = Some(budget("min=9"));
        assert_eq!(message(&mut world), EvictionExecuted::PlacementFailed.to_string(), "{fares}");
    }
}

#[test]
fn scheduling_42_a_cluster_that_is_picked_again_may_be_evicted_again() {
    let mut world = World::new("", THREE_READY);
    drop(world.run(0));
    world.placed.clean_up();
    world.placed.add("c1 Bound @1 silent");
    let again = world.evict("c1");
    assert!(matches!(world.run(again).report, Report::Executed(EvictionExecuted::NoBudget)));
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
        let mut world = World::new("n=3", THREE_READY);
        world.budget = Some(budget(words));
        let report = world.run(0).report;
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
        let mut world = World::new("n=3", bindings);
        world.budget = Some(budget("u=1"));
        assert_eq!(matches!(world.run(0).report, Report::Executed(_)), allowed, "{bindings}");
    }
}

#[test]
fn scheduling_46_a_blocked_eviction_is_never_looked_at_again() {
    let mut world = World::new("n=3", THREE_READY);
    world.budget = Some(budget("u=0"));
    drop(world.run(0));
    world.budget = None;
    let plan = world.run(0);
    assert!(plan.is_idle());
    assert!(matches!(plan.report, Report::Decided(Verdict::Blocked { .. })));
    let again = world.evict("c1");
    assert!(matches!(world.run(again).report, Report::Executed(_)));
}

#[test]
fn an_invalid_eviction_is_never_looked_at_again() {
    let mut world = World::new("", "");
    drop(world.run(0));
    world.placed.add(THREE_READY);
    assert!(world.run(0).is_idle());
}

#[test]
fn a_withdrawn_eviction_evicts_nobody() {
    let mut world = World::new("", THREE_READY);
    world.evictions[0].metadata.deletion_timestamp =
        Some(serde_json::from_value(serde_json::json!(world.placed.now)).unwrap());
    let plan = world.run(0);
    assert!(plan.is_idle());
    assert_eq!(plan.report, Report::Withdrawn);
}

/// The world after a crash between the deletion and its being recorded.
fn cut_short() -> World {
    let mut world = World::new("", THREE_READY);
    let plan = world.plan(0);
    plan.writes.iter().for_each(|write| world.write(write));
    assert_eq!(verdict(&world.evictions[0]), Verdict::Pending);
    world
}

#[test]
fn an_eviction_that_was_cut_short_is_recorded_as_carried_out() {
    let executed = EvictionExecuted::AlreadyBeingRemoved.to_string();
    let mut world = cut_short();
    assert_eq!(message(&mut world), executed);

    let mut gone = cut_short();
    gone.placed.clean_up();
    assert_eq!(message(&mut gone), executed);

    let mut replaced = cut_short();
    replaced.placed.add("c1 Scheduled name=new");
    assert_eq!(message(&mut replaced.clone()), executed);
    replaced.placed.clean_up();
    assert_eq!(message(&mut replaced), executed);

    let mut without_placement = cut_short();
    without_placement.placement_exists = false;
    assert_eq!(message(&mut without_placement), executed);
}

#[test]
fn an_eviction_that_was_cut_short_takes_no_second_binding() {
    let mut again = cut_short();
    again.placed.clean_up();
    again.placed.add("c1 Bound @1 ready name=new");
    again.placed.named("new").metadata.uid = Some("second".to_owned());
    let executed = Report::Executed(EvictionExecuted::AlreadyBeingRemoved);
    let remembered = Observed { begun_with: Some("first"), ..again.observe(0) };
    let told = plan(&remembered, again.placed.now);
    assert_eq!((&told.report, writes_text(&told).as_str()), (&executed, ""));
    let about_it = plan(&Observed { begun_with: Some("second"), ..again.observe(0) }, again.placed.now);
    assert_eq!(writes_text(&about_it), "new deleted", "that one is still to go");

    // Another process remembers nothing, but what is younger than the eviction cannot be meant.
    let at = |text: &str| Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(text.parse().unwrap()));
    again.evictions[0].metadata.creation_timestamp = at("2026-01-01T00:00:05Z");
    again.placed.named("new").metadata.creation_timestamp = at("2026-01-01T00:00:05Z");
    assert_eq!(writes_text(&again.plan(0)), "new deleted");
    again.placed.named("new").metadata.creation_timestamp = at("2026-01-01T00:00:06Z");
    let told = again.run(0);
    assert_eq!((&told.report, writes_text(&told).as_str()), (&executed, ""));

    // An eviction that has not begun is about whatever is there.
    let mut early = World::new("", THREE_READY);
    early.evictions[0].metadata.creation_timestamp = at("2026-01-01T00:00:05Z");
    early.placed.named("web-c1").metadata.creation_timestamp = at("2026-01-01T00:00:06Z");
    assert_eq!(early.run(0).report, Report::Executed(EvictionExecuted::NoBudget));
}

#[test]
fn an_eviction_that_was_cut_short_before_the_deletion_is_judged_anew() {
    let mut world = World::new("n=3", THREE_READY);
    world.budget = Some(budget("u=1"));
    let plan = world.plan(0);
    world.write(&plan.writes[0]);
    world.placed.report("c2", Fares::Failing);
    let plan = world.run(0);
    assert_eq!(plan.report, Report::Blocked(EvictionExecuted::BlockedByBudget { available: 2, total: 3 }));
    assert_eq!(writes_text(&plan), "");
}

#[test]
fn a_deleted_binding_is_not_available_even_if_its_generation_did_not_change() {
    let mut world = World::new("n=3", THREE_READY);
    let now = world.placed.now;
    mark_deleting(world.placed.named("web-c2"), now);
    world.placed.report("c2", Fares::Ready);
    world.budget = Some(budget("u=1"));
    assert_eq!(world.run(0).report, Report::Blocked(EvictionExecuted::BlockedByBudget { available: 2, total: 3 }));
}
