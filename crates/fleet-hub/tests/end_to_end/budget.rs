//! What a rollout costs the hub in writes.

use std::time::Duration;

use fleet_api::kinds::{ClusterResourceBinding, ClusterResourcePlacement, ClusterSchedulingPolicySnapshot, Work};
use fleet_runtime::KindId;
use serde_json::json;

use crate::end_to_end::members::Fares;
use crate::end_to_end::world::{Running, World, conditions, shop};

const CLUSTERS: u64 = 100;
/// Tenths of a write per cluster: the binding's spec, the Work, the binding's status, and a little for all else.
const MOST_FOR_AN_UPDATE: u64 = 32;
/// The same with the creation of the binding.
const MOST_FOR_A_FIRST_ROLLOUT: u64 = 43;

/// All writes so far by kind and verb, for whoever has to find out where too many come from.
fn breakdown(running: &Running) -> String {
    let kinds = [
        KindId::of::<ClusterResourceBinding>(),
        KindId::of::<ClusterResourcePlacement>(),
        KindId::of::<ClusterSchedulingPolicySnapshot>(),
        KindId::of::<Work>(),
    ];
    let line = |kind: &KindId, verb: &'static str| {
        let count = |outcome| running.metrics.writes_of(kind, verb, outcome);
        format!("{kind} {verb}: {} and {} conflicts\n", count("ok"), count("conflict"))
    };
    let verbs = ["create", "patch", "status", "delete"];
    kinds.iter().flat_map(|kind| verbs.map(|verb| line(kind, verb))).collect()
}

#[tokio::test(start_paused = true)]
async fn an_update_costs_three_writes_per_cluster_and_a_first_rollout_four() {
    let names: Vec<String> = (0..CLUSTERS).map(|number| format!("c{number:03}")).collect();
    let world = World::new(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    world.config_map("settings", "1").await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let before = running.metrics.writes();
    world.place("web", shop()).await;
    running.at_rest(&members).await;
    let first = running.metrics.writes() - before;
    let all_good = "ClusterResourcePlacementAvailable=True ResourceAvailable";
    assert_eq!(world.conditions("web").await.last().unwrap(), all_good);
    assert!(first * 10 <= MOST_FOR_A_FIRST_ROLLOUT * CLUSTERS, "{first} writes\n{}", breakdown(&running));

    world.patch("/api/v1/namespaces/shop/configmaps/settings", json!({"data": {"value": "2"}})).await;
    running.at_rest(&members).await;
    let update = running.metrics.writes() - before - first;
    assert_eq!(world.conditions("web").await.last().unwrap(), all_good);
    assert_eq!(world.placement("web").await["status"]["observedResourceIndex"], "1");
    assert!(update * 10 <= MOST_FOR_AN_UPDATE * CLUSTERS, "{update} writes\n{}", breakdown(&running));

    let settled = running.metrics.writes();
    tokio::time::sleep(Duration::from_mins(30)).await;
    running.at_rest(&members).await;
    assert_eq!(running.metrics.writes(), settled, "who is done writes nothing");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_interim_status_is_written_once_if_a_step_takes_longer_than_a_second() {
    let world = World::new(&["c1"]).await;
    world.config_map("settings", "1").await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let statuses = || running.metrics.writes_of(&KindId::of::<ClusterResourceBinding>(), "status", "ok");
    let settings = "/api/v1/namespaces/shop/configmaps/settings";

    let before = statuses();
    world.patch(settings, json!({"data": {"value": "2"}})).await;
    running.at_rest(&members).await;
    assert_eq!(statuses() - before, 1, "a member that answers at once: only the end is told");

    members.say(|_| Fares::Silent);
    let before = statuses();
    world.patch(settings, json!({"data": {"value": "3"}})).await;
    let mut told = Vec::new();
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        told.push(conditions(&world.binding("web", "c1").await["status"]["conditions"]));
        told.dedup();
    }
    tokio::time::sleep(Duration::from_mins(10)).await;
    running.at_rest(&members).await;
    assert_eq!(statuses() - before, 1, "a member that is silent: that it is under way: {told:#?}");
    let told = world.binding("web", "c1").await["status"]["conditions"].take();
    assert_eq!(conditions(&told).last().unwrap(), "Applied=False ApplyInProgress");
    members.say(|_| Fares::Available);
    running.at_rest(&members).await;
    assert_eq!(statuses() - before, 2, "and the end");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_slow_step_is_reported_once() {
    let world = World::new(&["c1"]).await;
    world.config_map("settings", "1").await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let statuses = || running.metrics.writes_of(&KindId::of::<ClusterResourceBinding>(), "status", "ok");
    let before = statuses();
    let slow = Duration::from_secs(30);
    members.say(|_| Fares::Silent);
    world.patch("/api/v1/namespaces/shop/configmaps/settings", json!({"data": {"value": "2"}})).await;
    tokio::time::sleep(slow).await;
    assert_eq!(statuses() - before, 1, "that it is being applied");
    members.say(|_| Fares::NotAvailable);
    tokio::time::sleep(slow).await;
    assert_eq!(statuses() - before, 2, "that it is applied and not available yet");
    members.say(|_| Fares::Available);
    running.at_rest(&members).await;
    assert_eq!(statuses() - before, 3, "and the end");
    running.stop().await;
    members.stop().await;
}
