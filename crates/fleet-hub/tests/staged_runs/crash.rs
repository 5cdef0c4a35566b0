//! The hub may die at any write: the one that comes after it brings the run to the same end.

use serde_json::json;

use crate::fleet::{Fleet, Kind, Scope, stage, text};
use crate::mortal::Life;

/// More writes than a hub makes for the example's run and its surroundings.
const MOST_WRITES: i64 = 60;

async fn a_hub_that_dies(scope: Scope, last_arrives: bool) {
    let mut fleet = Fleet::new(scope).await;
    fleet.two_members().await;
    let mut lives = 0;
    for writes in 0..MOST_WRITES {
        let (run, request) = (format!("run-{writes}"), format!("run-{writes}-after-staging"));
        fleet.next(&format!("after-{writes}")).await;
        fleet.place(json!(null)).await;
        let mut gated = stage("staging");
        gated["afterStageTasks"] = json!([{"type": "Approval"}]);
        fleet.strategy(json!([gated, stage("canary")])).await;
        fleet.quiet().await;
        fleet.stop().await;
        let life = Life::of(writes, last_arrives);
        fleet.start_mortal(&life);
        fleet.run(&run, json!({"state": "Run"})).await;
        fleet.settle_or_die(&life).await;
        if !life.is_over() {
            fleet.approve(&request, 1).await;
            fleet.settle_or_die(&life).await;
        }
        lives += 1;
        let died = life.is_over();
        fleet.kill().await;
        fleet.start();
        fleet.settle().await;
        if fleet.columns(&run).await == "True False -" {
            fleet.approve(&request, 1).await;
        }
        fleet.quiet().await;
        ends_well(&fleet, &run, writes).await;
        if !died {
            break;
        }
    }
    assert!((8..MOST_WRITES).contains(&lives), "{lives}");
    fleet.stop().await;
}

async fn ends_well(fleet: &Fleet, run: &str, writes: i64) {
    assert_eq!(fleet.columns(run).await, "True False True", "{writes}: {}", fleet.outline(run).await);
    assert_eq!(fleet.rolled_out().await, "member1=0 member2=0", "{writes}");
    for binding in fleet.bindings().await {
        assert_eq!(binding["metadata"]["generation"], 2, "moved once: {writes} {binding}");
    }
    let mut snapshots = fleet.list(Kind::ResourceSnapshot).await;
    snapshots.retain(|one| one["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] == fleet.placement_name());
    let names: Vec<String> = snapshots.iter().map(|one| text(&one["metadata"]["name"])).collect();
    assert_eq!(names, [format!("{}-0-snapshot", fleet.placement_name())], "{writes}");
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_dies_before_any_write_is_made_up_for() {
    a_hub_that_dies(Scope::Cluster, false).await;
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_dies_after_any_write_is_made_up_for() {
    a_hub_that_dies(Scope::Cluster, true).await;
}

#[tokio::test(start_paused = true)]
async fn a_hub_of_namespaced_runs_that_dies_after_any_write_is_made_up_for() {
    a_hub_that_dies(Scope::Namespaced, true).await;
}
