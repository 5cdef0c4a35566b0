//! Deferred statuses: readers see them at once, and they are written at their deadline, on demand, with the next change that
//! cannot wait, and on shutdown.

use std::time::Duration;

use fleet_runtime::{
    Actions, Cache, Controller, Election, Grant, Kind, KindId, KubeEvent, ObjectKey, Options, Ownership, PlanInput,
    ReconcileResult, Regarding, Runtime, Timing, Triggers, Write,
};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::api::core::v1::{ConfigMap, Event as StoredEvent};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::faulty_client::Fault;
use crate::fixture::{CHILDREN, PARENTS, Running, TestServer, start, until};

const FIRST: i32 = 1;
/// Above this, `Reader` adds a finalizer.
const FINALIZED: i32 = 20;
/// Above this, `Reader` asks for the status to be written.
const FLUSHED: i32 = 30;
/// A count that is written at once.
const URGENT: i32 = 100;
const WINDOW: Duration = Duration::from_millis(200);

/// Reports the count of a parent as `status.replicas` of the Deployment with its name.
struct Counter {
    parents: Cache<ConfigMap>,
    deployments: Cache<Deployment>,
    window: Option<Duration>,
}

impl Controller for Counter {
    const NAME: &'static str = "counter";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, _: Option<()>, _: PlanInput) -> Actions {
        let deployment = self.deployments.get(&ObjectKey::namespaced(CHILDREN, key.name()));
        let (Some(parent), Some(deployment)) = (self.parents.get(key), deployment) else { return Actions::none() };
        let count = parent.data.as_ref().and_then(|data| data.get("count")?.parse().ok());
        let mut new = (*deployment).clone();
        new.status.get_or_insert_default().replicas = count;
        let write = Write::status(&*deployment, &new);
        if write.is_nothing() {
            return Actions::none();
        }
        let event = KubeEvent {
            regarding: Regarding::of(&*deployment),
            component: Self::NAME,
            warning: false,
            reason: "Counted",
            message: format!("{count:?}"),
        };
        let window = self.window.filter(|_| count != Some(URGENT));
        let actions = Actions { events: vec![event], ..Actions::none() };
        actions.with(write.deferrable_for(window))
    }
}

/// Reads the status that `Counter` defers.
struct Reader {
    deployments: Cache<Deployment>,
}

impl Controller for Reader {
    const NAME: &'static str = "reader";
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, _: Option<()>, _: PlanInput) -> Actions {
        let Some(deployment) = self.deployments.get(key) else { return Actions::none() };
        let count = replicas(&deployment).unwrap_or_default();
        let mut new = (*deployment).clone();
        if count > FINALIZED {
            new.metadata.finalizers = Some(vec!["example.com/read".to_owned()]);
        }
        let mut actions = Actions::none().with(Write::change(&*deployment, &new));
        if count > FLUSHED {
            actions.flush.push((KindId::of::<Deployment>(), key.clone()));
        }
        actions
    }
}

fn replicas(deployment: &Deployment) -> Option<i32> {
    deployment.status.as_ref()?.replicas
}

struct Fleet {
    server: TestServer,
    deployments: Cache<Deployment>,
    running: Running,
}

impl Fleet {
    async fn start(window: Option<Duration>, reads: bool) -> Self {
        let server = server_with_deployment().await;
        let (runtime, deployments) = runtime(server.client(), server.options(), window, reads);
        let running = start(runtime);
        let is_stored = || deployments.stored(&key()).is_some_and(|one| replicas(&one) == Some(FIRST));
        until("the first count is stored", is_stored).await;
        Self { server, deployments, running }
    }

    async fn count(&self, count: i32) {
        self.server.put_parent("a", count).await;
        until("the count is in the cache", || self.cached() == Some(count)).await;
    }

    fn cached(&self) -> Option<i32> {
        self.deployments.get(&key()).and_then(|deployment| replicas(&deployment))
    }

    async fn stored(&self) -> Option<i32> {
        replicas(&stored(&self.server).await)
    }
}

async fn stored(server: &TestServer) -> Deployment {
    deployments(server).get("a").await.unwrap()
}

fn deployments(server: &TestServer) -> Api<Deployment> {
    Api::namespaced(server.client(), CHILDREN)
}

fn key() -> ObjectKey {
    ObjectKey::namespaced(CHILDREN, "a")
}

