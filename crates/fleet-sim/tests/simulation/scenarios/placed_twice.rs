//! Objects that already have another owner: another placement, or a user of the member.

use serde_json::{Value, json};

use crate::scenarios::fleet::{
    CLUSTER_PLACEMENTS, Fleet, MAPS, NAMESPACES, PLACEMENTS, conditions, entry, named, owners,
};

/// The `Applied` condition of a placement.
fn applied(placement: &Value) -> Value {
    let all = placement["status"]["conditions"].as_array().unwrap();
    all.iter().find(|one| one["type"].as_str().unwrap().ends_with("Applied")).unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn placement_80_of_two_placements_of_one_object_the_later_fails_and_the_earlier_is_unaffected() {
    let fleet = Fleet::new(&["c1", "c2"]).await;
    let first = format!("{CLUSTER_PLACEMENTS}/first");
    fleet.place("first", json!({})).await;
    let before = fleet.wait_until_available(&first, 2).await;
    let on_c1 = fleet.on("c1").get(&format!("{MAPS}/settings")).await.unwrap();
    assert_eq!(owners(&on_c1), ["AppliedWork first-work"]);

    fleet.place_map("later").await;
    let later = format!("{PLACEMENTS}/later");
    let placement = fleet.wait_for_condition(&later, "Applied=False", 2).await;
    assert_eq!(
        conditions(&placement["status"]["conditions"]).last().unwrap(),
        "ResourcePlacementApplied=False ApplyFailed"
    );
    for cluster in ["c1", "c2"] {
        let entry = entry(&placement, cluster);
        assert_eq!(named(&entry["failedPlacements"]), ["ConfigMap settings"], "{entry:#}");
        let condition = &entry["failedPlacements"][0]["condition"];
        assert_eq!((&condition["type"], &condition["status"]), (&json!("Applied"), &json!("False")));
    }
    assert_eq!(fleet.on("c1").get(&format!("{MAPS}/settings")).await.unwrap(), on_c1, "it is unchanged");
    let after = fleet.hub.get(&first).await.unwrap();
    assert_eq!(applied(&after), applied(&before));
    assert!(entry(&after, "c1").get("failedPlacements").is_none());

    // Objects that the later placement never owned stay when it is deleted.
    fleet.hub.delete(&later).await;
    fleet.until("the later placement is gone", || async { !fleet.hub.has(&later).await }).await;
    fleet.hub.patch(&format!("{MAPS}/settings"), json!({"data": {"value": "2"}})).await;
    fleet
        .until("the earlier one goes on", || async {
            fleet.on("c1").get(&format!("{MAPS}/settings")).await.unwrap()["data"]["value"] == "2"
        })
        .await;
    fleet.simulation.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn placement_31_80_the_later_placement_takes_over_when_the_earlier_is_deleted() {
    let fleet = Fleet::new(&["c1"]).await;
    fleet.on("c1").create(NAMESPACES, json!({"metadata": {"name": "shop"}})).await;
    fleet.place_map("first").await;
    let (first, later) = (format!("{PLACEMENTS}/first"), format!("{PLACEMENTS}/later"));
    fleet.wait_until_available(&first, 1).await;
    fleet.place_map("later").await;
    fleet.wait_for_condition(&later, "Applied=False", 1).await;
    fleet.hub.delete(&first).await;
    fleet.wait_until_available(&later, 1).await;
    let live = fleet.on("c1").get(&format!("{MAPS}/settings")).await.unwrap();
    assert_eq!(owners(&live), ["AppliedWork shop.later-work"]);
    fleet.simulation.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn placement_30_an_object_of_the_member_is_not_taken_over_and_stays() {
    let fleet = Fleet::new(&["c1", "c2", "c3"]).await;
    let c1 = fleet.on("c1");
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = c1.create(roles, json!({"metadata": {"name": "theirs"}, "rules": []})).await;
    let owner = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "theirs",
        "uid": role["metadata"]["uid"]});
    c1.create(NAMESPACES, json!({"metadata": {"name": "shop", "ownerReferences": [owner]}})).await;

    fleet.place("web", json!({"strategy": {"applyStrategy": {"allowCoOwnership": false}}})).await;
    let path = format!("{CLUSTER_PLACEMENTS}/web");
    let placement = fleet.wait_for_condition(&path, "Applied=False", 3).await;
    assert_eq!(
        conditions(&placement["status"]["conditions"]).last().unwrap(),
        "ClusterResourcePlacementApplied=False ApplyFailed"
    );
    assert_eq!(named(&entry(&placement, "c1")["failedPlacements"]), ["Namespace shop"]);
    fleet
        .until("the others are well", || async {
            let placement = fleet.hub.get(&path).await.unwrap();
            ["c2", "c3"].iter().all(|cluster| {
                conditions(&entry(&placement, cluster)["conditions"]).last().unwrap()
                    == "Available=True AllWorkAreAvailable"
            })
        })
        .await;
    fleet.hub.delete(&path).await;
    let namespace = format!("{NAMESPACES}/shop");
    fleet.until("the others are clean", || async { !fleet.on("c2").has(&namespace).await }).await;
    fleet.until("the placement is gone", || async { !fleet.hub.has(&path).await }).await;
    fleet.until("c1 is clean too", || async { !c1.has(&format!("{MAPS}/settings")).await }).await;
    let left = c1.get(&namespace).await.unwrap();
    assert_eq!(owners(&left), ["ClusterRole theirs"], "whose it is, it stays");
    assert!(left["metadata"]["deletionTimestamp"].is_null());
    fleet.simulation.shut_down().await;
}
