//! How a deleted Work is finalized: its objects are deleted first, then its AppliedWork, then our finalizer is
//! removed.
//!
//! The member's garbage collector deletes the objects with the AppliedWork. If that would exceed the delete budget,
//! the agent deletes some of them before. Never deletes anything unless the hub deletes the Work.

use std::collections::BTreeSet;

use fleet_api::kinds::{AppliedWork, Work};
use fleet_api::types::{DeletePropagationPolicy, ManifestCondition, WorkResourceIdentifier};
use fleet_api::well_known::{annotations, finalizers};
use jiff::{SignedDuration, Timestamp};

use super::containers::sort_for_removal;
use super::decode::Identity;
use super::records::records_of;

/// After this time the agent unblocks a deletion that does not end. Between a minute and an hour.
pub const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// The next step for a Work that the hub deletes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finalization {
    /// The Work does not have our finalizer, or is not being deleted.
    Nothing,
    /// Nothing is left on the member.
    RemoveFinalizer,
    /// The objects of the AppliedWork are deleted first, or stay without an owner.
    DeleteAppliedWork { objects_stay: bool },
    /// The AppliedWork is being deleted.
    Wait { until: Timestamp },
    /// The deletion of the AppliedWork takes too long: objects with other owners must not block it.
    Unblock { again_at: Timestamp },
}

/// The Work with a status that an API server accepts; `None` if its status is accepted already. A status write does
/// not check the objects that a status embeds, but every other write of the Work does: with an object without
/// `apiVersion` or `kind` in its status, no finalizer can be removed from the Work. Anyone with the credentials of
/// the member can write such a status.
pub fn with_accepted_status(work: &Work) -> Option<Work> {
    let is_refused = |condition: &ManifestCondition| {
        let embedded = condition.back_reported_status.as_ref().and_then(|report| report.observed_status.as_ref());
        embedded.is_some_and(|object| object.api_version().is_empty() || object.kind().is_empty())
    };
    let status = work.status.as_ref()?;
    if !status.manifest_conditions.iter().any(is_refused) {
        return None;
    }
    let mut accepted = work.clone();
    for condition in accepted.status.iter_mut().flat_map(|status| &mut status.manifest_conditions) {
        if is_refused(condition) {
            condition.back_reported_status = None;
        }
    }
    Some(accepted)
}

/// The next step for a Work that is being deleted. `applied_work` must be read from the member's API server.
pub fn next_step(
    work: &Work,
    applied_work: Option<&AppliedWork>,
    stuck_after: SignedDuration,
    now: Timestamp,
) -> Finalization {
    if !work.is_deleting() || !work.has_finalizer(finalizers::WORK) {
        return Finalization::Nothing;
    }
    let Some(applied_work) = applied_work else { return Finalization::RemoveFinalizer };
    let Some(since) = &applied_work.metadata.deletion_timestamp else {
        return Finalization::DeleteAppliedWork { objects_stay: abandons_objects(work) };
    };
    let stuck_at = since.0.checked_add(stuck_after).unwrap_or(Timestamp::MAX);
    if now >= stuck_at {
        return Finalization::Unblock { again_at: now.checked_add(stuck_after).unwrap_or(Timestamp::MAX) };
    }
    Finalization::Wait { until: stuck_at }
}

/// The objects that may be deleted with an AppliedWork, each once, in the order of removal: dependencies last, and a
/// namespace after its content.
pub fn objects_to_delete(work: &Work, applied_work: &AppliedWork) -> Vec<WorkResourceIdentifier> {
    let listed =
        applied_work.status.iter().flat_map(|status| &status.applied_resources).map(|listed| &listed.identifier);
    let recorded = records_of(work).iter().map(|record| &record.identifier);
    let mut seen = BTreeSet::new();
    let mut going: Vec<WorkResourceIdentifier> = recorded
        .chain(listed)
        .filter(|identifier| !identifier.name.is_empty())
        .filter(|identifier| Identity::of(identifier).is_some_and(|identity| seen.insert(identity.object())))
        .cloned()
        .collect();
    sort_for_removal(&mut going);
    going
}

/// Whether the placement was deleted with the policy to leave its resources on the clusters.
fn abandons_objects(work: &Work) -> bool {
    let policy = work.metadata.annotations.as_ref().and_then(|all| all.get(annotations::DELETE_PROPAGATION));
    policy.is_some_and(|policy| *policy == DeletePropagationPolicy::Abandon.to_string())
}
