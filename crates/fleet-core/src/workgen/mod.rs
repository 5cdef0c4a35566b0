//! The work generator: makes Works from a binding, and the binding's status from the status of its Works.
//!
//! [`plan`] reads the binding, the snapshots that it names, its Works and the member's labels. It handles both scopes
//! and never requeues by time.
//!
//! | file | step |
//! |---|---|
//! | `observed` | the input of a plan |
//! | `contents` | which Works are needed, and their manifests |
//! | `sync`, `work` | the writes |
//! | `status`, `findings` | the binding's status |
//! | `report_back` | statuses that are copied to the resources on the hub |
//! | `report` | the result as values |

mod contents;
mod findings;
mod observed;
mod report;
pub mod report_back;
mod status;
mod sync;
mod work;

#[cfg(test)]
mod tests;

use fleet_api::conditions::binding::BindingRolloutStarted;
use fleet_api::conditions::events::BindingEvent;
use fleet_api::conditions::{ConditionStatus, decode};
use fleet_api::types::{BindingState, ResourceBindingStatus};
use jiff::Timestamp;

pub use contents::EnvelopeError;
pub(crate) use contents::envelope_error;
pub use observed::{BindingFacts, ContentDepth, Observed, ReportBack, RolloutStart, WorkFacts};
pub use report::{REJECTED_WORK_RETRY_MAX, Report, SyncError, SyncOutcome};
pub use work::{NewContent, NewWork, Strategies, WorkChange, WorkSource};

use crate::overrides::Target;
use crate::placement::PartFacts;
use crate::plan::{self, ObjectWrite, StatusWrite};
use crate::updaterun::MovedBy;
use status::{Draft, defer};
use sync::{SyncResult, own_works, sync};

pub type Plan = plan::Plan<Write, StatusWrite<ResourceBindingStatus>, Report>;

/// One write to the binding or to one of its Works.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Adds our finalizer to the binding.
    AddFinalizer,
    /// Removes our finalizer from the binding.
    RemoveFinalizer,
    CreateWork(NewWork),
    ChangeWork(WorkChange),
    /// Sets `annotations::DELETE_PROPAGATION` on a Work: its objects stay on the member.
    AbandonWork {
        work: String,
    },
    DeleteWork {
        work: String,
    },
}

impl Write {
    /// The Work that is written, if any.
    pub fn work(&self) -> Option<&str> {
        match self {
            Write::AddFinalizer | Write::RemoveFinalizer => None,
            Write::CreateWork(new) => Some(&new.name),
            Write::ChangeWork(change) => Some(&change.name),
            Write::AbandonWork { work } | Write::DeleteWork { work } => Some(work),
        }
    }
}

impl ObjectWrite for Write {
    fn object(&self) -> (&'static str, &str) {
        self.work().map_or(("binding", ""), |work| ("work", work))
    }

    fn is_deletion(&self) -> bool {
        matches!(self, Write::DeleteWork { .. })
    }

    fn removes_finalizer(&self) -> bool {
        matches!(self, Write::RemoveFinalizer)
    }
}

/// Plans the Works of a binding and the binding's status.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let plan = if observed.binding.deleting { delete_works(observed) } else { reconcile_works(observed, now) };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

/// Deletes the Works, then removes the finalizer. A Work that is stuck on its member does not block the binding.
///
/// If the objects stay on the member, the Work is annotated first, because the binding may be gone before the member
/// agent acts. The Works of a leaving member are deleted with its namespace, after the member has released them.
/// Deleting them earlier would remove the workloads that a leaving member is meant to keep.
fn delete_works(observed: &Observed<'_>) -> Plan {
    let mut plan = Plan::nothing(Report::of(SyncOutcome::Deleting));
    if observed.binding.has_finalizer {
        for work in own_works(observed).into_iter().filter(|_| !observed.leaving) {
            let name = || work.name.to_owned();
            let unmarked = observed.binding.abandoned && !work.abandoned;
            plan.writes.extend(unmarked.then(|| Write::AbandonWork { work: name() }));
            plan.writes.push(Write::DeleteWork { work: name() });
        }
        plan.writes.push(Write::RemoveFinalizer);
    }
    plan
}

