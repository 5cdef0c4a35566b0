//! Applies one Work: adds the finalizer, removes leftover objects, records what will be applied, applies the
//! manifests in order and checks availability.
//!
//! `fleet_core::apply` decides each step; this file makes the requests.

use std::collections::BTreeSet;
use std::sync::Arc;

use fleet_api::kinds::{AppliedWork, Work};
use fleet_api::types::{AppliedWorkSpec, ApplyStrategy, ApplyStrategyType, WorkSpec};
use fleet_api::well_known::finalizers;
use fleet_core::apply::apply_order::{batches, one_batch};
use fleet_core::apply::availability;
use fleet_core::apply::decode::{Manifest, decode};
use fleet_core::apply::definitions::awaits_own_kinds;
use fleet_core::apply::finalize::with_accepted_status;
use fleet_core::apply::ownership::Owner;
use fleet_core::apply::process::{ApiFailure, ManifestOutcome, Process, Processed, Step, Task};
use fleet_core::apply::records::write_ahead;
use fleet_core::apply::status::{HeldDeletions, ManifestResult};
use fleet_runtime::{Error, KindId, ObjectKey, ReconcileContext, Write};
use futures::stream::{StreamExt as _, iter};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Applier;
use super::memory::{Basis, Version};
use super::wire::{Place, ServedKinds, failure_of};

/// Objects of one Work that are processed at the same time.
pub(super) const OBJECTS_AT_ONCE: usize = 4;

/// A Work whose manifests have been processed.
pub(super) struct Run {
    /// As stored, after our own writes.
    pub(super) work: Arc<Work>,
    pub(super) applied_work: AppliedWork,
    pub(super) basis: Basis,
    pub(super) results: Vec<ManifestResult>,
    /// The objects that were changed.
    pub(super) changed: Vec<Place>,
    pub(super) held: HeldDeletions,
    /// When more leftover objects may be deleted.
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
    /// Returns `None` while the AppliedWork is being deleted: objects applied now would be deleted with it.
    pub(super) async fn run(&self, work: Arc<Work>, context: &ReconcileContext<'_>) -> Result<Option<Run>, Error> {
        let work = add_finalizer(work, context).await?;
        let applied_work = self.applied_work_of(&work, context).await?;
        let owner = Owner::of(&applied_work).filter(|_| !applied_work.is_deleting());
        let Some(owner) = owner else { return Ok(None) };
        let basis = Basis::of(&work, &owner.uid);
        let mut manifests = decode(work.spec.manifests(), &ServedKinds(&self.discovery));
        self.options.policy.review(&mut manifests);
        let (held, room_at) = self.remove_leftovers(&work, &manifests, &applied_work, &owner, context).await?;
        // The record of deletions may have changed the AppliedWork.
        let known = self
            .applied_works
            .get(&ObjectKey::of(&applied_work))
            .filter(|known| known.metadata.uid == applied_work.metadata.uid);
        let applied_work = known.map_or(applied_work, |known| AppliedWork::clone(&known));
        let written_ahead = self.write_ahead_status(&work, &manifests, &held, context).await?;
        let (results, changed) = self.process_all(&work, &basis, &manifests, &owner, context).await?;
        Ok(Some(Run {
            awaits_own_kinds: awaits_own_kinds(&manifests, &results),
            has_unknown_kinds: manifests.iter().any(Manifest::is_unknown_kind),
            work: written_ahead.map_or_else(|| work.clone(), Arc::new),
            applied_work,
            basis,
            results,
            changed,
            held,
            room_at,
        }))
    }

    /// The AppliedWork of a Work; creates it if it does not exist. A concurrent creation is a conflict, and the next
    /// attempt sees it.
    async fn applied_work_of(&self, work: &Work, context: &ReconcileContext<'_>) -> Result<AppliedWork, Error> {
        let name = work.metadata.name.clone().unwrap_or_default();
        if let Some(known) = self.applied_works.get(&ObjectKey::cluster(name.as_str())) {
            return Ok(AppliedWork::clone(&known));
        }
        let work_namespace = work.metadata.namespace.clone().unwrap_or_default();
        let applied_work = AppliedWork::named(name.clone(), AppliedWorkSpec { work_name: name, work_namespace });
        let stored = parsed(context.write(&Write::create(&applied_work).on(self.member)).await?)?;
        Ok(stored.unwrap_or(applied_work))
    }

