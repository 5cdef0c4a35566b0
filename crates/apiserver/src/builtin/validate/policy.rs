//! Checks of disruption budgets and autoscalers.

use k8s_values::validation;
use serde_json::{Value, json};

use super::findings::{Findings, child};
use crate::builtin::values::{at, int, list, quantity, text};
use crate::field::FieldError;

pub(super) fn disruption_budget(object: &Value, out: &mut Findings) {
    let spec = at(object, "spec");
    let (least, most) = (at(spec, "minAvailable"), at(spec, "maxUnavailable"));
    if !least.is_null() && !most.is_null() {
        // Printed with the names and the order that the fields have in Go.
        let (selector, eviction) = (at(spec, "selector"), at(spec, "unhealthyPodEvictionPolicy"));
        let shown = format!(
            "{{\"MinAvailable\":{least},\"Selector\":{selector},\"MaxUnavailable\":{most},\"UnhealthyPodEvictionPolicy\":{eviction}}}"
        );
        let error = FieldError::invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set");
        out.push(FieldError { value: Some(shown), ..error });
    }
    for (field, value) in [("minAvailable", least), ("maxUnavailable", most)] {
        if !value.is_null() {
            out.amount_or_percent(&child("spec", field), value);
            out.at_most_hundred_percent(&child("spec", field), value);
        }
    }
    out.label_selector(at(spec, "selector"), "spec.selector");
    out.maybe_one_of(
        "spec.unhealthyPodEvictionPolicy",
        at(spec, "unhealthyPodEvictionPolicy"),
        &["AlwaysAllow", "IfHealthyBudget"],
    );
}

/// Longest look back of an autoscaler, and longest period of a policy, in seconds.
const WINDOW_MAXIMUM: i64 = 3600;
const PERIOD_MAXIMUM: i64 = 1800;

pub(super) fn autoscaler(object: &Value, out: &mut Findings) {
    let spec = at(object, "spec");
    let (least, most) = (int(spec, "minReplicas"), int(spec, "maxReplicas").unwrap_or_default());
    if least.is_some_and(|least| least < 1) {
        out.invalid("spec.minReplicas", at(spec, "minReplicas"), "must be greater than or equal to 1");
    }
    if most < 1 {
        out.invalid("spec.maxReplicas", &json!(most), "must be greater than 0");
    }
    if least.is_some_and(|least| most < least) {
        out.invalid("spec.maxReplicas", &json!(most), "must be greater than or equal to `minReplicas`");
    }
    let target = at(spec, "scaleTargetRef");
    for field in ["kind", "name"] {
        out.named(&format!("spec.scaleTargetRef.{field}"), text(target, field), validation::path_segment);
    }
    api_version(target, out);
    let scales_on = |kind: &str| list(spec, "metrics").iter().any(|metric| text(metric, "type") == kind);
    if least == Some(0) && !scales_on("Object") && !scales_on("External") {
        out.forbidden(
            "spec.metrics",
            "must specify at least one Object or External metric to support scaling to zero replicas",
        );
    }
    for (index, metric) in list(spec, "metrics").iter().enumerate() {
        self::metric(metric, &format!("spec.metrics[{index}]"), out);
    }
    for direction in ["scaleUp", "scaleDown"] {
        let rules = at(spec, "behavior").get(direction).unwrap_or(&Value::Null);
        if !rules.is_null() {
            scaling_rules(rules, &format!("spec.behavior.{direction}"), out);
        }
    }
}

/// What is scaled is found by group and kind; only replication controllers have no group.
fn api_version(target: &Value, out: &mut Findings) {
    let version = text(target, "apiVersion");
    let path = "spec.scaleTargetRef.apiVersion";
    if version.matches('/').count() > 1 {
        out.invalid(path, &json!(version), format!("unexpected GroupVersion string: {version}"));
    } else if !version.contains('/') && text(target, "kind") != "ReplicationController" {
        out.invalid(path, &json!(version), "apiVersion must specify API group");
    }
}

const SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

