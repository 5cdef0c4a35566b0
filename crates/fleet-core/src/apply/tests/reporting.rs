//! What statuses say.

use fleet_api::conditions::work::{ManifestAppliedReason, WORK_SIZE_LIMIT_BYTES};
use fleet_api::kinds::Work;
use fleet_api::types::{PatchDetail, WorkResourceIdentifier};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::recording::work;
use crate::apply::availability::Availability;
use crate::apply::process::{ManifestOutcome, Processed};
use crate::apply::status::{HeldDeletions, ManifestResult, NewStatus, applied_work_status, work_status};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn detail(path: &str) -> PatchDetail {
    PatchDetail { path: path.into(), value_in_member: "m".into(), value_in_hub: "h".into() }
}

pub(super) fn result(
    ordinal: i64,
    name: &str,
    outcome: ManifestOutcome,
    availability: Option<Availability>,
) -> ManifestResult {
    let identifier = WorkResourceIdentifier {
        ordinal,
        version: "v1".into(),
        kind: "ConfigMap".into(),
        resource: "configmaps".into(),
        namespace: "app".into(),
        name: name.into(),
        ..WorkResourceIdentifier::default()
    };
    let live = Some(json!({"metadata": {"name": name, "uid": format!("u-{name}"), "generation": 4}}));
    ManifestResult { identifier, processed: Processed { outcome, live, drifts: vec![], diffs: vec![] }, availability }
}

fn failed(reason: ManifestAppliedReason) -> ManifestOutcome {
    ManifestOutcome::NotApplied { reason, error: "why".into() }
}

fn status(work: &Work, results: &[ManifestResult], now: i64) -> NewStatus {
    work_status(work, results, &HeldDeletions::default(), at(now))
}

fn said(new: &NewStatus) -> Value {
    serde_json::to_value(&new.status).unwrap()
}

fn conditions(list: &Value) -> Vec<String> {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let line = |one: &Value| format!("{} {} {}", word(&one["type"]), word(&one["status"]), word(&one["reason"]));
    list.as_array().unwrap().iter().map(line).collect()
}

#[test]
fn applied_and_available_are_counted() {
    use Availability::{Available, Failed, NotTrackable, NotYet};
    let all = |availability: &[Availability]| {
        let results: Vec<_> = availability
            .iter()
            .enumerate()
            .map(|(place, one)| {
                result(i64::try_from(place).unwrap(), &place.to_string(), ManifestOutcome::Applied, Some(one.clone()))
            })
            .collect();
        let new = status(&work(2, &[], None, &[]), &results, 5);
        (conditions(&said(&new)["conditions"]).join(", "), new.defer.is_some())
    };
    assert_eq!(all(&[]), ("Applied True AllManifestsApplied, Available True AllManifestsAvailable".into(), false));
    assert_eq!(all(&[Available]).0, "Applied True AllManifestsApplied, Available True AllManifestsAvailable");
    assert_eq!(all(&[Available, NotTrackable]).0, "Applied True AllManifestsApplied, Available True WorkNotTrackable");
    let waiting = "Applied True AllManifestsApplied, Available False SomeManifestsAreNotAvailable";
    assert_eq!(all(&[Available, NotYet]), (waiting.into(), true));
    assert_eq!(all(&[NotYet, Failed("x".into())]), (waiting.into(), false), "a failure does not wait for better news");
    let results = [
        result(0, "a", ManifestOutcome::Applied, Some(Available)),
        result(1, "b", failed(ManifestAppliedReason::NotTakenOver), None),
    ];
    let new = status(&work(2, &["a", "b"], Some(1), &[("a", "Applied")]), &results, 5);
    let said = said(&new);
    assert_eq!(conditions(&said["conditions"]), ["Applied False SomeManifestsAreNotApplied"]);
    assert_eq!(said["conditions"][0]["message"], "Failed to apply all manifests (1 of 2 manifests are applied)");
    assert_eq!(said["conditions"][0]["observedGeneration"], 2);
    assert_eq!(said["manifestConditions"][1]["conditions"][0]["message"], "Failed to apply the manifest (error: why)");
    assert_eq!(said["manifestConditions"][0]["conditions"][0]["observedGeneration"], 4, "the live object's");
}

