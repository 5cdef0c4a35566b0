//! What the applier remembers between reconciles: its objects, the version of each, and when to requeue.
//!
//! Everything here may be lost: the next reconcile of each Work restores it.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::kinds::Work;
use fleet_api::types::{ManifestCondition, WorkStatus};
use fleet_core::apply::budget::Budget;
use fleet_core::apply::contention::Corrections;
use fleet_core::apply::measure::fingerprint_of;
use fleet_core::apply::requeue::Requeue;
use fleet_core::apply::status::ManifestResult;
use fleet_runtime::{KindId, ObjectKey, Revision};
use jiff::Timestamp;

use super::wire::Place;

/// The version of an object at the end of a reconcile; `None` if it did not exist.
pub(super) type Version = Option<String>;

#[derive(Debug, Default)]
pub(super) struct Memory {
    works: BTreeMap<ObjectKey, WorkMemory>,
    /// The Works that contain an object; usually one.
    named_by: BTreeMap<Place, BTreeSet<ObjectKey>>,
    /// Deletions of the last minute; `None` until the first deletion.
    pub(super) budget: Option<Budget>,
    /// When this agent reconciled its first Work.
    pub(super) since: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct WorkMemory {
    /// What the results of the last reconcile depend on.
    basis: Option<Basis>,
    /// Results of manifests; valid while neither the manifest nor the object changes.
    results: BTreeMap<Place, ManifestResult>,
    corrections: Corrections,
    requeue: Requeue,
    /// Since when the Work waits for a kind that it defines itself.
    awaits_kinds_since: Option<Timestamp>,
    /// Whether a manifest is of a kind that the member does not serve.
    has_unknown_kinds: bool,
    /// Whether it waits until objects of other Works are gone from a namespace or a CustomResourceDefinition that it
    /// deletes.
    waits_for_content: bool,
    objects: BTreeMap<Place, Version>,
    /// The status to count when it has been written.
    reported: Option<WorkStatus>,
    /// Digest of the status that this agent has written last, or is about to write.
    status_digest: Option<u64>,
    /// Whether another writer has changed what this agent writes into the Work.
    overwritten: bool,
    /// Changes of its objects during a reconcile; checked when the reconcile ends.
    heard: Option<BTreeMap<Place, Version>>,
}

/// What results depend on besides the objects. A recreated Work has the same generations as the one before, and a hub
/// restored from a backup uses generations twice, so the content counts too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Basis {
    work: String,
    pub(super) generation: i64,
    content: u64,
    applied_work: String,
}

impl Basis {
    pub(super) fn of(work: &Work, applied_work: &str) -> Self {
        Self {
            work: work.metadata.uid.clone().unwrap_or_default(),
            generation: work.generation(),
            content: fingerprint_of(&work.spec),
            applied_work: applied_work.to_owned(),
        }
    }
}

/// What a reconcile has found out about its Work.
#[derive(Debug)]
pub(super) struct Learned {
    pub(super) basis: Basis,
    pub(super) results: BTreeMap<Place, ManifestResult>,
    /// The objects that this reconcile changed.
    pub(super) changed: Vec<Place>,
    pub(super) objects: BTreeMap<Place, Version>,
    pub(super) has_unknown_kinds: bool,
}

impl Memory {
    /// A reconcile begins: changes of its objects from now on may be its own writes.
    pub(super) fn begin(&mut self, work: &ObjectKey) {
        self.works.entry(work.clone()).or_default().heard = Some(BTreeMap::new());
    }

    /// A reconcile has ended. Returns whether an object has changed since it was read.
    pub(super) fn end(&mut self, work: &ObjectKey, learned: Learned, now: Timestamp) -> bool {
        self.record_corrections(work, &learned, now);
        self.remove_references(work);
        for place in learned.objects.keys() {
            self.named_by.entry(place.clone()).or_default().insert(work.clone());
        }
        let work_memory = self.works.entry(work.clone()).or_default();
        work_memory.has_unknown_kinds = learned.has_unknown_kinds;
        (work_memory.basis, work_memory.results) = (Some(learned.basis), learned.results);
        work_memory.objects = learned.objects;
        let heard = work_memory.heard.take().unwrap_or_default();
        heard.iter().any(|(place, version)| work_memory.objects.get(place).is_some_and(|seen| is_news(seen, version)))
    }

