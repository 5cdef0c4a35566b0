//! Deletion of Works and objects.

use std::slice::from_ref;

use fleet_api::kinds::{AppliedWork, Work};
use fleet_api::types::WorkResourceIdentifier;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::apply::containers::{is_container, is_in, placed_in, sort_for_removal};
use crate::apply::finalize::{Finalization, next_step, objects_to_delete, with_accepted_status};
use crate::apply::ownership::{Owner, Removal, removal, uid_if_garbage_collected, unblocked};

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

fn applied_work(deleted: bool) -> AppliedWork {
    let mut applied_work =
        json!({"metadata": {"name": "w", "uid": "u"}, "spec": {"workName": "w", "workNamespace": "n"}});
    if deleted {
        applied_work["metadata"]["deletionTimestamp"] = json!(DELETED);
    }
    serde_json::from_value(applied_work).unwrap()
}

fn after(minutes: i64) -> Timestamp {
    DELETED.parse::<Timestamp>().unwrap() + SignedDuration::from_mins(minutes)
}

const OURS: &str = "kubernetes-fleet.io/work-cleanup";

#[test]
fn applier_s59_s60_only_deleted_works_with_our_finalizer_are_finalized() {
    let next = |work: &Work, applied_work: Option<&AppliedWork>, minutes| {
        next_step(work, applied_work, STUCK_AFTER, after(minutes))
    };
    assert_eq!(next(&work(&[OURS], false, None), Some(&applied_work(false)), 0), Finalization::Nothing);
    assert_eq!(next(&work(&["other"], true, None), Some(&applied_work(false)), 0), Finalization::Nothing);
    let held = work(&[OURS], true, None);
    assert_eq!(next(&held, Some(&applied_work(false)), 0), Finalization::DeleteAppliedWork { objects_stay: false });
    assert_eq!(next(&held, Some(&applied_work(true)), 1), Finalization::Wait { until: after(5) });
    assert_eq!(next(&held, None, 2), Finalization::RemoveFinalizer);
}

#[test]
fn applier_s61_a_deletion_that_hangs_is_completed() {
    let held = work(&[OURS], true, None);
    assert_eq!(
        next_step(&held, Some(&applied_work(true)), STUCK_AFTER, after(5)),
        Finalization::Unblock { again_at: after(10) }
    );
}

#[test]
fn a_placement_that_abandons_its_resources_leaves_them() {
    let abandoned = work(&[OURS], true, Some("Abandon"));
    assert_eq!(
        next_step(&abandoned, Some(&applied_work(false)), STUCK_AFTER, after(0)),
        Finalization::DeleteAppliedWork { objects_stay: true }
    );
    let deleted = work(&[OURS], true, Some("Delete"));
    assert_eq!(
        next_step(&deleted, Some(&applied_work(false)), STUCK_AFTER, after(0)),
        Finalization::DeleteAppliedWork { objects_stay: false }
    );
}

