//! Clusters that leave and rejoin, and placements that are deleted.

use serde_json::json;

use crate::scenarios::fleet::{
    CLUSTER_PLACEMENTS, Fleet, MAPS, MEMBERS, NAMESPACES, PLACEMENT, conditions, named, owners,
};

#[tokio::test(start_paused = true)]
async fn placement_49_clusters_that_leave_keep_their_objects_and_rejoin_with_them() {
    let fleet = Fleet::new(&["c1", "c2"]).await;
    let path = format!("{CLUSTER_PLACEMENTS}/web");
    fleet.place("web", json!({})).await;
    let before = fleet.wait_until_available(&path, 2).await;
    assert_eq!(before["status"]["observedResourceIndex"], "0");
    let uid = fleet.on("c1").get(&format!("{MAPS}/settings")).await.unwrap()["metadata"]["uid"].take();
    for member in ["c1", "c2"] {
        fleet.hub.delete(&format!("{MEMBERS}/{member}")).await;
    }
    fleet
        .until("both have left", || async {
            !fleet.hub.has(&format!("{MEMBERS}/c1")).await && !fleet.hub.has(&format!("{MEMBERS}/c2")).await
        })
        .await;
    let alone = fleet.wait_for_condition(&path, "Scheduled=True", 0).await;
    assert_eq!(conditions(&alone["status"]["conditions"]).len(), 1, "{:#}", alone["status"]);
    assert_eq!(named(&alone["status"]["selectedResources"]), ["Namespace shop", "ConfigMap settings"]);
    for member in ["c1", "c2"] {
        assert!(fleet.on(member).has(&format!("{MAPS}/settings")).await, "{member} keeps what it has");
    }

    fleet.rejoin().await;
    let again = fleet.wait_until_available(&path, 2).await;
    assert_eq!(again["status"]["observedResourceIndex"], "0");
    let live = fleet.on("c1").get(&format!("{MAPS}/settings")).await.unwrap();
    assert_eq!(live["metadata"]["uid"], uid, "it is the same object still");
    assert_eq!(owners(&live), ["AppliedWork web-work"]);
    fleet.simulation.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn placement_49_changes_made_while_clusters_are_away_reach_them_after_they_rejoin() {
    let fleet = Fleet::new(&["c1"]).await;
    let path = format!("{CLUSTER_PLACEMENTS}/web");
    let settings = format!("{MAPS}/settings");
    fleet.place("web", json!({})).await;
    fleet.wait_until_available(&path, 1).await;
    // Long enough for the caches of the agent to be complete.
    fleet.pass(std::time::Duration::from_mins(2)).await;
    fleet.hub.delete(&format!("{MEMBERS}/c1")).await;
    fleet.until("it has left", || async { !fleet.hub.has(&format!("{MEMBERS}/c1")).await }).await;
    fleet.wait_for_condition(&path, "Scheduled=True", 0).await;
    fleet.hub.patch(&settings, json!({"data": {"value": "2"}})).await;
    fleet.pass(std::time::Duration::from_mins(2)).await;
    let value = || async { fleet.on("c1").get(&settings).await.unwrap()["data"]["value"].clone() };
    assert_eq!(value().await, "1", "nothing is applied to a cluster that has left");
    // The same agent gets a Work of the same name and generation with other content.
    fleet.rejoin().await;
    fleet.wait_until_available(&path, 1).await;
    assert_eq!(value().await, "2", "available is what was asked for");
    fleet.simulation.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn placement_35_a_deleted_placement_leaves_no_objects() {
    let fleet = Fleet::new(&["c1", "c2"]).await;
    let path = format!("{CLUSTER_PLACEMENTS}/web");
    fleet.place("web", json!({})).await;
    fleet.wait_until_available(&path, 2).await;
    fleet.hub.delete(&path).await;
    fleet.until("the placement is gone", || async { !fleet.hub.has(&path).await }).await;
    for object in [format!("{MAPS}/settings"), format!("{NAMESPACES}/shop")] {
        fleet
            .until("the members have nothing left of it", || async {
                !fleet.on("c1").has(&object).await && !fleet.on("c2").has(&object).await
            })
            .await;
        assert!(fleet.hub.has(&object).await, "the hub keeps its own");
    }
    let kinds = ["clusterresourcesnapshots", "clusterschedulingpolicysnapshots", "clusterresourcebindings", "works"];
    for kind in kinds {
        let path = format!("{PLACEMENT}/{kind}");
        let is_empty = || async { fleet.hub.get(&path).await.unwrap()["items"].as_array().unwrap().is_empty() };
        fleet.until(kind, is_empty).await;
    }
    fleet.simulation.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn abandoned_objects_stay_without_owners() {
    let fleet = Fleet::new(&["c1"]).await;
    let path = format!("{CLUSTER_PLACEMENTS}/web");
    fleet.place("web", json!({"strategy": {"deleteStrategy": {"propagationPolicy": "Abandon"}}})).await;
    fleet.wait_until_available(&path, 1).await;
    fleet.hub.delete(&path).await;
    let work = "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-c1/works/web-work";
    fleet.until("the Work is gone", || async { !fleet.hub.has(work).await }).await;
    fleet.until("the placement is gone", || async { !fleet.hub.has(&path).await }).await;
    // Longer than the garbage collector takes to delete objects whose owner is gone.
    fleet.pass(std::time::Duration::from_mins(2)).await;
    for object in [format!("{NAMESPACES}/shop"), format!("{MAPS}/settings")] {
        let live = fleet.on("c1").get(&object).await.unwrap();
        assert!(owners(&live).is_empty() && live["metadata"]["deletionTimestamp"].is_null(), "{live:#}");
    }
    fleet.simulation.shut_down().await;
}
