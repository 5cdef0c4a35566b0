//! Objects that cannot be read stop nobody else, and nothing is taken away because of them.

use fleet_api::kinds::{ClusterResourceBinding, MemberCluster};
use fleet_runtime::KindId;
use serde_json::json;

use crate::world::{MEMBERS, PLACEMENT, World, shop};

#[tokio::test(start_paused = true)]
async fn a_member_that_cannot_be_read_keeps_what_it_has() {
    let world = World::without_schemas(&["c1", "c2"]).await;
    world.place("web", shop()).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Bound c2=Bound");
    world.patch(&format!("{MEMBERS}/c1"), json!({"spec": {"taints": "nonsense"}})).await;
    world.join("c3", json!({})).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Bound c2=Bound c3=Bound");
    running.stop().await;

    let running = world.start();
    running.settled().await;
    assert_eq!(running.metrics.unreadable_objects(&KindId::of::<MemberCluster>()), 1);
    world.join("c4", json!({})).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Bound c2=Bound c3=Bound c4=Bound");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn broken_placements_bindings_and_snapshots_stop_nobody_else() {
    let world = World::without_schemas(&["c1"]).await;
    let nonsense = |kind: &str, name: &str| {
        json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind,
            "metadata": {"name": name, "labels": {"kubernetes-fleet.io/parent-CRP": "web"}}, "spec": "nonsense"})
    };
    for (plural, kind) in [
        ("clusterresourceplacements", "ClusterResourcePlacement"),
        ("clusterresourcebindings", "ClusterResourceBinding"),
        ("clusterresourcesnapshots", "ClusterResourceSnapshot"),
        ("clusterschedulingpolicysnapshots", "ClusterSchedulingPolicySnapshot"),
    ] {
        world.create(&format!("{PLACEMENT}/{plural}"), nonsense(kind, "broken")).await;
    }
    world.place("web", shop()).await;
    world.place("other", shop()).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(running.metrics.unreadable_objects(&KindId::of::<ClusterResourceBinding>()), 1);
    for name in ["web", "other"] {
        assert_eq!(world.bindings(name).await, "c1=Bound", "{name}");
        assert_eq!(world.selected(name).await, "0: Namespace shop", "{name}");
    }
    let broken = world.get(&format!("{PLACEMENT}/clusterresourceplacements/broken")).await.unwrap();
    assert_eq!(broken["spec"], "nonsense");
    assert!(broken.get("status").is_none());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_placement_that_becomes_unreadable_keeps_its_last_good_version() {
    let world = World::without_schemas(&["c1"]).await;
    world.place("web", shop()).await;
    let running = world.start();
    running.settled().await;
    world.edit("web", json!({"resourceSelectors": "nonsense"})).await;
    world.config_map("settings", "1").await;
    world.place("other", shop()).await;
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Bound");
    assert_eq!(world.selected("other").await, "0: Namespace shop, ConfigMap settings");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_no_label_can_carry_is_let_be() {
    let world = World::without_schemas(&["c1"]).await;
    world.place(&"x".repeat(64), shop()).await;
    world.place("web", shop()).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(world.bindings("web").await, "c1=Bound");
    assert!(world.placement(&"x".repeat(64)).await.get("status").is_none());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_holds_back_no_rollout_but_its_own() {
    let world = World::without_schemas(&["c1", "c2"]).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let kind = |kind: &str, name: &str| {
        json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind, "metadata": {"name": name,
            "labels": {"kubernetes-fleet.io/parent-CRP": "web"}}, "spec": 5})
    };
    world.create(&format!("{PLACEMENT}/clusterresourceoverrides"), kind("ClusterResourceOverride", "o")).await;
    world
        .create(
            &format!("{PLACEMENT}/clusterresourceoverridesnapshots"),
            kind("ClusterResourceOverrideSnapshot", "o-0"),
        )
        .await;
    world.create(&format!("{PLACEMENT}/clusterresourcebindings"), kind("ClusterResourceBinding", "b")).await;
    world.create(&format!("{PLACEMENT}/namespaces/fleet-member-c1/works"), kind("Work", "other-work")).await;
    world.place("web", shop()).await;
    world.place("other", shop()).await;
    running.at_rest(&members).await;
    let all_good = "ClusterResourcePlacementAvailable=True ResourceAvailable";
    assert_eq!(world.conditions("web").await.last().unwrap(), all_good);
    // On c1 something that cannot be read is in the way; c2 has its own.
    let works = world.list(&format!("{PLACEMENT}/namespaces/fleet-member-c2/works")).await;
    assert_eq!(works.len(), 2);
    world.delete(&format!("{PLACEMENT}/namespaces/fleet-member-c1/works/other-work")).await;
    tokio::time::sleep(std::time::Duration::from_mins(2)).await;
    running.at_rest(&members).await;
    assert_eq!(world.conditions("other").await.last().unwrap(), all_good);
    running.stop().await;
    members.stop().await;
}
