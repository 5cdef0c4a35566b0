//! Evictions (EV-1 to EV-9).

use expect_test::{Expect, expect};

use super::fixture::{Fleet, fleet, rendered};
use crate::diagnose;

fn check(fleet: &Fleet, expected: Expect) {
    expected.assert_eq(&rendered(&diagnose::eviction(&fleet.inputs(), "evict")));
}

fn evicted(fleet: Fleet, placement: &str, cluster: &str, conditions: &str) -> Fleet {
    fleet.with(&format!("{{kind: ClusterResourcePlacementEviction, metadata: {{name: evict}}, spec: {{placementName: {placement}, clusterName: {cluster}}}, status: {{conditions: [{conditions}]}}}}"))
}

pub(super) fn invalid(placement: &str, cluster: &str, message: &str) -> Fleet {
    evicted(fleet(), placement, cluster, &format!("'Valid=False ClusterResourcePlacementEvictionInvalid: {message}'"))
}

pub(super) fn blocked(message: &str) -> Fleet {
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
        expect![[r#"
            Eviction evict of placement example-placment from member1 is decided.
            EV-1 Error: There is no ClusterResourcePlacement example-placment
              ClusterResourcePlacementEviction evict status.conditions[Valid] = False ClusterResourcePlacementEvictionInvalid: Failed to find ClusterResourcePlacement targeted by eviction
            if example-placement is meant, evict that:
              kubectl create -f - <<'EOF'
              apiVersion: placement.kubernetes-fleet.io/v1beta1
              kind: ClusterResourcePlacementEviction
              metadata:
                name: evict-2
              spec:
                clusterName: member1
                placementName: example-placement
              EOF
        "#]],
    );
}

#[test]
fn ev_2_the_placement_is_being_deleted() {
    check(
        &invalid("example-placement", "member1", "Found deleting ClusterResourcePlacement targeted by eviction"),
        expect![[r#"
            Eviction evict of placement example-placement from member1 is decided.
            EV-2 Error: Placement example-placement is being deleted: there is nothing to evict
              ClusterResourcePlacementEviction evict status.conditions[Valid] = False ClusterResourcePlacementEvictionInvalid: Found deleting ClusterResourcePlacement targeted by eviction
            the placement was recreated: evict again:
              kubectl create -f - <<'EOF'
              apiVersion: placement.kubernetes-fleet.io/v1beta1
              kind: ClusterResourcePlacementEviction
              metadata:
                name: evict-2
              spec:
                clusterName: member1
                placementName: example-placement
              EOF
        "#]],
    );
}

#[test]
fn ev_2_the_placement_is_deleted_and_a_recreated_one_stays() {
    let message = "Found deleting ClusterResourcePlacement targeted by eviction";
    let recreated = invalid("example-placement", "member1", message);
    let deleting = recreated.clone().edit(
        "ClusterResourcePlacement",
        "example-placement",
        "{metadata: {deletionTimestamp: '2026-01-01T12:20:00Z'}}",
    );
    let fixes = |fleet: &Fleet| diagnose::eviction(&fleet.inputs(), "evict").cause.unwrap().fixes;
    assert_eq!(fixes(&deleting), []);
    assert_eq!(fixes(&recreated)[0].what, "the placement was recreated: evict again");
}

#[test]
fn ev_3_the_placement_is_not_there() {
    check(
        &invalid(
            "example-placement",
            "membr1",
            "Failed to find scheduler decision for placement in cluster targeted by eviction",
        ),
        expect![[r#"
            Eviction evict of placement example-placement from membr1 is decided.
            EV-3 Error: Placement example-placement is not on cluster membr1
              ClusterResourcePlacement example-placement clusters with a binding = member1, member2
              ClusterResourcePlacementEviction evict status.conditions[Valid] = False ClusterResourcePlacementEvictionInvalid: Failed to find scheduler decision for placement in cluster targeted by eviction
            if member1 is meant, evict it from there:
              kubectl create -f - <<'EOF'
              apiVersion: placement.kubernetes-fleet.io/v1beta1
              kind: ClusterResourcePlacementEviction
              metadata:
                name: evict-2
              spec:
                clusterName: member1
                placementName: example-placement
              EOF
        "#]],
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
        expect![[r#"
            Eviction evict of placement example-placement from member1 is decided.
            EV-4 Error: Placement example-placement was being rescheduled on member1
              ClusterResourcePlacementEviction evict status.conditions[Valid] = False ClusterResourcePlacementEvictionInvalid: Found more than one scheduler decision for placement in cluster targeted by eviction
            evict again:
              kubectl create -f - <<'EOF'
              apiVersion: placement.kubernetes-fleet.io/v1beta1
              kind: ClusterResourcePlacementEviction
              metadata:
                name: evict-2
              spec:
                clusterName: member1
                placementName: example-placement
              EOF
        "#]],
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
    check(
        &fleet,
        expect![[r#"
        Eviction evict of placement example-placement from member1 is decided.
        EV-5 Error: Placement example-placement names its clusters, so nothing can be evicted
          ClusterResourcePlacement example-placement spec.policy.clusterNames = member1, member2
          ClusterResourcePlacementEviction evict status.conditions[Valid] = False ClusterResourcePlacementEvictionInvalid: Found ClusterResourcePlacement with PickFixed placement type targeted by eviction
        take the cluster out of the placement:
          kubectl patch crp example-placement --type=merge -p '{"spec":{"policy":{"clusterNames":["member2"]}}}'
          kubectl create -f - <<'EOF'
          apiVersion: placement.kubernetes-fleet.io/v1beta1
          kind: ClusterStagedUpdateRun
          metadata:
            name: example-placement-run
          spec:
            placementName: example-placement
            stagedRolloutStrategyName: example-strategy
            state: Run
          EOF
    "#]],
    );
}

#[test]
fn ev_6_nothing_was_rolled_out_there() {
    check(
        &blocked("Eviction is blocked, placement has not propagated resources to target cluster yet"),
        expect![[r#"
        Eviction evict of placement example-placement from member1 is decided.
        EV-6 Error: Placement example-placement has not rolled out anything to member1 yet
          ClusterResourcePlacementEviction evict status.conditions[Executed] = False ClusterResourcePlacementEvictionNotExecuted: Eviction is blocked, placement has not propagated resources to target cluster yet
        roll it out first, then evict again:
          kubectl create -f - <<'EOF'
          apiVersion: placement.kubernetes-fleet.io/v1beta1
          kind: ClusterStagedUpdateRun
          metadata:
            name: example-placement-run
          spec:
            placementName: example-placement
            stagedRolloutStrategyName: example-strategy
            state: Run
          EOF
          kubectl create -f - <<'EOF'
          apiVersion: placement.kubernetes-fleet.io/v1beta1
          kind: ClusterResourcePlacementEviction
          metadata:
            name: evict-2
          spec:
            clusterName: member1
            placementName: example-placement
          EOF
    "#]],
    );
}

const BUDGET: &str = "{kind: ClusterResourcePlacementDisruptionBudget, metadata: {name: example-placement}, spec: ";

#[test]
fn ev_7_the_budget_does_not_fit() {
    let message = "Eviction is blocked by misconfigured ClusterResourcePlacementDisruptionBudget, either MaxUnavailable is specified or MinAvailable is specified as a percentage for PickAll ClusterResourcePlacement";
    check(
        &blocked(message).with(&format!("{BUDGET} {{maxUnavailable: 1}}}}")),
        expect![[r#"
        Eviction evict of placement example-placement from member1 is decided.
        EV-7 Error: The disruption budget of placement example-placement does not fit PickAll
          ClusterResourcePlacementEviction evict status.conditions[Executed] = False ClusterResourcePlacementEvictionNotExecuted: Eviction is blocked by misconfigured ClusterResourcePlacementDisruptionBudget, either MaxUnavailable is specified or MinAvailable is specified as a percentage for PickAll ClusterResourcePlacement
          ClusterResourcePlacementDisruptionBudget example-placement spec = {"maxUnavailable":1}
        fix the budget, then evict again:
          kubectl patch clusterresourceplacementdisruptionbudget example-placement --type=merge -p '{"spec":{"maxUnavailable":null,"minAvailable":1}}'
          kubectl create -f - <<'EOF'
          apiVersion: placement.kubernetes-fleet.io/v1beta1
          kind: ClusterResourcePlacementEviction
          metadata:
            name: evict-2
          spec:
            clusterName: member1
            placementName: example-placement
          EOF
        delete the budget, then evict again:
          kubectl delete clusterresourceplacementdisruptionbudget example-placement
          kubectl create -f - <<'EOF'
          apiVersion: placement.kubernetes-fleet.io/v1beta1
          kind: ClusterResourcePlacementEviction
          metadata:
            name: evict-2
          spec:
            clusterName: member1
            placementName: example-placement
          EOF
    "#]],
    );
}

#[test]
fn ev_8_the_budget_is_used_up() {
    let message = "Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 2, totalPlacements: 2";
    let fleet = blocked(message).with(&format!("{BUDGET} {{minAvailable: 2}}}}"));
    check(
        &fleet,
        expect![[r#"
        Eviction evict of placement example-placement from member1 is decided.
        EV-8 Error: The disruption budget of placement example-placement allows no eviction now
          ClusterResourcePlacementEviction evict status.conditions[Executed] = False ClusterResourcePlacementEvictionNotExecuted: Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 2, totalPlacements: 2
          ClusterResourcePlacementDisruptionBudget example-placement spec = {"minAvailable":2}
        fix the budget, then evict again:
          kubectl patch clusterresourceplacementdisruptionbudget example-placement --type=merge -p '{"spec":{"minAvailable":1}}'
          kubectl create -f - <<'EOF'
          apiVersion: placement.kubernetes-fleet.io/v1beta1
          kind: ClusterResourcePlacementEviction
          metadata:
            name: evict-2
          spec:
            clusterName: member1
            placementName: example-placement
          EOF
        delete the budget, then evict again:
          kubectl delete clusterresourceplacementdisruptionbudget example-placement
          kubectl create -f - <<'EOF'
          apiVersion: placement.kubernetes-fleet.io/v1beta1
          kind: ClusterResourcePlacementEviction
          metadata:
            name: evict-2
          spec:
            clusterName: member1
            placementName: example-placement
          EOF
    "#]],
    );
    let of_placement = diagnose::placement(&fleet.inputs());
    assert!(of_placement.notices.iter().any(|notice| notice.entry == "EV-8"), "{of_placement:?}");
}

#[test]
fn ev_9_an_eviction_was_carried_out() {
    let executed = "'Valid=True ClusterResourcePlacementEvictionValid: ', 'Executed=True ClusterResourcePlacementEvictionExecuted: Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified'";
    let fleet = evicted(fleet(), "example-placement", "member1", executed);
    check(
        &fleet,
        expect![[r#"
        Eviction evict of placement example-placement from member1 is decided.
        EV-9 Information: ClusterResourcePlacementEviction evict was carried out
          ClusterResourcePlacementEviction evict status.conditions[Executed] = True ClusterResourcePlacementEvictionExecuted: Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified
    "#]],
    );
    assert_eq!(diagnose::placement(&fleet.inputs()).notices, [], "what went well is no notice elsewhere");
    check(
        &evicted(fleet, "example-placement", "member1", ""),
        expect![[r#"
        Eviction evict has not been decided yet. If this persists, the hub agent is not running.
        nothing
    "#]],
    );
}
