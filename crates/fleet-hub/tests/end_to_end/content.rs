//! Content is read when it may have changed, and at no other time.

use std::time::Duration;

use fleet_core::placement::SnapshotIntervals;
use fleet_hub::HubOptions;
use serde_json::{Value, json};

use crate::end_to_end::world::{PLACEMENT, World, shop, shop_on};

#[tokio::test(start_paused = true)]
async fn unchanged_objects_are_not_read_again() {
    let world = World::new(&["c1", "c2"]).await;
    for name in ["a", "b", "c"] {
        world.config_map(name, "1").await;
    }
    world.place("web", shop_on(1)).await;
    let running = world.start();
    running.settled().await;
    let reads = running.content_reads();
    assert!(reads > 0);
    world.edit("web", json!({"policy": {"numberOfClusters": 2}})).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Bound c2=Bound");
    assert_eq!(running.content_reads(), reads, "a placement that changed in other ways");
    world.patch("/api/v1/namespaces/shop/configmaps/a", json!({"data": {"value": "2"}})).await;
    running.settled().await;
    assert_eq!(running.content_reads(), reads + 4, "the namespace and three objects");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn many_objects_of_a_kind_are_read_by_one_list() {
    let world = World::new(&["c1"]).await;
    for number in 0..20 {
        world.config_map(&format!("m{number:02}"), "1").await;
    }
    world.place("web", shop()).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(running.content_reads(), 2, "the namespace, and all maps at once");
    let resources = world.placement("web").await["status"]["selectedResources"].as_array().unwrap().len();
    assert_eq!(resources, 21, "without what Kubernetes puts into every namespace");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_21_changes_are_collected_for_the_configured_delay() {
    let world = World::new(&["c1"]).await;
    world.place("web", shop()).await;
    let running = world.start_with(HubOptions::default());
    running.settled().await;
    assert_eq!(world.selected("web").await, "0: Namespace shop");
    let begun = world.clock.now();
    world.config_map("first", "1").await;
    running.settled().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.config_map("second", "1").await;
    running.settled().await;
    assert_eq!(world.selected("web").await, "0: Namespace shop", "the status stays consistent with the snapshot");
    assert_eq!(world.snapshots().await, ["web-0-snapshot*: shop"]);
    tokio::time::sleep(Duration::from_secs(25)).await;
    running.settled().await;
    assert_eq!(world.selected("web").await, "1: Namespace shop, ConfigMap first, ConfigMap second");
    let created =
        world.list(&format!("{PLACEMENT}/clusterresourcesnapshots")).await[1]["metadata"]["creationTimestamp"].take();
    let created: jiff::Timestamp = created.as_str().unwrap().parse().unwrap();
    assert!((28..=31).contains(&created.duration_since(begun).as_secs()), "30 s after the one before: {created}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_reverted_within_the_delay_makes_no_snapshot() {
    let world = World::new(&["c1"]).await;
    world.config_map("settings", "1").await;
    world.place("web", shop()).await;
    let pace = SnapshotIntervals::default();
    let running = world.start_with(HubOptions { snapshot_intervals: pace, ..HubOptions::default() });
    running.settled().await;
    let path = "/api/v1/namespaces/shop/configmaps/settings";
    world.patch(path, json!({"data": {"value": "2"}})).await;
    running.settled().await;
    world.patch(path, json!({"data": {"value": "1"}})).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    running.settled().await;
    assert_eq!(world.snapshots().await, ["web-0-snapshot*: shop settings"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn token_secrets_are_not_placed_and_are_read_once() {
    let world = World::new(&["c1"]).await;
    world.create("/api/v1/namespaces/shop/serviceaccounts", json!({"metadata": {"name": "robot"}})).await;
    let secrets = "/api/v1/namespaces/shop/secrets";
    world.create(secrets, json!({"metadata": {"name": "plain"}, "stringData": {"a": "b"}})).await;
    let annotations = json!({"kubernetes.io/service-account.name": "robot"});
    let token = json!({"metadata": {"name": "token", "annotations": annotations},
        "type": "kubernetes.io/service-account-token"});
    world.create(secrets, token).await;
    world.place("web", shop()).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(world.selected("web").await, "0: Namespace shop, ServiceAccount robot, Secret plain");
    let reads = running.content_reads();
    world.edit("web", json!({"revisionHistoryLimit": 3})).await;
    running.settled().await;
    assert_eq!(running.content_reads(), reads);
    assert_eq!(world.selected("web").await, "0: Namespace shop, ServiceAccount robot, Secret plain");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_50_nothing_is_read_for_placements_that_runs_roll_out() {
    let world = World::new(&["c1"]).await;
    world.config_map("settings", "1").await;
    let mut spec = shop();
    spec["strategy"] = json!({"type": "External"});
    world.place("web", spec).await;
    let running = world.start();
    running.settled().await;
    assert!(world.snapshots().await.is_empty());
    assert_eq!(running.content_reads(), 0);
    assert_eq!(
        world.conditions("web").await,
        [
            "ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled",
            "ClusterResourcePlacementRolloutStarted=Unknown RolloutControlledByExternalController"
        ]
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_48_an_external_placement_keeps_its_resources_and_rolls_out_no_more() {
    let world = World::new(&["c1", "c2"]).await;
    world.config_map("settings", "1").await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let is_complete = |placement: &Value| {
        let all = placement["status"]["conditions"].as_array().unwrap();
        let holds =
            |one: &Value| one["status"] == "True" && one["observedGeneration"] == placement["metadata"]["generation"];
        all.len() == 6 && all.iter().all(holds)
    };
    let specs = || async {
        let bindings = world.list(&format!("{PLACEMENT}/clusterresourcebindings")).await;
        bindings.into_iter().map(|mut binding| binding["spec"].take()).collect::<Vec<_>>()
    };
    assert!(is_complete(&world.placement("web").await));
    let before = specs().await;

    world.edit("web", json!({"strategy": {"type": "External"}})).await;
    running.at_rest(&members).await;
    let left_to_runs = world.placement("web").await;
    assert!(is_complete(&left_to_runs), "{:#}", left_to_runs["status"]);
    let reads = running.content_reads();
    world.patch("/api/v1/namespaces/shop/configmaps/settings", json!({"data": {"value": "2"}})).await;
    running.at_rest(&members).await;
    assert_eq!(running.content_reads(), reads);
    assert_eq!(world.snapshots().await, ["web-0-snapshot*: shop settings"]);
    assert_eq!(specs().await, before);
    assert_eq!(world.placement("web").await["status"], left_to_runs["status"]);
    assert_eq!(world.selected("web").await, "0: Namespace shop, ConfigMap settings");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_18_content_that_is_too_large_is_split() {
    let world = World::new(&["c1"]).await;
    for name in ["a", "b"] {
        world.config_map(name, &"x".repeat(500_000)).await;
    }
    world.place("web", shop()).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(world.snapshots().await, ["web-0-0: b", "web-0-snapshot*: shop a"]);
    world.delete(&format!("{PLACEMENT}/clusterresourcesnapshots/web-0-0")).await;
    running.settled().await;
    assert_eq!(world.snapshots().await, ["web-0-0: b", "web-0-snapshot*: shop a"], "placement_24: made again");
    running.stop().await;
}
