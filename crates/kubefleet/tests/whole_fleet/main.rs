//! Hub agent and three member agents as processes on four real kube-apiservers with their controller managers: a placement
//! reaches all members, drift is seen and told, a member that leaves keeps what it has. Every agent has just the rights that it
//! is granted on the hub. Ignored by default: an empty cache means building Kubernetes first.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../shared/agent.rs"]
#[allow(dead_code, reason = "shared with tests that ask for more")]
mod agent;
#[path = "../shared/objects.rs"]
mod objects;
mod servers;

use std::time::Duration;

use agent::Agent;
use serde_json::{Value, json};
use servers::{Servers, condition};

const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];
const PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements";
const SETTINGS: &str = "/api/v1/namespaces/shop/configmaps/settings";
/// What agents promise, on a machine that may be busy with building.
const LONGEST_END: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds Kubernetes from source when the cache is empty"]
async fn a_placement_reaches_all_members_drift_is_seen_and_who_leaves_keeps_what_it_has() {
    let servers = Servers::start(&MEMBERS).await;
    let hub_agent = Agent::start(&servers.hub_agent_kubeconfig().await, &["--resource-changes-collection-duration=0s"]);
    let mut agents = Vec::new();
    for member in MEMBERS {
        servers.invite(member).await;
        agents.push(Agent::spawn(servers.member_agent(member).await));
    }
    for member in MEMBERS {
        servers.until(&format!("{member} has joined"), || async { servers.has_joined(member).await }).await;
    }

    servers.hub().create("/api/v1/namespaces", json!({"metadata": {"name": "shop"}})).await;
    let settings = json!({"metadata": {"name": "settings"}, "data": {"colour": "green"}});
    servers.hub().create("/api/v1/namespaces/shop/configmaps", settings).await;
    servers.hub().create(PLACEMENTS, placement()).await;
    for member in MEMBERS {
        servers.until(&format!("{member} has it"), || async { colour(&servers, member).await == "green" }).await;
    }
    servers.until("the placement is available", || async { is_true(&servers, "Available").await }).await;
    let placed = servers.member("member1").get(SETTINGS).await.unwrap();
    assert_eq!(placed["metadata"]["ownerReferences"][0]["kind"], "AppliedWork", "{placed}");

    servers.member("member2").merge(SETTINGS, json!({"data": {"colour": "red"}})).await;
    servers.until("the drift is told", || async { drifts(&servers).await == ["member2 /data/colour red green"] }).await;
    assert_eq!(colour(&servers, "member2").await, "red", "drift is not overwritten");
    servers.member("member2").merge(SETTINGS, json!({"data": {"colour": "green"}})).await;
    servers.until("the drift is over", || async { drifts(&servers).await.is_empty() }).await;

    servers.hub().delete("/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters/member3").await;
    servers
        .until("member3 has left", || async {
            servers.hub().get("/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters/member3").await.is_none()
        })
        .await;
    assert_eq!(colour(&servers, "member3").await, "green", "what is placed stays");

    servers.hub().delete(&format!("{PLACEMENTS}/web")).await;
    for member in ["member1", "member2"] {
        servers.until("it is taken back", || async { servers.member(member).get(SETTINGS).await.is_none() }).await;
    }
    assert_eq!(colour(&servers, "member3").await, "green", "nobody takes back what has left");
    for agent in agents.into_iter().chain([hub_agent]) {
        let (took, status, log) = agent.terminate().await;
        assert!(status.success() && took < LONGEST_END, "{took:?}\n{log}");
    }
}

fn placement() -> Value {
    json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement", "metadata": {"name": "web"},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
            "policy": {"placementType": "PickAll"},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "100%", "unavailablePeriodSeconds": 1},
                "applyStrategy": {"whenToApply": "IfNotDrifted", "comparisonOption": "PartialComparison"},
            },
        },
    })
}

async fn colour(servers: &Servers, member: &str) -> String {
    let found = servers.member(member).get(SETTINGS).await.unwrap_or_default();
    found["data"]["colour"].as_str().unwrap_or_default().to_owned()
}

async fn is_true(servers: &Servers, type_: &str) -> bool {
    let placement = servers.hub().get(&format!("{PLACEMENTS}/web")).await.unwrap();
    let prefixed = format!("ClusterResourcePlacement{type_}");
    condition(&placement["status"], &prefixed) == Some("True".to_owned())
}

/// The drifts that the placement tells: member, path, value there, value wanted.
async fn drifts(servers: &Servers) -> Vec<String> {
    let placement = servers.hub().get(&format!("{PLACEMENTS}/web")).await.unwrap();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut told = Vec::new();
    for cluster in list(&placement["status"]["placementStatuses"]) {
        for drifted in list(&cluster["driftedPlacements"]) {
            for drift in list(&drifted["observedDrifts"]) {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let parts = [&cluster["clusterName"], &drift["path"], &drift["valueInMember"], &drift["valueInHub"]];
                told.push(parts.map(text).join(" "));
            }
        }
    }
    told
}
