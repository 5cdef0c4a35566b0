//! Which clusters a placement goes to.
//!
//! Decides from the placement's latest policy, the fleet and the placement's bindings: which bindings to create, bring under
//! the policy or give up, and what the policy snapshot's status says. Time only ever makes clusters ineligible, and those
//! that were picked stay, so there is never an instant to wait for. Never rolls anything out.
//!
//! | file | step |
//! |---|---|
//! | `observed` | the facts |
//! | `bindings` | what each binding means now; how a picked cluster gets one |
//! | `filter` | who fits: `affinity`, `properties`, `eligibility`, `taints` |
//! | `score`, `topology` | who is better |
//! | `pick_all`, `pick_fixed`, `pick_n` | who is picked |
//! | `decisions` | what the status says |
//! | `report` | what was found out, as values |

mod affinity;
mod bindings;
mod decisions;
mod eligibility;
mod filter;
mod observed;
mod pick_all;
mod pick_fixed;
mod pick_n;
mod properties;
mod report;
mod score;
mod taints;
mod topology;

#[cfg(test)]
mod tests;

use fleet_api::types::{BindingState, PlacementPolicy, PlacementType, SchedulingPolicySnapshotStatus};
use jiff::Timestamp;

pub use bindings::{Association, NewBinding};
pub use eligibility::{EligibilityLimits, Ineligible, eligibility};
pub use observed::{
    AgentFacts, BindingFacts, ClusterFacts, Health, LatestPolicy, Namespaces, Observed, PlacementFacts, PolicyFacts,
};
pub use report::{Fault, Outcome, Rejection, Report, Verdict};
pub use score::Score;

use crate::plan::{self, ObjectWrite, Wake};
use crate::rollout::abandonment_is_settled;
use bindings::{Classified, unschedule};
use decisions::Findings;

pub type Plan = plan::Plan<Write, SchedulingPolicySnapshotStatus, Report>;

/// One write to the placement or one of its bindings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Adds the scheduler's finalizer to the placement.
    HoldPlacement,
    /// Takes the scheduler's finalizer from the placement.
    ReleasePlacement,
    /// Takes the scheduler's finalizer from a binding.
    ReleaseBinding {
        binding: String,
    },
    DeleteBinding {
        binding: String,
    },
    CreateBinding(NewBinding),
    /// Sets state, policy snapshot and decision, provided that the binding is still as observed.
    AssociateBinding(Association),
    /// Sets the state to Unscheduled, and notes `previous` in an annotation.
    Unschedule {
        binding: String,
        previous: BindingState,
    },
}

impl ObjectWrite for Write {
    fn object(&self) -> (&'static str, &str) {
        match self {
            Write::HoldPlacement | Write::ReleasePlacement => ("placement", ""),
            Write::ReleaseBinding { binding }
            | Write::DeleteBinding { binding }
            | Write::Unschedule { binding, .. } => ("binding", binding),
            Write::CreateBinding(new) => ("binding", new.name.as_str()),
            Write::AssociateBinding(association) => ("binding", &association.binding),
        }
    }

    fn is_deletion(&self) -> bool {
        matches!(self, Write::DeleteBinding { .. })
    }

    fn lets_subject_go(&self) -> bool {
        matches!(self, Write::ReleasePlacement)
    }
}

/// What to do so that the placement has the clusters that its policy asks for.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let plan = if observed.placement.deleting {
        release(observed)
    } else {
        match &observed.policy {
            LatestPolicy::Missing => Plan::nothing(Report::without_clusters(Outcome::AwaitingPolicy)),
            LatestPolicy::Several(snapshots) => {
                Plan::nothing(Report::without_clusters(Outcome::AmbiguousPolicy { snapshots: *snapshots }))
            }
            LatestPolicy::One(policy) => schedule(observed, policy, now),
        }
    };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

