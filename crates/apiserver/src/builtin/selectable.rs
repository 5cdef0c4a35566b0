//! Field selectors of built-in kinds.
//!
//! Decides which fields a list or watch may be narrowed by. Never evaluates a selector.

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
pub fn selectable_fields(group: &str, kind: &str) -> &'static [&'static str] {
    SELECTABLE.iter().find(|row| row.0 == group && row.1 == kind).map_or(&[], |row| row.2)
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
