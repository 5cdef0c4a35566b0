//! What goes on in a simulated cluster: controllers, scheduler, nodes, volumes and load balancers, without any container.
//!
//! Decides what kube-controller-manager, kube-scheduler and kubelets would do, far enough for a user to see what they would
//! see on a real cluster. How workloads behave is data (`behaviour`). The objects in the cluster's store are all there
//! is: every step is a function of them and of the time, so nothing is lost by ending and starting anew. One task a cluster;
//! it sleeps until something changes or is due.
//!
//! | file | what |
//! |---|---|
//! | `kinds`, `objects` | the kinds that are looked after; reading and building objects |
//! | `plan`, `cluster` | what is to be written, as data; reading from and writing to a cluster |
//! | `behaviour`, `image` | how workloads behave; whether an image can be had |
//! | `life`, `pod` | what a pod goes through; its status and its node |
//! | `replica_set`, `deployment`, `stateful_set`, `daemon_set`, `job` | the controllers |
//! | `claim`, `load_balancer`, `disruption`, `node` | volumes, addresses, budgets, nodes that are lost |

mod behaviour;
mod claim;
mod cluster;
mod daemon_set;
mod deployment;
mod disruption;
mod image;
mod job;
mod kinds;
mod life;
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

use apiserver::server::Cluster;
use apiserver::store::watch::Seen;
use apiserver::store::{Entry, EveryChange};
use jiff::Timestamp;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use behaviour::{BehaviourError, Behaviours, annotations};
use cluster::View;
use kinds::Kind;
use plan::Plan;

/// Time until what the server refused is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The workloads of a cluster; they stand still when this is dropped.
#[derive(Debug)]
pub struct Workloads(JoinHandle<()>);

impl Workloads {
    /// Begins to look after what is in a cluster and what comes. Must be called within a tokio runtime.
    pub fn start(cluster: &Arc<Cluster>, behaviours: Arc<Behaviours>) -> Self {
        let changes = cluster.store().watch_everything();
        Self(tokio::spawn(run(Arc::downgrade(cluster), changes, behaviours)))
    }
}

impl Drop for Workloads {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An object that is looked after.
type Key = (Kind, Box<str>);

async fn run(cluster: Weak<Cluster>, mut changes: EveryChange, behaviours: Arc<Behaviours>) {
    let mut agenda = Agenda::default();
    loop {
        let sleep = {
            let Some(cluster) = cluster.upgrade() else { return };
            let view = View::new(cluster, behaviours.clone());
            for seen in changes.take() {
                agenda.note(&view, &seen);
            }
            agenda.work(&view).await;
            agenda.sleep(view.now())
        };
        let due = async {
            match sleep {
                Some(time) => tokio::time::sleep_until(Instant::now() + time).await,
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

/// What is to be looked at, now and later.
#[derive(Debug, Default)]
struct Agenda {
    now: BTreeSet<Key>,
    later: BTreeSet<(Timestamp, Key)>,
    times: BTreeMap<Key, Timestamp>,
}

impl Agenda {
    fn note(&mut self, view: &View, seen: &Seen) {
        match seen {
            Seen::Changed(resource, event) => {
                let Some(kind) = Kind::of_storage(resource) else { return };
                self.mark(view, kind, &event.entry);
                if let Some(previous) = &event.previous {
                    self.mark_owners(previous);
                }
            }
            Seen::Relisted(resource, entries) => {
                let Some(kind) = Kind::of_storage(resource) else { return };
                for entry in entries {
                    self.mark(view, kind, entry);
                }
            }
        }
    }

    /// The object itself, its owners, and those whose doings depend on it.
    fn mark(&mut self, view: &View, kind: Kind, entry: &Entry) {
        let (namespace, _) = entry.namespace_and_name();
        self.now.insert((kind, entry.key.clone()));
        self.mark_owners(entry);
        match kind {
            Kind::Node => {
                self.mark_all(view, Kind::Pod, None);
                self.mark_all(view, Kind::DaemonSet, None);
            }
            Kind::Claim => self.mark_all(view, Kind::Pod, Some(namespace)),
            Kind::Pod => self.mark_all(view, Kind::DisruptionBudget, Some(namespace)),
            _ => {}
        }
    }

    fn mark_owners(&mut self, entry: &Entry) {
        let (namespace, _) = entry.namespace_and_name();
        for owner in &entry.index.owners {
            if let Some(kind) = Kind::of_owner(&owner.api_version, &owner.kind) {
                self.now.insert((kind, apiserver::store::key_of(Some(namespace), &owner.name)));
            }
        }
    }

    fn mark_all(&mut self, view: &View, kind: Kind, namespace: Option<&str>) {
        self.now.extend(view.keys(kind, namespace).into_iter().map(|key| (kind, key)));
    }

    async fn work(&mut self, view: &View) {
        let now = view.now();
        while let Some(first) = self.later.first().filter(|(due, _)| *due <= now).cloned() {
            self.later.remove(&first);
            self.times.remove(&first.1);
            self.now.insert(first.1);
        }
        while let Some(key) = self.now.pop_first() {
            let plan = plan_for(view, &key);
            let carried_out = view.carry_out(&key, &plan.writes).await;
            let retry = (!carried_out).then(|| now.saturating_add(RETRY_AFTER).unwrap_or(Timestamp::MAX));
            self.wake(key, retry.or(plan.wake));
        }
    }

    fn wake(&mut self, key: Key, at: Option<Timestamp>) {
        if let Some(before) = self.times.remove(&key) {
            self.later.remove(&(before, key.clone()));
        }
        if let Some(at) = at {
            self.times.insert(key.clone(), at);
            self.later.insert((at, key));
        }
    }

    /// How long nothing is due.
    fn sleep(&self, now: Timestamp) -> Option<Duration> {
        let (due, _) = self.later.first()?;
        // The timer counts whole milliseconds; a little late is on time, a little early would be in vain.
        let wait = Duration::try_from(due.duration_since(now)).unwrap_or_default();
        Some(wait + Duration::from_millis(1))
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
