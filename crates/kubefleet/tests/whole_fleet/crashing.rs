//! The hub agent is killed during a rollout and restarted: changes in between reach all members, and nothing is applied twice.

use serde_json::{Value, json};

use crate::drifting::{PLACEMENTS, is_available, placement};
use crate::fleet::{Fleet, MEMBERS, had_its_rights};
use crate::servers::{Servers, until};

const API: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
const SETTINGS: &str = "/api/v1/namespaces/bakery/configmaps/settings";
/// Metric of a placement that is completely rolled out.
const COMPLETED: &str = "fleet_workload_placement_status_last_timestamp_seconds{namespace=\"\",name=\"bread\",\
    generation=\"1\",conditionType=\"Completed\",status=\"True\",reason=\"Completed\"} ";

pub(crate) async fn a_rollout_survives_a_crash_of_the_hub_agent(fleet: &mut Fleet, flags: &[&str]) {
    let hub = fleet.servers.hub();
    hub.create("/api/v1/namespaces", json!({"metadata": {"name": "bakery"}})).await;
    hub.create("/api/v1/namespaces/bakery/configmaps", json!({"metadata": {"name": "settings"}})).await;
    change_settings(&fleet.servers, "1").await;
    let mut one_by_one = placement("bread", "bakery", json!({}));
    one_by_one["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] = json!(1);
    hub.create(PLACEMENTS, one_by_one).await;
    until("all members have version 1", || is_everywhere(&fleet.servers, "1")).await;
    until("the placement says so", || is_available(&fleet.servers, "bread")).await;
    let bindings = names_of(&fleet.servers, "clusterresourcebindings").await;
    assert_eq!(bindings.len(), MEMBERS.len());
    let (_, metrics) = fleet.hub_agent.get_metrics("/metrics").await;
    assert!(metrics.contains(COMPLETED), "{metrics}");
    // Before the kill, the agent has created events, held the lease and served webhooks.
    assert!(metrics.contains("fleet_runtime_events_total{outcome=\"ok\"}"), "{metrics}");
    assert!(
        metrics.contains("kubefleet_webhook_lookups_total{kind=\"clusterresourceplacements\",outcome=\"ok\"}"),
        "{metrics}"
    );
    assert!(fleet.hub_agent.log().contains("leads=true"), "{}", fleet.hub_agent.log());
    had_its_rights(&metrics, &fleet.hub_agent.log());

    change_settings(&fleet.servers, "2").await;
    until("some member has version 2", || async { !members_with(&fleet.servers, "2").await.is_empty() }).await;
    fleet.kill_hub_agent();
    change_settings(&fleet.servers, "3").await;
    fleet.start_hub_agent(flags).await;
    until("all members have version 3", || is_everywhere(&fleet.servers, "3")).await;
    until("the placement says so", || is_available(&fleet.servers, "bread")).await;
    assert_eq!(names_of(&fleet.servers, "clusterresourcebindings").await, bindings, "nothing was placed again");

    fleet.servers.hub().delete(&format!("{PLACEMENTS}/bread")).await;
    let kinds = ["clusterresourcebindings", "clusterresourcesnapshots", "clusterschedulingpolicysnapshots", "works"];
    for kind in kinds {
        until(&format!("no {kind} are left"), || async { names_of(&fleet.servers, kind).await.is_empty() }).await;
    }
    until("it is taken back", || async { members_with(&fleet.servers, "3").await.is_empty() }).await;
}

async fn change_settings(servers: &Servers, version: &str) {
    servers.hub().merge(SETTINGS, json!({"data": {"version": version}})).await;
}

async fn members_with(servers: &Servers, version: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    for member in MEMBERS {
        let settings = servers.member(member).get(SETTINGS).await.unwrap_or_default();
        if settings["data"]["version"] == version {
            found.push(member);
        }
    }
    found
}

async fn is_everywhere(servers: &Servers, version: &str) -> bool {
    members_with(servers, version).await == MEMBERS
}

/// Objects of this kind that belong to the placement.
async fn names_of(servers: &Servers, kind: &str) -> Vec<String> {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    let all = servers.hub().list(&format!("{API}/{kind}")).await;
    all.iter().map(name).filter(|name| name.starts_with("bread-")).collect()
}
