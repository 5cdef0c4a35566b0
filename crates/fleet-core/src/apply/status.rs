//! The status of a Work after its manifests were processed, and the status of its AppliedWork.
//!
//! Never produces an update without news: consumers compare timestamps.

use std::collections::BTreeMap;
use std::time::Duration;

use fleet_api::conditions::work::{
    ManifestApplied, ManifestAppliedReason, ManifestAvailable, ManifestDiffReported, WORK_SIZE_LIMIT_BYTES,
    WorkApplied, WorkAvailable, WorkDeletionsHeld, WorkDiffReported, WorkStatusTrimmed,
};
use fleet_api::conditions::{Condition, ConditionState, decode, put, remove};
use fleet_api::kinds::Work;
use fleet_api::time::Time;
use fleet_api::types::{
    AppliedResourceMeta, AppliedWorkStatus, ApplyStrategy, ApplyStrategyType, DiffDetails, DriftDetails,
    ManifestCondition, PatchDetail, ReportBackStrategyType, WorkResourceIdentifier, WorkStatus,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::availability::Availability;
use super::back_report;
use super::decode::Identity;
use super::measure::bytes_of;
use super::process::{ManifestOutcome, Processed};
use super::records::{NO_LONGER_IN_WORK, kept_records, records_of};
use super::requeue::is_worth_a_retry;

/// The result of one manifest with everything that its condition needs.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestResult {
    pub identifier: WorkResourceIdentifier,
    pub processed: Processed,
    /// `None` if nothing was applied.
    pub availability: Option<Availability>,
}

impl ManifestResult {
    /// The part of a result that can be reused while neither the manifest nor the object changes. `None` if the
    /// manifest must be retried or its content is needed later.
    pub fn kept(&self, strategy: &ApplyStrategy, whole_status: bool) -> Option<Self> {
        let live = self.processed.live.as_ref()?;
        if is_worth_a_retry(self, strategy) || self.identifier.resource == CUSTOM_RESOURCE_DEFINITIONS {
            return None;
        }
        let metadata = |field: &str| live.pointer(&format!("/metadata/{field}")).cloned().unwrap_or_default();
        let mut kept = json!({
            "apiVersion": live["apiVersion"], "kind": live["kind"],
            "metadata": {
                "generation": metadata("generation"), "uid": metadata("uid"),
                "resourceVersion": metadata("resourceVersion"),
            },
        });
        if let Some(status) = live.get("status").filter(|_| whole_status) {
            kept["status"] = status.clone();
        }
        let processed = Processed { live: Some(kept), ..self.processed.clone() };
        Some(Self { identifier: self.identifier.clone(), processed, availability: self.availability.clone() })
    }
}

/// The resource whose objects define others.
pub(super) const CUSTOM_RESOURCE_DEFINITIONS: &str = "customresourcedefinitions";

/// Leftover objects that are not deleted yet: the delete budget is used up, or other placed objects would be deleted
/// with them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HeldDeletions {
    pub objects: Vec<WorkResourceIdentifier>,
    /// Those of them that contain other placed objects.
    pub not_empty: Vec<WorkResourceIdentifier>,
    /// Maximum number of deletions per minute.
    pub limit: usize,
}

impl HeldDeletions {
    fn state(&self) -> Option<WorkDeletionsHeld> {
        if self.objects.len() > self.not_empty.len() {
            return Some(WorkDeletionsHeld::LeftOversHeld { objects: self.objects.len(), limit: self.limit });
        }
        (!self.not_empty.is_empty()).then(|| placed_objects_left(&self.not_empty))
    }
}

/// Maximum number of containers that a message names.
const CONTAINERS_NAMED: usize = 3;

/// The condition for containers that are kept because of placed objects in them.
pub fn placed_objects_left(containers: &[WorkResourceIdentifier]) -> WorkDeletionsHeld {
    let mut named: Vec<String> =
        containers.iter().take(CONTAINERS_NAMED).map(|one| format!("{} {}", one.kind, one.name)).collect();
    match containers.len().saturating_sub(CONTAINERS_NAMED) {
        0 => {}
        more => named.push(format!("and {more} more")),
    }
    WorkDeletionsHeld::PlacedObjectsLeft { containers: named.join(", ") }
}

/// How long a status "applied, not available yet" may be deferred, so that an object that becomes available quickly
/// costs one write instead of two.
const INTERIM_WINDOW: Duration = Duration::from_secs(2);

