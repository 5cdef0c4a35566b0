//! What placements say of their clusters, where they say it, and how often.

use std::time::Duration;

use fleet_api::kinds::ClusterResourcePlacement;
use fleet_runtime::KindId;
use serde_json::{Value, json};

use crate::world::{PLACEMENT, World, conditions, shop};

const STEPS: &[&str] = &["RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available"];

/// What rollout and work generator say of a binding: so many steps True, then `after`.
async fn report(world: &World, placement: &str, cluster: &str, done: usize, after: Option<(&str, Value)>) {
    let binding = world.binding(placement, cluster).await;
    let path = format!("{PLACEMENT}/clusterresourcebindings/{}", binding["metadata"]["name"].as_str().unwrap());
    let moved = json!({"spec": {"state": "Bound", "resourceSnapshotName": format!("{placement}-0-snapshot")}});
    let generation = world.patch(&path, moved).await["metadata"]["generation"].take();
    let condition = |type_: &str, status: &str| {
        json!({"type": type_, "status": status, "reason": "Said", "message": "", "observedGeneration": generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let mut said: Vec<_> = STEPS.iter().take(done).map(|step| condition(step, "True")).collect();
    let mut status = json!({});
    if let Some((step, more)) = after {
        said.push(condition(step, "False"));
        status = more;
    }
    status["conditions"] = json!(said);
    world.patch(&format!("{path}/status"), json!({"status": status})).await;
}

#[tokio::test(start_paused = true)]
async fn placement_31_of_two_placements_of_one_object_the_second_fails_alone() {
    let world = World::new(&["c1"]).await;
    world.place("first", shop()).await;
    world.place("second", shop()).await;
    let running = world.start();
    running.settled().await;
    report(&world, "first", "c1", 5, None).await;
    let failed = json!({"version": "v1", "kind": "Namespace", "name": "shop", "condition": {
        "type": "Applied", "status": "False", "reason": "ManifestApplyFailed", "message": "owned by another",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}});
    report(&world, "second", "c1", 3, Some(("Applied", json!({"failedPlacements": [failed]})))).await;
    running.settled().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    running.settled().await;
    let last = |all: Vec<String>| all.last().cloned().unwrap();
    assert_eq!(last(world.conditions("first").await), "ClusterResourcePlacementAvailable=True ResourceAvailable");
    assert_eq!(last(world.conditions("second").await), "ClusterResourcePlacementApplied=False ApplyFailed");
    let entry = world.placement("second").await["status"]["placementStatuses"][0].take();
    assert_eq!(entry["failedPlacements"][0]["name"], "shop");
    assert_eq!(conditions(&entry["conditions"]).last().unwrap(), "Applied=False Said");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn people_hear_of_a_rollout_once() {
    let world = World::new(&["c1"]).await;
    world.place("web", shop()).await;
    let running = world.start();
    running.settled().await;
    let events = || async {
        let all = world.list("/api/v1/events").await;
        let mut reasons: Vec<_> = all
            .iter()
            .filter(|event| event["involvedObject"]["kind"] == "ClusterResourcePlacement")
            .map(|event| event["reason"].as_str().unwrap().to_owned())
            .collect();
        reasons.sort();
        reasons
    };
    assert!(events().await.is_empty(), "a placement that is merely scheduled has none");
    report(&world, "web", "c1", 5, None).await;
    running.settled().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    running.settled().await;
    let expected = [
        "PlacementApplied",
        "PlacementAvailable",
        "PlacementOverriddenSucceeded",
        "PlacementRolloutCompleted",
        "PlacementRolloutStarted",
        "PlacementWorkSynchronized",
    ];
    assert_eq!(events().await, expected);
    world.edit("web", json!({"revisionHistoryLimit": 5})).await;
    running.settled().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let started = events().await.iter().filter(|reason| *reason == "PlacementRolloutStarted").count();
    assert_eq!(started, 1, "a new generation is told of when it is rolled out");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn clusters_that_report_together_cost_one_status() {
    let names: Vec<String> = (0..20).map(|number| format!("c{number:02}")).collect();
    let members: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::new(&members).await;
    world.place("web", shop()).await;
    let running = world.start();
    running.settled().await;
    let statuses = || running.metrics.writes_of(&KindId::of::<ClusterResourcePlacement>(), "status", "ok");
    let before = statuses();
    for name in &members {
        report(&world, "web", name, 2, None).await;
        // So short a time is no reason to wait for each: the status is written for several together.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    running.settled().await;
    assert_eq!(
        world.conditions("web").await.last().unwrap(),
        "ClusterResourcePlacementWorkSynchronized=Unknown WorkSynchronizedUnknown"
    );
    let entries = world.placement("web").await["status"]["placementStatuses"].as_array().unwrap().clone();
    assert!(entries.iter().all(|entry| conditions(&entry["conditions"]).len() == 4), "{entries:?}");
    assert!(statuses() - before <= 5, "{} statuses for 20 reports", statuses() - before);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_36_37_the_status_is_copied_into_the_namespace_and_kept_there() {
    let world = World::new(&["c1", "c2"]).await;
    let mut spec = shop();
    spec["statusReportingScope"] = json!("NamespaceAccessible");
    spec["policy"] = json!({"placementType": "PickN", "numberOfClusters": 1});
    world.place("web", spec).await;
    let running = world.start();
    running.settled().await;
    let path = format!("{PLACEMENT}/namespaces/shop/clusterresourceplacementstatuses/web");
    let agree = || async {
        let mut status = world.placement("web").await["status"].take();
        let all = status["conditions"].as_array_mut().unwrap();
        let synced = all.iter().position(|one| one["type"] == "ClusterResourcePlacementStatusSynced").unwrap();
        assert_eq!(all.remove(synced)["status"], "True");
        let copy = world.get(&path).await.unwrap();
        assert_eq!(copy["sourceStatus"], status);
        assert_eq!(copy["metadata"]["ownerReferences"][0]["name"], "web");
    };
    agree().await;
    world.edit("web", json!({"policy": {"numberOfClusters": 2}})).await;
    running.settled().await;
    agree().await;
    world.delete(&path).await;
    running.settled().await;
    agree().await;

    world.delete("/api/v1/namespaces/shop").await;
    running.settled().await;
    assert_eq!(world.selected("web").await, "1: ");
    let synced = world.conditions("web").await;
    assert!(synced.iter().any(|one| one.starts_with("ClusterResourcePlacementStatusSynced=False")), "{synced:?}");
    world.create("/api/v1/namespaces", json!({"metadata": {"name": "shop"}})).await;
    running.settled().await;
    assert_eq!(world.selected("web").await, "2: Namespace shop");
    agree().await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_27_28_placements_say_how_scheduling_went() {
    let world = World::new(&[]).await;
    world.place("all", shop()).await;
    let mut named = shop();
    named["policy"] = json!({"placementType": "PickFixed", "clusterNames": ["c9"]});
    world.place("named", named).await;
    let running = world.start();
    running.settled().await;
    assert_eq!(world.conditions("all").await, ["ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled"]);
    assert_eq!(
        world.conditions("named").await,
        ["ClusterResourcePlacementScheduled=False SchedulingPolicyUnfulfilled"]
    );
    world.join("c9", json!({})).await;
    running.settled().await;
    assert_eq!(world.bindings("named").await, "c9=Scheduled", "scheduling_14");
    assert_eq!(
        world.conditions("named").await,
        [
            "ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled",
            "ClusterResourcePlacementRolloutStarted=Unknown RolloutStartedUnknown"
        ]
    );
    running.stop().await;
}
