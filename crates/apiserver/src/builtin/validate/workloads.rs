//! Checks of deployments, sets and replication controllers.

use std::collections::BTreeSet;

use k8s_values::validation;
use serde_json::{Value, json};

use super::findings::{Findings, amount, child, is_empty_selector, selects};
use super::{pod, storage};
use crate::builtin::values::{at, int, list, text, texts};
use crate::field::FieldError;

const MISMATCH: &str = "`selector` does not match template `labels`";

/// The selector of a workload: there, not empty, and matching what it makes.
fn selector(object: &Value, kind: &str, out: &mut Findings) {
    let selector = at(object, "spec.selector");
    let labels = at(object, "spec.template.metadata.labels");
    if selector.is_null() {
        // No selector selects nothing, hence not the template either.
        out.required("spec.selector", "");
        out.invalid("spec.template.metadata.labels", labels, MISMATCH);
        return;
    }
    out.label_selector(selector, "spec.selector");
    if is_empty_selector(selector) {
        out.invalid("spec.selector", selector, format!("empty selector is invalid for {kind}"));
    }
    match selects(selector, labels) {
        Ok(false) => out.invalid("spec.template.metadata.labels", labels, MISMATCH),
        Ok(true) => {}
        Err(_) if kind == "statefulset" => out.invalid("spec.selector", selector, ""),
        Err(_) => out.invalid("spec.selector", selector, "invalid label selector"),
    }
}

/// Pods that are kept running must restart always and have no deadline.
fn lasting_template(object: &Value, kind: &str, out: &mut Findings) {
    let template = at(object, "spec.template");
    pod::template(template, "spec.template", out);
    let policy = at(template, "spec.restartPolicy");
    if policy != "Always" {
        out.not_supported("spec.template.spec.restartPolicy", policy, &["Always"]);
    }
    if !at(template, "spec.activeDeadlineSeconds").is_null() {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        out.forbidden("spec.template.spec.activeDeadlineSeconds", why);
    }
}

