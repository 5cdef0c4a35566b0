//! Cells of volumes, claims and storage classes.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::format::{NONE, UNSET, age, name, or};
use crate::builtin::values::{at, flag, list, text};

pub(super) fn persistent_volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let claim = at(object, "spec.claimRef");
    let claim =
        if claim.is_null() { String::new() } else { format!("{}/{}", text(claim, "namespace"), text(claim, "name")) };
    vec![
        name(object),
        json!(or(object, "spec.capacity.storage", "0")),
        json!(access_modes(object, "spec.accessModes")),
        json!(text(object, "spec.persistentVolumeReclaimPolicy")),
        json!(phase(object)),
        json!(claim),
        json!(class(object)),
        json!(or(object, "spec.volumeAttributesClassName", UNSET)),
        json!(text(object, "status.reason")),
        age(object, now),
        json!(or(object, "spec.volumeMode", UNSET)),
    ]
}

pub(super) fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let volume = text(object, "spec.volumeName");
    let bound = !volume.is_empty();
    let capacity = if bound { or(object, "status.capacity.storage", "0") } else { "" };
    let modes = if bound { access_modes(object, "status.accessModes") } else { String::new() };
    vec![
        name(object),
        json!(phase(object)),
        json!(volume),
        json!(capacity),
        json!(modes),
        json!(class(object)),
        json!(or(object, "spec.volumeAttributesClassName", UNSET)),
        age(object, now),
        json!(or(object, "spec.volumeMode", UNSET)),
    ]
}

fn phase(object: &Value) -> &str {
    if at(object, "metadata.deletionTimestamp").is_null() { text(object, "status.phase") } else { "Terminating" }
}

/// An annotation from before the field existed wins over the field.
fn class(object: &Value) -> &str {
    let old = at(object, "metadata.annotations").get("volume.beta.kubernetes.io/storage-class").and_then(Value::as_str);
    old.unwrap_or_else(|| text(object, "spec.storageClassName"))
}

fn access_modes(object: &Value, path: &str) -> String {
    let modes = list(object, path);
    let short =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let found: Vec<&str> =
        short.iter().filter(|(long, _)| modes.contains(&json!(long))).map(|(_, short)| *short).collect();
    found.join(",")
}

pub(super) fn storage_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let annotations = at(object, "metadata.annotations");
    let is_default =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"]
            .iter()
            .any(|key| annotations.get(key) == Some(&json!("true")));
    let mark = if is_default { " (default)" } else { "" };
    vec![
        json!(format!("{}{mark}", text(object, "metadata.name"))),
        json!(text(object, "provisioner")),
        json!(or(object, "reclaimPolicy", "Delete")),
        json!(or(object, "volumeBindingMode", "Immediate")),
        json!(flag(object, "allowVolumeExpansion")),
        age(object, now),
    ]
}

pub(super) fn attributes_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(text(object, "driverName")), age(object, now)]
}

pub(super) fn attachment(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(text(object, "spec.attacher")),
        json!(text(object, "spec.source.persistentVolumeName")),
        json!(text(object, "spec.nodeName")),
        json!(flag(object, "status.attached")),
        age(object, now),
    ]
}

pub(super) fn csi_driver(object: &Value, now: Timestamp) -> Vec<Value> {
    let modes: Vec<&str> = list(object, "spec.volumeLifecycleModes").iter().filter_map(Value::as_str).collect();
    let audiences: Vec<&str> = list(object, "spec.tokenRequests").iter().map(|t| text(t, "audience")).collect();
    vec![
        name(object),
        json!(at(object, "spec.attachRequired").as_bool().unwrap_or(true)),
        json!(flag(object, "spec.podInfoOnMount")),
        json!(flag(object, "spec.storageCapacity")),
        json!(if audiences.is_empty() { UNSET.to_owned() } else { audiences.join(",") }),
        json!(flag(object, "spec.requiresRepublish")),
        json!(if modes.is_empty() { NONE.to_owned() } else { modes.join(",") }),
        age(object, now),
    ]
}

pub(super) fn csi_node(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(list(object, "spec.drivers").len()), age(object, now)]
}

pub(super) fn csi_capacity(object: &Value, _: Timestamp) -> Vec<Value> {
    vec![name(object), json!(text(object, "storageClassName")), json!(or(object, "capacity", UNSET))]
}
