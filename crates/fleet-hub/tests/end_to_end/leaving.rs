//! Members that go without their agent, and what must not be left behind on the hub.

use std::time::Duration;

use serde_json::{Value, json};

use crate::end_to_end::world::{MEMBERS, Running, World, shop};

/// Virtual time within which an abandoned namespace must be gone.
const GONE_WITHIN: Duration = Duration::from_secs(10);
const WORKS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-ghost/works";

/// A member without an agent that has a Work.
async fn ghost() -> (World, Running) {
    let world = World::new(&["ghost"]).await;
    let running = world.start();
    world.place("web", shop()).await;
    running.settled().await;
    let works = world.list(WORKS).await;
    assert_eq!(works[0]["metadata"]["finalizers"], json!(["kubernetes-fleet.io/work-cleanup"]));
    (world, running)
}

impl World {
    /// Deletes the MemberCluster and takes its finalizers off, as an impatient operator does.
    async fn remove_ghost(&self) {
        let path = format!("{MEMBERS}/ghost");
        self.delete(&path).await;
        self.patch(&path, json!({"metadata": {"finalizers": []}})).await;
        assert_eq!(self.get(&path).await, None);
    }

    async fn namespace(&self) -> Option<Value> {
        self.get("/api/v1/namespaces/fleet-member-ghost").await
    }
}

#[tokio::test(start_paused = true)]
async fn last_01_the_namespace_of_a_member_without_an_agent_is_deleted_with_the_member() {
    let (world, running) = ghost().await;
    world.remove_ghost().await;
    tokio::time::sleep(GONE_WITHIN).await;
    assert_eq!(world.namespace().await, None);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn last_01_a_restarted_hub_agent_finalizes_the_namespace() {
    let (world, running) = ghost().await;
    running.stop().await;
    world.remove_ghost().await;
    tokio::time::sleep(GONE_WITHIN).await;
    let namespace = world.namespace().await.expect("the Works keep it");
    assert_eq!(namespace["status"]["phase"], "Terminating");
    let running = world.start();
    tokio::time::sleep(GONE_WITHIN).await;
    assert_eq!(world.namespace().await, None);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn last_01_a_member_rejoins_under_a_name_whose_namespace_is_stuck() {
    let (world, running) = ghost().await;
    running.stop().await;
    world.remove_ghost().await;
    tokio::time::sleep(GONE_WITHIN).await;
    let old = world.namespace().await.expect("the Works keep it")["metadata"]["uid"].clone();
    world.join("ghost", json!({})).await;
    let running = world.start();
    tokio::time::sleep(GONE_WITHIN).await;
    let new = world.namespace().await.expect("the new member has a namespace");
    assert_ne!(new["metadata"]["uid"], old);
    assert_eq!(new["status"]["phase"], "Active");
    running.settled().await;
    assert_eq!(world.list(WORKS).await.len(), 1, "the placement reaches the member again");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_20_a_member_that_rejoins_gets_no_works_of_its_former_membership() {
    let (world, running) = ghost().await;
    world.remove_ghost().await;
    let identity = json!({"kind": "User", "name": "ghost", "apiGroup": "rbac.authorization.k8s.io"});
    let again = json!({"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
        "metadata": {"name": "ghost"}, "spec": {"identity": identity}});
    // The hub notices that the member has gone only after the member is back.
    world.create(MEMBERS, again).await;
    tokio::time::sleep(GONE_WITHIN).await;
    assert_eq!(world.namespace().await.expect("the new member has a namespace")["status"]["phase"], "Active");
    assert_eq!(world.list(WORKS).await, Vec::<Value>::new(), "they would be deleted with the old binding");
    world.heartbeat("ghost").await;
    running.settled().await;
    assert_eq!(world.list(WORKS).await.len(), 1, "it has joined and is picked again");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn last_05_restoring_the_name_label_leaves_the_order_of_finalizers_alone() {
    let (world, running) = ghost().await;
    let path = format!("{MEMBERS}/ghost");
    let ours = world.get(&path).await.unwrap()["metadata"]["finalizers"][0].clone();
    let finalizers = json!([ours, "example.com/other"]);
    world.patch(&path, json!({"metadata": {"finalizers": finalizers}})).await;
    world.patch(&path, json!({"metadata": {"labels": {"kubernetes-fleet.io/member-name": "wrong"}}})).await;
    running.settled().await;
    let metadata = &world.get(&path).await.unwrap()["metadata"];
    assert_eq!(metadata["labels"]["kubernetes-fleet.io/member-name"], "ghost");
    assert_eq!(metadata["finalizers"], finalizers);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn last_02_an_untrackable_cluster_keeps_its_content_until_the_period_is_over() {
    let world = World::new(&["c1"]).await;
    let members = world.members();
    members.say(|_| crate::end_to_end::members::Fares::Untrackable);
    let running = world.start();
    world.config_map("settings", "old").await;
    let mut spec = shop();
    spec["policy"] = json!({"placementType": "PickFixed", "clusterNames": ["c1"]});
    spec["strategy"] = json!({"rollingUpdate": {"maxUnavailable": 1, "unavailablePeriodSeconds": 60}});
    world.place("web", spec).await;
    running.at_rest(&members).await;
    let snapshot = |binding: Value| binding["spec"]["resourceSnapshotName"].as_str().unwrap_or_default().to_owned();
    let old = snapshot(world.binding("web", "c1").await);
    world.config_map_changes("settings", "new").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(snapshot(world.binding("web", "c1").await), old, "the period is not over");
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_ne!(snapshot(world.binding("web", "c1").await), old, "the end of the period wakes the rollout");
    members.stop().await;
    running.stop().await;
}

impl World {
    async fn config_map_changes(&self, name: &str, value: &str) {
        self.patch(&format!("/api/v1/namespaces/shop/configmaps/{name}"), json!({"data": {"value": value}})).await;
    }
}