#[test]
fn an_unchanged_status_is_not_written() {
    let results = [result(0, "a", ManifestOutcome::Applied, Some(Availability::Available))];
    let mut work = work(1, &["a"], None, &[]);
    let first = status(&work, &results, 5);
    assert!(first.is_news);
    work.status = Some(first.status.clone());
    let second = status(&work, &results, 999);
    assert!(!second.is_news);
    assert_eq!(second.status, first.status);
}

#[test]
fn records_of_manifests_that_cannot_be_applied_keep_their_time() {
    // Malformed, unknown and duplicated ones are found again by place and identifier.
    let mut malformed = result(0, "", failed(ManifestAppliedReason::DecodingErred), None);
    malformed.identifier = WorkResourceIdentifier::default();
    let duplicate = result(2, "a", failed(ManifestAppliedReason::Duplicated), None);
    let results = [malformed, result(1, "a", ManifestOutcome::Applied, Some(Availability::Available)), duplicate];
    let mut work = work(1, &[], None, &[]);
    work.status = Some(status(&work, &results, 5).status);
    let again = status(&work, &results, 999);
    assert!(!again.is_news, "{:?}", again.status);
}

#[test]
fn applier_s42_a_drift_keeps_the_time_of_its_first_observation() {
    let mut drifted = result(0, "a", failed(ManifestAppliedReason::FoundDrifts), None);
    drifted.processed.drifts = vec![detail("/data/k")];
    let mut work = work(1, &["a"], None, &[]);
    let times = |new: &NewStatus| {
        let details = new.status.manifest_conditions[0].drift_details.clone()?;
        let second = |time: fleet_api::time::Time| time.instant().as_second();
        Some((
            second(details.first_drifted_observed_time),
            second(details.observation_time),
            details.observed_drifts[0].path.clone(),
        ))
    };
    let first = status(&work, &[drifted.clone()], 5);
    assert_eq!(times(&first), Some((5, 5, "/data/k".into())));
    work.status = Some(first.status);
    drifted.processed.drifts = vec![detail("/data/other")];
    let second = status(&work, &[drifted.clone()], 9);
    assert_eq!(times(&second), Some((5, 9, "/data/other".into())));
    work.status = Some(second.status.clone());
    assert!(status(&work, &[drifted], 12).is_news, "its time moves");
    let well = status(&work, &[result(0, "a", ManifestOutcome::Applied, None)], 15);
    assert_eq!(times(&well), None);
}

#[test]
fn applier_s51_s52_s53_reporting_differences_leaves_no_other_condition() {
    let mut work = work(2, &["a"], Some(1), &[("a", "Applied")]);
    work.spec.apply_strategy = serde_json::from_value(json!({"type": "ReportDiff"})).unwrap();
    let reported = |outcome: ManifestOutcome| {
        let new = status(&work, &[result(0, "a", outcome, None)], 5);
        let said = said(&new);
        (conditions(&said["conditions"]), conditions(&said["manifestConditions"][0]["conditions"]))
    };
    let all = || vec!["DiffReported True AllManifestsDiffReported".to_owned()];
    let some = || vec!["DiffReported False SomeManifestsHaveNotReportedDiff".to_owned()];
    assert_eq!(reported(ManifestOutcome::NoDiffFound), (all(), vec!["DiffReported True NoDiffFound".into()]));
    assert_eq!(reported(ManifestOutcome::FoundDiff), (all(), vec!["DiffReported True FoundDiff".into()]));
    assert_eq!(
        reported(ManifestOutcome::FoundDiffInDegradedMode),
        (some(), vec!["DiffReported True FoundDiffInDegradedMode".into()]),
        "as consumers of the reference know it"
    );
    assert_eq!(
        reported(failed(ManifestAppliedReason::DecodingErred)),
        (some(), vec!["DiffReported False FailedToReportDiff".into()])
    );
    let blocked = status(&work, &[result(0, "a", failed(ManifestAppliedReason::FailedToTakeOver), None)], 5);
    assert_eq!(
        blocked.status.manifest_conditions[0].conditions[0].message,
        "An error blocks the diff reporting process (FailedToTakeOver, error: why)"
    );
}

