//! Kinds that two API groups or versions serve over one stored object: events.k8s.io Events are stored as core Events,
//! autoscaling/v1 autoscalers as v2.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::defaults::{DEFAULT_CPU_PERCENT, cpu_utilization, default_definition};
use super::values::{Object, at, field, list, put, sub, text};
use super::{BuiltinKind, kind};

/// events.k8s.io/v1 field, core/v1 field.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Annotations in which autoscaling/v1 carries what it has no fields for: annotation, path in v2.
const AUTOSCALER_ANNOTATIONS: &[(&str, &str)] = &[
    ("autoscaling.alpha.kubernetes.io/metrics", "spec.metrics"),
    ("autoscaling.alpha.kubernetes.io/behavior", "spec.behavior"),
    ("autoscaling.alpha.kubernetes.io/current-metrics", "status.currentMetrics"),
    ("autoscaling.alpha.kubernetes.io/conditions", "status.conditions"),
];

/// Rewrites an object of `kind` into the words of the kind it is stored as. Does nothing for kinds without an alias.
pub(crate) fn to_stored(from: &BuiltinKind, object: &mut Value) {
    let Some(stored) = stored_kind(from) else { return };
    if let Value::Object(object) = object {
        match from.kind {
            "Event" => rename(object, |pair| *pair),
            _ => autoscaler_to_v2(object),
        }
    }
    finish(stored, object);
}

/// The reverse of `to_stored`.
pub(crate) fn from_stored(to: &BuiltinKind, object: &mut Value) {
    if stored_kind(to).is_none() {
        return;
    }
    if let Value::Object(object) = object {
        match to.kind {
            "Event" => rename(object, |(new, core)| (*core, *new)),
            _ => autoscaler_to_v1(object),
        }
    }
    finish(to, object);
}

/// A field selector's path in the words of the stored kind.
pub(crate) fn stored_field<'a>(from: &BuiltinKind, path: &'a str) -> Cow<'a, str> {
    if from.kind != "Event" || stored_kind(from).is_none() {
        return Cow::Borrowed(path);
    }
    let (head, rest) = path.split_once('.').map_or((path, None), |(head, rest)| (head, Some(rest)));
    let head = EVENT_FIELDS.iter().find(|(new, _)| *new == head).map_or(head, |(_, core)| core);
    Cow::Owned(rest.map_or_else(|| head.to_owned(), |rest| format!("{head}.{rest}")))
}

fn stored_kind(from: &BuiltinKind) -> Option<&'static BuiltinKind> {
    let (group, version) = from.stored_as;
    if (group, version) == (from.group, from.version) { None } else { kind(group, version, from.kind) }
}

/// Sets the apiVersion and adds what Go always writes. Values were type-checked before, so the error cannot matter.
fn finish(to: &BuiltinKind, object: &mut Value) {
    object["apiVersion"] = json!(to.api_version());
    let _ = default_definition(to.definition, object);
}

fn rename(object: &mut Object, pair: impl Fn(&(&'static str, &'static str)) -> (&'static str, &'static str)) {
    for fields in EVENT_FIELDS {
        let (from, to) = pair(fields);
        if let Some(value) = object.remove(from) {
            object.insert(to.to_owned(), value);
        }
    }
}

fn is_cpu_utilization(metric: &Value) -> bool {
    text(metric, "type") == "Resource"
        && text(metric, "resource.name") == "cpu"
        && !at(metric, "resource.target.averageUtilization").is_null()
}

fn autoscaler_to_v2(object: &mut Object) {
    let mut carried = Object::new();
    if let Some(annotations) =
        object.get_mut("metadata").and_then(|m| m.get_mut("annotations")).and_then(Value::as_object_mut)
    {
        for (annotation, path) in AUTOSCALER_ANNOTATIONS {
            if let Some(Value::String(encoded)) = annotations.remove(*annotation)
                && let Ok(value) = serde_json::from_str(&encoded)
            {
                carried.insert((*path).to_owned(), value);
            }
        }
    }
    let spec = sub(object, "spec");
    let mut metrics: Vec<Value> =
        carried.remove("spec.metrics").and_then(|v| v.as_array().cloned()).unwrap_or_default();
    if let Some(percent) = spec.remove("targetCPUUtilizationPercentage").and_then(|value| value.as_i64()) {
        metrics.push(cpu_utilization(percent));
    }
    if metrics.is_empty() {
        metrics.push(cpu_utilization(DEFAULT_CPU_PERCENT));
    }
    spec.insert("metrics".to_owned(), json!(metrics));
    if let Some(behavior) = carried.remove("spec.behavior") {
        spec.insert("behavior".to_owned(), behavior);
    }
    let status = sub(object, "status");
    if let Some(percent) = status.remove("currentCPUUtilizationPercentage") {
        let current =
            json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}}]);
        status.insert("currentMetrics".to_owned(), current);
    }
    for (path, field) in [("status.currentMetrics", "currentMetrics"), ("status.conditions", "conditions")] {
        if let Some(value) = carried.remove(path) {
            status.insert(field.to_owned(), value);
        }
    }
}

