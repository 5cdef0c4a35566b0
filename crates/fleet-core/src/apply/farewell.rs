//! How a Work goes: what it placed goes first, then its ledger, then the Work itself is let go of.
//!
//! Decides from the Work, its ledger (the AppliedWork) and the time. Only a Work that the hub deletes has anything of its
//! own deleted. What it placed goes by the member's garbage collector, which follows the ledger, unless that would be too much
//! at once: then it goes in portions before.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use fleet_api::kinds::{AppliedWork, Work};
use fleet_api::types::{DeletePropagationPolicy, WorkResourceIdentifier};
use fleet_api::well_known::{annotations, finalizers};
use jiff::{SignedDuration, Timestamp};

use super::decode::Identity;
use super::records::records_of;
use super::waves::wave_of;

/// After this time a deletion that does not come to its end is helped. A minute to an hour.
pub const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// What is to be done about a Work that the hub deletes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Farewell {
    /// It is not held by us.
    Nothing,
    /// Nothing of it is left on the member: our finalizer goes.
    LetGo,
    /// The ledger is to be deleted; what it owns goes first, or stays without an owner.
    DeleteLedger { objects_stay: bool },
    /// The ledger is being deleted.
    Wait { until: Timestamp },
    /// The ledger is being deleted for too long: objects that others own too must not block it.
    Unblock { again_at: Timestamp },
}

/// Whether this agent holds the Work.
pub fn is_held(work: &Work) -> bool {
    work.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == finalizers::WORK)
}

/// What comes next for a Work that is being deleted. `ledger` is what the member's API server has.
pub fn farewell(work: &Work, ledger: Option<&AppliedWork>, stuck_after: SignedDuration, now: Timestamp) -> Farewell {
    if work.metadata.deletion_timestamp.is_none() || !is_held(work) {
        return Farewell::Nothing;
    }
    let Some(ledger) = ledger else { return Farewell::LetGo };
    let Some(since) = &ledger.metadata.deletion_timestamp else {
        return Farewell::DeleteLedger { objects_stay: leaves_objects(work) };
    };
    let stuck_at = since.0.checked_add(stuck_after).unwrap_or(Timestamp::MAX);
    if now >= stuck_at {
        return Farewell::Unblock { again_at: now.checked_add(stuck_after).unwrap_or(Timestamp::MAX) };
    }
    Farewell::Wait { until: stuck_at }
}

/// The objects that may go with a Work's ledger, each once, in the order in which they are deleted where not all may go at
/// once: what others need goes last, and a namespace after what is in it.
pub fn going_with(work: &Work, ledger: &AppliedWork) -> Vec<WorkResourceIdentifier> {
    let listed = ledger.status.iter().flat_map(|status| &status.applied_resources).map(|listed| &listed.identifier);
    let recorded = records_of(work).iter().map(|record| &record.identifier);
    let mut seen = BTreeSet::new();
    let mut going: Vec<WorkResourceIdentifier> = recorded
        .chain(listed)
        .filter(|identifier| !identifier.name.is_empty())
        .filter(|identifier| Identity::of(identifier).is_some_and(|identity| seen.insert(identity.object())))
        .cloned()
        .collect();
    going.sort_by_key(|identifier| Reverse(wave_of(&identifier.group, &identifier.resource)));
    going
}

/// Whether the placement is deleted and leaves its resources on the clusters.
fn leaves_objects(work: &Work) -> bool {
    let policy = work.metadata.annotations.as_ref().and_then(|all| all.get(annotations::DELETE_PROPAGATION));
    policy.is_some_and(|policy| *policy == DeletePropagationPolicy::Abandon.to_string())
}
