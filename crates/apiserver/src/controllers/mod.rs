//! The controllers of the server: garbage collection, namespaces, definitions, service accounts, expiry of Events.
//!
//! One task per cluster follows all changes of its store, lets every controller enqueue what concerns it, and then lets
//! them work until their queues are empty. The task sleeps until a change or a due time. Controllers keep only state that
//! can be rebuilt from the store, so the task is restarted if it panics.

mod accounts;
mod act;
mod collector;
mod definitions;
mod expiry;
mod graph;
mod namespaces;
mod roles;
mod system;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::server::tasks::Task;
use crate::server::{Cluster, access};
use crate::store::watch::StoreEvent;

/// The name of the controllers' task in health checks and metrics.
const TASK: &str = "controllers";

/// Time until a controller tries again what has failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The controllers of a cluster; they end when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<Option<(watch::Sender<()>, JoinHandle<()>)>>);

impl Running {
    /// Starts them on the current runtime, for a cluster that is complete: another thread may run them at once.
    pub(crate) fn start(&self, cluster: &Arc<Cluster>) {
        let (alive, ended) = watch::channel(());
        let (task, name) = (cluster.tasks().register(TASK), cluster.name().to_owned());
        let cluster = Arc::downgrade(cluster);
        let supervised = async move {
            task.supervise(&name, TASK, || run(cluster.clone(), ended.clone(), &task)).await;
        };
        *self.0.lock() = Some((alive, tokio::spawn(supervised)));
    }

    /// Ends them and waits until they hold nothing any more.
    pub(crate) async fn stop(&self) {
        let running = self.0.lock().take();
        if let Some((alive, task)) = running {
            drop(alive);
            let _ = task.await;
        }
    }
}

/// When a controller wants to work again although nothing changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    OnChange,
    At(Instant),
}

impl Wake {
    fn retry() -> Self {
        Wake::after(RETRY_AFTER)
    }

    /// Not at all if the time is beyond what a clock can show.
    fn after(wait: Duration) -> Self {
        Instant::now().checked_add(wait).map_or(Wake::OnChange, Wake::At)
    }

    fn earlier(self, other: Self) -> Self {
        match (self, other) {
            (Wake::OnChange, other) | (other, Wake::OnChange) => other,
            (Wake::At(a), Wake::At(b)) => Wake::At(a.min(b)),
        }
    }
}

/// The parts of a running cluster that must be in place before its first request: system namespaces, and the resources
/// of stored definitions.
pub(crate) fn prepare(cluster: &Cluster) {
    system::create(cluster);
    access::prepare(cluster);
    definitions::load(cluster);
}

/// Works from all that is stored, then follows the changes, so that nothing is lost when it is started again.
async fn run(cluster: Weak<Cluster>, mut ended: watch::Receiver<()>, task: &Task) {
    let Some((mut changes, mut all)) = cluster.upgrade().map(|c| (c.store().watch_everything(), All::new(&c))) else {
        return;
    };
    while ended.has_changed().is_ok() {
        let wake = {
            let Some(cluster) = cluster.upgrade() else { return };
            let events = changes.take();
            for event in &events {
                all.observe(&cluster, event);
            }
            all.work(&cluster).await
        };
        task.completed_round();
        let due = async {
            match wake {
                Wake::At(instant) => tokio::time::sleep_until(instant).await,
                Wake::OnChange => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = ended.changed() => return,
            () = changes.changed() => {}
            () = due => {}
        }
    }
}

#[derive(Debug, Default)]
struct All {
    collector: collector::Collector,
    namespaces: namespaces::Namespaces,
    definitions: definitions::Definitions,
    accounts: accounts::Accounts,
    roles: roles::Roles,
    expiry: expiry::Expiry,
}

impl All {
    fn new(cluster: &Cluster) -> Self {
        Self { definitions: definitions::Definitions::new(cluster), ..Self::default() }
    }

    fn observe(&mut self, cluster: &Cluster, event: &StoreEvent) {
        self.roles.observe(event);
        self.definitions.observe(event);
        self.namespaces.observe(event);
        self.accounts.observe(event);
        self.collector.observe(event);
        self.expiry.observe(cluster, event);
    }

    async fn work(&mut self, cluster: &Arc<Cluster>) -> Wake {
        let definitions = self.definitions.work(cluster).await;
        let accounts = self.accounts.work(cluster).await;
        let roles = self.roles.work(cluster).await;
        let collector = self.collector.work(cluster).await;
        let namespaces = self.namespaces.work(cluster).await;
        let expiry = self.expiry.work(cluster).await;
        definitions.earlier(accounts).earlier(roles).earlier(collector).earlier(namespaces).earlier(expiry)
    }
}