    /// Counts a correction: an object that was correct in an earlier reconcile of the same version had to be changed
    /// again, or another writer changed our fields of the Work.
    fn record_corrections(&mut self, work: &ObjectKey, learned: &Learned, now: Timestamp) {
        let Some(work_memory) = self.works.get_mut(work) else { return };
        let was_there = |place: &Place| work_memory.objects.get(place).is_some_and(Option::is_some);
        let put_right = work_memory.basis.as_ref() == Some(&learned.basis) && learned.changed.iter().any(was_there);
        if put_right || std::mem::take(&mut work_memory.overwritten) {
            work_memory.corrections.note(learned.basis.generation, now);
        }
    }

    /// Until when a Work is left alone because another writer keeps changing its objects.
    pub(super) fn backoff_until(&self, work: &ObjectKey, generation: i64, now: Timestamp) -> Option<Timestamp> {
        self.works.get(work)?.corrections.backoff_until(generation, now)
    }

    /// The last result of a manifest, if its object still has this version.
    pub(super) fn known(
        &self,
        work: &ObjectKey,
        basis: &Basis,
        place: &Place,
        version: &str,
    ) -> Option<ManifestResult> {
        let work_memory = self.works.get(work)?;
        let same = work_memory.basis.as_ref() == Some(basis)
            && work_memory.objects.get(place).is_some_and(|seen| seen.as_deref() == Some(version));
        work_memory.results.get(place).filter(|_| same).cloned()
    }

    /// A reconcile has ended without a change.
    pub(super) fn leave(&mut self, work: &ObjectKey) {
        if let Some(work_memory) = self.works.get_mut(work) {
            work_memory.heard = None;
        }
    }

    /// The Work is gone.
    pub(super) fn forget(&mut self, work: &ObjectKey) {
        self.remove_references(work);
        self.works.remove(work);
    }

    /// Forgets everything except deletions: events are not observed from now on.
    pub(super) fn forget_all(&mut self) {
        *self = Self { budget: self.budget.take(), since: self.since, ..Self::default() };
    }

    /// The agent has written this status, or is about to.
    pub(super) fn status_written(&mut self, work: &ObjectKey, status: &WorkStatus) {
        self.works.entry(work.clone()).or_default().status_digest = Some(digest_of(status));
    }

    /// Whether another writer wrote this status. `None` means that the Work has no status.
    pub(super) fn is_foreign(&self, work: &ObjectKey, status: Option<&WorkStatus>) -> bool {
        let status_digest = self.works.get(work).and_then(|work_memory| work_memory.status_digest);
        status_digest.is_some_and(|status_digest| status.is_none_or(|status| digest_of(status) != status_digest))
    }

    /// Another writer has changed what this agent writes into the Work.
    pub(super) fn overwritten(&mut self, work: &ObjectKey) {
        if let Some(work_memory) = self.works.get_mut(work) {
            work_memory.overwritten = true;
        }
    }

    fn remove_references(&mut self, work: &ObjectKey) {
        let Some(work_memory) = self.works.get(work) else { return };
        for place in work_memory.objects.keys() {
            if let Some(works) = self.named_by.get_mut(place) {
                works.remove(work);
                if works.is_empty() {
                    self.named_by.remove(place);
                }
            }
        }
    }

    /// The Works to enqueue for a change on the member.
    pub(super) fn works_to_enqueue(&mut self, place: &Place, version: &Version) -> Vec<ObjectKey> {
        let Some(named_by) = self.named_by.get(place) else { return Vec::new() };
        let mut concerned = Vec::new();
        for work in named_by {
            let Some(work_memory) = self.works.get_mut(work) else { continue };
            if let Some(heard) = &mut work_memory.heard {
                heard.insert(place.clone(), version.clone());
            } else if work_memory.objects.get(place).is_some_and(|seen| is_news(seen, version)) {
                concerned.push(work.clone());
            }
        }
        concerned
    }

    /// Works with manifests of unknown kinds.
    pub(super) fn with_unknown_kinds(&self) -> Vec<ObjectKey> {
        let waiting = self.works.iter().filter(|(_, work_memory)| work_memory.has_unknown_kinds);
        waiting.map(|(work, _)| work.clone()).collect()
    }

    /// Sets whether the Work is enqueued when an AppliedWork changes. Returns the previous value.
    pub(super) fn waits_for_content(&mut self, work: &ObjectKey, waits: bool) -> bool {
        std::mem::replace(&mut self.works.entry(work.clone()).or_default().waits_for_content, waits)
    }

