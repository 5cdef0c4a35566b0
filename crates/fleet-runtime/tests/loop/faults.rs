//! What a controller may rely on when things go wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fleet_runtime::{Ending, KindId, ObjectKey, Runtime, Side, Triggers};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::meddler::Meddling;
use crate::toy::{
    CHILDREN, EXPLOSIVE, PARENTS, Parent, Toy, World, child_of, children_kind, parents_kind, start, toy, until,
};

#[tokio::test(start_paused = true)]
async fn a_conflict_is_planned_again_at_once_with_the_newest_version_in_sight() {
    let world = World::new().await;
    world.put_parent("a", 2).await;
    let meddler = world.meddler();
    // While we do not hear of it, somebody else is faster with the first child.
    let body = json!({"metadata": {"name": "a-000", "labels": {"parent": "a"}}}).to_string();
    let path = format!("/api/v1/namespaces/{CHILDREN}/configmaps");
    meddler.meddle("POST", CHILDREN, 1, Meddling::After { method: "POST", path, body });
    let (runtime, _) = toy(meddler.client(), world.options());
    let begun = tokio::time::Instant::now();
    let running = start(runtime);
    running.settled().await;
    assert_eq!(world.child_names().await, ["a-000", "a-001"]);
    assert!(begun.elapsed() < Duration::from_millis(50), "no pause after a conflict: {:?}", begun.elapsed());
    assert_eq!(running.metrics.reconciles("toy", Ending::Conflict), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_contained_to_its_key() {
    let world = World::new().await;
    world.put_parent(EXPLOSIVE, 1).await;
    world.put_parent("a", 1).await;
    let (runtime, _) = toy(world.client(), world.options());
    let running = start(runtime);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.child_names().await, ["a-000"]);
    let panics = running.metrics.reconciles("toy", Ending::Panicked);
    assert!((6..=8).contains(&panics), "tried again with growing pauses: {panics} times in 10 s");
    world.put_parent("b", 1).await;
    running.settled().await;
    assert_eq!(world.child_names().await, ["a-000", "b-000"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_trigger_that_panics_stops_neither_the_watch_nor_others() {
    let world = World::new().await;
    let mut runtime = Runtime::new(world.client(), world.options());
    let (parents, children) = (runtime.cache(parents_kind()), runtime.cache(children_kind()));
    let triggers = Triggers::new()
        .on(&parents, |event| {
            assert_ne!(event.key().name(), EXPLOSIVE, "boom");
            None
        })
        .on(&parents, |event| [event.key()])
        .reads(&children);
    runtime.controller(Toy { parents, children, plans: Arc::default() }, triggers, 1);
    let running = start(runtime);
    running.settled().await;
    world.put_parent(EXPLOSIVE, 0).await;
    world.put_parent("a", 1).await;
    running.settled().await;
    assert_eq!(world.child_names().await, ["a-000"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_on_which_our_own_code_panics_counts_as_unreadable() {
    let world = World::new().await;
    world.put_parent(EXPLOSIVE, 1).await;
    let mut runtime = Runtime::new(world.client(), world.options());
    let by_name = |parent: &Parent| {
        let name = parent.metadata.name.clone().unwrap();
        assert_ne!(name, EXPLOSIVE, "boom");
        vec![name]
    };
    let (parents, children) = (runtime.cache(parents_kind().index("name", by_name)), runtime.cache(children_kind()));
    let triggers = Triggers::new().on(&parents, |event| [event.key()]).reads(&children);
    runtime.controller(Toy { parents: parents.clone(), children, plans: Arc::default() }, triggers, 1);
    let running = start(runtime);
    running.settled().await;
    world.put_parent("a", 1).await;
    running.settled().await;
    assert_eq!((world.child_names().await, parents.by("name", "a").len()), (vec!["a-000".to_owned()], 1));
    let broken = parents.broken();
    assert!(broken.len() == 1 && broken[0].1.contains("boom"), "{broken:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_of_which_a_part_breaks_ends_and_says_why() {
    let world = World::new().await;
    let mut runtime = Runtime::new(world.client(), world.options());
    let discovery = runtime.discovery(Side::MAIN);
    let (parents, children) = (runtime.cache(parents_kind()), runtime.cache(children_kind()));
    let breaks = || -> Vec<ObjectKey> { panic!("the kinds are too many") };
    let triggers = Triggers::new().on(&parents, |event| [event.key()]).on_discovery(&discovery, breaks);
    runtime.controller(Toy { parents, children, plans: Arc::default() }, triggers, 1);
    let broken = start(runtime).broken().await;
    assert_eq!(broken.to_string(), "a background task panicked: the kinds are too many");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_deletes_nothing_and_stops_nobody() {
    let world = World::new().await;
    world.put_parent("never-good", "many").await;
    world.put_parent("a", 2).await;
    let mut runtime = Runtime::new(world.client(), world.options());
    let (parents, children) = (runtime.cache(parents_kind()), runtime.cache(children_kind()));
    let triggers = Triggers::new().on(&parents, |event| [event.key()]).reads(&children);
    runtime.controller(Toy { parents: parents.clone(), children, plans: Arc::default() }, triggers, 1);
    let running = start(runtime);
    running.settled().await;
    world.put_parent("a", "several").await;
    world.put_parent("b", 1).await;
    running.settled().await;
    assert_eq!(world.child_names().await, ["a-000", "a-001", "b-000"], "the last good version of a holds");
    let key = |name: &str| ObjectKey::namespaced(PARENTS, name);
    let broken =
        ["a", "b", "never-good"].map(|name| (parents.is_broken(&key(name)), parents.get(&key(name)).is_some()));
    assert_eq!(broken, [(true, true), (false, true), (true, false)]);
    assert!(parents.broken()[0].1.contains("invalid digit"), "{:?}", parents.broken());
    let kind = KindId::of::<ConfigMap>();
    assert_eq!(running.metrics.unreadable_objects(&kind), 2, "each version is reported once");

    world.put_parent("a", 1).await;
    world.parents().delete("never-good", &DeleteParams::default()).await.unwrap();
    running.settled().await;
    assert_eq!((world.child_names().await, parents.broken()), (vec!["a-000".into(), "b-000".into()], vec![]));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_is_not_made_twice() {
    let world = World::new().await;
    world.put_parent("a", 3).await;
    let meddler = world.meddler();
    meddler.meddle("POST", CHILDREN, 2, Meddling::LoseAnswer);
    let (runtime, _) = toy(meddler.client(), world.options());
    let running = start(runtime);
    running.settled().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.child_names().await, ["a-000", "a-001", "a-002"]);
    assert_eq!(meddler.count("POST", CHILDREN), 3);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_write_without_an_answer_did_is_seen_by_the_next_plan() {
    let world = World::new().await;
    world.put_parent("a", 2).await;
    let meddler = world.meddler();
    meddler.silence_watches(true);
    meddler.meddle("POST", CHILDREN, 1, Meddling::LoseAnswer);
    meddler.meddle("GET", "configmaps/a-000", 2, Meddling::Refuse);
    let (runtime, _) = toy(meddler.client(), world.options());
    let running = start(runtime);
    running.settled().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.child_names().await, ["a-000", "a-001"]);
    assert_eq!(meddler.count("POST", CHILDREN), 2, "the first child is not made a second time");
    assert_eq!(running.metrics.reconciles("toy", Ending::Conflict), 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn however_a_runtime_ends_whoever_listened_to_its_caches_is_given_back() {
    let world = World::new().await;
    world.put_parent("a", 1).await;
    let held = Arc::new(());
    for crash in [false, true] {
        let mut runtime = Runtime::new(world.client(), world.options());
        let (parents, children) = (runtime.cache(parents_kind()), runtime.cache(children_kind()));
        let listening = (held.clone(), parents.clone(), children.clone());
        let triggers = Triggers::new().on(&parents, move |event| {
            let (_held, _parents, _children) = &listening;
            [event.key()]
        });
        runtime.controller(Toy { parents, children, plans: Arc::default() }, triggers, 1);
        let running = start(runtime);
        running.settled().await;
        assert!(Arc::strong_count(&held) > 1);
        if crash {
            running.crash().await;
        } else {
            running.stop().await;
        }
        assert_eq!(Arc::strong_count(&held), 1, "after a crash: {crash}");
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_tried_again_with_growing_pauses_until_they_end() {
    let world = World::new().await;
    world.put_parent("a", 1).await;
    let meddler = world.meddler();
    meddler.meddle("POST", CHILDREN, 1000, Meddling::Answer(503));
    let (runtime, _) = toy(meddler.client(), world.options());
    let running = start(runtime);
    tokio::time::sleep(Duration::from_mins(10)).await;
    let tries = meddler.count("POST", CHILDREN);
    assert!((15..=22).contains(&tries), "{tries} tries in 10 minutes");
    meddler.relent();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(world.child_names().await, ["a-000"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_gap_everything_is_listed_anew_and_only_what_changed_is_looked_at() {
    let world = World::new().await;
    for parent in ["a", "b", "c", "d"] {
        world.put_parent(parent, 2).await;
    }
    let meddler = world.meddler();
    let (runtime, plans) = toy(meddler.client(), world.options());
    let running = start(runtime);
    running.settled().await;
    let before = plans.load(Ordering::Relaxed);

    meddler.meddle("WATCH", "", 4, Meddling::Refuse);
    meddler.cut_watches();
    tokio::time::sleep(Duration::from_millis(10)).await;
    world.children().delete("a-001", &DeleteParams::default()).await.unwrap();
    world.put_parent("b", 1).await;
    world.children().create(&PostParams::default(), &child_of("gone-parent", 0)).await.unwrap();
    running.settled().await;
    assert_eq!(plans.load(Ordering::Relaxed), before, "nothing is heard while the connection is gone");
    meddler.relent();
    meddler.meddle("WATCH", "", 2, Meddling::Answer(410));
    tokio::time::sleep(Duration::from_secs(5)).await;
    running.settled().await;

    assert_eq!(world.child_names().await, ["a-000", "a-001", "b-000", "c-000", "c-001", "d-000", "d-001"]);
    assert_eq!(running.metrics.relists(&KindId::of::<ConfigMap>()), 2);
    // a, b and the orphan's parent: once for what happened, once more after their own write.
    assert_eq!(plans.load(Ordering::Relaxed) - before, 6, "what did not change is not looked at");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_goes_on_misses_nothing_and_repeats_nothing() {
    let world = World::new().await;
    world.put_parent("a", 2).await;
    let meddler = world.meddler();
    let (runtime, plans) = toy(meddler.client(), world.options());
    let running = start(runtime);
    running.settled().await;
    let before = plans.load(Ordering::Relaxed);
    for _ in 0..5 {
        meddler.cut_watches();
        running.settled().await;
    }
    assert_eq!(plans.load(Ordering::Relaxed), before);
    assert_eq!(meddler.count("GET", "limit="), 2, "no list is needed to go on");
    meddler.meddle("WATCH", PARENTS, 1, Meddling::Refuse);
    meddler.cut_watches();
    world.put_parent("a", 0).await;
    until("the watch is back", || plans.load(Ordering::Relaxed) > before).await;
    running.settled().await;
    assert!(world.child_names().await.is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_died_without_a_word_is_noticed() {
    let world = World::new().await;
    let meddler = world.meddler();
    let (runtime, _) = toy(meddler.client(), world.options());
    let running = start(runtime);
    running.settled().await;
    meddler.let_watches_die();
    world.put_parent("a", 1).await;
    tokio::time::sleep(Duration::from_secs(290)).await;
    assert!(world.child_names().await.is_empty(), "nobody has told, and nobody has noticed yet");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.child_names().await, ["a-000"]);
    let watches = meddler.count("WATCH", "");
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(meddler.count("WATCH", "") - watches <= 6, "a quiet watch is renewed every five minutes");
    running.stop().await;
}

/// A server that has never come as far as the one before it.
async fn backup() -> World {
    let backup = World::new().await;
    backup.put_parent("a", 1).await;
    backup
}

/// With many more writes than the backup has seen.
async fn ahead_of_its_backup() -> World {
    let world = World::new().await;
    for count in (0..=20).rev() {
        world.put_parent("a", count).await;
        world.put_parent("b", count).await;
    }
    world.put_parent("a", 2).await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_set_back_is_listed_anew_however_it_meets_a_watch_from_its_future() {
    let nothing = Meddling::SayNothing(Duration::from_secs(290));
    // It tells how far it is within a minute, refuses, or waits in silence until its revisions have grown to ours.
    for (meddling, early, late) in [
        (None, Duration::ZERO, Duration::from_mins(2)),
        (Some(Meddling::Answer(504)), Duration::ZERO, Duration::from_secs(10)),
        (Some(nothing), Duration::from_mins(4), Duration::from_mins(1)),
    ] {
        let (world, backup) = (ahead_of_its_backup().await, backup().await);
        let meddler = world.meddler();
        let (runtime, _) = toy(meddler.client(), world.options());
        let running = start(runtime);
        // Long enough to know that this server marks how far it is.
        tokio::time::sleep(Duration::from_mins(6)).await;
        assert_eq!(world.child_names().await, ["a-000", "a-001"]);
        if let Some(meddling) = &meddling {
            let each_kind = if matches!(meddling, Meddling::Answer(_)) { 3 } else { 1 };
            meddler.meddle("WATCH", "", 2 * each_kind, meddling.clone());
        }
        meddler.switch_to(&backup);
        tokio::time::sleep(early).await;
        assert!(backup.child_names().await.is_empty(), "silence may mean that there is nothing to tell");
        tokio::time::sleep(late).await;
        running.settled().await;
        assert_eq!(backup.child_names().await, ["a-000"], "{meddling:?}");
        backup.put_parent("c", 1).await;
        running.settled().await;
        assert_eq!(backup.child_names().await, ["a-000", "c-000"], "and is followed from there: {meddling:?}");
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_looked_at_before_all_caches_are_complete() {
    let world = World::new().await;
    world.put_parent("a", 1).await;
    world.children().create(&PostParams::default(), &child_of("a", 0)).await.unwrap();
    let meddler = world.meddler();
    meddler.meddle("GET", CHILDREN, 3, Meddling::Answer(500));
    let (runtime, plans): (_, Arc<AtomicUsize>) = toy(meddler.client(), world.options());
    let running = start(runtime);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((plans.load(Ordering::Relaxed), running.progress.is_synced()), (0, false));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(running.progress.is_synced() && plans.load(Ordering::Relaxed) > 0);
    assert_eq!(running.metrics.writes(), 0, "the child was there all the time");
    running.stop().await;
}
