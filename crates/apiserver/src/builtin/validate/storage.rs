//! Checks of volumes, claims and storage classes.

use k8s_values::validation;
use serde_json::{Value, json};

use super::findings::{Findings, child};
use crate::builtin::values::{at, list, map, quantity, set_path, text};
use crate::field::FieldError;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const RECLAIM_POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];

/// Fields of a volume's spec that are not the volume itself.
const NOT_A_SOURCE: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

fn access_modes(spec: &Value, path: &str, out: &mut Findings) {
    let modes = list(spec, "accessModes");
    for mode in modes {
        out.maybe_one_of(child(path, "accessModes"), mode, &ACCESS_MODES);
    }
    let single = json!("ReadWriteOncePod");
    let shared = |mode: &Value| mode != &single && mode.as_str().is_some_and(|mode| ACCESS_MODES.contains(&mode));
    if modes.contains(&single) && modes.iter().any(shared) {
        out.forbidden(child(path, "accessModes"), "may not use ReadWriteOncePod with other access modes");
    }
}

fn positive(value: &Value, path: &str, out: &mut Findings) {
    let amount = quantity(value);
    if amount.is_some_and(|amount| amount.is_zero() || amount.is_negative()) {
        out.invalid(path, value, "must be greater than zero");
    }
}

fn sources(spec: &Value) -> Vec<&str> {
    let fields = spec.as_object().into_iter().flat_map(|object| object.keys());
    fields.map(String::as_str).filter(|field| !NOT_A_SOURCE.contains(field)).collect()
}

pub(super) fn persistent_volume(object: &Value, out: &mut Findings) {
    let spec = at(object, "spec");
    if list(spec, "accessModes").is_empty() {
        out.required("spec.accessModes", "");
    }
    access_modes(spec, "spec", out);
    let capacity = map(spec, "capacity");
    if capacity.is_empty() {
        out.required("spec.capacity", "");
    } else if !capacity.contains_key("storage") || capacity.len() > 1 {
        out.not_supported("spec.capacity", at(spec, "capacity"), &["storage"]);
    }
    for (resource, amount) in capacity {
        positive(amount, &format!("spec.capacity[{resource}]"), out);
    }
    let policy = at(spec, "persistentVolumeReclaimPolicy");
    out.maybe_one_of("spec.persistentVolumeReclaimPolicy", policy, &RECLAIM_POLICIES);
    let found = sources(spec);
    for extra in found.iter().skip(1) {
        out.forbidden(child("spec", extra), "may not specify more than 1 volume type");
    }
    if found.is_empty() {
        out.required("spec", "must specify a volume type");
    }
    if found.contains(&"local") && at(spec, "nodeAffinity").is_null() {
        out.required("spec.nodeAffinity", "Local volume requires node affinity");
    }
    if text(spec, "hostPath.path") == "/" && policy == "Recycle" {
        out.forbidden("spec.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'");
    }
    class_name(spec, "spec", out);
    out.maybe_one_of("spec.volumeMode", at(spec, "volumeMode"), &VOLUME_MODES);
}

fn class_name(spec: &Value, path: &str, out: &mut Findings) {
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        out.messages(&child(path, "storageClassName"), class, validation::dns1123_subdomain(class));
    }
}

pub(super) fn persistent_volume_update(new: &Value, old: &Value, out: &mut Findings) {
    let (after, before) = (at(new, "spec"), at(old, "spec"));
    let all: std::collections::BTreeSet<&str> = sources(after).into_iter().chain(sources(before)).collect();
    if all.into_iter().any(|source| at(after, source) != at(before, source)) {
        out.forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation\n");
    }
    out.immutable(after, before, "spec", &["volumeMode"]);
}

pub(super) fn claim(object: &Value, out: &mut Findings) {
    claim_spec(at(object, "spec"), "spec", out);
}

/// The spec of a claim, or of a claim template.
pub(super) fn claim_spec(spec: &Value, path: &str, out: &mut Findings) {
    if list(spec, "accessModes").is_empty() {
        out.required(child(path, "accessModes"), "at least 1 access mode is required");
    }
    out.label_selector(at(spec, "selector"), &child(path, "selector"));
    access_modes(spec, path, out);
    match at(spec, "resources.requests.storage") {
        Value::Null => out.required(format!("{path}.resources[storage]"), ""),
        amount => positive(amount, &format!("{path}.resources[storage]"), out),
    }
    class_name(spec, path, out);
    out.maybe_one_of(child(path, "volumeMode"), at(spec, "volumeMode"), &VOLUME_MODES);
}

/// A claim keeps what it asked for; once bound it may grow, and until then its volume may be set.
pub(super) fn claim_update(new: &Value, old: &Value, out: &mut Findings) {
    let mut allowed = at(old, "spec").clone();
    if let Value::Object(spec) = &mut allowed {
        if text(old, "spec.volumeName").is_empty() {
            set_path(spec, "volumeName", at(new, "spec.volumeName").clone());
        }
        if at(old, "spec.storageClassName").is_null() {
            set_path(spec, "storageClassName", at(new, "spec.storageClassName").clone());
        }
        if text(new, "status.phase") == "Bound" {
            let requests = at(new, "spec.resources.requests").clone();
            set_path(spec, "resources.requests", requests);
            set_path(spec, "volumeAttributesClassName", at(new, "spec.volumeAttributesClassName").clone());
        }
    }
    if &allowed != at(new, "spec") {
        out.forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n",
        );
    }
    let size = |object: &Value, path: &str| quantity(at(object, path));
    let (after, before) = (size(new, "spec.resources.requests.storage"), size(old, "spec.resources.requests.storage"));
    if after < before && after <= size(old, "status.capacity.storage") {
        out.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity");
    }
    out.immutable(at(new, "spec"), at(old, "spec"), "spec", &["volumeMode"]);
}

/// Parameters of a class, in bytes and in number.
const PARAMETERS_SIZE: usize = 256 * 1024;
const PARAMETERS_COUNT: usize = 512;

pub(super) fn storage_class(object: &Value, out: &mut Findings) {
    let provisioner = text(object, "provisioner");
    if provisioner.is_empty() {
        out.required("provisioner", "");
    } else {
        let lower = provisioner.to_lowercase();
        for message in validation::qualified_name(&lower) {
            out.invalid("provisioner", &json!(lower), message);
        }
    }
    let parameters = map(object, "parameters");
    if parameters.len() > PARAMETERS_COUNT {
        out.push(FieldError::too_long("parameters", PARAMETERS_COUNT));
    }
    let mut size = 0;
    for (key, value) in parameters {
        if key.is_empty() {
            out.invalid("parameters", &json!(""), "field can not be empty.");
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > PARAMETERS_SIZE {
        out.push(FieldError::too_long("parameters", PARAMETERS_SIZE));
    }
    out.maybe_one_of("reclaimPolicy", at(object, "reclaimPolicy"), &["Delete", "Retain"]);
    out.one_of("volumeBindingMode", at(object, "volumeBindingMode"), &["Immediate", "WaitForFirstConsumer"]);
}

pub(super) fn storage_class_update(new: &Value, old: &Value, out: &mut Findings) {
    for field in ["parameters", "provisioner", "reclaimPolicy"] {
        if at(new, field) != at(old, field) {
            out.forbidden(field, format!("updates to {field} are forbidden."));
        }
    }
    out.immutable(new, old, "", &["volumeBindingMode"]);
}