    /// Works to enqueue because an AppliedWork has changed.
    pub(super) fn waiting_for_content(&self) -> Vec<ObjectKey> {
        let waiting = self.works.iter().filter(|(_, work_memory)| work_memory.waits_for_content);
        waiting.map(|(work, _)| work.clone()).collect()
    }

    /// The number of objects of each kind.
    pub(super) fn kinds(&self) -> BTreeMap<KindId, usize> {
        let mut kinds = BTreeMap::new();
        for place in self.named_by.keys() {
            *kinds.entry(place.kind.clone()).or_default() += 1;
        }
        kinds
    }

    /// The number of objects in all Works of this member.
    pub(super) fn placed(&self) -> usize {
        self.named_by.len()
    }

    pub(super) fn report(&mut self, work: &ObjectKey, status: WorkStatus) {
        self.status_written(work, &status);
        self.works.entry(work.clone()).or_default().reported = Some(status);
    }

    pub(super) fn counted(&mut self, work: &ObjectKey) -> Option<WorkStatus> {
        self.works.get_mut(work)?.reported.take()
    }

    pub(super) fn requeue(&mut self, work: &ObjectKey) -> &mut Requeue {
        &mut self.works.entry(work.clone()).or_default().requeue
    }

    /// Since when the Work waits for kinds that it defines itself; `now` if it starts to wait.
    pub(super) fn awaits_kinds_since(&mut self, work: &ObjectKey, waits: bool, now: Timestamp) -> Option<Timestamp> {
        let since = &mut self.works.entry(work.clone()).or_default().awaits_kinds_since;
        *since = if waits { since.or(Some(now)) } else { None };
        *since
    }
}

/// A digest of a status, without back-reported statuses, which servers may store in another form.
fn digest_of(status: &WorkStatus) -> u64 {
    let of_manifest = |record: &'_ ManifestCondition| {
        fingerprint_of(&(&record.identifier, &record.conditions, &record.drift_details, &record.diff_details))
    };
    let manifests: Vec<u64> = status.manifest_conditions.iter().map(of_manifest).collect();
    fingerprint_of(&(&status.conditions, manifests))
}

/// Whether an observed version is newer than the known one. Late events of older versions do not count.
fn is_news(seen: &Version, heard: &Version) -> bool {
    match (seen, heard) {
        (Some(seen), Some(heard)) => {
            let (before, after) = (Revision::parse(seen), Revision::parse(heard));
            seen != heard && (before == Revision::default() || after == Revision::default() || after > before)
        }
        (seen, heard) => seen != heard,
    }
}

#[cfg(test)]
mod tests {
    use fleet_api::types::WorkResourceIdentifier;
    use fleet_core::apply::process::{ManifestOutcome, Processed};

    use super::*;

    fn place(name: &str) -> Place {
        Place { kind: KindId::new("", "v1", "ConfigMap", "configmaps"), key: ObjectKey::namespaced("a", name) }
    }