#[test]
fn dependencies_are_deleted_last_and_each_object_once() {
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
    let mut applied_work = json!(applied_work(false));
    applied_work["status"] = json!({"appliedResources": [older, map]});
    let names: Vec<String> =
        objects_to_delete(&serde_json::from_value(held).unwrap(), &serde_json::from_value(applied_work).unwrap())
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
fn applier_s08_s09_only_objects_that_we_alone_own_are_deleted() {
    let ours = owner().reference();
    assert_eq!(removal(&object(from_ref(&ours)), &owner()), Removal::Delete { uid: "u-a".into() });
    assert_eq!(removal(&object(&[]), &owner()), Removal::Leave);
    assert_eq!(removal(&object(&[foreign()]), &owner()), Removal::Leave);
    let Removal::RemoveOwner { object: kept } = removal(&object(&[ours.clone(), foreign()]), &owner()) else {
        panic!()
    };
    assert_eq!(kept["metadata"]["ownerReferences"], json!([foreign()]));
    let mut going = object(from_ref(&ours));
    going["metadata"]["deletionTimestamp"] = json!(DELETED);
    assert_eq!(removal(&going, &owner()), Removal::Leave);
    let namesake = Owner { uid: "other".into(), ..owner() };
    assert_eq!(removal(&object(from_ref(&ours)), &namesake), Removal::Leave, "an older AppliedWork of the same name");
    let mut without_uid = object(&[ours]);
    without_uid["metadata"].as_object_mut().unwrap().remove("uid");
    assert_eq!(removal(&without_uid, &owner()), Removal::Leave, "what cannot be named exactly is not deleted");
    assert_eq!(removal(&json!(null), &owner()), Removal::Leave);
}

#[test]
fn an_object_without_a_sign_of_our_apply_is_released_and_not_deleted() {
    let ours = owner().reference();
    let mut taken_over = object(from_ref(&ours));
    taken_over["metadata"].as_object_mut().unwrap().remove("annotations");
    taken_over["metadata"]["managedFields"] = json!([{"manager": "member-agent"}, {"manager": "kubectl"}]);
    let Removal::RemoveOwner { object: free } = removal(&taken_over, &owner()) else { panic!() };
    assert_eq!(free["metadata"].get("ownerReferences"), None);
    assert_eq!(
        uid_if_garbage_collected(&taken_over, &owner()).as_deref(),
        Some("u-a"),
        "with the AppliedWork it goes all the same"
    );
    // Each sign alone is enough: users remove annotations, and servers may drop managed fields.
    let mut managed = taken_over.clone();
    managed["metadata"]["managedFields"][1]["manager"] = json!("work-api-agent");
    let mut described = taken_over.clone();
    described["metadata"]["annotations"] = json!({"kubernetes-fleet.io/last-applied-configuration": ""});
    for applied in [managed, described] {
        assert_eq!(removal(&applied, &owner()), Removal::Delete { uid: "u-a".into() });
    }
}

#[test]
fn objects_with_other_owners_are_not_deleted_with_the_applied_work() {
    let ours = owner().reference();
    assert_eq!(uid_if_garbage_collected(&object(from_ref(&ours)), &owner()).as_deref(), Some("u-a"));
    assert_eq!(uid_if_garbage_collected(&object(&[ours.clone(), foreign()]), &owner()), None);
    assert_eq!(uid_if_garbage_collected(&object(&[]), &owner()), None);
    let mut going = object(&[ours]);
    going["metadata"]["deletionTimestamp"] = json!(DELETED);
    assert_eq!(uid_if_garbage_collected(&going, &owner()), None, "it goes already");
}

#[test]
fn only_objects_with_other_owners_stop_blocking_the_deletion() {
    let ours = owner().reference();
    assert_eq!(unblocked(&object(from_ref(&ours)), &owner()), None);
    let free = unblocked(&object(&[foreign(), ours]), &owner()).unwrap();
    assert_eq!(free["metadata"]["ownerReferences"][1]["blockOwnerDeletion"], false);
    assert_eq!(unblocked(&free, &owner()), None);
}

/// An identifier from `group/resource kind namespace/name`.
fn named(text: &str) -> WorkResourceIdentifier {
    let parts: Vec<&str> = text.split([' ', '/']).collect();
    let [group, resource, kind, namespace, name] = parts[..] else { panic!("{text}") };
    serde_json::from_value(json!({
        "ordinal": 0, "group": group, "version": "v1", "kind": kind, "resource": resource, "namespace": namespace, "name": name,
    }))
    .unwrap()
}

const SHOP: &str = "/namespaces Namespace /shop";
const DEFINITION: &str = "apiextensions.k8s.io/customresourcedefinitions CustomResourceDefinition /widgets.example.com";
const WIDGET: &str = "example.com/widgets Widget shop/w";
const MAP: &str = "/configmaps ConfigMap shop/cm";

#[test]
fn audit_04_objects_are_removed_in_reverse_apply_order_and_containers_last() {
    let role = "rbac.authorization.k8s.io/clusterroles ClusterRole /r";
    let web = "apps/deployments Deployment shop/web";
    // Recorded while its kind was not served, so its resource is unknown.
    let unserved = "apiextensions.k8s.io/ CustomResourceDefinition /gadgets.example.com";
    let mut all = [SHOP, DEFINITION, unserved, MAP, role, web, WIDGET].map(named);
    sort_for_removal(&mut all);
    let names = all.map(|identifier| identifier.name);
    assert_eq!(names, ["w", "web", "r", "cm", "gadgets.example.com", "widgets.example.com", "shop"]);
}

#[test]
fn audit_04_the_contents_of_namespaces_and_definitions_are_known() {
    let (shop, definition, widget, map) = (named(SHOP), named(DEFINITION), named(WIDGET), named(MAP));
    assert!(is_container(&shop) && is_container(&definition) && !is_container(&map));
    assert!(is_in(&widget, &shop) && is_in(&map, &shop) && is_in(&widget, &definition));
    assert!(!is_in(&map, &definition) && !is_in(&shop, &shop) && !is_in(&definition, &shop) && !is_in(&map, &map));
    assert!(!is_in(&named("example.org/widgets Widget shop/w"), &definition), "another group");
    assert!(!is_in(&named("/configmaps ConfigMap market/cm"), &shop), "another namespace");
    assert!(!is_in(&named("example.com/namespaces Namespace /x"), &shop));
    let older = WorkResourceIdentifier { version: "v1beta1".into(), ..widget.clone() };
    let placed = [&widget, &older, &map, &definition];
    let inside = placed_in(&[&shop, &definition], placed, from_ref(&map));
    assert_eq!(inside, [widget], "each object once, and not what is removed on its own");
}

#[test]
fn audit_20_embedded_objects_that_api_servers_refuse_are_removed_from_a_status() {
    let with = |embedded: &[Value]| -> Work {
        let manifest = |(ordinal, object): (usize, &Value)| {
            json!({"identifier": {"ordinal": ordinal}, "conditions": [],
                "backReportedStatus": {"observationTime": DELETED, "observedStatus": object}})
        };
        let manifests: Vec<Value> = embedded.iter().enumerate().map(manifest).collect();
        let mut work = serde_json::to_value(work(&[OURS], false, None)).unwrap();
        work["status"] = json!({"conditions": [], "manifestConditions": manifests});
        serde_json::from_value(work).unwrap()
    };
    let good = json!({"apiVersion": "v1", "kind": "ConfigMap", "status": {}});
    assert_eq!(with_accepted_status(&with(from_ref(&good))), None);
    assert_eq!(with_accepted_status(&work(&[OURS], false, None)), None);
    for forged in
        [json!({}), json!({"apiVersion": "v1"}), json!({"kind": "ConfigMap"}), json!({"apiVersion": 1, "kind": ""})]
    {
        let accepted = with_accepted_status(&with(&[good.clone(), forged])).expect("a forged status is replaced");
        let reports: Vec<bool> =
            accepted.status.unwrap().manifest_conditions.iter().map(|one| one.back_reported_status.is_some()).collect();
        assert_eq!(reports, [true, false], "only what is refused goes");
    }
}