/// The new status of a Work.
#[derive(Debug, Clone, PartialEq)]
pub struct NewStatus {
    pub status: WorkStatus,
    /// Whether it differs from the stored status, or its timestamps must change.
    pub is_news: bool,
    /// How long the write may be deferred: everything is applied and something is not available yet, so a better status is
    /// expected soon.
    pub defer: Option<Duration>,
}

/// The status of a Work from the results of its manifests.
pub fn work_status(work: &Work, results: &[ManifestResult], held: &HeldDeletions, now: Timestamp) -> NewStatus {
    let before = work.status.clone().unwrap_or_default();
    let mut manifest_conditions: Vec<ManifestCondition> =
        results.iter().map(|result| manifest_condition(work, result, now)).collect();
    manifest_conditions.extend(kept_records(work, &held.objects));
    let mut status = WorkStatus { conditions: before.conditions.clone(), manifest_conditions };
    let generation = work.generation();
    set_work_conditions(&mut status.conditions, reports_only(work), results, generation, now);
    put_or_remove(&mut status.conditions, held.state(), generation, now);
    let oversized = bytes_over_limit(work, &status);
    if oversized.is_some() {
        status.manifest_conditions.iter_mut().for_each(trim);
    }
    let trimmed = oversized.map(|bytes_over_limit| WorkStatusTrimmed::Oversized { bytes_over_limit });
    put_or_remove(&mut status.conditions, trimmed, generation, now);
    let moves_time = results.iter().any(has_details) || mirrors(work);
    let is_news = work.status.is_none() || status != before || moves_time;
    let defer = is_interim(&status, generation, results).then_some(INTERIM_WINDOW);
    NewStatus { status, is_news, defer }
}

fn reports_only(work: &Work) -> bool {
    let strategy = work.spec.apply_strategy.as_ref();
    strategy.is_some_and(|strategy| strategy.strategy_type() == ApplyStrategyType::ReportDiff)
}

/// Whether statuses of applied objects are reported back.
pub fn mirrors(work: &Work) -> bool {
    work.spec.report_back_strategy.is_some_and(|strategy| strategy.type_ == ReportBackStrategyType::Mirror)
}

fn has_details(result: &ManifestResult) -> bool {
    !result.processed.drifts.is_empty() || !result.processed.diffs.is_empty()
}

fn is_interim(status: &WorkStatus, generation: i64, results: &[ManifestResult]) -> bool {
    let applied = decode::<WorkApplied>(&status.conditions, generation).is_true();
    let waits = decode::<WorkAvailable>(&status.conditions, generation).is_false();
    applied && waits && !results.iter().any(|result| matches!(result.availability, Some(Availability::Failed(_))))
}

/// The record of this manifest: the one with the same identifier, or the first one of the same object. Only the first
/// of several manifests for one object inherits its record.
fn record_before<'a>(work: &'a Work, result: &ManifestResult) -> Option<&'a ManifestCondition> {
    let records = records_of(work);
    let same = records.iter().find(|record| record.identifier == result.identifier);
    let is_duplicate = matches!(
        result.processed.outcome,
        ManifestOutcome::NotApplied { reason: ManifestAppliedReason::Duplicated, .. }
    );
    let by_identity = || {
        let identity = Identity::of(&result.identifier).filter(|_| !is_duplicate)?;
        records.iter().find(|record| Identity::of(&record.identifier).as_ref() == Some(&identity))
    };
    same.or_else(by_identity)
}

fn manifest_condition(work: &Work, result: &ManifestResult, now: Timestamp) -> ManifestCondition {
    let mut record = record_before(work, result).cloned().unwrap_or_default();
    record.identifier.clone_from(&result.identifier);
    let Processed { outcome, live, drifts, diffs } = &result.processed;
    let generation = live.as_ref().map_or(0, generation_of);
    let reports = reports_only(work);
    let applied = (!reports).then(|| applied_state(outcome));
    put_or_remove(&mut record.conditions, applied, generation, now);
    let available = result.availability.as_ref().filter(|_| !reports).map(available_state);
    put_or_remove(&mut record.conditions, available, generation, now);
    let reported = reports.then(|| diff_state(outcome));
    put_or_remove(&mut record.conditions, reported, generation, now);
    let seen = Time::new(now);
    record.drift_details = (!drifts.is_empty()).then(|| DriftDetails {
        observation_time: seen,
        observed_in_member_cluster_generation: generation,
        first_drifted_observed_time: record
            .drift_details
            .as_ref()
            .map_or(seen, |details| details.first_drifted_observed_time),
        observed_drifts: drifts.clone(),
    });
    record.diff_details = (!diffs.is_empty()).then(|| DiffDetails {
        observation_time: seen,
        observed_in_member_cluster_generation: live.as_ref().map(generation_of),
        first_diffed_observed_time: record
            .diff_details
            .as_ref()
            .map_or(seen, |details| details.first_diffed_observed_time),
        observed_diffs: diffs.clone(),
    });
    if mirrors(work)
        && outcome.is_applied()
        && let Some(report) = live.as_ref().and_then(|live| back_report::of_live(live, seen))
    {
        record.back_reported_status = Some(report);
    }
    record
}