async fn server_with_deployment() -> TestServer {
    let server = TestServer::new().await;
    server.put_parent("a", FIRST).await;
    let labels = json!({"app": "a"});
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        }},
    }))
    .unwrap();
    deployments(&server).create(&PostParams::default(), &deployment).await.unwrap();
    server
}

fn runtime(
    client: kube::Client,
    options: Options,
    window: Option<Duration>,
    reads: bool,
) -> (Runtime, Cache<Deployment>) {
    let mut runtime = Runtime::new(client, options);
    let parents = runtime.cache(Kind::new().in_namespace(PARENTS));
    let deployments: Cache<Deployment> = runtime.cache(Kind::new().in_namespace(CHILDREN));
    let triggers = Triggers::new().on(&parents, |event| [event.key()]).reads(&deployments);
    runtime.controller(Counter { parents, deployments: deployments.clone(), window }, triggers, 1);
    if reads {
        let triggers = Triggers::new().on(&deployments, |event| [event.key()]);
        runtime.controller(Reader { deployments: deployments.clone() }, triggers, 1);
    }
    (runtime, deployments)
}

#[tokio::test(start_paused = true)]
async fn statuses_are_coalesced_for_at_most_their_window() {
    for (window, expected) in [(None, 20), (Some(WINDOW), 5)] {
        let fleet = Fleet::start(window, false).await;
        let begun = fleet.running.metrics.writes();
        // A change every 50 ms for a second: every fourth meets the end of a window of 200 ms.
        for step in 2..=21 {
            fleet.server.put_parent("a", step).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(fleet.stored().await, Some(21), "the last state is written");
        assert_eq!(fleet.running.metrics.writes() - begun, expected, "{window:?}");
        let events: Api<StoredEvent> = Api::namespaced(fleet.server.client(), CHILDREN);
        let published = events.list(&ListParams::default()).await.unwrap().items.len();
        assert_eq!(published, 21, "{window:?}: one event per change, also of the first count");
        fleet.running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn readers_see_a_deferred_status_before_the_server() {
    let fleet = Fleet::start(Some(WINDOW), false).await;
    fleet.count(2).await;
    let in_cache = fleet.deployments.stored(&key()).and_then(|deployment| replicas(&deployment));
    assert_eq!((in_cache, fleet.stored().await), (Some(FIRST), Some(FIRST)), "not written yet");
    tokio::time::sleep(WINDOW).await;
    until("it is written", || fleet.deployments.stored(&key()).is_some_and(|one| replicas(&one) == Some(2))).await;
    assert_eq!(fleet.stored().await, Some(2));
    fleet.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_that_cannot_wait_is_sent_with_the_deferred_one() {
    let fleet = Fleet::start(Some(Duration::from_mins(1)), false).await;
    fleet.count(2).await;
    let writes = fleet.running.metrics.writes();
    fleet.count(URGENT).await;
    assert_eq!((fleet.stored().await, fleet.running.metrics.writes() - writes), (Some(URGENT), 1));
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(fleet.running.metrics.writes() - writes, 1, "nothing is left to flush");
    fleet.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_that_returns_to_the_stored_one_is_not_written() {
    let fleet = Fleet::start(Some(WINDOW), false).await;
    let writes = fleet.running.metrics.writes();
    fleet.count(2).await;
    fleet.count(FIRST).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((fleet.stored().await, fleet.running.metrics.writes()), (Some(FIRST), writes));
    fleet.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn another_controller_changes_the_object_without_losing_the_deferred_status() {
    let fleet = Fleet::start(Some(WINDOW), true).await;
    fleet.count(FINALIZED + 1).await;
    until("the finalizer is stored", || {
        fleet.deployments.stored(&key()).is_some_and(|one| one.metadata.finalizers.is_some())
    })
    .await;
    assert_eq!((fleet.cached(), fleet.stored().await), (Some(FINALIZED + 1), Some(FIRST)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let stored = stored(&fleet.server).await;
    assert_eq!((replicas(&stored), stored.metadata.finalizers.is_some()), (Some(FINALIZED + 1), true));
    fleet.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn another_controller_can_request_the_write() {
    let fleet = Fleet::start(Some(Duration::from_mins(1)), true).await;
    fleet.count(FLUSHED + 1).await;
    fleet.running.settled().await;
    assert_eq!(fleet.stored().await, Some(FLUSHED + 1));
    fleet.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_that_another_client_changes_is_planned_again() {
    let fleet = Fleet::start(Some(Duration::from_secs(10)), false).await;
    fleet.count(2).await;
    let foreign = Patch::Merge(json!({"status": {"unavailableReplicas": 7, "replicas": 9}}));
    deployments(&fleet.server).patch_status("a", &PatchParams::default(), &foreign).await.unwrap();
    until("the foreign status is in the cache", || {
        let is_foreign = |one: &DeploymentStatus| one.unavailable_replicas == Some(7);
        fleet.deployments.get(&key()).is_some_and(|one| one.status.as_ref().is_some_and(is_foreign))
    })
    .await;
    until("the count is planned again", || fleet.cached() == Some(2)).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let status = stored(&fleet.server).await.status.unwrap();
    assert_eq!((status.replicas, status.unavailable_replicas), (Some(2), Some(7)));
    fleet.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_flush_that_fails_is_retried() {
    let server = server_with_deployment().await;
    let faulty = server.faulty_client();
    let (runtime, deployments) = runtime(faulty.client(), server.options(), Some(WINDOW), false);
    let running = start(runtime);
    running.settled().await;
    faulty.inject("PATCH", "deployments/a/status", 2, Fault::Status(500));
    server.put_parent("a", 5).await;
    until("it is stored", || deployments.stored(&key()).is_some_and(|one| replicas(&one) == Some(5))).await;
    assert_eq!(replicas(&stored(&server).await), Some(5));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_write_delays_the_next_one() {
    let server = server_with_deployment().await;
    let faulty = server.faulty_client();
    let (runtime, _) = runtime(faulty.client(), server.options(), Some(WINDOW), false);
    let running = start(runtime);
    running.settled().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    faulty.inject("PATCH", "deployments/a/status", usize::MAX, Fault::Delay(Duration::from_secs(1)));
    let begun = faulty.count("PATCH", "deployments/a/status");
    for step in 1..=600 {
        server.put_parent("a", step % 50).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Without a delay: one write per 1.2 s. With it: one per 11 s, ten times the duration of the last one.
    let writes = faulty.count("PATCH", "deployments/a/status") - begun;
    assert_eq!(writes, 6);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deferred_status_of_fields_that_are_not_owned_is_refused() {
    let server = server_with_deployment().await;
    let mut options = server.options();
    let fields = vec!["status.readyReplicas".to_owned()];
    let grant = Grant { controller: "counter", kind: "Deployment", creates: false, deletes: false, fields };
    options.ownership = Ownership::new([grant]).unwrap();
    let (runtime, deployments) = runtime(server.client(), options, Some(WINDOW), false);
    let running = start(runtime);
    running.settled().await;
    assert!(running.metrics.reconciles("counter", ReconcileResult::Failed) > 0);
    assert_eq!(deployments.get(&key()).and_then(|one| replicas(&one)), None);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deferred_statuses_are_flushed_on_shutdown_but_not_after_a_crash() {
    for graceful in [true, false] {
        let fleet = Fleet::start(Some(Duration::from_mins(1)), false).await;
        fleet.count(2).await;
        let server = fleet.server;
        if graceful {
            fleet.running.stop().await;
        } else {
            fleet.running.kill().await;
        }
        assert_eq!(replicas(&stored(&server).await), Some(if graceful { 2 } else { FIRST }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_loses_its_lease_drops_its_deferred_statuses() {
    let server = server_with_deployment().await;
    let election = Election {
        namespace: CHILDREN.to_owned(),
        name: "counter".to_owned(),
        identity: "first".to_owned(),
        timing: Timing::default(),
    };
    let options = Options { election: Some(election), ..server.options() };
    let faulty = server.faulty_client();
    let (runtime, deployments) = runtime(faulty.client(), options, Some(Duration::from_mins(1)), false);
    let running = start(runtime);
    until("it leads", || running.progress.is_leading()).await;
    server.put_parent("a", 1).await;
    let cached = || deployments.get(&key()).and_then(|one| replicas(&one));
    until("the count is in the cache", || cached() == Some(1)).await;
    faulty.inject("PUT", "leases", usize::MAX, Fault::Status(500));
    faulty.inject("PATCH", "leases", usize::MAX, Fault::Status(500));
    until("the lease is lost", || !running.progress.is_leading()).await;
    until("the stored status is shown", || cached().is_none()).await;
    faulty.clear_faults();
    until("the count is planned again", || cached() == Some(1)).await;
    running.stop().await;
    assert_eq!(replicas(&stored(&server).await), Some(1));
}