    /// Processes all manifests. Returns the results and the objects that were changed.
    async fn process_all(
        &self,
        work: &Work,
        basis: &Basis,
        manifests: &[Manifest<'_>],
        owner: &Owner,
        context: &ReconcileContext<'_>,
    ) -> Result<(Vec<ManifestResult>, Vec<Place>), Error> {
        let strategy = strategy_of(work);
        let works = self.names_of_works();
        let batches = match strategy.strategy_type() {
            ApplyStrategyType::ReportDiff => one_batch(manifests),
            ApplyStrategyType::ClientSideApply | ApplyStrategyType::ServerSideApply => batches(manifests),
        };
        let mut results: Vec<Option<ManifestResult>> = manifests.iter().map(refused).collect();
        let mut changed = Vec::new();
        for batch in batches {
            let questions = batch.iter().map(|place| async {
                let manifest = &manifests[*place];
                let task = Task { manifest: &manifest.object.0, strategy: &strategy, owner, works: &works };
                match self.known(work, basis, manifest) {
                    Some(known) => Ok((known, None)),
                    None => self.process(work, task, manifest, context).await,
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

    /// The names of all Works, including unreadable ones.
    pub(super) fn names_of_works(&self) -> BTreeSet<String> {
        let unreadable = self.works.unreadable().into_iter().map(|(key, _)| key);
        self.works.keys().into_iter().chain(unreadable).map(|key| key.name().to_owned()).collect()
    }

    /// Those of these Works that exist on the hub now, readable or not.
    async fn find_works(
        &self,
        beside: &Work,
        names: BTreeSet<String>,
        context: &ReconcileContext<'_>,
    ) -> Result<BTreeSet<String>, ApiFailure> {
        let mut found = BTreeSet::new();
        for name in names {
            let key = ObjectKey::new(beside.metadata.namespace.as_deref(), &name);
            let there = context.reader().get(&KindId::of::<Work>(), &key).await.map_err(|error| failure_of(&error))?;
            if there.is_some() {
                found.insert(name);
            }
        }
        Ok(found)
    }

    /// The last result of a manifest, if neither the manifest nor its object has changed since.
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

    fn with_availability(
        &self,
        manifest: &Manifest<'_>,
        processed: Processed,
        strategy: &ApplyStrategy,
    ) -> ManifestResult {
        let applies = strategy.strategy_type() != ApplyStrategyType::ReportDiff && processed.outcome.is_applied();
        let applied = processed.live.as_ref().filter(|_| applies);
        let availability = applied.map(|live| availability::of(&manifest.identifier, live, self.options.tracking));
        ManifestResult { identifier: manifest.identifier.clone(), processed, availability }
    }

    /// Processes one manifest to its end. Also returns the place of the object if it was changed.
    async fn process(
        &self,
        work: &Work,
        task: Task<'_>,
        manifest: &Manifest<'_>,
        context: &ReconcileContext<'_>,
    ) -> Result<(ManifestResult, Option<Place>), Error> {
        let Some(place) = Place::of(&manifest.identifier) else {
            return Err(Error::Other("a manifest without a place was to be applied".to_owned()));
        };
        let live = context.reader().on(self.member).get(&place.kind, &place.key).await;
        let found = live.as_ref().ok().and_then(|live| version_of(live.as_ref()));
        let (mut process, mut step) = Process::begin(task, live.map_err(|error| failure_of(&error)));
        let processed = loop {
            match step {
                Step::Done(processed) => break processed,
                Step::Ask(request) => {
                    let write = place.write_of(request).on(self.member);
                    step = process.answered(answer(context.write(&write).await)?);
                }
                Step::FindWorks(names) => step = process.found(self.find_works(work, names, context).await),
            }
        };
        let changed = processed.outcome.is_applied() && version_of(processed.live.as_ref()) != found;
        Ok((self.with_availability(manifest, processed, task.strategy), changed.then_some(place)))
    }

    /// Records in the status what is about to be applied, if that is not recorded yet. Returns the stored Work.
    async fn write_ahead_status(
        &self,
        work: &Work,
        manifests: &[Manifest<'_>],
        held: &HeldDeletions,
        context: &ReconcileContext<'_>,
    ) -> Result<Option<Work>, Error> {
        let Some(records) = write_ahead(work, manifests, &held.objects, context.plan_input().now) else {
            return Ok(None);
        };
        let before = without_spec(work);
        let mut status = before.status.clone().unwrap_or_default();
        status.manifest_conditions = records;
        self.memory.lock().status_written(&ObjectKey::of(work), &status);
        let written_ahead = before.clone().with_status(status);
        parsed(context.write(&Write::status(&before, &written_ahead)).await?)
    }
}

/// The apply strategy of a Work.
pub(super) fn strategy_of(work: &Work) -> ApplyStrategy {
    work.spec.apply_strategy.clone().unwrap_or_default()
}

/// A Work without its manifests, which may be large: a base for changes of metadata and status.
pub(super) fn without_spec(work: &Work) -> Work {
    let mut slim = Work::new(work.metadata.clone(), WorkSpec::default());
    slim.status.clone_from(&work.status);
    slim
}

/// The resource version of an object; `None` if there is no object.
pub(super) fn version_of(object: Option<&Value>) -> Version {
    object.and_then(|object| object.pointer("/metadata/resourceVersion")?.as_str()).map(str::to_owned)
}

/// Passes a failure on as an answer, unless this process has lost the lease.
fn answer(outcome: Result<Option<Value>, Error>) -> Result<Result<Value, ApiFailure>, Error> {
    match outcome {
        Ok(object) => Ok(Ok(object.unwrap_or_default())),
        Err(Error::NotLeading) => Err(Error::NotLeading),
        Err(error) => Ok(Err(failure_of(&error))),
    }
}

/// The result of a manifest that cannot be applied; `None` for all others.
fn refused(manifest: &Manifest<'_>) -> Option<ManifestResult> {
    let refusal = manifest.verdict.as_ref().err()?;
    let outcome = ManifestOutcome::NotApplied { reason: refusal.reason(), error: refusal.to_string() };
    let processed = Processed { outcome, live: None, drifts: Vec::new(), diffs: Vec::new() };
    Some(ManifestResult { identifier: manifest.identifier.clone(), processed, availability: None })
}

/// Adds our finalizer, so that the Work stays until its objects are gone.
async fn add_finalizer(work: Arc<Work>, context: &ReconcileContext<'_>) -> Result<Arc<Work>, Error> {
    if work.has_finalizer(finalizers::WORK) {
        return Ok(work);
    }
    let before = with_writable_status(without_spec(&work), context).await?;
    let mut changed = before.clone();
    changed.metadata.finalizers.get_or_insert_default().push(finalizers::WORK.to_owned());
    let stored = parsed(context.write(&Write::change(&before, &changed)).await?)?;
    Ok(stored.map_or(work, Arc::new))
}

/// Removes from the status of a Work what would make an API server refuse every other write of the Work.
pub(super) async fn with_writable_status(work: Work, context: &ReconcileContext<'_>) -> Result<Work, Error> {
    let Some(accepted) = with_accepted_status(&work) else { return Ok(work) };
    let stored = parsed(context.write(&Write::status(&work, &accepted)).await?)?;
    Ok(stored.map_or(accepted, |stored: Work| without_spec(&stored)))
}

/// Parses the stored object of an answer; `None` if there is none.
fn parsed<K: DeserializeOwned>(stored: Option<Value>) -> Result<Option<K>, Error> {
    let Some(mut stored) = stored else { return Ok(None) };
    if let Some(metadata) = stored.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    let read = serde_json::from_value(stored);
    read.map(Some).map_err(|error| Error::Other(format!("the server's answer cannot be read: {error}")))
}
