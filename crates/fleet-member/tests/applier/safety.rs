//! Nothing is deleted by accident, and nothing is written without a reason.

use std::time::Duration;

use fleet_api::kinds::{AppliedWork, Work};
use fleet_core::apply::budget::Limit;
use fleet_member::ApplierOptions;
use fleet_runtime::{KindId, ReconcileResult};
use serde_json::json;

use crate::applier::applying::{WIDGETS, widget, widget_definition};
use crate::applier::faults::FaultInjector;
use crate::applier::fixture::{
    APPLIED_WORKS, Agent, DEFINITIONS, Fixture, NAMESPACE, WORKS, config_map, in_short, namespace, pass, until,
};

const MAPS: &str = "v1/configmaps";

fn status_writes(agent: &Agent) -> (u64, u64) {
    let written = |kind: &KindId| agent.metrics.writes_of(kind, "status", "ok");
    (written(&KindId::of::<Work>()), written(&KindId::of::<AppliedWork>()))
}

#[tokio::test(start_paused = true)]
async fn applier_s04_a_first_rollout_costs_two_statuses_and_an_update_one() {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    fixture.work("w", &[config_map("cm", json!({"k": "1"}))], json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    pass(Duration::from_mins(2)).await;
    assert_eq!(status_writes(&agent), (2, 1));
    for round in 2..5 {
        fixture.work("w", &[config_map("cm", json!({"k": round.to_string()}))], json!({})).await;
        until("the update is reported", || async {
            let work = fixture.stored("w").await;
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
async fn applier_s75_processed_manifests_are_counted() {
    let fixture = Fixture::new().await;
    fixture.work("w", &[namespace("app")], json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    agent.settled().await;
    let processed = &agent.installed.processed;
    let works = processed.works.get(&["AllManifestsApplied", "AllManifestsAvailable", "Skipped"]);
    let manifests = processed.manifests.get(&["Applied", "Available", "Skipped", "NotFound", "NotFound"]);
    assert_eq!((works, manifests), (1, 1));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_agent_writes_nothing() {
    let fixture = Fixture::new().await;
    fixture.work("w", &[namespace("app"), config_map("cm", json!({"k": "1"}))], json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    pass(Duration::from_mins(1)).await;
    agent.kill().await;
    let again = fixture.start();
    pass(Duration::from_mins(1)).await;
    again.settled().await;
    assert!(again.metrics.reconciles("work-applier", ReconcileResult::Succeeded) > 0);
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
async fn contention_over_objects_backs_off() {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    fixture.work("w", &[config_map("cm", json!({"k": "ours"}))], json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    pass(Duration::from_secs(10)).await;
    let patches = || agent.metrics.writes_of(&KindId::new("", "v1", "", "configmaps"), "patch", "ok");
    let begun = patches();
    for _ in 0..600 {
        let live = fixture.member().get(MAPS, Some("app"), "cm").await.unwrap();
        if live["data"]["k"] == "ours" {
            fixture.member().patch(MAPS, Some("app"), "cm", &json!({"data": {"k": "theirs"}})).await;
        }
        pass(Duration::from_millis(100)).await;
    }
    let fought = patches() - begun;
    assert!((4..=10).contains(&fought), "{fought} corrections within a minute");
    // A new version is not delayed.
    fixture.work("w", &[config_map("cm", json!({"k": "newer"}))], json!({})).await;
    pass(Duration::from_millis(500)).await;
    assert_eq!(fixture.member().get(MAPS, Some("app"), "cm").await.unwrap()["data"]["k"], "newer");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_one_object_reads_no_other() {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let maps: Vec<_> = (0..20).map(|number| config_map(&format!("cm{number}"), json!({}))).collect();
    fixture.work("w", &maps, json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    pass(Duration::from_secs(30)).await;
    let (reads, before) = (agent.metrics.reads(), fixture.stored("w").await);
    fixture.member().patch(MAPS, Some("app"), "cm7", &json!({"metadata": {"labels": {"a": "b"}}})).await;
    pass(Duration::from_secs(5)).await;
    agent.settled().await;
    assert_eq!(agent.metrics.reads() - reads, 1);
    assert_eq!(fixture.stored("w").await, before);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn applier_s65_objects_applied_before_a_crash_stay_recorded() {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    fixture.work("w", &[config_map("first", json!({}))], json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    agent.settled().await;
    fixture.work("w", &[config_map("first", json!({})), config_map("second", json!({}))], json!({})).await;
    // Killed at the moment when the object appears: its result is not reported yet.
    loop {
        if fixture.member().get(MAPS, Some("app"), "second").await.is_some() {
            break;
        }
        tokio::task::yield_now().await;
    }
    agent.kill().await;
    fixture.work("w", &[config_map("first", json!({}))], json!({})).await;
    let again = fixture.start();
    until("the object is gone", || async { fixture.member().get(MAPS, Some("app"), "second").await.is_none() }).await;
    again.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_20_an_object_whose_kind_is_not_discovered_is_removed_and_not_forgotten() {
    let (fixture, other) = (Fixture::new().await, Fixture::new().await);
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    fixture.member().create(DEFINITIONS, None, &widget_definition()).await;
    let is_gone = || async { fixture.member().get(WIDGETS, Some("app"), "a").await.is_none() };
    let maps = [config_map("first", json!({}))];
    let all = [&maps[..], &[widget(json!({}))]].concat();
    // The last record of the widget was made before or after the agent started without its kind.
    for reports_without_kind in [false, true] {
        fixture.work("w", &all, json!({})).await;
        let agent = fixture.start();
        fixture.shows("w", "Applied=True/AllManifestsApplied").await;
        agent.settled().await;
        agent.kill().await;
        let faults = FaultInjector::default();
        faults.list_kinds_of(other.member_service());
        if !reports_without_kind {
            fixture.work("w", &maps, json!({})).await;
        }
        let agent = fixture.start_in(&faults);
        if reports_without_kind {
            fixture.shows("w", "Widget/a: Applied=False/DecodingErred").await;
            fixture.work("w", &maps, json!({})).await;
        }
        pass(Duration::from_mins(3)).await;
        faults.list_kinds_of(None);
        until("the object is gone", is_gone).await;
        fixture.shows("w", "Applied=True/AllManifestsApplied").await;
        agent.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_mass_deletion_is_slowed_down_and_reported() {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let maps: Vec<_> = (0..5).map(|number| config_map(&format!("cm{number}"), json!({}))).collect();
    fixture.work("w", &maps, json!({})).await;
    let deletions = Limit { objects: 2, percent: 0 };
    let agent = fixture.start_with(ApplierOptions { deletions, ..ApplierOptions::default() });
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    let left = || async {
        let mut left = 0;
        for number in 0..5 {
            left += usize::from(fixture.member().get(MAPS, Some("app"), &format!("cm{number}")).await.is_some());
        }
        left
    };
    fixture.work("w", &[], json!({})).await;
    fixture.shows("w", "DeletionsHeld=True/DeleteBudgetExhausted").await;
    assert_eq!(left().await, 3);
    pass(Duration::from_secs(62)).await;
    agent.settled().await;
    assert_eq!(left().await, 1);
    until("all are gone", || async { left().await == 0 }).await;
    fixture.reaches("w", "Applied=True/AllManifestsApplied Available=True/AllManifestsAvailable").await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn concurrent_work_deletions_share_one_budget() {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let works = ["a", "b", "c"];
    for work in works {
        fixture.work(work, &[config_map(work, json!({}))], json!({})).await;
    }
    let deletions = Limit { objects: 1, percent: 0 };
    let agent = fixture.start_with(ApplierOptions { deletions, ..ApplierOptions::default() });
    for work in works {
        fixture.shows(work, "Available=True/AllManifestsAvailable").await;
    }
    for work in works {
        fixture.delete_work(work).await;
    }
    pass(Duration::from_secs(5)).await;
    let mut left = Vec::new();
    for work in works {
        left.extend(fixture.try_stored(work).await);
    }
    assert_eq!(left.len(), 2);
    let held =
        left.iter().filter(|work| work["status"]["conditions"].to_string().contains("DeleteBudgetExhausted")).count();
    assert_eq!(held, 2);
    for work in works {
        until("it is gone", || async { fixture.try_stored(work).await.is_none() }).await;
    }
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_large_work_is_deleted_in_portions_and_its_namespace_last() {
    let fixture = Fixture::new().await;
    let maps: Vec<_> = (0..5).map(|number| config_map(&format!("cm{number}"), json!({}))).collect();
    let all: Vec<_> = std::iter::once(namespace("app")).chain(maps).collect();
    fixture.work("w", &all, json!({})).await;
    let deletions = Limit { objects: 2, percent: 0 };
    let agent = fixture.start_with(ApplierOptions { deletions, ..ApplierOptions::default() });
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    let left = || async {
        let mut left = 0;
        for number in 0..5 {
            left += usize::from(fixture.member().get(MAPS, Some("app"), &format!("cm{number}")).await.is_some());
        }
        left
    };
    let reported = || async {
        let work = fixture.stored("w").await;
        let conditions = work["status"]["conditions"].as_array().unwrap().clone();
        let held = conditions.iter().find(|condition| condition["type"] == "DeletionsHeld");
        held.map(|held| held["message"].as_str().unwrap().to_owned()).unwrap_or_default()
    };
    fixture.delete_work("w").await;
    fixture.shows("w", "DeletionsHeld=True/DeleteBudgetExhausted").await;
    assert_eq!((left().await, fixture.applied_work("w").await.is_some()), (3, true));
    assert_eq!(
        reported().await,
        "The 4 object(s) of this Work are not deleted yet: at most 2 object(s) are deleted on this cluster within a minute"
    );
    pass(Duration::from_secs(59)).await;
    assert_eq!(left().await, 3, "not within the same minute");
    until("the next portion is gone", || async { left().await == 1 }).await;
    assert!(fixture.member().get("v1/namespaces", None, "app").await.is_some());
    agent.settled().await;
    assert!(reported().await.starts_with("The 2 object(s) of this Work"), "{}", reported().await);
    pass(Duration::from_secs(59)).await;
    assert_eq!((left().await, fixture.applied_work("w").await.is_some()), (1, true));
    until("the Work is gone", || async { fixture.try_stored("w").await.is_none() }).await;
    assert_eq!(fixture.applied_work("w").await, None);
    assert_eq!(left().await, 0);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn remaining_objects_of_a_terminating_work_can_be_kept() {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let maps: Vec<_> = (0..3).map(|number| config_map(&format!("cm{number}"), json!({}))).collect();
    fixture.work("w", &maps, json!({})).await;
    let deletions = Limit { objects: 1, percent: 0 };
    let agent = fixture.start_with(ApplierOptions { deletions, ..ApplierOptions::default() });
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    fixture.delete_work("w").await;
    fixture.shows("w", "DeletionsHeld=True/DeleteBudgetExhausted").await;
    let abandon = json!({"metadata": {"annotations": {"kubernetes-fleet.io/delete-propagation-policy": "Abandon"}}});
    fixture.hub().patch(WORKS, Some(NAMESPACE), "w", &abandon).await;
    until("the Work is gone", || async { fixture.try_stored("w").await.is_none() }).await;
    assert_eq!(fixture.member().get(MAPS, Some("app"), "cm0").await, None);
    for name in ["cm1", "cm2"] {
        let live = fixture.member().get(MAPS, Some("app"), name).await.unwrap();
        assert!(crate::applier::fixture::owners(&live).is_empty() && live["metadata"]["deletionTimestamp"].is_null());
    }
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn releasing_a_shared_object_does_not_count_as_a_deletion() {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let boss = fixture.member().create(MAPS, Some("app"), &config_map("boss", json!({}))).await;
    let maps: Vec<_> = (0..5).map(|number| config_map(&format!("cm{number}"), json!({}))).collect();
    fixture.work("w", &maps, json!({"applyStrategy": {"allowCoOwnership": true}})).await;
    let deletions = Limit { objects: 2, percent: 0 };
    let agent = fixture.start_with(ApplierOptions { deletions, ..ApplierOptions::default() });
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": boss["metadata"]["uid"]});
    for number in 0..4 {
        crate::applier::fixture::add_owner(&fixture, MAPS, &format!("cm{number}"), &other).await;
    }
    let begun = tokio::time::Instant::now();
    fixture.delete_work("w").await;
    until("the Work is gone", || async { fixture.try_stored("w").await.is_none() }).await;
    assert!(begun.elapsed() < Duration::from_secs(30), "one deletion is within the budget");
    assert_eq!(fixture.member().get(MAPS, Some("app"), "cm4").await, None);
    for number in 0..4 {
        let live = fixture.member().get(MAPS, Some("app"), &format!("cm{number}")).await.unwrap();
        assert_eq!(crate::applier::fixture::owners(&live), ["ConfigMap boss"]);
    }
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_work_is_finalized_only_after_reading_it_from_the_hub() {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    for work in ["a", "b"] {
        fixture.work(work, &[config_map(work, json!({}))], json!({})).await;
    }
    let agent = fixture.start();
    for work in ["a", "b"] {
        fixture.shows(work, "Available=True/AllManifestsAvailable").await;
    }
    agent.stop().await;
    for work in ["a", "b"] {
        fixture.delete_work(work).await;
    }
    // An agent with stalled watches: one of the two is deleted, the other waits for the budget.
    let deletions = Limit { objects: 1, percent: 0 };
    let agent =
        fixture.run(ApplierOptions { deletions, ..ApplierOptions::default() }, &FaultInjector::stalled_watches());
    let held = |work: &'static str| {
        let fixture = &fixture;
        async move {
            let stored = fixture.try_stored(work).await;
            stored.is_some_and(|stored| in_short(&stored).contains("DeletionsHeld=True/DeleteBudgetExhausted"))
        }
    };
    until("one is held", || async { held("a").await || held("b").await }).await;
    let kept = if held("a").await { "a" } else { "b" };
    // The hub force-deletes the member.
    fixture.hub().remove(WORKS, Some(NAMESPACE), kept).await;
    assert_eq!(fixture.try_stored(kept).await, None);
    pass(Duration::from_mins(3)).await;
    assert!(
        fixture
            .member()
            .get(APPLIED_WORKS, None, kept)
            .await
            .is_some_and(|it| it["metadata"]["deletionTimestamp"].is_null())
    );
    assert!(fixture.member().get(MAPS, Some("app"), kept).await.is_some());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_work_created_with_our_finalizer_costs_no_write_for_it() {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let work = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "Work",
        "metadata": {"name": "held", "namespace": NAMESPACE, "finalizers": ["kubernetes-fleet.io/work-cleanup"]},
        "spec": {"workload": {"manifests": [config_map("cm", json!({}))]}},
    });
    fixture.hub().create(WORKS, Some(NAMESPACE), &work).await;
    let agent = fixture.start();
    fixture.shows("held", "Available=True/AllManifestsAvailable").await;
    agent.settled().await;
    let written = |verb: &'static str| agent.metrics.writes_of(&KindId::of::<Work>(), verb, "ok");
    assert_eq!((written("patch"), written("status")), (0, 2));
    fixture.work("free", &[config_map("other", json!({}))], json!({})).await;
    fixture.shows("free", "Available=True/AllManifestsAvailable").await;
    agent.settled().await;
    assert_eq!((written("patch"), written("status")), (1, 4));
    for work in ["held", "free"] {
        assert_eq!(fixture.stored(work).await["metadata"]["finalizers"], json!(["kubernetes-fleet.io/work-cleanup"]));
    }
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_work_deleted_before_its_first_reconcile_is_removed_at_once() {
    let fixture = Fixture::new().await;
    let work = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "Work",
        "metadata": {"name": "w", "namespace": NAMESPACE, "finalizers": ["kubernetes-fleet.io/work-cleanup"]},
        "spec": {"workload": {"manifests": [namespace("app")]}},
    });
    fixture.hub().create(WORKS, Some(NAMESPACE), &work).await;
    fixture.delete_work("w").await;
    let agent = fixture.start();
    until("the Work is gone", || async { fixture.try_stored("w").await.is_none() }).await;
    assert_eq!(fixture.member().get("v1/namespaces", None, "app").await, None);
    assert_eq!(fixture.applied_work("w").await, None);
    agent.stop().await;
}
