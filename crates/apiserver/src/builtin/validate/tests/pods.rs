//! Pods, Jobs, EndpointSlices and Nodes that are refused.

use expect_test::expect;
use serde_json::json;

use super::*;

fn pod(spec: Value) -> Value {
    let mut pod = json!({"spec": {"containers": [{"name": "c", "image": "c:1"}]}});
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

#[test]
fn affinities_and_spread_constraints() {
    let term = json!({"topologyKey": "", "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}, "matchLabelKeys": ["a"], "mismatchLabelKeys": ["a"]});
    let node = json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Lt"}], "matchFields": [{"key": "x", "operator": "In", "values": ["a"]}]}]});
    refused(
        "",
        "Pod",
        pod(json!({
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": node},
                "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "podAffinityTerm": term}]},
            },
            "topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 1}],
            "schedulingGates": [{"name": "a"}, {"name": "a"}],
        })),
        &expect![[r#"
            spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'
            spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key: Invalid value: "x": not a valid field selector key
            spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100
            spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm[0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector
            spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and mismatchLabelKeys
            spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey: Required value: can not be empty
            spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey: Invalid value: "": name part must be non-empty
            spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.schedulingGates[1]: Duplicate value: "a"
            spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero
            spec.topologySpreadConstraints[0].minDomains: Invalid value: 1: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"#]],
    );
}

#[test]
fn security_contexts() {
    refused(
        "",
        "Pod",
        pod(json!({
            "hostPID": true, "shareProcessNamespace": true,
            "securityContext": {
                "runAsUser": -1, "supplementalGroups": [-1], "sysctls": [{"name": "A"}],
                "seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "x"}, "appArmorProfile": {"type": "Odd"},
                "windowsOptions": {"runAsUserName": "a b\\..."},
            },
            "containers": [{"name": "c", "image": "c:1", "securityContext": {
                "procMount": "Unmasked", "privileged": true, "allowPrivilegeEscalation": false,
            }}],
            "dnsConfig": {"nameservers": ["x"], "searches": ["."], "options": [{}]},
        })),
        &expect![[r#"
            spec.containers[0].securityContext.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`
            spec.containers[0].securityContext: Invalid value: {"Capabilities":null,"Privileged":true,"SELinuxOptions":null,"WindowsOptions":null,"RunAsUser":null,"RunAsGroup":null,"RunAsNonRoot":null,"ReadOnlyRootFilesystem":null,"AllowPrivilegeEscalation":false,"ProcMount":"Unmasked","SeccompProfile":null,"AppArmorProfile":null}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true
            spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive
            spec.securityContext.supplementalGroups[0]: Invalid value: -1: must be between 0 and 2147483647, inclusive
            spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled
            spec.securityContext.sysctls[0].name: Invalid value: "A": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$
            spec.securityContext.seccompProfile.localhostProfile: Invalid value: {"Type":"RuntimeDefault","LocalhostProfile":"x"}: can only be set when seccomp type is Localhost
            spec.securityContext.windowsOptions.runAsUserName: Invalid value: "a b\\...": runAsUserName's User cannot contain only periods or spaces
            spec.securityContext.appArmorProfile.type: Unsupported value: "Odd": supported values: "Localhost", "RuntimeDefault", "Unconfined"
            spec.dnsConfig.nameservers[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
            spec.dnsConfig.options[0]: Required value: must not be empty"#]],
    );
    refused(
        "",
        "Pod",
        pod(json!({"dnsPolicy": "None", "hostUsers": false, "hostIPC": true})),
        &expect![[r#"
        spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None
        spec.HostIPC: Forbidden: when `hostUsers` is false"#]],
    );
}

#[test]
fn job_success_and_failure_policies() {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "c:1"}]}});
    refused(
        "batch",
        "Job",
        json!({"spec": {
            "template": template, "completions": 3, "completionMode": "Indexed",
            "successPolicy": {"rules": [{"succeededIndexes": "0,0"}, {"succeededIndexes": "1-2", "succeededCount": 4}]},
            "podFailurePolicy": {"rules": [{"action": "Count", "onExitCodes": {"operator": "In", "values": [2, 0]}}, {}]},
        }}),
        &expect![[r#"
            spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator
            spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [2,0]: must be ordered
            spec.podFailurePolicy.rules[1].action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]
            spec.podFailurePolicy.rules[1]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required
            spec.successPolicy.rules[0].succeededIndexes: Invalid value: "0,0": error parsing succeededIndexes: non-increasing order, previous: 0, current: 0
            spec.successPolicy.rules[1].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of specified completions)
            spec.successPolicy.rules[1].succeededCount: Invalid value: 4: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)"#]],
    );
}

#[test]
fn endpoints_and_ranges() {
    refused(
        "discovery.k8s.io",
        "EndpointSlice",
        json!({"addressType": "FQDN", "endpoints": [{"addresses": ["x"], "nodeName": "A", "hostname": "a.b",
            "hints": {"forZones": [{"name": "z"}, {"name": "z"}]}}]}),
        &expect![[r#"
            endpoints[0].addresses[0]: Invalid value: "x": should be a domain with at least two segments separated by dots
            endpoints[0].nodeName: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            endpoints[0].hostname: Invalid value: "a.b": must not contain dots
            endpoints[0].hints.forZones[1].name: Duplicate value: "z""#]],
    );
    refused(
        "",
        "Node",
        json!({"spec": {"podCIDRs": ["10.0.0.0/8", "x"]}}),
        &expect![[r#"
        spec.podCIDRs[1]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)
        spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[1]: <nil> (invalid CIDR address: x)
        spec.podCIDRs: Invalid value: ["10.0.0.0/8","x"]: may specify no more than one CIDR for each IP family"#]],
    );
}

#[test]
fn conversion_by_webhook() {
    let definition = |client: Value| {
        json!({"metadata": {"name": "cars.example.com"}, "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "cars", "kind": "Car"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1", "v1"], "clientConfig": client}},
        }})
    };
    let (group, kind) = ("apiextensions.k8s.io", "CustomResourceDefinition");
    refused(
        group,
        kind,
        definition(json!({"url": "http://u@/p?q#f"})),
        &expect![[r#"
        spec.conversion.webhookClientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]
        spec.conversion.webhookClientConfig.url: Invalid value: "": host must be specified; desired format: https://host[/path]
        spec.conversion.webhookClientConfig.url: Invalid value: "u": user information is not permitted in the URL
        spec.conversion.webhookClientConfig.url: Invalid value: "f": fragments are not permitted in the URL
        spec.conversion.webhookClientConfig.url: Invalid value: "q": query parameters are not permitted in the URL
        spec.conversion.conversionReviewVersions[1]: Invalid value: "v1": duplicate version"#]],
    );
    refused(
        group,
        kind,
        definition(json!({"service": {"name": "a", "path": "b//C"}})),
        &expect![[r#"
        spec.conversion.webhookClientConfig.service.name: Required value
        spec.conversion.webhookClientConfig.service.path: Invalid value: "b//C": must start with a '/'
        spec.conversion.webhookClientConfig.service.path: Invalid value: "b//C": segment[0] may not be empty
        spec.conversion.webhookClientConfig.service.path: Invalid value: "b//C": segment[1] may not be empty
        spec.conversion.webhookClientConfig.service.path: Invalid value: "b//C": segment[2]: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        spec.conversion.conversionReviewVersions[1]: Invalid value: "v1": duplicate version"#]],
    );
}