/// Lets go of everything, without waiting for the bindings to vanish: what is on the clusters is others' business.
fn release(observed: &Observed<'_>) -> Plan {
    let mut plan = Plan::nothing(Report::without_clusters(Outcome::Releasing));
    if !observed.placement.held {
        return plan;
    }
    let marks = observed.bindings.iter().map(|binding| (binding.deleting, binding.abandoned));
    if !abandonment_is_settled(observed.placement.abandons, marks) {
        plan.report.outcome = Outcome::AwaitingAbandonment;
        return plan;
    }
    let mut bindings: Vec<_> = observed.bindings.iter().collect();
    bindings.sort_unstable_by_key(|binding| binding.name);
    for binding in bindings {
        let name = || binding.name.to_owned();
        plan.writes.extend(binding.held.then(|| Write::ReleaseBinding { binding: name() }));
        plan.writes.extend((!binding.deleting).then(|| Write::DeleteBinding { binding: name() }));
    }
    plan.writes.push(Write::ReleasePlacement);
    plan
}

fn schedule<'a>(observed: &'a Observed<'a>, policy: &'a PolicyFacts<'a>, now: Timestamp) -> Plan {
    let cycle = Cycle::new(observed, policy, now);
    let mut writes = Vec::new();
    writes.extend((!observed.placement.held).then_some(Write::HoldPlacement));
    let released = cycle.bindings.deleting.iter().filter(|binding| binding.held);
    writes.extend(released.map(|binding| Write::ReleaseBinding { binding: binding.name.to_owned() }));
    writes.extend(cycle.bindings.dangling.iter().map(|binding| unschedule(binding)));
    let decided = match policy.policy.map_or(PlacementType::PickAll, PlacementPolicy::placement_type) {
        PlacementType::PickAll => pick_all::decide(&cycle),
        PlacementType::PickFixed => pick_fixed::decide(&cycle),
        PlacementType::PickN => pick_n::decide(&cycle),
    };
    writes.extend(decided.writes);
    Plan { writes, status: decided.status, wake: Wake::OnChange, report: decided.report }
}

/// The members by name.
#[derive(Debug)]
struct Fleet<'a> {
    clusters: Vec<&'a ClusterFacts<'a>>,
}

impl<'a> Fleet<'a> {
    fn new(clusters: &'a [ClusterFacts<'a>]) -> Self {
        let mut clusters: Vec<_> = clusters.iter().collect();
        clusters.sort_unstable_by(|one, another| one.name.cmp(&another.name));
        Self { clusters }
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.clusters.binary_search_by(|cluster| cluster.name.as_str().cmp(name)).ok()
    }
}

/// What all steps of one plan share.
#[derive(Debug)]
struct Cycle<'a> {
    observed: &'a Observed<'a>,
    policy: &'a PolicyFacts<'a>,
    fleet: Fleet<'a>,
    bindings: Classified<'a>,
    /// Per cluster of the fleet, whether it is selected under the latest policy.
    selected: Vec<bool>,
    now: Timestamp,
}

impl<'a> Cycle<'a> {
    fn new(observed: &'a Observed<'a>, policy: &'a PolicyFacts<'a>, now: Timestamp) -> Self {
        let fleet = Fleet::new(&observed.clusters);
        let bindings = Classified::new(&observed.bindings, policy, &fleet);
        let mut selected = vec![false; fleet.clusters.len()];
        for index in bindings.selected().filter_map(|binding| fleet.find(binding.cluster)) {
            selected[index] = true;
        }
        Self { observed, policy, fleet, bindings, selected, now }
    }
}

/// What one way of picking came to.
#[derive(Debug)]
struct Decided {
    writes: Vec<Write>,
    status: Option<SchedulingPolicySnapshotStatus>,
    report: Report,
}

impl Decided {
    fn without_writes(outcome: Outcome) -> Self {
        Self { writes: Vec::new(), status: None, report: Report::without_clusters(outcome) }
    }

    fn stopped(fault: Fault) -> Self {
        Self::without_writes(Outcome::Stopped(fault))
    }

    fn stopped_after(writes: Vec<Write>, fault: Fault) -> Self {
        Self { writes, ..Self::stopped(fault) }
    }

    /// A policy snapshot that does not say what it reflects gets no status, but its bindings.
    fn with_status(cycle: &Cycle<'_>, writes: Vec<Write>, findings: &Findings<'_>, report: Report) -> Self {
        match decisions::status(cycle.policy, findings, cycle.now) {
            Ok(status) => Self { writes, status, report },
            Err(fault) => Self { writes, status: None, report: Report { outcome: Outcome::Stopped(fault), ..report } },
        }
    }
}
