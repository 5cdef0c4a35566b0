//! Everything off one cluster, and new placements kept away: cordon, evict, uncordon.
//!
//! Decides the cordon taint, which placements are to be evicted from a cluster, how often that is tried, and what came of
//! it. Whoever drains carries plans out until the report says that it is over. Namespaced placements cannot be evicted, and
//! stay. Never decides whether an eviction is allowed.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::kinds::{
    ClusterResourceBinding, ClusterResourcePlacement, ClusterResourcePlacementEviction, NoStatus, Obj,
};
use fleet_api::names::{BindingSuffix, ClusterName, DrainEvictionName, PlacementName};
use fleet_api::types::{PlacementEvictionSpec, PlacementType, Taint, TaintEffect};
use fleet_api::well_known::{cordon, labels};

use super::verdict::{Verdict, verdict};
use crate::plan::{self, ObjectWrite, Wake};

/// How many evictions one placement gets. The second serves placements that arrived while the taint was being written, and
/// those that a budget blocked while others were on the move.
pub const ATTEMPTS: usize = 2;

pub type Plan = plan::Plan<Write, NoStatus, Report>;

/// Everything that one step of a drain is made from.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub cluster: &'a ClusterName,
    pub taints: &'a [Taint],
    /// Bindings that target the cluster; others are passed over.
    pub bindings: &'a [ClusterResourceBinding],
    pub placements: &'a [ClusterResourcePlacement],
    /// The evictions that this drain has made so far, the oldest first.
    pub evictions: &'a [ClusterResourcePlacementEviction],
    /// Random bits, new for every plan: the ends of new evictions' names are drawn from them.
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

/// How far a drain got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What became of each placement that is or was on the cluster, by name.
    pub placements: BTreeMap<PlacementName, Progress>,
    /// Bindings that do not say which placement they belong to.
    pub unattributed: Vec<String>,
}

impl Report {
    /// Whether nothing more will be tried.
    pub fn is_over(&self) -> bool {
        !self.placements.values().any(|progress| matches!(progress, Progress::Evicting))
    }

    /// Whether nothing is left on the cluster but what is being removed.
    pub fn is_drained(&self) -> bool {
        self.unattributed.is_empty()
            && self.placements.values().all(|progress| matches!(progress, Progress::Gone | Progress::Leaving))
    }
}

/// What became of one placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// An eviction is made by this plan or waits for its verdict.
    Evicting,
    /// It has no binding to the cluster any more, or one that is being deleted.
    Gone,
    /// The placement itself is gone or going, and takes its resources with it.
    Leaving,
    /// It names its clusters; only its owner can take one away.
    NamesItsClusters,
    /// Evictions were refused as often as they were tried; this is why the last one was.
    Refused { message: String },
    /// It was evicted as often as that is tried, and was picked for the cluster again: it tolerates the taint.
    Returned,
}

/// The next step.
pub fn plan(observed: &Observed<'_>) -> Plan {
    let mut writes = Vec::new();
    writes.extend(cordoned(observed.taints).map(|taints| Write::Cordon { taints }));
    let (bound, unattributed) = bound_placements(observed);
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
    let plan = Plan { writes, status: None, wake: Wake::OnChange, report: Report { placements, unattributed } };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

pub fn cordon_taint() -> Taint {
    Taint { key: cordon::KEY.to_owned(), value: cordon::VALUE.to_owned(), effect: TaintEffect::NoSchedule }
}

/// The taints with ours added; `None` if it is there.
pub fn cordoned(taints: &[Taint]) -> Option<Vec<Taint>> {
    let ours = cordon_taint();
    (!taints.contains(&ours)).then(|| taints.iter().cloned().chain([ours]).collect())
}

/// The taints without ours; `None` if it is not there.
pub fn uncordoned(taints: &[Taint]) -> Option<Vec<Taint>> {
    let ours = cordon_taint();
    taints.contains(&ours).then(|| taints.iter().filter(|taint| **taint != ours).cloned().collect())
}

/// What to do next about one placement.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Evict,
    Rest(Progress),
}

impl Step {
    fn into_progress(self) -> Progress {
        match self {
            Step::Evict => Progress::Evicting,
            Step::Rest(progress) => progress,
        }
    }
}

fn step(observed: &Observed<'_>, placement: &PlacementName, bound: bool) -> Step {
    let verdicts: Vec<_> =
        observed.evictions.iter().filter(|one| one.spec.placement_name == placement.as_str()).map(verdict).collect();
    if verdicts.contains(&Verdict::Pending) {
        return Step::Rest(Progress::Evicting);
    }
    if !bound {
        return Step::Rest(Progress::Gone);
    }
    let object = observed.placements.iter().find(|one| one.metadata.name.as_deref() == Some(placement.as_str()));
    let refused = match object {
        None => Some(Progress::Leaving),
        Some(object) if object.metadata.deletion_timestamp.is_some() => Some(Progress::Leaving),
        Some(object) if object.spec.placement_type() == PlacementType::PickFixed => Some(Progress::NamesItsClusters),
        Some(_) => None,
    };
    match (refused, verdicts.last()) {
        (Some(progress), _) => Step::Rest(progress),
        (None, Some(last)) if verdicts.len() >= ATTEMPTS => Step::Rest(given_up(last)),
        (None, _) => Step::Evict,
    }
}

fn given_up(last: &Verdict) -> Progress {
    match last {
        Verdict::Pending => Progress::Evicting,
        Verdict::Executed { .. } => Progress::Returned,
        Verdict::NothingThere { message } | Verdict::Invalid { message } | Verdict::Blocked { message } => {
            Progress::Refused { message: message.clone() }
        }
    }
}

/// Placements with a live binding to the cluster, and bindings that name none.
fn bound_placements(observed: &Observed<'_>) -> (BTreeSet<PlacementName>, Vec<String>) {
    let mut bound = BTreeSet::new();
    let mut unattributed = Vec::new();
    let live = observed.bindings.iter().filter(|one| {
        one.spec.target_cluster == observed.cluster.as_str() && one.metadata.deletion_timestamp.is_none()
    });
    for binding in live {
        let parent = binding.metadata.labels.as_ref().and_then(|labels| labels.get(labels::PARENT_PLACEMENT));
        match parent.and_then(|name| PlacementName::parse(name).ok()) {
            Some(placement) => drop(bound.insert(placement)),
            None => unattributed.push(binding.metadata.name.clone().unwrap_or_default()),
        }
    }
    unattributed.sort_unstable();
    (bound, unattributed)
}

/// Counts up from the seed until the name is free.
fn fresh_name(observed: &Observed<'_>, placement: &PlacementName, bits: &mut u32) -> DrainEvictionName {
    loop {
        let name = DrainEvictionName::new(placement, observed.cluster, &BindingSuffix::from_bits(*bits));
        *bits = bits.wrapping_add(1);
        if !observed.evictions.iter().any(|one| one.metadata.name.as_deref() == Some(name.as_str())) {
            return name;
        }
    }
}
