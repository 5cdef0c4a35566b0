//! Overrides that change or remove objects on some clusters, and envelopes with objects that cannot exist on the hub.

use serde_json::json;

use crate::scenarios::fleet::{CLUSTER_PLACEMENTS, Fleet, MAPS, PLACEMENT, entry, named};

#[tokio::test(start_paused = true)]
async fn placement_69_an_override_removes_an_object_from_one_cluster_and_changes_it_on_the_others() {
    let fleet = Fleet::new(&["c1", "c2"]).await;
    let path = format!("{CLUSTER_PLACEMENTS}/web");
    fleet.place("web", json!({})).await;
    fleet.wait_until_available(&path, 2).await;
    let on = |name: &str| json!({"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"name": name}}}]});
    let patch = json!([{"op": "replace", "path": "/data/value", "value": "${MEMBER-CLUSTER-NAME}"}]);
    let rules = json!([
        {"clusterSelector": on("c1"), "overrideType": "Delete"},
        {"clusterSelector": on("c2"), "overrideType": "JSONPatch", "jsonPatchOverrides": patch},
    ]);
    let selector = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "settings"});
    let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceOverride",
        "metadata": {"name": "own"},
        "spec": {"placement": {"name": "web"}, "resourceSelectors": [selector], "policy": {"overrideRules": rules}}});
    fleet.hub.create(&format!("{PLACEMENT}/namespaces/shop/resourceoverrides"), object).await;
    let settings = format!("{MAPS}/settings");
    fleet.until("it is off c1", || async { !fleet.on("c1").has(&settings).await }).await;
    fleet
        .until("c2 has its own", || async { fleet.on("c2").get(&settings).await.unwrap()["data"]["value"] == "c2" })
        .await;
    fleet
        .until("the placement reports it", || async {
            let placement = fleet.wait_until_available(&path, 2).await;
            entry(&placement, "c1")["applicableResourceOverrides"] == json!([{"name": "own-0", "namespace": "shop"}])
        })
        .await;
    fleet.simulation.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn placement_59_everything_in_an_envelope_that_the_member_accepts_is_applied() {
    let fleet = Fleet::new(&["c1"]).await;
    let wrapped = |version: &str, kind: &str, metadata: serde_json::Value| {
        let mut metadata = metadata;
        metadata["namespace"] = json!("shop");
        json!({"apiVersion": version, "kind": kind, "metadata": metadata})
    };
    let data = json!({
        "good": wrapped("v1", "ConfigMap", json!({"name": "good"})),
        "unheard": wrapped("example.com/v9", "Unheard", json!({"name": "odd"})),
        "nameless": wrapped("v1", "Secret", json!({"generateName": "some-"})),
    });
    let envelope = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope",
        "metadata": {"name": "box"}, "data": data});
    fleet.hub.create(&format!("{PLACEMENT}/namespaces/shop/resourceenvelopes"), envelope).await;
    fleet.place("web", json!({})).await;
    let placement = fleet.wait_for_condition(&format!("{CLUSTER_PLACEMENTS}/web"), "Applied=False", 1).await;
    let failed = &entry(&placement, "c1")["failedPlacements"];
    let mut names = named(failed);
    names.sort();
    assert_eq!(names, ["Secret ", "Unheard odd"], "{failed:#}");
    for one in failed.as_array().unwrap() {
        assert_eq!(one["envelope"], json!({"name": "box", "namespace": "shop", "type": "ResourceEnvelope"}));
        assert_eq!(one["condition"]["status"], "False");
    }
    assert!(fleet.on("c1").has(&format!("{MAPS}/good")).await);
    assert!(fleet.on("c1").has(&format!("{MAPS}/settings")).await);
    fleet.simulation.shut_down().await;
}
