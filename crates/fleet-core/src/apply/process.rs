//! Processes one manifest as a state machine: take over, compare, apply.
//!
//! Each `Step` is a request to the member or the hub; the caller makes it and passes the answer back. Ends after at
//! most five requests.

use std::collections::BTreeSet;

use fleet_api::conditions::work::ManifestAppliedReason;
use fleet_api::types::{ApplyStrategy, ApplyStrategyType, ComparisonOption, PatchDetail, WhenToApply, WhenToTakeOver};
use serde_json::Value;

use super::compare;
use super::desired::{self, Operation};
use super::manifest_hash;
use super::ownership::{Owner, may_apply, remaining_owners, with_owners, works_in_doubt};

/// One manifest and the rules for applying it.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    pub manifest: &'a Value,
    pub strategy: &'a ApplyStrategy,
    pub owner: &'a Owner,
    /// Names of Works that this member is known to have. An AppliedWork of any other name may be orphaned.
    pub works: &'a BTreeSet<String>,
}

/// A request to the member's API server.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// Forced server-side apply as a dry run.
    DryRun(Value),
    /// Replaces the live object, unless it has changed.
    Replace(Value),
    Write(Operation),
}

/// Why the member's API server failed the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiFailure {
    /// The HTTP status, if there was an answer.
    pub code: Option<u16>,
    pub message: String,
}

/// HTTP status of an object that the API server finds invalid.
const UNPROCESSABLE: u16 = 422;

/// The next step.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A request to the member; the answer goes to `Process::answered`.
    Ask(Request),
    /// A request to the hub: which of these Works exist? The answer goes to `Process::found`.
    FindWorks(BTreeSet<String>),
    Done(Processed),
}

/// The result of one manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct Processed {
    pub outcome: ManifestOutcome,
    /// The object as it was last read; `None` if it does not exist.
    pub live: Option<Value>,
    /// Fields that were changed on the member.
    pub drifts: Vec<PatchDetail>,
    /// Fields in which an object that existed before differs from the manifest.
    pub diffs: Vec<PatchDetail>,
}

/// The outcome for one manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestOutcome {
    Applied,
    AppliedWithFailedDriftDetection,
    NotApplied { reason: ManifestAppliedReason, error: String },
    NoDiffFound,
    FoundDiff,
    FoundDiffInDegradedMode,
    FailedToReportDiff { error: String },
}

impl ManifestOutcome {
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied | Self::AppliedWithFailedDriftDetection)
    }
}

const TAKE_OVER: &str = "failed to take over a pre-existing object: ";
const APPLY: &str = "failed to apply the manifest: ";
const DEGRADED: &str = " in degraded mode (full comparison is performed instead of partial comparison, as the manifest object is considered to be invalid by the member cluster API server)";
const CANNOT_TAKE_OVER: &str = "cannot take over object: configuration differences are found between the manifest object and the corresponding object in the member cluster";
const CANNOT_APPLY: &str =
    "cannot apply manifest: drifts are found between the manifest and the object from the member cluster";
const DIFF_FAILED: &str =
    "failed to calculate configuration diffs between the manifest object and the object from the member cluster: ";
const DRIFT_FAILED: &str =
    "failed to calculate pre-apply drifts between the manifest and the object from the member cluster: ";
/// Prefix of errors, as in KubeFleet's agents. Server-side apply has a prefix of its own.
const API_ERROR: &str = "error returned by the API server: ";
const SERVER_SIDE_APPLY: &str = "failed to apply the manifest object: an error is returned by the API server: ";
const LEFT_BEHIND: &str = "failed to remove left-behind AppliedWork owner references: failed to get the Work object: ";

/// The state of processing one manifest.
#[derive(Debug)]
pub struct Process<'a> {
    task: Task<'a>,
    live: Option<Value>,
    /// What the next answer is about.
    awaited: Awaited,
}

#[derive(Debug)]
enum Awaited {
    Nothing,
    Works,
    Comparison(Purpose),
    TakeOver,
    Write { what: &'static str, class: &'static str },
}

/// Why manifest and live object are compared.
#[derive(Debug, Clone, PartialEq)]
enum Purpose {
    /// To become an owner besides these if there is no difference.
    TakeOver {
        remaining: Vec<Value>,
    },
    ReportDiff,
    Drift,
}

/// The result of a comparison.
struct Comparison {
    details: Vec<PatchDetail>,
    /// The server finds the manifest invalid, so all fields were compared.
    degraded: bool,
}

impl<'a> Process<'a> {
    /// Starts with the live object.
    pub fn begin(task: Task<'a>, live: Result<Option<Value>, ApiFailure>) -> (Self, Step) {
        let mut process = Self { task, live: None, awaited: Awaited::Nothing };
        let step = match live {
            Err(failure) => process.not_applied(
                ManifestAppliedReason::FailedToFindObject,
                format!(
                    "failed to find the corresponding object for the manifest object in the member cluster: {API_ERROR}{failure}"
                ),
            ),
            Ok(live) => {
                process.live = live;
                process.first()
            }
        };
        (process, step)
    }

