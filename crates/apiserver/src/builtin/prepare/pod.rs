//! A new Pod: phase Pending, with its QoS class.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::builtin::values::{Object, at, items, list, quantity};
use crate::builtin::wire;

pub(super) fn create(pod: &mut Object, now: Timestamp) {
    add_label_keys(pod);
    let whole = Value::Object(pod.clone());
    let mut status = json!({"phase": "Pending", "qosClass": class_of_service(&whole)});
    if !list(&whole, "spec.schedulingGates").is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": wire::time_text(now),
        }]);
    }
    pod.insert("status".to_owned(), status);
}

/// Terms that name keys of labels select by the pod's own values of them.
fn add_label_keys(pod: &mut Object) {
    let labels = pod.get("metadata").and_then(|metadata| metadata.get("labels")).cloned().unwrap_or_default();
    let Some(Value::Object(spec)) = pod.get_mut("spec") else { return };
    for constraint in items(spec, "topologySpreadConstraints") {
        add_to_selector(constraint, &["matchLabelKeys"], &labels);
    }
    let Some(Value::Object(affinity)) = spec.get_mut("affinity") else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(Value::Object(terms)) = affinity.get_mut(kind) else { continue };
        let both = ["matchLabelKeys", "mismatchLabelKeys"];
        for weighted in items(terms, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(Value::Object(term)) = weighted.get_mut("podAffinityTerm") {
                add_to_selector(term, &both, &labels);
            }
        }
        for term in items(terms, "requiredDuringSchedulingIgnoredDuringExecution") {
            add_to_selector(term, &both, &labels);
        }
    }
}

fn add_to_selector(term: &mut Object, fields: &[&str], labels: &Value) {
    let mut added = Vec::new();
    for field in fields {
        let operator = if *field == "matchLabelKeys" { "In" } else { "NotIn" };
        for key in term.get(*field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                added.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    let Some(Value::Object(selector)) = term.get_mut("labelSelector") else { return };
    if added.is_empty() {
        return;
    }
    match selector.get_mut("matchExpressions") {
        Some(Value::Array(expressions)) => expressions.extend(added),
        _ => drop(selector.insert("matchExpressions".to_owned(), Value::Array(added))),
    }
}

/// `Guaranteed` when every container limits CPU and memory and asks for just that, `BestEffort` when none says anything.
fn class_of_service(pod: &Value) -> &'static str {
    let own = at(pod, "spec.resources");
    let parts: Vec<&Value> = if own.is_null() {
        let all = list(pod, "spec.containers").iter().chain(list(pod, "spec.initContainers"));
        all.map(|container| at(container, "resources")).collect()
    } else {
        vec![own]
    };
    let amount = |resources: &Value, path: &str| quantity(at(resources, path)).filter(|amount| !amount.is_zero());
    let mut anything = false;
    let mut guaranteed = !parts.is_empty();
    for resources in parts {
        for resource in ["cpu", "memory"] {
            let limit = amount(resources, &format!("limits.{resource}"));
            let request = amount(resources, &format!("requests.{resource}"));
            anything |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (anything, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
