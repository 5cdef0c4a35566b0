//! `kubefleet hub-agent` on a real kube-apiserver with etcd: a workload is placed on three members, changed while the agent is
//! killed and started again, and removed. Agent and members have just the rights that they are granted. Ignored by default:
//! an empty cache means building Kubernetes first.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "shared with the tests on our own server, which ask for more")]
#[path = "../shared/agent.rs"]
mod agent;
mod fleet;
#[allow(dead_code, reason = "the tests of the member agent use the rest")]
#[path = "../shared/objects.rs"]
mod objects;

use std::time::Duration;

use agent::Agent;
use fleet::{Fleet, PLACEMENT};
use serde_json::{Value, json};

const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];
/// What the agent promises, on a machine that may be busy with building.
const LONGEST_END: Duration = Duration::from_secs(2);
/// What dashboards see of a placement that is where it should be.
const COMPLETED: &str = "fleet_workload_placement_status_last_timestamp_seconds{namespace=\"\",name=\"web\",\
    generation=\"1\",conditionType=\"Completed\",status=\"True\",reason=\"Completed\"} ";
/// Changes are taken up at once.
const FLAGS: [&str; 3] =
    ["--resource-snapshot-creation-minimum-interval=0s", "--resource-changes-collection-duration=0s", "--v=4"];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds Kubernetes from source when the cache is empty"]
async fn a_workload_is_placed_updated_and_removed_across_a_crash_of_the_agent() {
    let fleet = Fleet::start().await;
    let mut agent = Agent::start(&fleet.agent_kubeconfig().await, &FLAGS);
    agent.ready_when(|code, _| code == 200).await;
    let members = fleet.join(&MEMBERS).await;

    fleet.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})).await;
    fleet.create(settings("1")).await;
    fleet.create(deployment()).await;
    fleet.create(placement()).await;
    fleet.until("all members run version 1", || everywhere(&fleet, "1")).await;
    let done = || async { is_available(&fleet.placement("web").await) };
    fleet.until("the placement says so", done).await;
    let bindings = fleet.names(&format!("{PLACEMENT}/clusterresourcebindings")).await;
    assert_eq!(bindings.len(), MEMBERS.len());
    let (_, metrics) = agent.get_metrics("/metrics").await;
    assert!(metrics.contains(COMPLETED), "{metrics}");

    fleet.change_settings("2").await;
    fleet.until("some member is told of version 2", || async { !fleet.members_with("2").await.is_empty() }).await;
    agent.kill();
    fleet.change_settings("3").await;
    let mut agent = Agent::start(&fleet.agent_kubeconfig().await, &FLAGS);
    fleet.until("all members run version 3", || everywhere(&fleet, "3")).await;
    fleet.until("the placement says so", done).await;
    assert_eq!(fleet.names(&format!("{PLACEMENT}/clusterresourcebindings")).await, bindings, "nothing was placed anew");

    fleet.delete(&format!("{PLACEMENT}/clusterresourceplacements/web")).await;
    fleet.until("nothing is left", || nothing_left(&fleet)).await;

    let (_, metrics) = agent.get_metrics("/metrics").await;
    assert!(!metrics.contains("outcome=\"refused\""), "the rights of config/rbac are enough:\n{metrics}");
    assert!(metrics.contains("fleet_runtime_writes_total"), "{metrics}");
    let (took, status, log) = agent.terminate().await;
    assert!(status.success() && took < LONGEST_END, "{took:?} {status}\n{log}");
    assert!(!log.contains("panicked"), "{log}");
    members.stop().await;
}

fn settings(version: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "shop"},
        "data": {"version": version}})
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "registry.k8s.io/pause:3.10"}]}}}})
}

fn placement() -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
    "metadata": {"name": "web"},
    "spec": {
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
        "policy": {"placementType": "PickAll"},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "unavailablePeriodSeconds": 1}},
    }})
}

async fn everywhere(fleet: &Fleet, version: &str) -> bool {
    fleet.members_with(version).await == MEMBERS
}

fn is_available(placement: &Value) -> bool {
    let status = &placement["status"];
    let entries = status["placementStatuses"].as_array().map(Vec::len).unwrap_or_default();
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let available = |one: &Value| one["type"] == "ClusterResourcePlacementAvailable" && one["status"] == "True";
    entries == MEMBERS.len() && conditions.iter().any(available)
}

async fn nothing_left(fleet: &Fleet) -> bool {
    for kind in [
        "clusterresourceplacements",
        "clusterresourcebindings",
        "clusterresourcesnapshots",
        "clusterschedulingpolicysnapshots",
        "works",
    ] {
        if !fleet.names(&format!("{PLACEMENT}/{kind}")).await.is_empty() {
            return false;
        }
    }
    true
}
