//! Staged update runs: what a placement has captured goes to its clusters stage by stage, through gates that people open.
//!
//! Decides from the run, its placement, policy snapshot, bindings, strategy, member clusters and approval requests: which
//! bindings are moved or deleted, which approvals are asked for and accepted, and what the run's status says. One code for both
//! scopes: a run with a namespace is a StagedUpdateRun. A plan wakes by time only for timed waits and for clusters that take too
//! long. Never schedules, and never touches a placement that is not External.
//!
//! | file | step |
//! |---|---|
//! | `observed`, `note` | the facts; what a run notes on a binding |
//! | `ground`, `stages`, `task_rules`, `concurrency` | what a run stands on; who is updated when; how many at a time |
//! | `initialize`, `content` | the first look: everything is recorded, the content is fixed |
//! | `validate` | every later look: does it still hold? |
//! | `execute`, `gates`, `clusters`, `evidence` | stages, approvals and waits, clusters and what proves that they are done |
//! | `rivals` | other runs of the same placement |
//! | `delete_stage`, `stop` | removal of what is no longer wanted; coming to rest |
//! | `deletion` | what happens in the end |
//! | `pass`, `halt`, `changes` | one look, why it ends early, what it changes |
//! | `report`, `remedy`, `outline`, `metrics` | what was found out, as values |

mod changes;
mod clusters;
mod concurrency;
mod content;
mod delete_stage;
mod deletion;
pub(crate) mod duration;
mod evidence;
mod execute;
mod gates;
mod ground;
mod halt;
mod initialize;
mod metrics;
mod note;
mod numbers;
mod observed;
mod outline;
mod pass;
mod remedy;
mod report;
mod rivals;
mod stages;
mod stop;
mod task_rules;
mod validate;

#[cfg(test)]
pub(crate) mod tests;

use fleet_api::conditions::run_fault::RunFailure;
use fleet_api::conditions::update_run::UpdateRunProgressingReason;
use fleet_api::types::{ApplyStrategy, NamespacedName, UpdateRunState, UpdateRunStatus};
use jiff::Timestamp;

pub use evidence::Progress;
pub use gates::NewRequest;
pub use metrics::{ApprovalLatency, FailureType, StatusSeries, approval_latencies, stage_durations, status_series};
pub use note::Note;
pub use observed::{
    ApprovalFacts, BindingFacts, MatchedOverrides, MemberFacts, NoOverrides, Observed, Overrides, PolicySnapshotFacts,
    RivalFacts, RunFacts, Settings, Unmatched,
};
pub use outline::outline;
pub use remedy::Remedy;
pub use report::{Blocker, Cause, ClusterStep, Object, Outcome, Report, StageReport, StageStep};

use crate::placement;
use crate::plan::{self, ObjectWrite, Wake};
use ground::Targets;
use halt::Halt;
use pass::Pass;
use validate::Position;

pub type Plan = plan::Plan<Write, NewStatus, Report>;

/// One write to the run or to something that it directs.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Adds our finalizer to the run, and stores that it names no index where it names none.
    HoldRun,
    /// Takes our finalizer from the run.
    ReleaseRun,
    /// Captures the placement's content, as the placement itself would.
    Content(placement::Write),
    /// Stores the run's status before the first binding moves, so that a restart finds the same content and stages.
    Record(Box<UpdateRunStatus>),
    /// To be carried out on the version of the binding that was observed: if another run was faster, the plan is void.
    MoveBinding(Box<BindingChange>),
    /// Asks the work generator to say `RolloutStarted` of a binding that has the content already.
    RenewNote {
        binding: String,
        note: Note,
    },
    DeleteBinding {
        binding: String,
    },
    RequestApproval(NewRequest),
    /// Puts `ApprovalAccepted` on a request.
    AcceptApproval {
        request: String,
        generation: i64,
    },
    DeleteRequest {
        request: String,
    },
}

/// What a binding asks for from now on. Its state becomes Bound; one write for all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingChange {
    pub binding: String,
    pub resource_snapshot: String,
    pub overrides: Vec<NamespacedName>,
    pub cluster_overrides: Vec<String>,
    pub apply_strategy: ApplyStrategy,
    /// Goes into the binding's annotations.
    pub note: Note,
}

/// A status to write.
#[derive(Debug, Clone, PartialEq)]
pub struct NewStatus {
    pub status: UpdateRunStatus,
    /// Given where more is sure to follow by itself: such a status may be held back until then, counted from the first one
    /// that was held. Until it is written, plans are made on it as if it had been (see [`RunFacts::stored`]).
    pub interim: Option<Timestamp>,
}

