//! Evictions and budgets against the placement that they are about.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::small_world::{CRP, SmallWorld, object, request, roles};
use super::super::world::Operation;
use super::*;

const EVICTION: &str = "placement.kubernetes-fleet.io/v1beta1/ClusterResourcePlacementEviction";
const BUDGET: &str = "placement.kubernetes-fleet.io/v1beta1/ClusterResourcePlacementDisruptionBudget";

fn printed(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Allowed { message, .. } => format!("allowed: {message}"),
        Verdict::Denied { code, message } => format!("{}: {message}", code.number()),
    }
}

fn placement(policy: Option<Value>) -> Value {
    let mut made = object(CRP, "crp", json!({"resourceSelectors": [roles()]}));
    if let Some(policy) = policy {
        made["spec"]["policy"] = policy;
    }
    made
}

fn world(placement: Value) -> SmallWorld {
    SmallWorld { placements: vec![placement], ..SmallWorld::default() }
}

fn check_evicting(world: &SmallWorld, expected: Expect) {
    let eviction = object(EVICTION, "e", json!({"placementName": "crp", "clusterName": "m1"}));
    expected.assert_eq(&printed(&admit_eviction(&request(Operation::Create, EVICTION, eviction), world)));
}

fn check_budgeting(world: &SmallWorld, spec: Value, expected: Expect) {
    let budget = request(Operation::Update, BUDGET, object(BUDGET, "crp", spec));
    expected.assert_eq(&printed(&admit_disruption_budget(&budget, world)));
}

#[test]
fn evictions() {
    check_evicting(&SmallWorld::default(), expect!["allowed: clusterResourcePlacementEviction has valid fields"]);
    check_evicting(
        &SmallWorld { broken: true, ..SmallWorld::default() },
        expect!["400: failed to get clusterResourcePlacement crp: the hub is gone"],
    );
    check_evicting(&world(placement(None)), expect!["allowed: clusterResourcePlacementEviction has valid fields"]);
    check_evicting(
        &world(placement(Some(json!({"placementType": "PickN", "numberOfClusters": 1})))),
        expect!["allowed: clusterResourcePlacementEviction has valid fields"],
    );
    check_evicting(
        &world(placement(Some(json!({"placementType": "PickFixed"})))),
        expect!["403: cluster resource placement policy type PickFixed is not supported"],
    );
    let mut leaving = placement(Some(json!({"placementType": "PickAll"})));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-11-15T00:00:00Z");
    check_evicting(&world(leaving.clone()), expect!["403: cluster resource placement crp is being deleted"]);
    leaving["spec"]["policy"]["placementType"] = json!("PickFixed");
    check_evicting(
        &world(leaving),
        expect![
            "403: [cluster resource placement crp is being deleted, cluster resource placement policy type PickFixed is not supported]"
        ],
    );
}

#[test]
fn budgets_of_pick_all() {
    for policy in [None, Some(json!({"placementType": "PickAll"}))] {
        let world = world(placement(policy));
        check_budgeting(
            &world,
            json!({"minAvailable": 2}),
            expect!["allowed: clusterResourcePlacementDisruptionBudget has valid fields"],
        );
        check_budgeting(
            &world,
            json!({}),
            expect!["allowed: clusterResourcePlacementDisruptionBudget has valid fields"],
        );
        check_budgeting(
            &world,
            json!({"maxUnavailable": 1}),
            expect![
                "403: cluster resource placement policy type PickAll is not supported with any specified max unavailable 1"
            ],
        );
        check_budgeting(
            &world,
            json!({"maxUnavailable": "10%"}),
            expect![
                "403: cluster resource placement policy type PickAll is not supported with any specified max unavailable 10%"
            ],
        );
        check_budgeting(
            &world,
            json!({"minAvailable": "10%"}),
            expect![
                "403: cluster resource placement policy type PickAll is not supported with min available as a percentage 10%"
            ],
        );
        check_budgeting(
            &world,
            json!({"maxUnavailable": 1, "minAvailable": "10%"}),
            expect![
                "403: [cluster resource placement policy type PickAll is not supported with any specified max unavailable 1, cluster resource placement policy type PickAll is not supported with min available as a percentage 10%]"
            ],
        );
    }
}

#[test]
fn budgets_of_others() {
    let spec = json!({"maxUnavailable": "10%"});
    for policy in [json!({"placementType": "PickN", "numberOfClusters": 1}), json!({"placementType": "PickFixed"})] {
        check_budgeting(
            &world(placement(Some(policy))),
            spec.clone(),
            expect!["allowed: clusterResourcePlacementDisruptionBudget has valid fields"],
        );
    }
    check_budgeting(
        &SmallWorld::default(),
        spec.clone(),
        expect!["allowed: clusterResourcePlacementDisruptionBudget has valid fields"],
    );
    check_budgeting(
        &SmallWorld { broken: true, ..SmallWorld::default() },
        spec,
        expect![
            "400: failed to get clusterResourcePlacement crp for clusterResourcePlacementDisruptionBudget crp: the hub is gone"
        ],
    );
}

#[test]
fn what_cannot_be_read_is_a_bad_request() {
    let world = SmallWorld::default();
    let verdict = admit_eviction(&request(Operation::Create, EVICTION, json!({"spec": {}})), &world);
    expect!["400: missing field `placementName`"].assert_eq(&printed(&verdict));
    let verdict = admit_disruption_budget(&request(Operation::Create, BUDGET, json!({"spec": []})), &world);
    assert!(printed(&verdict).starts_with("400: "), "{verdict:?}");
}
