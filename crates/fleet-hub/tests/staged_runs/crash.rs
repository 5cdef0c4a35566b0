//! The hub may die at any write: the one that comes after it brings the run to the same end.

use std::time::Duration;

use serde_json::json;

use crate::connections::mortal::Life;
use crate::staged_runs::fleet::{Fleet, Kind, Scope, both_scopes, stage, text};
use crate::staged_runs::members::Manner;

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
async fn a_run_completes_if_the_hub_crashes_before_any_write() {
    a_hub_that_dies(Scope::Cluster, false).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_completes_if_the_hub_crashes_after_any_write() {
    a_hub_that_dies(Scope::Cluster, true).await;
}

#[tokio::test(start_paused = true)]
async fn a_namespaced_run_completes_if_the_hub_crashes_after_any_write() {
    a_hub_that_dies(Scope::Namespaced, true).await;
}

/// So many that the run keeps statuses back in which one cluster is done and another one has begun.
const CLUSTERS: usize = 24;
const AT_ONCE: usize = 4;

fn cluster(number: usize) -> String {
    format!("c{number:02}")
}

/// A run over many clusters that has begun with the first few. Members say nothing, and that is no trouble.
async fn under_way(fleet: &mut Fleet) {
    fleet.stop().await;
    fleet.with_options(|options| options.stuck_after = Duration::from_hours(24));
    fleet.start();
    for number in 0..CLUSTERS {
        let order = if number == AT_ONCE { "0" } else { "1" };
        let labels = json!({"environment": "prod", "order": order});
        fleet.join(&cluster(number), labels).await;
        fleet.members.behave(&cluster(number), Manner::Silent);
    }
    fleet.place(json!(null)).await;
    let mut prod = stage("prod");
    prod["maxConcurrency"] = json!(AT_ONCE);
    fleet.strategy(json!([prod])).await;
    fleet.quiet().await;
    fleet.run("old-run", json!({"state": "Run"})).await;
    // As long as an approval may take.
    fleet.later(Duration::from_hours(1)).await;
}

/// How many clusters the stored status of a run calls done and updating.
async fn steps(fleet: &Fleet, run: &str) -> (usize, usize) {
    let outline = fleet.outline(run).await;
    (outline.matches(":done").count(), outline.matches(":updating").count())
}

/// One member answers, which is kept back: it is done, and the next one is moved.
async fn a_step_that_is_kept_back(fleet: &Fleet) {
    assert_eq!(steps(fleet, "old-run").await, (0, AT_ONCE));
    fleet.members.behave(&cluster(0), Manner::Prompt);
    fleet.settle().await;
    assert_eq!(fleet.binding(&cluster(AT_ONCE)).await["spec"]["state"], "Bound");
    assert_eq!(steps(fleet, "old-run").await, (0, AT_ONCE), "not stored yet");
}

both_scopes! {
    async fn a_hub_that_ends_in_peace_stores_what_it_kept_back(mut fleet) {
        under_way(&mut fleet).await;
        a_step_that_is_kept_back(&fleet).await;
        fleet.stop().await;
        assert_eq!(steps(&fleet, "old-run").await, (1, AT_ONCE));
    }

    async fn what_is_kept_back_is_stored_within_a_minute(mut fleet) {
        under_way(&mut fleet).await;
        a_step_that_is_kept_back(&fleet).await;
        fleet.later(Duration::from_mins(1)).await;
        assert_eq!(steps(&fleet, "old-run").await, (1, AT_ONCE));
    }
}

/// A hub dies with a step that it has not stored; another run wants the very cluster that was moved in it first; its hub
/// dies at some write.
async fn a_run_that_takes_over_from_one_that_lost_a_step(scope: Scope, writes: i64) -> bool {
    let mut fleet = Fleet::new(scope).await;
    under_way(&mut fleet).await;
    a_step_that_is_kept_back(&fleet).await;
    fleet.kill().await;
    fleet.content("2").await;
    let mut sorted = stage("prod");
    sorted["sortingLabelKey"] = json!("order");
    fleet.make(Kind::Strategy, "sorted", json!({"stages": [sorted]})).await;
    let life = Life::of(writes, writes % 2 == 0);
    fleet.start_mortal(&life);
    fleet.run("new-run", json!({"state": "Run", "stagedRolloutStrategyName": "sorted"})).await;
    fleet.settle_or_die(&life).await;
    let died = life.is_over();
    fleet.kill().await;
    fleet.start();
    fleet.settle().await;
    for number in 0..CLUSTERS {
        fleet.members.behave(&cluster(number), Manner::Prompt);
    }
    fleet.later(Duration::from_mins(2)).await;
    let outlines = format!("{}\n{}", fleet.outline("old-run").await, fleet.outline("new-run").await);
    assert_eq!(fleet.columns("new-run").await, "True False True", "{writes}: {outlines}");
    assert_eq!(fleet.columns("old-run").await, "True False False", "{writes}: {outlines}");
    for binding in fleet.bindings().await {
        let moves = binding["metadata"]["generation"].as_i64().unwrap() - 1;
        assert!(moves <= 2, "{writes}: nobody takes back what was his: {binding}");
        let snapshot = format!("{}-1-snapshot", fleet.placement_name());
        assert_eq!(text(&binding["spec"]["resourceSnapshotName"]), snapshot, "{writes}");
    }
    fleet.stop().await;
    died
}

#[tokio::test(start_paused = true)]
async fn a_run_takes_over_after_a_crash_with_unstored_steps() {
    for writes in 0..MOST_WRITES {
        let scope = if writes % 2 == 0 { Scope::Cluster } else { Scope::Namespaced };
        if !a_run_that_takes_over_from_one_that_lost_a_step(scope, writes).await {
            assert!(writes > 8, "{writes}");
            return;
        }
    }
    panic!("it never came to rest");
}
