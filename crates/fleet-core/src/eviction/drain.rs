//! Drains a cluster: cordon it with a taint, then evict every placement, with retries. The caller executes plans until
//! the report is over. Namespaced placements cannot be evicted and stay.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::kinds::{
    ClusterResourceBinding, ClusterResourcePlacement, ClusterResourcePlacementEviction, NoStatus, Obj,
};
use fleet_api::names::{BindingSuffix, ClusterName, DrainEvictionName, PlacementName};
use fleet_api::types::{PlacementEvictionSpec, PlacementType, Taint, TaintEffect};
use fleet_api::well_known::{cordon, labels};

use super::verdict::{Verdict, verdict};
use crate::plan::{self, ObjectWrite, Wake};

/// Number of evictions per placement. The second one is for placements that were scheduled while the taint was written,
/// and for those that a budget blocked while others were moving.
pub const ATTEMPTS: usize = 2;

pub type Plan = plan::Plan<Write, NoStatus, Report>;

/// The input of one step of a drain.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub cluster: &'a ClusterName,
    pub taints: &'a [Taint],
    /// Bindings; those of other clusters are ignored.
    pub bindings: &'a [ClusterResourceBinding],
    pub placements: &'a [ClusterResourcePlacement],
    /// The evictions of this drain so far, oldest first.
    pub evictions: &'a [ClusterResourcePlacementEviction],
    /// Random bits for the name suffixes of new evictions, different for every plan.
    pub suffix_seed: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Sets the taints of the cluster.
    Cordon {
        taints: Vec<Taint>,
    },
    CreateEviction(NewEviction),
}

impl ObjectWrite for Write {
    fn object(&self) -> (&'static str, &str) {
        match self {
            Write::Cordon { .. } => ("member cluster", ""),
            Write::CreateEviction(new) => ("eviction", new.name.as_str()),
        }
    }

    fn is_deletion(&self) -> bool {
        false
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEviction {
    pub name: DrainEvictionName,
    pub placement: PlacementName,
    pub cluster: ClusterName,
}

impl NewEviction {
    pub fn object(&self) -> ClusterResourcePlacementEviction {
        let spec = PlacementEvictionSpec {
            placement_name: self.placement.to_string(),
            cluster_name: self.cluster.to_string(),
        };
        Obj::named(self.name.to_string(), spec)
    }
}

/// Progress of a drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Progress of each placement that is or was on the cluster.
    pub placements: BTreeMap<PlacementName, Progress>,
    /// Bindings without a valid placement label.
    pub without_placement: Vec<String>,
}

impl Report {
    /// Whether no further eviction will be created.
    pub fn is_over(&self) -> bool {
        !self.placements.values().any(|progress| matches!(progress, Progress::Evicting))
    }

    /// Whether everything on the cluster is gone or being removed.
    pub fn is_drained(&self) -> bool {
        self.without_placement.is_empty()
            && self.placements.values().all(|progress| matches!(progress, Progress::Gone | Progress::PlacementDeleting))
    }
}

/// Progress of one placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// This plan creates an eviction, or one waits for its verdict.
    Evicting,
    /// Its binding to the cluster is gone or being deleted.
    Gone,
    /// The placement is gone or being deleted, which removes its resources.
    PlacementDeleting,
    /// The policy is PickFixed; only a change of the placement can remove the cluster.
    FixedClusters,
    /// All attempts were rejected; with the message of the last one.
    Refused { message: String },
    /// All attempts succeeded, but the scheduler picked the cluster again: the placement tolerates the taint.
    Returned,
}