/// The generation of an object; 0 for kinds without one.
pub fn generation_of(live: &Value) -> i64 {
    live.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default().max(0)
}

fn put_or_remove<T: ConditionState<Scope = ()>>(
    conditions: &mut Vec<Condition>,
    state: Option<T>,
    generation: i64,
    now: Timestamp,
) {
    match state {
        Some(state) => _ = put(conditions, state.finding(generation), now),
        None => _ = remove(conditions, T::type_word(())),
    }
}

fn applied_state(outcome: &ManifestOutcome) -> ManifestApplied {
    use ManifestAppliedReason as Reason;
    let (reason, error) = match outcome {
        ManifestOutcome::Applied => return ManifestApplied::Applied,
        ManifestOutcome::AppliedWithFailedDriftDetection => return ManifestApplied::AppliedWithFailedDriftDetection,
        ManifestOutcome::NotApplied { reason, error } => (*reason, error.clone()),
        ManifestOutcome::NoDiffFound
        | ManifestOutcome::FoundDiff
        | ManifestOutcome::FoundDiffInDegradedMode
        | ManifestOutcome::FailedToReportDiff { .. } => {
            return ManifestApplied::Unexpected { result: word_of(outcome).to_owned(), error: String::new() };
        }
    };
    match reason {
        Reason::DecodingErred => ManifestApplied::DecodingErred { error },
        Reason::FoundGenerateName => ManifestApplied::FoundGenerateName { error },
        Reason::Duplicated => ManifestApplied::Duplicated { error },
        Reason::Denied => ManifestApplied::Denied { error },
        Reason::FailedToFindObject => ManifestApplied::FailedToFindObject { error },
        Reason::FailedToTakeOver => ManifestApplied::FailedToTakeOver { error },
        Reason::NotTakenOver => ManifestApplied::NotTakenOver { error },
        Reason::FailedToRunDriftDetection => ManifestApplied::FailedToRunDriftDetection { error },
        Reason::FoundDrifts => ManifestApplied::FoundDrifts { error },
        Reason::FoundDriftsInDegradedMode => ManifestApplied::FoundDriftsInDegradedMode { error },
        Reason::ApplyFailed
        | Reason::Applied
        | Reason::AppliedWithFailedDriftDetection
        | Reason::PreparingToProcess => ManifestApplied::ApplyFailed { error },
    }
}

fn available_state(availability: &Availability) -> ManifestAvailable {
    match availability {
        Availability::Available => ManifestAvailable::Available,
        Availability::NotYet => ManifestAvailable::NotYet,
        Availability::NotTrackable => ManifestAvailable::NotTrackable,
        Availability::Failed(error) => ManifestAvailable::Failed { error: error.clone() },
    }
}

fn diff_state(outcome: &ManifestOutcome) -> ManifestDiffReported {
    match outcome {
        ManifestOutcome::NoDiffFound => ManifestDiffReported::NoDiffFound,
        ManifestOutcome::FoundDiff => ManifestDiffReported::FoundDiff,
        ManifestOutcome::FoundDiffInDegradedMode => ManifestDiffReported::FoundDiffInDegradedMode,
        ManifestOutcome::FailedToReportDiff { error } => {
            ManifestDiffReported::FailedToReportDiff { error: error.clone() }
        }
        ManifestOutcome::NotApplied { reason, error } => {
            ManifestDiffReported::Blocked { result: *reason, error: error.clone() }
        }
        ManifestOutcome::Applied => {
            ManifestDiffReported::Blocked { result: ManifestAppliedReason::Applied, error: String::new() }
        }
        ManifestOutcome::AppliedWithFailedDriftDetection => ManifestDiffReported::Blocked {
            result: ManifestAppliedReason::AppliedWithFailedDriftDetection,
            error: String::new(),
        },
    }
}

/// One word for an outcome, for metrics and for comparing two reconciles.
pub fn word_of(outcome: &ManifestOutcome) -> &'static str {
    use fleet_api::conditions::Reason as _;
    match outcome {
        ManifestOutcome::Applied => ManifestAppliedReason::Applied.word(),
        ManifestOutcome::AppliedWithFailedDriftDetection => {
            ManifestAppliedReason::AppliedWithFailedDriftDetection.word()
        }
        ManifestOutcome::NotApplied { reason, .. } => reason.word(),
        reported => diff_state(reported).reason().word(),
    }
}

