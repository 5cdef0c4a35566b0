//! Whether a placement is taken off a cluster on request.
//!
//! Decides once from the eviction, the placement it names, the placement's bindings and its disruption budget: whether the
//! request makes sense, whether it is allowed, and which binding is deleted. A decision stands whatever comes later; whoever
//! wants to try again makes a new eviction. Evictions of one placement must be planned one after the other, each on what the
//! one before it left. Never picks another cluster.
//!
//! | file | step |
//! |---|---|
//! | `observed` | the facts |
//! | `budget` | how many clusters may lose the placement |
//! | `verdict` | what came of an eviction, read from its status |
//! | `drain` | everything off one cluster, by evictions |

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

pub use observed::{BindingFacts, EvictionFacts, Observed, PlacementFacts};
pub use verdict::{Verdict, verdict};

use crate::plan::{self, ObjectWrite, Wake};
use budget::Tally;

pub type Plan = plan::Plan<Write, PlacementEvictionStatus, Report>;

/// One write on behalf of an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Writes this status, which says that the eviction is valid, before anything is deleted.
    Begin { eviction: String, status: PlacementEvictionStatus },
    /// Deletes a binding, provided that it is still as observed.
    DeleteBinding { binding: String },
}

impl ObjectWrite for Write {
    fn object(&self) -> (&'static str, &str) {
        match self {
            Write::Begin { eviction, .. } => ("eviction", eviction),
            Write::DeleteBinding { binding } => ("binding", binding),
        }
    }

    fn is_deletion(&self) -> bool {
        matches!(self, Write::DeleteBinding { .. })
    }
}

/// What a plan came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The eviction itself is being deleted.
    Withdrawn,
    /// It was decided before.
    Decided(Verdict),
    /// It makes no sense, and why.
    Invalid(EvictionValid),
    /// It makes sense but is not allowed, and why.
    Blocked(EvictionExecuted),
    /// The placement is taken off the cluster, and why that is allowed.
    Executed(EvictionExecuted),
}

/// What to do about an eviction.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let eviction = &observed.eviction;
    let plan = if eviction.deleting {
        Plan::nothing(Report::Withdrawn)
    } else if eviction.is_decided() {
        Plan::nothing(Report::Decided(verdict::of(eviction.conditions(), eviction.generation)))
    } else {
        match judge(observed) {
            Judgement::Invalid(why) => {
                Plan { status: Some(status(eviction, &why, None, now)), ..Plan::nothing(Report::Invalid(why)) }
            }
            Judgement::Blocked(why) => Plan {
                status: Some(status(eviction, &EvictionValid::Valid, Some(&why), now)),
                ..Plan::nothing(Report::Blocked(why))
            },
            Judgement::Executed(why, binding) => Plan {
                writes: writes(eviction, binding, now),
                status: Some(status(eviction, &EvictionValid::Valid, Some(&why), now)),
                wake: Wake::OnChange,
                report: Report::Executed(why),
            },
        }
    };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

enum Judgement<'a> {
    Invalid(EvictionValid),
    Blocked(EvictionExecuted),
    /// With the binding to delete, unless it is already going.
    Executed(EvictionExecuted, Option<&'a BindingFacts<'a>>),
}

fn judge<'a>(observed: &'a Observed<'_>) -> Judgement<'a> {
    let here: Vec<_> =
        observed.bindings.iter().filter(|binding| binding.cluster == observed.eviction.cluster).collect();
    let is_there = |binding: &&BindingFacts<'_>| binding.placed && !observed.is_successor(binding);
    let removed = here.iter().any(|binding| binding.deleting) || !here.iter().any(is_there);
    if observed.eviction.is_begun() && removed {
        return Judgement::Executed(EvictionExecuted::AlreadyBeingRemoved, None);
    }
    let Some(placement) = &observed.placement else { return Judgement::Invalid(EvictionValid::PlacementNotFound) };
    if placement.deleting {
        return Judgement::Invalid(EvictionValid::PlacementDeleting);
    }
    if placement.spec.placement_type() == PlacementType::PickFixed {
        return Judgement::Invalid(EvictionValid::PlacementPicksFixedClusters);
    }
    match here.as_slice() {
        [] => Judgement::Invalid(EvictionValid::NoBinding),
        [binding] => judge_binding(observed, placement, binding),
        [..] => Judgement::Invalid(EvictionValid::SeveralBindings),
    }
}

fn judge_binding<'a>(
    observed: &Observed<'_>,
    placement: &PlacementFacts<'_>,
    binding: &'a BindingFacts<'a>,
) -> Judgement<'a> {
    if binding.deleting {
        return Judgement::Executed(EvictionExecuted::AlreadyBeingRemoved, None);
    }
    if !binding.placed {
        return Judgement::Blocked(EvictionExecuted::NothingPlacedYet);
    }
    if binding.free {
        return Judgement::Executed(EvictionExecuted::PlacementFailed, Some(binding));
    }
    let Some(budget) = observed.budget else {
        return Judgement::Executed(EvictionExecuted::NoBudget, Some(binding));
    };
    if budget::is_misconfigured(budget, placement) {
        return Judgement::Blocked(EvictionExecuted::MisconfiguredBudget);
    }
    let tally @ Tally { available, total } = Tally::of(&observed.bindings);
    if budget::allows_one_more(budget, placement, tally) {
        Judgement::Executed(EvictionExecuted::AllowedByBudget { available, total }, Some(binding))
    } else {
        Judgement::Blocked(EvictionExecuted::BlockedByBudget { available, total })
    }
}

fn writes(eviction: &EvictionFacts<'_>, binding: Option<&BindingFacts<'_>>, now: Timestamp) -> Vec<Write> {
    let Some(binding) = binding else { return Vec::new() };
    let begin = (!eviction.is_begun()).then(|| Write::Begin {
        eviction: eviction.name.to_owned(),
        status: status(eviction, &EvictionValid::Valid, None, now),
    });
    begin.into_iter().chain([Write::DeleteBinding { binding: binding.name.to_owned() }]).collect()
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
