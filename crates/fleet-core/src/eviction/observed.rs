//! The input of an eviction's plan: which bindings count as placed and as available. Objects are borrowed, not copied.

use fleet_api::conditions::Condition;
use fleet_api::conditions::binding::{
    BindingApplied, BindingAppliedReason, BindingAvailable, BindingAvailableReason, BindingDiffReported,
    BindingOverridden, BindingOverriddenReason, BindingWorkSynchronized, BindingWorkSynchronizedReason,
};
use fleet_api::conditions::decode;
use fleet_api::conditions::eviction::{EvictionExecuted, EvictionValid};
use fleet_api::kinds::{ClusterResourceBinding, ClusterResourcePlacement, ClusterResourcePlacementEviction};
use fleet_api::types::{
    BindingState, PlacementDisruptionBudgetSpec, PlacementEvictionStatus, PlacementSpec, PlacementType,
};
use fleet_api::well_known::annotations;

use super::allowed_by::AllowedBy;

/// The input of a plan.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub eviction: EvictionFacts<'a>,
    /// The placement that the eviction names, if there is one.
    pub placement: Option<PlacementFacts<'a>>,
    /// All bindings of that placement, in any order.
    pub bindings: Vec<BindingFacts<'a>>,
    /// The disruption budget with the placement's name, if there is one.
    pub budget: Option<&'a PlacementDisruptionBudgetSpec>,
}

#[derive(Debug, Clone, Copy)]
pub struct EvictionFacts<'a> {
    pub name: &'a str,
    pub generation: i64,
    pub deleting: bool,
    pub cluster: &'a str,
    /// The recorded uid of the binding that this eviction deletes.
    pub evicted_binding: Option<&'a str>,
    /// The recorded reason why it is allowed.
    pub allowed_by: Option<AllowedBy>,
    pub status: Option<&'a PlacementEvictionStatus>,
}

impl<'a> EvictionFacts<'a> {
    pub fn of(eviction: &'a ClusterResourcePlacementEviction) -> Self {
        Self {
            name: eviction.name(),
            generation: eviction.generation(),
            deleting: eviction.is_deleting(),
            cluster: &eviction.spec.cluster_name,
            evicted_binding: eviction.annotation(annotations::EVICTED_BINDING_UID),
            allowed_by: eviction.annotation(annotations::EVICTION_ALLOWED_BY).and_then(AllowedBy::parse),
            status: eviction.status.as_ref(),
        }
    }

    pub(super) fn conditions(&self) -> &'a [Condition] {
        self.status.map_or(&[], |status| &status.conditions)
    }

    /// An eviction that was rejected or executed is final.
    pub(super) fn is_decided(&self) -> bool {
        let executed = fleet_api::conditions::decode_ignoring_generation::<EvictionExecuted>(self.conditions());
        let valid = decode::<EvictionValid>(self.conditions(), self.generation);
        executed.any().is_some() || valid.is_false()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct PlacementFacts<'a> {
    pub deleting: bool,
    pub spec: &'a PlacementSpec,
}

impl<'a> PlacementFacts<'a> {
    pub fn of(placement: &'a ClusterResourcePlacement) -> Self {
        Self { deleting: placement.is_deleting(), spec: &placement.spec }
    }

    /// The number of clusters that percentages refer to; 0 unless the policy is PickN.
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
    pub cluster: &'a str,
    pub deleting: bool,
    /// Whether its cluster has got resources.
    pub placed: bool,
    /// Whether it is available and not being deleted.
    pub available: bool,
    /// Whether it has failed or only reports a diff, so that its eviction does not use the budget.
    pub is_failed_or_diff_only: bool,
}

impl<'a> BindingFacts<'a> {
    pub fn of(binding: &'a ClusterResourceBinding) -> Self {
        let generation = binding.generation();
        let conditions = binding.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let was_bound = || {
            let previous = binding.annotation(annotations::PREVIOUS_BINDING_STATE);
            previous.is_some_and(|word| word == BindingState::Bound.as_str())
        };
        let deleting = binding.is_deleting();
        Self {
            name: binding.name(),
            uid: binding.metadata.uid.as_deref().unwrap_or_default(),
            cluster: &binding.spec.target_cluster,
            deleting,
            placed: match binding.spec.state {
                BindingState::Bound => true,
                BindingState::Unscheduled => was_bound(),
                BindingState::Scheduled | BindingState::Other(_) => false,
            },
            available: !deleting && decode::<BindingAvailable>(conditions, generation).is_true(),
            is_failed_or_diff_only: counts_as_failed(conditions, generation) || is_diff_only(conditions, generation),
        }
    }
}

/// Whether any step is False, including steps in progress: the user asked to evict this binding, and the number of
/// available clusters, which the budget counts, does not change. The excluded reasons mean that a step has not been
/// tried.
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

/// Whether the binding only reports a diff and applies nothing.
fn is_diff_only(conditions: &[Condition], generation: i64) -> bool {
    decode::<BindingDiffReported>(conditions, generation).current().is_some()
}
