//! The field selectors of built-in kinds.

use serde_json::Value;

/// Field selectors that kinds offer beside `metadata.name` and `metadata.namespace`.
const SELECTABLE: &[(&str, &str, &[&str])] = &[
    (
        "",
        "Pod",
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
    ),
    (
        "",
        "Event",
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
    ),
    (
        "events.k8s.io",
        "Event",
        &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
    ),
    ("", "Secret", &["type"]),
    ("", "Namespace", &["status.phase", "name"]),
    ("", "Node", &["spec.unschedulable"]),
    ("", "Service", &["spec.clusterIP", "spec.type"]),
    ("", "ReplicationController", &["status.replicas"]),
    ("apps", "ReplicaSet", &["status.replicas"]),
    ("batch", "Job", &["status.successful"]),
    ("certificates.k8s.io", "CertificateSigningRequest", &["spec.signerName"]),
];

/// Field selectors of a kind beside `metadata.name` and `metadata.namespace`.
pub(crate) fn selectable_fields(group: &str, kind: &str) -> &'static [&'static str] {
    SELECTABLE.iter().find(|row| row.0 == group && row.1 == kind).map_or(&[], |row| row.2)
}

/// Fields whose value is not what stands at their path, because the object may leave it out or names it otherwise.
pub(crate) fn computed_field(kind: &str, label: &str) -> Option<fn(&Value) -> String> {
    match (kind, label) {
        ("Job", "status.successful") => Some(|job| count(job, "/status/succeeded")),
        ("ReplicaSet" | "ReplicationController", "status.replicas") => Some(|set| count(set, "/status/replicas")),
        ("Node", "spec.unschedulable") => {
            Some(|node| node.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or_default().to_string())
        }
        _ => None,
    }
}

fn count(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_selectors_of_events_differ_by_group() {
        assert!(selectable_fields("", "Event").contains(&"involvedObject.name"));
        assert!(selectable_fields("events.k8s.io", "Event").contains(&"regarding.name"));
        assert!(selectable_fields("apps", "Deployment").is_empty());
    }
}
