//! The delete budget: within a minute no more objects are deleted than the limit allows, whatever deletes them.

use std::time::Duration;

use fleet_api::kinds::AppliedWork;
use fleet_core::apply::budget::Limit;
use fleet_member::ApplierOptions;
use fleet_runtime::KindId;
use serde_json::{Value, json};

use crate::applier::fixture::{Agent, DEFINITIONS, Fixture, config_map, namespace, pass, until};

const MAPS: &str = "v1/configmaps";
const NAMESPACES: &str = "v1/namespaces";
const WIDGETS: &str = "example.com/v1/widgets";

fn at_most(objects: usize) -> ApplierOptions {
    ApplierOptions { deletions: Limit { objects, percent: 0 }, ..ApplierOptions::default() }
}

fn maps(names: std::ops::Range<usize>) -> Vec<Value> {
    names.map(|number| config_map(&format!("cm{number}"), json!({}))).collect()
}

/// How many of the ConfigMaps `cm0`... are not deleted.
async fn maps_left(fixture: &Fixture) -> usize {
    let mut left = 0;
    for number in 0..9 {
        let live = fixture.member().get(MAPS, Some("app"), &format!("cm{number}")).await;
        left += usize::from(live.is_some_and(|live| live["metadata"]["deletionTimestamp"].is_null()));
    }
    left
}

/// Whether the namespace `app` is there and not being deleted.
async fn namespace_stays(fixture: &Fixture) -> bool {
    let live = fixture.member().get(NAMESPACES, None, "app").await;
    live.is_some_and(|live| live["metadata"]["deletionTimestamp"].is_null())
}

/// Message of the Work's condition `DeletionsHeld`.
async fn held(fixture: &Fixture, work: &str) -> String {
    let work = fixture.try_stored(work).await.unwrap_or_default();
    let conditions = work["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let held = conditions.into_iter().find(|condition| condition["type"] == "DeletionsHeld");
    held.map(|held| held["message"].as_str().unwrap().to_owned()).unwrap_or_default()
}

fn record_writes(agent: &Agent) -> u64 {
    agent.metrics.writes_of(&KindId::of::<AppliedWork>(), "patch", "ok")
}

#[tokio::test(start_paused = true)]
async fn audit_04_a_namespace_is_deleted_after_the_objects_of_the_work_in_it() {
    let fixture = Fixture::new().await;
    let all: Vec<_> = std::iter::once(namespace("app")).chain(maps(0..5)).collect();
    fixture.work("w", &all, json!({})).await;
    let agent = fixture.start_with(at_most(2));
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    fixture.work("w", &[], json!({})).await;
    fixture.shows("w", "DeletionsHeld=True/DeleteBudgetExhausted").await;
    agent.settled().await;
    assert_eq!((maps_left(&fixture).await, namespace_stays(&fixture).await), (3, true));
    assert_eq!(
        held(&fixture, "w").await,
        "4 object(s) that this Work no longer names are not deleted yet: at most 2 object(s) are deleted on this cluster within a minute"
    );
    assert_eq!(fixture.listed("w").await.len(), 4, "what is not deleted yet stays listed");
    pass(Duration::from_secs(61)).await;
    agent.settled().await;
    assert_eq!((maps_left(&fixture).await, namespace_stays(&fixture).await), (1, true));
    until("the namespace is gone", || async { fixture.member().get(NAMESPACES, None, "app").await.is_none() }).await;
    fixture.reaches("w", "Applied=True/AllManifestsApplied Available=True/AllManifestsAvailable").await;
    assert!(fixture.listed("w").await.is_empty());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_04_left_overs_within_the_budget_are_deleted_with_their_namespace() {
    let fixture = Fixture::new().await;
    let all: Vec<_> = std::iter::once(namespace("app")).chain(maps(0..5)).collect();
    fixture.work("w", &all, json!({})).await;
    let agent = fixture.start_with(at_most(6));
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    fixture.work("w", &[], json!({})).await;
    pass(Duration::from_secs(5)).await;
    assert_eq!(fixture.member().get(NAMESPACES, None, "app").await, None);
    assert_eq!(held(&fixture, "w").await, "");
    agent.stop().await;
}

fn widgets_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    })
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 1}})
}

