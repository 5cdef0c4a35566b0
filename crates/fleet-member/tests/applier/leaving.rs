//! Deleted Works, and members that leave and come back.

use std::time::Duration;

use fleet_api::kinds::Work;
use fleet_member::ApplierOptions;
use fleet_runtime::{KindId, ReconcileResult};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::applier::fixture::{Agent, Fixture, add_owner, config_map, namespace, on_any_server, owners, pass, until};

on_any_server! {
    a_work_whose_placement_abandons_its_resources_leaves_them_without_an_owner,
    applier_s61_an_object_that_others_keep_does_not_block_the_work_for_ever,
    a_deleted_applied_work_is_recreated_with_all_objects,
    audit_20_a_work_is_deleted_although_its_status_was_forged,
}

const MAPS: &str = "v1/configmaps";

async fn applied(fixture: &Fixture, works: &[&str]) -> Agent {
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    for work in works {
        fixture.work(work, &[config_map(work, json!({"k": "v"}))], json!({})).await;
    }
    let agent = fixture.start();
    for work in works {
        fixture.shows(work, "Available=True/AllManifestsAvailable").await;
    }
    agent
}

/// As the hub does with Works in a terminating namespace.
#[tokio::test(start_paused = true)]
async fn last_01_objects_of_a_work_that_the_hub_released_stay() {
    let fixture = Fixture::new().await;
    let agent = applied(&fixture, &["w"]).await;
    agent.stop().await;
    fixture.delete_work("w").await;
    let released = json!({"metadata": {"finalizers": []}});
    fixture.hub().patch("placement.kubernetes-fleet.io/v1beta1/works", Some("fleet-member-m1"), "w", &released).await;
    let agent = fixture.start();
    pass(Duration::from_mins(2)).await;
    assert!(
        fixture
            .applied_work("w")
            .await
            .is_some_and(|applied_work| applied_work["metadata"]["deletionTimestamp"].is_null())
    );
    let object = fixture.member().get(MAPS, Some("app"), "w").await.expect("the object stays");
    assert_eq!(object["metadata"]["deletionTimestamp"], Value::Null);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn applier_s60_a_work_without_our_finalizer_is_deleted_without_us() {
    let fixture = Fixture::new().await;
    let agent = applied(&fixture, &["w"]).await;
    agent.stop().await;
    // The Work has another finalizer, and ours was removed.
    let theirs = json!({"metadata": {"finalizers": ["example.com/theirs"]}});
    fixture.hub().patch("placement.kubernetes-fleet.io/v1beta1/works", Some("fleet-member-m1"), "w", &theirs).await;
    fixture.delete_work("w").await;
    let agent = fixture.start();
    pass(Duration::from_mins(2)).await;
    assert!(fixture.applied_work("w").await.is_some());
    assert!(fixture.member().get(MAPS, Some("app"), "w").await.is_some());
    agent.stop().await;
}

async fn a_work_whose_placement_abandons_its_resources_leaves_them_without_an_owner(fixture: Fixture) {
    let agent = applied(&fixture, &["w"]).await;
    let abandon = json!({"metadata": {"annotations": {"kubernetes-fleet.io/delete-propagation-policy": "Abandon"}}});
    fixture.hub().patch("placement.kubernetes-fleet.io/v1beta1/works", Some("fleet-member-m1"), "w", &abandon).await;
    fixture.delete_work("w").await;
    until("the Work is gone", || async { fixture.try_stored("w").await.is_none() }).await;
    let live = fixture.member().get(MAPS, Some("app"), "w").await.unwrap();
    assert!(owners(&live).is_empty());
    assert_eq!(fixture.applied_work("w").await, None);
    agent.stop().await;
}

async fn applier_s61_an_object_that_others_keep_does_not_block_the_work_for_ever(fixture: Fixture) {
    fixture.member().create("v1/namespaces", None, &namespace("app")).await;
    let boss = fixture.member().create(MAPS, Some("app"), &config_map("boss", json!({}))).await;
    let names = ["stuck", "kept"];
    let maps = names.map(|name| config_map(name, json!({})));
    fixture.work("w", &maps, json!({"applyStrategy": {"allowCoOwnership": true}})).await;
    let stuck_after = SignedDuration::from_secs(3);
    let agent = fixture.start_with(ApplierOptions { stuck_after, ..ApplierOptions::default() });
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": boss["metadata"]["uid"]});
    for name in names {
        add_owner(&fixture, MAPS, name, &other).await;
    }
    // One object is already being deleted and has a finalizer, so that the garbage collector ignores it and its
    // owners.
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    fixture.member().patch(MAPS, Some("app"), "stuck", &hold).await;
    fixture.member().delete(MAPS, Some("app"), "stuck").await;
    fixture.delete_work("w").await;
    until("the AppliedWork goes", || async {
        fixture
            .applied_work("w")
            .await
            .is_some_and(|applied_work| !applied_work["metadata"]["deletionTimestamp"].is_null())
    })
    .await;
    let stuck = || async { fixture.member().get(MAPS, Some("app"), "stuck").await.unwrap() };
    assert_eq!(stuck().await["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], true);
    until("the Work is gone", || async { fixture.try_stored("w").await.is_none() }).await;
    assert_eq!(fixture.applied_work("w").await, None);
    let ours = stuck().await["metadata"]["ownerReferences"][0].clone();
    assert_eq!((&ours["kind"], &ours["blockOwnerDeletion"]), (&json!("AppliedWork"), &json!(false)));
    let kept = fixture.member().get(MAPS, Some("app"), "kept").await.unwrap();
    assert_eq!(owners(&kept), ["ConfigMap boss"]);
    agent.stop().await;
}

fn has_finalizer(work: &Value) -> bool {
    let finalizers = work["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.contains(&json!("kubernetes-fleet.io/work-cleanup"))
}

#[tokio::test(start_paused = true)]
async fn applier_s62_a_leaving_member_removes_its_finalizers_and_keeps_the_objects() {
    let fixture = Fixture::new().await;
    let works: Vec<String> = (0..10).map(|number| format!("w{number}")).collect();
    let names: Vec<&str> = works.iter().map(String::as_str).collect();
    let agent = applied(&fixture, &names).await;
    fixture.order("Leave").await;
    for work in &names {
        until("its finalizer is removed", || async { !has_finalizer(&fixture.stored(work).await) }).await;
    }
    for work in &names {
        fixture.work(work, &[config_map(work, json!({"k": "changed"}))], json!({})).await;
    }
    fixture.delete_work("w9").await;
    pass(Duration::from_mins(2)).await;
    for work in &names {
        assert_eq!(data(&fixture, work).await, "v", "nothing is applied or deleted after leaving");
        assert!(fixture.applied_work(work).await.is_some());
    }
    for work in &names[..9] {
        assert!(!has_finalizer(&fixture.stored(work).await));
    }
    agent.stop().await;
}

async fn data(fixture: &Fixture, name: &str) -> Value {
    fixture.member().get(MAPS, Some("app"), name).await.unwrap()["data"]["k"].clone()
}

/// Within this time a returning member has processed the changes.
const TAKEN_UP_WITHIN: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn applier_s63_a_member_that_rejoins_reconciles_its_works() {
    let fixture = Fixture::new().await;
    let agent = applied(&fixture, &["changed", "remade", "same", "gone"]).await;
    // Long enough for everything that an agent remembers about them.
    pass(Duration::from_mins(2)).await;
    let applied_work = fixture.applied_work("changed").await.unwrap();
    fixture.order("Leave").await;
    for work in ["changed", "remade", "same", "gone"] {
        until("its finalizer is removed", || async { !has_finalizer(&fixture.stored(work).await) }).await;
    }
    fixture.work("changed", &[config_map("changed", json!({"k": "new"}))], json!({})).await;
    for work in ["remade", "gone"] {
        fixture.delete_work(work).await;
        assert_eq!(fixture.try_stored(work).await, None);
    }
    // The same name and generation with another content.
    fixture.work("remade", &[config_map("remade", json!({"k": "new"}))], json!({})).await;
    assert_eq!(fixture.stored("remade").await["metadata"]["generation"], 1);
    pass(Duration::from_mins(2)).await;
    fixture.order("Join").await;
    pass(TAKEN_UP_WITHIN).await;
    assert_eq!(data(&fixture, "changed").await, "new");
    assert_eq!(
        data(&fixture, "remade").await,
        "new",
        "what was true of another Work of that name is not reported for this one"
    );
    for work in ["changed", "remade", "same"] {
        assert!(has_finalizer(&fixture.stored(work).await), "{work} is held again");
        fixture.shows(work, "Available=True/AllManifestsAvailable").await;
    }
    assert_eq!(fixture.applied_work("changed").await.unwrap()["metadata"]["uid"], applied_work["metadata"]["uid"]);
    assert_eq!(data(&fixture, "gone").await, "v", "a Work that is gone asks for nothing");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn applier_s64_nothing_is_applied_before_the_agent_has_joined() {
    let fixture = Fixture::new().await;
    let agent = applied(&fixture, &["w"]).await;
    agent.stop().await;
    // A new agent that cannot read yet whether the member has joined.
    fixture
        .hub()
        .remove(
            crate::applier::fixture::INTERNAL_MEMBER_CLUSTERS,
            Some("fleet-member-m1"),
            crate::applier::fixture::MEMBER,
        )
        .await;
    let agent = fixture.start();
    agent.settled().await;
    fixture.work("w", &[config_map("w", json!({"k": "new"}))], json!({})).await;
    pass(Duration::from_mins(2)).await;
    assert_eq!(data(&fixture, "w").await, "v");
    fixture.invite_member().await;
    until("the change is applied", || async { data(&fixture, "w").await == "new" }).await;
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    agent.stop().await;
}

async fn a_deleted_applied_work_is_recreated_with_all_objects(fixture: Fixture) {
    let agent = applied(&fixture, &["w"]).await;
    let before = fixture.applied_work("w").await.unwrap();
    fixture.member().delete(crate::applier::fixture::APPLIED_WORKS, None, "w").await;
    until("everything is there again", || async {
        let applied_work = fixture.applied_work("w").await;
        let live = fixture.member().get(MAPS, Some("app"), "w").await;
        match (applied_work, live) {
            (Some(applied_work), Some(live)) => {
                applied_work["metadata"]["uid"] != before["metadata"]["uid"]
                    && live["metadata"]["ownerReferences"][0]["uid"] == applied_work["metadata"]["uid"]
            }
            _ => false,
        }
    })
    .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn applier_s70_our_own_status_enqueues_nothing() {
    let fixture = Fixture::new().await;
    let agent = applied(&fixture, &["other"]).await;
    // Until ConfigMaps are watched, they are read once more.
    pass(Duration::from_mins(1)).await;
    agent.settled().await;
    let runs = agent.metrics.reconciles("work-applier", ReconcileResult::Succeeded);
    fixture.work("w", &[config_map("w", json!({"k": "v"}))], json!({})).await;
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    pass(Duration::from_mins(1)).await;
    agent.settled().await;
    assert_eq!(
        agent.metrics.reconciles("work-applier", ReconcileResult::Succeeded),
        runs + 1,
        "neither hold, nor records, nor report"
    );
    // Labels of other writers do not count either.
    let note = json!({"metadata": {"labels": {"a": "b"}}});
    fixture.hub().patch(crate::applier::fixture::WORKS, Some("fleet-member-m1"), "w", &note).await;
    pass(Duration::from_secs(30)).await;
    assert_eq!(agent.metrics.reconciles("work-applier", ReconcileResult::Succeeded), runs + 1);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_overwritten_status_and_a_removed_finalizer_are_repaired() {
    let fixture = Fixture::new().await;
    let agent = applied(&fixture, &["w"]).await;
    pass(Duration::from_mins(1)).await;
    let before = crate::applier::fixture::in_short(&fixture.stored("w").await);
    let status = json!({"conditions": [], "manifestConditions": []});
    fixture.any_status("w", &status).await;
    pass(Duration::from_secs(5)).await;
    agent.settled().await;
    assert_eq!(crate::applier::fixture::in_short(&fixture.stored("w").await), before);
    fixture
        .hub()
        .patch(crate::applier::fixture::WORKS, Some("fleet-member-m1"), "w", &json!({"metadata": {"finalizers": null}}))
        .await;
    pass(Duration::from_secs(5)).await;
    assert!(has_finalizer(&fixture.stored("w").await));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn contention_over_the_status_backs_off() {
    let fixture = Fixture::new().await;
    let agent = applied(&fixture, &["w"]).await;
    pass(Duration::from_secs(10)).await;
    agent.settled().await;
    let written = || agent.metrics.writes_of(&KindId::of::<Work>(), "status", "ok");
    let begun = written();
    for _ in 0..600 {
        if !fixture.stored("w").await["status"]["conditions"].as_array().unwrap().is_empty() {
            fixture.any_status("w", &json!({"conditions": []})).await;
        }
        pass(Duration::from_millis(100)).await;
    }
    let fought = written() - begun;
    assert!((4..=10).contains(&fought), "{fought} corrections within a minute");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn objects_of_unwatched_kinds_are_read_periodically() {
    let fixture = Fixture::new().await;
    fixture.work("w", &[namespace("app"), config_map("cm", json!({"k": "v"}))], json!({})).await;
    let agent = fixture.start_with(ApplierOptions { watched_kinds: 0, ..ApplierOptions::default() });
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    fixture.member().patch(MAPS, Some("app"), "cm", &json!({"data": {"k": "changed"}})).await;
    until("it is reverted", || async {
        fixture.member().get(MAPS, Some("app"), "cm").await.unwrap()["data"]["k"] == "v"
    })
    .await;
    agent.stop().await;
}

/// A status write does not check the objects that a status embeds; every other write of the Work does.
async fn forge_status(fixture: &Fixture, work: &str) {
    let time = "2026-01-01T00:00:00Z";
    let manifest = json!({"identifier": {"ordinal": 0}, "conditions": [],
        "backReportedStatus": {"observationTime": time, "observedStatus": {"status": "forged"}}});
    let status = json!({"conditions": [], "manifestConditions": [manifest]});
    fixture
        .hub()
        .patch_status("placement.kubernetes-fleet.io/v1beta1/works", Some("fleet-member-m1"), work, &status)
        .await;
}

#[tokio::test(start_paused = true)]
async fn audit_20_a_member_leaves_although_the_status_of_a_work_was_forged() {
    let fixture = Fixture::new().await;
    let agent = applied(&fixture, &["w"]).await;
    agent.stop().await;
    forge_status(&fixture, "w").await;
    fixture.order("Leave").await;
    let agent = fixture.start();
    until("it is released", || async { !has_finalizer(&fixture.stored("w").await) }).await;
    agent.stop().await;
}

async fn audit_20_a_work_is_deleted_although_its_status_was_forged(fixture: Fixture) {
    let agent = applied(&fixture, &["w"]).await;
    agent.stop().await;
    forge_status(&fixture, "w").await;
    fixture.delete_work("w").await;
    let agent = fixture.start();
    until("the Work is gone", || async { fixture.try_stored("w").await.is_none() }).await;
    agent.stop().await;
}
