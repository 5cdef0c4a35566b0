//! How Works and objects go.

use std::slice::from_ref;

use fleet_api::kinds::{AppliedWork, Work};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::apply::farewell::{Farewell, farewell, going_with};
use crate::apply::ownership::{Owner, Removal, falls_with_ledger, removal, unblocked};

const DELETED: &str = "2026-01-01T00:00:00Z";
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(5);

fn work(finalizers: &[&str], deleted: bool, policy: Option<&str>) -> Work {
    let mut work = json!({"metadata": {"name": "w", "namespace": "n", "finalizers": finalizers}, "spec": {}});
    if deleted {
        work["metadata"]["deletionTimestamp"] = json!(DELETED);
    }
    if let Some(policy) = policy {
        work["metadata"]["annotations"] = json!({"kubernetes-fleet.io/delete-propagation-policy": policy});
    }
    serde_json::from_value(work).unwrap()
}

fn ledger(deleted: bool) -> AppliedWork {
    let mut ledger = json!({"metadata": {"name": "w", "uid": "u"}, "spec": {"workName": "w", "workNamespace": "n"}});
    if deleted {
        ledger["metadata"]["deletionTimestamp"] = json!(DELETED);
    }
    serde_json::from_value(ledger).unwrap()
}

fn after(minutes: i64) -> Timestamp {
    DELETED.parse::<Timestamp>().unwrap() + SignedDuration::from_mins(minutes)
}

const OURS: &str = "kubernetes-fleet.io/work-cleanup";

#[test]
fn applier_s59_s60_only_a_work_that_the_hub_deletes_and_that_we_hold_goes() {
    let next = |work: &Work, ledger: Option<&AppliedWork>, minutes| farewell(work, ledger, STUCK_AFTER, after(minutes));
    assert_eq!(next(&work(&[OURS], false, None), Some(&ledger(false)), 0), Farewell::Nothing);
    assert_eq!(next(&work(&["other"], true, None), Some(&ledger(false)), 0), Farewell::Nothing);
    let held = work(&[OURS], true, None);
    assert_eq!(next(&held, Some(&ledger(false)), 0), Farewell::DeleteLedger { objects_stay: false });
    assert_eq!(next(&held, Some(&ledger(true)), 1), Farewell::Wait { until: after(5) });
    assert_eq!(next(&held, None, 2), Farewell::LetGo);
}

#[test]
fn applier_s61_a_deletion_that_does_not_end_is_helped() {
    let held = work(&[OURS], true, None);
    assert_eq!(farewell(&held, Some(&ledger(true)), STUCK_AFTER, after(5)), Farewell::Unblock { again_at: after(10) });
}

#[test]
fn a_placement_that_abandons_its_resources_leaves_them() {
    let abandoned = work(&[OURS], true, Some("Abandon"));
    assert_eq!(
        farewell(&abandoned, Some(&ledger(false)), STUCK_AFTER, after(0)),
        Farewell::DeleteLedger { objects_stay: true }
    );
    let deleted = work(&[OURS], true, Some("Delete"));
    assert_eq!(
        farewell(&deleted, Some(&ledger(false)), STUCK_AFTER, after(0)),
        Farewell::DeleteLedger { objects_stay: false }
    );
}

#[test]
fn what_others_need_goes_last_and_everything_once() {
    let of = |group: &str, kind: &str, resource: &str, name: &str| json!({"ordinal": 0, "group": group, "version": "v1", "kind": kind, "resource": resource, "name": name});
    let namespace = of("", "Namespace", "namespaces", "app");
    let web = of("apps", "Deployment", "deployments", "web");
    let mut held = json!(work(&[OURS], true, None));
    let records =
        [&namespace, &web, &of("example.com", "Widget", "widgets", "a"), &of("", "ConfigMap", "configmaps", "")];
    held["status"] = json!({"conditions": [], "manifestConditions":
        records.map(|identifier| json!({"identifier": identifier, "conditions": []}))});
    let mut older = web.clone();
    older["version"] = json!("v1beta1");
    let map = of("", "ConfigMap", "configmaps", "cm");
    let mut ledger = json!(ledger(false));
    ledger["status"] = json!({"appliedResources": [older, map]});
    let names: Vec<String> =
        going_with(&serde_json::from_value(held).unwrap(), &serde_json::from_value(ledger).unwrap())
            .into_iter()
            .map(|identifier| identifier.name)
            .collect();
    assert_eq!(names, ["a", "web", "cm", "app"]);
}

