//! Nothing is deleted by accident, nothing is written for nothing.

use std::time::Duration;

use fleet_api::kinds::{AppliedWork, Work};
use fleet_core::apply::budget::Limit;
use fleet_member::ApplierOptions;
use fleet_runtime::KindId;
use serde_json::json;

use crate::world::{Agent, World, config_map, namespace, pass, until};

const MAPS: &str = "v1/configmaps";

fn status_writes(agent: &Agent) -> (u64, u64) {
    let written = |kind: &KindId| agent.metrics.writes_of(kind, "status", "ok");
    (written(&KindId::of::<Work>()), written(&KindId::of::<AppliedWork>()))
}

#[tokio::test(start_paused = true)]
async fn applier_s04_a_first_rollout_costs_two_statuses_and_an_update_one() {
    let world = World::new().await;
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    world.work("w", &[config_map("cm", json!({"k": "1"}))], json!({})).await;
    let agent = world.start();
    world.shows("w", "Available=True/AllManifestsAvailable").await;
    pass(Duration::from_mins(2)).await;
    assert_eq!(status_writes(&agent), (2, 1));
    for round in 2..5 {
        world.work("w", &[config_map("cm", json!({"k": round.to_string()}))], json!({})).await;
        until("the update is reported", || async {
            let work = world.stored("w").await;
            work["status"]["conditions"][1]["observedGeneration"] == work["metadata"]["generation"]
        })
        .await;
        pass(Duration::from_mins(1)).await;
    }
    assert_eq!(status_writes(&agent), (5, 1));
    let all = agent.metrics.writes();
    pass(Duration::from_mins(3)).await;
    assert_eq!(agent.metrics.writes(), all, "an idle agent writes nothing between heartbeats");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn applier_s75_what_was_processed_is_counted() {
    let world = World::new().await;
    world.work("w", &[namespace("app")], json!({})).await;
    let agent = world.start();
    world.shows("w", "Available=True/AllManifestsAvailable").await;
    agent.settled().await;
    let processed = &agent.installed.processed;
    let works = processed.works.get(&["AllManifestsApplied", "AllManifestsAvailable", "Skipped"]);
    let manifests = processed.manifests.get(&["Applied", "Available", "Skipped", "NotFound", "NotFound"]);
    let runs = agent.metrics.reconciles("work-applier", "settled");
    assert!((1..=runs).contains(&works) && works == manifests, "{works} {manifests} {runs}");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_comes_back_writes_nothing() {
    let world = World::new().await;
    world.work("w", &[namespace("app"), config_map("cm", json!({"k": "1"}))], json!({})).await;
    let agent = world.start();
    world.shows("w", "Available=True/AllManifestsAvailable").await;
    pass(Duration::from_mins(1)).await;
    agent.kill();
    let again = world.start();
    pass(Duration::from_mins(1)).await;
    again.settled().await;
    assert!(again.metrics.reconciles("work-applier", "settled") > 0);
    assert_eq!(status_writes(&again), (0, 0));
    for kind in ["configmaps", "namespaces"] {
        let kind = KindId::new("", "v1", "", kind);
        for verb in ["create", "patch", "replace", "delete"] {
            assert_eq!(again.metrics.writes_of(&kind, verb, "ok"), 0, "{verb} {kind}");
        }
    }
    again.stop().await;
}

#[tokio::test(start_paused = true)]
async fn somebody_who_changes_everything_back_is_not_fought_at_full_speed() {
    let world = World::new().await;
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    world.work("w", &[config_map("cm", json!({"k": "ours"}))], json!({})).await;
    let agent = world.start();
    world.shows("w", "Available=True/AllManifestsAvailable").await;
    pass(Duration::from_secs(10)).await;
    let patches = || agent.metrics.writes_of(&KindId::new("", "v1", "", "configmaps"), "patch", "ok");
    let begun = patches();
    for _ in 0..600 {
        let live = world.member().get(MAPS, Some("app"), "cm").await.unwrap();
        if live["data"]["k"] == "ours" {
            world.member().patch(MAPS, Some("app"), "cm", &json!({"data": {"k": "theirs"}})).await;
        }
        pass(Duration::from_millis(100)).await;
    }
    let fought = patches() - begun;
    assert!((4..=10).contains(&fought), "{fought} corrections within a minute");
    // A new version does not wait.
    world.work("w", &[config_map("cm", json!({"k": "newer"}))], json!({})).await;
    pass(Duration::from_millis(500)).await;
    assert_eq!(world.member().get(MAPS, Some("app"), "cm").await.unwrap()["data"]["k"], "newer");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_one_object_costs_no_look_at_the_others() {
    let world = World::new().await;
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    let maps: Vec<_> = (0..20).map(|number| config_map(&format!("cm{number}"), json!({}))).collect();
    world.work("w", &maps, json!({})).await;
    let agent = world.start();
    world.shows("w", "Available=True/AllManifestsAvailable").await;
    pass(Duration::from_secs(30)).await;
    let (reads, before) = (agent.metrics.reads(), world.stored("w").await);
    world.member().patch(MAPS, Some("app"), "cm7", &json!({"metadata": {"labels": {"a": "b"}}})).await;
    pass(Duration::from_secs(5)).await;
    agent.settled().await;
    assert_eq!(agent.metrics.reads() - reads, 1);
    assert_eq!(world.stored("w").await, before);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn applier_s65_what_was_applied_before_a_crash_is_not_lost_track_of() {
    let world = World::new().await;
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    world.work("w", &[config_map("first", json!({}))], json!({})).await;
    let agent = world.start();
    world.shows("w", "Available=True/AllManifestsAvailable").await;
    agent.settled().await;
    world.work("w", &[config_map("first", json!({})), config_map("second", json!({}))], json!({})).await;
    // Killed at the very moment at which the object appears: its result is not reported yet.
    loop {
        if world.member().get(MAPS, Some("app"), "second").await.is_some() {
            break;
        }
        tokio::task::yield_now().await;
    }
    agent.kill();
    world.work("w", &[config_map("first", json!({}))], json!({})).await;
    let again = world.start();
    until("the object is gone", || async { world.member().get(MAPS, Some("app"), "second").await.is_none() }).await;
    again.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_mass_deletion_is_slowed_down_and_told() {
    let world = World::new().await;
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    let maps: Vec<_> = (0..5).map(|number| config_map(&format!("cm{number}"), json!({}))).collect();
    world.work("w", &maps, json!({})).await;
    let deletions = Limit { objects: 2, percent: 0 };
    let agent = world.start_with(ApplierOptions { deletions, ..ApplierOptions::default() });
    world.shows("w", "Available=True/AllManifestsAvailable").await;
    let left = || async {
        let mut left = 0;
        for number in 0..5 {
            left += usize::from(world.member().get(MAPS, Some("app"), &format!("cm{number}")).await.is_some());
        }
        left
    };
    world.work("w", &[], json!({})).await;
    world.shows("w", "DeletionsHeld=True/DeleteBudgetExhausted").await;
    assert_eq!(left().await, 3);
    pass(Duration::from_secs(62)).await;
    agent.settled().await;
    assert_eq!(left().await, 1);
    until("all are gone", || async { left().await == 0 }).await;
    world.reaches("w", "Applied=True/AllManifestsApplied Available=True/AllManifestsAvailable").await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn many_works_that_go_at_once_go_one_after_the_other() {
    let world = World::new().await;
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    let works = ["a", "b", "c"];
    for work in works {
        world.work(work, &[config_map(work, json!({}))], json!({})).await;
    }
    let deletions = Limit { objects: 1, percent: 0 };
    let agent = world.start_with(ApplierOptions { deletions, ..ApplierOptions::default() });
    for work in works {
        world.shows(work, "Available=True/AllManifestsAvailable").await;
    }
    for work in works {
        world.delete_work(work).await;
    }
    pass(Duration::from_secs(5)).await;
    let mut left = Vec::new();
    for work in works {
        left.extend(world.try_stored(work).await);
    }
    assert_eq!(left.len(), 2);
    let held =
        left.iter().filter(|work| work["status"]["conditions"].to_string().contains("DeleteBudgetExhausted")).count();
    assert_eq!(held, 2);
    for work in works {
        until("it is gone", || async { world.try_stored(work).await.is_none() }).await;
    }
    agent.stop().await;
}
