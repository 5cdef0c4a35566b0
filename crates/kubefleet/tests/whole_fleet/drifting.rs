//! A placement reaches all members, drift is detected and reported, and a leaving member keeps its objects and catches up
//! after it rejoins.

use serde_json::{Value, json};

use crate::fleet::{Fleet, MEMBERS};
use crate::servers::{MEMBER_CLUSTERS, Servers, condition, until};

pub(crate) const PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements";
const SETTINGS: &str = "/api/v1/namespaces/shop/configmaps/settings";

pub(crate) async fn drift_is_seen_and_not_overwritten(fleet: &Fleet) {
    let servers = &fleet.servers;
    servers.hub().create("/api/v1/namespaces", json!({"metadata": {"name": "shop"}})).await;
    let settings = json!({"metadata": {"name": "settings"}, "data": {"colour": "green"}});
    servers.hub().create("/api/v1/namespaces/shop/configmaps", settings).await;
    let heeding = json!({"whenToApply": "IfNotDrifted", "comparisonOption": "PartialComparison"});
    servers.hub().create(PLACEMENTS, placement("web", "shop", heeding)).await;
    for member in MEMBERS {
        until(&format!("{member} has it"), || async { colour(servers, member).await == "green" }).await;
    }
    until("the placement is available", || is_available(servers, "web")).await;
    let placed = servers.member("member1").get(SETTINGS).await.unwrap();
    assert_eq!(placed["metadata"]["ownerReferences"][0]["kind"], "AppliedWork", "{placed}");

    servers.member("member2").merge(SETTINGS, json!({"data": {"colour": "red"}})).await;
    until("the drift is reported", || async { drifts(servers).await == ["member2 /data/colour red green"] }).await;
    assert_eq!(colour(servers, "member2").await, "red", "drift is not overwritten");
    servers.member("member2").merge(SETTINGS, json!({"data": {"colour": "green"}})).await;
    until("the drift is over", || async { drifts(servers).await.is_empty() }).await;
}

/// `member3` leaves the fleet that [`drift_is_seen_and_not_overwritten`] has created.
pub(crate) async fn a_leaving_member_keeps_its_objects_and_catches_up_after_rejoining(fleet: &Fleet) {
    let servers = &fleet.servers;
    leave(servers, "member3").await;
    assert_eq!(colour(servers, "member3").await, "green", "what is placed stays");
    servers.hub().merge(SETTINGS, json!({"data": {"colour": "blue"}})).await;
    for member in ["member1", "member2"] {
        until(&format!("{member} has the new colour"), || async { colour(servers, member).await == "blue" }).await;
    }
    assert_eq!(colour(servers, "member3").await, "green", "nothing is applied to a member that has left");
    // Its agent was running all the time.
    servers.admit("member3").await;
    until("member3 has the new colour", || async { colour(servers, "member3").await == "blue" }).await;
    until("the placement is available", || is_available(servers, "web")).await;

    leave(servers, "member3").await;
    servers.hub().delete(&format!("{PLACEMENTS}/web")).await;
    for member in ["member1", "member2"] {
        until("it is taken back", || async { servers.member(member).get(SETTINGS).await.is_none() }).await;
    }
    assert_eq!(colour(servers, "member3").await, "blue", "objects of a member that left are kept");
}

async fn leave(servers: &Servers, member: &str) {
    let path = format!("{MEMBER_CLUSTERS}/{member}");
    servers.hub().delete(&path).await;
    until(&format!("{member} has left"), || async { servers.hub().get(&path).await.is_none() }).await;
}

/// A placement of a namespace on all members, without rollout limits.
pub(crate) fn placement(name: &str, namespace: &str, apply: Value) -> Value {
    json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": name},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": namespace}],
            "policy": {"placementType": "PickAll"},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "100%", "unavailablePeriodSeconds": 1},
                "applyStrategy": apply,
            },
        },
    })
}

pub(crate) async fn is_available(servers: &Servers, name: &str) -> bool {
    let placement = servers.hub().get(&format!("{PLACEMENTS}/{name}")).await.unwrap();
    condition(&placement["status"], "ClusterResourcePlacementAvailable") == Some("True".to_owned())
}

async fn colour(servers: &Servers, member: &str) -> String {
    let found = servers.member(member).get(SETTINGS).await.unwrap_or_default();
    found["data"]["colour"].as_str().unwrap_or_default().to_owned()
}

/// The drifts in the placement status: member, path, actual value, desired value.
async fn drifts(servers: &Servers) -> Vec<String> {
    let placement = servers.hub().get(&format!("{PLACEMENTS}/web")).await.unwrap();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut reported = Vec::new();
    for cluster in list(&placement["status"]["placementStatuses"]) {
        for drifted in list(&cluster["driftedPlacements"]) {
            for drift in list(&drifted["observedDrifts"]) {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let parts = [&cluster["clusterName"], &drift["path"], &drift["valueInMember"], &drift["valueInHub"]];
                reported.push(parts.map(text).join(" "));
            }
        }
    }
    reported
}