fn owner() -> Owner {
    Owner { name: "w".into(), uid: "u".into() }
}

/// An object that was applied by us.
fn object(owners: &[Value]) -> Value {
    let texts = json!({"kubernetes-fleet.io/spec-hash": "h"});
    json!({"metadata": {"name": "a", "uid": "u-a", "ownerReferences": owners, "annotations": texts}})
}

fn foreign() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": "u-boss"})
}

#[test]
fn applier_s08_s09_only_what_is_ours_alone_is_deleted() {
    let ours = owner().reference();
    assert_eq!(removal(&object(from_ref(&ours)), &owner()), Removal::Delete { uid: "u-a".into() });
    assert_eq!(removal(&object(&[]), &owner()), Removal::Leave);
    assert_eq!(removal(&object(&[foreign()]), &owner()), Removal::Leave);
    let Removal::LetGo { object: kept } = removal(&object(&[ours.clone(), foreign()]), &owner()) else { panic!() };
    assert_eq!(kept["metadata"]["ownerReferences"], json!([foreign()]));
    let mut going = object(from_ref(&ours));
    going["metadata"]["deletionTimestamp"] = json!(DELETED);
    assert_eq!(removal(&going, &owner()), Removal::Leave);
    let namesake = Owner { uid: "other".into(), ..owner() };
    assert_eq!(removal(&object(from_ref(&ours)), &namesake), Removal::Leave, "an older ledger of the same name");
    let mut without_uid = object(&[ours]);
    without_uid["metadata"].as_object_mut().unwrap().remove("uid");
    assert_eq!(removal(&without_uid, &owner()), Removal::Leave, "what cannot be named exactly is not deleted");
    assert_eq!(removal(&json!(null), &owner()), Removal::Leave);
}

#[test]
fn what_bears_no_sign_of_an_apply_is_given_back_and_not_deleted() {
    let ours = owner().reference();
    let mut taken_over = object(from_ref(&ours));
    taken_over["metadata"].as_object_mut().unwrap().remove("annotations");
    taken_over["metadata"]["managedFields"] = json!([{"manager": "member-agent"}, {"manager": "kubectl"}]);
    let Removal::LetGo { object: free } = removal(&taken_over, &owner()) else { panic!() };
    assert_eq!(free["metadata"].get("ownerReferences"), None);
    assert_eq!(
        falls_with_ledger(&taken_over, &owner()).as_deref(),
        Some("u-a"),
        "with the ledger it goes all the same"
    );
    // Each sign alone will do: users take annotations away, and servers may keep no managers.
    let mut managed = taken_over.clone();
    managed["metadata"]["managedFields"][1]["manager"] = json!("work-api-agent");
    let mut described = taken_over.clone();
    described["metadata"]["annotations"] = json!({"kubernetes-fleet.io/last-applied-configuration": ""});
    for applied in [managed, described] {
        assert_eq!(removal(&applied, &owner()), Removal::Delete { uid: "u-a".into() });
    }
}

#[test]
fn what_others_own_too_does_not_fall_with_the_ledger() {
    let ours = owner().reference();
    assert_eq!(falls_with_ledger(&object(from_ref(&ours)), &owner()).as_deref(), Some("u-a"));
    assert_eq!(falls_with_ledger(&object(&[ours.clone(), foreign()]), &owner()), None);
    assert_eq!(falls_with_ledger(&object(&[]), &owner()), None);
    let mut going = object(&[ours]);
    going["metadata"]["deletionTimestamp"] = json!(DELETED);
    assert_eq!(falls_with_ledger(&going, &owner()), None, "it goes already");
}

#[test]
fn only_what_others_own_too_stops_blocking() {
    let ours = owner().reference();
    assert_eq!(unblocked(&object(from_ref(&ours)), &owner()), None);
    let free = unblocked(&object(&[foreign(), ours]), &owner()).unwrap();
    assert_eq!(free["metadata"]["ownerReferences"][1]["blockOwnerDeletion"], false);
    assert_eq!(unblocked(&free, &owner()), None);
}
