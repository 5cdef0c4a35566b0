//! How each write of a run's plan becomes a request, and what is told to whom.
//!
//! Decides that bindings are moved and deleted only in the version that was observed, and that a placement hears of a run
//! once something was rolled out. Never decides what is written.

use std::collections::BTreeMap;

use fleet_api::conditions::approval::ApprovalAccepted;
use fleet_api::conditions::events::RunEvent;
use fleet_api::conditions::{ConditionState as _, put};
use fleet_api::kinds::{Approval, Binding, Obj, Scope};
use fleet_api::types::{BindingState, UpdateRunStatus};
use fleet_api::well_known::{annotations, finalizers};
use fleet_core::updaterun::{BindingChange, Write as Planned};
use fleet_runtime::{KubeEvent, Write};
use jiff::Timestamp;

use super::sight::Sight;
use crate::meta;
use crate::placement;

/// What a plan's writes refer to.
#[derive(Debug)]
pub(super) struct Performer<'a, S: Scope> {
    pub(super) sight: &'a Sight<S>,
    pub(super) now: Timestamp,
}

impl<S: Scope> Performer<'_, S> {
    /// The requests of all writes, in order, and then the status if it is to be written now.
    pub(super) fn requests(&self, planned: &[Planned], status: Option<&UpdateRunStatus>) -> Vec<Write> {
        let run = &*self.sight.run;
        let mut stored = run.clone();
        let mut requests = Vec::new();
        for write in planned {
            if let Planned::Record(recorded) = write {
                let mut reported = stored.clone();
                reported.status = Some((**recorded).clone());
                requests.push(Write::status_in_parts(&stored, &reported));
                stored = reported;
            } else {
                requests.extend(self.request(write));
            }
        }
        if let Some(status) = status {
            let mut reported = stored.clone();
            reported.status = Some(status.clone());
            requests.push(Write::status_in_parts(&stored, &reported));
        }
        requests
    }

    /// `None` for objects that were not observed, of which no plan speaks.
    fn request(&self, planned: &Planned) -> Option<Write> {
        let run = &*self.sight.run;
        match planned {
            Planned::HoldRun => {
                let mut held = meta::with_finalizer(run, finalizers::UPDATE_RUN);
                held.spec.resource_snapshot_index.get_or_insert_default();
                Some(Write::change(run, &held))
            }
            Planned::ReleaseRun => Some(Write::change(run, &meta::without_finalizer(run, finalizers::UPDATE_RUN))),
            Planned::Content(write) => self.content(write),
            Planned::MoveBinding(change) => Some(moved(self.binding(&change.binding)?, change)),
            Planned::RenewNote { binding, note } => {
                let old = self.binding(binding)?;
                let mut noted = old.clone();
                meta::annotate(&mut noted, annotations::MOVED_BY_RUN, note.to_string());
                Some(Write::change(old, &noted))
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
            // Written where the plan is walked through.
            Planned::Record(_) => None,
        }
    }

    /// As the placement itself would do it.
    fn content(&self, write: &fleet_core::placement::Write) -> Option<Write> {
        let performer = placement::Performer {
            key: self.sight.placement_key.as_ref()?,
            placement: &**self.sight.placement.as_ref()?,
            policy_snapshots: BTreeMap::new(),
            resource_snapshots: self.sight.resource_snapshots.iter().map(|one| (meta::name(&**one), &**one)).collect(),
        };
        performer.write(write.clone())
    }

    fn binding(&self, name: &str) -> Option<&Obj<Binding, S>> {
        self.sight.bindings.iter().map(|one| &**one).find(|one| meta::name(*one) == name)
    }

    fn approval(&self, name: &str) -> Option<&Obj<Approval, S>> {
        self.sight.approvals.iter().map(|one| &**one).find(|one| meta::name(*one) == name)
    }

    /// What is told about the run, and about its placement once that has something on a cluster.
    pub(super) fn events(&self, happened: &[RunEvent], planned: &[Planned]) -> Vec<KubeEvent> {
        let run = &*self.sight.run;
        let is_rolled_out = planned.iter().any(|write| matches!(write, Planned::MoveBinding(_)))
            || self.sight.bindings.iter().any(|binding| !binding.spec.resource_snapshot_name.is_empty());
        let placement = self.sight.placement.as_deref().filter(|_| is_rolled_out);
        let mut events = Vec::new();
        for event in happened {
            events.push(KubeEvent::about(run, event));
            events.extend(placement.map(|one| KubeEvent::about(one, event).saying(event.about_run(meta::name(run)))));
        }
        events
    }
}

fn moved<S: Scope>(binding: &Obj<Binding, S>, change: &BindingChange) -> Write {
    let mut changed = binding.clone();
    let spec = &mut changed.spec;
    spec.state = BindingState::Bound;
    spec.resource_snapshot_name.clone_from(&change.resource_snapshot);
    spec.resource_override_snapshots = some(&change.overrides);
    spec.cluster_resource_override_snapshots = some(&change.cluster_overrides);
    spec.apply_strategy = Some(change.apply_strategy.clone());
    meta::annotate(&mut changed, annotations::MOVED_BY_RUN, change.note.to_string());
    Write::change(binding, &changed)
}

fn some<T: Clone>(list: &[T]) -> Option<Vec<T>> {
    (!list.is_empty()).then(|| list.to_vec())
}
