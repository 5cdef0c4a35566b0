//! What every controller may rely on without faults.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fleet_runtime::{
    Actions, Cache, ClusterId, Controller, Error, Grant, Kind, KindId, ObjectKey, Ownership, PatchFormat, PlanInput,
    ReconcileContext, ReconcileResult, Runtime, SHUTDOWN_GRACE, Triggers, Wake, Write, WriteResult,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use parking_lot::Mutex;
use serde_json::json;

use crate::faulty_client::Fault;
use crate::fixture::{CHILDREN, PARENTS, TestServer, child_of, child_runtime, start, until};

#[tokio::test(start_paused = true)]
async fn children_are_created_and_deleted_with_the_count_of_their_parent() {
    let server = TestServer::new().await;
    server.put_parent("a", 3).await;
    let (runtime, plans) = child_runtime(server.client(), server.options());
    let running = start(runtime);
    running.settled().await;
    assert_eq!(server.child_names().await, ["a-000", "a-001", "a-002"]);

    server.put_parent("a", 1).await;
    server.put_parent("b", 2).await;
    running.settled().await;
    assert_eq!(server.child_names().await, ["a-000", "b-000", "b-001"]);

    server.children().delete("b-001", &DeleteParams::default()).await.unwrap();
    running.settled().await;
    assert_eq!(server.child_names().await, ["a-000", "b-000", "b-001"], "a missing child is created again");

    server.parents().delete("a", &DeleteParams::default()).await.unwrap();
    running.settled().await;
    assert_eq!(server.child_names().await, ["b-000", "b-001"]);
    assert_eq!(running.metrics.writes(), 3 + 2 + 2 + 1 + 1, "each write was needed");
    assert!(plans.load(Ordering::Relaxed) < 40, "{plans:?} plans");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn our_own_writes_are_visible_before_the_watch_delivers_them() {
    let server = TestServer::new().await;
    server.put_parent("a", 3).await;
    let faulty = server.faulty_client();
    faulty.stall_watches(true);
    let (runtime, plans) = child_runtime(faulty.client(), server.options());
    let running = start(runtime);
    running.settled().await;
    assert_eq!(server.child_names().await, ["a-000", "a-001", "a-002"]);
    // The server keeps one more ConfigMap in every namespace.
    assert_eq!(plans.load(Ordering::Relaxed), 2 + 1, "the second plan finds the children of the first");
    faulty.stall_watches(false);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        (running.metrics.writes(), plans.load(Ordering::Relaxed)),
        (3, 2 + 1),
        "the watch events of our own writes trigger nothing"
    );
    running.stop().await;
}

/// Records when it was planned, and sets a wake-up an hour later, three times.
struct Hourly(Arc<Mutex<Vec<Timestamp>>>);

impl Controller for Hourly {
    const NAME: &'static str = "hourly";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, _: &ObjectKey, _: Option<()>, input: PlanInput) -> Actions {
        let mut planned = self.0.lock();
        planned.push(input.now);
        let next = input.now + Duration::from_hours(1);
        Actions::none().with_wake(if planned.len() < 4 { Wake::At(next) } else { Wake::OnChange })
    }
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_comes_at_the_planned_instant() {
    let server = TestServer::new().await;
    let mut runtime = Runtime::new(server.client(), server.options());
    let planned = Arc::new(Mutex::new(Vec::new()));
    runtime.controller(Hourly(planned.clone()), Triggers::new().at_start([ObjectKey::cluster("x")]), 1);
    let begun = server.clock.now();
    let running = start(runtime);
    tokio::time::sleep(Duration::from_hours(24)).await;
    let hours: Vec<f64> = planned.lock().iter().map(|at| at.duration_since(begun).as_secs_f64() / 3600.0).collect();
    assert_eq!(hours, [0.0, 1.0, 2.0, 3.0]);
    running.stop().await;
}

/// Has one key that takes five seconds, and one that sets a wake-up after a second.
struct Slow(Arc<Mutex<Vec<Timestamp>>>);

impl Controller for Slow {
    const NAME: &'static str = "slow";
    type Key = ObjectKey;
    type Facts = ();

    async fn fetch(&self, key: &ObjectKey, _: &ReconcileContext<'_>) -> Result<(), Error> {
        assert_eq!(key.name(), "slow");
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(())
    }

    fn plan(&self, key: &ObjectKey, facts: Option<()>, input: PlanInput) -> Actions {
        if key.name() == "slow" {
            return facts.map_or_else(Actions::needs_facts, |()| Actions::none());
        }
        let mut planned = self.0.lock();
        planned.push(input.now);
        Actions::none().with_wake(if planned.len() < 2 {
            Wake::At(input.now + Duration::from_secs(1))
        } else {
            Wake::OnChange
        })
    }
}

