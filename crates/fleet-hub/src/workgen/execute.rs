//! Turns a plan into API writes and events.

use fleet_api::kinds::{Scope, Work};
use fleet_api::types::DeletePropagationPolicy;
use fleet_api::well_known::{annotations, finalizers};
use fleet_core::workgen::{Plan, SyncError, SyncOutcome, WorkChange, Write as Planned};
use fleet_runtime::{Actions, KindId, KubeEvent, ObjectKey, PatchFormat, Write};

use super::observe::Observation;
use crate::meta::{self, changed};

pub(super) fn execute<S: Scope>(observation: &Observation<S>, plan: Plan) -> Actions {
    let mut actions = Actions::none();
    for planned in plan.writes {
        actions.writes.extend(to_write(observation, planned));
    }
    if let Some(new) = plan.status {
        let mut updated = (*observation.binding).clone();
        updated.status = Some(new.status);
        actions.write(Write::status(&*observation.binding, &updated).deferrable_for(new.defer));
    }
    actions.events.extend(plan.report.events.iter().map(|event| KubeEvent::about(&*observation.binding, event)));
    if let SyncOutcome::Failed(error) = &plan.report.outcome
        && !matches!(error, SyncError::WorkStillDeleting { .. })
    {
        tracing::info!(binding = %ObjectKey::of(&*observation.binding), %error, "cannot synchronize works");
    }
    actions.note = Some(format!("{:?}", plan.report.outcome));
    actions
}

/// `None` if the Work is not in the observation; a plan never refers to such a Work.
fn to_write<S: Scope>(observation: &Observation<S>, planned: Planned) -> Option<Write> {
    let binding = &*observation.binding;
    match planned {
        Planned::AddFinalizer => Some(Write::change(binding, &meta::with_finalizer(binding, finalizers::WORK))),
        Planned::RemoveFinalizer => Some(Write::change(binding, &meta::without_finalizer(binding, finalizers::WORK))),
        Planned::CreateWork(new) => Some(Write::create(&new.into_object()).report_rejection()),
        Planned::ChangeWork(change) => observation.work(&change.name).map(|work| patched(work, change)),
        Planned::AbandonWork { work } => observation.work(&work).map(|work| {
            changed(work, |work| {
                let word = DeletePropagationPolicy::Abandon.as_str().to_owned();
                meta::annotate(work, annotations::DELETE_PROPAGATION, word);
            })
        }),
        Planned::DeleteWork { work } => observation.work(&work).map(Write::delete),
    }
}

/// A patch of the observed Work that does not depend on its resourceVersion, because members update the status often.
fn patched(work: &Work, change: WorkChange) -> Write {
    let mut body = change.into_merge_patch();
    if let Some(uid) = &work.metadata.uid {
        body["metadata"]["uid"] = uid.as_str().into();
    }
    Write::patch_raw(KindId::of::<Work>(), ObjectKey::of(work), PatchFormat::Merge, body).report_rejection()
}
