//! Cells of configuration, access and extension kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::format::{NONE, UNSET, age, int, name, or_empty, selector};
use crate::builtin::values::{at, flag, list, map, text};
use crate::table::duration::human_duration;

pub(super) fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    let entries = map(object, "data").len() + map(object, "binaryData").len();
    vec![name(object), json!(entries), age(object, now)]
}

pub(super) fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(text(object, "type")), json!(map(object, "data").len()), age(object, now)]
}

pub(super) fn service_account(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(list(object, "secrets").len()), age(object, now)]
}

pub(super) fn role_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let role = format!("{}/{}", text(object, "roleRef.kind"), text(object, "roleRef.name"));
    let of = |kind: &str| {
        let all: Vec<String> = list(object, "subjects")
            .iter()
            .filter(|subject| text(subject, "kind") == kind)
            .map(|subject| match kind {
                "ServiceAccount" => format!("{}/{}", text(subject, "namespace"), text(subject, "name")),
                _ => text(subject, "name").to_owned(),
            })
            .collect();
        json!(all.join(", "))
    };
    vec![name(object), json!(role), age(object, now), of("User"), of("Group"), of("ServiceAccount")]
}

pub(super) fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(text(object, "spec.holderIdentity")), age(object, now)]
}

pub(super) fn priority_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(int(object, "value")),
        json!(flag(object, "globalDefault")),
        age(object, now),
        json!(text(object, "preemptionPolicy")),
    ]
}

pub(super) fn runtime_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(text(object, "handler")), age(object, now)]
}

pub(super) fn webhooks(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(list(object, "webhooks").len()), age(object, now)]
}

pub(super) fn admission_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    let kind = at(object, "spec.paramKind");
    let parameters =
        if kind.is_null() { UNSET.to_owned() } else { format!("{}/{}", text(kind, "apiVersion"), text(kind, "kind")) };
    vec![name(object), json!(list(object, "spec.validations").len()), json!(parameters), age(object, now)]
}

pub(super) fn admission_policy_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let reference = at(object, "spec.paramRef");
    let parameters = match (text(reference, "name"), at(reference, "selector")) {
        ("", Value::Null) => UNSET.to_owned(),
        ("", chosen) => selector(chosen),
        (name, _) => format!("{}/{name}", or_empty(reference, "namespace", "*")),
    };
    vec![name(object), json!(text(object, "spec.policyName")), json!(parameters), age(object, now)]
}

pub(super) fn api_service(object: &Value, now: Timestamp) -> Vec<Value> {
    let service = at(object, "spec.service");
    let service = if service.is_null() {
        "Local".to_owned()
    } else {
        format!("{}/{}", text(service, "namespace"), text(service, "name"))
    };
    let available = list(object, "status.conditions").iter().find(|c| text(c, "type") == "Available");
    let status = match available.map(|c| (text(c, "status"), text(c, "reason"))) {
        None => "Unknown".to_owned(),
        Some((status, reason)) if status != "True" && !reason.is_empty() => format!("{status} ({reason})"),
        Some((status, _)) => status.to_owned(),
    };
    vec![name(object), json!(service), json!(status), age(object, now)]
}

pub(super) fn signing_request(object: &Value, now: Timestamp) -> Vec<Value> {
    let duration = at(object, "spec.expirationSeconds").as_i64();
    vec![
        name(object),
        age(object, now),
        json!(or_empty(object, "spec.signerName", NONE)),
        json!(text(object, "spec.username")),
        json!(duration.map_or_else(|| NONE.to_owned(), human_duration)),
        json!(signing_status(object)),
    ]
}

fn signing_status(request: &Value) -> String {
    let has = |kind: &str| list(request, "status.conditions").iter().any(|c| text(c, "type") == kind);
    let mut out = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied".to_owned(),
        (false, true) => "Approved".to_owned(),
        (false, false) => "Pending".to_owned(),
    };
    if has("Failed") {
        out.push_str(",Failed");
    }
    if !text(request, "status.certificate").is_empty() {
        out.push_str(",Issued");
    }
    out
}

pub(super) fn flow_schema(object: &Value, now: Timestamp) -> Vec<Value> {
    let dangling = list(object, "status.conditions").iter().find(|c| text(c, "type") == "Dangling");
    vec![
        name(object),
        json!(text(object, "spec.priorityLevelConfiguration.name")),
        json!(int(object, "spec.matchingPrecedence")),
        json!(or_empty(object, "spec.distinguisherMethod.type", NONE)),
        age(object, now),
        json!(dangling.map_or("?", |c| text(c, "status"))),
    ]
}

pub(super) fn priority_level(object: &Value, now: Timestamp) -> Vec<Value> {
    let limited = at(object, "spec.limited");
    let or_none = |value: &Value| if value.is_null() { json!(NONE) } else { value.clone() };
    let queuing = at(limited, "limitResponse.queuing");
    vec![
        name(object),
        json!(text(object, "spec.type")),
        or_none(at(limited, "nominalConcurrencyShares")),
        or_none(at(queuing, "queues")),
        or_none(at(queuing, "handSize")),
        or_none(at(queuing, "queueLengthLimit")),
        age(object, now),
    ]
}