    /// Continues with the answer to the last request.
    pub fn answered(&mut self, answer: Result<Value, ApiFailure>) -> Step {
        match std::mem::replace(&mut self.awaited, Awaited::Nothing) {
            Awaited::Nothing | Awaited::Works => self.unasked(),
            Awaited::Comparison(purpose) => self.compared(purpose, Some(answer)),
            Awaited::TakeOver => match answer {
                Ok(owned) => {
                    self.live = Some(owned);
                    self.ours_or_not()
                }
                Err(failure) => self.not_applied(
                    ManifestAppliedReason::FailedToTakeOver,
                    format!("{TAKE_OVER}failed to take over the object: {API_ERROR}{failure}"),
                ),
            },
            Awaited::Write { what, class } => match answer {
                Ok(applied) => self.applied(applied),
                Err(failure) => {
                    self.not_applied(ManifestAppliedReason::ApplyFailed, format!("{APPLY}{what}{class}{failure}"))
                }
            },
        }
    }

    /// Continues with those of the requested Works that exist on the hub.
    pub fn found(&mut self, works: Result<BTreeSet<String>, ApiFailure>) -> Step {
        match (std::mem::replace(&mut self.awaited, Awaited::Nothing), works) {
            (Awaited::Works, Ok(works)) => self.beside_other_owners(&works),
            (Awaited::Works, Err(failure)) => self.not_applied(
                ManifestAppliedReason::FailedToTakeOver,
                format!("{TAKE_OVER}{LEFT_BEHIND}{API_ERROR}{failure}"),
            ),
            _ => self.unasked(),
        }
    }

    fn unasked(&mut self) -> Step {
        self.not_applied(ManifestAppliedReason::ApplyFailed, "an answer that nobody asked for".to_owned())
    }

    fn first(&mut self) -> Step {
        let Task { strategy, owner, works, .. } = self.task;
        let Some(live) = &self.live else { return self.ours_or_not() };
        if strategy.when_to_take_over() == WhenToTakeOver::Never || owner.owns(live) {
            return self.ours_or_not();
        }
        // An owner is never dropped only because its Work is not cached.
        let in_doubt = works_in_doubt(live, works);
        if in_doubt.is_empty() {
            return self.beside_other_owners(&in_doubt);
        }
        self.awaited = Awaited::Works;
        Step::FindWorks(in_doubt)
    }

    /// Takes the object over if its owners allow it. `found` are Works that exist besides the known ones.
    fn beside_other_owners(&mut self, found: &BTreeSet<String>) -> Step {
        let Task { strategy, owner, works, .. } = self.task;
        let live = self.live.as_ref().unwrap_or(&Value::Null);
        let is_there = |work: &str| works.contains(work) || found.contains(work);
        let remaining = match remaining_owners(live, owner, is_there, strategy.allow_co_ownership()) {
            Ok(remaining) => remaining,
            Err(error) => {
                return self.not_applied(ManifestAppliedReason::FailedToTakeOver, format!("{TAKE_OVER}{error}"));
            }
        };
        if strategy.when_to_take_over() == WhenToTakeOver::IfNoDiff {
            return self.compare(Purpose::TakeOver { remaining });
        }
        self.take_over(remaining)
    }

    fn take_over(&mut self, mut owners: Vec<Value>) -> Step {
        owners.push(self.task.owner.reference());
        self.awaited = Awaited::TakeOver;
        Step::Ask(Request::Replace(with_owners(self.live.as_ref().unwrap_or(&Value::Null), owners)))
    }

    /// The object is ours now, or it stays with its other owners.
    fn ours_or_not(&mut self) -> Step {
        let Task { manifest, strategy, owner, .. } = self.task;
        let reports_only = strategy.strategy_type() == ApplyStrategyType::ReportDiff;
        let Some(live) = &self.live else {
            if reports_only {
                return self.done(ManifestOutcome::FoundDiff, Vec::new(), vec![compare::whole_object_missing()]);
            }
            return self.apply();
        };
        if reports_only {
            return self.compare(Purpose::ReportDiff);
        }
        if !owner.owns(live) {
            let error = "no ownership of the object in the member cluster; takeover is needed".to_owned();
            return self.not_applied(ManifestAppliedReason::NotTakenOver, error);
        }
        let heeds_drift = strategy.when_to_apply() == WhenToApply::IfNotDrifted;
        // Drift never stops a new version: only an object applied from this very manifest can have drifted from it.
        if heeds_drift && manifest_hash::is_unchanged(manifest, live) {
            return self.compare(Purpose::Drift);
        }
        self.apply()
    }

    fn compare(&mut self, purpose: Purpose) -> Step {
        match self.task.strategy.comparison_option() {
            ComparisonOption::FullComparison => self.compared(purpose, None),
            ComparisonOption::PartialComparison => {
                self.awaited = Awaited::Comparison(purpose);
                Step::Ask(Request::DryRun(self.task.manifest.clone()))
            }
        }
    }

