//! Objects that somebody else has already: another placement, or somebody on the member.

use serde_json::{Value, json};

use crate::fleet::{CLUSTER_PLACEMENTS, Fleet, MAPS, NAMESPACES, PLACEMENTS, conditions, entry, named, owners};

/// The condition by which a placement says that its objects are applied.
fn applied(placement: &Value) -> Value {
    let all = placement["status"]["conditions"].as_array().unwrap();
    all.iter().find(|one| one["type"].as_str().unwrap().ends_with("Applied")).unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn placement_80_of_two_placements_of_one_object_the_later_fails_and_the_earlier_is_unaffected() {
    let fleet = Fleet::new(&["c1", "c2"]).await;
    let first = format!("{CLUSTER_PLACEMENTS}/first");
    fleet.place("first", json!({})).await;
    let before = fleet.all_good(&first, 2).await;
    let on_c1 = fleet.on("c1").get(&format!("{MAPS}/settings")).await.unwrap();
    assert_eq!(owners(&on_c1), ["AppliedWork first-work"]);

    fleet.place_map("later").await;
    let later = format!("{PLACEMENTS}/later");
    let told = fleet.says(&later, "Applied=False", 2).await;
    assert_eq!(conditions(&told["status"]["conditions"]).last().unwrap(), "ResourcePlacementApplied=False ApplyFailed");
    for cluster in ["c1", "c2"] {
        let entry = entry(&told, cluster);
        assert_eq!(named(&entry["failedPlacements"]), ["ConfigMap settings"], "{entry:#}");
        let condition = &entry["failedPlacements"][0]["condition"];
        assert_eq!((&condition["type"], &condition["status"]), (&json!("Applied"), &json!("False")));
    }
    assert_eq!(fleet.on("c1").get(&format!("{MAPS}/settings")).await.unwrap(), on_c1, "nobody touched it");
    let after = fleet.hub.get(&first).await.unwrap();
    assert_eq!(applied(&after), applied(&before));
    assert!(entry(&after, "c1").get("failedPlacements").is_none());

    // What the later one never got stays when it goes.
    fleet.hub.delete(&later).await;
    fleet.until("the later placement is gone", || async { !fleet.hub.has(&later).await }).await;
    fleet.hub.patch(&format!("{MAPS}/settings"), json!({"data": {"value": "2"}})).await;
    fleet
        .until("the earlier one goes on", || async {
            fleet.on("c1").get(&format!("{MAPS}/settings")).await.unwrap()["data"]["value"] == "2"
        })
        .await;
    fleet.world.end().await;
}

#[tokio::test(start_paused = true)]
async fn placement_31_80_the_later_one_takes_over_when_the_earlier_is_gone() {
    let fleet = Fleet::new(&["c1"]).await;
    fleet.on("c1").create(NAMESPACES, json!({"metadata": {"name": "shop"}})).await;
    fleet.place_map("first").await;
    let (first, later) = (format!("{PLACEMENTS}/first"), format!("{PLACEMENTS}/later"));
    fleet.all_good(&first, 1).await;
    fleet.place_map("later").await;
    fleet.says(&later, "Applied=False", 1).await;
    fleet.hub.delete(&first).await;
    fleet.all_good(&later, 1).await;
    let live = fleet.on("c1").get(&format!("{MAPS}/settings")).await.unwrap();
    assert_eq!(owners(&live), ["AppliedWork shop.later-work"]);
    fleet.world.end().await;
}

#[tokio::test(start_paused = true)]
async fn placement_30_what_belongs_to_somebody_on_the_member_is_not_taken_and_stays() {
    let fleet = Fleet::new(&["c1", "c2", "c3"]).await;
    let c1 = fleet.on("c1");
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = c1.create(roles, json!({"metadata": {"name": "theirs"}, "rules": []})).await;
    let owner = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "theirs",
        "uid": role["metadata"]["uid"]});
    c1.create(NAMESPACES, json!({"metadata": {"name": "shop", "ownerReferences": [owner]}})).await;

    fleet.place("web", json!({"strategy": {"applyStrategy": {"allowCoOwnership": false}}})).await;
    let path = format!("{CLUSTER_PLACEMENTS}/web");
    let told = fleet.says(&path, "Applied=False", 3).await;
    assert_eq!(
        conditions(&told["status"]["conditions"]).last().unwrap(),
        "ClusterResourcePlacementApplied=False ApplyFailed"
    );
    assert_eq!(named(&entry(&told, "c1")["failedPlacements"]), ["Namespace shop"]);
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
    fleet.world.end().await;
}
