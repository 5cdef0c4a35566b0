//! Bindings that are moved by others or given up: what becomes of their Works and statuses meanwhile.

use serde_json::{Value, json};

use crate::end_to_end::members::Fares;
use crate::end_to_end::world::{PLACEMENT, World, conditions, shop, shop_on};

/// One snapshot of the group 0 of `web`, with Secrets of these names.
fn piece(name: &str, annotations: Value, secrets: &[&str]) -> Value {
    let secret =
        |name: &&str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "shop"}});
    let mut labels = json!({"kubernetes-fleet.io/parent-CRP": "web", "kubernetes-fleet.io/resource-index": "0"});
    if name.ends_with("-snapshot") {
        labels["kubernetes-fleet.io/is-latest-snapshot"] = json!("true");
    }
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourceSnapshot",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"selectedResources": secrets.iter().map(secret).collect::<Vec<_>>()}})
}

impl World {
    /// Moves the binding of `web` for `c1` as a staged run does: first its spec, then that it has begun.
    async fn move_binding(&self, spec: Value) {
        let binding = self.binding("web", "c1").await;
        let path = format!("{PLACEMENT}/clusterresourcebindings/{}", binding["metadata"]["name"].as_str().unwrap());
        let moved = self.patch(&path, json!({"spec": spec})).await;
        let started = json!({"type": "RolloutStarted", "status": "True", "reason": "RolloutStarted", "message": "",
            "observedGeneration": moved["metadata"]["generation"], "lastTransitionTime": "2026-01-01T00:00:00Z"});
        self.patch(&format!("{path}/status"), json!({"status": {"conditions": [started]}})).await;
    }

    async fn last_condition(&self, cluster: &str) -> String {
        conditions(&self.binding("web", cluster).await["status"]["conditions"]).pop().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn placement_54_works_wait_for_all_snapshots_of_a_group() {
    let world = World::new(&["c1"]).await;
    let mut spec = shop();
    spec["strategy"] = json!({"type": "External"});
    world.place("web", spec).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let snapshots = format!("{PLACEMENT}/clusterresourcesnapshots");
    let about = json!({"kubernetes-fleet.io/resource-hash": "h", "kubernetes-fleet.io/number-of-resource-snapshots": "3",
        "kubernetes-fleet.io/number-of-enveloped-object": "0"});
    let place_in_group = |place: &str| json!({"kubernetes-fleet.io/subindex-of-resource-snapshot": place});
    world.create(&snapshots, piece("web-0-snapshot", about, &["a"])).await;
    world.create(&snapshots, piece("web-0-0", place_in_group("0"), &["b"])).await;
    world.move_binding(json!({"state": "Bound", "resourceSnapshotName": "web-0-snapshot"})).await;
    running.at_rest(&members).await;
    assert!(world.works().await.is_empty());
    assert_eq!(world.last_condition("c1").await, "Overridden=False OverriddenFailed");

    world.create(&snapshots, piece("web-0-1", place_in_group("1"), &["c", "d"])).await;
    running.at_rest(&members).await;
    assert_eq!(world.works().await, ["c1/web-0: b", "c1/web-1: c d", "c1/web-work: a"]);
    assert_eq!(world.last_condition("c1").await, "Available=True AllWorkAreAvailable");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_55_an_unscheduled_cluster_is_kept_up_to_date_until_it_is_removed() {
    let world = World::new(&["c1", "c2"]).await;
    let mut spec = shop_on(2);
    let limits = json!({"maxUnavailable": 0, "maxSurge": 1});
    spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": limits});
    world.place("web", spec).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    // While the one that stays is down, the other may not go.
    members.only("c2", Fares::NotAvailable);
    running.at_rest(&members).await;
    world.edit("web", json!({"policy": {"numberOfClusters": 1}})).await;
    running.at_rest(&members).await;
    assert_eq!(world.bindings("web").await, "c1=Unscheduled c2=Bound");
    assert_eq!(world.works().await, ["c1/web-work: shop", "c2/web-work: shop"]);
    assert_eq!(world.last_condition("c1").await, "Available=True AllWorkAreAvailable");

    members.say(|work| {
        let stays = work.metadata.namespace.as_deref() == Some("fleet-member-c2");
        if stays { Fares::NotAvailable } else { Fares::Untrackable }
    });
    running.at_rest(&members).await;
    let told = world.last_condition("c1").await;
    assert_eq!(told, "Available=True NotAllWorkAreAvailabilityTrackable", "its status follows");
    assert_eq!(world.works().await.len(), 2);

    members.say(|_| Fares::Available);
    running.at_rest(&members).await;
    assert_eq!(world.bindings("web").await, "c2=Bound");
    assert_eq!(world.works().await, ["c2/web-work: shop"]);
    running.stop().await;
    members.stop().await;
}
