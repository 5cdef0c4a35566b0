//! Evictions: whether a placement may be removed from a cluster on request.
//!
//! [`plan`] reads the eviction, its placement, the bindings and the disruption budget. It decides whether the eviction
//! is valid and allowed, and which binding is deleted. A verdict is final; another attempt needs a new eviction.
//! Evictions of one placement must be planned one after the other, each on the result of the previous one.
//!
//! | file | step |
//! |---|---|
//! | `observed` | the input of a plan |
//! | `allowed_by` | why an eviction is allowed, recorded before the binding is deleted |
//! | `budget` | how many clusters may lose the placement |
//! | `verdict` | the result of an eviction, from its status |
//! | `drain` | evicting everything from one cluster |

mod allowed_by;
mod budget;
pub mod drain;
mod observed;
mod verdict;

#[cfg(test)]
mod tests;

use fleet_api::conditions::eviction::{EvictionExecuted, EvictionValid};
use fleet_api::conditions::{ConditionState, put};
use fleet_api::types::{PlacementEvictionStatus, PlacementType};
use jiff::Timestamp;

pub use allowed_by::AllowedBy;
pub use observed::{BindingFacts, EvictionFacts, Observed, PlacementFacts};
pub use verdict::{Verdict, verdict};

use crate::plan::{self, ObjectWrite, Wake};
use budget::Counts;

pub type Plan = plan::Plan<Write, PlacementEvictionStatus, Report>;

/// One write on behalf of an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Records on the eviction the uid of the binding and why its deletion is allowed, before the binding is deleted.
    Record { eviction: String, binding_uid: String, allowed_by: AllowedBy },
    /// Deletes the observed version of a binding.
    DeleteBinding { binding: String },
}

impl ObjectWrite for Write {
    fn object(&self) -> (&'static str, &str) {
        match self {
            Write::Record { eviction, .. } => ("eviction", eviction),
            Write::DeleteBinding { binding } => ("binding", binding),
        }
    }

    fn is_deletion(&self) -> bool {
        matches!(self, Write::DeleteBinding { .. })
    }
}

/// The result of planning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The eviction itself is being deleted.
    Withdrawn,
    /// It already has a verdict.
    Decided(Verdict),
    /// The eviction is invalid.
    Invalid(EvictionValid),
    /// The eviction is not allowed.
    Blocked(EvictionExecuted),
    /// The binding is deleted.
    Executed(EvictionExecuted),
}

/// Plans one eviction.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let eviction = &observed.eviction;
    let plan = if eviction.deleting {
        Plan::nothing(Report::Withdrawn)
    } else if eviction.is_decided() {
        Plan::nothing(Report::Decided(verdict::of(eviction.conditions(), eviction.generation)))
    } else {
        match decide(observed) {
            Decision::Invalid(why) => {
                Plan { status: Some(status(eviction, &why, None, now)), ..Plan::nothing(Report::Invalid(why)) }
            }
            Decision::Blocked(why) => Plan {
                status: Some(status(eviction, &EvictionValid::Valid, Some(&why), now)),
                ..Plan::nothing(Report::Blocked(why))
            },
            Decision::Executed(why, binding) => Plan {
                writes: writes(eviction, &why, binding),
                status: Some(status(eviction, &EvictionValid::Valid, Some(&why), now)),
                wake: Wake::OnChange,
                report: Report::Executed(why),
            },
        }
    };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

enum Decision<'a> {
    Invalid(EvictionValid),
    Blocked(EvictionExecuted),
    /// With the binding to delete, unless it is already being deleted.
    Executed(EvictionExecuted, Option<&'a BindingFacts<'a>>),
}

fn decide<'a>(observed: &'a Observed<'_>) -> Decision<'a> {
    let here: Vec<_> =
        observed.bindings.iter().filter(|binding| binding.cluster == observed.eviction.cluster).collect();
    if let Some(uid) = observed.eviction.evicted_binding
        && !here.iter().any(|binding| binding.uid == uid && !binding.deleting)
    {
        // The scheduler may have picked the cluster again; this eviction is not about the new binding.
        let recorded = observed.eviction.allowed_by.map(EvictionExecuted::from);
        return Decision::Executed(recorded.unwrap_or(EvictionExecuted::AlreadyBeingRemoved), None);
    }
    let Some(placement) = &observed.placement else { return Decision::Invalid(EvictionValid::PlacementNotFound) };
    if placement.deleting {
        return Decision::Invalid(EvictionValid::PlacementDeleting);
    }
    if placement.spec.placement_type() == PlacementType::PickFixed {
        return Decision::Invalid(EvictionValid::PlacementPicksFixedClusters);
    }
    match here.as_slice() {
        [] => Decision::Invalid(EvictionValid::NoBinding),
        [binding] => decide_binding(observed, placement, binding),
        [..] => Decision::Invalid(EvictionValid::SeveralBindings),
    }
}

fn decide_binding<'a>(
    observed: &Observed<'_>,
    placement: &PlacementFacts<'_>,
    binding: &'a BindingFacts<'a>,
) -> Decision<'a> {
    if binding.deleting {
        return Decision::Executed(EvictionExecuted::AlreadyBeingRemoved, None);
    }
    if !binding.placed {
        return Decision::Blocked(EvictionExecuted::NothingPlacedYet);
    }
    if binding.is_failed_or_diff_only {
        return Decision::Executed(EvictionExecuted::PlacementFailed, Some(binding));
    }
    let Some(budget) = observed.budget else {
        return Decision::Executed(EvictionExecuted::NoBudget, Some(binding));
    };
    if budget::is_misconfigured(budget, placement) {
        return Decision::Blocked(EvictionExecuted::MisconfiguredBudget);
    }
    let counts @ Counts { available, total } = Counts::of(&observed.bindings);
    if budget::allows_one_more(budget, placement, counts) {
        Decision::Executed(EvictionExecuted::AllowedByBudget { available, total }, Some(binding))
    } else {
        Decision::Blocked(EvictionExecuted::BlockedByBudget { available, total })
    }
}

fn writes(eviction: &EvictionFacts<'_>, why: &EvictionExecuted, binding: Option<&BindingFacts<'_>>) -> Vec<Write> {
    let (Some(binding), Some(allowed_by)) = (binding, AllowedBy::of(why)) else { return Vec::new() };
    let is_recorded = eviction.evicted_binding == Some(binding.uid) && eviction.allowed_by == Some(allowed_by);
    let record = (!is_recorded).then(|| Write::Record {
        eviction: eviction.name.to_owned(),
        binding_uid: binding.uid.to_owned(),
        allowed_by,
    });
    record.into_iter().chain([Write::DeleteBinding { binding: binding.name.to_owned() }]).collect()
}

fn status(
    eviction: &EvictionFacts<'_>,
    valid: &EvictionValid,
    executed: Option<&EvictionExecuted>,
    now: Timestamp,
) -> PlacementEvictionStatus {
    let mut status = eviction.status.cloned().unwrap_or_default();
    put(&mut status.conditions, valid.finding(eviction.generation), now);
    if let Some(executed) = executed {
        put(&mut status.conditions, executed.finding(eviction.generation), now);
    }
    status
}