pub(super) fn deployment(object: &Value, out: &mut Findings) {
    let spec = at(object, "spec");
    out.not_negative(spec, "spec", &["replicas"]);
    selector(object, "deployment", out);
    lasting_template(object, "ReplicaSet", out);
    deployment_strategy(at(spec, "strategy"), out);
    out.not_negative(spec, "spec", &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"]);
    if let Some(deadline) = int(spec, "progressDeadlineSeconds")
        && deadline <= int(spec, "minReadySeconds").unwrap_or_default()
    {
        out.invalid("spec.progressDeadlineSeconds", &json!(deadline), "must be greater than minReadySeconds");
    }
}

/// A strategy of unknown type is printed with the names that the fields have in Go.
fn go_strategy(error: FieldError, strategy: &Value) -> FieldError {
    let (kind, rolling) = (at(strategy, "type"), at(strategy, "rollingUpdate"));
    FieldError { value: Some(format!("{{\"Type\":{kind},\"RollingUpdate\":{rolling}}}")), ..error }
}

fn deployment_strategy(strategy: &Value, out: &mut Findings) {
    let path = "spec.strategy";
    let rolling = at(strategy, "rollingUpdate");
    match text(strategy, "type") {
        "Recreate" if !rolling.is_null() => {
            out.forbidden("spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" => {
            let (unavailable, surge) = (at(rolling, "maxUnavailable"), at(rolling, "maxSurge"));
            let path = format!("{path}.rollingUpdate");
            out.amount_or_percent(&child(&path, "maxUnavailable"), unavailable);
            out.amount_or_percent(&child(&path, "maxSurge"), surge);
            if amount(unavailable) == 0 && amount(surge) == 0 {
                let why = "may not be 0 when `maxSurge` is 0";
                out.invalid(child(&path, "maxUnavailable"), unavailable, why);
            }
            out.at_most_hundred_percent(&child(&path, "maxUnavailable"), unavailable);
        }
        _ => out.push(go_strategy(FieldError::not_supported(path, strategy, &["Recreate", "RollingUpdate"]), strategy)),
    }
}

pub(super) fn replica_set(object: &Value, out: &mut Findings) {
    out.not_negative(at(object, "spec"), "spec", &["replicas", "minReadySeconds"]);
    selector(object, "deployment", out);
    lasting_template(object, "ReplicaSet", out);
}

pub(super) fn replication_controller(object: &Value, out: &mut Findings) {
    let spec = at(object, "spec");
    out.not_negative(spec, "spec", &["minReadySeconds"]);
    let selector = at(spec, "selector");
    if selector.as_object().is_none_or(serde_json::Map::is_empty) {
        out.required("spec.selector", "");
    }
    out.not_negative(spec, "spec", &["replicas"]);
    if at(spec, "template").is_null() {
        out.required("spec.template", "");
        return;
    }
    let labels = at(spec, "template.metadata.labels");
    if texts(spec, "selector").any(|(key, value)| labels.get(key).and_then(Value::as_str) != Some(value)) {
        out.invalid("spec.template.metadata.labels", labels, MISMATCH);
    }
    lasting_template(object, "ReplicationController", out);
}

pub(super) fn daemon_set(object: &Value, out: &mut Findings) {
    let spec = at(object, "spec");
    let selector = at(spec, "selector");
    out.label_selector(selector, "spec.selector");
    let labels = at(spec, "template.metadata.labels");
    if selects(selector, labels) == Ok(false) {
        out.invalid("spec.template.metadata.labels", labels, MISMATCH);
    }
    if !selector.is_null() && is_empty_selector(selector) {
        out.invalid("spec.selector", selector, "empty selector is invalid for daemonset");
    }
    lasting_template(object, "DaemonSet", out);
    out.not_negative(spec, "spec", &["minReadySeconds"]);
    daemon_set_strategy(at(spec, "updateStrategy"), out);
    out.not_negative(spec, "spec", &["revisionHistoryLimit"]);
}

fn daemon_set_strategy(strategy: &Value, out: &mut Findings) {
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let path = "spec.updateStrategy.rollingUpdate";
            let rolling = at(strategy, "rollingUpdate");
            let (unavailable, surge) = (at(rolling, "maxUnavailable"), at(rolling, "maxSurge"));
            for (field, value) in [("maxUnavailable", unavailable), ("maxSurge", surge)] {
                out.amount_or_percent(&child(path, field), value);
                out.at_most_hundred_percent(&child(path, field), value);
            }
            match (amount(unavailable) != 0, amount(surge) != 0) {
                (true, true) => {
                    out.invalid(child(path, "maxSurge"), surge, "may not be set when maxUnavailable is non-zero");
                }
                (false, false) => out.required(child(path, "maxUnavailable"), "cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        _ => {
            let error = FieldError::not_supported("spec.updateStrategy", strategy, &["RollingUpdate", "OnDelete"]);
            out.push(go_strategy(error, strategy));
        }
    }
}

pub(super) fn stateful_set(object: &Value, out: &mut Findings) {
    let spec = at(object, "spec");
    match text(spec, "podManagementPolicy") {
        "OrderedReady" | "Parallel" => {}
        "" => out.required("spec.podManagementPolicy", ""),
        other => out.invalid("spec.podManagementPolicy", &json!(other), "must be 'OrderedReady' or 'Parallel'"),
    }
    let strategy = at(spec, "updateStrategy");
    match (text(strategy, "type"), at(strategy, "rollingUpdate")) {
        ("", _) => out.required("spec.updateStrategy", ""),
        ("OnDelete", rolling) if !rolling.is_null() => {
            out.invalid(
                "spec.updateStrategy.rollingUpdate",
                rolling,
                "only allowed for updateStrategy 'RollingUpdate'",
            );
        }
        ("OnDelete", _) => {}
        ("RollingUpdate", rolling) => out.not_negative(rolling, "spec.updateStrategy.rollingUpdate", &["partition"]),
        _ => {
            let why = "must be 'RollingUpdate' or 'OnDelete'";
            out.push(go_strategy(FieldError::invalid("spec.updateStrategy", strategy, why), strategy));
        }
    }
    for field in ["whenDeleted", "whenScaled"] {
        let path = format!("spec.persistentVolumeClaimRetentionPolicy.{field}");
        let value = at(spec, "persistentVolumeClaimRetentionPolicy").get(field).unwrap_or(&Value::Null);
        out.maybe_one_of(path, value, &["Retain", "Delete"]);
    }
    out.not_negative(spec, "spec", &["replicas", "minReadySeconds", "ordinals.start"]);
    let service = text(spec, "serviceName");
    if !service.is_empty() {
        out.messages("spec.serviceName", service, validation::dns1123_label(service));
    }
    selector(object, "statefulset", out);
    lasting_template(&with_claimed_volumes(object), "StatefulSet", out);
    for (index, claim) in list(spec, "volumeClaimTemplates").iter().enumerate() {
        storage::claim_spec(at(claim, "spec"), &format!("spec.volumeClaimTemplates[{index}].spec"), out);
    }
}

/// Claim templates stand in for volumes of their name, so mounts may refer to them.
fn with_claimed_volumes(object: &Value) -> Value {
    let mut out = object.clone();
    let claimed: Vec<&str> =
        list(object, "spec.volumeClaimTemplates").iter().map(|c| text(c, "metadata.name")).collect();
    if let Some(spec) = out.pointer_mut("/spec/template/spec").and_then(Value::as_object_mut) {
        let volumes = spec.entry("volumes".to_owned()).or_insert_with(|| json!([]));
        if let Value::Array(volumes) = volumes {
            let names: BTreeSet<&str> = claimed.iter().copied().collect();
            volumes.retain(|volume| !names.contains(text(volume, "name")));
            volumes
                .extend(claimed.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}})));
        }
    }
    out
}

