//! Defaults of apps, batch and autoscaling that depend on other fields of the same object.

use serde_json::{Value, json};

use super::Rule;
use crate::builtin::values::{Object, field, items, put, sub, sub_path};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("io.k8s.api.apps.v1.Deployment", deployment),
    ("io.k8s.api.apps.v1.DaemonSet", daemon_set),
    ("io.k8s.api.apps.v1.StatefulSet", stateful_set),
    ("io.k8s.api.batch.v1.Job", job),
    ("io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler", autoscaler),
];

fn deployment(deployment: &mut Object) {
    let strategy = sub_path(deployment, "spec.strategy");
    put(strategy, "type", "RollingUpdate");
    if field(strategy, "type") == "RollingUpdate" {
        let rolling = sub(strategy, "rollingUpdate");
        put(rolling, "maxUnavailable", "25%");
        put(rolling, "maxSurge", "25%");
    }
}

/// Annotation that counts the changes of a daemon set's template, kept for clients of old. It is there before anything
/// is counted, so the creator of the set owns it.
pub(in crate::builtin) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn daemon_set(set: &mut Object) {
    put(sub_path(set, "metadata.annotations"), TEMPLATE_GENERATION, "0");
    let strategy = sub_path(set, "spec.updateStrategy");
    put(strategy, "type", "RollingUpdate");
    if field(strategy, "type") == "RollingUpdate" {
        let rolling = sub(strategy, "rollingUpdate");
        put(rolling, "maxUnavailable", 1);
        put(rolling, "maxSurge", 0);
    }
}

fn stateful_set(set: &mut Object) {
    let spec = sub(set, "spec");
    let strategy = sub(spec, "updateStrategy");
    if field(strategy, "type").is_null() {
        strategy.insert("type".to_owned(), json!("RollingUpdate"));
        sub(strategy, "rollingUpdate");
    }
    if field(strategy, "type") == "RollingUpdate" && strategy.contains_key("rollingUpdate") {
        put(sub(strategy, "rollingUpdate"), "partition", 0);
    }
    for claim in items(spec, "volumeClaimTemplates") {
        claim.insert("apiVersion".to_owned(), json!("v1"));
        claim.insert("kind".to_owned(), json!("PersistentVolumeClaim"));
    }
}

/// Defaults of Jobs. Job templates of CronJobs are not jobs yet and get none of these.
fn job(job: &mut Object) {
    let labels = job.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    if let Some(labels) = labels.filter(|labels| labels.as_object().is_some_and(|labels| !labels.is_empty())) {
        put(sub(job, "metadata"), "labels", labels);
    }
    let spec = sub(job, "spec");
    if field(spec, "parallelism").is_null() {
        put(spec, "completions", 1);
        put(spec, "parallelism", 1);
    }
    let per_index = spec.contains_key("backoffLimitPerIndex");
    put(spec, "backoffLimit", if per_index { i64::from(i32::MAX) } else { 6 });
    put(spec, "completionMode", "NonIndexed");
    put(spec, "suspend", false);
    let replacement = if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    put(spec, "podReplacementPolicy", replacement);
    put(spec, "manualSelector", false);
}

fn autoscaler(autoscaler: &mut Object) {
    let spec = sub(autoscaler, "spec");
    put(spec, "metrics", json!([cpu_utilization(DEFAULT_CPU_PERCENT)]));
    if spec.contains_key("behavior") {
        let behavior = sub(spec, "behavior");
        scaling_rules(
            behavior,
            "scaleUp",
            &json!({
                "stabilizationWindowSeconds": 0,
                "selectPolicy": "Max",
                "policies": [
                    {"type": "Pods", "value": 4, "periodSeconds": 15},
                    {"type": "Percent", "value": 100, "periodSeconds": 15},
                ],
            }),
        );
        scaling_rules(
            behavior,
            "scaleDown",
            &json!({
                "selectPolicy": "Max",
                "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
            }),
        );
    }
}

/// Average use of the requested CPU that an autoscaler without metrics aims at, in percent.
pub(in crate::builtin) const DEFAULT_CPU_PERCENT: i64 = 80;

pub(in crate::builtin) fn cpu_utilization(percent: i64) -> Value {
    json!({
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}},
    })
}

fn scaling_rules(behavior: &mut Object, direction: &str, defaults: &Value) {
    let rules = sub(behavior, direction);
    for (name, value) in defaults.as_object().into_iter().flatten() {
        put(rules, name, value.clone());
    }
}