    /// `answer` is the result of a dry run, if there was one.
    fn compared(&mut self, purpose: Purpose, answer: Option<Result<Value, ApiFailure>>) -> Step {
        let live = self.live.as_ref().unwrap_or(&Value::Null);
        let whole = |degraded| Comparison { details: compare::differences(self.task.manifest, live), degraded };
        let comparison = match answer {
            None => Ok(whole(false)),
            Some(Ok(wanted)) => Ok(Comparison { details: compare::differences(&wanted, live), degraded: false }),
            Some(Err(failure)) if failure.code == Some(UNPROCESSABLE) => Ok(whole(true)),
            Some(Err(failure)) => {
                Err(format!("failed to apply the manifest in dry-run mode: {SERVER_SIDE_APPLY}{failure}"))
            }
        };
        match purpose {
            Purpose::TakeOver { remaining } => self.take_over_compared(remaining, comparison),
            Purpose::ReportDiff => self.diff_compared(comparison),
            Purpose::Drift => self.drift_compared(comparison),
        }
    }

    fn take_over_compared(&mut self, remaining: Vec<Value>, comparison: Result<Comparison, String>) -> Step {
        let reason = ManifestAppliedReason::FailedToTakeOver;
        match comparison {
            Err(error) => self.not_applied(reason, format!("{TAKE_OVER}{DIFF_FAILED}{error}")),
            Ok(found) if found.details.is_empty() => self.take_over(remaining),
            Ok(found) => {
                let error = format!("{CANNOT_TAKE_OVER}{}", if found.degraded { DEGRADED } else { "" });
                self.done(ManifestOutcome::NotApplied { reason, error }, Vec::new(), found.details)
            }
        }
    }

    fn diff_compared(&mut self, comparison: Result<Comparison, String>) -> Step {
        match comparison {
            Err(error) => {
                let error = format!("{DIFF_FAILED}{error}");
                self.done(ManifestOutcome::FailedToReportDiff { error }, Vec::new(), Vec::new())
            }
            Ok(found) => {
                let outcome = match (found.details.is_empty(), found.degraded) {
                    (true, _) => ManifestOutcome::NoDiffFound,
                    (false, false) => ManifestOutcome::FoundDiff,
                    (false, true) => ManifestOutcome::FoundDiffInDegradedMode,
                };
                self.done(outcome, Vec::new(), found.details)
            }
        }
    }

    fn drift_compared(&mut self, comparison: Result<Comparison, String>) -> Step {
        match comparison {
            Err(error) => {
                self.not_applied(ManifestAppliedReason::FailedToRunDriftDetection, format!("{DRIFT_FAILED}{error}"))
            }
            Ok(found) if found.details.is_empty() => self.apply(),
            Ok(found) => {
                let (reason, suffix) = if found.degraded {
                    (ManifestAppliedReason::FoundDriftsInDegradedMode, DEGRADED)
                } else {
                    (ManifestAppliedReason::FoundDrifts, "")
                };
                let error = format!("{CANNOT_APPLY}{suffix}");
                self.done(ManifestOutcome::NotApplied { reason, error }, found.details, Vec::new())
            }
        }
    }

    fn apply(&mut self) -> Step {
        let Task { manifest, strategy, owner, .. } = self.task;
        let failed = ManifestAppliedReason::ApplyFailed;
        if let Err(error) = may_apply(manifest, self.live.as_ref(), owner, strategy.allow_co_ownership()) {
            return self.not_applied(failed, format!("{APPLY}failed to validate owner references: {error}"));
        }
        let operation = match desired::operation(manifest, self.live.as_ref(), strategy, owner) {
            Ok(operation) => operation,
            Err(error) => return self.not_applied(failed, format!("{APPLY}{error}")),
        };
        let (what, class) = match &operation {
            Operation::Nothing => {
                let live = self.live.take().unwrap_or_default();
                return self.applied(live);
            }
            Operation::Create(_) => ("failed to create manifest object: ", API_ERROR),
            Operation::Patch { .. } => ("failed to patch the manifest object: ", API_ERROR),
            Operation::Apply { .. } => (SERVER_SIDE_APPLY, ""),
        };
        self.awaited = Awaited::Write { what, class };
        Step::Ask(Request::Write(operation))
    }

    fn applied(&mut self, object: Value) -> Step {
        let compares = self.task.strategy.comparison_option() == ComparisonOption::FullComparison;
        let readable = object.is_object();
        let drifts = if compares && readable { compare::differences(self.task.manifest, &object) } else { Vec::new() };
        self.live = Some(object);
        let outcome = if compares && !readable {
            ManifestOutcome::AppliedWithFailedDriftDetection
        } else {
            ManifestOutcome::Applied
        };
        self.done(outcome, drifts, Vec::new())
    }

    fn not_applied(&mut self, reason: ManifestAppliedReason, error: String) -> Step {
        self.done(ManifestOutcome::NotApplied { reason, error }, Vec::new(), Vec::new())
    }

    fn done(&mut self, outcome: ManifestOutcome, drifts: Vec<PatchDetail>, diffs: Vec<PatchDetail>) -> Step {
        Step::Done(Processed { outcome, live: self.live.take(), drifts, diffs })
    }
}
