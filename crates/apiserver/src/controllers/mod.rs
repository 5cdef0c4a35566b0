//! What the server does on its own: collect garbage, empty namespaces, establish definitions, equip namespaces,
//! expire events.
//!
//! One task per cluster follows all changes of its store, lets every controller note what concerns it, and then lets
//! them work until nothing is left. Nothing polls: the task sleeps until a change or a due time. Controllers keep only
//! what can be rebuilt from the store.

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

use crate::server::{Cluster, access};
use crate::store::EveryChange;
use crate::store::watch::Seen;

/// Time until a controller tries again what has failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The controllers of a cluster; they end when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<Option<(watch::Sender<()>, JoinHandle<()>)>>);

impl Running {
    /// Starts them on the current runtime, for a cluster that is complete: another thread may run them at once.
    pub(crate) fn start(&self, cluster: &Arc<Cluster>, changes: EveryChange) {
        let (alive, ended) = watch::channel(());
        let task = tokio::spawn(run(Arc::downgrade(cluster), changes, ended));
        *self.0.lock() = Some((alive, task));
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
        Wake::At(Instant::now() + RETRY_AFTER)
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

async fn run(cluster: Weak<Cluster>, mut changes: EveryChange, mut ended: watch::Receiver<()>) {
    let mut all = All::default();
    loop {
        let wake = {
            let Some(cluster) = cluster.upgrade() else { return };
            let seen = changes.take();
            for seen in &seen {
                all.observe(&cluster, seen);
            }
            all.work(&cluster).await
        };
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
    fn observe(&mut self, cluster: &Cluster, seen: &Seen) {
        access::observe(cluster.rbac(), seen);
        self.roles.observe(seen);
        self.definitions.observe(seen);
        self.namespaces.observe(seen);
        self.accounts.observe(seen);
        self.collector.observe(seen);
        self.expiry.observe(cluster, seen);
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
