//! Works that go, and members that leave and come back.

use std::time::Duration;

use fleet_member::ApplierOptions;
use serde_json::{Value, json};

use crate::world::{Agent, World, add_owner, config_map, namespace, on_any_server, owners, pass, until};

on_any_server! {
    a_work_whose_placement_abandons_its_resources_leaves_them_without_an_owner,
    applier_s61_an_object_that_others_keep_does_not_hold_the_work_for_ever,
    a_ledger_that_somebody_deletes_is_made_anew_with_all_objects,
}

const MAPS: &str = "v1/configmaps";

async fn applied(world: &World, works: &[&str]) -> Agent {
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    for work in works {
        world.work(work, &[config_map(work, json!({"k": "v"}))], json!({})).await;
    }
    let agent = world.start();
    for work in works {
        world.shows(work, "Available=True/AllManifestsAvailable").await;
    }
    agent
}

#[tokio::test(start_paused = true)]
async fn applier_s60_a_work_that_we_do_not_hold_goes_without_us() {
    let world = World::new().await;
    let agent = applied(&world, &["w"]).await;
    agent.stop().await;
    // Somebody else holds it, and our hold was taken away.
    let theirs = json!({"metadata": {"finalizers": ["example.com/theirs"]}});
    world.hub().patch("placement.kubernetes-fleet.io/v1beta1/works", Some("fleet-member-m1"), "w", &theirs).await;
    world.delete_work("w").await;
    let agent = world.start();
    pass(Duration::from_mins(2)).await;
    assert!(world.ledger("w").await.is_some());
    assert!(world.member().get(MAPS, Some("app"), "w").await.is_some());
    agent.stop().await;
}

async fn a_work_whose_placement_abandons_its_resources_leaves_them_without_an_owner(world: World) {
    let agent = applied(&world, &["w"]).await;
    let abandon = json!({"metadata": {"annotations": {"kubernetes-fleet.io/delete-propagation-policy": "Abandon"}}});
    world.hub().patch("placement.kubernetes-fleet.io/v1beta1/works", Some("fleet-member-m1"), "w", &abandon).await;
    world.delete_work("w").await;
    until("the Work is gone", || async { world.try_stored("w").await.is_none() }).await;
    let live = world.member().get(MAPS, Some("app"), "w").await.unwrap();
    assert!(owners(&live).is_empty());
    assert_eq!(world.ledger("w").await, None);
    agent.stop().await;
}

async fn applier_s61_an_object_that_others_keep_does_not_hold_the_work_for_ever(world: World) {
    world.member().create("v1/namespaces", None, &namespace("app")).await;
    let boss = world.member().create(MAPS, Some("app"), &config_map("boss", json!({}))).await;
    world.work("w", &[config_map("cm", json!({}))], json!({"applyStrategy": {"allowCoOwnership": true}})).await;
    let agent = world.start();
    world.shows("w", "Available=True/AllManifestsAvailable").await;
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": boss["metadata"]["uid"]});
    add_owner(&world, MAPS, "cm", &other).await;
    world.delete_work("w").await;
    until("the Work is gone", || async { world.try_stored("w").await.is_none() }).await;
    let live = world.member().get(MAPS, Some("app"), "cm").await.unwrap();
    assert!(
        !owners(&live).contains(&"AppliedWork w".to_owned())
            || live["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] == false
    );
    agent.stop().await;
}

fn is_held(work: &Value) -> bool {
    let finalizers = work["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.contains(&json!("kubernetes-fleet.io/work-cleanup"))
}

#[tokio::test(start_paused = true)]
async fn applier_s62_s63_a_member_that_leaves_keeps_its_objects_and_takes_up_its_works_when_it_is_back() {
    let world = World::new().await;
    let works = ["a", "b", "c"];
    let agent = applied(&world, &works).await;
    world.order("Leave").await;
    for work in works {
        until("it is let go of", || async { !is_held(&world.stored(work).await) }).await;
    }
    world.work("a", &[config_map("a", json!({"k": "changed"}))], json!({})).await;
    world.delete_work("c").await;
    pass(Duration::from_mins(2)).await;
    let data = |name: &'static str| {
        let world = &world;
        async move { world.member().get(MAPS, Some("app"), name).await.unwrap()["data"]["k"].clone() }
    };
    for work in works {
        assert_eq!(data(work).await, "v", "nothing is applied or deleted after leaving");
    }
    let ledger = world.ledger("a").await.unwrap();
    world.order("Join").await;
    until("the change is applied", || async { data("a").await == "changed" }).await;
    until("all are held again", || async { is_held(&world.stored("a").await) && is_held(&world.stored("b").await) })
        .await;
    assert_eq!(world.ledger("a").await.unwrap()["metadata"]["uid"], ledger["metadata"]["uid"]);
    assert_eq!(data("c").await, "v", "a Work that is gone asks for nothing");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn applier_s64_nothing_is_applied_before_the_agent_knows_that_it_belongs_to_the_fleet() {
    let world = World::new().await;
    world.order("Leave").await;
    world.work("w", &[namespace("app")], json!({})).await;
    let agent = world.start();
    pass(Duration::from_mins(2)).await;
    assert_eq!(world.member().get("v1/namespaces", None, "app").await, None);
    assert_eq!(world.stored("w").await.get("status"), None);
    world.order("Join").await;
    world.shows("w", "Available=True/AllManifestsAvailable").await;
    agent.stop().await;
}

async fn a_ledger_that_somebody_deletes_is_made_anew_with_all_objects(world: World) {
    let agent = applied(&world, &["w"]).await;
    let before = world.ledger("w").await.unwrap();
    world.member().delete(crate::world::LEDGERS, None, "w").await;
    until("everything is there again", || async {
        let ledger = world.ledger("w").await;
        let live = world.member().get(MAPS, Some("app"), "w").await;
        match (ledger, live) {
            (Some(ledger), Some(live)) => {
                ledger["metadata"]["uid"] != before["metadata"]["uid"]
                    && live["metadata"]["ownerReferences"][0]["uid"] == ledger["metadata"]["uid"]
            }
            _ => false,
        }
    })
    .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn applier_s70_a_report_wakes_nobody() {
    let world = World::new().await;
    let agent = applied(&world, &["w"]).await;
    pass(Duration::from_mins(1)).await;
    agent.settled().await;
    let runs = agent.metrics.reconciles("work-applier", "settled");
    let path = "placement.kubernetes-fleet.io/v1beta1/works";
    let status = json!({"conditions": []});
    world.hub().patch_status(path, Some("fleet-member-m1"), "w", &status).await;
    pass(Duration::from_secs(30)).await;
    assert_eq!(agent.metrics.reconciles("work-applier", "settled"), runs);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn objects_of_kinds_that_are_not_watched_are_looked_at_from_time_to_time() {
    let world = World::new().await;
    world.work("w", &[namespace("app"), config_map("cm", json!({"k": "v"}))], json!({})).await;
    let agent = world.start_with(ApplierOptions { watched_kinds: 0, ..ApplierOptions::default() });
    world.shows("w", "Available=True/AllManifestsAvailable").await;
    world.member().patch(MAPS, Some("app"), "cm", &json!({"data": {"k": "changed"}})).await;
    until("it is put right", || async {
        world.member().get(MAPS, Some("app"), "cm").await.unwrap()["data"]["k"] == "v"
    })
    .await;
    agent.stop().await;
}