#[tokio::test(start_paused = true)]
async fn audit_04_a_definition_is_deleted_after_its_resources_of_the_work() {
    let fixture = Fixture::new().await;
    fixture.work("w", &[widgets_definition(), widget("a"), widget("b"), widget("c")], json!({})).await;
    let agent = fixture.start_with(at_most(1));
    fixture.shows("w", "Available=True").await;
    fixture.work("w", &[], json!({})).await;
    fixture.shows("w", "DeletionsHeld=True/DeleteBudgetExhausted").await;
    agent.settled().await;
    let definition = fixture.member().get(DEFINITIONS, None, "widgets.example.com").await.unwrap();
    assert!(definition["metadata"]["deletionTimestamp"].is_null());
    let left = fixture.member().try_list(WIDGETS, None).await.unwrap();
    assert_eq!(left["items"].as_array().unwrap().len(), 2);
    until("the definition is gone", || async {
        fixture.member().get(DEFINITIONS, None, "widgets.example.com").await.is_none()
    })
    .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_04_a_namespace_in_which_the_work_still_names_objects_stays() {
    let fixture = Fixture::new().await;
    fixture.work("w", &[namespace("app"), config_map("cm0", json!({}))], json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    fixture.work("w", &[config_map("cm0", json!({}))], json!({})).await;
    fixture.shows("w", "DeletionsHeld=True/PlacedObjectsLeft").await;
    pass(Duration::from_mins(3)).await;
    assert_eq!((maps_left(&fixture).await, namespace_stays(&fixture).await), (1, true));
    assert_eq!(
        held(&fixture, "w").await,
        "Not deleted yet, because objects that Works have placed there would be deleted too: Namespace app"
    );
    fixture.work("w", &[], json!({})).await;
    until("the namespace is gone", || async { fixture.member().get(NAMESPACES, None, "app").await.is_none() }).await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_04_a_namespace_that_would_take_more_than_the_limit_waits_for_other_works() {
    for deletes in [false, true] {
        let fixture = Fixture::new().await;
        fixture.work("a", &[namespace("app")], json!({})).await;
        fixture.work("b", &maps(0..5), json!({})).await;
        let agent = fixture.start_with(at_most(2));
        for work in ["a", "b"] {
            fixture.shows(work, "Available=True/AllManifestsAvailable").await;
        }
        if deletes {
            fixture.delete_work("a").await;
        } else {
            fixture.work("a", &[], json!({})).await;
        }
        fixture.shows("a", "DeletionsHeld=True/PlacedObjectsLeft").await;
        pass(Duration::from_mins(3)).await;
        assert_eq!((maps_left(&fixture).await, namespace_stays(&fixture).await), (5, true));
        fixture.work("b", &[], json!({})).await;
        fixture.shows("b", "DeletionsHeld=True/DeleteBudgetExhausted").await;
        agent.settled().await;
        assert_eq!((maps_left(&fixture).await, namespace_stays(&fixture).await), (3, true));
        until("the namespace is gone", || async { fixture.member().get(NAMESPACES, None, "app").await.is_none() })
            .await;
        agent.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn audit_04_namespaces_beyond_the_limit_are_deleted_in_portions() {
    for deletes in [false, true] {
        let fixture = Fixture::new().await;
        let names = ["a", "b", "c", "d", "e"];
        fixture.work("w", &names.map(namespace), json!({})).await;
        let agent = fixture.start_with(at_most(2));
        fixture.shows("w", "Available=True/AllManifestsAvailable").await;
        if deletes {
            fixture.delete_work("w").await;
        } else {
            fixture.work("w", &[], json!({})).await;
        }
        let left = || async {
            let mut left = 0;
            for name in names {
                left += usize::from(fixture.member().get(NAMESPACES, None, name).await.is_some());
            }
            left
        };
        fixture.shows("w", "DeletionsHeld=True/DeleteBudgetExhausted").await;
        pass(Duration::from_secs(50)).await;
        assert_eq!(left().await, 3);
        pass(Duration::from_secs(12)).await;
        agent.settled().await;
        assert_eq!(left().await, 1);
        until("all are gone", || async { left().await == 0 }).await;
        agent.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn audit_04_the_content_of_a_deleted_namespace_is_counted() {
    let fixture = Fixture::new().await;
    fixture.member().create(NAMESPACES, None, &namespace("other")).await;
    let elsewhere = |name: &str| {
        let mut map = config_map(name, json!({}));
        map["metadata"]["namespace"] = json!("other");
        map
    };
    fixture.work("a", &[namespace("app")], json!({})).await;
    fixture.work("b", &maps(0..2), json!({})).await;
    fixture.work("c", &[elsewhere("x"), elsewhere("y"), elsewhere("z")], json!({})).await;
    let agent = fixture.start_with(at_most(4));
    for work in ["a", "b", "c"] {
        fixture.shows(work, "Available=True/AllManifestsAvailable").await;
    }
    fixture.work("a", &[], json!({})).await;
    until("the namespace is gone", || async { fixture.member().get(NAMESPACES, None, "app").await.is_none() }).await;
    fixture.work("c", &[], json!({})).await;
    fixture.shows("c", "DeletionsHeld=True/DeleteBudgetExhausted").await;
    assert!(held(&fixture, "c").await.starts_with("2 object(s)"), "{}", held(&fixture, "c").await);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_04_the_budget_holds_for_an_agent_that_restarts() {
    let fixture = Fixture::new().await;
    fixture.member().create(NAMESPACES, None, &namespace("app")).await;
    fixture.work("w", &maps(0..7), json!({})).await;
    let agent = fixture.start_with(at_most(2));
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    fixture.work("w", &[], json!({})).await;
    fixture.shows("w", "DeletionsHeld=True/DeleteBudgetExhausted").await;
    agent.settled().await;
    assert_eq!(maps_left(&fixture).await, 5);
    agent.kill().await;
    for _ in 0..3 {
        let agent = fixture.start_with(at_most(2));
        pass(Duration::from_secs(10)).await;
        assert_eq!(maps_left(&fixture).await, 5, "within the same minute");
        agent.kill().await;
    }
    let agent = fixture.start_with(at_most(2));
    pass(Duration::from_secs(35)).await;
    agent.settled().await;
    assert_eq!(maps_left(&fixture).await, 3);
    until("all are gone", || async { maps_left(&fixture).await == 0 }).await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_04_the_record_of_deletions_outlives_works_that_are_deleted() {
    let fixture = Fixture::new().await;
    fixture.member().create(NAMESPACES, None, &namespace("app")).await;
    let works = ["a", "b", "c", "d"];
    for (number, work) in works.into_iter().enumerate() {
        fixture.work(work, &maps(number..number + 1), json!({})).await;
    }
    let agent = fixture.start_with(at_most(1));
    for work in works {
        fixture.shows(work, "Available=True/AllManifestsAvailable").await;
    }
    for work in works {
        fixture.delete_work(work).await;
    }
    pass(Duration::from_secs(5)).await;
    agent.settled().await;
    assert_eq!(maps_left(&fixture).await, 3);
    agent.kill().await;
    let agent = fixture.start_with(at_most(1));
    pass(Duration::from_secs(40)).await;
    assert_eq!(maps_left(&fixture).await, 3, "within the same minute");
    pass(Duration::from_secs(20)).await;
    agent.settled().await;
    assert_eq!(maps_left(&fixture).await, 2);
    agent.kill().await;
    let agent = fixture.start_with(at_most(1));
    pass(Duration::from_secs(40)).await;
    assert_eq!(maps_left(&fixture).await, 2, "within the same minute");
    until("all are gone", || async { maps_left(&fixture).await == 0 }).await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_04_usual_deletions_cost_no_write_for_the_record() {
    let fixture = Fixture::new().await;
    fixture.member().create(NAMESPACES, None, &namespace("app")).await;
    fixture.work("w", &maps(0..9), json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    pass(Duration::from_mins(2)).await;
    fixture.work("w", &maps(0..5), json!({})).await;
    until("they are gone", || async { maps_left(&fixture).await == 5 }).await;
    agent.settled().await;
    assert_eq!(record_writes(&agent), 0);
    agent.stop().await;
}
