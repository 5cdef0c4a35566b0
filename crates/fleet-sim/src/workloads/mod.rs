//! Simulates a cluster without containers: workload controllers, scheduler, kubelets, volumes and load balancers, far
//! enough for `kubectl get` to show what it would show on a real cluster.
//!
//! How workloads behave is data (`behaviour`). Every step is a function of the stored objects and of the time, so a
//! restart loses nothing. Each cluster has one task, which sleeps until an object changes or a step is due.
//!
//! | file | content |
//! |---|---|
//! | `kinds`, `objects` | the simulated kinds; reading and building objects |
//! | `plan`, `cluster` | writes as data; reading from and writing to a cluster |
//! | `behaviour`, `image` | how workloads behave; whether an image exists |
//! | `lifecycle`, `pod` | the steps of a container; status and node of a pod |
//! | `replica_set`, `deployment`, `stateful_set`, `daemon_set`, `job` | the controllers |
//! | `claim`, `load_balancer`, `disruption`, `node` | volumes, addresses, budgets, lost nodes |

mod behaviour;
mod claim;
mod cluster;
mod daemon_set;
mod deployment;
mod disruption;
mod image;
mod job;
mod kinds;
mod lifecycle;
mod load_balancer;
mod node;
mod objects;
mod plan;
mod pod;
mod pods;
mod replica_set;
mod stateful_set;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use apiserver::Cluster;
use apiserver::simulation::{Entry, StoreEvent, Task};
use jiff::Timestamp;
use tokio::task::JoinHandle;

pub use behaviour::{BehaviourError, Behaviours, annotations};
use cluster::View;
use kinds::Kind;
use plan::Plan;

/// The name of the task in health checks and metrics.
const TASK: &str = "workloads";

/// Time until a refused write is retried.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The simulation of one cluster. Dropping it stops the simulation.
#[derive(Debug)]
pub struct Workloads(JoinHandle<()>);

impl Workloads {
    /// Starts the simulation. Must be called inside a tokio runtime.
    pub fn start(cluster: &Arc<Cluster>, behaviours: Arc<Behaviours>) -> Self {
        let (task, name) = (cluster.task(TASK), cluster.name().to_owned());
        let cluster = Arc::downgrade(cluster);
        Self(tokio::spawn(async move {
            task.supervise(&name, TASK, || run(cluster.clone(), behaviours.clone(), &task)).await;
        }))
    }
}

impl Drop for Workloads {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A simulated object.
type Key = (Kind, Box<str>);

async fn run(cluster: Weak<Cluster>, behaviours: Arc<Behaviours>, task: &Task) {
    let Some(mut changes) = cluster.upgrade().map(|cluster| cluster.changes()) else { return };
    let mut queue = WorkQueue::default();
    loop {
        let sleep = {
            let Some(cluster) = cluster.upgrade() else { return };
            let view = View::new(cluster, behaviours.clone());
            for seen in changes.take() {
                queue.handle(&view, &seen);
            }
            queue.process(&view).await;
            queue.time_until_due(view.now())
        };
        task.completed_round();
        let due = async {
            match sleep {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = changes.changed() => {}
            () = due => {}
        }
    }
}

/// The keys to reconcile, now and later.
#[derive(Debug, Default)]
struct WorkQueue {
    now: BTreeSet<Key>,
    later: BTreeSet<(Timestamp, Key)>,
    due_times: BTreeMap<Key, Timestamp>,
}

impl WorkQueue {
    fn handle(&mut self, view: &View, event: &StoreEvent) {
        match event {
            StoreEvent::Changed(resource, event) => {
                let Some(kind) = Kind::of_storage(resource) else { return };
                self.enqueue(view, kind, event.entry());
                if let Some(previous) = event.previous() {
                    self.enqueue_owners(previous);
                }
            }
            StoreEvent::Relisted(resource, entries) => {
                let Some(kind) = Kind::of_storage(resource) else { return };
                for entry in entries {
                    self.enqueue(view, kind, entry);
                }
            }
        }
    }

    /// Enqueues the object, its owners, and the objects that depend on it.
    fn enqueue(&mut self, view: &View, kind: Kind, entry: &Entry) {
        let (namespace, _) = entry.namespace_and_name();
        self.now.insert((kind, entry.key().into()));
        self.enqueue_owners(entry);
        match kind {
            Kind::Node => {
                self.enqueue_all(view, Kind::Pod, None);
                self.enqueue_all(view, Kind::DaemonSet, None);
            }
            Kind::Claim => self.enqueue_all(view, Kind::Pod, Some(namespace)),
            Kind::Pod => self.enqueue_all(view, Kind::DisruptionBudget, Some(namespace)),
            _ => {}
        }
    }

    fn enqueue_owners(&mut self, entry: &Entry) {
        let (namespace, _) = entry.namespace_and_name();
        for owner in entry.owners() {
            if let Some(kind) = Kind::of_owner(&owner.api_version, &owner.kind) {
                self.now.insert((kind, apiserver::simulation::key_of(Some(namespace), &owner.name)));
            }
        }
    }

    fn enqueue_all(&mut self, view: &View, kind: Kind, namespace: Option<&str>) {
        self.now.extend(view.keys(kind, namespace).into_iter().map(|key| (kind, key)));
    }

    async fn process(&mut self, view: &View) {
        let now = view.now();
        while let Some(first) = self.later.first().filter(|(due, _)| *due <= now).cloned() {
            self.later.remove(&first);
            self.due_times.remove(&first.1);
            self.now.insert(first.1);
        }
        while let Some(key) = self.now.pop_first() {
            let plan = plan_for(view, &key);
            let succeeded = view.execute(&key, &plan.writes).await;
            let retry = (!succeeded).then(|| now.saturating_add(RETRY_AFTER).unwrap_or(Timestamp::MAX));
            self.schedule(key, retry.or(plan.wake));
        }
    }

    fn schedule(&mut self, key: Key, at: Option<Timestamp>) {
        if let Some(before) = self.due_times.remove(&key) {
            self.later.remove(&(before, key.clone()));
        }
        if let Some(at) = at {
            self.due_times.insert(key.clone(), at);
            self.later.insert((at, key));
        }
    }

    fn time_until_due(&self, now: Timestamp) -> Option<Duration> {
        let (due, _) = self.later.first()?;
        // The timer has a resolution of one millisecond: waking a little early would do nothing.
        let wait = Duration::try_from(due.duration_since(now)).unwrap_or_default();
        Some(wait.saturating_add(Duration::from_millis(1)))
    }
}

fn plan_for(view: &View, (kind, key): &Key) -> Plan {
    let Some(object) = view.get(*kind, key) else { return Plan::default() };
    match kind {
        Kind::Pod => pod::plan(view, &object),
        Kind::ReplicaSet => replica_set::plan(view, &object),
        Kind::Deployment => deployment::plan(view, &object),
        Kind::StatefulSet => stateful_set::plan(view, &object),
        Kind::DaemonSet => daemon_set::plan(view, &object),
        Kind::Job => job::plan(view, &object),
        Kind::Claim => claim::plan(view, &object),
        Kind::Service | Kind::Ingress => load_balancer::plan(view, *kind, &object),
        Kind::DisruptionBudget => disruption::plan(view, &object),
        Kind::Node => node::plan(view, &object),
    }
}