fn autoscaler_to_v1(object: &mut Object) {
    let whole = Value::Object(object.clone());
    let cpu = list(&whole, "spec.metrics").iter().find(|metric| is_cpu_utilization(metric));
    let others: Vec<&Value> =
        list(&whole, "spec.metrics").iter().filter(|metric| !is_cpu_utilization(metric)).collect();
    let mut carried = vec![(AUTOSCALER_ANNOTATIONS[0].0, json!(others))];
    carried
        .extend(AUTOSCALER_ANNOTATIONS[1..].iter().map(|(annotation, path)| (*annotation, at(&whole, path).clone())));
    let spec = sub(object, "spec");
    spec.remove("metrics");
    spec.remove("behavior");
    if let Some(metric) = cpu {
        spec.insert(
            "targetCPUUtilizationPercentage".to_owned(),
            at(metric, "resource.target.averageUtilization").clone(),
        );
    }
    let status = sub(object, "status");
    status.remove("currentMetrics");
    status.remove("conditions");
    let current = list(&whole, "status.currentMetrics").iter().rfind(|metric| text(metric, "resource.name") == "cpu");
    if let Some(percent) = current.map(|metric| at(metric, "resource.current.averageUtilization")) {
        put(status, "currentCPUUtilizationPercentage", percent.clone());
    }
    for (annotation, value) in carried {
        let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        if !is_empty {
            let annotations = sub(sub(object, "metadata"), "annotations");
            annotations.insert(annotation.to_owned(), json!(value.to_string()));
        }
    }
    if field(sub(object, "status"), "currentCPUUtilizationPercentage").is_null() {
        sub(object, "status").remove("currentCPUUtilizationPercentage");
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn an_event_is_converted_to_the_core_group_and_back() {
        let new = kind("events.k8s.io", "v1", "Event").unwrap();
        let mut event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
            "regarding": {"kind": "Pod", "name": "p"}, "note": "n", "reportingController": "c", "reportingInstance": "i",
            "eventTime": "2026-01-01T00:00:00.000000Z", "action": "a", "reason": "r", "type": "Normal"});
        let original = event.clone();
        to_stored(new, &mut event);
        expect![[r#"{"action":"a","apiVersion":"v1","eventTime":"2026-01-01T00:00:00.000000Z","firstTimestamp":null,"involvedObject":{"kind":"Pod","name":"p"},"kind":"Event","lastTimestamp":null,"message":"n","metadata":{"name":"e"},"reason":"r","reportingComponent":"c","reportingInstance":"i","source":{},"type":"Normal"}"#]]
            .assert_eq(&event.to_string());
        from_stored(new, &mut event);
        for (field, value) in original.as_object().unwrap() {
            assert_eq!(&event[field], value, "{field}");
        }
        assert_eq!(event["deprecatedSource"], json!({}));
    }

    #[test]
    fn field_selectors_are_translated() {
        let new = kind("events.k8s.io", "v1", "Event").unwrap();
        assert_eq!(stored_field(new, "regarding.name"), "involvedObject.name");
        assert_eq!(stored_field(new, "reportingController"), "reportingComponent");
        assert_eq!(stored_field(new, "metadata.name"), "metadata.name");
        assert_eq!(stored_field(kind("", "v1", "Event").unwrap(), "regarding.name"), "regarding.name");
    }

    #[test]
    fn an_autoscaler_keeps_v2_fields_in_v1_annotations() {
        let v1 = kind("autoscaling", "v1", "HorizontalPodAutoscaler").unwrap();
        let mut object = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "metrics": [
            cpu_utilization(50), {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 70}}}]}});
        let stored = object.clone();
        from_stored(v1, &mut object);
        assert_eq!(object["spec"]["targetCPUUtilizationPercentage"], json!(50));
        assert!(object["spec"].get("metrics").is_none());
        assert!(
            object["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"]
                .as_str()
                .unwrap()
                .contains("memory")
        );
        to_stored(v1, &mut object);
        assert_eq!(object["spec"]["metrics"].as_array().unwrap().len(), 2);
        assert_eq!(object["spec"]["metrics"][1], stored["spec"]["metrics"][0]);
        assert!(object["metadata"].get("annotations").is_none());
    }

    #[test]
    fn other_kinds_are_not_converted() {
        let pod = kind("", "v1", "Pod").unwrap();
        let mut object = json!({"a": 1});
        to_stored(pod, &mut object);
        from_stored(pod, &mut object);
        assert_eq!(object, json!({"a": 1}));
    }
}
