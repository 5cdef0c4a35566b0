//! Evictions against the placement that they name.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::fake_lookups::{CRP, FakeLookups, object, request, roles};
use super::super::lookups::Operation;
use super::*;

const EVICTION: &str = "placement.kubernetes-fleet.io/v1beta1/ClusterResourcePlacementEviction";

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

fn check_evicting(lookups: &FakeLookups, expected: Expect) {
    let eviction = object(EVICTION, "e", json!({"placementName": "crp", "clusterName": "m1"}));
    expected.assert_eq(&printed(&admit(&request(Operation::Create, EVICTION, eviction), lookups)));
}

#[test]
fn evictions() {
    check_evicting(&FakeLookups::default(), expect!["allowed: the eviction is valid"]);
    check_evicting(
        &FakeLookups { broken: true, ..FakeLookups::default() },
        expect!["400: cluster resource placement crp could not be read: the hub is gone"],
    );
    check_evicting(&lookups(placement(None)), expect!["allowed: the eviction is valid"]);
    check_evicting(
        &lookups(placement(Some(json!({"placementType": "PickN", "numberOfClusters": 1})))),
        expect!["allowed: the eviction is valid"],
    );
    check_evicting(
        &lookups(placement(Some(json!({"placementType": "PickFixed"})))),
        expect!["403: cluster resource placement policy type PickFixed is not supported"],
    );
    let mut leaving = placement(Some(json!({"placementType": "PickAll"})));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-11-15T00:00:00Z");
    check_evicting(&lookups(leaving.clone()), expect!["403: cluster resource placement crp is being deleted"]);
    leaving["spec"]["policy"]["placementType"] = json!("PickFixed");
    check_evicting(
        &lookups(leaving),
        expect![
            "403: [cluster resource placement crp is being deleted, cluster resource placement policy type PickFixed is not supported]"
        ],
    );
}

#[test]
fn an_unreadable_object_is_a_bad_request() {
    let verdict = admit(&request(Operation::Create, EVICTION, json!({"spec": {}})), &FakeLookups::default());
    expect!["400: missing field `placementName`"].assert_eq(&printed(&verdict));
}
