//! The cache reflects our own deletions at once; rejected writes are reported.

use std::sync::Arc;

use fleet_runtime::{
    Actions, Cache, Controller, Event, Kind, ObjectKey, PlanInput, Runtime, Triggers, Write, WriteResult,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use parking_lot::Mutex;

use crate::fixture::{CHILDREN, PARENTS, TestServer, child_of, start};

/// Deletes every child that is not being deleted.
struct Reaper {
    children: Cache<ConfigMap>,
    plans: Arc<Mutex<Vec<String>>>,
}

impl Controller for Reaper {
    const NAME: &'static str = "reaper";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, _: Option<()>, _: PlanInput) -> Actions {
        let child = self.children.get(key);
        let dying = child.as_ref().map(|child| child.metadata.deletion_timestamp.is_some());
        self.plans.lock().push(format!("{}: {dying:?}", key.name()));
        child
            .filter(|_| dying == Some(false))
            .map(|child| Actions::none().with(Write::delete(&*child)))
            .unwrap_or_default()
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_we_deleted_is_gone_at_once_or_terminating_if_it_has_finalizers() {
    let server = TestServer::new().await;
    let mut held = child_of("held", 0);
    held.metadata.finalizers = Some(vec!["example.com/hold".into()]);
    server.children().create(&PostParams::default(), &held).await.unwrap();
    server.children().create(&PostParams::default(), &child_of("free", 0)).await.unwrap();
    let faulty = server.faulty_client();
    faulty.stall_watches(true);
    let mut runtime = Runtime::new(faulty.client(), server.options());
    let children = runtime.cache(Kind::new().in_namespace(CHILDREN));
    let plans = Arc::new(Mutex::new(Vec::new()));
    let of_parents = |event: Event<'_, ConfigMap>| event.versions().any(|version| version.metadata.labels.is_some());
    let triggers = Triggers::new().on(&children, move |event| of_parents(event).then(|| event.key()));
    runtime.controller(Reaper { children, plans: plans.clone() }, triggers, 1);
    let running = start(runtime);
    running.settled().await;
    let expected = ["free-000: Some(false)", "free-000: None", "held-000: Some(false)", "held-000: Some(true)"];
    let mut seen = plans.lock().clone();
    seen.sort_by_key(|line| line[..4].to_owned());
    assert_eq!(seen, expected, "the watches are stalled");
    faulty.stall_watches(false);
    running.settled().await;
    assert_eq!((running.metrics.writes(), plans.lock().len()), (2, 4), "the delayed watch events trigger nothing");
    running.stop().await;
}

/// Removes the finalizers of every child that is being deleted.
struct Releaser {
    children: Cache<ConfigMap>,
    plans: Arc<Mutex<Vec<String>>>,
}

impl Controller for Releaser {
    const NAME: &'static str = "releaser";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, _: Option<()>, _: PlanInput) -> Actions {
        let child = self.children.get(key);
        self.plans.lock().push(format!("{}: {}", key.name(), child.is_some()));
        let Some(child) = child.filter(|child| child.metadata.deletion_timestamp.is_some()) else {
            return Actions::none();
        };
        let mut released = (*child).clone();
        released.metadata.finalizers = None;
        Actions::none().with(Write::change(&*child, &released))
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_last_finalizer_we_removed_is_gone_at_once() {
    let server = TestServer::new().await;
    let mut held = child_of("held", 0);
    held.metadata.finalizers = Some(vec!["example.com/hold".into()]);
    server.children().create(&PostParams::default(), &held).await.unwrap();
    server.children().delete("held-000", &DeleteParams::default()).await.unwrap();
    let faulty = server.faulty_client();
    faulty.stall_watches(true);
    let mut runtime = Runtime::new(faulty.client(), server.options());
    let children = runtime.cache(Kind::new().in_namespace(CHILDREN));
    let plans = Arc::new(Mutex::new(Vec::new()));
    let triggers = Triggers::new()
        .on(&children, |event: Event<'_, ConfigMap>| event.key().name().starts_with("held").then(|| event.key()));
    runtime.controller(Releaser { children, plans: plans.clone() }, triggers, 1);
    let running = start(runtime);
    running.settled().await;
    assert_eq!(*plans.lock(), ["held-000: true", "held-000: false"], "the watches are stalled");
    faulty.stall_watches(false);
    running.settled().await;
    assert_eq!((plans.lock().len(), running.metrics.writes()), (2, 1), "the delayed watch events trigger nothing");
    running.stop().await;
}

/// Creates a child with an invalid name while the parent's count is 1, and a valid one otherwise.
struct Tester {
    parents: Cache<ConfigMap>,
    calls: Arc<Mutex<Vec<&'static str>>>,
}

impl Controller for Tester {
    const NAME: &'static str = "tester";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, _: Option<()>, _: PlanInput) -> Actions {
        let data = self.parents.get(key).and_then(|parent| parent.data.clone()).unwrap_or_default();
        let name = if data.get("count").is_some_and(|count| count == "1") { "Not a name" } else { "good" };
        Actions::none().with(Write::create(&child_of(name, 0)).report_rejection())
    }

    fn on_committed(&self, _: &ObjectKey) {
        self.calls.lock().push("committed");
    }

    fn on_results(&self, _: &ObjectKey, results: Vec<WriteResult>, _: PlanInput) -> Option<Actions> {
        assert!(results.iter().all(Result::is_err));
        self.calls.lock().push("rejected");
        None
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_with_a_rejected_write_is_not_committed() {
    let server = TestServer::new().await;
    server.put_parent("a", 1).await;
    let mut runtime = Runtime::new(server.client(), server.options());
    let parents = runtime.cache(Kind::new().in_namespace(PARENTS));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let triggers = Triggers::new().on(&parents, |event| (event.key().name() == "a").then(|| event.key()));
    runtime.controller(Tester { parents, calls: calls.clone() }, triggers, 1);
    let running = start(runtime);
    running.settled().await;
    assert_eq!(*calls.lock(), ["rejected"]);
    server.put_parent("a", 2).await;
    running.settled().await;
    assert_eq!(*calls.lock(), ["rejected", "committed"]);
    running.stop().await;
}