#[test]
fn applier_s54_applying_again_ends_the_report() {
    let mut work = work(2, &["a"], None, &[("a", "Applied")]);
    work.spec.apply_strategy = serde_json::from_value(json!({"type": "ReportDiff"})).unwrap();
    work.status = Some(status(&work, &[result(0, "a", ManifestOutcome::FoundDiff, None)], 5).status);
    work.spec.apply_strategy = None;
    let said = said(&status(&work, &[result(0, "a", ManifestOutcome::Applied, Some(Availability::Available))], 6));
    assert_eq!(
        conditions(&said["conditions"]),
        ["Applied True AllManifestsApplied", "Available True AllManifestsAvailable"]
    );
    assert_eq!(
        conditions(&said["manifestConditions"][0]["conditions"]),
        ["Applied True Applied", "Available True Available"]
    );
}

#[test]
fn applier_s55_the_live_status_is_reported_back_on_demand() {
    let mut work = work(1, &["a"], None, &[]);
    let mut applied = result(0, "a", ManifestOutcome::Applied, Some(Availability::Available));
    applied.processed.live.as_mut().unwrap()["status"] = json!({"phase": "Fine"});
    assert!(status(&work, &[applied.clone()], 5).status.manifest_conditions[0].back_reported_status.is_none());
    work.spec.report_back_strategy =
        serde_json::from_value(json!({"type": "Mirror", "destination": "WorkAPI"})).unwrap();
    let new = status(&work, &[applied], 5);
    let report = serde_json::to_value(&new.status.manifest_conditions[0].back_reported_status).unwrap();
    assert_eq!(report["observedStatus"]["status"], json!({"phase": "Fine"}));
    // A failure keeps what was reported last.
    work.status = Some(new.status.clone());
    let later = status(&work, &[result(0, "a", failed(ManifestAppliedReason::ApplyFailed), None)], 9);
    assert_eq!(
        later.status.manifest_conditions[0].back_reported_status,
        new.status.manifest_conditions[0].back_reported_status
    );
}

#[test]
fn applier_s56_a_status_that_is_too_large_keeps_paths_only() {
    let mut work = work(1, &["a"], None, &[]);
    let mut drifted = result(0, "a", failed(ManifestAppliedReason::FoundDrifts), None);
    let large = PatchDetail { value_in_member: "x".repeat(WORK_SIZE_LIMIT_BYTES), ..detail("/data/k") };
    drifted.processed.drifts = vec![large, detail("/data/l")];
    let new = status(&work, &[drifted.clone()], 5);
    let details = new.status.manifest_conditions[0].drift_details.clone().unwrap();
    let omitted = PatchDetail {
        path: "/data/k and 1 more path(s)".into(),
        value_in_member: "(omitted)".into(),
        value_in_hub: "(omitted)".into(),
    };
    assert_eq!(details.observed_drifts, [omitted]);
    let trimmed = new.status.conditions.iter().find(|condition| condition.type_ == "StatusTrimmed").unwrap();
    assert_eq!(trimmed.reason, "Oversized");
    assert!(trimmed.message.ends_with("bytes over limit 1415578)"), "{}", trimmed.message);
    work.status = Some(new.status);
    drifted.processed.drifts = vec![detail("/data/k")];
    let fits = status(&work, &[drifted], 6);
    assert!(!fits.status.conditions.iter().any(|condition| condition.type_ == "StatusTrimmed"));
}

