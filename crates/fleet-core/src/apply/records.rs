//! The Work's memory of what it may have put on the member: written before anything is applied, so that a process that
//! dies in between loses track of nothing; and what of it the Work no longer names.
//!
//! Decides from the Work, its present manifests and the records in its status. An object is a left-over only because the
//! hub gave a newer list of manifests that does not name it: never because a manifest could not be read or decoded, and
//! never on an older list than one that was carried out already.

use std::collections::BTreeSet;

use fleet_api::conditions::work::{ManifestApplied, WorkApplied};
use fleet_api::conditions::{ConditionState as _, decode, put};
use fleet_api::kinds::Work;
use fleet_api::types::{ApplyStrategyType, ManifestCondition, WorkResourceIdentifier};
use jiff::Timestamp;

use super::decode::{Identity, Manifest};

/// The ordinal of a record whose manifest the Work no longer has, while its object waits for its removal.
pub const NO_LONGER_NAMED: i64 = -1;

/// Objects that the Work named once and names no longer. Whether they are ours is for who removes them to see.
pub fn left_overs(work: &Work, manifests: &[Manifest<'_>]) -> Vec<WorkResourceIdentifier> {
    if reports_only(work) {
        return Vec::new();
    }
    let newer = is_newer_instruction(work);
    // By object, not by version: one that is named in another version of its kind is the same and stays.
    let named: BTreeSet<_> =
        manifests.iter().filter_map(|manifest| Some(Identity::of(&manifest.identifier)?.object())).collect();
    let is_left_over = |identifier: &WorkResourceIdentifier| {
        (newer || identifier.ordinal == NO_LONGER_NAMED)
            && !identifier.name.is_empty()
            && Identity::of(identifier).is_some_and(|identity| !named.contains(&identity.object()))
    };
    let mut seen = BTreeSet::new();
    records_of(work)
        .iter()
        .map(|record| &record.identifier)
        .filter(|identifier| is_left_over(identifier))
        .filter(|identifier| Identity::of(identifier).is_some_and(|identity| seen.insert(identity.object())))
        .cloned()
        .collect()
}

/// Whether the list of manifests is newer than the one that was carried out last. One that is older (a hub that was set
/// back to an earlier state) asks for no removal.
fn is_newer_instruction(work: &Work) -> bool {
    let conditions = work.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let known = decode::<WorkApplied>(conditions, work.generation());
    known.any().is_none_or(|condition| condition.observed_generation < work.generation())
}

/// Whether what was read from the hub again still is the same instruction. Nothing is removed on any other.
pub fn is_same_instruction(known: &Work, stored: Option<&Work>) -> bool {
    stored.is_some_and(|stored| {
        stored.metadata.uid == known.metadata.uid
            && stored.generation() == known.generation()
            && stored.metadata.deletion_timestamp == known.metadata.deletion_timestamp
    })
}

/// The records to be stored before anything is applied; `None` where each manifest that can be applied has one.
/// `still_there` are left-overs that have not been removed.
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

/// Records of left-overs that are still there, as they are told of from now on.
pub fn kept_records(work: &Work, still_there: &[WorkResourceIdentifier]) -> Vec<ManifestCondition> {
    let kept = |record: &&ManifestCondition| {
        let identity = Identity::of(&record.identifier);
        identity.is_some() && still_there.iter().any(|left_over| Identity::of(left_over) == identity)
    };
    let told = |record: &ManifestCondition| {
        let mut record = record.clone();
        record.identifier.ordinal = NO_LONGER_NAMED;
        record
    };
    records_of(work).iter().filter(kept).map(told).collect()
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

/// What the Work's status says of manifests.
pub fn records_of(work: &Work) -> &[ManifestCondition] {
    work.status.as_ref().map(|status| status.manifest_conditions.as_slice()).unwrap_or_default()
}