fn metric(metric: &Value, path: &str, out: &mut Findings) {
    let kind = text(metric, "type");
    if kind.is_empty() {
        out.required(child(path, "type"), "must specify a metric source type");
    }
    let Some((_, field)) = SOURCES.iter().find(|source| source.0 == kind) else {
        let known: Vec<&str> = SOURCES.iter().map(|source| source.0).collect();
        out.not_supported(child(path, "type"), &json!(kind), &known);
        return;
    };
    let source = at(metric, field);
    if source.is_null() {
        out.required(child(path, field), "must populate information for the given metric source");
        return;
    }
    for (_, other) in SOURCES.iter().filter(|(_, other)| other != field && !at(metric, other).is_null()) {
        out.forbidden(child(path, other), "must populate the given metric source only");
    }
    let path = child(path, field);
    if matches!(*field, "resource" | "containerResource") {
        resource_source(source, &path, out);
    }
    target(at(source, "target"), &format!("{path}.target"), out);
}

fn resource_source(source: &Value, path: &str, out: &mut Findings) {
    if text(source, "name").is_empty() {
        out.required(child(path, "name"), "must specify a resource name");
    }
    let has = |field: &str| !at(source, &format!("target.{field}")).is_null();
    match (has("averageUtilization"), has("averageValue")) {
        (false, false) => out.required(
            format!("{path}.target.averageUtilization"),
            "must set either a target raw value or a target utilization",
        ),
        (true, true) => out.forbidden(
            format!("{path}.target.averageValue"),
            "may not set both a target raw value and a target utilization",
        ),
        _ => {}
    }
}

fn target(target: &Value, path: &str, out: &mut Findings) {
    match text(target, "type") {
        "" => out.required(child(path, "type"), "must specify a metric target type"),
        "Utilization" | "Value" | "AverageValue" => {}
        other => {
            out.invalid(child(path, "type"), &json!(other), "must be either Utilization, Value, or AverageValue");
        }
    }
    for field in ["value", "averageValue"] {
        let amount = quantity(at(target, field));
        if amount.is_some_and(|amount| amount.is_zero() || amount.is_negative()) {
            out.invalid(child(path, field), at(target, field), "must be positive");
        }
    }
    if int(target, "averageUtilization").is_some_and(|percent| percent < 1) {
        out.invalid(child(path, "averageUtilization"), at(target, "averageUtilization"), "must be greater than 0");
    }
}

fn scaling_rules(rules: &Value, path: &str, out: &mut Findings) {
    let window = at(rules, "stabilizationWindowSeconds");
    if int(rules, "stabilizationWindowSeconds").is_some_and(|seconds| seconds < 0) {
        out.invalid(child(path, "stabilizationWindowSeconds"), window, "must be greater than or equal to zero");
    }
    if int(rules, "stabilizationWindowSeconds").is_some_and(|seconds| seconds > WINDOW_MAXIMUM) {
        let why = format!("must be less than or equal to {WINDOW_MAXIMUM}");
        out.invalid(child(path, "stabilizationWindowSeconds"), window, why);
    }
    out.maybe_one_of(child(path, "selectPolicy"), at(rules, "selectPolicy"), &["Disabled", "Max", "Min"]);
    let policies = list(rules, "policies");
    if policies.is_empty() {
        out.required(child(path, "policies"), "must specify at least one Policy");
    }
    for (index, policy) in policies.iter().enumerate() {
        let path = format!("{path}.policies[{index}]");
        out.maybe_one_of(child(&path, "type"), at(policy, "type"), &["Percent", "Pods"]);
        for field in ["value", "periodSeconds"] {
            if int(policy, field).unwrap_or_default() <= 0 {
                out.invalid(child(&path, field), at(policy, field), "must be greater than zero");
            }
        }
        if int(policy, "periodSeconds").is_some_and(|seconds| seconds > PERIOD_MAXIMUM) {
            let why = format!("must be less than or equal to {PERIOD_MAXIMUM}");
            out.invalid(child(&path, "periodSeconds"), at(policy, "periodSeconds"), why);
        }
    }
}
