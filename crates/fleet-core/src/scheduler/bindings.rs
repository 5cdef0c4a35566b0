//! Classifies the bindings of a placement, and reuses or creates bindings for picked clusters.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::bits;
use fleet_api::kinds::{Binding, Obj, Scope};
use fleet_api::names::{BindingName, BindingSuffix, ClusterName, PlacementKey};
use fleet_api::types::{BindingState, ClusterDecision, ResourceBindingSpec};
use fleet_api::well_known::{annotations, finalizers, labels};

use super::observed::{BindingFacts, Observed, PolicyFacts, is_of_membership};
use super::report::Fault;
use super::{Fleet, Write};

/// The bindings of a placement by class, each sorted by name.
#[derive(Debug, Default)]
pub(super) struct Classified<'a> {
    /// Being deleted: not counted; the scheduler removes its finalizer.
    pub deleting: Vec<&'a BindingFacts<'a>>,
    pub unscheduled: Vec<&'a BindingFacts<'a>>,
    /// Their cluster is gone or leaving.
    pub dangling: Vec<&'a BindingFacts<'a>>,
    /// Created under another policy, or before the cluster left and joined again. Kept if the cluster is picked again.
    pub obsolete: Vec<&'a BindingFacts<'a>>,
    pub scheduled: Vec<&'a BindingFacts<'a>>,
    pub bound: Vec<&'a BindingFacts<'a>>,
}

impl<'a> Classified<'a> {
    pub(super) fn new(bindings: &'a [BindingFacts<'a>], policy: &PolicyFacts<'_>, fleet: &Fleet<'_>) -> Self {
        let mut sorted: Vec<&BindingFacts<'_>> = bindings.iter().collect();
        sorted.sort_unstable_by_key(|binding| binding.name);
        let mut classes = Self::default();
        for binding in sorted {
            let cluster = fleet.find(binding.cluster).map(|index| fleet.clusters[index]);
            let cluster = cluster.filter(|cluster| !cluster.leaving);
            let is_former = cluster.is_some_and(|cluster| !is_of_membership(binding.cluster_uid, cluster.uid));
            let class = match binding.state {
                _ if binding.deleting => &mut classes.deleting,
                BindingState::Unscheduled => &mut classes.unscheduled,
                _ if cluster.is_none() => &mut classes.dangling,
                _ if is_former || binding.policy_snapshot != policy.name => &mut classes.obsolete,
                BindingState::Scheduled => &mut classes.scheduled,
                BindingState::Bound => &mut classes.bound,
                // A state of another release: neither counted nor changed.
                BindingState::Other(_) => continue,
            };
            class.push(binding);
        }
        classes
    }

    /// The number of clusters selected under the latest policy.
    pub(super) fn present(&self) -> usize {
        self.scheduled.len() + self.bound.len()
    }

    /// The bindings under the latest policy.
    pub(super) fn selected(&self) -> impl Iterator<Item = &'a BindingFacts<'a>> {
        self.scheduled.iter().chain(&self.bound).copied()
    }
}

pub(super) fn unschedule(binding: &BindingFacts<'_>) -> Write {
    Write::Unschedule { binding: binding.name.to_owned(), previous: binding.state.clone() }
}

/// A binding to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBinding {
    pub name: BindingName,
    pub cluster_uid: Option<String>,
    pub spec: ResourceBindingSpec,
}

impl NewBinding {
    /// The object to create for this placement.
    pub fn object<S: Scope>(&self, placement: &PlacementKey) -> Obj<Binding, S> {
        let mut object = Obj::named(self.name.to_string(), self.spec.clone());
        object.metadata.namespace = placement.namespace.as_ref().map(ToString::to_string);
        let parent = (labels::PARENT_PLACEMENT.to_owned(), placement.name.to_string());
        object.metadata.labels = Some(BTreeMap::from([parent]));
        let uid = self.cluster_uid.iter().map(|uid| (annotations::MEMBER_CLUSTER_UID.to_owned(), uid.clone()));
        object.metadata.annotations = Some(uid.collect()).filter(|marks: &BTreeMap<_, _>| !marks.is_empty());
        // The work generator's finalizer is set at creation, which saves a write per cluster and protects the Works
        // from the start.
        object.metadata.finalizers = Some([finalizers::SCHEDULER_BINDING, finalizers::WORK].map(str::to_owned).into());
        object
    }
}

/// An existing binding to update for the latest policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Association {
    pub binding: String,
    pub cluster_uid: Option<String>,
    pub state: BindingState,
    pub policy_snapshot: String,
    pub decision: ClusterDecision,
}

/// How a picked cluster gets its binding.
#[derive(Debug)]
pub(super) enum Booking {
    Create(NewBinding),
    Associate(Association),
}

impl Booking {
    pub(super) fn binding(&self) -> &str {
        match self {
            Booking::Create(new) => new.name.as_str(),
            Booking::Associate(association) => &association.binding,
        }
    }

    pub(super) fn state(&self) -> &BindingState {
        match self {
            Booking::Create(new) => &new.spec.state,
            Booking::Associate(association) => &association.state,
        }
    }

    pub(super) fn decision(&self) -> &ClusterDecision {
        match self {
            Booking::Create(new) => &new.spec.cluster_decision,
            Booking::Associate(association) => &association.decision,
        }
    }

    pub(super) fn write(&self) -> Write {
        match self {
            Booking::Create(new) => Write::CreateBinding(new.clone()),
            Booking::Associate(association) => Write::AssociateBinding(association.clone()),
        }
    }
}

