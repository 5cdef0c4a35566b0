//! Checks of configuration kinds: ConfigMaps, Secrets, namespaces, events, leases, priority and runtime classes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_values::validation;
use serde_json::{Value, json};

use super::findings::Findings;
use super::metadata;
use crate::builtin::values::{at, flag, int, list, map, text, texts};
use crate::field::FieldError;
use crate::go_errors::json_error;

/// All data of a ConfigMap or Secret together, in bytes: one object must fit into one store request.
const DATA_MAXIMUM: usize = 1024 * 1024;

const FROZEN: &str = "field is immutable when `immutable` is set";

fn decoded_length(encoded: &Value) -> usize {
    encoded.as_str().and_then(|text| STANDARD.decode(text).ok()).map_or(0, |bytes| bytes.len())
}

pub(super) fn config_map(object: &Value, out: &mut Findings) {
    let mut size = 0;
    for (key, value) in map(object, "data") {
        out.messages(&format!("data[{key}]"), key, validation::config_key(key));
        if map(object, "binaryData").contains_key(key) {
            out.invalid(format!("data[{key}]"), &json!(key), "duplicate of key present in binaryData");
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value) in map(object, "binaryData") {
        out.messages(&format!("binaryData[{key}]"), key, validation::config_key(key));
        size += decoded_length(value);
    }
    if size > DATA_MAXIMUM {
        out.push(FieldError::too_long("[]", DATA_MAXIMUM));
    }
}

pub(super) fn config_map_update(new: &Value, old: &Value, out: &mut Findings) {
    frozen(new, old, &["data", "binaryData"], out);
}

fn frozen(new: &Value, old: &Value, fields: &[&str], out: &mut Findings) {
    if !flag(old, "immutable") {
        return;
    }
    if !flag(new, "immutable") {
        out.forbidden("immutable", FROZEN);
    }
    for field in fields {
        if at(new, field) != at(old, field) {
            out.forbidden(*field, FROZEN);
        }
    }
}

/// Entries without which a secret of a type is useless.
const SECRET_ENTRIES: &[(&str, &[&str])] = &[
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
];

pub(super) fn secret(object: &Value, out: &mut Findings) {
    let data = map(object, "data");
    let mut size = 0;
    for (key, value) in data {
        out.messages(&format!("data[{key}]"), key, validation::config_key(key));
        size += decoded_length(value);
    }
    if size > DATA_MAXIMUM {
        out.push(FieldError::too_long("data", DATA_MAXIMUM));
    }
    let kind = text(object, "type");
    for (_, entries) in SECRET_ENTRIES.iter().filter(|row| row.0 == kind) {
        for entry in entries.iter().filter(|entry| !data.contains_key(**entry)) {
            out.required(format!("data[{entry}]"), "");
        }
        for entry in entries.iter().filter(|entry| entry.starts_with(".docker")) {
            docker_config(data.get(*entry), &format!("data[{entry}]"), out);
        }
    }
    match kind {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            if texts(object, "metadata.annotations").all(|(found, name)| found != key || name.is_empty()) {
                out.required(format!("metadata.annotations[{key}]"), "");
            }
        }
        "kubernetes.io/basic-auth" if !data.contains_key("username") && !data.contains_key("password") => {
            out.required("data[username]", "");
            out.required("data[password]", "");
        }
        _ => {}
    }
}

fn docker_config(value: Option<&Value>, path: &str, out: &mut Findings) {
    let Some(bytes) = value.and_then(Value::as_str).and_then(|text| STANDARD.decode(text).ok()) else { return };
    let problem = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => {
            format!("json: cannot unmarshal {} into Go value of type map[string]interface {{}}", json_kind(&other))
        }
        Err(error) => json_error(&bytes, &error),
    };
    out.invalid(path, &json!("<secret contents redacted>"), problem);
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Array(_) => "array",
        Value::Object(_) | Value::Null => "object",
    }
}

pub(super) fn secret_update(new: &Value, old: &Value, out: &mut Findings) {
    out.immutable(new, old, "", &["type"]);
    frozen(new, old, &["data"], out);
}

pub(super) fn namespace(object: &Value, out: &mut Findings) {
    for finalizer in list(object, "spec.finalizers") {
        let path = "spec.finalizers";
        let name = finalizer.as_str().unwrap_or_default();
        out.messages(path, name, validation::qualified_name(name));
        metadata::finalizer_domain(out, finalizer, path);
    }
}

/// Longest parts of an event, in bytes.
const EVENT_LIMITS: [(&str, usize); 4] =
    [("reportingInstance", 128), ("action", 128), ("reason", 128), ("message", 1024)];

