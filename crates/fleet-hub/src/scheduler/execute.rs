//! Turns the writes of a plan into API requests.

use std::collections::BTreeMap;

use fleet_api::kinds::{Binding, Obj, Placement, PolicySnapshot, Scope};
use fleet_api::names::PlacementKey;
use fleet_api::types::{BindingState, SchedulingPolicySnapshotStatus};
use fleet_api::well_known::{annotations, finalizers};
use fleet_core::scheduler::{SchedulingOutcome, Write as Planned};
use fleet_runtime::{Actions, PlanResult, Write};

use crate::meta;

/// Turns the writes of a plan into requests.
pub(super) struct Executor<'a, S: Scope> {
    pub(super) key: &'a PlacementKey,
    pub(super) placement: &'a Obj<Placement, S>,
    pub(super) bindings: BTreeMap<&'a str, &'a Obj<Binding, S>>,
}

impl<S: Scope> Executor<'_, S> {
    /// Returns `None` if the binding is not in the observation; a plan never refers to such a binding.
    pub(super) fn write(&self, planned: &Planned) -> Option<Write> {
        match planned {
            Planned::AddPlacementFinalizer => {
                Some(Write::change(self.placement, &meta::with_finalizer(self.placement, finalizers::SCHEDULER)))
            }
            Planned::RemovePlacementFinalizer => {
                Some(Write::change(self.placement, &meta::without_finalizer(self.placement, finalizers::SCHEDULER)))
            }
            // A write of the policy snapshot, not of a binding.
            Planned::Explain(_) => None,
            Planned::CreateBinding(new) => Some(Write::create(&new.object::<S>(self.key))),
            Planned::DeleteBinding { binding } => self.binding(binding).map(Write::delete),
            Planned::RemoveBindingFinalizer { binding } => {
                let held = self.binding(binding)?;
                Some(Write::change(held, &meta::without_finalizer(held, finalizers::SCHEDULER_BINDING)))
            }
            Planned::AssociateBinding(association) => self.changed(&association.binding, |binding| {
                binding.spec.state.clone_from(&association.state);
                binding.spec.scheduling_policy_snapshot_name.clone_from(&association.policy_snapshot);
                binding.spec.cluster_decision.clone_from(&association.decision);
                if let Some(uid) = &association.cluster_uid {
                    meta::annotate(binding, annotations::MEMBER_CLUSTER_UID, uid.clone());
                }
            }),
            Planned::Unschedule { binding, previous } => self.changed(binding, |binding| {
                binding.spec.state = BindingState::Unscheduled;
                meta::annotate(binding, annotations::PREVIOUS_BINDING_STATE, previous.to_string());
            }),
        }
    }

    fn binding(&self, name: &str) -> Option<&Obj<Binding, S>> {
        self.bindings.get(name).copied()
    }

    fn changed(&self, name: &str, change: impl FnOnce(&mut Obj<Binding, S>)) -> Option<Write> {
        let old = self.binding(name)?;
        let mut new = old.clone();
        change(&mut new);
        Some(Write::change(old, &new))
    }
}

/// The write of a policy snapshot's status.
pub(super) fn report<S: Scope>(
    snapshot: &mut Option<Obj<PolicySnapshot, S>>,
    status: &SchedulingPolicySnapshotStatus,
    actions: &mut Actions,
) {
    let Some(current) = snapshot else { return };
    let mut reported = current.clone();
    reported.status = Some(status.clone());
    actions.write(Write::status(current, &reported));
    *current = reported;
}

/// Whether there was a policy to schedule by. Several latest snapshots are reported by the placement controller.
pub(super) fn look(outcome: &SchedulingOutcome) -> PlanResult {
    match outcome {
        SchedulingOutcome::Deleting
        | SchedulingOutcome::AwaitingAbandonment
        | SchedulingOutcome::AwaitingPolicy
        | SchedulingOutcome::AmbiguousPolicy { .. } => PlanResult::Skipped,
        SchedulingOutcome::NothingNamed | SchedulingOutcome::Decided { .. } => PlanResult::Decided,
        SchedulingOutcome::Stopped(fault) => PlanResult::blocked(fault),
    }
}
