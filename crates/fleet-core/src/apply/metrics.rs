//! The counters of processed Works and manifests, and the values of their labels.

use fleet_api::conditions::work::{
    ManifestApplied, ManifestAvailable, ManifestDiffReported, WorkApplied, WorkAvailable, WorkDiffReported,
};
use fleet_api::conditions::{Condition, ConditionState, ConditionStatus, decode_ignoring_generation};
use fleet_api::types::{ManifestCondition, WorkStatus};

/// The counter of Works: name, help text, labels.
pub const WORKS: (&str, &str, &[&str]) = (
    "fleet_work_processing_requests",
    "Total number of processing requests of work objects, including retries and periodic checks",
    &["apply_status", "availability_status", "diff_reporting_status"],
);

/// The counter of manifests.
pub const MANIFESTS: (&str, &str, &[&str]) = (
    "fleet_manifest_processing_requests",
    "Total number of processing requests of manifest objects, including retries and periodic checks",
    &[
        "apply_status",
        "availability_status",
        "diff_reporting_status",
        "drift_detection_status",
        "diff_detection_status",
    ],
);

/// The label values of a Work.
pub fn of_work(status: &WorkStatus) -> [&str; 3] {
    let conditions = &status.conditions;
    [word::<WorkApplied>(conditions), word::<WorkAvailable>(conditions), word::<WorkDiffReported>(conditions)]
}

/// The label values of a manifest.
pub fn of_manifest(record: &ManifestCondition) -> [&str; 5] {
    let conditions = &record.conditions;
    let found = |found: bool| if found { "Found" } else { "NotFound" };
    [
        word::<ManifestApplied>(conditions),
        word::<ManifestAvailable>(conditions),
        word::<ManifestDiffReported>(conditions),
        found(record.drift_details.is_some()),
        found(record.diff_details.is_some()),
    ]
}

fn word<T: ConditionState<Scope = ()>>(conditions: &[Condition]) -> &str {
    match decode_ignoring_generation::<T>(conditions).any() {
        None => "Skipped",
        Some(condition) if condition.status == ConditionStatus::Unknown => "Unknown",
        Some(condition) => &condition.reason,
    }
}
