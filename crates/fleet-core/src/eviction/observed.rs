//! The facts that an eviction rests on, each read once from its object.
//!
//! Decides what counts as placed and as available. Objects are borrowed, never copied. Never decides whether an eviction is
//! allowed.

use fleet_api::conditions::Condition;
use fleet_api::conditions::binding::{
    BindingApplied, BindingAppliedReason, BindingAvailable, BindingAvailableReason, BindingDiffReported,
    BindingOverridden, BindingOverriddenReason, BindingWorkSynchronized, BindingWorkSynchronizedReason,
};
use fleet_api::conditions::decode;
use fleet_api::conditions::eviction::{EvictionExecuted, EvictionValid};
use fleet_api::kinds::{
    Cluster, ClusterResourceBinding, ClusterResourcePlacement, ClusterResourcePlacementEviction, Family, Obj,
};
use fleet_api::types::{
    BindingState, PlacementDisruptionBudgetSpec, PlacementEvictionStatus, PlacementSpec, PlacementType,
};
use fleet_api::well_known::annotations;
use jiff::Timestamp;

/// Everything that one plan is made from.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub eviction: EvictionFacts<'a>,
    /// The placement that the eviction names, if there is one.
    pub placement: Option<PlacementFacts<'a>>,
    /// All bindings of that placement, in any order.
    pub bindings: Vec<BindingFacts<'a>>,
    /// The budget of the placement's name, if there is one.
    pub budget: Option<&'a PlacementDisruptionBudgetSpec>,
    /// The uid of the binding that the agent has begun to remove for this eviction, as far as it remembers.
    pub begun_with: Option<&'a str>,
}

impl Observed<'_> {
    /// Whether a binding came after the one that a begun eviction is about: the agent remembers another, or it is younger than
    /// the eviction itself, by the server's clock. The cluster was picked again, and an eviction is for one time only.
    pub(super) fn is_successor(&self, binding: &BindingFacts<'_>) -> bool {
        self.begun_with.is_some_and(|uid| uid != binding.uid)
            || self.eviction.created.zip(binding.created).is_some_and(|(asked, made)| made > asked)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct EvictionFacts<'a> {
    pub name: &'a str,
    pub generation: i64,
    pub created: Option<Timestamp>,
    pub deleting: bool,
    pub cluster: &'a str,
    pub status: Option<&'a PlacementEvictionStatus>,
}

impl<'a> EvictionFacts<'a> {
    pub fn of(eviction: &'a ClusterResourcePlacementEviction) -> Self {
        Self {
            name: name(eviction),
            generation: eviction.generation(),
            created: created(eviction),
            deleting: is_deleting(eviction),
            cluster: &eviction.spec.cluster_name,
            status: eviction.status.as_ref(),
        }
    }

    pub(super) fn conditions(&self) -> &'a [Condition] {
        self.status.map_or(&[], |status| &status.conditions)
    }

    /// Once refused or carried out, an eviction is never looked at again.
    pub(super) fn is_decided(&self) -> bool {
        let executed = fleet_api::conditions::decode_ignoring_generation::<EvictionExecuted>(self.conditions());
        let valid = decode::<EvictionValid>(self.conditions(), self.generation);
        executed.any().is_some() || valid.is_false()
    }

    /// That it is valid is written before anything is deleted, so it tells a plan that was cut short there.
    pub(super) fn is_begun(&self) -> bool {
        decode::<EvictionValid>(self.conditions(), self.generation).is_true()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct PlacementFacts<'a> {
    pub deleting: bool,
    pub spec: &'a PlacementSpec,
}

impl<'a> PlacementFacts<'a> {
    pub fn of(placement: &'a ClusterResourcePlacement) -> Self {
        Self { deleting: is_deleting(placement), spec: &placement.spec }
    }

    /// How many clusters percentages are of; where every cluster is wanted, of none.
    pub(super) fn desired(&self) -> usize {
        let policy = self.spec.policy.as_ref().filter(|policy| policy.placement_type() == PlacementType::PickN);
        let number = policy.and_then(|policy| policy.number_of_clusters).unwrap_or_default();
        usize::try_from(number).unwrap_or_default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BindingFacts<'a> {
    pub name: &'a str,
    pub uid: &'a str,
    pub created: Option<Timestamp>,
    pub cluster: &'a str,
    pub deleting: bool,
    /// Whether its cluster was told to run anything.
    pub placed: bool,
    /// Whether all of it is available, and it is not being deleted.
    pub available: bool,
    /// Whether it counts as failed, or only reports differences: taking it away costs nothing.
    pub free: bool,
}

impl<'a> BindingFacts<'a> {
    pub fn of(binding: &'a ClusterResourceBinding) -> Self {
        let generation = binding.generation();
        let conditions = binding.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let was_bound = || {
            let notes = binding.metadata.annotations.as_ref();
            let previous = notes.and_then(|notes| notes.get(annotations::PREVIOUS_BINDING_STATE));
            previous.is_some_and(|word| word == BindingState::Bound.as_str())
        };
        let deleting = is_deleting(binding);
        Self {
            name: name(binding),
            uid: binding.metadata.uid.as_deref().unwrap_or_default(),
            created: created(binding),
            cluster: &binding.spec.target_cluster,
            deleting,
            placed: match binding.spec.state {
                BindingState::Bound => true,
                BindingState::Unscheduled => was_bound(),
                BindingState::Scheduled | BindingState::Other(_) => false,
            },
            available: !deleting && decode::<BindingAvailable>(conditions, generation).is_true(),
            free: counts_as_failed(conditions, generation) || is_diff_only(conditions, generation),
        }
    }
}

/// Whether any step is False, be it that the member is not done with it: somebody asked for this very binding to go, and what
/// a budget counts, the available ones, stays as it is. Reasons that no release writes mean that a step is still to be tried.
fn counts_as_failed(conditions: &[Condition], generation: i64) -> bool {
    let overridden = decode::<BindingOverridden>(conditions, generation);
    let synchronized = decode::<BindingWorkSynchronized>(conditions, generation);
    let applied = decode::<BindingApplied>(conditions, generation);
    let available = decode::<BindingAvailable>(conditions, generation);
    (overridden.is_false() && overridden.reason() != Some(BindingOverriddenReason::Pending))
        || (synchronized.is_false() && synchronized.reason() != Some(BindingWorkSynchronizedReason::NotYet))
        || (applied.is_false() && applied.reason() != Some(BindingAppliedReason::Pending))
        || (available.is_false() && available.reason() != Some(BindingAvailableReason::NotYet))
}

/// Whether differences are reported instead of resources applied; such a cluster is not changed at all.
fn is_diff_only(conditions: &[Condition], generation: i64) -> bool {
    decode::<BindingDiffReported>(conditions, generation).current().is_some()
}

fn name<F: Family>(object: &Obj<F, Cluster>) -> &str {
    object.metadata.name.as_deref().unwrap_or_default()
}

fn created<F: Family>(object: &Obj<F, Cluster>) -> Option<Timestamp> {
    object.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

fn is_deleting<F: Family>(object: &Obj<F, Cluster>) -> bool {
    object.metadata.deletion_timestamp.is_some()
}
