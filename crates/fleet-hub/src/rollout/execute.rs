//! Turns a plan into API writes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fleet_api::kinds::{Binding, Obj, Scope};
use fleet_api::types::DeletePropagationPolicy;
use fleet_api::well_known::annotations;
use fleet_core::plan::ObjectWrite as _;
use fleet_core::rollout::{Plan, RolloutOutcome, Write as Planned, set_rollout_started};
use fleet_runtime::{Actions, PlanResult, Write};
use jiff::Timestamp;

use crate::meta::{self, changed};

/// How long the RolloutStarted condition may be deferred. Longer than the window of the work generator
/// (`STATUS_WINDOW`), whose status write usually sets RolloutStarted too.
const ROLLOUT_STARTED_WINDOW: Duration = Duration::from_secs(2);

pub(super) fn execute<S: Scope>(plan: &Plan, bindings: &BTreeMap<&str, &Obj<Binding, S>>, now: Timestamp) -> Actions {
    let mut actions = Actions::none().with_wake(plan.wake);
    let changed_bindings: BTreeSet<&str> =
        plan.writes.iter().filter(|write| !write.is_deferrable()).map(|write| write.object().1).collect();
    for planned in &plan.writes {
        // A changed binding gets a new generation; the next plan sets its condition.
        if planned.is_deferrable() && changed_bindings.contains(planned.object().1) {
            continue;
        }
        if let Some(binding) = bindings.get(planned.object().1) {
            actions.write(to_write(planned, binding, now));
        }
    }
    actions.note = Some(format!("{:?}", plan.report.outcome));
    if let RolloutOutcome::Stopped(fault) = &plan.report.outcome {
        actions.result = PlanResult::blocked(fault);
    }
    actions
}

fn to_write<S: Scope>(planned: &Planned, binding: &Obj<Binding, S>, now: Timestamp) -> Write {
    match planned {
        Planned::SetApplyStrategy { strategy, .. } => {
            changed(binding, |binding| binding.spec.apply_strategy = Some(strategy.clone()))
        }
        Planned::Move(content) => changed(binding, |binding| content.apply_to(&mut binding.spec)),
        Planned::Remove { .. } => {
            Write::delete(binding).of_version(binding.metadata.resource_version.clone().unwrap_or_default())
        }
        Planned::Abandon { .. } => changed(binding, |binding| {
            let word = DeletePropagationPolicy::Abandon.as_str().to_owned();
            meta::annotate(binding, annotations::DELETE_PROPAGATION, word);
        }),
        Planned::SetRolloutStarted { started, .. } => {
            let mut updated = binding.clone();
            let conditions = &mut updated.status.get_or_insert_default().conditions;
            set_rollout_started(conditions, started, binding.generation(), now);
            Write::status(binding, &updated).deferrable(ROLLOUT_STARTED_WINDOW)
        }
    }
}
