//! A hub that dies in the middle of a rollout goes on with it when it comes back.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{PLACEMENT, Running, World, shop};

/// Lets the hub work until it has begun this many writes, then kills it.
async fn kill_after(running: Running, writes: u64) {
    let mut idle = 0;
    while running.metrics.writes() < writes && idle < 50_000 {
        idle += 1;
        if idle % 1000 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        } else {
            tokio::task::yield_now().await;
        }
    }
    running.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_hub_may_die_at_any_write_of_an_update() {
    let world = World::new(&["c1", "c2", "c3"]).await;
    world.config_map("settings", "0").await;
    world.place("web", shop()).await;
    let members = world.members();
    let mut running = world.start();
    running.at_rest(&members).await;
    for number in 1..=14 {
        running.stop().await;
        let value = number.to_string();
        world.patch("/api/v1/namespaces/shop/configmaps/settings", json!({"data": {"value": value}})).await;
        kill_after(world.start(), number).await;
        running = world.start();
        running.at_rest(&members).await;
        let works = world.list(&format!("{PLACEMENT}/works")).await;
        let value_of = |work: &Value| work["spec"]["workload"]["manifests"][1]["data"]["value"].clone();
        let values: Vec<_> = works.iter().map(value_of).collect();
        assert_eq!(values, vec![json!(value); 3], "killed at write {number}");
        assert_eq!(world.bindings("web").await, "c1=Bound c2=Bound c3=Bound");
        let last = world.conditions("web").await.pop().unwrap();
        assert_eq!(last, "ClusterResourcePlacementAvailable=True ResourceAvailable", "killed at write {number}");
    }
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hub_may_die_at_any_write_of_a_first_rollout_and_of_its_end() {
    let world = World::new(&["c1", "c2"]).await;
    world.config_map("settings", "0").await;
    let members = world.members();
    let running = world.start();
    running.at_rest(&members).await;
    running.stop().await;
    for number in 1..=14 {
        world.place("web", shop()).await;
        kill_after(world.start(), number).await;
        let running = world.start();
        running.at_rest(&members).await;
        assert_eq!(world.works().await, ["c1/web-work: shop settings", "c2/web-work: shop settings"]);
        assert_eq!(world.bindings("web").await, "c1=Bound c2=Bound");
        running.stop().await;

        world.delete(&format!("{PLACEMENT}/clusterresourceplacements/web")).await;
        kill_after(world.start(), number).await;
        let running = world.start();
        running.at_rest(&members).await;
        for kind in ["clusterresourceplacements", "clusterresourcebindings", "clusterresourcesnapshots", "works"] {
            let left = world.list(&format!("{PLACEMENT}/{kind}")).await;
            assert!(left.is_empty(), "killed at write {number}: {left:?}");
        }
        running.stop().await;
    }
    members.stop().await;
}
