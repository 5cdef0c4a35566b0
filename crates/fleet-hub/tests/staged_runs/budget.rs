//! What a run costs: how many requests that change something it makes, and how large they are.

use std::time::Duration;

use serde_json::json;

use crate::fleet::{Fleet, Kind, Scope, stage};

const CLUSTERS: u64 = 100;
/// What the run writes of its own status, at most, however many clusters it has.
const MOST_STATUS_WRITES: u64 = 30;

/// A fleet of so many clusters in four stages, ten at a time, and a placement of them all.
async fn large(scope: Scope, clusters: u64) -> Fleet {
    let fleet = Fleet::new(scope).await;
    for number in 0..clusters {
        fleet.join(&format!("c{number:04}"), json!({"environment": format!("e{}", number % 4)})).await;
    }
    fleet.place(json!(null)).await;
    let stages: Vec<_> = (0..4)
        .map(|number| {
            let mut one = stage(&format!("e{number}"));
            one["maxConcurrency"] = json!(10);
            one
        })
        .collect();
    fleet.strategy(json!(stages)).await;
    fleet.quiet().await;
    fleet
}

/// Writes of hub and members for one run, and those of the run's own status.
async fn cost(fleet: &Fleet, run: &str) -> (u64, u64) {
    let own = || fleet.writes_of(&[Kind::Run]);
    let all = || fleet.metrics().writes() + fleet.members.writes();
    let before = (all(), own());
    fleet.run(run, json!({"state": "Run"})).await;
    fleet.settle().await;
    // Members answer at once; what is held back is written in a while.
    fleet.later(Duration::from_mins(1)).await;
    assert_eq!(fleet.columns(run).await, "True False True", "{}", fleet.outline(run).await);
    (all() - before.0, own() - before.1)
}

#[tokio::test(start_paused = true)]
async fn a_run_over_a_hundred_clusters_keeps_to_its_budget() {
    let mut fleet = large(Scope::Cluster, CLUSTERS).await;
    let (first, own) = cost(&fleet, "first").await;
    assert!(own <= MOST_STATUS_WRITES, "{own} writes of the run");
    assert!(first <= 6 * CLUSTERS, "a first rollout: {first} writes for {CLUSTERS} clusters");
    fleet.content("2").await;
    fleet.quiet().await;
    let (update, own) = cost(&fleet, "update").await;
    assert!(own <= MOST_STATUS_WRITES, "{own} writes of the run");
    assert!(2 * update <= 9 * CLUSTERS, "an update: {update} writes for {CLUSTERS} clusters");
    let (again, own) = cost(&fleet, "again").await;
    assert!(again <= own + 10, "nothing is left to move: {again} writes, {own} of the run");
    fleet.stop().await;
}
