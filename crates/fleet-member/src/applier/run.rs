//! One Work that is wanted: it is held, cleaned up, written ahead, applied wave by wave and looked at.
//!
//! Decides the order in which the member and the hub are asked, and how much is asked at once. Every question and what
//! follows from its answer is `fleet_core::apply`'s.

use std::collections::BTreeSet;
use std::sync::Arc;

use fleet_api::kinds::{AppliedWork, Work};
use fleet_api::types::{AppliedWorkSpec, ApplyStrategy, ApplyStrategyType, WorkSpec};
use fleet_api::well_known::finalizers;
use fleet_core::apply::availability;
use fleet_core::apply::decode::{Manifest, decode};
use fleet_core::apply::definitions::awaits_own_kinds;
use fleet_core::apply::farewell::is_held;
use fleet_core::apply::ownership::Owner;
use fleet_core::apply::process::{ApiFailure, Outcome, Process, Processed, Step, Task};
use fleet_core::apply::records::write_ahead;
use fleet_core::apply::status::{Held, ManifestResult};
use fleet_core::apply::waves::{one_batch, waves};
use fleet_runtime::{Error, Hands, KindId, ObjectKey, Write};
use futures::stream::{StreamExt as _, iter};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Applier;
use super::memory::{Basis, Version};
use super::wire::{Place, ServedKinds, failure_of};

/// Objects of one Work that are in hand at once.
pub(super) const OBJECTS_AT_ONCE: usize = 4;

/// A Work whose manifests have been processed.
pub(super) struct Run {
    /// As stored, after our own writes.
    pub(super) work: Arc<Work>,
    pub(super) ledger: AppliedWork,
    pub(super) basis: Basis,
    pub(super) results: Vec<ManifestResult>,
    /// The objects that were changed.
    pub(super) changed: Vec<Place>,
    pub(super) held: Held,
    /// When more left-overs may be deleted.
    pub(super) room_at: Option<Timestamp>,
    pub(super) awaits_own_kinds: bool,
    pub(super) has_unknown_kinds: bool,
}

impl Run {
    pub(super) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.results.iter().filter_map(|result| Place::of(&result.identifier))
    }
}

impl Applier {
    /// `None` while the ledger is being deleted: what would be applied now would go with it.
    pub(super) async fn run(&self, work: Arc<Work>, hands: &Hands<'_>) -> Result<Option<Run>, Error> {
        let work = hold(work, hands).await?;
        let ledger = self.ledger_of(&work, hands).await?;
        let owner = Owner::of(&ledger).filter(|_| ledger.metadata.deletion_timestamp.is_none());
        let Some(owner) = owner else { return Ok(None) };
        let basis = Basis::of(&work, &owner.uid);
        let manifests = decode(work.spec.manifests(), &ServedKinds(&self.discovery));
        let (held, room_at) = self.remove_left_overs(&work, &manifests, &owner, hands).await?;
        let remembered = self.remember(&work, &manifests, &held, hands).await?;
        let (results, changed) = self.process_all(&work, &basis, &manifests, &owner, hands).await?;
        Ok(Some(Run {
            awaits_own_kinds: awaits_own_kinds(&manifests, &results),
            has_unknown_kinds: manifests.iter().any(Manifest::is_unknown_kind),
            work: remembered.map_or_else(|| work.clone(), Arc::new),
            ledger,
            basis,
            results,
            changed,
            held,
            room_at,
        }))
    }

    /// The AppliedWork of a Work, made if there is none. One that somebody else makes at the same moment is a conflict: the
    /// next try sees it.
    async fn ledger_of(&self, work: &Work, hands: &Hands<'_>) -> Result<AppliedWork, Error> {
        let name = work.metadata.name.clone().unwrap_or_default();
        if let Some(known) = self.ledgers.get(&ObjectKey::cluster(name.as_str())) {
            return Ok(AppliedWork::clone(&known));
        }
        let work_namespace = work.metadata.namespace.clone().unwrap_or_default();
        let ledger = AppliedWork::named(name.clone(), AppliedWorkSpec { work_name: name, work_namespace });
        let stored = parsed(hands.perform(&Write::create(&ledger).on(self.member)).await?)?;
        Ok(stored.unwrap_or(ledger))
    }

