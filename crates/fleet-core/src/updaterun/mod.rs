//! Staged update runs: roll out a placement's resource snapshot stage by stage, with approvals and timed waits between
//! stages.
//!
//! [`plan`] reads the run, its placement, policy snapshot, bindings, strategy, member clusters and approval requests.
//! It returns the bindings to update or delete, the approval requests to create or accept, and the new status of the
//! run. A run with a namespace is a StagedUpdateRun, one without is a ClusterStagedUpdateRun; both use this code. A
//! plan asks for a requeue at a given time only for timed waits and for the deadlines of slow clusters.
//!
//! | file | step |
//! |---|---|
//! | `observed` | the input of a plan |
//! | `context` | state of one planning call, the condition writer, errors |
//! | `prerequisites` | placement, policy, bindings and tasks that a run needs |
//! | `stages` | which cluster is in which stage, how many are updated at once |
//! | `initialize` | first plan: record stages, snapshot and overrides |
//! | `validate` | every later plan: does the recorded status still match? |
//! | `execute`, `gates`, `clusters`, `binding` | stages, approvals and waits, clusters, what a binding proves |
//! | `remove`, `stop` | delete stage and deletion of the run; stopping |
//! | `status` | events, when a status write may be deferred, overview of stages |
//! | `report`, `metrics` | results as values |

mod binding;
mod clusters;
mod context;
mod execute;
mod gates;
mod initialize;
mod metrics;
mod observed;
mod prerequisites;
mod remove;
mod report;
mod stages;
mod status;
mod stop;
mod validate;

#[cfg(test)]
pub(crate) mod tests;

use fleet_api::conditions::run_fault::RunFailure;
use fleet_api::conditions::update_run::UpdateRunProgressingReason;
use fleet_api::types::{ApplyStrategy, NamespacedName, UpdateRunState, UpdateRunStatus};
use jiff::Timestamp;

pub use binding::{MovedBy, Progress};
pub use gates::NewRequest;
pub use metrics::{ApprovalLatency, FailureType, StatusSeries, approval_latencies, stage_durations, status_series};
pub use observed::{
    ApprovalFacts, BindingFacts, ConcurrentRunFacts, MatchedOverrides, MemberFacts, NoOverrides, Observed, Overrides,
    PolicySnapshotFacts, RunFacts, Settings, Unmatched,
};
pub use report::{Blocker, Cause, ClusterStep, Object, Report, RunOutcome, StageReport, StageStep};
pub use status::outline;

use crate::placement;
use crate::plan::{self, ObjectWrite, StatusWrite, Wake};
use context::{PlanContext, StepError};
use prerequisites::Targets;
use validate::Position;

pub type Plan = plan::Plan<Write, StatusWrite<UpdateRunStatus>, Report>;

/// One write to the run or to something that it directs.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Adds our finalizer. If the run names no snapshot index, also stores the empty index.
    AddFinalizer,
    /// Removes our finalizer.
    RemoveFinalizer,
    /// Creates the resource snapshots of the placement, as the placement controller would.
    Content(placement::Write),
    /// Stores the run's status before the first binding moves, so that a restart finds the same content and stages.
    Record(Box<UpdateRunStatus>),
    /// Must use the observed resourceVersion of the binding: if another run was faster, the write must conflict.
    MoveBinding(Box<BindingChange>),
    /// Updates the annotation of a binding that already has the content, so that the work generator sets
    /// `RolloutStarted`.
    RenewMovedBy {
        binding: String,
        moved_by: MovedBy,
    },
    DeleteBinding {
        binding: String,
    },
    RequestApproval(NewRequest),
    /// Sets `ApprovalAccepted` on a request.
    AcceptApproval {
        request: String,
        generation: i64,
    },
    DeleteRequest {
        request: String,
    },
}

/// The new spec of a binding, in one write. Its state becomes Bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingChange {
    pub binding: String,
    pub resource_snapshot: String,
    pub overrides: Vec<NamespacedName>,
    pub cluster_overrides: Vec<String>,
    pub apply_strategy: ApplyStrategy,
    /// Stored as an annotation of the binding.
    pub moved_by: MovedBy,
}

impl ObjectWrite for Write {
    fn object(&self) -> (&'static str, &str) {
        match self {
            Write::AddFinalizer | Write::RemoveFinalizer => ("run", ""),
            Write::Content(write) => write.object(),
            Write::Record(_) => ("run status", ""),
            Write::MoveBinding(change) => ("binding", &change.binding),
            Write::RenewMovedBy { binding, .. } | Write::DeleteBinding { binding } => ("binding", binding),
            Write::RequestApproval(new) => ("approval request", &new.name),
            Write::AcceptApproval { request, .. } => ("approval request status", request),
            Write::DeleteRequest { request } => ("approval request", request),
        }
    }

    fn is_deletion(&self) -> bool {
        match self {
            Write::DeleteBinding { .. } | Write::DeleteRequest { .. } => true,
            Write::Content(write) => write.is_deletion(),
            _ => false,
        }
    }

    fn removes_finalizer(&self) -> bool {
        matches!(self, Write::RemoveFinalizer)
    }
}

/// Plans the next step of a run.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let plan = if observed.run.deleting { remove::delete_run(observed) } else { plan_existing(observed, now) };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

