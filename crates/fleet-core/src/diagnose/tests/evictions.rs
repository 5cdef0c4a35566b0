//! Evictions (EV-1 to EV-9).

use expect_test::{Expect, expect};

use super::fixture::{Fleet, fleet, told};
use crate::diagnose;

fn check(fleet: &Fleet, expected: Expect) {
    expected.assert_eq(&told(&diagnose::eviction(&fleet.picture(), "evict")));
}

fn evicted(fleet: Fleet, placement: &str, cluster: &str, conditions: &str) -> Fleet {
    fleet.with(&format!("{{kind: ClusterResourcePlacementEviction, metadata: {{name: evict}}, spec: {{placementName: {placement}, clusterName: {cluster}}}, status: {{conditions: [{conditions}]}}}}"))
}

fn invalid(placement: &str, cluster: &str, message: &str) -> Fleet {
    evicted(fleet(), placement, cluster, &format!("'Valid=False ClusterResourcePlacementEvictionInvalid: {message}'"))
}

fn blocked(message: &str) -> Fleet {
    let valid = "'Valid=True ClusterResourcePlacementEvictionValid: Eviction is valid'";
    evicted(
        fleet(),
        "example-placement",
        "member1",
        &format!("{valid}, 'Executed=False ClusterResourcePlacementEvictionNotExecuted: {message}'"),
    )
}

#[test]
fn ev_1_the_placement_does_not_exist() {
    check(
        &invalid("example-placment", "member1", "Failed to find ClusterResourcePlacement targeted by eviction"),
        expect![""],
    );
}

#[test]
fn ev_2_the_placement_is_being_deleted() {
    check(
        &invalid("example-placement", "member1", "Found deleting ClusterResourcePlacement targeted by eviction"),
        expect![""],
    );
}

#[test]
fn ev_3_the_placement_is_not_there() {
    check(
        &invalid(
            "example-placement",
            "membr1",
            "Failed to find scheduler decision for placement in cluster targeted by eviction",
        ),
        expect![""],
    );
}

#[test]
fn ev_4_several_decisions() {
    check(
        &invalid(
            "example-placement",
            "member1",
            "Found more than one scheduler decision for placement in cluster targeted by eviction",
        ),
        expect![""],
    );
}

#[test]
fn ev_5_the_clusters_are_named() {
    let fleet = invalid(
        "example-placement",
        "member1",
        "Found ClusterResourcePlacement with PickFixed placement type targeted by eviction",
    )
    .edit(
        "ClusterResourcePlacement",
        "example-placement",
        "{spec: {policy: {placementType: PickFixed, clusterNames: [member1, member2]}}}",
    );
    check(&fleet, expect![""]);
}

#[test]
fn ev_6_nothing_was_brought_there() {
    check(&blocked("Eviction is blocked, placement has not propagated resources to target cluster yet"), expect![""]);
}

const BUDGET: &str = "{kind: ClusterResourcePlacementDisruptionBudget, metadata: {name: example-placement}, spec: ";

#[test]
fn ev_7_the_budget_does_not_fit() {
    let message = "Eviction is blocked by misconfigured ClusterResourcePlacementDisruptionBudget, either MaxUnavailable is specified or MinAvailable is specified as a percentage for PickAll ClusterResourcePlacement";
    check(&blocked(message).with(&format!("{BUDGET} {{maxUnavailable: 1}}}}")), expect![""]);
}

#[test]
fn ev_8_the_budget_is_used_up() {
    let message = "Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 2, totalPlacements: 2";
    let fleet = blocked(message).with(&format!("{BUDGET} {{minAvailable: 2}}}}"));
    check(&fleet, expect![""]);
    let of_placement = diagnose::placement(&fleet.picture());
    assert!(of_placement.notices.iter().any(|notice| notice.entry == "EV-8"), "{of_placement:?}");
}

#[test]
fn ev_9_an_eviction_was_carried_out() {
    let executed = "'Valid=True ClusterResourcePlacementEvictionValid: ', 'Executed=True ClusterResourcePlacementEvictionExecuted: Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified'";
    let fleet = evicted(fleet(), "example-placement", "member1", executed);
    check(&fleet, expect![""]);
    assert_eq!(diagnose::placement(&fleet.picture()).notices, [], "what went well is no notice elsewhere");
    check(&evicted(fleet, "example-placement", "member1", ""), expect![""]);
}
