//! Services, network and storage kinds that are refused.

use expect_test::expect;
use serde_json::json;

use super::*;

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
