//! Turns a plan into API writes and events. The placement gets an event too once a binding has content.
//!
//! Never updates or deletes a binding without the observed resourceVersion.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::conditions::approval::ApprovalAccepted;
use fleet_api::conditions::events::RunEvent;
use fleet_api::conditions::{ConditionState as _, put};
use fleet_api::kinds::{Approval, Binding, Obj, Scope, UpdateRun};
use fleet_api::types::{BindingState, UpdateRunStatus};
use fleet_api::well_known::{annotations, finalizers};
use fleet_core::plan::StatusWrite;
use fleet_core::updaterun::{BindingChange, Blocker, Cause, Plan, RunOutcome, Write as Planned};
use fleet_runtime::{KindId, KubeEvent, ObjectKey, Write};
use jiff::Timestamp;

use super::observe::Observation;
use crate::meta;
use crate::placement;

/// Turns the writes of a plan into API writes.
#[derive(Debug)]
pub(super) struct Executor<'a, S: Scope> {
    pub(super) observation: &'a Observation<S>,
    pub(super) now: Timestamp,
}

impl<S: Scope> Executor<'_, S> {
    /// All writes in order, then the status.
    pub(super) fn to_writes(&self, planned: &[Planned], status: Option<&StatusWrite<UpdateRunStatus>>) -> Vec<Write> {
        let run = &*self.observation.run;
        let mut stored = run.clone();
        let mut writes = Vec::new();
        for write in planned {
            if let Planned::Record(recorded) = write {
                let mut reported = stored.clone();
                reported.status = Some((**recorded).clone());
                writes.push(Write::status_in_parts(&stored, &reported));
                stored = reported;
            } else {
                writes.extend(self.to_write(write));
            }
        }
        if let Some(new) = status {
            let mut reported = stored.clone();
            reported.status = Some(new.status.clone());
            writes.push(Write::status_in_parts(&stored, &reported).deferrable_for(new.defer));
        }
        writes
    }

    /// `None` if the object is not in the observation; a plan never refers to such an object.
    fn to_write(&self, planned: &Planned) -> Option<Write> {
        let run = &*self.observation.run;
        match planned {
            Planned::AddFinalizer => {
                let mut changed = meta::with_finalizer(run, finalizers::UPDATE_RUN);
                changed.spec.resource_snapshot_index.get_or_insert_default();
                Some(Write::change(run, &changed))
            }
            Planned::RemoveFinalizer => Some(Write::change(run, &meta::without_finalizer(run, finalizers::UPDATE_RUN))),
            Planned::Content(write) => self.content(write),
            Planned::MoveBinding(change) => Some(update_binding(self.binding(&change.binding)?, change)),
            Planned::RenewMovedBy { binding, moved_by } => {
                let old = self.binding(binding)?;
                let mut changed = old.clone();
                meta::annotate(&mut changed, annotations::MOVED_BY_RUN, moved_by.to_string());
                Some(Write::change(old, &changed))
            }
            Planned::DeleteBinding { binding } => {
                let binding = self.binding(binding)?;
                let version = binding.metadata.resource_version.clone().unwrap_or_default();
                Some(Write::delete(binding).of_version(version))
            }
            Planned::RequestApproval(new) => Some(Write::create(&new.object::<S>())),
            Planned::AcceptApproval { request, generation } => {
                let old = self.approval(request)?;
                let mut accepted = old.clone();
                let conditions = &mut accepted.status.get_or_insert_default().conditions;
                put(conditions, ApprovalAccepted::Accepted.finding(*generation), self.now);
                Some(Write::status(old, &accepted))
            }
            Planned::DeleteRequest { request } => Some(Write::delete(self.approval(request)?)),
            // Handled by `to_writes`.
            Planned::Record(_) => None,
        }
    }

    /// Same writes as the placement controller.
    fn content(&self, write: &fleet_core::placement::Write) -> Option<Write> {
        let executor = placement::Executor {
            key: self.observation.placement_key.as_ref()?,
            placement: &**self.observation.placement.as_ref()?,
            policy_snapshots: BTreeMap::new(),
            resource_snapshots: self.observation.resource_snapshots.iter().map(|one| (one.name(), &**one)).collect(),
        };
        executor.write(write.clone())
    }

    fn binding(&self, name: &str) -> Option<&Obj<Binding, S>> {
        self.observation.bindings.iter().map(|one| &**one).find(|one| one.name() == name)
    }

    fn approval(&self, name: &str) -> Option<&Obj<Approval, S>> {
        self.observation.approvals.iter().map(|one| &**one).find(|one| one.name() == name)
    }

    /// Events about the run, and about its placement once a binding has content.
    pub(super) fn events(&self, run_events: &[RunEvent], planned: &[Planned]) -> Vec<KubeEvent> {
        let run = &*self.observation.run;
        let is_rolled_out = planned.iter().any(|write| matches!(write, Planned::MoveBinding(_)))
            || self.observation.bindings.iter().any(|binding| !binding.spec.resource_snapshot_name.is_empty());
        let placement = self.observation.placement.as_deref().filter(|_| is_rolled_out);
        let mut events = Vec::new();
        for event in run_events {
            events.push(KubeEvent::about(run, event));
            events.extend(placement.map(|one| KubeEvent::about(one, event).with_message(event.about_run(run.name()))));
        }
        events
    }
}

fn update_binding<S: Scope>(binding: &Obj<Binding, S>, change: &BindingChange) -> Write {
    let mut changed = binding.clone();
    let spec = &mut changed.spec;
    spec.state = BindingState::Bound;
    spec.resource_snapshot_name.clone_from(&change.resource_snapshot);
    spec.resource_override_snapshots = non_empty(&change.overrides);
    spec.cluster_resource_override_snapshots = non_empty(&change.cluster_overrides);
    spec.apply_strategy = Some(change.apply_strategy.clone());
    meta::annotate(&mut changed, annotations::MOVED_BY_RUN, change.moved_by.to_string());
    Write::change(binding, &changed)
}

fn non_empty<T: Clone>(list: &[T]) -> Option<Vec<T>> {
    (!list.is_empty()).then(|| list.to_vec())
}

/// The runs that own a binding which this run waits for. Their status must be stored before this run takes it over.
pub(super) fn owners_to_flush<S: Scope>(key: &ObjectKey, plan: &Plan) -> Vec<(KindId, ObjectKey)> {
    let owners = plan.report.blockers.iter().filter_map(|blocker| match &blocker.cause {
        Cause::MoveNotRecorded { run, .. } => Some(ObjectKey::new(key.namespace(), run)),
        _ => None,
    });
    let owners: BTreeSet<ObjectKey> = owners.collect();
    owners.into_iter().map(|owner| (KindId::of::<Obj<UpdateRun, S>>(), owner)).collect()
}

/// Whether the plan would fail the run on facts that may be outdated.
pub(super) fn needs_confirmation(plan: &Plan) -> bool {
    let is_stale = |blocker: &Blocker| matches!(blocker.cause, Cause::ObservationStale);
    plan.report.outcome == RunOutcome::Retrying && plan.report.blockers.iter().any(is_stale)
}

/// One line for the log.
pub(super) fn log_note(plan: &Plan) -> String {
    let causes: Vec<String> = plan.report.blockers.iter().map(|blocker| format!("{:?}", blocker.cause)).collect();
    format!("{:?}: {}", plan.report.outcome, causes.join("; "))
}