/// A busy loop would keep paused time from advancing, and the test from ending.
#[tokio::test(start_paused = true)]
async fn a_wake_up_without_a_free_worker_does_not_spin() {
    let server = TestServer::new().await;
    let mut runtime = Runtime::new(server.client(), server.options());
    let planned = Arc::new(Mutex::new(Vec::new()));
    let keys = ["early", "slow"].map(ObjectKey::cluster);
    runtime.controller(Slow(planned.clone()), Triggers::new().at_start(keys), 1);
    let begun = server.clock.now();
    let running = start(runtime);
    until("the key was planned twice", || planned.lock().len() == 2).await;
    let seconds: Vec<f64> = planned.lock().iter().map(|at| at.duration_since(begun).as_secs_f64()).collect();
    assert_eq!(seconds, [0.0, 5.0]);
    running.stop().await;
}

/// Changes an object twice in one plan, followed by one `best_effort` write that fails and one that succeeds.
struct Several {
    children: Cache<ConfigMap>,
    results: Arc<Mutex<Vec<String>>>,
}

fn with(object: &ConfigMap, key: &str, value: &str) -> ConfigMap {
    let mut new = object.clone();
    new.data.get_or_insert_default().insert(key.to_owned(), value.to_owned());
    new
}

impl Controller for Several {
    const NAME: &'static str = "several";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, _: Option<()>, _: PlanInput) -> Actions {
        let Some(child) = self.children.get(key) else { return Actions::none() };
        if child.data.is_some() {
            return Actions::none();
        }
        let first = with(&child, "first", "1");
        let refused = Write::patch_raw(KindId::of::<ConfigMap>(), key.clone(), PatchFormat::Merge, json!({"data": 7}));
        Actions::none()
            .with(Write::change(&*child, &first))
            .with(Write::change(&first, &with(&first, "second", "2")))
            .with(refused.best_effort())
            .with(Write::create(&child_of("made", 1)).best_effort())
    }

    fn on_results(&self, _: &ObjectKey, results: Vec<WriteResult>, _: PlanInput) -> Option<Actions> {
        let shown = |result: WriteResult| match result {
            Ok(object) => object.unwrap_or_default()["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            Err(error) => error.class().to_owned(),
        };
        self.results.lock().extend(results.into_iter().map(shown));
        Some(Actions::none().with(Write::create(&child_of("concluded", 1))))
    }
}

