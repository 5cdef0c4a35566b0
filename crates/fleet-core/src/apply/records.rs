//! The records in a Work's status of what it may have placed on the member, and the objects that it no longer
//! contains.
//!
//! Records are written before anything is applied, so that a crash loses no object. Never treats an object as
//! leftover because a manifest could not be read or decoded, nor because of an older list of manifests than the one
//! last applied: only a newer list without the object counts.

use std::collections::BTreeSet;

use fleet_api::conditions::work::{ManifestApplied, WorkApplied};
use fleet_api::conditions::{ConditionState as _, decode, put};
use fleet_api::kinds::Work;
use fleet_api::types::{ApplyStrategyType, ManifestCondition, WorkResourceIdentifier};
use jiff::Timestamp;

use super::containers::sort_for_removal;
use super::decode::{Identity, Manifest};

/// The ordinal of a record whose manifest is gone from the Work while its object still has to be removed.
pub const NO_LONGER_IN_WORK: i64 = -1;

/// Objects that the Work contained once and no longer does, in the order of removal. The caller checks whether they
/// are ours.
pub fn leftovers(work: &Work, manifests: &[Manifest<'_>]) -> Vec<WorkResourceIdentifier> {
    if reports_only(work) {
        return Vec::new();
    }
    let newer = is_newer_instruction(work);
    // By object, not by version: the same object in another version of its kind stays.
    let named: BTreeSet<_> =
        manifests.iter().filter_map(|manifest| Some(Identity::of(&manifest.identifier)?.object())).collect();
    let is_leftover = |identifier: &WorkResourceIdentifier| {
        (newer || identifier.ordinal == NO_LONGER_IN_WORK)
            && !identifier.name.is_empty()
            && Identity::of(identifier).is_some_and(|identity| !named.contains(&identity.object()))
    };
    let mut seen = BTreeSet::new();
    let mut going: Vec<WorkResourceIdentifier> = records_of(work)
        .iter()
        .map(|record| &record.identifier)
        .filter(|identifier| is_leftover(identifier))
        .filter(|identifier| Identity::of(identifier).is_some_and(|identity| seen.insert(identity.object())))
        .cloned()
        .collect();
    sort_for_removal(&mut going);
    going
}

/// Whether the list of manifests is newer than the one last applied. An older list (from a hub restored from a
/// backup) removes nothing.
fn is_newer_instruction(work: &Work) -> bool {
    let conditions = work.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let known = decode::<WorkApplied>(conditions, work.generation());
    known.any().is_none_or(|condition| condition.observed_generation < work.generation())
}

/// Whether the Work that was read again from the hub is still the same. Otherwise nothing is removed.
pub fn is_same_instruction(known: &Work, stored: Option<&Work>) -> bool {
    stored.is_some_and(|stored| {
        stored.metadata.uid == known.metadata.uid
            && stored.generation() == known.generation()
            && stored.metadata.deletion_timestamp == known.metadata.deletion_timestamp
    })
}

/// The records to store before anything is applied; `None` if each applicable manifest has one. `still_there` are
/// leftover objects that have not been removed.
pub fn write_ahead(
    work: &Work,
    manifests: &[Manifest<'_>],
    still_there: &[WorkResourceIdentifier],
    now: Timestamp,
) -> Option<Vec<ManifestCondition>> {
    if reports_only(work) {
        return None;
    }
    let records = records_of(work);
    let find = |identifier: &WorkResourceIdentifier| {
        let identity = Identity::of(identifier)?;
        records.iter().find(|record| Identity::of(&record.identifier).as_ref() == Some(&identity))
    };
    let mut all_known = true;
    let mut prepared: Vec<ManifestCondition> = Vec::with_capacity(manifests.len());
    for manifest in manifests {
        match (find(&manifest.identifier), &manifest.verdict) {
            (Some(record), _) => {
                if !prepared.contains(record) {
                    prepared.push(record.clone());
                }
            }
            (None, Ok(_)) => {
                all_known = false;
                prepared.push(new_record(manifest, work.generation(), now));
            }
            (None, Err(_)) => {}
        }
    }
    prepared.extend(kept_records(work, still_there));
    (!all_known).then_some(prepared)
}

/// Records of leftover objects that still exist, marked as no longer in the Work.
pub fn kept_records(work: &Work, still_there: &[WorkResourceIdentifier]) -> Vec<ManifestCondition> {
    let kept = |record: &&ManifestCondition| {
        let identity = Identity::of(&record.identifier);
        identity.is_some() && still_there.iter().any(|leftover| Identity::of(leftover) == identity)
    };
    let marked = |record: &ManifestCondition| {
        let mut record = record.clone();
        record.identifier.ordinal = NO_LONGER_IN_WORK;
        record
    };
    records_of(work).iter().filter(kept).map(marked).collect()
}

fn new_record(manifest: &Manifest<'_>, generation: i64, now: Timestamp) -> ManifestCondition {
    let mut conditions = Vec::new();
    put(&mut conditions, ManifestApplied::PreparingToProcess.finding(generation), now);
    ManifestCondition { identifier: manifest.identifier.clone(), conditions, ..ManifestCondition::default() }
}

fn reports_only(work: &Work) -> bool {
    let strategy = work.spec.apply_strategy.as_ref();
    strategy.is_some_and(|strategy| strategy.strategy_type() == ApplyStrategyType::ReportDiff)
}

/// The records in the Work's status.
pub fn records_of(work: &Work) -> &[ManifestCondition] {
    work.status.as_ref().map(|status| status.manifest_conditions.as_slice()).unwrap_or_default()
}