fn set_work_conditions(
    conditions: &mut Vec<Condition>,
    reports: bool,
    results: &[ManifestResult],
    generation: i64,
    now: Timestamp,
) {
    let count = |holds: &dyn Fn(&ManifestResult) -> bool| results.iter().filter(|result| holds(result)).count();
    let manifests = results.len();
    let applied = count(&|result| result.processed.outcome.is_applied());
    let untracked = count(&|result| result.availability == Some(Availability::NotTrackable));
    let available = untracked + count(&|result| result.availability == Some(Availability::Available));
    let all_applied = applied == manifests;
    let state = if all_applied { WorkApplied::AllApplied } else { WorkApplied::SomeNotApplied { applied, manifests } };
    put_or_remove(conditions, (!reports).then_some(state), generation, now);
    let state = match () {
        () if available < manifests => WorkAvailable::SomeNotAvailable { available, manifests },
        () if untracked > 0 => WorkAvailable::SomeNotTrackable,
        () => WorkAvailable::AllAvailable,
    };
    put_or_remove(conditions, (!reports && all_applied).then_some(state), generation, now);
    // A comparison in degraded mode is not counted: users of KubeFleet rely on that.
    let reported =
        count(&|result| matches!(result.processed.outcome, ManifestOutcome::FoundDiff | ManifestOutcome::NoDiffFound));
    let state = if reported == manifests {
        WorkDiffReported::AllReported
    } else {
        WorkDiffReported::SomeNotReported { reported, manifests }
    };
    put_or_remove(conditions, reports.then_some(state), generation, now);
}

/// Text between the spec and the status in the JSON of an object.
const STATUS_FIELD: &str = r#","status":"#;

/// The number of bytes by which the Work with this status exceeds the limit.
fn bytes_over_limit(work: &Work, status: &WorkStatus) -> Option<usize> {
    let status_before = work.status.as_ref().map_or(0, |before| STATUS_FIELD.len() + bytes_of(before));
    let bytes = bytes_of(work).saturating_sub(status_before) + STATUS_FIELD.len() + bytes_of(status);
    bytes.checked_sub(WORK_SIZE_LIMIT_BYTES).filter(|over| *over > 0)
}

/// Replaces a value that does not fit.
const OMITTED: &str = "(omitted)";

fn trim(record: &mut ManifestCondition) {
    if let Some(details) = &mut record.drift_details {
        details.observed_drifts = in_short(&details.observed_drifts);
    }
    if let Some(details) = &mut record.diff_details {
        details.observed_diffs = in_short(&details.observed_diffs);
    }
    record.back_reported_status = None;
}

fn in_short(details: &[PatchDetail]) -> Vec<PatchDetail> {
    let Some(first) = details.first() else { return Vec::new() };
    let path = match details.len() - 1 {
        0 => first.path.clone(),
        more => format!("{} and {more} more path(s)", first.path),
    };
    vec![PatchDetail { path, value_in_member: OMITTED.to_owned(), value_in_hub: OMITTED.to_owned() }]
}

/// The resources that the AppliedWork lists: applied ones in the order of the manifests, then leftover ones that are
/// not deleted yet. `before` is its current status.
pub fn applied_work_status(
    results: &[ManifestResult],
    held: &HeldDeletions,
    before: Option<&AppliedWorkStatus>,
) -> AppliedWorkStatus {
    let applied = results.iter().filter(|result| result.processed.outcome.is_applied());
    let entry = |result: &ManifestResult| {
        let uid = result.processed.live.as_ref().and_then(|live| live.pointer("/metadata/uid")?.as_str());
        AppliedResourceMeta { identifier: result.identifier.clone(), uid: uid.unwrap_or_default().to_owned() }
    };
    let known = before.into_iter().flat_map(|before| &before.applied_resources).filter(|_| !held.objects.is_empty());
    let known: BTreeMap<_, _> =
        known.filter_map(|known| Some((Identity::of(&known.identifier)?.object(), known))).collect();
    let listed = |identifier: &WorkResourceIdentifier| {
        let known = known.get(&Identity::of(identifier)?.object())?;
        let identifier = WorkResourceIdentifier { ordinal: NO_LONGER_IN_WORK, ..known.identifier.clone() };
        Some(AppliedResourceMeta { identifier, uid: known.uid.clone() })
    };
    let kept = held.objects.iter().filter_map(listed);
    AppliedWorkStatus { applied_resources: applied.map(entry).chain(kept).collect() }
}
