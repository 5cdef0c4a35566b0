//! What a Work remembers, and what is a left-over.

use fleet_api::kinds::Work;
use fleet_api::types::{WorkResourceIdentifier, WorkStatus};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::naming::served;
use crate::apply::decode::decode;
use crate::apply::records::{is_same_instruction, leftovers, write_ahead};

/// A Work of this generation whose manifests are ConfigMaps of these names, with records `name state` where the state is
/// the reason of its Applied condition.
pub(super) fn work(generation: i64, manifests: &[&str], applied: Option<i64>, records: &[(&str, &str)]) -> Work {
    let map =
        |name: &&str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "app"}});
    let record = |(ordinal, (name, reason)): (usize, &(&str, &str))| {
        let status = if *reason == "Applied" { "True" } else { "False" };
        json!({
            "identifier": {"ordinal": ordinal, "version": "v1", "kind": "ConfigMap", "resource": "configmaps", "namespace": "app", "name": name},
            "conditions": [{"type": "Applied", "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        })
    };
    let conditions: Vec<Value> = applied
        .map(|generation| {
            json!({
                "type": "Applied", "status": "True", "reason": "AllManifestsApplied", "message": "", "observedGeneration": generation,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        })
        .into_iter()
        .collect();
    serde_json::from_value(json!({
        "metadata": {"name": "w", "namespace": "fleet-member-m1", "generation": generation, "uid": "u"},
        "spec": {"workload": {"manifests": manifests.iter().map(map).collect::<Vec<_>>()}},
        "status": {"conditions": conditions, "manifestConditions": records.iter().enumerate().map(record).collect::<Vec<_>>()},
    }))
    .unwrap()
}

fn going(work: &Work) -> Vec<String> {
    leftovers(work, &decode(work.spec.manifests(), &served)).into_iter().map(|one| one.name).collect()
}

fn remembered(work: &Work, still_there: &[WorkResourceIdentifier]) -> Option<Vec<String>> {
    let records = write_ahead(work, &decode(work.spec.manifests(), &served), still_there, Timestamp::UNIX_EPOCH)?;
    let line = |record: &fleet_api::types::ManifestCondition| {
        format!("{} {} {}", record.identifier.ordinal, record.identifier.name, record.conditions[0].reason)
    };
    Some(records.iter().map(line).collect())
}

#[test]
fn only_a_newer_list_of_manifests_makes_left_overs() {
    let records = [("a", "Applied"), ("b", "Applied")];
    assert_eq!(going(&work(3, &["a"], Some(2), &records)), ["b"]);
    assert!(going(&work(3, &["a"], Some(3), &records)).is_empty(), "this list was carried out already");
    assert!(going(&work(3, &["a"], Some(4), &records)).is_empty(), "the hub was set back to an older state");
    assert!(going(&work(3, &["b", "a"], Some(2), &records)).is_empty(), "another order removes nothing");
}

#[test]
fn applier_s65_an_object_recorded_before_its_apply_is_a_left_over_too() {
    assert_eq!(going(&work(2, &[], None, &[("a", "PreparingToProcess")])), ["a"]);
    // Whatever came of it: whether it is ours is seen when it is looked at.
    for reason in ["FoundDrifts", "ManifestApplyFailed", "NotTakenOver", "DecodingErred"] {
        assert_eq!(going(&work(2, &[], Some(1), &[("a", reason)])), ["a"], "{reason}");
    }
    let mut without_condition = work(2, &[], Some(1), &[("a", "Applied")]);
    without_condition.status.as_mut().unwrap().manifest_conditions[0].conditions.clear();
    assert_eq!(going(&without_condition), ["a"]);
}

#[test]
fn a_manifest_whose_kind_is_not_served_keeps_its_object() {
    let mut work = work(3, &["a"], Some(2), &[("a", "Applied")]);
    let manifest = &mut work.spec.workload.as_mut().unwrap().manifests[0].0;
    manifest["apiVersion"] = json!("gone.example.com/v1");
    let record = &mut work.status.as_mut().unwrap().manifest_conditions[0].identifier;
    (record.group, record.version) = ("gone.example.com".into(), "v1".into());
    assert!(going(&work).is_empty());
}

#[test]
fn an_object_listed_under_another_version_of_its_kind_stays() {
    let mut work = work(3, &["a"], Some(2), &[("a", "Applied"), ("b", "Applied")]);
    for record in &mut work.status.as_mut().unwrap().manifest_conditions {
        record.identifier.version = "v1beta1".into();
    }
    assert_eq!(going(&work), ["b"]);
    // Of another group it is another object.
    work.status.as_mut().unwrap().manifest_conditions[0].identifier.group = "example.com".into();
    assert_eq!(going(&work), ["a", "b"]);
}

#[test]
fn report_diff_removes_nothing() {
    let mut work = work(3, &[], Some(2), &[("a", "Applied")]);
    work.spec.apply_strategy = serde_json::from_value(json!({"type": "ReportDiff"})).unwrap();
    assert!(going(&work).is_empty());
    assert_eq!(remembered(&work, &[]), None);
}

#[test]
fn a_deferred_left_over_is_removed_later() {
    let mut work = work(3, &["a"], Some(3), &[("a", "Applied"), ("b", "Applied")]);
    work.status.as_mut().unwrap().manifest_conditions[1].identifier.ordinal = -1;
    assert_eq!(going(&work), ["b"]);
}

#[test]
fn objects_are_recorded_before_they_are_applied() {
    assert_eq!(remembered(&work(1, &["a"], None, &[]), &[]).unwrap(), ["0 a PreparingToProcess"]);
    assert_eq!(remembered(&work(2, &["a"], Some(1), &[("a", "Applied")]), &[]), None, "an update costs no such write");
    let grown = work(2, &["b", "a"], Some(1), &[("a", "Applied"), ("old", "Applied")]);
    assert_eq!(remembered(&grown, &[]).unwrap(), ["0 b PreparingToProcess", "0 a Applied"]);
    let still_there = leftovers(&grown, &decode(grown.spec.manifests(), &served));
    assert_eq!(remembered(&grown, &still_there).unwrap().last().unwrap(), "-1 old Applied");
}

#[test]
fn an_instruction_that_is_not_the_stored_one_is_none() {
    let known = work(3, &["a"], Some(2), &[]);
    assert!(is_same_instruction(&known, Some(&known)));
    assert!(!is_same_instruction(&known, None), "a hub that knows no such Work asks for nothing");
    let mut other = known.clone();
    other.metadata.uid = Some("other".into());
    assert!(!is_same_instruction(&known, Some(&other)));
    assert!(!is_same_instruction(&known, Some(&work(4, &["a"], Some(2), &[]))));
    let mut reported = known.clone();
    reported.status = Some(WorkStatus::default());
    assert!(is_same_instruction(&known, Some(&reported)));
}