/// Events with an `eventTime` follow the newer rules: they require the reporter and the action.
pub(super) fn event(object: &Value, out: &mut Findings) {
    let own = text(object, "metadata.namespace");
    let involved = text(object, "involvedObject.namespace");
    let new_style = !at(object, "eventTime").is_null();
    let fits = match (new_style, involved) {
        (false, "") => matches!(own, "" | "default"),
        (true, "") => matches!(own, "default" | "kube-system"),
        (false, _) => own == involved,
        (true, _) => true,
    };
    if !fits {
        out.invalid("involvedObject.namespace", &json!(involved), "does not match event.namespace");
    }
    if new_style {
        for field in ["reportingComponent", "reportingInstance", "action", "reason"] {
            if text(object, field).is_empty() {
                out.required(field, "");
            }
        }
        let controller = text(object, "reportingComponent");
        out.messages("reportingComponent", controller, validation::qualified_name(controller));
        for (field, maximum) in EVENT_LIMITS {
            if text(object, field).len() > maximum {
                out.invalid(field, &json!(""), format!("can have at most {maximum} characters"));
            }
        }
    }
}

/// events.k8s.io has another name for the reporter field.
pub(super) fn in_words_of_new_events(out: &mut Findings) {
    for finding in out.0.iter_mut().filter(|finding| finding.path == "reportingComponent") {
        "reportingController".clone_into(&mut finding.path);
    }
}

/// Through events.k8s.io only the series of an event may change.
pub(super) fn new_event_update(new: &Value, old: &Value, out: &mut Findings) {
    let fields = [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
        "type",
    ];
    out.immutable(new, old, "", &fields);
}

/// Events made through events.k8s.io must be of the newer style and may not use the older fields.
pub(super) fn new_event(object: &Value, out: &mut Findings) {
    if !at(object, "series").is_null() {
        if int(object, "series.count").unwrap_or_default() < 2 {
            out.invalid("series.count", &json!(""), "should be at least 2");
        }
        if at(object, "series.lastObservedTime").is_null() {
            out.required("series.lastObservedTime", "");
        }
    }
    if at(object, "eventTime").is_null() {
        out.required("eventTime", "");
    }
    let kind = text(object, "type");
    if !matches!(kind, "Normal" | "Warning") {
        out.invalid("type", &json!(""), format!("has invalid value: {kind}"));
    }
    for field in ["firstTimestamp", "lastTimestamp", "count"] {
        if !at(object, field).is_null() {
            out.invalid(field, &json!(""), "needs to be unset");
        }
    }
    if !text(object, "source.component").is_empty() || !text(object, "source.host").is_empty() {
        out.invalid("source", &json!(""), "needs to be unset");
    }
}

pub(super) fn lease(object: &Value, out: &mut Findings) {
    let spec = at(object, "spec");
    if int(spec, "leaseDurationSeconds").is_some_and(|seconds| seconds <= 0) {
        out.invalid("spec.leaseDurationSeconds", at(spec, "leaseDurationSeconds"), "must be greater than 0");
    }
    out.not_negative(spec, "spec", &["leaseTransitions"]);
}

/// Highest priority that users may give; what is above belongs to the system.
const USER_PRIORITY_MAXIMUM: i64 = 1_000_000_000;
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub(super) fn priority_class(object: &Value, out: &mut Findings) {
    let (name, value) = (text(object, "metadata.name"), int(object, "value").unwrap_or_default());
    if name.starts_with("system-") {
        let problem = match SYSTEM_CLASSES.iter().find(|row| row.0 == name) {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, wanted)) if *wanted != value => Some(format!("value of {name} PriorityClass must be {wanted}")),
            Some(_) if flag(object, "globalDefault") => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(problem) = problem {
            out.forbidden(
                "metadata.name",
                format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {problem}"
                ),
            );
        }
    } else if value > USER_PRIORITY_MAXIMUM {
        let why = format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAXIMUM}");
        out.forbidden("value", why);
    }
    out.maybe_one_of("preemptionPolicy", at(object, "preemptionPolicy"), &["PreemptLowerPriority", "Never"]);
}

pub(super) fn priority_class_update(new: &Value, old: &Value, out: &mut Findings) {
    if at(new, "value") != at(old, "value") {
        out.forbidden("value", "may not be changed in an update.");
    }
    out.immutable(new, old, "", &["preemptionPolicy"]);
}

pub(super) fn runtime_class(object: &Value, out: &mut Findings) {
    let handler = text(object, "handler");
    out.messages("handler", handler, validation::dns1123_label(handler));
}

pub(super) fn runtime_class_update(new: &Value, old: &Value, out: &mut Findings) {
    out.immutable(new, old, "", &["handler"]);
}