/// What a stateful set may change after it was made.
const STATEFUL_SET_MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

pub(super) fn stateful_set_update(new: &Value, old: &Value, out: &mut Findings) {
    let rest = |object: &Value| {
        let mut spec = at(object, "spec").as_object().cloned().unwrap_or_default();
        spec.retain(|field, _| !STATEFUL_SET_MUTABLE.contains(&field.as_str()));
        spec
    };
    if rest(new) != rest(old) {
        out.forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        );
    }
}

pub(super) fn selector_update(new: &Value, old: &Value, out: &mut Findings) {
    out.immutable(at(new, "spec"), at(old, "spec"), "spec", &["selector"]);
}

pub(super) fn controller_revision(object: &Value, out: &mut Findings) {
    out.not_negative(object, "", &["revision"]);
    if at(object, "data").is_null() {
        out.required("data", "data is mandatory");
    }
}

pub(super) fn controller_revision_update(new: &Value, old: &Value, out: &mut Findings) {
    out.immutable(new, old, "", &["data"]);
}

/// Counters in the status of a workload: none negative, and no part larger than the whole.
pub(super) fn status(kind: &str, object: &Value, out: &mut Findings) {
    let (counters, parts): (&[&str], &[&str]) = match kind {
        "Deployment" => (
            &[
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "collisionCount",
            ],
            &["updatedReplicas", "readyReplicas", "availableReplicas"],
        ),
        "StatefulSet" => (
            &[
                "replicas",
                "readyReplicas",
                "currentReplicas",
                "updatedReplicas",
                "availableReplicas",
                "observedGeneration",
                "collisionCount",
            ],
            &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
        ),
        "ReplicaSet" | "ReplicationController" => (
            &["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"],
            &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        ),
        "DaemonSet" => (
            &[
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ],
            &[],
        ),
        _ => return,
    };
    let status = at(object, "status");
    out.not_negative(status, "status", counters);
    let whole = int(status, "replicas").unwrap_or_default();
    for part in parts {
        if int(status, part).unwrap_or_default() > whole {
            out.invalid(child("status", part), at(status, part), "cannot be greater than status.replicas");
        }
    }
    let (ready, available) = (int(status, "readyReplicas"), int(status, "availableReplicas"));
    if !parts.is_empty() && available.unwrap_or_default() > ready.unwrap_or_default() {
        let why = if kind == "StatefulSet" {
            "cannot be greater than status.readyReplicas"
        } else {
            "cannot be greater than readyReplicas"
        };
        out.invalid("status.availableReplicas", at(status, "availableReplicas"), why);
    }
}