impl ObjectWrite for Write {
    fn object(&self) -> (&'static str, &str) {
        match self {
            Write::HoldRun | Write::ReleaseRun => ("run", ""),
            Write::Content(write) => write.object(),
            Write::Record(_) => ("run status", ""),
            Write::MoveBinding(change) => ("binding", &change.binding),
            Write::RenewNote { binding, .. } | Write::DeleteBinding { binding } => ("binding", binding),
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

    fn lets_subject_go(&self) -> bool {
        matches!(self, Write::ReleaseRun)
    }
}

/// What to do so that the run gets as far as it may at this moment.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let plan = if observed.run.deleting { deletion::plan(observed) } else { keep_going(observed, now) };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

fn keep_going(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let mut pass = Pass::new(observed, now);
    pass.writes.extend((!observed.run.held).then_some(Write::HoldRun));
    if let Some(outcome) = ended(&pass) {
        let report = Report { stages: outline(&pass.status), ..Report::of(outcome) };
        return Plan { writes: pass.writes, ..Plan::nothing(report) };
    }
    let started = if pass.initialized().is_true() { go_on(&mut pass) } else { begin(&mut pass) };
    match started {
        Ok((outcome, ahead)) => conclude(pass, outcome, None, ahead),
        Err(Stop::Failed(outcome, failure)) => conclude(pass, outcome, Some(failure), None),
        Err(Stop::Unknown(halt)) => {
            let mut report =
                Report { stages: observed.run.status.map_or(Vec::new(), outline), ..Report::of(Outcome::Retrying) };
            report.blockers.push(halt.blocker());
            let hold = pass.writes.into_iter().filter(|write| *write == Write::HoldRun).collect();
            Plan { writes: hold, ..Plan::nothing(report) }
        }
    }
}

/// Why a look at a run did not come to a regular end.
enum Stop {
    /// The run is over.
    Failed(Outcome, RunFailure),
    /// Nothing can be said yet, so nothing is.
    Unknown(Halt),
}

/// What a run that rests would fail on.
type Ahead = Option<RunFailure>;

fn ended(pass: &Pass<'_>) -> Option<Outcome> {
    if pass.initialized().is_false() {
        return Some(Outcome::InitializationFailed);
    }
    let succeeded = pass.succeeded();
    let over = pass.initialized().is_true() && succeeded.current().is_some();
    over.then(|| if succeeded.is_true() { Outcome::Succeeded } else { Outcome::Failed })
}

fn begin(pass: &mut Pass<'_>) -> Result<(Outcome, Ahead), Stop> {
    let targets =
        initialize::initialize(pass).map_err(|halt| final_or_not(pass, Outcome::InitializationFailed, halt))?;
    if pass.observed.run.spec.state() == UpdateRunState::Run {
        pass.writes.push(Write::Record(Box::new(pass.status.clone())));
    }
    act(pass, &targets, Position::At(0)).map(|outcome| (outcome, None))
}

fn go_on(pass: &mut Pass<'_>) -> Result<(Outcome, Ahead), Stop> {
    let valid = validate::validate(pass);
    if let Some(outcome) = at_rest(pass) {
        let ahead = valid.err().and_then(|halt| match halt {
            Halt::Fault(fault) if fault.is_terminal() => Some(fault.into()),
            Halt::Fault(_) | Halt::Unknown(_) => None,
        });
        return Ok((outcome, ahead));
    }
    let (targets, position) = valid.map_err(|halt| final_or_not(pass, Outcome::Failed, halt))?;
    act(pass, &targets, position).map(|outcome| (outcome, None))
}

/// A run that was not asked to run, or has stopped, is left alone until it is: what changes meanwhile may change back.
fn at_rest(pass: &mut Pass<'_>) -> Option<Outcome> {
    match pass.observed.run.spec.state() {
        UpdateRunState::Initialize => {
            pass.blockers.push(Blocker::about_run(Cause::NotAskedToRun));
            Some(Outcome::Idle)
        }
        UpdateRunState::Stop if pass.progressing().reason() == Some(UpdateRunProgressingReason::Stopped) => {
            pass.blockers.push(Blocker::about_run(Cause::AskedToStop));
            Some(Outcome::Stopped)
        }
        UpdateRunState::Stop | UpdateRunState::Run => None,
    }
}

fn final_or_not(pass: &Pass<'_>, outcome: Outcome, halt: Halt) -> Stop {
    match halt {
        Halt::Fault(fault) if fault.is_terminal() => final_if_settled(pass, outcome, fault.into()),
        halt => Stop::Unknown(halt),
    }
}

/// What does not fit may be what is not known yet: no run ends on facts that lag.
fn final_if_settled(pass: &Pass<'_>, outcome: Outcome, failure: RunFailure) -> Stop {
    if pass.observed.settled {
        return Stop::Failed(outcome, failure);
    }
    Stop::Unknown(Halt::Unknown(Cause::FactsBehind))
}

fn act(pass: &mut Pass<'_>, targets: &Targets<'_>, position: Position) -> Result<Outcome, Stop> {
    let Position::At(stage) = position else {
        pass.succeed();
        return Ok(Outcome::Succeeded);
    };
    let done = match pass.observed.run.spec.state() {
        UpdateRunState::Initialize => {
            pass.blockers.push(Blocker::about_run(Cause::NotAskedToRun));
            Ok(Outcome::Idle)
        }
        UpdateRunState::Run => execute::run(pass, targets, stage),
        UpdateRunState::Stop => stop::stop(pass, targets, stage),
    };
    done.map_err(|failure| final_if_settled(pass, Outcome::Failed, failure))
}

fn conclude(mut pass: Pass<'_>, outcome: Outcome, failure: Option<RunFailure>, ahead: Ahead) -> Plan {
    if let Some(failure) = &failure {
        if outcome == Outcome::Failed {
            pass.fail(failure);
        }
        pass.blockers = failure.0.iter().map(Blocker::of_fault).collect();
        pass.wake = Wake::OnChange;
    }
    let report = Report {
        outcome,
        stages: outline(&pass.status),
        ahead,
        events: changes::events(&pass, failure.as_ref()),
        blockers: std::mem::take(&mut pass.blockers),
    };
    let interim = changes::held_until(pass.observed.run.stored, &pass.status, pass.pen.now);
    let is_new = pass.observed.run.status != Some(&pass.status);
    let status = is_new.then_some(NewStatus { status: pass.status, interim });
    Plan { writes: pass.writes, status, wake: pass.wake, report }
}