fn plan_existing(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let mut context = PlanContext::new(observed, now);
    context.writes.extend((!observed.run.has_finalizer).then_some(Write::AddFinalizer));
    if let Some(outcome) = terminal_outcome(&context) {
        let report = Report { stages: outline(&context.status), ..Report::of(outcome) };
        return Plan { writes: context.writes, ..Plan::nothing(report) };
    }
    let started = if context.initialized().is_true() { continue_run(&mut context) } else { start_run(&mut context) };
    match started {
        Ok((outcome, failure_preview)) => finish_plan(context, outcome, None, failure_preview),
        Err(PlanError::Failed(outcome, failure)) => finish_plan(context, outcome, Some(failure), None),
        Err(PlanError::Unknown(error)) => {
            let mut report =
                Report { stages: observed.run.status.map_or(Vec::new(), outline), ..Report::of(RunOutcome::Retrying) };
            report.blockers.push(error.blocker());
            let finalizer = context.writes.into_iter().filter(|write| *write == Write::AddFinalizer).collect();
            Plan { writes: finalizer, ..Plan::nothing(report) }
        }
    }
}

/// Why planning ended early.
enum PlanError {
    /// The run has failed for good.
    Failed(RunOutcome, RunFailure),
    /// A retryable error. The status does not change.
    Unknown(StepError),
}

/// The failure that an idle or stopped run would have if it were resumed.
type FailurePreview = Option<RunFailure>;

fn terminal_outcome(context: &PlanContext<'_>) -> Option<RunOutcome> {
    if context.initialized().is_false() {
        return Some(RunOutcome::InitializationFailed);
    }
    let succeeded = context.succeeded();
    let over = context.initialized().is_true() && succeeded.current().is_some();
    over.then(|| if succeeded.is_true() { RunOutcome::Succeeded } else { RunOutcome::Failed })
}

fn start_run(context: &mut PlanContext<'_>) -> Result<(RunOutcome, FailurePreview), PlanError> {
    let targets = initialize::initialize(context)
        .map_err(|error| terminal_or_retry(context, RunOutcome::InitializationFailed, error))?;
    if context.observed.run.spec.state() == UpdateRunState::Run {
        context.writes.push(Write::Record(Box::new(context.status.clone())));
    }
    execute_state(context, &targets, Position::At(0)).map(|outcome| (outcome, None))
}

fn continue_run(context: &mut PlanContext<'_>) -> Result<(RunOutcome, FailurePreview), PlanError> {
    let valid = validate::validate(context);
    if let Some(outcome) = idle_outcome(context) {
        let failure_preview = valid.err().and_then(|error| match error {
            StepError::Fault(fault) if fault.is_terminal() => Some(fault.into()),
            StepError::Fault(_) | StepError::Unknown(_) => None,
        });
        return Ok((outcome, failure_preview));
    }
    let (targets, position) = valid.map_err(|error| terminal_or_retry(context, RunOutcome::Failed, error))?;
    execute_state(context, &targets, position).map(|outcome| (outcome, None))
}

/// The outcome of a run that is not started or is stopped. Such a run does not fail: an invalid change may be undone
/// before it is resumed.
fn idle_outcome(context: &mut PlanContext<'_>) -> Option<RunOutcome> {
    match context.observed.run.spec.state() {
        UpdateRunState::Initialize => {
            context.blockers.push(Blocker::about_run(Cause::NotAskedToRun));
            Some(RunOutcome::Idle)
        }
        UpdateRunState::Stop if context.progressing().reason() == Some(UpdateRunProgressingReason::Stopped) => {
            context.blockers.push(Blocker::about_run(Cause::AskedToStop));
            Some(RunOutcome::Stopped)
        }
        UpdateRunState::Stop | UpdateRunState::Run => None,
    }
}

fn terminal_or_retry(context: &PlanContext<'_>, outcome: RunOutcome, error: StepError) -> PlanError {
    match error {
        StepError::Fault(fault) if fault.is_terminal() => fail_if_confirmed(context, outcome, fault.into()),
        error => PlanError::Unknown(error),
    }
}

/// Fails the run only if the observation was confirmed against the API server: a mismatch may come from a lagging
/// watch.
fn fail_if_confirmed(context: &PlanContext<'_>, outcome: RunOutcome, failure: RunFailure) -> PlanError {
    if context.observed.confirmed {
        return PlanError::Failed(outcome, failure);
    }
    PlanError::Unknown(StepError::Unknown(Cause::ObservationStale))
}

fn execute_state(
    context: &mut PlanContext<'_>,
    targets: &Targets<'_>,
    position: Position,
) -> Result<RunOutcome, PlanError> {
    let Position::At(stage) = position else {
        context.succeed();
        return Ok(RunOutcome::Succeeded);
    };
    let done = match context.observed.run.spec.state() {
        UpdateRunState::Initialize => {
            context.blockers.push(Blocker::about_run(Cause::NotAskedToRun));
            Ok(RunOutcome::Idle)
        }
        UpdateRunState::Run => execute::run(context, targets, stage),
        UpdateRunState::Stop => stop::stop(context, targets, stage),
    };
    done.map_err(|failure| fail_if_confirmed(context, RunOutcome::Failed, failure))
}

fn finish_plan(
    mut context: PlanContext<'_>,
    outcome: RunOutcome,
    failure: Option<RunFailure>,
    failure_preview: FailurePreview,
) -> Plan {
    if let Some(failure) = &failure {
        if outcome == RunOutcome::Failed {
            context.fail(failure);
        }
        context.blockers = failure.0.iter().map(Blocker::of_fault).collect();
        context.wake = Wake::OnChange;
    }
    let report = Report {
        outcome,
        stages: outline(&context.status),
        failure_preview,
        events: status::events(&context, failure.as_ref()),
        blockers: std::mem::take(&mut context.blockers),
    };
    let defer = status::defer(context.observed.run.stored, &context.status, context.writer.now);
    let is_new = context.observed.run.status != Some(&context.status);
    let status = is_new.then_some(StatusWrite { status: context.status, defer });
    Plan { writes: context.writes, status, wake: context.wake, report }
}