fn reconcile_works(observed: &Observed<'_>, now: Timestamp) -> Plan {
    // An Unscheduled binding keeps its Works until it is deleted, unless it never had content.
    let is_bound = match observed.binding.state {
        BindingState::Bound => true,
        BindingState::Unscheduled => !observed.binding.resource_snapshot.is_empty(),
        _ => false,
    };
    if !is_bound {
        return Plan::nothing(Report::of(SyncOutcome::NotBound));
    }
    let Some(target) = &observed.cluster else { return Plan::nothing(Report::of(SyncOutcome::ClusterGone)) };
    let mut plan = Plan::nothing(Report::of(SyncOutcome::AwaitingRollout));
    plan.writes.extend((!observed.binding.has_finalizer).then_some(Write::AddFinalizer));
    match gate(observed) {
        Gate::Closed => {}
        Gate::Open => synchronize(observed, target, Draft::new(observed, now), &mut plan),
        Gate::OpenUnreported(started) => {
            let mut draft = Draft::new(observed, now);
            draft.set_rollout_started(&started);
            synchronize(observed, target, draft, &mut plan);
        }
    }
    plan
}

enum Gate {
    Closed,
    Open,
    /// The rollout has started, but the condition is missing.
    OpenUnreported(BindingRolloutStarted),
}

/// RolloutStarted=False also opens the gate: the Works of the current content must be kept in order.
fn gate(observed: &Observed<'_>) -> Gate {
    let binding = &observed.binding;
    let started = decode::<BindingRolloutStarted>(binding.conditions(), binding.generation).status();
    if *binding.state == BindingState::Unscheduled || started != ConditionStatus::Unknown {
        return Gate::Open;
    }
    let names_the_latest = observed.snapshots.iter().any(|snapshot| {
        snapshot.name == binding.resource_snapshot && matches!(&snapshot.part, PartFacts::Master(facts) if facts.latest)
    });
    let moved_by =
        binding.moved_by_run.and_then(MovedBy::parse).filter(|moved_by| moved_by.generation == binding.generation);
    match (observed.start, moved_by) {
        (RolloutStart::ImpliedByBinding, _) if names_the_latest => Gate::OpenUnreported(BindingRolloutStarted::Started),
        (RolloutStart::SetByRollout, Some(moved_by)) => Gate::OpenUnreported(moved_by.rollout_started()),
        _ => Gate::Closed,
    }
}

fn synchronize(observed: &Observed<'_>, target: &Target<'_>, draft: Draft<'_>, plan: &mut Plan) {
    let sync = sync(observed, target);
    plan.writes.extend(sync.writes);
    let (status, outcome) = match sync.result {
        SyncResult::NeedsContent => {
            plan.report.outcome = SyncOutcome::AwaitingContent;
            return;
        }
        SyncResult::NeedsDiscovery => {
            plan.report.outcome = SyncOutcome::AwaitingDiscovery;
            return;
        }
        SyncResult::Failed(error) => {
            plan.report.events.extend(event_of(observed, &error));
            draft.failed(error)
        }
        SyncResult::Synchronized(works) => draft.synchronized(&works),
    };
    if observed.binding.status != Some(&status) {
        plan.status = Some(StatusWrite { status, defer: defer(&outcome) });
    }
    plan.report.outcome = outcome;
}

fn event_of(observed: &Observed<'_>, error: &SyncError) -> Option<BindingEvent> {
    let SyncError::DuplicateEnvelopeWorks { envelope, works } = error else { return None };
    Some(BindingEvent::DuplicateEnvelopeWorks {
        works: works.join(" "),
        envelope: envelope.clone(),
        namespace: observed.namespace.to_string(),
    })
}
