//! What is remembered of a run between two looks: a status that is not written yet, who waits for it, and a doubt.
//!
//! Decides which status is the newest: one that was held back counts as long as what is stored is still what it was held
//! back over. Lost with the process, and then found out again. Never decides how long a status waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet_api::kinds::{Obj, Scope, UpdateRun};
use fleet_api::types::UpdateRunStatus;
use fleet_runtime::ObjectKey;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::metrics::Measured;

/// A status that may wait for more to come.
#[derive(Debug)]
pub(super) struct Held<S: Scope> {
    /// The run as it is stored.
    pub(super) over: Arc<Obj<UpdateRun, S>>,
    pub(super) status: Arc<UpdateRunStatus>,
    pub(super) until: Timestamp,
}

impl<S: Scope> Clone for Held<S> {
    fn clone(&self) -> Self {
        Self { over: self.over.clone(), status: self.status.clone(), until: self.until }
    }
}

/// What holds once all writes of a plan are made.
#[derive(Debug)]
pub(super) struct Outlook<S: Scope> {
    pub(super) held: Option<Held<S>>,
    pub(super) measured: Measured,
}

#[derive(Debug)]
pub(super) struct Memory<S: Scope> {
    held: Mutex<BTreeMap<ObjectKey, Held<S>>>,
    outlooks: Mutex<BTreeMap<ObjectKey, Outlook<S>>>,
    wanted: Mutex<BTreeSet<ObjectKey>>,
    doubted: Mutex<BTreeSet<ObjectKey>>,
}

impl<S: Scope> Default for Memory<S> {
    fn default() -> Self {
        let (wanted, doubted) = Default::default();
        Self { held: Mutex::default(), outlooks: Mutex::default(), wanted, doubted }
    }
}

impl<S: Scope> Memory<S> {
    /// The status that was held back over what is stored now, if any.
    pub(super) fn held(&self, key: &ObjectKey, stored: &Obj<UpdateRun, S>) -> Option<Held<S>> {
        let mut all = self.held.lock();
        let held = all.get(key)?;
        if held.over.metadata.uid == stored.metadata.uid && held.over.status == stored.status {
            return Some(held.clone());
        }
        all.remove(key);
        None
    }

    /// What a plan leads to if it is carried out.
    pub(super) fn expect(&self, key: &ObjectKey, outlook: Outlook<S>) {
        self.outlooks.lock().insert(key.clone(), outlook);
    }

    /// The plan was carried out; what it brought to measure is returned.
    pub(super) fn carried_out(&self, key: &ObjectKey) -> Measured {
        let Some(outlook) = self.outlooks.lock().remove(key) else { return Measured::default() };
        let mut held = self.held.lock();
        if let Some(status) = outlook.held {
            held.insert(key.clone(), status);
        } else {
            held.remove(key);
            self.wanted.lock().remove(key);
        }
        outlook.measured
    }

    /// Somebody waits for the status of this run to be stored: from now on it is not held back, until it is.
    pub(super) fn want(&self, key: &ObjectKey) {
        self.wanted.lock().insert(key.clone());
    }

    pub(super) fn is_wanted(&self, key: &ObjectKey) -> bool {
        self.wanted.lock().contains(key)
    }

    /// The runs whose status is held back.
    pub(super) fn holding(&self) -> Vec<ObjectKey> {
        self.held.lock().keys().cloned().collect()
    }

    /// What the caches show is to be compared with the server before the run is ended on it.
    pub(super) fn doubt(&self, key: &ObjectKey) {
        self.doubted.lock().insert(key.clone());
    }

    pub(super) fn trust(&self, key: &ObjectKey) {
        self.doubted.lock().remove(key);
    }

    pub(super) fn is_doubted(&self, key: &ObjectKey) -> bool {
        self.doubted.lock().contains(key)
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        self.held.lock().remove(key);
        self.outlooks.lock().remove(key);
        self.wanted.lock().remove(key);
        self.trust(key);
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
    fn a_status_counts_once_its_plan_is_carried_out_and_while_nothing_else_was_stored() {
        let (memory, key) = (Memory::default(), ObjectKey::cluster("r"));
        let held = Held { over: run("0"), status: Arc::new(status("1")), until: Timestamp::UNIX_EPOCH };
        let outlook = |held| Outlook { held, measured: Measured::default() };
        memory.expect(&key, outlook(Some(held.clone())));
        assert!(memory.held(&key, &run("0")).is_none(), "a write may still fail");
        memory.carried_out(&key);
        assert!(memory.held(&key, &run("0")).is_some());
        assert!(memory.held(&key, &run("1")).is_none(), "it is stored, or somebody else wrote");
        assert!(memory.held(&key, &run("0")).is_none(), "and is not taken up again");
        memory.expect(&key, outlook(Some(held)));
        memory.carried_out(&key);
        memory.expect(&key, outlook(None));
        memory.carried_out(&key);
        assert!(memory.held(&key, &run("0")).is_none());
    }

    #[test]
    fn a_status_is_wanted_until_nothing_is_held_back_any_more() {
        let (memory, key) = (Memory::default(), ObjectKey::cluster("r"));
        let held = Held { over: run("0"), status: Arc::new(status("1")), until: Timestamp::UNIX_EPOCH };
        memory.expect(&key, Outlook { held: Some(held), measured: Measured::default() });
        memory.want(&key);
        memory.carried_out(&key);
        assert_eq!(
            (memory.is_wanted(&key), memory.holding()),
            (true, vec![key.clone()]),
            "planned before anybody asked"
        );
        memory.expect(&key, Outlook { held: None, measured: Measured::default() });
        memory.carried_out(&key);
        assert_eq!((memory.is_wanted(&key), memory.holding()), (false, Vec::new()));
    }

    #[test]
    fn a_doubt_lasts_until_it_is_settled_or_the_run_is_gone() {
        let (memory, key) = (Memory::<Cluster>::default(), ObjectKey::cluster("r"));
        memory.doubt(&key);
        assert!(memory.is_doubted(&key));
        memory.trust(&key);
        assert!(!memory.is_doubted(&key));
        memory.doubt(&key);
        memory.forget(&key);
        assert!(!memory.is_doubted(&key));
    }
}
