//! Budgets against the placement of the same name.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::fake_lookups::{CRP, FakeLookups, object, request, roles};
use super::super::lookups::Operation;
use super::*;

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

fn lookups(placement: Value) -> FakeLookups {
    FakeLookups { placements: vec![placement], ..FakeLookups::default() }
}

fn check_budgeting(lookups: &FakeLookups, spec: Value, expected: Expect) {
    let budget = request(Operation::Update, BUDGET, object(BUDGET, "crp", spec));
    expected.assert_eq(&printed(&admit(&budget, lookups)));
}

#[test]
fn budgets_of_pick_all() {
    for policy in [None, Some(json!({"placementType": "PickAll"}))] {
        let lookups = lookups(placement(policy));
        check_budgeting(&lookups, json!({"minAvailable": 2}), expect!["allowed: the budget is valid"]);
        check_budgeting(&lookups, json!({}), expect!["allowed: the budget is valid"]);
        check_budgeting(
            &lookups,
            json!({"maxUnavailable": 1}),
            expect![
                "403: cluster resource placement policy type PickAll is not supported with any specified max unavailable 1"
            ],
        );
        check_budgeting(
            &lookups,
            json!({"maxUnavailable": "10%"}),
            expect![
                "403: cluster resource placement policy type PickAll is not supported with any specified max unavailable 10%"
            ],
        );
        check_budgeting(
            &lookups,
            json!({"minAvailable": "10%"}),
            expect![
                "403: cluster resource placement policy type PickAll is not supported with min available as a percentage 10%"
            ],
        );
        check_budgeting(
            &lookups,
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
        check_budgeting(&lookups(placement(Some(policy))), spec.clone(), expect!["allowed: the budget is valid"]);
    }
    check_budgeting(&FakeLookups::default(), spec.clone(), expect!["allowed: the budget is valid"]);
    check_budgeting(
        &FakeLookups { broken: true, ..FakeLookups::default() },
        spec,
        expect!["400: cluster resource placement crp could not be read: the hub is gone"],
    );
}

#[test]
fn an_unreadable_object_is_a_bad_request() {
    let verdict = admit(&request(Operation::Create, BUDGET, json!({"spec": 1})), &FakeLookups::default());
    expect!["400: invalid type: integer `1`, expected struct PlacementDisruptionBudgetSpec"]
        .assert_eq(&printed(&verdict));
}
