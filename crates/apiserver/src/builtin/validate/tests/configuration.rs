//! Configuration, events, quotas, access, budgets and autoscalers that are refused.

use expect_test::expect;
use serde_json::json;

use super::*;

#[test]
fn configuration() {
    refused(
        "",
        "ConfigMap",
        json!({"data": {"a/b": "x", "c": "y"}, "binaryData": {"c": "eA=="}}),
        &expect![[r#"
            data[a/b]: Invalid value: "a/b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')
            data[c]: Invalid value: "c": duplicate of key present in binaryData"#]],
    );
    refused(
        "",
        "ConfigMap",
        json!({"data": {"a": "x".repeat(1_048_577)}}),
        &expect!["[]: Too long: may not be more than 1048576 bytes"],
    );
    change_refused(
        "",
        "ConfigMap",
        json!({"immutable": true, "data": {"a": "b"}}),
        |new| {
            new["immutable"] = json!(false);
            new["data"] = json!({"a": "c"});
        },
        &expect![[r"
            immutable: Forbidden: field is immutable when `immutable` is set
            data: Forbidden: field is immutable when `immutable` is set"]],
    );
    refused(
        "",
        "Secret",
        json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "eA=="}}),
        &expect!["data[tls.key]: Required value"],
    );
    refused(
        "",
        "Secret",
        json!({"type": "kubernetes.io/service-account-token"}),
        &expect!["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
    );
    refused(
        "",
        "Secret",
        json!({"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "x"}}),
        &expect![[
            r#"data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": invalid character 'x' looking for beginning of value"#
        ]],
    );
    refused(
        "",
        "Secret",
        json!({"type": "kubernetes.io/basic-auth"}),
        &expect![[r"
        data[username]: Required value
        data[password]: Required value"]],
    );
    change_refused(
        "",
        "Secret",
        json!({"type": "a/b"}),
        |new| new["type"] = json!("c/d"),
        &expect![[r#"type: Invalid value: "c/d": field is immutable"#]],
    );
    refused(
        "",
        "Namespace",
        json!({"spec": {"finalizers": ["x"]}}),
        &expect![[
            r#"spec.finalizers: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified"#
        ]],
    );
    refused(
        "coordination.k8s.io",
        "Lease",
        json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}),
        &expect![[r"
            spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0
            spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"]],
    );
    refused(
        "scheduling.k8s.io",
        "PriorityClass",
        json!({"metadata": {"name": "system-x"}, "value": 1}),
        &expect![
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-x is not a known system priority class"
        ],
    );
    refused(
        "scheduling.k8s.io",
        "PriorityClass",
        json!({"value": 2_000_000_000, "preemptionPolicy": "X"}),
        &expect![[r#"
            value: Forbidden: maximum allowed value of a user defined priority is 1000000000
            preemptionPolicy: Unsupported value: "X": supported values: "PreemptLowerPriority", "Never""#]],
    );
    change_refused(
        "scheduling.k8s.io",
        "PriorityClass",
        json!({"value": 1}),
        |new| new["value"] = json!(2),
        &expect!["value: Forbidden: may not be changed in an update."],
    );
    refused(
        "node.k8s.io",
        "RuntimeClass",
        json!({"handler": "A_b"}),
        &expect![[
            r#"handler: Invalid value: "A_b": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"#
        ]],
    );
}

#[test]
fn events() {
    accepted("", "Event", json!({"involvedObject": {"namespace": "default"}}));
    refused(
        "",
        "Event",
        json!({"involvedObject": {"namespace": "other"}}),
        &expect![[r#"involvedObject.namespace: Invalid value: "other": does not match event.namespace"#]],
    );
    refused(
        "",
        "Event",
        json!({"eventTime": "2026-01-01T00:00:00.000000Z", "involvedObject": {"namespace": "default"}}),
        &expect![[r#"
            reportingComponent: Required value
            reportingInstance: Required value
            action: Required value
            reason: Required value
            reportingComponent: Invalid value: "": name part must be non-empty
            reportingComponent: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#]],
    );
    let kind = kind("events.k8s.io", "v1", "Event").unwrap();
    let event =
        json!({"metadata": {"name": "e", "namespace": "default"}, "count": 1, "type": "Odd", "series": {"count": 1}});
    expect![[r#"
        series.count: Invalid value: "": should be at least 2
        series.lastObservedTime: Required value
        eventTime: Required value
        type: Invalid value: "": has invalid value: Odd
        count: Invalid value: "": needs to be unset"#]]
    .assert_eq(&shown(&validate_create(kind, &event)));
}

#[test]
fn quotas_and_limits() {
    refused(
        "",
        "LimitRange",
        json!({"spec": {"limits": [{"type": "Pod", "default": {"cpu": "1"}}, {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}, {"type": "Pod"}]}}),
        &expect![[r#"
            spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'
            spec.limits[1].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1
            spec.limits[1].default[cpu]: Invalid value: "2": min value 2 is greater than default value 1
            spec.limits[1].defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request value 1
            spec.limits[2].type: Duplicate value: "Pod""#]],
    );
    refused(
        "",
        "ResourceQuota",
        json!({"spec": {"hard": {"pods": "1.5", "nonsense": "1", "requests.cpu": "-1", "a.b/c": "1"}}}),
        &expect![[r#"
            spec.hard[nonsense]: Invalid value: "nonsense": must be a standard resource type or fully qualified
            spec.hard[nonsense]: Invalid value: "nonsense": must be a standard resource for quota
            spec.hard[pods]: Invalid value: "1500m": must be an integer
            spec.hard[requests.cpu]: Invalid value: "-1": must be greater than or equal to 0"#]],
    );
    change_refused(
        "",
        "ResourceQuota",
        json!({"spec": {"scopes": ["BestEffort"]}}),
        |new| new["spec"]["scopes"] = json!(["Terminating"]),
        &expect![[r#"spec.scopes: Invalid value: ["Terminating"]: field is immutable"#]],
    );
}

#[test]
fn access() {
    let rbac = "rbac.authorization.k8s.io";
    refused(
        rbac,
        "Role",
        json!({"rules": [{}, {"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]}]}),
        &expect![[r#"
            rules[0].verbs: Required value: verbs must contain at least one value
            rules[0].apiGroups: Required value: resource rules must supply at least one api group
            rules[0].resources: Required value: resource rules must supply at least one resource
            rules[1].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs
            rules[1].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs"#]],
    );
    refused(
        rbac,
        "ClusterRole",
        json!({"aggregationRule": {}}),
        &expect![
            "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"
        ],
    );
    refused(
        rbac,
        "RoleBinding",
        json!({"roleRef": {"kind": "X", "name": "a/b", "apiGroup": "g"}, "subjects": [{"kind": "User"}, {"kind": "Robot", "name": "r"}, {"kind": "Group", "name": "g", "apiGroup": "h"}]}),
        &expect![[r#"
            roleRef.apiGroup: Unsupported value: "g": supported values: "rbac.authorization.k8s.io"
            roleRef.kind: Unsupported value: "X": supported values: "Role", "ClusterRole"
            roleRef.name: Invalid value: "a/b": may not contain '/'
            subjects[0].name: Required value
            subjects[1].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"
            subjects[2].apiGroup: Unsupported value: "h": supported values: "rbac.authorization.k8s.io""#]],
    );
    refused(
        rbac,
        "ClusterRoleBinding",
        json!({"roleRef": {"kind": "Role", "name": ""}, "subjects": [{"kind": "ServiceAccount", "name": "s"}]}),
        &expect![[r#"
            roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"
            roleRef.name: Required value
            subjects[0].namespace: Required value"#]],
    );
    change_refused(
        rbac,
        "RoleBinding",
        json!({"roleRef": {"kind": "Role", "name": "r"}}),
        |new| new["roleRef"]["name"] = json!("s"),
        &expect![[
            r#"roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"s"}: cannot change roleRef"#
        ]],
    );
}

#[test]
fn budgets_and_autoscalers() {
    refused(
        "policy",
        "PodDisruptionBudget",
        json!({"spec": {"minAvailable": "200%", "maxUnavailable": "x", "unhealthyPodEvictionPolicy": "X"}}),
        &expect![[r#"
            spec: Invalid value: {"MinAvailable":"200%","Selector":null,"MaxUnavailable":"x","UnhealthyPodEvictionPolicy":"X"}: minAvailable and maxUnavailable cannot be both set
            spec.minAvailable: Invalid value: "200%": must not be greater than 100%
            spec.maxUnavailable: Invalid value: "x": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')
            spec.unhealthyPodEvictionPolicy: Unsupported value: "X": supported values: "AlwaysAllow", "IfHealthyBudget""#]],
    );
    refused(
        "autoscaling",
        "HorizontalPodAutoscaler",
        json!({"spec": {"minReplicas": 0, "scaleTargetRef": {"kind": "A/B"}, "metrics": [{}, {"type": "X"}, {"type": "Resource"}, {"type": "Resource", "resource": {"target": {"type": "Utilization"}}}],
        "behavior": {"scaleUp": {"stabilizationWindowSeconds": 4000, "policies": [{"type": "X", "value": 0, "periodSeconds": 2000}]}}}}),
        &expect![[r#"
            spec.minReplicas: Invalid value: 0: must be greater than or equal to 1
            spec.maxReplicas: Invalid value: 0: must be greater than 0
            spec.scaleTargetRef.kind: Invalid value: "A/B": may not contain '/'
            spec.scaleTargetRef.name: Required value
            spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group
            spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas
            spec.metrics[0].type: Required value: must specify a metric source type
            spec.metrics[0].type: Unsupported value: "": supported values: "ContainerResource", "External", "Object", "Pods", "Resource"
            spec.metrics[1].type: Unsupported value: "X": supported values: "ContainerResource", "External", "Object", "Pods", "Resource"
            spec.metrics[2].resource: Required value: must populate information for the given metric source
            spec.metrics[3].resource.name: Required value: must specify a resource name
            spec.metrics[3].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization
            spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 4000: must be less than or equal to 3600
            spec.behavior.scaleUp.policies[0].type: Unsupported value: "X": supported values: "Percent", "Pods"
            spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero
            spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 2000: must be less than or equal to 1800"#]],
    );
    accepted(
        "autoscaling",
        "HorizontalPodAutoscaler",
        json!({"spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}}),
    );
}