    /// What came of all manifests, and which objects were changed for it.
    async fn process_all(
        &self,
        work: &Work,
        basis: &Basis,
        manifests: &[Manifest<'_>],
        owner: &Owner,
        hands: &Hands<'_>,
    ) -> Result<(Vec<ManifestResult>, Vec<Place>), Error> {
        let strategy = strategy_of(work);
        let works = self.names_of_works();
        let batches = match strategy.strategy_type() {
            ApplyStrategyType::ReportDiff => one_batch(manifests),
            ApplyStrategyType::ClientSideApply | ApplyStrategyType::ServerSideApply => waves(manifests),
        };
        let mut results: Vec<Option<ManifestResult>> = manifests.iter().map(refused).collect();
        let mut changed = Vec::new();
        for batch in batches {
            let questions = batch.iter().map(|place| async {
                let manifest = &manifests[*place];
                let task = Task { manifest: &manifest.object.0, strategy: &strategy, owner, works: &works };
                match self.known(work, basis, manifest) {
                    Some(known) => Ok((known, None)),
                    None => self.process(work, task, manifest, hands).await,
                }
            });
            let answers: Vec<_> = iter(questions.collect::<Vec<_>>()).buffered(OBJECTS_AT_ONCE).collect().await;
            for (place, answer) in batch.iter().zip(answers) {
                let (result, change) = answer?;
                results[*place] = Some(result);
                changed.extend(change);
            }
        }
        Ok((results.into_iter().flatten().collect(), changed))
    }

    /// Works that are there, also those that cannot be read.
    fn names_of_works(&self) -> BTreeSet<String> {
        let unreadable = self.works.broken().into_iter().map(|(key, _)| key);
        self.works.keys().into_iter().chain(unreadable).map(|key| key.name().to_owned()).collect()
    }

    /// Those of these Works that the hub has at this moment, whether they can be read or not.
    async fn find_works(
        &self,
        beside: &Work,
        names: BTreeSet<String>,
        hands: &Hands<'_>,
    ) -> Result<BTreeSet<String>, ApiFailure> {
        let mut found = BTreeSet::new();
        for name in names {
            let key = ObjectKey::new(beside.metadata.namespace.as_deref(), &name);
            let there = hands.reader().get(&KindId::of::<Work>(), &key).await.map_err(|error| failure_of(&error))?;
            if there.is_some() {
                found.insert(name);
            }
        }
        Ok(found)
    }

    /// What came of a manifest the last time, if neither it nor its object has changed since.
    fn known(&self, work: &Work, basis: &Basis, manifest: &Manifest<'_>) -> Option<ManifestResult> {
        let place = Place::of(&manifest.identifier)?;
        if !self.objects.is_complete(&place.kind) {
            return None;
        }
        let seen = self.objects.get(&place.kind, &place.key)?;
        let version = seen.metadata.resource_version.as_deref()?;
        let known = self.memory.lock().known(&ObjectKey::of(work), basis, &place, version)?;
        Some(ManifestResult { identifier: manifest.identifier.clone(), ..known })
    }

    fn judged(&self, manifest: &Manifest<'_>, processed: Processed, strategy: &ApplyStrategy) -> ManifestResult {
        let applies = strategy.strategy_type() != ApplyStrategyType::ReportDiff && processed.outcome.is_applied();
        let applied = processed.live.as_ref().filter(|_| applies);
        let availability = applied.map(|live| availability::of(&manifest.identifier, live, self.options.tracking));
        ManifestResult { identifier: manifest.identifier.clone(), processed, availability }
    }

    /// Leads the conversation about one manifest to its end. Gives its place too if the object was changed.
    async fn process(
        &self,
        work: &Work,
        task: Task<'_>,
        manifest: &Manifest<'_>,
        hands: &Hands<'_>,
    ) -> Result<(ManifestResult, Option<Place>), Error> {
        let Some(place) = Place::of(&manifest.identifier) else {
            return Err(Error::Other("a manifest without a place was to be applied".to_owned()));
        };
        let live = hands.reader().on(self.member).get(&place.kind, &place.key).await;
        let found = live.as_ref().ok().and_then(|live| version_of(live.as_ref()));
        let (mut process, mut step) = Process::begin(task, live.map_err(|error| failure_of(&error)));
        let processed = loop {
            match step {
                Step::Done(processed) => break processed,
                Step::Ask(request) => {
                    let write = place.write_of(request).on(self.member);
                    step = process.answered(answer(hands.perform(&write).await)?);
                }
                Step::FindWorks(names) => step = process.found(self.find_works(work, names, hands).await),
            }
        };
        let changed = processed.outcome.is_applied() && version_of(processed.live.as_ref()) != found;
        Ok((self.judged(manifest, processed, task.strategy), changed.then_some(place)))
    }

    /// Stores what is about to be applied, where the Work does not know it yet. Gives the Work as it is stored then.
    async fn remember(
        &self,
        work: &Work,
        manifests: &[Manifest<'_>],
        held: &Held,
        hands: &Hands<'_>,
    ) -> Result<Option<Work>, Error> {
        let Some(records) = write_ahead(work, manifests, &held.objects, hands.moment().now) else { return Ok(None) };
        let before = without_spec(work);
        let mut status = before.status.clone().unwrap_or_default();
        status.manifest_conditions = records;
        self.memory.lock().tells(&ObjectKey::of(work), &status);
        let remembered = before.clone().with_status(status);
        parsed(hands.perform(&Write::status(&before, &remembered)).await?)
    }
}

/// How the manifests of a Work are applied.
pub(super) fn strategy_of(work: &Work) -> ApplyStrategy {
    work.spec.apply_strategy.clone().unwrap_or_default()
}

/// A Work without its manifests, which may be large: what changes of the rest are made from.
pub(super) fn without_spec(work: &Work) -> Work {
    let mut slim = Work::new(work.metadata.clone(), WorkSpec::default());
    slim.status.clone_from(&work.status);
    slim
}

/// The version of an object; `None` if there is none.
pub(super) fn version_of(object: Option<&Value>) -> Version {
    object.and_then(|object| object.pointer("/metadata/resourceVersion")?.as_str()).map(str::to_owned)
}

/// A failure is an answer too, unless this process may not ask any more.
fn answer(outcome: Result<Option<Value>, Error>) -> Result<Result<Value, ApiFailure>, Error> {
    match outcome {
        Ok(object) => Ok(Ok(object.unwrap_or_default())),
        Err(Error::NotLeading) => Err(Error::NotLeading),
        Err(error) => Ok(Err(failure_of(&error))),
    }
}

/// The result of a manifest that is not even tried; `None` for all others.
fn refused(manifest: &Manifest<'_>) -> Option<ManifestResult> {
    let refusal = manifest.verdict.as_ref().err()?;
    let outcome = Outcome::NotApplied { reason: refusal.reason(), error: refusal.to_string() };
    let processed = Processed { outcome, live: None, drifts: Vec::new(), diffs: Vec::new() };
    Some(ManifestResult { identifier: manifest.identifier.clone(), processed, availability: None })
}

/// Sees to it that the Work stays until what it placed is gone.
async fn hold(work: Arc<Work>, hands: &Hands<'_>) -> Result<Arc<Work>, Error> {
    if is_held(&work) {
        return Ok(work);
    }
    let before = without_spec(&work);
    let mut held = before.clone();
    held.metadata.finalizers.get_or_insert_default().push(finalizers::WORK.to_owned());
    let stored = parsed(hands.perform(&Write::change(&before, &held)).await?)?;
    Ok(stored.map_or(work, Arc::new))
}

/// What a server stored, as its type; none if there was nothing to store.
fn parsed<K: DeserializeOwned>(stored: Option<Value>) -> Result<Option<K>, Error> {
    let Some(mut stored) = stored else { return Ok(None) };
    if let Some(metadata) = stored.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    let read = serde_json::from_value(stored);
    read.map(Some).map_err(|error| Error::Other(format!("the server's answer cannot be read: {error}")))
}
