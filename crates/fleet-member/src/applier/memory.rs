//! What the applier remembers between runs: where its objects are, which version of each it has seen, when to look again.
//!
//! Decides whether a change on the member is news. All of it can be lost: the next run of each Work brings it back.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::kinds::Work;
use fleet_api::types::{ManifestCondition, WorkStatus};
use fleet_core::apply::budget::Budget;
use fleet_core::apply::fights::Corrections;
use fleet_core::apply::measure::fingerprint_of;
use fleet_core::apply::requeue::Requeue;
use fleet_core::apply::status::ManifestResult;
use fleet_runtime::{KindId, ObjectKey, Revision};
use jiff::Timestamp;

use super::wire::Place;

/// The version of an object that a run ended with; `None` if there was no such object.
pub(super) type Version = Option<String>;

#[derive(Debug, Default)]
pub(super) struct Memory {
    works: BTreeMap<ObjectKey, OfWork>,
    /// The Works that name an object. Usually one.
    named_by: BTreeMap<Place, BTreeSet<ObjectKey>>,
    pub(super) budget: Budget,
}

#[derive(Debug, Default)]
struct OfWork {
    /// What the last run that ended went by.
    basis: Option<Basis>,
    /// What came of manifests, for as long as neither they nor their objects change.
    results: BTreeMap<Place, ManifestResult>,
    corrections: Corrections,
    requeue: Requeue,
    /// Since when it waits for a kind that it defines itself.
    awaits_kinds_since: Option<Timestamp>,
    /// Whether a manifest is of a kind that the member does not serve.
    has_unknown_kinds: bool,
    objects: BTreeMap<Place, Version>,
    /// What is to be counted when it is written.
    reported: Option<WorkStatus>,
    /// The status that this agent has written last, or is about to.
    told: Option<u64>,
    /// Whether somebody else has written over what this agent writes into the Work.
    overwritten: bool,
    /// What is heard of its objects while it is in hand; looked at when the run ends.
    heard: Option<BTreeMap<Place, Version>>,
}

/// What results go by, beside the objects themselves. A Work that was made anew has the generations of the one before, and a
/// hub that was set back gives the same ones out twice, so its content counts too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Basis {
    work: String,
    pub(super) generation: i64,
    content: u64,
    ledger: String,
}

impl Basis {
    pub(super) fn of(work: &Work, ledger: &str) -> Self {
        Self {
            work: work.metadata.uid.clone().unwrap_or_default(),
            generation: work.generation(),
            content: fingerprint_of(&work.spec),
            ledger: ledger.to_owned(),
        }
    }
}

/// What a run learned about its Work.
#[derive(Debug)]
pub(super) struct Learned {
    pub(super) basis: Basis,
    pub(super) results: BTreeMap<Place, ManifestResult>,
    /// The objects that this run changed.
    pub(super) changed: Vec<Place>,
    pub(super) objects: BTreeMap<Place, Version>,
    pub(super) has_unknown_kinds: bool,
}

impl Memory {
    /// A run begins: what is heard of its objects from now on may be its own doing.
    pub(super) fn begin(&mut self, work: &ObjectKey) {
        self.works.entry(work.clone()).or_default().heard = Some(BTreeMap::new());
    }

    /// A run has ended. Says whether something was heard that it has not seen.
    pub(super) fn end(&mut self, work: &ObjectKey, learned: Learned, now: Timestamp) -> bool {
        self.weigh_corrections(work, &learned, now);
        self.unname(work);
        for place in learned.objects.keys() {
            self.named_by.entry(place.clone()).or_default().insert(work.clone());
        }
        let of_work = self.works.entry(work.clone()).or_default();
        of_work.has_unknown_kinds = learned.has_unknown_kinds;
        (of_work.basis, of_work.results) = (Some(learned.basis), learned.results);
        of_work.objects = learned.objects;
        let heard = of_work.heard.take().unwrap_or_default();
        heard.iter().any(|(place, version)| of_work.objects.get(place).is_some_and(|seen| is_news(seen, version)))
    }

    /// An object that an earlier run of the same version left as it should be and that had to be changed again, or a Work
    /// that somebody has written into what is ours to write.
    fn weigh_corrections(&mut self, work: &ObjectKey, learned: &Learned, now: Timestamp) {
        let Some(of_work) = self.works.get_mut(work) else { return };
        let was_there = |place: &Place| of_work.objects.get(place).is_some_and(Option::is_some);
        let put_right = of_work.basis.as_ref() == Some(&learned.basis) && learned.changed.iter().any(was_there);
        if put_right || std::mem::take(&mut of_work.overwritten) {
            of_work.corrections.note(learned.basis.generation, now);
        }
    }

    /// Until when a Work is left alone because somebody fights over its objects.
    pub(super) fn rests_until(&self, work: &ObjectKey, generation: i64, now: Timestamp) -> Option<Timestamp> {
        self.works.get(work)?.corrections.rests_until(generation, now)
    }

