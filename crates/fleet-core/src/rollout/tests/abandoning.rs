//! Tests of `deleteStrategy`.

use expect_test::expect;

use super::fixture::{RolloutFixture, mark_deleting, writes_text};
use crate::rollout::{BindingFacts, PlacementFacts, RolloutOutcome, is_abandonment_recorded};

const BINDINGS: &str = "a Bound @1 ready started\nb Scheduled\nc Unscheduled @1 ready\nd Unscheduled @1 ready deleting";

fn deleted(spec: &str) -> RolloutFixture {
    let mut fixture = RolloutFixture::new(spec, BINDINGS);
    fixture.placement.metadata.deletion_timestamp =
        Some(serde_json::from_value(serde_json::json!(fixture.now)).unwrap());
    fixture
}

fn is_recorded(fixture: &RolloutFixture) -> bool {
    let bindings = fixture.bindings.iter().map(BindingFacts::of).map(|binding| (binding.deleting, binding.abandoned));
    is_abandonment_recorded(PlacementFacts::of(&fixture.placement).abandons(), bindings)
}

#[test]
fn a_deleted_placement_that_abandons_annotates_every_binding_it_still_has() {
    for spec in ["delete=Abandon", "type=External delete=Abandon"] {
        let mut fixture = deleted(spec);
        assert!(!is_recorded(&fixture));
        let plan = fixture.run();
        expect![[r"
            a abandoned
            b abandoned
            c abandoned"]]
        .assert_eq(&writes_text(&plan));
        assert_eq!(plan.report.outcome, RolloutOutcome::Deleting { abandoned: 3 });
        assert!(is_recorded(&fixture));
        assert_eq!(fixture.plan().report.outcome, RolloutOutcome::Deleting { abandoned: 3 });
    }
}

#[test]
fn a_deleted_placement_that_does_not_abandon_annotates_nothing() {
    for spec in ["", "delete=Delete"] {
        let mut fixture = deleted(spec);
        assert!(is_recorded(&fixture));
        let plan = fixture.run();
        assert!(plan.is_idle());
        assert_eq!(plan.report.outcome, RolloutOutcome::Deleting { abandoned: 0 });
    }
}

#[test]
fn an_abandoned_cluster_is_cleaned_up_whatever_the_strategy() {
    let mut fixture = RolloutFixture::new("n=1 delete=Abandon", "a Bound @1 ready started\nb Unscheduled @1 ready");
    expect!["b removed"].assert_eq(&writes_text(&fixture.run()));
    assert!(fixture.bindings.iter().all(|one| !BindingFacts::of(one).abandoned));
}

#[test]
fn a_binding_that_was_already_being_deleted_needs_no_annotation() {
    let mut fixture = deleted("delete=Abandon");
    let now = fixture.now;
    for name in ["web-a", "web-b", "web-c"] {
        mark_deleting(fixture.named(name), now);
    }
    assert!(is_recorded(&fixture));
    assert!(fixture.run().is_idle());
}