#[test]
fn deferred_deletions_are_reported_and_their_records_kept() {
    let work = work(2, &["a"], Some(1), &[("a", "Applied"), ("old", "Applied")]);
    let old = work.status.as_ref().unwrap().manifest_conditions[1].identifier.clone();
    let held = HeldDeletions { objects: vec![old], limit: 1, ..HeldDeletions::default() };
    let results = [result(0, "a", ManifestOutcome::Applied, Some(Availability::Available))];
    let new = work_status(&work, &results, &held, at(5));
    assert_eq!(new.status.conditions.last().unwrap().type_, "DeletionsHeld");
    assert_eq!(new.status.manifest_conditions[1].identifier.ordinal, -1);
    let mut after = work.clone();
    after.status = Some(new.status);
    let over = status(&after, &results, 70);
    assert_eq!((over.status.conditions.len(), over.status.manifest_conditions.len()), (2, 1));
}

#[test]
fn the_applied_work_lists_what_is_applied() {
    let results = [
        result(0, "a", ManifestOutcome::Applied, None),
        result(1, "b", failed(ManifestAppliedReason::FoundDrifts), None),
        result(2, "c", ManifestOutcome::AppliedWithFailedDriftDetection, None),
        result(3, "d", ManifestOutcome::NoDiffFound, None),
    ];
    let listed: Vec<_> = applied_work_status(&results, &HeldDeletions::default(), None)
        .applied_resources
        .into_iter()
        .map(|one| (one.identifier.ordinal, one.uid))
        .collect();
    assert_eq!(listed, [(0, "u-a".to_owned()), (2, "u-c".to_owned())]);
}

#[test]
fn audit_04_undeleted_objects_stay_listed() {
    let results = [result(0, "a", ManifestOutcome::Applied, None)];
    let applied = [result(0, "a", ManifestOutcome::Applied, None), result(1, "old", ManifestOutcome::Applied, None)];
    let before = applied_work_status(&applied, &HeldDeletions::default(), None);
    let held = HeldDeletions { objects: vec![applied[1].identifier.clone()], limit: 1, ..HeldDeletions::default() };
    let after = applied_work_status(&results, &held, Some(&before));
    let listed: Vec<_> = after.applied_resources.into_iter().map(|one| (one.identifier.ordinal, one.uid)).collect();
    assert_eq!(listed, [(0, "u-a".to_owned()), (-1, "u-old".to_owned())]);
}

#[test]
fn audit_04_containers_kept_for_their_content_are_reported() {
    let work = work(2, &["a"], Some(1), &[("a", "Applied"), ("old", "Applied")]);
    let namespaces: Vec<_> = ["p", "q", "r", "s", "t"]
        .map(|name| {
            let mut identifier = work.status.as_ref().unwrap().manifest_conditions[1].identifier.clone();
            (identifier.kind, identifier.name) = ("Namespace".to_owned(), name.to_owned());
            identifier
        })
        .into();
    let message = |objects: usize, not_empty: usize| {
        let (objects, not_empty) = (namespaces[..objects].to_vec(), namespaces[..not_empty].to_vec());
        let results = [result(0, "a", ManifestOutcome::Applied, Some(Availability::Available))];
        let new = work_status(&work, &results, &HeldDeletions { objects, not_empty, limit: 1 }, at(5));
        new.status.conditions.last().unwrap().message.clone()
    };
    let why = "Not deleted yet, because objects that Works have placed there would be deleted too: ";
    assert_eq!(message(1, 1), format!("{why}Namespace p"));
    assert_eq!(message(5, 5), format!("{why}Namespace p, Namespace q, Namespace r, and 2 more"));
    assert!(message(2, 1).starts_with("2 object(s) that this Work no longer names"));
}