    /// What came of a manifest the last time, if that was with the object in this version.
    pub(super) fn known(
        &self,
        work: &ObjectKey,
        basis: &Basis,
        place: &Place,
        version: &str,
    ) -> Option<ManifestResult> {
        let of_work = self.works.get(work)?;
        let same = of_work.basis.as_ref() == Some(basis)
            && of_work.objects.get(place).is_some_and(|seen| seen.as_deref() == Some(version));
        of_work.results.get(place).filter(|_| same).cloned()
    }

    /// A run has ended without touching anything.
    pub(super) fn leave(&mut self, work: &ObjectKey) {
        if let Some(of_work) = self.works.get_mut(work) {
            of_work.heard = None;
        }
    }

    /// The Work is gone.
    pub(super) fn forget(&mut self, work: &ObjectKey) {
        self.unname(work);
        self.works.remove(work);
    }

    /// Whatever comes of the Works and their objects from now on, nobody listens. What was deleted stays counted.
    pub(super) fn forget_all(&mut self) {
        *self = Self { budget: std::mem::take(&mut self.budget), ..Self::default() };
    }

    /// This status is written into the Work, or about to be.
    pub(super) fn tells(&mut self, work: &ObjectKey, status: &WorkStatus) {
        self.works.entry(work.clone()).or_default().told = Some(told_by(status));
    }

    /// Whether a status is one that somebody else has written. `None` is none at all.
    pub(super) fn is_foreign(&self, work: &ObjectKey, status: Option<&WorkStatus>) -> bool {
        let told = self.works.get(work).and_then(|of_work| of_work.told);
        told.is_some_and(|told| status.is_none_or(|status| told_by(status) != told))
    }

    /// Somebody else has written over what this agent writes into the Work.
    pub(super) fn overwritten(&mut self, work: &ObjectKey) {
        if let Some(of_work) = self.works.get_mut(work) {
            of_work.overwritten = true;
        }
    }

    fn unname(&mut self, work: &ObjectKey) {
        let Some(of_work) = self.works.get(work) else { return };
        for place in of_work.objects.keys() {
            if let Some(works) = self.named_by.get_mut(place) {
                works.remove(work);
                if works.is_empty() {
                    self.named_by.remove(place);
                }
            }
        }
    }

    /// The Works that have to look because of a change on the member.
    pub(super) fn concerned(&mut self, place: &Place, version: &Version) -> Vec<ObjectKey> {
        let Some(named_by) = self.named_by.get(place) else { return Vec::new() };
        let mut concerned = Vec::new();
        for work in named_by {
            let Some(of_work) = self.works.get_mut(work) else { continue };
            if let Some(heard) = &mut of_work.heard {
                heard.insert(place.clone(), version.clone());
            } else if of_work.objects.get(place).is_some_and(|seen| is_news(seen, version)) {
                concerned.push(work.clone());
            }
        }
        concerned
    }

    /// Works that have manifests of kinds that were not served.
    pub(super) fn with_unknown_kinds(&self) -> Vec<ObjectKey> {
        let waiting = self.works.iter().filter(|(_, of_work)| of_work.has_unknown_kinds);
        waiting.map(|(work, _)| work.clone()).collect()
    }

    /// How many objects there are of each kind.
    pub(super) fn kinds(&self) -> BTreeMap<KindId, usize> {
        let mut kinds = BTreeMap::new();
        for place in self.named_by.keys() {
            *kinds.entry(place.kind.clone()).or_default() += 1;
        }
        kinds
    }

    /// How many objects this member's Works name.
    pub(super) fn placed(&self) -> usize {
        self.named_by.len()
    }

    pub(super) fn report(&mut self, work: &ObjectKey, status: WorkStatus) {
        self.tells(work, &status);
        self.works.entry(work.clone()).or_default().reported = Some(status);
    }

    pub(super) fn counted(&mut self, work: &ObjectKey) -> Option<WorkStatus> {
        self.works.get_mut(work)?.reported.take()
    }

    pub(super) fn requeue(&mut self, work: &ObjectKey) -> &mut Requeue {
        &mut self.works.entry(work.clone()).or_default().requeue
    }

    /// Since when the Work waits for kinds of its own; `now` if it begins to.
    pub(super) fn awaits_kinds_since(&mut self, work: &ObjectKey, waits: bool, now: Timestamp) -> Option<Timestamp> {
        let since = &mut self.works.entry(work.clone()).or_default().awaits_kinds_since;
        *since = if waits { since.or(Some(now)) } else { None };
        *since
    }
}

/// What a status tells, as a number. Without what is brought back from objects: servers store that in words of their own.
fn told_by(status: &WorkStatus) -> u64 {
    let of_manifest = |record: &'_ ManifestCondition| {
        fingerprint_of(&(&record.identifier, &record.conditions, &record.drift_details, &record.diff_details))
    };
    let manifests: Vec<u64> = status.manifest_conditions.iter().map(of_manifest).collect();
    fingerprint_of(&(&status.conditions, manifests))
}

