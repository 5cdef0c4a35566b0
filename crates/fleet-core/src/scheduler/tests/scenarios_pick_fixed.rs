//! Acceptance scenarios of PickFixed. Test names contain the scenario's number.

use expect_test::{Expect, expect};
use fleet_api::types::BindingState;

use super::fixture::{Fixture, full_name};
use super::render::report_text;

fn check(fixture: &mut Fixture, expected: Expect) {
    expected.assert_eq(&fixture.run());
}

pub(super) fn fixed(names: &[&str]) -> String {
    let names: Vec<&str> = names.iter().map(|short| full_name(short)).collect();
    format!("{{placementType: PickFixed, clusterNames: [{}]}}", names.join(", "))
}

#[test]
fn scheduling_09_named_clusters_have_no_score() {
    check(
        &mut Fixture::with_policy(&fixed(&["c1", "c4", "c6"])),
        expect![[r#"
        hold placement
        create c1 Scheduled
        create c4 Scheduled
        create c6 Scheduled
        status of generation 1
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 3 cluster(s)
          + c1 … "c1": picked
          + c4 … "c4": picked
          + c6 … "c6": picked"#]],
    );
}

#[test]
fn scheduling_10_named_clusters_that_cannot_be_used_are_explained() {
    let mut fixture = Fixture::with_policy(&fixed(&["c1", "c4", "c8", "c9", "c10"]));
    expect![[r#"
        c1 picked
        c4 picked
        c9 rejected by ClusterEligibility
        c8 rejected by ClusterEligibility
        c10 not found"#]]
    .assert_eq(&report_text(&fixture.plan()));
    check(
        &mut fixture,
        expect![[r#"
        hold placement
        create c1 Scheduled
        create c4 Scheduled
        status of generation 1
          Scheduled=False SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by the scheduling policy, found 2 cluster(s) instead
          + c1 … "c1": picked
          + c4 … "c4": picked
          - c8 Cluster "c8" is not eligible for resource placement yet: cluster is not connected to the fleet: no recent heartbeat signals (last received 7.00 minutes ago)
          - c9 Cluster "c9" is not eligible for resource placement yet: cluster has left the fleet
          - c10 Specified cluster "c10" is not found"#]],
    );
}

#[test]
fn scheduling_11_taints_do_not_matter_to_named_clusters() {
    let mut fixture = Fixture::with_policy(&fixed(&["c1", "c4", "c6"]));
    for short in ["c1", "c4", "c6"] {
        fixture.change(short, "taint=a:b");
    }
    expect![[r#"
        c1 Scheduled web-0
        c4 Scheduled web-0
        c6 Scheduled web-0"#]]
    .assert_eq(&fixture.run_to_bindings());
}

#[test]
fn scheduling_12_a_changed_list_keeps_creates_and_unschedules() {
    let mut fixture = Fixture::with_policy(&fixed(&["c1", "c4", "c6"]));
    fixture.run();
    fixture.set_state(&["c4", "c6"], &BindingState::Bound);
    fixture.set_policy(&fixed(&["c2", "c4"]));
    check(
        &mut fixture,
        expect![[r#"
        create c2 Scheduled
        associate c4 Bound web-1
        unschedule c1 was Scheduled
        unschedule c6 was Bound
        status of generation 2
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 2 cluster(s)
          + c2 … "c2": picked
          + c4 … "c4": picked"#]],
    );
}

#[test]
fn scheduling_13_an_empty_list_writes_nothing() {
    let mut fixture = Fixture::with_policy(&fixed(&[]));
    check(
        &mut fixture,
        expect![[r#"
        hold placement
        NothingNamed"#]],
    );
    fixture.set_policy(&fixed(&["c1"]));
    check(
        &mut fixture,
        expect![[r#"
        create c1 Scheduled
        status of generation 2
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 1 cluster(s)
          + c1 … "c1": picked"#]],
    );
    fixture.set_policy(&fixed(&[]));
    check(&mut fixture, expect!["NothingNamed"]);
}

#[test]
fn scheduling_14_a_named_cluster_is_picked_once_it_exists() {
    let mut fixture = Fixture::with_policy(&fixed(&["c1", "c10"]));
    fixture.run();
    fixture.set_clusters("c10");
    check(
        &mut fixture,
        expect![[r#"
        create c10 Scheduled
        status of generation 1
          Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 2 cluster(s)
          + c1 … "c1": picked
          + c10 … "c10": picked"#]],
    );
}
