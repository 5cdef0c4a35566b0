//! Rollouts on the hub, from a placement to Works and back.

use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};

use crate::end_to_end::members::Fares;
use crate::end_to_end::world::{PLACEMENT, World, shop, shop_on};

#[tokio::test(start_paused = true)]
async fn placement_01_resources_reach_every_cluster_and_the_placement_says_so() {
    let world = World::new(&["c1", "c2"]).await;
    world.config_map("settings", "1").await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    assert_eq!(world.works().await, ["c1/web-work: shop settings", "c2/web-work: shop settings"]);
    assert_eq!(world.bindings("web").await, "c1=Bound c2=Bound");
    expect![[r#"
        ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled
        ClusterResourcePlacementRolloutStarted=True RolloutStarted
        ClusterResourcePlacementOverridden=True NoOverrideSpecified
        ClusterResourcePlacementWorkSynchronized=True WorkSynchronized
        ClusterResourcePlacementApplied=True ApplySucceeded
        ClusterResourcePlacementAvailable=True ResourceAvailable"#]]
    .assert_eq(&world.conditions("web").await.join("\n"));
    world.delete(&format!("{PLACEMENT}/clusterresourceplacements/web")).await;
    running.at_rest(&members).await;
    assert!(world.works().await.is_empty());
    assert!(world.list(&format!("{PLACEMENT}/clusterresourcebindings")).await.is_empty());
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_40_41_a_bad_change_stops_at_the_first_cluster_and_a_good_one_continues() {
    let world = World::new(&["c1", "c2", "c3"]).await;
    world.config_map("settings", "1").await;
    let mut spec = shop_on(3);
    spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    world.place("web", spec).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    members.say(|work| {
        let is_bad = work.spec.manifests().iter().any(|one| one.get("data").is_some_and(|data| data["value"] == "bad"));
        if is_bad { Fares::NotAvailable } else { Fares::Available }
    });
    let change = |value: &'static str| json!({"data": {"value": value}});
    world.patch("/api/v1/namespaces/shop/configmaps/settings", change("bad")).await;
    running.at_rest(&members).await;
    assert_eq!(
        world.conditions("web").await[1..],
        ["ClusterResourcePlacementRolloutStarted=False RolloutNotStartedYet"]
    );
    let entries = world.placement("web").await["status"]["placementStatuses"].as_array().unwrap().clone();
    assert!(entries.iter().all(|entry| entry["observedResourceIndex"] == "1"));
    let blamed = entries.iter().filter(|entry| entry["failedPlacements"].is_array()).count();
    assert_eq!(blamed, 1);
    world.patch("/api/v1/namespaces/shop/configmaps/settings", change("good")).await;
    running.at_rest(&members).await;
    assert_eq!(world.conditions("web").await[5], "ClusterResourcePlacementAvailable=True ResourceAvailable");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_43_untrackable_resources_delay_the_next_cluster() {
    let world = World::new(&["c1", "c2", "c3"]).await;
    world.config_map("settings", "1").await;
    let mut spec = shop_on(3);
    let limits = json!({"maxUnavailable": 1, "unavailablePeriodSeconds": 30});
    spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": limits});
    world.place("web", spec).await;
    let (running, members) = (world.start(), world.members());
    members.say(|_| Fares::Untrackable);
    running.at_rest(&members).await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    world.patch("/api/v1/namespaces/shop/configmaps/settings", json!({"data": {"value": "2"}})).await;
    let updated = || async {
        let works = world.list(&format!("{PLACEMENT}/works")).await;
        let index =
            |work: &Value| work["metadata"]["labels"]["kubernetes-fleet.io/parent-resource-snapshot-index"].clone();
        works.iter().filter(|work| index(work) == "1").count()
    };
    for expected in [1, 2, 3] {
        running.at_rest(&members).await;
        assert_eq!(updated().await, expected, "one in thirty seconds");
        tokio::time::sleep(Duration::from_secs(27)).await;
    }
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_cluster_blocks_the_others_only_while_it_fails() {
    let world = World::new(&["c1", "c2"]).await;
    let mut spec = shop_on(2);
    spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    world.place("web", spec).await;
    let (running, members) = (world.start(), world.members());
    members.only("c1", Fares::NotApplied);
    running.at_rest(&members).await;
    world.config_map("settings", "1").await;
    running.at_rest(&members).await;
    // c1 is down already, so it is updated without harm; c2 is the one that must stay.
    assert_eq!(world.works().await, ["c1/web-work: shop settings", "c2/web-work: shop"]);
    members.say(|_| Fares::Available);
    running.at_rest(&members).await;
    assert_eq!(world.works().await, ["c1/web-work: shop settings", "c2/web-work: shop settings"]);
    running.stop().await;
    members.stop().await;
}