/// Assigns existing or new bindings to picked clusters.
#[derive(Debug)]
pub(super) struct Bookkeeper<'a> {
    observed: &'a Observed<'a>,
    policy_snapshot: &'a str,
    obsolete: BTreeMap<&'a str, Vec<&'a BindingFacts<'a>>>,
    unscheduled: BTreeMap<&'a str, Vec<&'a BindingFacts<'a>>>,
    /// Of clusters.
    uids: BTreeMap<&'a str, &'a str>,
    taken_names: BTreeSet<&'a str>,
    new_names: BTreeSet<BindingName>,
}

impl<'a> Bookkeeper<'a> {
    pub(super) fn new(observed: &'a Observed<'a>, policy: &PolicyFacts<'a>, bindings: &Classified<'a>) -> Self {
        Self {
            observed,
            policy_snapshot: policy.name,
            obsolete: by_cluster(&bindings.obsolete),
            unscheduled: by_cluster(&bindings.unscheduled),
            uids: observed.clusters.iter().filter_map(|one| Some((one.name.as_str(), one.uid?))).collect(),
            taken_names: observed.bindings.iter().map(|binding| binding.name).collect(),
            new_names: BTreeSet::new(),
        }
    }

    /// The bindings for clusters that are picked together: new ones first, then those of an older policy, then
    /// unscheduled ones.
    pub(super) fn book(&mut self, picked: Vec<(&ClusterName, ClusterDecision)>) -> Result<Vec<Booking>, Fault> {
        let mut created = Vec::new();
        let mut kept = Vec::new();
        let mut revived = Vec::new();
        for (cluster, decision) in picked {
            let obsolete = self.obsolete.remove(cluster.as_str()).unwrap_or_default();
            let unscheduled = self.unscheduled.remove(cluster.as_str()).unwrap_or_default();
            if obsolete.is_empty() && unscheduled.is_empty() {
                created.push(Booking::Create(self.new_binding(cluster, decision)?));
                continue;
            }
            for binding in obsolete {
                kept.push(self.associate(binding, cluster, binding.state.clone(), &decision));
            }
            for binding in unscheduled {
                let fault = || Fault::PreviousState { binding: binding.name.to_owned() };
                let state = binding.previous_state.clone().ok_or_else(fault)?;
                revived.push(self.associate(binding, cluster, state, &decision));
            }
        }
        kept.sort_unstable_by(|one, another| one.binding().cmp(another.binding()));
        revived.sort_unstable_by(|one, another| one.binding().cmp(another.binding()));
        Ok(created.into_iter().chain(kept).chain(revived).collect())
    }

    /// Bindings of older policies whose cluster was not picked, by name.
    pub(super) fn left_over(self) -> Vec<Write> {
        let mut rest: Vec<_> = self.obsolete.into_values().flatten().collect();
        rest.sort_unstable_by_key(|binding| binding.name);
        rest.into_iter().map(unschedule).collect()
    }

    fn uid_of(&self, cluster: &ClusterName) -> Option<String> {
        self.uids.get(cluster.as_str()).map(|uid| (*uid).to_owned())
    }

    fn associate(
        &self,
        binding: &BindingFacts<'_>,
        cluster: &ClusterName,
        state: BindingState,
        decision: &ClusterDecision,
    ) -> Booking {
        Booking::Associate(Association {
            binding: binding.name.to_owned(),
            cluster_uid: self.uid_of(cluster),
            state,
            policy_snapshot: self.policy_snapshot.to_owned(),
            decision: decision.clone(),
        })
    }

    fn new_binding(&mut self, cluster: &ClusterName, decision: ClusterDecision) -> Result<NewBinding, Fault> {
        let placement = &self.observed.placement.key.name;
        let mut bits = seed_of(self.observed.suffix_seed, cluster);
        let name = loop {
            let suffix = BindingSuffix::from_bits(next_bits(&mut bits));
            let name = BindingName::new(placement, cluster, &suffix).map_err(Fault::BindingName)?;
            if !self.taken_names.contains(name.as_str()) && self.new_names.insert(name.clone()) {
                break name;
            }
        };
        let spec = ResourceBindingSpec {
            state: BindingState::Scheduled,
            resource_snapshot_name: String::new(),
            resource_override_snapshots: None,
            cluster_resource_override_snapshots: None,
            scheduling_policy_snapshot_name: self.policy_snapshot.to_owned(),
            target_cluster: cluster.to_string(),
            cluster_decision: decision,
            apply_strategy: None,
        };
        Ok(NewBinding { name, cluster_uid: self.uid_of(cluster), spec })
    }
}

fn by_cluster<'a>(bindings: &[&'a BindingFacts<'a>]) -> BTreeMap<&'a str, Vec<&'a BindingFacts<'a>>> {
    let mut map: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for binding in bindings {
        map.entry(binding.cluster).or_default().push(*binding);
    }
    map
}

/// Every cluster has its own sequence of names, so that its binding gets the same name whatever else is picked: a
/// creation whose answer was lost is then recognised instead of repeated.
fn seed_of(seed: u64, cluster: &ClusterName) -> u64 {
    bits::hashed(seed, cluster.as_str())
}

/// The counter runs through all values, so that every taken name is followed by a free one.
fn next_bits(state: &mut u64) -> u32 {
    *state = state.wrapping_add(bits::STEP);
    u32::try_from(bits::mixed(*state) >> 32).unwrap_or_default()
}
