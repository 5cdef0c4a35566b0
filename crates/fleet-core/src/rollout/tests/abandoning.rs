//! What `deleteStrategy` does.

use expect_test::expect;

use super::fixture::{World, mark_deleting, writes_text};
use crate::rollout::{BindingFacts, Outcome, PlacementFacts, abandonment_is_settled};

const BINDINGS: &str = "a Bound @1 ready started\nb Scheduled\nc Unscheduled @1 ready\nd Unscheduled @1 ready deleting";

fn deleted(spec: &str) -> World {
    let mut world = World::new(spec, BINDINGS);
    world.placement.metadata.deletion_timestamp = Some(serde_json::from_value(serde_json::json!(world.now)).unwrap());
    world
}

fn is_settled(world: &World) -> bool {
    let bindings = world.bindings.iter().map(BindingFacts::of).map(|binding| (binding.deleting, binding.abandoned));
    abandonment_is_settled(PlacementFacts::of(&world.placement).abandons(), bindings)
}

#[test]
fn a_deleted_placement_that_abandons_notes_it_on_every_binding_it_still_has() {
    for spec in ["delete=Abandon", "type=External delete=Abandon"] {
        let mut world = deleted(spec);
        assert!(!is_settled(&world));
        let plan = world.run();
        expect![[r"
            a abandoned
            b abandoned
            c abandoned"]]
        .assert_eq(&writes_text(&plan));
        assert_eq!(plan.report.outcome, Outcome::Releasing { abandoned: 3 });
        assert!(is_settled(&world));
        assert_eq!(world.plan().report.outcome, Outcome::Releasing { abandoned: 3 });
    }
}

#[test]
fn a_deleted_placement_that_does_not_abandon_has_nothing_to_say() {
    for spec in ["", "delete=Delete"] {
        let mut world = deleted(spec);
        assert!(is_settled(&world));
        let plan = world.run();
        assert!(plan.is_idle());
        assert_eq!(plan.report.outcome, Outcome::Releasing { abandoned: 0 });
    }
}

#[test]
fn a_cluster_that_is_given_up_is_cleaned_up_whatever_the_strategy() {
    let mut world = World::new("n=1 delete=Abandon", "a Bound @1 ready started\nb Unscheduled @1 ready");
    expect!["b removed"].assert_eq(&writes_text(&world.run()));
    assert!(world.bindings.iter().all(|one| !BindingFacts::of(one).abandoned));
}

#[test]
fn a_binding_that_was_on_its_way_out_before_needs_no_note() {
    let mut world = deleted("delete=Abandon");
    let now = world.now;
    for name in ["web-a", "web-b", "web-c"] {
        mark_deleting(world.named(name), now);
    }
    assert!(is_settled(&world));
    assert!(world.run().is_idle());
}
