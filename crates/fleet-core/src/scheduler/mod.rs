//! Picks the clusters of a placement.
//!
//! Time can only make clusters ineligible, and picked clusters stay picked, so a plan never wakes by time.
//!
//! | file | step |
//! |---|---|
//! | `observed` | the facts |
//! | `bindings` | classes of bindings; bindings for picked clusters |
//! | `filter` | which clusters fit: `affinity`, `properties`, `eligibility`, `taints` |
//! | `score`, `topology` | which clusters are better |
//! | `pick_all`, `pick_fixed`, `pick_n` | which clusters are picked |
//! | `decisions` | the status of the policy snapshot |
//! | `report` | the result of a plan as values |

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

pub use affinity::unusable_properties;
pub use bindings::{Association, NewBinding};
pub use eligibility::{EligibilityLimits, Ineligible, eligibility};
pub use observed::{
    AgentFacts, BindingFacts, ClusterFacts, Health, LatestPolicy, Namespaces, Observed, PlacementFacts, PolicyFacts,
    is_of_membership,
};
pub use report::{Fault, Rejection, Report, SchedulingOutcome, Unusable, UnusableWhy, Verdict};
pub use score::Score;

use crate::plan::{self, ObjectWrite, Wake};
use crate::rollout::is_abandonment_recorded;
use bindings::{Classified, unschedule};
use decisions::Findings;

pub type Plan = plan::Plan<Write, SchedulingPolicySnapshotStatus, Report>;

/// One write to the placement or one of its bindings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Adds the scheduler's finalizer to the placement.
    AddPlacementFinalizer,
    /// Removes the scheduler's finalizer from the placement.
    RemovePlacementFinalizer,
    /// Removes the scheduler's finalizer from a binding.
    RemoveBindingFinalizer {
        binding: String,
    },
    DeleteBinding {
        binding: String,
    },
    /// Writes the decisions into the status of the policy snapshot, before the bindings.
    Explain(SchedulingPolicySnapshotStatus),
    CreateBinding(NewBinding),
    /// Sets state, policy snapshot and decision, if the binding is still as observed.
    AssociateBinding(Association),
    /// Sets the state to Unscheduled, and records `previous` in an annotation.
    Unschedule {
        binding: String,
        previous: BindingState,
    },
}

impl ObjectWrite for Write {
    fn object(&self) -> (&'static str, &str) {
        match self {
            Write::AddPlacementFinalizer | Write::RemovePlacementFinalizer => ("placement", ""),
            Write::RemoveBindingFinalizer { binding }
            | Write::DeleteBinding { binding }
            | Write::Unschedule { binding, .. } => ("binding", binding),
            Write::Explain(_) => ("policy snapshot", ""),
            Write::CreateBinding(new) => ("binding", new.name.as_str()),
            Write::AssociateBinding(association) => ("binding", &association.binding),
        }
    }

    fn is_deletion(&self) -> bool {
        matches!(self, Write::DeleteBinding { .. })
    }

    fn removes_finalizer(&self) -> bool {
        matches!(self, Write::RemovePlacementFinalizer)
    }
}

/// Gives the placement the clusters that its policy asks for.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let plan = if observed.placement.deleting {
        release(observed)
    } else {
        match &observed.policy {
            LatestPolicy::Missing => Plan::nothing(Report::without_clusters(SchedulingOutcome::AwaitingPolicy)),
            LatestPolicy::Several(snapshots) => {
                Plan::nothing(Report::without_clusters(SchedulingOutcome::AmbiguousPolicy { snapshots: *snapshots }))
            }
            LatestPolicy::One(policy) => schedule(observed, policy, now),
        }
    };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

/// Removes the scheduler's finalizers. Does not wait until the bindings are gone: their resources are handled by
/// other controllers.
fn release(observed: &Observed<'_>) -> Plan {
    let mut plan = Plan::nothing(Report::without_clusters(SchedulingOutcome::Deleting));
    if !observed.placement.has_finalizer {
        return plan;
    }
    let marks = observed.bindings.iter().map(|binding| (binding.deleting, binding.abandoned));
    if !is_abandonment_recorded(observed.placement.abandons, marks) {
        plan.report.outcome = SchedulingOutcome::AwaitingAbandonment;
        return plan;
    }
    let mut bindings: Vec<_> = observed.bindings.iter().collect();
    bindings.sort_unstable_by_key(|binding| binding.name);
    for binding in bindings {
        let name = || binding.name.to_owned();
        plan.writes.extend(binding.has_finalizer.then(|| Write::RemoveBindingFinalizer { binding: name() }));
        plan.writes.extend((!binding.deleting).then(|| Write::DeleteBinding { binding: name() }));
    }
    plan.writes.push(Write::RemovePlacementFinalizer);
    plan
}

fn schedule<'a>(observed: &'a Observed<'a>, policy: &'a PolicyFacts<'a>, now: Timestamp) -> Plan {
    let cycle = Cycle::new(observed, policy, now);
    let mut writes = Vec::new();
    writes.extend((!observed.placement.has_finalizer).then_some(Write::AddPlacementFinalizer));
    let released = cycle.bindings.deleting.iter().filter(|binding| binding.has_finalizer);
    writes.extend(released.map(|binding| Write::RemoveBindingFinalizer { binding: binding.name.to_owned() }));
    writes.extend(cycle.bindings.dangling.iter().map(|binding| unschedule(binding)));
    let decided = match policy.policy.map_or(PlacementType::PickAll, PlacementPolicy::placement_type) {
        PlacementType::PickAll => pick_all::decide(&cycle),
        PlacementType::PickFixed => pick_fixed::decide(&cycle),
        PlacementType::PickN => pick_n::decide(&cycle),
    };
    writes.extend(decided.writes);
    Plan { writes, status: decided.status, wake: Wake::OnChange, report: decided.report }
}

/// The members, sorted by name.
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
    /// For each cluster, whether it is selected under the latest policy.
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

/// The result of picking.
#[derive(Debug)]
struct Decided {
    writes: Vec<Write>,
    status: Option<SchedulingPolicySnapshotStatus>,
    report: Report,
}

impl Decided {
    fn without_writes(outcome: SchedulingOutcome) -> Self {
        Self { writes: Vec::new(), status: None, report: Report::without_clusters(outcome) }
    }

    fn stopped(fault: Fault) -> Self {
        Self::without_writes(SchedulingOutcome::Stopped(fault))
    }

    fn stopped_after(writes: Vec<Write>, fault: Fault) -> Self {
        Self { writes, ..Self::stopped(fault) }
    }

    /// A policy snapshot without a readable generation gets no status, but its bindings are written.
    fn with_status(cycle: &Cycle<'_>, writes: Vec<Write>, findings: &Findings<'_>, report: Report) -> Self {
        match decisions::status(cycle.policy, findings, cycle.now) {
            Ok(status) => Self { writes, status, report },
            Err(fault) => {
                Self { writes, status: None, report: Report { outcome: SchedulingOutcome::Stopped(fault), ..report } }
            }
        }
    }
}