/// Whether a version that is heard of is newer than the one that was seen. Late news of older versions is none.
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
    use fleet_core::apply::process::{Outcome, Processed};

    use super::*;

    fn place(name: &str) -> Place {
        Place { kind: KindId::new("", "v1", "ConfigMap", "configmaps"), key: ObjectKey::namespaced("a", name) }
    }

    fn version(text: &str) -> Version {
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn basis() -> Basis {
        Basis { work: "w".to_owned(), generation: 1, content: 1, ledger: "u".to_owned() }
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
    fn only_what_was_left_as_it_should_be_can_be_fought_over() {
        let (mut memory, work) = (Memory::default(), ObjectKey::namespaced("n", "w"));
        for round in 0..9 {
            let seen = if round == 0 { "" } else { "5" };
            memory.end(&work, Learned { changed: vec![place("a")], ..learned("a", seen) }, NOW);
        }
        assert!(memory.rests_until(&work, 1, NOW).is_some());
        assert_eq!(memory.rests_until(&work, 2, NOW), None);
        let (mut memory, work) = (Memory::default(), ObjectKey::namespaced("n", "w"));
        for generation in 0..9 {
            let basis = Basis { generation, ..basis() };
            memory.end(&work, Learned { basis, changed: vec![place("a")], ..learned("a", "5") }, NOW);
        }
        assert_eq!(memory.rests_until(&work, 8, NOW), None, "new versions are no fight");
    }

    #[test]
    fn what_came_of_one_work_is_not_told_of_another() {
        let (mut memory, key) = (Memory::default(), ObjectKey::namespaced("n", "w"));
        let work = |uid: &str, data: &str| -> Work {
            let manifest = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": data}});
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": "w", "namespace": "n", "uid": uid, "generation": 1},
                "spec": {"workload": {"manifests": [manifest]}},
            }))
            .unwrap()
        };
        let basis = Basis::of(&work("u1", "a"), "ledger");
        let processed = Processed { outcome: Outcome::Applied, live: None, drifts: Vec::new(), diffs: Vec::new() };
        let result = ManifestResult { identifier: WorkResourceIdentifier::default(), processed, availability: None };
        let results = [(place("a"), result)].into();
        memory.end(&key, Learned { basis, results, ..learned("a", "5") }, NOW);
        let known = |memory: &Memory, work: &Work, ledger: &str| {
            memory.known(&key, &Basis::of(work, ledger), &place("a"), "5").is_some()
        };
        assert!(known(&memory, &work("u1", "a"), "ledger"));
        assert!(!known(&memory, &work("u2", "a"), "ledger"), "a Work that was made anew");
        assert!(!known(&memory, &work("u1", "b"), "ledger"), "a hub that was set back gives the same generation again");
        assert!(!known(&memory, &work("u1", "a"), "other"), "a ledger that was made anew");
        memory.budget.take_some(3, 5, NOW);
        memory.forget_all();
        assert!(!known(&memory, &work("u1", "a"), "ledger"));
        assert_eq!((memory.placed(), memory.budget.room(5, NOW)), (0, 2), "what was deleted stays counted");
    }

    #[test]
    fn a_status_that_is_not_ours_is_noticed_and_putting_it_right_again_and_again_is_a_fight() {
        let (mut memory, work) = (Memory::default(), ObjectKey::namespaced("n", "w"));
        let ours = WorkStatus::default();
        let mut theirs = ours.clone();
        theirs.manifest_conditions.push(ManifestCondition::default());
        assert!(!memory.is_foreign(&work, Some(&theirs)), "nothing was told yet");
        memory.tells(&work, &ours);
        assert!(!memory.is_foreign(&work, Some(&ours)));
        assert!(memory.is_foreign(&work, Some(&theirs)) && memory.is_foreign(&work, None));
        for _ in 0..9 {
            assert_eq!(memory.rests_until(&work, 2, NOW), None);
            memory.overwritten(&work);
            memory.end(&work, learned("a", "5"), NOW);
        }
        assert!(memory.rests_until(&work, 1, NOW).is_some());
    }

    #[test]
    fn only_newer_versions_and_disappearances_are_news() {
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
    fn what_is_heard_during_a_run_is_weighed_when_it_ends() {
        let (mut memory, work) = (Memory::default(), ObjectKey::namespaced("n", "w"));
        memory.begin(&work);
        assert!(!memory.end(&work, learned("a", "5"), NOW));
        assert_eq!(memory.concerned(&place("a"), &version("6")), std::slice::from_ref(&work));
        memory.begin(&work);
        assert!(memory.concerned(&place("a"), &version("7")).is_empty(), "it is looked at anyway");
        assert!(!memory.end(&work, learned("a", "7"), NOW), "that was its own doing");
        memory.begin(&work);
        memory.concerned(&place("a"), &version("9"));
        assert!(memory.end(&work, learned("a", "8"), NOW));
    }

    #[test]
    fn objects_that_are_no_longer_named_wake_nobody() {
        let (mut memory, work) = (Memory::default(), ObjectKey::namespaced("n", "w"));
        memory.end(&work, learned("a", "5"), NOW);
        memory.end(&work, learned("b", "6"), NOW);
        assert!(memory.concerned(&place("a"), &None).is_empty());
        assert_eq!((memory.placed(), memory.kinds().len()), (1, 1));
        memory.forget(&work);
        assert!(memory.concerned(&place("b"), &None).is_empty());
        assert_eq!(memory.placed(), 0);
    }
}