/// Plans the next step.
pub fn plan(observed: &Observed<'_>) -> Plan {
    let mut writes = Vec::new();
    writes.extend(cordoned(observed.taints).map(|taints| Write::Cordon { taints }));
    let (bound, without_placement) = bound_placements(observed);
    let evicted = observed.evictions.iter().filter_map(|one| PlacementName::parse(&one.spec.placement_name).ok());
    let all: BTreeSet<_> = bound.iter().cloned().chain(evicted).collect();
    let mut suffix_bits = observed.suffix_seed;
    let mut placements = BTreeMap::new();
    for placement in all {
        let step = step(observed, &placement, bound.contains(&placement));
        if step == Step::Evict {
            let name = fresh_name(observed, &placement, &mut suffix_bits);
            let new = NewEviction { name, placement: placement.clone(), cluster: observed.cluster.clone() };
            writes.push(Write::CreateEviction(new));
        }
        placements.insert(placement, step.into_progress());
    }
    let plan = Plan { writes, status: None, wake: Wake::OnChange, report: Report { placements, without_placement } };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

pub fn cordon_taint() -> Taint {
    Taint { key: cordon::KEY.to_owned(), value: cordon::VALUE.to_owned(), effect: TaintEffect::NoSchedule }
}

/// The taints with the cordon taint added; `None` if it is already there.
pub fn cordoned(taints: &[Taint]) -> Option<Vec<Taint>> {
    let ours = cordon_taint();
    (!taints.contains(&ours)).then(|| taints.iter().cloned().chain([ours]).collect())
}

/// The taints without the cordon taint; `None` if it is not there.
pub fn uncordoned(taints: &[Taint]) -> Option<Vec<Taint>> {
    let ours = cordon_taint();
    taints.contains(&ours).then(|| taints.iter().filter(|taint| **taint != ours).cloned().collect())
}

/// Next step for one placement.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Evict,
    Done(Progress),
}

impl Step {
    fn into_progress(self) -> Progress {
        match self {
            Step::Evict => Progress::Evicting,
            Step::Done(progress) => progress,
        }
    }
}

fn step(observed: &Observed<'_>, placement: &PlacementName, bound: bool) -> Step {
    let verdicts: Vec<_> =
        observed.evictions.iter().filter(|one| one.spec.placement_name == placement.as_str()).map(verdict).collect();
    if verdicts.contains(&Verdict::Pending) {
        return Step::Done(Progress::Evicting);
    }
    if !bound {
        return Step::Done(Progress::Gone);
    }
    let object = observed.placements.iter().find(|one| one.name() == placement.as_str());
    let refused = match object {
        None => Some(Progress::PlacementDeleting),
        Some(object) if object.is_deleting() => Some(Progress::PlacementDeleting),
        Some(object) if object.spec.placement_type() == PlacementType::PickFixed => Some(Progress::FixedClusters),
        Some(_) => None,
    };
    match (refused, verdicts.last()) {
        (Some(progress), _) => Step::Done(progress),
        (None, Some(last)) if verdicts.len() >= ATTEMPTS => Step::Done(after_last_attempt(last)),
        (None, _) => Step::Evict,
    }
}

fn after_last_attempt(last: &Verdict) -> Progress {
    match last {
        Verdict::Pending => Progress::Evicting,
        Verdict::Executed { .. } => Progress::Returned,
        Verdict::NothingToEvict { message } | Verdict::Invalid { message } | Verdict::Blocked { message } => {
            Progress::Refused { message: message.clone() }
        }
    }
}

/// Placements with a binding to the cluster that is not being deleted, and bindings without a placement.
fn bound_placements(observed: &Observed<'_>) -> (BTreeSet<PlacementName>, Vec<String>) {
    let mut bound = BTreeSet::new();
    let mut without_placement = Vec::new();
    let live = observed
        .bindings
        .iter()
        .filter(|one| one.spec.target_cluster == observed.cluster.as_str() && !one.is_deleting());
    for binding in live {
        let parent = binding.label(labels::PARENT_PLACEMENT);
        match parent.and_then(|name| PlacementName::parse(name).ok()) {
            Some(placement) => drop(bound.insert(placement)),
            None => without_placement.push(binding.metadata.name.clone().unwrap_or_default()),
        }
    }
    without_placement.sort_unstable();
    (bound, without_placement)
}

/// Counts up from the seed until the name is free.
fn fresh_name(observed: &Observed<'_>, placement: &PlacementName, bits: &mut u32) -> DrainEvictionName {
    loop {
        let name = DrainEvictionName::new(placement, observed.cluster, &BindingSuffix::from_bits(*bits));
        *bits = bits.wrapping_add(1);
        if !observed.evictions.iter().any(|one| one.name() == name.as_str()) {
            return name;
        }
    }
}
