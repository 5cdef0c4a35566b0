//! Works that go, and members that leave and come back.

use std::time::Duration;

use fleet_api::kinds::Work;
use fleet_member::ApplierOptions;
use fleet_runtime::{Ending, KindId};
use jiff::SignedDuration;
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
    let names = ["stuck", "kept"];
    let maps = names.map(|name| config_map(name, json!({})));
    world.work("w", &maps, json!({"applyStrategy": {"allowCoOwnership": true}})).await;
    let stuck_after = SignedDuration::from_secs(3);
    let agent = world.start_with(ApplierOptions { stuck_after, ..ApplierOptions::default() });
    world.shows("w", "Available=True/AllManifestsAvailable").await;
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": boss["metadata"]["uid"]});
    for name in names {
        add_owner(&world, MAPS, name, &other).await;
    }
    // One goes already and is held by somebody, so that the garbage collector leaves it and its owners alone.
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    world.member().patch(MAPS, Some("app"), "stuck", &hold).await;
    world.member().delete(MAPS, Some("app"), "stuck").await;
    world.delete_work("w").await;
    until("the ledger goes", || async {
        world.ledger("w").await.is_some_and(|ledger| !ledger["metadata"]["deletionTimestamp"].is_null())
    })
    .await;
    let stuck = || async { world.member().get(MAPS, Some("app"), "stuck").await.unwrap() };
    assert_eq!(stuck().await["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], true);
    until("the Work is gone", || async { world.try_stored("w").await.is_none() }).await;
    assert_eq!(world.ledger("w").await, None);
    let ours = stuck().await["metadata"]["ownerReferences"][0].clone();
    assert_eq!((&ours["kind"], &ours["blockOwnerDeletion"]), (&json!("AppliedWork"), &json!(false)));
    let kept = world.member().get(MAPS, Some("app"), "kept").await.unwrap();
    assert_eq!(owners(&kept), ["ConfigMap boss"]);
    agent.stop().await;
}

fn is_held(work: &Value) -> bool {
    let finalizers = work["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.contains(&json!("kubernetes-fleet.io/work-cleanup"))
}

#[tokio::test(start_paused = true)]
async fn applier_s62_a_member_that_leaves_lets_go_of_all_works_and_keeps_their_objects() {
    let world = World::new().await;
    let works: Vec<String> = (0..10).map(|number| format!("w{number}")).collect();
    let names: Vec<&str> = works.iter().map(String::as_str).collect();
    let agent = applied(&world, &names).await;
    world.order("Leave").await;
    for work in &names {
        until("it is let go of", || async { !is_held(&world.stored(work).await) }).await;
    }
    for work in &names {
        world.work(work, &[config_map(work, json!({"k": "changed"}))], json!({})).await;
    }
    world.delete_work("w9").await;
    pass(Duration::from_mins(2)).await;
    for work in &names {
        assert_eq!(data(&world, work).await, "v", "nothing is applied or deleted after leaving");
        assert!(world.ledger(work).await.is_some());
    }
    for work in &names[..9] {
        assert!(!is_held(&world.stored(work).await));
    }
    agent.stop().await;
}

async fn data(world: &World, name: &str) -> Value {
    world.member().get(MAPS, Some("app"), name).await.unwrap()["data"]["k"].clone()
}

/// Within this time a member that is back has taken up what has changed meanwhile.
const TAKEN_UP_WITHIN: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn applier_s63_a_member_that_is_back_takes_up_its_works_whatever_became_of_them_meanwhile() {
    let world = World::new().await;
    let agent = applied(&world, &["changed", "remade", "same", "gone"]).await;
    // Long enough for everything that an agent remembers of them.
    pass(Duration::from_mins(2)).await;
    let ledger = world.ledger("changed").await.unwrap();
    world.order("Leave").await;
    for work in ["changed", "remade", "same", "gone"] {
        until("it is let go of", || async { !is_held(&world.stored(work).await) }).await;
    }
    world.work("changed", &[config_map("changed", json!({"k": "new"}))], json!({})).await;
    for work in ["remade", "gone"] {
        world.delete_work(work).await;
        assert_eq!(world.try_stored(work).await, None);
    }
    // The same name and the same generation, and another content.
    world.work("remade", &[config_map("remade", json!({"k": "new"}))], json!({})).await;
    assert_eq!(world.stored("remade").await["metadata"]["generation"], 1);
    pass(Duration::from_mins(2)).await;
    world.order("Join").await;
    pass(TAKEN_UP_WITHIN).await;
    assert_eq!(data(&world, "changed").await, "new");
    assert_eq!(
        data(&world, "remade").await,
        "new",
        "what was true of another Work of that name is not told of this one"
    );
    for work in ["changed", "remade", "same"] {
        assert!(is_held(&world.stored(work).await), "{work} is held again");
        world.shows(work, "Available=True/AllManifestsAvailable").await;
    }
    assert_eq!(world.ledger("changed").await.unwrap()["metadata"]["uid"], ledger["metadata"]["uid"]);
    assert_eq!(data(&world, "gone").await, "v", "a Work that is gone asks for nothing");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn applier_s64_nothing_is_applied_before_the_agent_knows_that_it_belongs_to_the_fleet() {
    let world = World::new().await;
    let agent = applied(&world, &["w"]).await;
    agent.stop().await;
    // An agent that starts anew and cannot read yet whether it belongs to the fleet.
    world.hub().remove(crate::world::MAILBOXES, Some("fleet-member-m1"), crate::world::MEMBER).await;
    let agent = world.start();
    agent.settled().await;
    world.work("w", &[config_map("w", json!({"k": "new"}))], json!({})).await;
    pass(Duration::from_mins(2)).await;
    assert_eq!(data(&world, "w").await, "v");
    world.invite_member().await;
    until("the change is applied", || async { data(&world, "w").await == "new" }).await;
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
async fn applier_s70_our_own_report_wakes_nobody() {
    let world = World::new().await;
    let agent = applied(&world, &["other"]).await;
    // Until ConfigMaps are watched, they are looked at once more.
    pass(Duration::from_mins(1)).await;
    agent.settled().await;
    let runs = agent.metrics.reconciles("work-applier", Ending::Settled);
    world.work("w", &[config_map("w", json!({"k": "v"}))], json!({})).await;
    world.shows("w", "Available=True/AllManifestsAvailable").await;
    pass(Duration::from_mins(1)).await;
    agent.settled().await;
    assert_eq!(
        agent.metrics.reconciles("work-applier", Ending::Settled),
        runs + 1,
        "neither hold, nor records, nor report"
    );
    // Nor does what others note on it.
    let note = json!({"metadata": {"labels": {"a": "b"}}});
    world.hub().patch(crate::world::WORKS, Some("fleet-member-m1"), "w", &note).await;
    pass(Duration::from_secs(30)).await;
    assert_eq!(agent.metrics.reconciles("work-applier", Ending::Settled), runs + 1);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_report_that_somebody_writes_over_and_a_hold_that_somebody_takes_away_are_put_right() {
    let world = World::new().await;
    let agent = applied(&world, &["w"]).await;
    pass(Duration::from_mins(1)).await;
    let before = crate::world::in_short(&world.stored("w").await);
    let status = json!({"conditions": [], "manifestConditions": []});
    world.any_status("w", &status).await;
    pass(Duration::from_secs(5)).await;
    agent.settled().await;
    assert_eq!(crate::world::in_short(&world.stored("w").await), before);
    world
        .hub()
        .patch(crate::world::WORKS, Some("fleet-member-m1"), "w", &json!({"metadata": {"finalizers": null}}))
        .await;
    pass(Duration::from_secs(5)).await;
    assert!(is_held(&world.stored("w").await));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn somebody_who_writes_over_every_report_is_not_fought_at_full_speed() {
    let world = World::new().await;
    let agent = applied(&world, &["w"]).await;
    pass(Duration::from_secs(10)).await;
    agent.settled().await;
    let written = || agent.metrics.writes_of(&KindId::of::<Work>(), "status", "ok");
    let begun = written();
    for _ in 0..600 {
        if !world.stored("w").await["status"]["conditions"].as_array().unwrap().is_empty() {
            world.any_status("w", &json!({"conditions": []})).await;
        }
        pass(Duration::from_millis(100)).await;
    }
    let fought = written() - begun;
    assert!((4..=10).contains(&fought), "{fought} corrections within a minute");
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
