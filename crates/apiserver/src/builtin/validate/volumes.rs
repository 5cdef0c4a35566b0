//! Checks of pod volumes.

use std::collections::BTreeSet;

use k8s_values::validation;
use serde_json::Value;

use super::findings::Findings;
use crate::builtin::values::{at, int, list, map, quantity, text};

/// The names of the volumes of a pod, checked on the way.
pub(super) fn volumes<'a>(spec: &'a Value, path: &str, out: &mut Findings) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let path = format!("{path}[{index}]");
        let name = text(volume, "name");
        let before = out.0.len();
        source(volume, &path, out);
        out.named(&format!("{path}.name"), name, validation::dns1123_label);
        if found.contains(name) {
            out.duplicate(format!("{path}.name"), at(volume, "name"));
        } else if out.0.len() == before {
            found.insert(name);
        }
    }
    found
}

fn source(volume: &Value, path: &str, out: &mut Findings) {
    let Some(object) = volume.as_object() else { return };
    let mut kinds: Vec<&str> = object.keys().map(String::as_str).filter(|key| *key != "name").collect();
    kinds.sort_by_key(|kind| *kind != "emptyDir");
    if kinds.is_empty() {
        out.required(path, "must specify a volume type");
    }
    for kind in kinds.iter().skip(1) {
        out.forbidden(format!("{path}.{kind}"), "may not specify more than 1 volume type");
    }
    let Some(kind) = kinds.first() else { return };
    let inner = at(volume, kind);
    let path = format!("{path}.{kind}");
    match *kind {
        "emptyDir" if quantity(at(inner, "sizeLimit")).is_some_and(|limit| limit.is_negative()) => {
            out.forbidden(format!("{path}.sizeLimit"), "SizeLimit field must be a valid resource quantity");
        }
        "hostPath" => {
            required(inner, "path", &path, out);
            if text(inner, "path").split('/').any(|part| part == "..") {
                out.invalid(format!("{path}.path"), at(inner, "path"), "must not contain '..'");
            }
        }
        "secret" => {
            required(inner, "secretName", &path, out);
            files(inner, &path, out);
        }
        "configMap" => {
            required(inner, "name", &path, out);
            files(inner, &path, out);
        }
        "persistentVolumeClaim" => required(inner, "claimName", &path, out),
        "nfs" => {
            required(inner, "server", &path, out);
            required(inner, "path", &path, out);
            if !text(inner, "path").starts_with('/') {
                out.invalid(format!("{path}.path"), at(inner, "path"), "must be an absolute path");
            }
        }
        "csi" => required(inner, "driver", &path, out),
        _ => {}
    }
}

fn required(object: &Value, field: &str, path: &str, out: &mut Findings) {
    if text(object, field).is_empty() {
        out.required(format!("{path}.{field}"), "");
    }
}

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

fn files(source: &Value, path: &str, out: &mut Findings) {
    let fits = |mode: Option<i64>| mode.is_none_or(|mode| (0..=0o777).contains(&mode));
    if !fits(int(source, "defaultMode")) {
        out.invalid(format!("{path}.defaultMode"), at(source, "defaultMode"), MODE);
    }
    for (index, item) in list(source, "items").iter().enumerate() {
        let path = format!("{path}.items[{index}]");
        required(item, "key", &path, out);
        required(item, "path", &path, out);
        relative(text(item, "path"), &format!("{path}.path"), out);
        if !fits(int(item, "mode")) {
            out.invalid(format!("{path}.mode"), at(item, "mode"), MODE);
        }
    }
}

/// A path that stays below where it is mounted.
pub(super) fn relative(path: &str, at: &str, out: &mut Findings) {
    let value = Value::from(path);
    if path.starts_with('/') {
        out.invalid(at, &value, "must be a relative path");
    }
    if path.split('/').any(|part| part == "..") {
        out.invalid(at, &value, "must not contain '..'");
    }
}

/// Mounts of one container.
pub(super) fn mounts(container: &Value, volumes: &BTreeSet<&str>, path: &str, out: &mut Findings) {
    let mut points = BTreeSet::new();
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let path = format!("{path}.volumeMounts[{index}]");
        let (name, point) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            out.required(format!("{path}.name"), "");
        }
        if !volumes.contains(name) {
            out.push(crate::field::FieldError::not_found(format!("{path}.name"), &Value::from(name)));
        }
        if point.is_empty() {
            out.required(format!("{path}.mountPath"), "");
        }
        if !points.insert(point) {
            out.invalid(format!("{path}.mountPath"), at(mount, "mountPath"), "must be unique");
        }
        relative(text(mount, "subPath"), &format!("{path}.subPath"), out);
        if !text(mount, "subPath").is_empty() && !text(mount, "subPathExpr").is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            out.invalid(format!("{path}.subPathExpr"), at(mount, "subPathExpr"), why);
        }
    }
}

/// Node selectors are plain labels.
pub(super) fn node_selector(spec: &Value, path: &str, out: &mut Findings) {
    if !map(spec, "nodeSelector").is_empty() {
        out.labels(spec, "nodeSelector", path);
    }
}
