//! A member with a property provider and a price file reports its costs, follows changes of the file, and is picked by cost.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::drifting::{PLACEMENTS, placement};
use crate::fleet::Fleet;
use crate::servers::{MEMBER_CLUSTERS, Servers, condition, until};

/// The member whose agent has a price file.
pub(crate) const MEMBER: &str = "member1";
const CORE_COST: &str = "kubernetes.azure.com/per-cpu-core-cost";
const MEMORY_COST: &str = "kubernetes.azure.com/per-gb-memory-cost";
const BINDINGS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourcebindings";
const COLLECTION: &str = "AKSClusterCostPropertiesCollectionSucceeded";

/// Enables cost properties. The file has no prices yet.
pub(crate) fn with_prices(servers: &Servers, command: &mut Command) {
    let file = set_prices(servers, &json!({}));
    command.arg("--property-provider=azure").arg(format!("--price-file={}", file.display()));
}

/// Writes the prices of the region `east`.
fn set_prices(servers: &Servers, east: &Value) -> PathBuf {
    servers.file("prices.yaml", &json!({"prices": {"east": east}}).to_string())
}

pub(crate) async fn last_07_costs_follow_nodes_and_the_price_file(fleet: &Fleet) {
    let servers = &fleet.servers;
    let has_status =
        |wanted: &'static str| async move { condition(&status(servers).await, COLLECTION) == Some(wanted.into()) };
    // A cluster without nodes costs nothing.
    until("costs are reported", || has_status("True")).await;
    assert_eq!(costs(servers).await, ["0.000", "0.000"]);
    let order = status(servers).await["conditions"].as_array().cloned().unwrap_or_default();
    let place = |type_: &str| order.iter().position(|condition| condition["type"] == type_);
    assert!(place("ClusterPropertyCollectionSucceeded") < place(COLLECTION), "{order:?}");

    let labels = json!({"beta.kubernetes.io/instance-type": "Standard_D4", "topology.kubernetes.io/region": "east"});
    let member = servers.member(MEMBER);
    member.create("/api/v1/nodes", json!({"metadata": {"name": "costly", "labels": labels}})).await;
    let amounts = json!({"cpu": "4", "memory": "16Gi"});
    let offered = json!({"status": {"capacity": amounts, "allocatable": amounts}});
    member.merge("/api/v1/nodes/costly/status", offered).await;
    until("the price is missed", || has_status("False")).await;
    assert_eq!(costs(servers).await, ["", ""], "costs that are not known are not reported");

    set_prices(servers, &json!({"Standard_D4": 0.4}));
    until("the costs are known", || async { costs(servers).await == ["0.100", "0.025"] }).await;
    until("the condition says so", || has_status("True")).await;
    is_picked_by_cost(servers).await;
    set_prices(servers, &json!({"Standard_D4": 0.8}));
    until("the new price counts", || async { costs(servers).await == ["0.200", "0.050"] }).await;
    member.delete("/api/v1/nodes/costly").await;
    until("nothing costs anything", || async { costs(servers).await == ["0.000", "0.000"] }).await;
}

/// Only a member that reports costs can satisfy a limit on them. The placed namespace does not exist: only the decision matters.
async fn is_picked_by_cost(servers: &Servers) {
    let affordable = json!({"name": CORE_COST, "operator": "Le", "values": ["0.15"]});
    let terms = json!([{"propertySelector": {"matchExpressions": [affordable]}}]);
    let cheapest =
        json!({"weight": 50, "preference": {"propertySorter": {"name": CORE_COST, "sortOrder": "Ascending"}}});
    let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms},
        "preferredDuringSchedulingIgnoredDuringExecution": [cheapest]});
    let mut object = placement("affordable", "affordable", json!({}));
    object["spec"]["policy"] = json!({"placementType": "PickN", "numberOfClusters": 1,
        "affinity": {"clusterAffinity": affinity}});
    servers.hub().create(PLACEMENTS, object).await;
    let path = format!("{PLACEMENTS}/affordable");
    until("the placement has a cluster", || async {
        let found = servers.hub().get(&path).await.unwrap_or_default();
        condition(&found["status"], "ClusterResourcePlacementScheduled") == Some("True".to_owned())
    })
    .await;
    let labelled = format!("{BINDINGS}?labelSelector=kubernetes-fleet.io%2Fparent-CRP%3Daffordable");
    let bindings = servers.hub().list(&labelled).await;
    let clusters: Vec<_> = bindings.iter().map(|binding| &binding["spec"]["targetCluster"]).collect();
    assert_eq!(clusters, [MEMBER]);
    servers.hub().delete(&path).await;
    until("the placement is gone", || async { servers.hub().get(&path).await.is_none() }).await;
}

/// The status of the MemberCluster.
async fn status(servers: &Servers) -> Value {
    let member = servers.hub().get(&format!("{MEMBER_CLUSTERS}/{MEMBER}")).await;
    member.unwrap_or_default()["status"].clone()
}

/// Cost of a core and of a gigabyte; empty if not reported.
async fn costs(servers: &Servers) -> [String; 2] {
    let status = status(servers).await;
    [CORE_COST, MEMORY_COST].map(|name| status["properties"][name]["value"].as_str().unwrap_or_default().to_owned())
}