#[tokio::test(start_paused = true)]
async fn writes_of_one_plan_are_rebased_and_best_effort_ones_do_not_fail_it() {
    let server = TestServer::new().await;
    server.children().create(&PostParams::default(), &child_of("a", 0)).await.unwrap();
    let mut runtime = Runtime::new(server.client(), server.options());
    let children: Cache<ConfigMap> = runtime.cache(Kind::new().in_namespace(CHILDREN));
    let results = Arc::new(Mutex::new(Vec::new()));
    let triggers =
        Triggers::new().on(&children, |event| event.new.is_some_and(|new| new.data.is_none()).then(|| event.key()));
    let several = Several { children, results: results.clone() };
    runtime.controller(several, triggers, 1);
    let running = start(runtime);
    until("there are results", || !results.lock().is_empty()).await;
    running.settled().await;
    let stored = server.children().get("a-000").await.unwrap().data.unwrap();
    assert_eq!(stored, BTreeMap::from([("first".into(), "1".into()), ("second".into(), "2".into())]));
    assert_eq!(results.lock()[..2], ["refused", "made-001"]);
    assert!(server.child_names().await.contains(&"concluded-001".to_owned()));
    assert_eq!(running.metrics.writes_of(&KindId::of::<ConfigMap>(), "patch", "conflict"), 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_of_a_field_that_the_controller_does_not_own_is_not_sent() {
    for (strict, made) in [(true, 0), (false, 1)] {
        let server = TestServer::new().await;
        server.put_parent("a", 1).await;
        let mut options = server.options();
        let grant =
            Grant { controller: "children", kind: "ConfigMap", creates: false, deletes: true, fields: Vec::new() };
        options.ownership = Ownership::new([grant]).unwrap();
        options.strict = strict;
        let (runtime, _) = child_runtime(server.client(), options);
        let running = start(runtime);
        running.settled().await;
        assert_eq!(server.child_names().await.len(), made);
        assert_eq!(running.metrics.reconciles("children", ReconcileResult::Failed) > 0, strict);
        running.stop().await;
    }
}

/// Records its facts.
struct Fetcher(Arc<Mutex<Vec<String>>>);

impl Controller for Fetcher {
    const NAME: &'static str = "fetcher";
    type Key = ObjectKey;
    type Facts = Vec<String>;

    async fn fetch(&self, key: &ObjectKey, context: &ReconcileContext<'_>) -> Result<Vec<String>, Error> {
        let reader = context.reader();
        let kind = KindId::of::<ConfigMap>();
        let one = reader.get_as::<ConfigMap>(key).await?.map_or("none".to_owned(), |map| map.metadata.name.unwrap());
        let none = reader.get(&kind, &ObjectKey::namespaced(PARENTS, "missing")).await?.is_none();
        let listed = reader.list(&kind, Some(CHILDREN), Some("parent=a")).await?.len();
        let unknown = KindId::new("example.com", "v1", "Nothing", "nothings");
        let refused = reader.get(&unknown, &ObjectKey::cluster("x")).await.unwrap_err();
        Ok(vec![one, none.to_string(), listed.to_string(), refused.class().to_owned()])
    }

    fn plan(&self, _: &ObjectKey, facts: Option<Vec<String>>, _: PlanInput) -> Actions {
        let Some(facts) = facts else { return Actions::needs_facts() };
        *self.0.lock() = facts;
        Actions::none()
    }
}

#[tokio::test(start_paused = true)]
async fn facts_are_fetched_when_a_plan_needs_them() {
    let server = TestServer::new().await;
    server.put_parent("a", 0).await;
    for number in 0..1203 {
        server.children().create(&PostParams::default(), &child_of("a", number)).await.unwrap();
    }
    let mut runtime = Runtime::new(server.client(), server.options());
    let facts = Arc::new(Mutex::new(Vec::new()));
    let keys = [ObjectKey::namespaced(PARENTS, "a")];
    runtime.controller(Fetcher(facts.clone()), Triggers::new().at_start(keys), 1);
    let running = start(runtime);
    until("facts were read", || !facts.lock().is_empty()).await;
    assert_eq!(*facts.lock(), ["a", "true", "1203", "not_found"]);
    assert_eq!(running.metrics.reads(), 2 + 3 + 1, "a long list is read in pages");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn running_reconciles_have_a_bounded_time_to_finish_on_shutdown() {
    for (delay, made) in [(Duration::from_secs(1), 1), (Duration::from_secs(20), 0)] {
        let server = TestServer::new().await;
        let faulty = server.faulty_client();
        faulty.inject("POST", CHILDREN, 5, Fault::Delay(delay));
        server.put_parent("a", 2).await;
        let (runtime, _) = child_runtime(faulty.client(), server.options());
        let running = start(runtime);
        until("a write was sent", || faulty.count("POST", CHILDREN) == 1).await;
        let stopping = tokio::time::Instant::now();
        running.stop().await;
        assert!(stopping.elapsed() <= SHUTDOWN_GRACE + Duration::from_millis(10), "{:?}", stopping.elapsed());
        assert!(server.child_names().await.len() >= made);
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(server.child_names().await.len() <= 2);
    }
}

/// Creates the first child of each parent on another cluster.
struct Across {
    parents: Cache<ConfigMap>,
    children: Cache<ConfigMap>,
    cluster: ClusterId,
}
impl Controller for Across {
    const NAME: &'static str = "across";
    type Key = ObjectKey;
    type Facts = ();
    fn plan(&self, key: &ObjectKey, _: Option<()>, _: PlanInput) -> Actions {
        let child = child_of(key.name(), 0);
        if self.parents.get(key).is_none() || self.children.get(&ObjectKey::of(&child)).is_some() {
            return Actions::none();
        }
        Actions::none().with(Write::create(&child).on(self.cluster))
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_with_two_servers_keeps_them_apart() {
    let (hub, member) = (TestServer::new().await, TestServer::new().await);
    hub.put_parent("a", 2).await;
    let mut runtime = Runtime::new(hub.client(), hub.options());
    let cluster = runtime.connect(member.client());
    let parents = runtime.cache(Kind::<ConfigMap>::new().in_namespace(PARENTS));
    let children = runtime.cache(Kind::<ConfigMap>::new().in_namespace(CHILDREN).on(cluster));
    let triggers =
        Triggers::new().on(&parents, |event| (event.key().name() == "a").then(|| event.key())).reads(&children);
    runtime.controller(Across { parents, children: children.clone(), cluster }, triggers, 1);
    let running = start(runtime);
    running.settled().await;
    assert_eq!((hub.child_names().await.len(), member.child_names().await), (0, vec!["a-000".to_owned()]));
    assert!(children.get(&ObjectKey::namespaced(CHILDREN, "a-000")).is_some());
    running.stop().await;
}