    fn version(text: &str) -> Version {
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn basis() -> Basis {
        Basis { work: "w".to_owned(), generation: 1, content: 1, applied_work: "u".to_owned() }
    }

    fn learned(name: &str, seen: &str) -> Learned {
        Learned {
            basis: basis(),
            results: BTreeMap::new(),
            changed: Vec::new(),
            objects: [(place(name), version(seen))].into(),
            has_unknown_kinds: false,
        }
    }

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn only_objects_that_were_correct_count_as_contention() {
        let (mut memory, work) = (Memory::default(), ObjectKey::namespaced("n", "w"));
        for round in 0..9 {
            let seen = if round == 0 { "" } else { "5" };
            memory.end(&work, Learned { changed: vec![place("a")], ..learned("a", seen) }, NOW);
        }
        assert!(memory.backoff_until(&work, 1, NOW).is_some());
        assert_eq!(memory.backoff_until(&work, 2, NOW), None);
        let (mut memory, work) = (Memory::default(), ObjectKey::namespaced("n", "w"));
        for generation in 0..9 {
            let basis = Basis { generation, ..basis() };
            memory.end(&work, Learned { basis, changed: vec![place("a")], ..learned("a", "5") }, NOW);
        }
        assert_eq!(memory.backoff_until(&work, 8, NOW), None, "new versions are no fight");
    }

    #[test]
    fn results_of_one_work_are_not_reused_for_another() {
        let (mut memory, key) = (Memory::default(), ObjectKey::namespaced("n", "w"));
        let work = |uid: &str, data: &str| -> Work {
            let manifest = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": data}});
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": "w", "namespace": "n", "uid": uid, "generation": 1},
                "spec": {"workload": {"manifests": [manifest]}},
            }))
            .unwrap()
        };
        let basis = Basis::of(&work("u1", "a"), "applied_work");
        let processed =
            Processed { outcome: ManifestOutcome::Applied, live: None, drifts: Vec::new(), diffs: Vec::new() };
        let result = ManifestResult { identifier: WorkResourceIdentifier::default(), processed, availability: None };
        let results = [(place("a"), result)].into();
        memory.end(&key, Learned { basis, results, ..learned("a", "5") }, NOW);
        let known = |memory: &Memory, work: &Work, applied_work: &str| {
            memory.known(&key, &Basis::of(work, applied_work), &place("a"), "5").is_some()
        };
        assert!(known(&memory, &work("u1", "a"), "applied_work"));
        assert!(!known(&memory, &work("u2", "a"), "applied_work"), "a Work that was recreated");
        assert!(
            !known(&memory, &work("u1", "b"), "applied_work"),
            "a hub that was set back gives the same generation again"
        );
        assert!(!known(&memory, &work("u1", "a"), "other"), "an AppliedWork that was recreated");
        memory.budget.get_or_insert_default().take_some(3, 5, NOW);
        memory.forget_all();
        assert!(!known(&memory, &work("u1", "a"), "applied_work"));
        let room = memory.budget.get_or_insert_default().room(5, NOW);
        assert_eq!((memory.placed(), room), (0, 2), "what was deleted stays counted");
    }

    #[test]
    fn a_foreign_status_is_noticed_and_repeated_repairs_are_contention() {
        let (mut memory, work) = (Memory::default(), ObjectKey::namespaced("n", "w"));
        let ours = WorkStatus::default();
        let mut theirs = ours.clone();
        theirs.manifest_conditions.push(ManifestCondition::default());
        assert!(!memory.is_foreign(&work, Some(&theirs)), "nothing was reported yet");
        memory.status_written(&work, &ours);
        assert!(!memory.is_foreign(&work, Some(&ours)));
        assert!(memory.is_foreign(&work, Some(&theirs)) && memory.is_foreign(&work, None));
        for _ in 0..9 {
            assert_eq!(memory.backoff_until(&work, 2, NOW), None);
            memory.overwritten(&work);
            memory.end(&work, learned("a", "5"), NOW);
        }
        assert!(memory.backoff_until(&work, 1, NOW).is_some());
    }

    #[test]
    fn only_newer_versions_and_deletions_count() {
        for (seen, heard, news) in [
            ("5", "5", false),
            ("5", "4", false),
            ("5", "6", true),
            ("9", "10", true),
            ("5", "", true),
            ("", "7", true),
            ("", "", false),
            ("opaque", "other", true),
        ] {
            assert_eq!(is_news(&version(seen), &version(heard)), news, "{seen} {heard}");
        }
    }

    #[test]
    fn events_during_a_reconcile_are_checked_when_it_ends() {
        let (mut memory, work) = (Memory::default(), ObjectKey::namespaced("n", "w"));
        memory.begin(&work);
        assert!(!memory.end(&work, learned("a", "5"), NOW));
        assert_eq!(memory.works_to_enqueue(&place("a"), &version("6")), std::slice::from_ref(&work));
        memory.begin(&work);
        assert!(memory.works_to_enqueue(&place("a"), &version("7")).is_empty(), "it is reconciled anyway");
        assert!(!memory.end(&work, learned("a", "7"), NOW), "that was its own doing");
        memory.begin(&work);
        memory.works_to_enqueue(&place("a"), &version("9"));
        assert!(memory.end(&work, learned("a", "8"), NOW));
    }

    #[test]
    fn objects_no_longer_in_a_work_enqueue_nothing() {
        let (mut memory, work) = (Memory::default(), ObjectKey::namespaced("n", "w"));
        memory.end(&work, learned("a", "5"), NOW);
        memory.end(&work, learned("b", "6"), NOW);
        assert!(memory.works_to_enqueue(&place("a"), &None).is_empty());
        assert_eq!((memory.placed(), memory.kinds().len()), (1, 1));
        memory.forget(&work);
        assert!(memory.works_to_enqueue(&place("b"), &None).is_empty());
        assert_eq!(memory.placed(), 0);
    }
}
