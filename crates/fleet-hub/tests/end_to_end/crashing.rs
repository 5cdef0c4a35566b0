//! A hub that dies in the middle of a rollout goes on with it when it comes back.

use std::time::Duration;

use serde_json::{Value, json};

use crate::connections::mortal::Life;
use crate::end_to_end::world::{PLACEMENT, Running, World, shop};

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
async fn a_hub_may_crash_at_any_write_of_an_update() {
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
async fn a_hub_may_crash_at_any_write_of_a_first_rollout_and_of_a_removal() {
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

/// Waits until the hub has died, or until there was nothing left for it to die at.
async fn settle_or_die(running: Running, life: &Life) {
    let begun = tokio::time::Instant::now();
    while !life.is_over() && begun.elapsed() < Duration::from_secs(30) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    running.kill().await;
}

#[tokio::test(start_paused = true)]
async fn placement_24_an_incomplete_snapshot_group_is_completed_under_its_index() {
    let whole = ["web-0-0: b", "web-0-1: c", "web-0-snapshot*: shop a"];
    let mut interrupted = 0;
    for writes in 0..8 {
        let world = World::new(&["c1"]).await;
        for name in ["a", "b", "c"] {
            world.config_map(name, &"x".repeat(500_000)).await;
        }
        // What members need is made before.
        let running = world.start();
        running.settled().await;
        running.stop().await;
        let life = Life::of(writes, true);
        world.place("web", shop()).await;
        settle_or_die(world.start_mortal(life.clone()), &life).await;
        let left_behind = world.snapshots().await;
        let has_master = left_behind.iter().any(|one| one.starts_with("web-0-snapshot*"));
        interrupted += usize::from(has_master && left_behind.len() < whole.len());

        let (running, members) = (world.start(), world.members());
        running.at_rest(&members).await;
        assert_eq!(world.snapshots().await, whole, "killed at write {writes}");
        let master = world.get(&format!("{PLACEMENT}/clusterresourcesnapshots/web-0-snapshot")).await.unwrap();
        let count = &master["metadata"]["annotations"]["kubernetes-fleet.io/number-of-resource-snapshots"];
        assert_eq!(count, "3");
        assert_eq!(world.works().await, ["c1/web-0: b", "c1/web-1: c", "c1/web-work: shop a"]);
        running.stop().await;
        members.stop().await;
    }
    assert!(interrupted >= 2, "after the master, and after the first of the others");
}

#[tokio::test(start_paused = true)]
async fn placement_25_content_reverted_while_the_hub_is_down_needs_no_new_snapshot() {
    let world = World::new(&["c1"]).await;
    world.config_map("settings", "1").await;
    world.place("web", shop()).await;
    let members = world.members();
    let running = world.start();
    running.at_rest(&members).await;
    running.stop().await;
    let settings = "/api/v1/namespaces/shop/configmaps/settings";
    world.patch(settings, json!({"data": {"value": "2"}})).await;
    // The first write is that the old master is no longer the latest.
    let life = Life::of(0, true);
    settle_or_die(world.start_mortal(life.clone()), &life).await;
    assert_eq!(world.snapshots().await, ["web-0-snapshot: shop settings"]);

    world.patch(settings, json!({"data": {"value": "1"}})).await;
    let running = world.start();
    running.at_rest(&members).await;
    assert_eq!(world.snapshots().await, ["web-0-snapshot*: shop settings"]);
    assert_eq!(world.selected("web").await, "0: Namespace shop, ConfigMap settings");
    let last = world.conditions("web").await.pop().unwrap();
    assert_eq!(last, "ClusterResourcePlacementAvailable=True ResourceAvailable");
    running.stop().await;
    members.stop().await;
}
