//! In-memory state of runs between reconciles: deferred statuses, flush requests and required confirmations. A restart
//! loses it and computes it again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet_api::kinds::{Obj, Scope, UpdateRun};
use fleet_api::types::UpdateRunStatus;
use fleet_runtime::ObjectKey;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::metrics::Measurements;

/// A status whose write is deferred.
#[derive(Debug)]
pub(super) struct DeferredStatus<S: Scope> {
    /// The stored run that the status was computed from.
    pub(super) base: Arc<Obj<UpdateRun, S>>,
    pub(super) status: Arc<UpdateRunStatus>,
    pub(super) deadline: Timestamp,
}

impl<S: Scope> Clone for DeferredStatus<S> {
    fn clone(&self) -> Self {
        Self { base: self.base.clone(), status: self.status.clone(), deadline: self.deadline }
    }
}

/// Takes effect once all writes of a plan have succeeded.
#[derive(Debug)]
pub(super) struct PendingEffect<S: Scope> {
    pub(super) deferred: Option<DeferredStatus<S>>,
    pub(super) measurements: Measurements,
}

#[derive(Debug)]
pub(super) struct Memory<S: Scope> {
    deferred: Mutex<BTreeMap<ObjectKey, DeferredStatus<S>>>,
    pending: Mutex<BTreeMap<ObjectKey, PendingEffect<S>>>,
    flush_requested: Mutex<BTreeSet<ObjectKey>>,
    unconfirmed: Mutex<BTreeSet<ObjectKey>>,
}

impl<S: Scope> Default for Memory<S> {
    fn default() -> Self {
        let (flush_requested, unconfirmed) = Default::default();
        Self { deferred: Mutex::default(), pending: Mutex::default(), flush_requested, unconfirmed }
    }
}

impl<S: Scope> Memory<S> {
    /// The deferred status. Valid only while the stored status that it was computed from is unchanged.
    pub(super) fn deferred_status(&self, key: &ObjectKey, stored: &Obj<UpdateRun, S>) -> Option<DeferredStatus<S>> {
        let mut all = self.deferred.lock();
        let deferred = all.get(key)?;
        if deferred.base.metadata.uid == stored.metadata.uid && deferred.base.status == stored.status {
            return Some(deferred.clone());
        }
        all.remove(key);
        None
    }

    /// Remembers the effect of a plan until its writes have succeeded.
    pub(super) fn set_pending(&self, key: &ObjectKey, effect: PendingEffect<S>) {
        self.pending.lock().insert(key.clone(), effect);
    }

    /// Applies the pending effect after all writes have succeeded, and returns its measurements.
    pub(super) fn commit(&self, key: &ObjectKey) -> Measurements {
        let Some(effect) = self.pending.lock().remove(key) else { return Measurements::default() };
        let mut deferred = self.deferred.lock();
        if let Some(status) = effect.deferred {
            deferred.insert(key.clone(), status);
        } else {
            deferred.remove(key);
            self.flush_requested.lock().remove(key);
        }
        effect.measurements
    }

    /// Requests that the status of this run is written without deferral.
    pub(super) fn request_flush(&self, key: &ObjectKey) {
        self.flush_requested.lock().insert(key.clone());
    }

    pub(super) fn is_flush_requested(&self, key: &ObjectKey) -> bool {
        self.flush_requested.lock().contains(key)
    }

    /// The runs with a deferred status.
    pub(super) fn deferred_keys(&self) -> Vec<ObjectKey> {
        self.deferred.lock().keys().cloned().collect()
    }

    /// The caches must be compared with the API server before the run may fail.
    pub(super) fn require_confirmation(&self, key: &ObjectKey) {
        self.unconfirmed.lock().insert(key.clone());
    }

    pub(super) fn set_confirmed(&self, key: &ObjectKey) {
        self.unconfirmed.lock().remove(key);
    }

    pub(super) fn needs_confirmation(&self, key: &ObjectKey) -> bool {
        self.unconfirmed.lock().contains(key)
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        self.deferred.lock().remove(key);
        self.pending.lock().remove(key);
        self.flush_requested.lock().remove(key);
        self.set_confirmed(key);
    }
}

#[cfg(test)]
mod tests {
    use fleet_api::kinds::Cluster;
    use fleet_api::types::UpdateRunSpec;

    use super::*;

    fn run(index: &str) -> Arc<Obj<UpdateRun, Cluster>> {
        let mut run = Obj::named("r", UpdateRunSpec::default());
        run.metadata.uid = Some("u".to_owned());
        run.status = Some(status(index));
        Arc::new(run)
    }

    fn status(index: &str) -> UpdateRunStatus {
        UpdateRunStatus { resource_snapshot_index_used: index.to_owned(), ..UpdateRunStatus::default() }
    }

    #[test]
    fn a_deferred_status_is_valid_after_its_plan_committed_and_while_the_stored_status_is_unchanged() {
        let (memory, key) = (Memory::default(), ObjectKey::cluster("r"));
        let deferred =
            DeferredStatus { base: run("0"), status: Arc::new(status("1")), deadline: Timestamp::UNIX_EPOCH };
        let effect = |deferred| PendingEffect { deferred, measurements: Measurements::default() };
        memory.set_pending(&key, effect(Some(deferred.clone())));
        assert!(memory.deferred_status(&key, &run("0")).is_none(), "a write may still fail");
        memory.commit(&key);
        assert!(memory.deferred_status(&key, &run("0")).is_some());
        assert!(memory.deferred_status(&key, &run("1")).is_none(), "the stored status has changed");
        assert!(memory.deferred_status(&key, &run("0")).is_none(), "and the deferred status is dropped");
        memory.set_pending(&key, effect(Some(deferred)));
        memory.commit(&key);
        memory.set_pending(&key, effect(None));
        memory.commit(&key);
        assert!(memory.deferred_status(&key, &run("0")).is_none());
    }

    #[test]
    fn a_flush_request_lasts_until_no_status_is_deferred() {
        let (memory, key) = (Memory::default(), ObjectKey::cluster("r"));
        let deferred =
            DeferredStatus { base: run("0"), status: Arc::new(status("1")), deadline: Timestamp::UNIX_EPOCH };
        memory.set_pending(&key, PendingEffect { deferred: Some(deferred), measurements: Measurements::default() });
        memory.request_flush(&key);
        memory.commit(&key);
        assert_eq!(
            (memory.is_flush_requested(&key), memory.deferred_keys()),
            (true, vec![key.clone()]),
            "planned before the flush request"
        );
        memory.set_pending(&key, PendingEffect { deferred: None, measurements: Measurements::default() });
        memory.commit(&key);
        assert_eq!((memory.is_flush_requested(&key), memory.deferred_keys()), (false, Vec::new()));
    }

    #[test]
    fn confirmation_is_required_until_confirmed_or_the_run_is_gone() {
        let (memory, key) = (Memory::<Cluster>::default(), ObjectKey::cluster("r"));
        memory.require_confirmation(&key);
        assert!(memory.needs_confirmation(&key));
        memory.set_confirmed(&key);
        assert!(!memory.needs_confirmation(&key));
        memory.require_confirmation(&key);
        memory.forget(&key);
        assert!(!memory.needs_confirmation(&key));
    }
}
