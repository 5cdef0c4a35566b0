//! A namespace that one placement creates on members, and its content that another placement brings.

use serde_json::{Value, json};

use crate::scenarios::fleet::{CLUSTER_PLACEMENTS, Fleet, MAPS, NAMESPACES, PLACEMENTS, named};

/// Selects the namespace `shop` without its content.
fn alone() -> Value {
    json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "shop", "selectionScope": "NamespaceOnly"}])
}

#[tokio::test(start_paused = true)]
async fn placement_14_the_content_of_a_namespace_that_is_placed_alone_may_be_placed_by_a_namespaced_placement() {
    let fleet = Fleet::reporting_namespaces(&["c1", "c2"]).await;
    let (namespace, map) = (format!("{NAMESPACES}/shop"), format!("{MAPS}/settings"));
    fleet.place("bare", json!({"resourceSelectors": alone()})).await;
    let bare = fleet.wait_until_available(&format!("{CLUSTER_PLACEMENTS}/bare"), 2).await;
    assert_eq!(named(&bare["status"]["selectedResources"]), ["Namespace shop"]);
    assert!(!fleet.on("c1").has(&map).await, "only the namespace is there");

    fleet.place_map("content").await;
    let content = format!("{PLACEMENTS}/content");
    fleet.wait_until_available(&content, 2).await;
    for member in ["c1", "c2"] {
        assert!(fleet.on(member).has(&map).await, "{member}");
    }
    fleet.hub.delete(&content).await;
    fleet
        .until("the content is gone from the members", || async {
            !fleet.on("c1").has(&map).await && !fleet.on("c2").has(&map).await
        })
        .await;
    for member in ["c1", "c2"] {
        let live = fleet.on(member).get(&namespace).await.unwrap();
        assert!(live["metadata"]["deletionTimestamp"].is_null(), "{live:#}");
    }
    assert_eq!(fleet.wait_until_available(&format!("{CLUSTER_PLACEMENTS}/bare"), 2).await["status"], bare["status"]);
    fleet.simulation.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn placement_79_a_namespaced_placement_follows_its_namespace_to_more_clusters() {
    let fleet = Fleet::reporting_namespaces(&["c1", "c2", "c3"]).await;
    let on = |clusters: Value| json!({"placementType": "PickFixed", "clusterNames": clusters});
    fleet.place("bare", json!({"resourceSelectors": alone(), "policy": on(json!(["c1"]))})).await;
    let bare = format!("{CLUSTER_PLACEMENTS}/bare");
    fleet.wait_until_available(&bare, 1).await;
    fleet.place_map("content").await;
    let content = format!("{PLACEMENTS}/content");
    let first = fleet.wait_until_available(&content, 1).await;
    assert_eq!(first["status"]["placementStatuses"][0]["clusterName"], "c1");
    assert!(!fleet.on("c2").has(&format!("{MAPS}/settings")).await);

    fleet.hub.patch(&bare, json!({"spec": {"policy": on(json!(["c1", "c2", "c3"]))}})).await;
    fleet.wait_until_available(&bare, 3).await;
    fleet.wait_until_available(&content, 3).await;
    for member in ["c1", "c2", "c3"] {
        assert!(fleet.on(member).has(&format!("{MAPS}/settings")).await, "{member}");
    }
    fleet.simulation.shut_down().await;
}
