//! Configuration, network, access, storage and extension kinds that are refused.

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
fn services() {
    accepted("", "Service", json!({"spec": {"ports": [{"port": 80}]}}));
    refused("", "Service", json!({"spec": {}}), &expect!["spec.ports: Required value"]);
    refused(
        "",
        "Service",
        json!({"spec": {"ports": [{"port": 0, "protocol": "X", "targetPort": "UP"}, {"name": "a", "port": 1}, {"name": "a", "port": 1}]}}),
        &expect![[r#"
            spec.ports[0].name: Required value
            spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive
            spec.ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"
            spec.ports[0].targetPort: Invalid value: "UP": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)
            spec.ports[0].targetPort: Invalid value: "UP": must contain at least one letter (a-z)
            spec.ports[2].name: Duplicate value: "a"
            spec.ports[2]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":1,"TargetPort":0,"NodePort":0}"#]],
    );
    refused(
        "",
        "Service",
        json!({"spec": {"type": "ExternalName", "sessionAffinity": "X"}}),
        &expect![[r#"
        spec.externalName: Required value
        spec.sessionAffinity: Unsupported value: "X": supported values: "ClientIP", "None""#]],
    );
    refused(
        "",
        "Service",
        json!({"spec": {"ports": [{"port": 1, "nodePort": 30_001}], "loadBalancerClass": "a/b", "externalTrafficPolicy": "Local", "externalIPs": ["x"]}}),
        &expect![[r#"
            spec.externalIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
            spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'
            spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"#]],
    );
    refused(
        "",
        "Service",
        json!({"spec": {"type": "NodePort", "clusterIP": "None", "ports": [{"port": 1}]}}),
        &expect![[r#"spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for NodePort services"#]],
    );
    refused(
        "",
        "Service",
        json!({"spec": {"type": "Odd", "ports": [{"port": 1}], "selector": {"a b": "c"}}}),
        &expect![[r#"
            spec.selector: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.type: Unsupported value: "Odd": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort""#]],
    );
    change_refused(
        "",
        "Service",
        json!({"spec": {"ports": [{"port": 80}]}}),
        |new| new["spec"]["clusterIP"] = json!("10.96.0.77"),
        &expect![[r#"spec.clusterIPs[0]: Invalid value: ["10.96.0.77"]: may not change once set"#]],
    );
}

#[test]
fn network() {
    let path = |path: Value| json!({"spec": {"rules": [{"host": "a.b", "http": {"paths": [path]}}]}});
    accepted(
        "networking.k8s.io",
        "Ingress",
        path(json!({"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}})),
    );
    refused(
        "networking.k8s.io",
        "Ingress",
        json!({"spec": {}}),
        &expect!["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
    );
    refused(
        "networking.k8s.io",
        "Ingress",
        path(json!({"backend": {}})),
        &expect!["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"],
    );
    refused(
        "networking.k8s.io",
        "Ingress",
        path(
            json!({"path": "a//b/..", "pathType": "Exact", "backend": {"service": {"name": "S", "port": {"number": 80, "name": "x"}}}}),
        ),
        &expect![[r#"
            spec.rules[0].http.paths[0].path: Invalid value: "a//b/..": must be an absolute path
            spec.rules[0].http.paths[0].path: Invalid value: "a//b/..": must not contain '//'
            spec.rules[0].http.paths[0].path: Invalid value: "a//b/..": cannot end with '/..'
            spec.rules[0].http.paths[0].backend.service.name: Invalid value: "S": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            spec.rules[0].http.paths[0].backend: Invalid value: "": cannot set both port name & port number"#]],
    );
    refused(
        "networking.k8s.io",
        "Ingress",
        json!({"spec": {"defaultBackend": {"service": {"name": "s", "port": {}}}, "rules": [{"host": "1.2.3.4"}, {"host": "*"}, {"http": {}}], "tls": [{"hosts": ["A"], "secretName": "B"}]}}),
        &expect![[r#"
            spec.defaultBackend: Required value: port name or number is required
            spec.rules[0].host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address
            spec.rules[1].host: Invalid value: "*": a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.rules[2].http.paths: Required value
            spec.tls[0].hosts[0]: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.tls[0].secretName: Invalid value: "B": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#]],
    );
    refused(
        "networking.k8s.io",
        "NetworkPolicy",
        json!({"spec": {"policyTypes": ["X"], "ingress": [{"from": [{}, {"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16", "x"]}}], "ports": [{"port": 0}, {"endPort": 5}, {"port": "UP", "protocol": "X"}, {"port": 9, "endPort": 8}]}]}}),
        &expect![[r#"
            spec.ingress[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive
            spec.ingress[0].ports[1].endPort: Invalid value: 5: may not be specified when `port` is not specified
            spec.ingress[0].ports[2].protocol: Unsupported value: "X": supported values: "TCP", "UDP", "SCTP"
            spec.ingress[0].ports[2].port: Invalid value: "UP": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)
            spec.ingress[0].ports[2].port: Invalid value: "UP": must contain at least one letter (a-z)
            spec.ingress[0].ports[3].endPort: Invalid value: 9: must be greater than or equal to `port`
            spec.ingress[0].from[0]: Required value: must specify a peer
            spec.ingress[0].from[1].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`
            spec.ingress[0].from[1].ipBlock.except[1]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)
            spec.ingress[0].from[1]: Forbidden: may not specify both ipBlock and another peer
            spec.policyTypes[0]: Unsupported value: "X": supported values: "Ingress", "Egress""#]],
    );
    refused(
        "",
        "Endpoints",
        json!({"subsets": [{}, {"addresses": [{"ip": "x"}], "ports": [{"port": 1}, {"port": 0}]}]}),
        &expect![[r#"
            subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`
            subsets[1].addresses[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
            subsets[1].addresses[0].ip: Invalid value: "x": must be a valid IP address
            subsets[1].ports[0].name: Required value
            subsets[1].ports[1].name: Required value
            subsets[1].ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive"#]],
    );
    refused(
        "discovery.k8s.io",
        "EndpointSlice",
        json!({"addressType": "IPv4", "endpoints": [{}, {"addresses": ["::1", "x"]}], "ports": [{"port": 1}, {"port": 2}]}),
        &expect![[r#"
            ports[1].name: Duplicate value: ""
            endpoints[0].addresses: Required value: must contain at least 1 address
            endpoints[1].addresses: Invalid value: "::1": must be an IPv4 address
            endpoints[1].addresses[0]: Invalid value: "::1": may not be in the loopback range (127.0.0.0/8, ::1/128)
            endpoints[1].addresses[1]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#]],
    );
    change_refused(
        "discovery.k8s.io",
        "EndpointSlice",
        json!({"addressType": "IPv4"}),
        |new| new["addressType"] = json!("IPv6"),
        &expect![[r#"addressType: Invalid value: "IPv6": field is immutable"#]],
    );
    refused(
        "networking.k8s.io",
        "IngressClass",
        json!({"spec": {"controller": "x"}}),
        &expect![[r#"spec.controller: Invalid value: "x": must be a domain-prefixed path (such as "acme.io/foo")"#]],
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

#[test]
fn storage_kinds() {
    let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    accepted("", "PersistentVolumeClaim", claim.clone());
    refused(
        "",
        "PersistentVolumeClaim",
        json!({"spec": {}}),
        &expect![[r"
        spec.accessModes: Required value: at least 1 access mode is required
        spec.resources[storage]: Required value"]],
    );
    refused(
        "",
        "PersistentVolumeClaim",
        json!({"spec": {"accessModes": ["ReadWriteOncePod", "X"], "volumeMode": "Y", "resources": {"requests": {"storage": "0"}}}}),
        &expect![[r#"
            spec.accessModes: Unsupported value: "X": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"
            spec.resources[storage]: Invalid value: "0": must be greater than zero
            spec.volumeMode: Unsupported value: "Y": supported values: "Block", "Filesystem""#]],
    );
    change_refused(
        "",
        "PersistentVolumeClaim",
        claim,
        |new| new["spec"]["resources"]["requests"]["storage"] = json!("2Gi"),
        &expect![[r"
            spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims
        "]],
    );
    let volume =
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}});
    accepted("", "PersistentVolume", volume.clone());
    refused(
        "",
        "PersistentVolume",
        json!({"spec": {"capacity": {"cpu": "1"}, "persistentVolumeReclaimPolicy": "X"}}),
        &expect![[r#"
            spec.accessModes: Required value
            spec.capacity: Unsupported value: {"cpu":"1"}: supported values: "storage"
            spec.persistentVolumeReclaimPolicy: Unsupported value: "X": supported values: "Delete", "Recycle", "Retain"
            spec: Required value: must specify a volume type"#]],
    );
    change_refused(
        "",
        "PersistentVolume",
        volume,
        |new| new["spec"]["hostPath"]["path"] = json!("/y"),
        &expect![[r"
        spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation
    "]],
    );
    refused(
        "storage.k8s.io",
        "StorageClass",
        json!({"reclaimPolicy": "X", "volumeBindingMode": "Y"}),
        &expect![[r#"
        provisioner: Required value
        reclaimPolicy: Unsupported value: "X": supported values: "Delete", "Retain"
        volumeBindingMode: Unsupported value: "Y": supported values: "Immediate", "WaitForFirstConsumer""#]],
    );
    change_refused(
        "storage.k8s.io",
        "StorageClass",
        json!({"provisioner": "a.b/c"}),
        |new| {
            new["provisioner"] = json!("d");
            new["volumeBindingMode"] = json!("WaitForFirstConsumer");
        },
        &expect![[r#"
            provisioner: Forbidden: updates to provisioner are forbidden.
            volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable"#]],
    );
}

#[test]
fn custom_resource_definitions() {
    let good = json!({"metadata": {"name": "foos.a.b"}, "spec": {"group": "a.b", "scope": "Namespaced", "names": {"kind": "Foo", "plural": "foos"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let group = "apiextensions.k8s.io";
    accepted(group, "CustomResourceDefinition", good.clone());
    refused(
        group,
        "CustomResourceDefinition",
        json!({"spec": {"group": "single", "scope": "Galaxy", "names": {"kind": "Foo", "plural": "Foos", "listKind": "Foo", "shortNames": ["A"]},
        "versions": [{"name": "V1"}, {"name": "V1", "additionalPrinterColumns": [{"name": "n", "type": "x", "jsonPath": "a"}]}]}}),
        &expect![[r#"
            metadata.name: Invalid value: "x": must be spec.names.plural+"."+spec.group
            spec.group: Invalid value: "single": should be a domain with at least one dot
            spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"
            spec.versions[0].schema.openAPIV3Schema: Required value
            spec.versions[1].schema.openAPIV3Schema: Required value
            spec.versions[0].name: Invalid value: "V1": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            spec.versions[1].name: Invalid value: "V1": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            spec.versions[1].additionalPrinterColumns[0].type: Invalid value: "x": must be one of boolean,date,integer,number,string
            spec.versions[1].additionalPrinterColumns[0].JSONPath: Invalid value: "a": must be a simple json path starting with .
            spec.versions: Invalid value: [{"Name":"V1","Served":false,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null},{"Name":"V1","Served":false,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":[{"Name":"n","Type":"x","Format":"","Description":"","Priority":0,"JSONPath":"a"}],"SelectableFields":null}]: must contain unique version names
            spec.versions: Invalid value: [{"Name":"V1","Served":false,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null},{"Name":"V1","Served":false,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":[{"Name":"n","Type":"x","Format":"","Description":"","Priority":0,"JSONPath":"a"}],"SelectableFields":null}]: must have exactly one version marked as storage version
            spec.version: Invalid value: "V1": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            spec.names.plural: Invalid value: "Foos": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            spec.names.shortNames[0]: Invalid value: "A": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            spec.names.listKind: Invalid value: "Foo": kind and listKind may not be the same
            status.storedVersions: Invalid value: null: must have at least one stored version"#]],
    );
    change_refused(
        group,
        "CustomResourceDefinition",
        good,
        |new| new["spec"]["versions"][0]["name"] = json!("v2"),
        &expect![[
            r#"status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions"#
        ]],
    );
}

#[test]
fn schemas_of_custom_resource_definitions() {
    let group = "apiextensions.k8s.io";
    let definition = |schema: Value, more: Value| {
        let mut version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        version.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"metadata": {"name": "foos.a.b"}, "spec": {"group": "a.b", "scope": "Namespaced",
            "names": {"kind": "Foo", "plural": "foos"}, "versions": [version]}})
    };
    let status = json!({"subresources": {"status": {}}});
    accepted(
        group,
        "CustomResourceDefinition",
        definition(json!({"type": "object", "description": "x"}), status.clone()),
    );
    // What all versions share is reported for the whole definition.
    refused(
        group,
        "CustomResourceDefinition",
        definition(
            json!({"type": "object", "properties": {"a": {}, "l": {"type": "array", "items": {"type": "string"},
                "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x != y))"}]}}}),
            json!({"selectableFields": [{"jsonPath": ".b"}, {"jsonPath": ".l"}],
                "subresources": {"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": "n"}},
                "deprecationWarning": "old"}),
        ),
        &expect![[r#"
            spec.versions[0].deprecationWarning: Invalid value: "old": can only be set for deprecated versions
            spec.validation.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields
            spec.subresources.scale.specReplicasPath: Invalid value: ".status.n": should be a json path under .spec
            spec.subresources.scale.statusReplicasPath: Invalid value: "n": must be a simple json path starting with .
            spec.selectableFields[0].jsonPath: Invalid value: ".b": is an invalid path: does not refer to a valid field
            spec.selectableFields[1].jsonPath: Invalid value: ".l": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."#]],
    );
    let mut two = definition(json!({"type": "object", "maxProperties": 3}), status);
    let second =
        json!({"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "string"}}});
    two["spec"]["versions"].as_array_mut().unwrap().push(second);
    two["metadata"]["name"] = json!("foos.a.k8s.io");
    two["spec"]["group"] = json!("a.k8s.io");
    refused(
        group,
        "CustomResourceDefinition",
        two,
        &expect![[r#"
        spec.versions[0].schema.openAPIV3Schema: Invalid value: {"ID":"","Schema":"","Ref":null,"Description":"","Type":"object","Nullable":false,"Format":"","Title":"","Default":null,"Maximum":null,"ExclusiveMaximum":false,"Minimum":null,"ExclusiveMinimum":false,"MaxLength":null,"MinLength":null,"Pattern":"","MaxItems":null,"MinItems":null,"UniqueItems":false,"MultipleOf":null,"Enum":null,"MaxProperties":3,"MinProperties":null,"Required":null,"Items":null,"AllOf":null,"OneOf":null,"AnyOf":null,"Not":null,"Properties":null,"AdditionalProperties":null,"PatternProperties":null,"Dependencies":null,"AdditionalItems":null,"Definitions":null,"ExternalDocs":null,"Example":null,"XPreserveUnknownFields":null,"XEmbeddedResource":false,"XIntOrString":false,"XListMapKeys":null,"XListType":null,"XMapType":null,"XValidations":null}: only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is enabled
        spec.versions[1].schema.openAPIV3Schema.type: Invalid value: "string": must be object at the root
        metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111"#]],
    );
}

#[test]
fn webhook_configurations() {
    let group = "admissionregistration.k8s.io";
    refused(
        group,
        "ValidatingWebhookConfiguration",
        json!({"webhooks": [{"name": "short", "clientConfig": {}}, {"name": "a.b.c", "clientConfig": {"url": "http://x"}, "sideEffects": "Some", "timeoutSeconds": 31, "admissionReviewVersions": ["v9", "v9"],
        "rules": [{"operations": ["*", "CREATE"], "apiGroups": ["*", "a"], "apiVersions": [], "scope": "X"}]}]}),
        &expect![[r#"
            webhooks[0].name: Invalid value: "short": should be a domain with at least three segments separated by dots
            webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun
            webhooks[0].clientConfig: Required value: exactly one of url or service is required
            webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1
            webhooks[1].rules[0].operations: Invalid value: ["*","CREATE"]: if '*' is present, must not specify other operations
            webhooks[1].rules[0].apiGroups: Invalid value: ["*","a"]: if '*' is present, must not specify other API groups
            webhooks[1].rules[0].apiVersions: Required value
            webhooks[1].rules[0].resources: Required value
            webhooks[1].rules[0].scope: Unsupported value: "X": supported values: "*", "Cluster", "Namespaced"
            webhooks[1].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"
            webhooks[1].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds
            webhooks[1].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]
            webhooks[1].admissionReviewVersions[1]: Invalid value: "v9": duplicate version
            webhooks[1].admissionReviewVersions: Invalid value: ["v9","v9"]: must include at least one of v1, v1beta1"#]],
    );
    accepted(
        group,
        "MutatingWebhookConfiguration",
        json!({"webhooks": [{"name": "a.b.c", "clientConfig": {"service": {"name": "s", "namespace": "n"}}, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]}]}),
    );
    refused(
        "apiregistration.k8s.io",
        "APIService",
        json!({"spec": {"service": {"name": "s"}}}),
        &expect![[r#"
        metadata.name: Invalid value: "x": must be `spec.version+"."+spec.group`: "."
        spec.group: Required value: only v1 may have an empty group and it better be legacy kube
        spec.version: Invalid value: "": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
        spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000
        spec.versionPriority: Invalid value: 0: must be positive and less than 1000
        spec.service.namespace: Required value"#]],
    );
    accepted(
        "apiregistration.k8s.io",
        "APIService",
        json!({"metadata": {"name": "v1.a.b"}, "spec": {"group": "a.b", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10}}),
    );
}
