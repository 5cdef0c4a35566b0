//! What a controller may rely on when requests, watches or plans fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fleet_runtime::{
    Actions, ClusterId, Controller, Error, KindId, ObjectKey, PlanInput, ReconcileContext, ReconcileResult, Runtime,
    Triggers,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::faulty_client::Fault;
use crate::fixture::{
    CHILDREN, ChildController, PANICKING, PARENTS, Parent, TestServer, child_of, child_runtime, children_kind,
    parent_of, parents_kind, start, until,
};

#[tokio::test(start_paused = true)]
async fn a_conflict_is_planned_again_at_once_with_the_newest_version() {
    let server = TestServer::new().await;
    server.put_parent("a", 2).await;
    let faulty = server.faulty_client();
    // Another client creates the first child, and the watch has not delivered it.
    let body = json!({"metadata": {"name": "a-000", "labels": {"parent": "a"}}}).to_string();
    let path = format!("/api/v1/namespaces/{CHILDREN}/configmaps");
    faulty.inject("POST", CHILDREN, 1, Fault::After { method: "POST", path, body });
    let (runtime, _) = child_runtime(faulty.client(), server.options());
    let begun = tokio::time::Instant::now();
    let running = start(runtime);
    running.settled().await;
    assert_eq!(server.child_names().await, ["a-000", "a-001"]);
    assert!(begun.elapsed() < Duration::from_millis(50), "no delay after a conflict: {:?}", begun.elapsed());
    assert_eq!(running.metrics.reconciles("children", ReconcileResult::Conflict), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_contained_to_its_key() {
    let server = TestServer::new().await;
    server.put_parent(PANICKING, 1).await;
    server.put_parent("a", 1).await;
    let (runtime, _) = child_runtime(server.client(), server.options());
    let running = start(runtime);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(server.child_names().await, ["a-000"]);
    let panics = running.metrics.reconciles("children", ReconcileResult::Panicked);
    assert!((6..=8).contains(&panics), "retried with backoff: {panics} times in 10 s");
    server.put_parent("b", 1).await;
    running.settled().await;
    assert_eq!(server.child_names().await, ["a-000", "b-000"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_trigger_that_panics_stops_neither_the_watch_nor_others() {
    let server = TestServer::new().await;
    let mut runtime = Runtime::new(server.client(), server.options());
    let (parents, children) = (runtime.cache(parents_kind()), runtime.cache(children_kind()));
    let triggers = Triggers::new()
        .on(&parents, |event| {
            assert_ne!(event.key().name(), PANICKING, "boom");
            None
        })
        .on(&parents, |event| [event.key()])
        .reads(&children);
    runtime.controller(
        ChildController { parents, children: children.index(parent_of), plans: Arc::default() },
        triggers,
        1,
    );
    let running = start(runtime);
    running.settled().await;
    server.put_parent(PANICKING, 0).await;
    server.put_parent("a", 1).await;
    running.settled().await;
    assert_eq!(server.child_names().await, ["a-000"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_on_which_our_own_code_panics_counts_as_unreadable() {
    let server = TestServer::new().await;
    server.put_parent(PANICKING, 1).await;
    let mut runtime = Runtime::new(server.client(), server.options());
    let by_name = |parent: &Parent| {
        let name = parent.metadata.name.clone().unwrap();
        assert_ne!(name, PANICKING, "boom");
        vec![name]
    };
    let (parents, children) = (runtime.cache(parents_kind()), runtime.cache(children_kind()));
    let parents_by_name = parents.index(by_name);
    let triggers = Triggers::new().on(&parents, |event| [event.key()]).reads(&children);
    runtime.controller(
        ChildController { parents: parents.clone(), children: children.index(parent_of), plans: Arc::default() },
        triggers,
        1,
    );
    let running = start(runtime);
    running.settled().await;
    server.put_parent("a", 1).await;
    running.settled().await;
    assert_eq!((server.child_names().await, parents_by_name.get("a").len()), (vec!["a-000".to_owned()], 1));
    let unreadable = parents.unreadable();
    assert!(unreadable.len() == 1 && unreadable[0].1.contains("boom"), "{unreadable:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_ends_with_an_error_if_a_background_task_panics() {
    let server = TestServer::new().await;
    let mut runtime = Runtime::new(server.client(), server.options());
    let discovery = runtime.discovery(ClusterId::MAIN);
    let (parents, children) = (runtime.cache(parents_kind()), runtime.cache(children_kind()));
    let panics = || -> Vec<ObjectKey> { panic!("the kinds are too many") };
    let triggers = Triggers::new().on(&parents, |event| [event.key()]).on_discovery(&discovery, panics);
    runtime.controller(
        ChildController { parents, children: children.index(parent_of), plans: Arc::default() },
        triggers,
        1,
    );
    let panicked = start(runtime).panicked().await;
    assert_eq!(panicked.to_string(), "a background task panicked: the kinds are too many");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_object_deletes_nothing_and_does_not_block_others() {
    let server = TestServer::new().await;
    server.put_parent("never-good", "many").await;
    server.put_parent("a", 2).await;
    let mut runtime = Runtime::new(server.client(), server.options());
    let (parents, children) = (runtime.cache(parents_kind()), runtime.cache(children_kind()));
    let triggers = Triggers::new().on(&parents, |event| [event.key()]).reads(&children);
    runtime.controller(
        ChildController { parents: parents.clone(), children: children.index(parent_of), plans: Arc::default() },
        triggers,
        1,
    );
    let running = start(runtime);
    running.settled().await;
    server.put_parent("a", "several").await;
    server.put_parent("b", 1).await;
    running.settled().await;
    assert_eq!(server.child_names().await, ["a-000", "a-001", "b-000"], "the last good version of a holds");
    let key = |name: &str| ObjectKey::namespaced(PARENTS, name);
    let unreadable =
        ["a", "b", "never-good"].map(|name| (parents.is_unreadable(&key(name)), parents.get(&key(name)).is_some()));
    assert_eq!(unreadable, [(true, true), (false, true), (true, false)]);
    assert!(parents.unreadable()[0].1.contains("invalid digit"), "{:?}", parents.unreadable());
    let kind = KindId::of::<ConfigMap>();
    assert_eq!(running.metrics.unreadable_objects(&kind), 2, "each version is reported once");

    server.put_parent("a", 1).await;
    server.parents().delete("never-good", &DeleteParams::default()).await.unwrap();
    running.settled().await;
    assert_eq!((server.child_names().await, parents.unreadable()), (vec!["a-000".into(), "b-000".into()], vec![]));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_response_is_lost_is_not_sent_twice() {
    let server = TestServer::new().await;
    server.put_parent("a", 3).await;
    let faulty = server.faulty_client();
    faulty.inject("POST", CHILDREN, 2, Fault::LoseResponse);
    let (runtime, _) = child_runtime(faulty.client(), server.options());
    let running = start(runtime);
    running.settled().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(server.child_names().await, ["a-000", "a-001", "a-002"]);
    assert_eq!(faulty.count("POST", CHILDREN), 3);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_next_plan_sees_the_effect_of_a_write_without_a_response() {
    let server = TestServer::new().await;
    server.put_parent("a", 2).await;
    let faulty = server.faulty_client();
    faulty.stall_watches(true);
    faulty.inject("POST", CHILDREN, 1, Fault::LoseResponse);
    faulty.inject("GET", "configmaps/a-000", 2, Fault::Refuse);
    let (runtime, _) = child_runtime(faulty.client(), server.options());
    let running = start(runtime);
    running.settled().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(server.child_names().await, ["a-000", "a-001"]);
    assert_eq!(faulty.count("POST", CHILDREN), 2, "the first child is not created twice");
    assert_eq!(running.metrics.reconciles("children", ReconcileResult::Conflict), 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_releases_its_subscribers_after_a_stop_and_after_a_crash() {
    let server = TestServer::new().await;
    server.put_parent("a", 1).await;
    let held = Arc::new(());
    for crash in [false, true] {
        let mut runtime = Runtime::new(server.client(), server.options());
        let (parents, children) = (runtime.cache(parents_kind()), runtime.cache(children_kind()));
        let listening = (held.clone(), parents.clone(), children.clone());
        let triggers = Triggers::new().on(&parents, move |event| {
            let (_held, _parents, _children) = &listening;
            [event.key()]
        });
        runtime.controller(
            ChildController { parents, children: children.index(parent_of), plans: Arc::default() },
            triggers,
            1,
        );
        let running = start(runtime);
        running.settled().await;
        assert!(Arc::strong_count(&held) > 1);
        if crash {
            running.kill().await;
        } else {
            running.stop().await;
        }
        assert_eq!(Arc::strong_count(&held), 1, "after a crash: {crash}");
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_with_backoff() {
    let server = TestServer::new().await;
    server.put_parent("a", 1).await;
    let faulty = server.faulty_client();
    faulty.inject("POST", CHILDREN, 1000, Fault::Status(503));
    let (runtime, _) = child_runtime(faulty.client(), server.options());
    let running = start(runtime);
    tokio::time::sleep(Duration::from_mins(10)).await;
    let tries = faulty.count("POST", CHILDREN);
    assert!((15..=22).contains(&tries), "{tries} tries in 10 minutes");
    faulty.clear_faults();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(server.child_names().await, ["a-000"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_20_a_deletion_is_repeated_if_its_kind_was_not_served() {
    let server = TestServer::new().await;
    server.put_parent("a", 2).await;
    let faulty = server.faulty_client();
    let (runtime, _) = child_runtime(faulty.client(), server.options());
    let running = start(runtime);
    running.settled().await;
    // This response does not name an object.
    faulty.inject("DELETE", CHILDREN, 1, Fault::Status(404));
    server.put_parent("a", 1).await;
    running.settled().await;
    assert_eq!(running.metrics.reconciles("children", ReconcileResult::Failed), 1);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(server.child_names().await, ["a-000"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_an_expired_watch_everything_is_listed_and_only_changes_are_reconciled() {
    let server = TestServer::new().await;
    for parent in ["a", "b", "c", "d"] {
        server.put_parent(parent, 2).await;
    }
    let faulty = server.faulty_client();
    let (runtime, plans) = child_runtime(faulty.client(), server.options());
    let running = start(runtime);
    running.settled().await;
    let before = plans.load(Ordering::Relaxed);

    faulty.inject("WATCH", "", 4, Fault::Refuse);
    faulty.cut_watches();
    tokio::time::sleep(Duration::from_millis(10)).await;
    server.children().delete("a-001", &DeleteParams::default()).await.unwrap();
    server.put_parent("b", 1).await;
    server.children().create(&PostParams::default(), &child_of("gone-parent", 0)).await.unwrap();
    running.settled().await;
    assert_eq!(plans.load(Ordering::Relaxed), before, "no event arrives while the connection is down");
    faulty.clear_faults();
    faulty.inject("WATCH", "", 2, Fault::Status(410));
    tokio::time::sleep(Duration::from_secs(5)).await;
    running.settled().await;

    assert_eq!(server.child_names().await, ["a-000", "a-001", "b-000", "c-000", "c-001", "d-000", "d-001"]);
    assert_eq!(running.metrics.relists(&KindId::of::<ConfigMap>()), 2);
    // a, b and the orphan's parent: once for the change, once more after their own write.
    assert_eq!(plans.load(Ordering::Relaxed) - before, 6, "unchanged parents are not reconciled");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_resumed_watch_misses_nothing_and_repeats_nothing() {
    let server = TestServer::new().await;
    server.put_parent("a", 2).await;
    let faulty = server.faulty_client();
    let (runtime, plans) = child_runtime(faulty.client(), server.options());
    let running = start(runtime);
    running.settled().await;
    let before = plans.load(Ordering::Relaxed);
    for _ in 0..5 {
        faulty.cut_watches();
        running.settled().await;
    }
    assert_eq!(plans.load(Ordering::Relaxed), before);
    assert_eq!(faulty.count("GET", "limit="), 2, "no list is needed to resume");
    faulty.inject("WATCH", PARENTS, 1, Fault::Refuse);
    faulty.cut_watches();
    server.put_parent("a", 0).await;
    until("the watch is back", || plans.load(Ordering::Relaxed) > before).await;
    running.settled().await;
    assert!(server.child_names().await.is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_without_an_error_is_detected() {
    let server = TestServer::new().await;
    let faulty = server.faulty_client();
    let (runtime, _) = child_runtime(faulty.client(), server.options());
    let running = start(runtime);
    running.settled().await;
    faulty.drop_watches_silently();
    server.put_parent("a", 1).await;
    tokio::time::sleep(Duration::from_secs(290)).await;
    assert!(server.child_names().await.is_empty(), "the loss is not detected yet");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(server.child_names().await, ["a-000"]);
    let watches = faulty.count("WATCH", "");
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(faulty.count("WATCH", "") - watches <= 6, "an idle watch is renewed every five minutes");
    running.stop().await;
}

/// A server at an older revision.
async fn backup() -> TestServer {
    let backup = TestServer::new().await;
    backup.put_parent("a", 1).await;
    backup
}

/// A server with many more writes than its backup.
async fn ahead_of_its_backup() -> TestServer {
    let server = TestServer::new().await;
    for count in (0..=20).rev() {
        server.put_parent("a", count).await;
        server.put_parent("b", count).await;
    }
    server.put_parent("a", 2).await;
    server
}

#[tokio::test(start_paused = true)]
async fn a_restored_server_is_listed_again_however_it_answers_a_watch_from_a_later_revision() {
    let nothing = Fault::StalledWatch(Duration::from_secs(290));
    // It sends an older bookmark, rejects the watch, or sends nothing until its revisions have caught up with ours.
    for (fault, early, late) in [
        (None, Duration::ZERO, Duration::from_mins(2)),
        (Some(Fault::Status(504)), Duration::ZERO, Duration::from_secs(10)),
        (Some(nothing), Duration::from_mins(4), Duration::from_mins(1)),
    ] {
        let (server, backup) = (ahead_of_its_backup().await, backup().await);
        let faulty = server.faulty_client();
        let (runtime, _) = child_runtime(faulty.client(), server.options());
        let running = start(runtime);
        // Long enough to receive bookmarks.
        tokio::time::sleep(Duration::from_mins(6)).await;
        assert_eq!(server.child_names().await, ["a-000", "a-001"]);
        if let Some(fault) = &fault {
            let each_kind = if matches!(fault, Fault::Status(_)) { 3 } else { 1 };
            faulty.inject("WATCH", "", 2 * each_kind, fault.clone());
        }
        faulty.switch_to(&backup);
        tokio::time::sleep(early).await;
        assert!(backup.child_names().await.is_empty(), "a watch without events may be idle");
        tokio::time::sleep(late).await;
        running.settled().await;
        assert_eq!(backup.child_names().await, ["a-000"], "{fault:?}");
        backup.put_parent("c", 1).await;
        running.settled().await;
        assert_eq!(backup.child_names().await, ["a-000", "c-000"], "and is watched from there: {fault:?}");
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reconciled_before_all_caches_are_synced() {
    let server = TestServer::new().await;
    server.put_parent("a", 1).await;
    server.children().create(&PostParams::default(), &child_of("a", 0)).await.unwrap();
    let faulty = server.faulty_client();
    faulty.inject("GET", CHILDREN, 3, Fault::Status(500));
    let (runtime, plans): (_, Arc<AtomicUsize>) = child_runtime(faulty.client(), server.options());
    let running = start(runtime);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((plans.load(Ordering::Relaxed), running.progress.is_synced()), (0, false));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(running.progress.is_synced() && plans.load(Ordering::Relaxed) > 0);
    assert_eq!(running.metrics.writes(), 0, "the child exists");
    running.stop().await;
}

/// Counts the children that the server lists.
struct Lister(Arc<Mutex<Vec<usize>>>);

impl Controller for Lister {
    const NAME: &'static str = "lister";
    type Key = ObjectKey;
    type Facts = usize;

    async fn fetch(&self, _: &ObjectKey, context: &ReconcileContext<'_>) -> Result<usize, Error> {
        let listed = context.reader().list(&KindId::of::<ConfigMap>(), Some(CHILDREN), Some("parent=a")).await?;
        Ok(listed.len())
    }

    fn plan(&self, _: &ObjectKey, listed: Option<usize>, _: PlanInput) -> Actions {
        let Some(listed) = listed else { return Actions::needs_facts() };
        self.0.lock().push(listed);
        Actions::none()
    }
}

#[tokio::test(start_paused = true)]
async fn audit_20_a_list_that_is_older_than_a_cache_is_read_again() {
    let server = TestServer::new().await;
    let path = format!("/api/v1/namespaces/{CHILDREN}/configmaps?labelSelector=parent%3Da");
    let earlier: Value = server.client().request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
    server.children().create(&PostParams::default(), &child_of("a", 0)).await.unwrap();
    let faulty = server.faulty_client();
    faulty.inject("GET", "labelSelector", 2, Fault::Body(earlier.to_string()));
    let mut runtime = Runtime::new(faulty.client(), server.options());
    let (children, listed) = (runtime.cache(children_kind()), Arc::new(Mutex::new(Vec::new())));
    runtime.controller(Lister(listed.clone()), Triggers::new().on(&children, |event| [event.key()]), 1);
    let running = start(runtime);
    until("a list was accepted", || !listed.lock().is_empty()).await;
    running.settled().await;
    assert!(listed.lock().iter().all(|count| *count == 1), "the two older lists are not planned from: {listed:?}");
    assert_eq!(running.metrics.reconciles("lister", ReconcileResult::Failed), 2);
    running.stop().await;
}
