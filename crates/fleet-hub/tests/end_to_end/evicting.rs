//! Evictions: decided once, one after the other, on what is true at that moment.

use serde_json::{Value, json};

use crate::world::{PLACEMENT, World, shop, shop_on};

impl World {
    pub(crate) async fn evict(&self, name: &str, placement: &str, cluster: &str) {
        let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ClusterResourcePlacementEviction", "metadata": {"name": name},
            "spec": {"placementName": placement, "clusterName": cluster}});
        self.create(&format!("{PLACEMENT}/clusterresourceplacementevictions"), object).await;
    }

    /// `type=status message` of each of its conditions.
    pub(crate) async fn verdict(&self, name: &str) -> String {
        let eviction = self.get(&format!("{PLACEMENT}/clusterresourceplacementevictions/{name}")).await.unwrap();
        let conditions = eviction["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let word = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let told = |one: &Value| format!("{}={} {}", word(&one["type"]), word(&one["status"]), word(&one["message"]));
        conditions.iter().map(told).collect::<Vec<_>>().join("\n")
    }
}

/// A placement that waits for somebody to roll it out, so that nothing reaches a cluster.
fn not_rolled_out(mut spec: Value) -> Value {
    spec["strategy"] = json!({"type": "External"});
    spec
}

#[tokio::test(start_paused = true)]
async fn ev_1_3_5_6_scheduling_45_47_what_cannot_be_evicted_is_told_once_and_for_all() {
    let world = World::new(&["c1"]).await;
    world.place("waits", not_rolled_out(shop())).await;
    let mut fixed = not_rolled_out(shop());
    fixed["policy"] = json!({"placementType": "PickFixed", "clusterNames": ["c1"]});
    world.place("fixed", fixed).await;
    let running = world.start();
    running.settled().await;
    let long = "x".repeat(100);
    let cases = [
        ("missing", "nothing", "c1", "Valid=False Failed to find ClusterResourcePlacement targeted by eviction"),
        ("unheard", long.as_str(), "c1", "Valid=False Failed to find ClusterResourcePlacement targeted by eviction"),
        (
            "elsewhere",
            "waits",
            "c9",
            "Valid=False Failed to find scheduler decision for placement in cluster targeted by eviction",
        ),
        (
            "fixed",
            "fixed",
            "c1",
            "Valid=False Found ClusterResourcePlacement with PickFixed placement type targeted by eviction",
        ),
        (
            "early",
            "waits",
            "c1",
            "Valid=True Eviction is valid\nExecuted=False Eviction is blocked, placement has not propagated resources \
             to target cluster yet",
        ),
    ];
    for (name, placement, cluster, _) in cases {
        world.evict(name, placement, cluster).await;
    }
    running.settled().await;
    for (name, _, _, expected) in cases {
        assert_eq!(world.verdict(name).await, expected, "{name}");
    }
    assert_eq!(world.bindings("waits").await, "c1=Scheduled");

    // Whatever comes later, a verdict stands; a new eviction gets a new one.
    world.place("nothing", not_rolled_out(shop_on(1))).await;
    running.settled().await;
    world.evict("again", "nothing", "c1").await;
    running.settled().await;
    assert_eq!(world.verdict("missing").await, cases[0].3);
    assert!(world.verdict("again").await.starts_with("Valid=True"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ev_2_a_placement_that_is_being_deleted_is_not_evicted() {
    let world = World::new(&["c1"]).await;
    world.place("web", not_rolled_out(shop())).await;
    let path = format!("{PLACEMENT}/clusterresourceplacements/web");
    world.patch(&path, json!({"metadata": {"finalizers": ["test.io/held"]}})).await;
    world.delete(&path).await;
    let running = world.start();
    world.evict("late", "web", "c1").await;
    running.settled().await;
    assert_eq!(world.verdict("late").await, "Valid=False Found deleting ClusterResourcePlacement targeted by eviction");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn decided_evictions_cost_a_restart_nothing() {
    let world = World::new(&[]).await;
    let running = world.start();
    for number in 0..5 {
        world.evict(&format!("e{number}"), "nothing", "c1").await;
    }
    running.settled().await;
    running.stop().await;
    let running = world.start();
    running.settled().await;
    assert_eq!((running.metrics.writes(), running.metrics.reads()), (0, 0));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn evictions_can_be_turned_off() {
    let world = World::new(&[]).await;
    let options = fleet_hub::HubOptions { evictions: false, ..fleet_hub::HubOptions::default() };
    let running = world.start_with(options);
    world.evict("ignored", "nothing", "c1").await;
    running.settled().await;
    assert_eq!(world.verdict("ignored").await, "");
    running.stop().await;
}
