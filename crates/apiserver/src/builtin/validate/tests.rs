//! Objects that are refused, and why. Each goes the whole way: defaults, preparation, validation.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::builtin::{AddressPool, Context, Requester, default, kind, prepare_create, prepare_update};

fn prepared(kind: &BuiltinKind, mut object: Value, old: Option<&Value>) -> Value {
    let metadata = object.as_object_mut().unwrap().entry("metadata").or_insert_with(|| json!({}));
    for (field, value) in [("name", "x"), ("uid", "u")] {
        metadata.as_object_mut().unwrap().entry(field).or_insert_with(|| json!(value));
    }
    if kind.namespaced {
        metadata.as_object_mut().unwrap().entry("namespace").or_insert_with(|| json!("default"));
    }
    default(kind, &mut object).unwrap();
    let (pool, requester) = (AddressPool::default(), Requester::default());
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let context = Context { now, requester: &requester, addresses: &pool, dry_run: true };
    match old {
        Some(old) => prepare_update(kind, &mut object, old, &context).unwrap(),
        None => prepare_create(kind, &mut object, &context).unwrap(),
    }
    object
}

fn shown(errors: &[FieldError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn refused(group: &str, name: &str, object: Value, expected: Expect) {
    let version = if group == "autoscaling" { "v2" } else { "v1" };
    let kind = kind(group, version, name).unwrap();
    expected.assert_eq(&shown(&validate_create(kind, &prepared(kind, object, None))));
}

#[track_caller]
fn accepted(group: &str, name: &str, object: Value) -> Value {
    let version = if group == "autoscaling" { "v2" } else { "v1" };
    let kind = kind(group, version, name).unwrap();
    let object = prepared(kind, object, None);
    assert_eq!(shown(&validate_create(kind, &object)), "");
    object
}

/// Changes a good object by `change` and tells what is wrong with that.
#[track_caller]
fn change_refused(group: &str, name: &str, object: Value, change: impl Fn(&mut Value), expected: Expect) {
    let kind = kind(group, "v1", name).unwrap();
    let old = accepted(group, name, object);
    assert_eq!(shown(&validate_update(kind, &prepared(kind, old.clone(), Some(&old)), &old)), "", "no change");
    let mut new = old.clone();
    change(&mut new);
    expected.assert_eq(&shown(&validate_update(kind, &prepared(kind, new, Some(&old)), &old)));
}

fn pod_spec() -> Value {
    json!({"containers": [{"name": "c", "image": "i:1"}]})
}

fn template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": pod_spec()})
}

fn workload() -> Value {
    json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template()}})
}

#[test]
fn metadata_of_any_kind() {
    refused(
        "",
        "ConfigMap",
        json!({"metadata": {"name": "Bad_Name", "labels": {"a b": "c d"}, "annotations": {"x/y/z": ""},
        "finalizers": ["plain", "a.b/ok"], "ownerReferences": [{"apiVersion": "", "kind": "A", "name": "", "uid": "u"}]}}),
        expect![[r#"
            metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            metadata.labels: Invalid value: "c d": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
            metadata.annotations: Invalid value: "x/y/z": a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')
            metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty
            metadata.ownerReferences.name: Invalid value: "": must not be empty
            metadata.finalizers[0]: Invalid value: "plain": name is neither a standard finalizer name nor is it fully qualified"#]],
    );
    refused(
        "",
        "ConfigMap",
        json!({"metadata": {"name": "", "generateName": "UP-"}}),
        expect![[r#"
        metadata.generateName: Invalid value: "UP-": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        metadata.name: Required value: name or generateName is required"#]],
    );
    refused(
        "",
        "Namespace",
        json!({"metadata": {"name": "a.b", "namespace": "c"}}),
        expect![[r#"
        metadata.name: Invalid value: "a.b": must not contain dots
        metadata.namespace: Forbidden: not allowed on this type"#]],
    );
    refused(
        "",
        "Service",
        json!({"metadata": {"name": "1a"}, "spec": {"ports": [{"port": 1}]}}),
        expect![[
            r#"metadata.name: Invalid value: "1a": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"#
        ]],
    );
    refused(
        "",
        "ConfigMap",
        json!({"metadata": {"annotations": {"a": "x".repeat(262_145)}}}),
        expect!["metadata.annotations: Too long: may not be more than 262144 bytes"],
    );
    refused(
        "",
        "ConfigMap",
        json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "controller": true},
        {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "2", "controller": true}]}}),
        expect![[
            r#"metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","controller":true,"kind":"A","name":"a","uid":"1"},{"apiVersion":"v1","controller":true,"kind":"B","name":"b","uid":"2"}]: Only one reference can have Controller set to true. Found "true" in references for A/a and B/b"#
        ]],
    );
    accepted("rbac.authorization.k8s.io", "ClusterRole", json!({"metadata": {"name": "system:Node_1"}}));
    accepted("", "ConfigMap", json!({"metadata": {"name": "", "generateName": "web-"}}).tap_name());
}

trait TapName {
    fn tap_name(self) -> Value;
}

impl TapName for Value {
    /// The registry fills the name from generateName before validation.
    fn tap_name(mut self) -> Value {
        self["metadata"]["name"] = json!("web-x");
        self
    }
}

#[test]
fn changes_of_metadata() {
    change_refused(
        "",
        "ConfigMap",
        json!({}),
        |new| new["metadata"]["uid"] = json!("other"),
        expect![[r#"metadata.uid: Invalid value: "other": field is immutable"#]],
    );
    change_refused(
        "",
        "ConfigMap",
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.b/c"]}}),
        |new| new["metadata"]["finalizers"] = json!(["a.b/c", "a.b/d"]),
        expect![[
            r#"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"a.b/d"}"#
        ]],
    );
}

#[test]
fn pods() {
    accepted("", "Pod", json!({"spec": pod_spec()}));
    refused("", "Pod", json!({"spec": {}}), expect!["spec.containers: Required value"]);
    refused(
        "",
        "Pod",
        json!({"spec": {"containers": [{"name": "A"}, {"name": "A", "image": "i"}], "restartPolicy": "Sometimes", "dnsPolicy": "x"}}),
        expect![[r#"
            spec.containers[0].name: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
            spec.containers[0].image: Required value
            spec.containers[1].name: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
            spec.containers[1].name: Duplicate value: "A"
            spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"
            spec.dnsPolicy: Unsupported value: "x": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None""#]],
    );
    refused(
        "",
        "Pod",
        json!({"spec": {"containers": [{"name": "c", "image": "i", "imagePullPolicy": "No", "restartPolicy": "Always",
        "ports": [{"containerPort": 70_000}, {"name": "http", "containerPort": 1}, {"name": "http", "containerPort": 2, "protocol": "X"}],
        "env": [{"name": "a=b"}, {"name": "e", "value": "v", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "f", "valueFrom": {}}],
        "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}],
        "resources": {"requests": {"cpu": "2", "memory": "-1", "gpu": "1"}, "limits": {"cpu": "1"}},
        "livenessProbe": {"successThreshold": 2}, "readinessProbe": {"httpGet": {"port": 0}, "tcpSocket": {"port": 1}}}]}}),
        expect![[r#"
            spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive
            spec.containers[0].ports[2].name: Duplicate value: "http"
            spec.containers[0].ports[2].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"
            spec.containers[0].env[0].name: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII characters other than '='
            spec.containers[0].env[1].valueFrom: Invalid value: "": may not be specified when `value` is not empty
            spec.containers[0].env[2].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`
            spec.containers[0].volumeMounts[0].name: Not found: "v"
            spec.containers[0].volumeMounts[1].name: Not found: "v"
            spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/a": must be unique
            spec.containers[0].imagePullPolicy: Unsupported value: "No": supported values: "Always", "IfNotPresent", "Never"
            spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1
            spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified
            spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource for containers
            spec.containers[0].resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0
            spec.containers[0].livenessProbe: Required value: must specify a handler type
            spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1
            spec.containers[0].readinessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive
            spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type
            spec.containers[0].restartPolicy: Forbidden: may not be set for non-init containers"#]],
    );
    refused(
        "",
        "Pod",
        json!({"spec": {"containers": pod_spec()["containers"], "volumes": [{"name": "v", "emptyDir": {}, "secret": {}}, {"name": "v"}, {"name": "s", "secret": {}}],
        "tolerations": [{"operator": "Equal"}, {"key": "k", "operator": "Exists", "value": "v"}, {"key": "k", "effect": "No"}],
        "initContainers": [{"name": "c", "image": "i", "livenessProbe": {"exec": {"command": ["a"]}}}],
        "nodeSelector": {"a b": "c"}, "hostname": "A.b", "activeDeadlineSeconds": 0}}),
        expect![[r#"
            spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type
            spec.volumes[1].name: Duplicate value: "v"
            spec.volumes[2].secret.secretName: Required value
            spec.initContainers[0].name: Duplicate value: "c"
            spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always
            spec.nodeSelector: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.hostname: Invalid value: "A.b": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
            spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive
            spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and all keys"
            spec.tolerations[1].operator: Invalid value: "v": value must be empty when `operator` is 'Exists'
            spec.tolerations[2].effect: Unsupported value: "No": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#]],
    );
    refused(
        "",
        "Pod",
        json!({"spec": {"containers": pod_spec()["containers"], "nodeName": "n", "schedulingGates": [{"name": "g"}]}}),
        expect!["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
    );
    change_refused(
        "",
        "Pod",
        json!({"spec": pod_spec()}),
        |new| new["spec"]["containers"][0]["image"] = json!("i:2"),
        expect![[""]],
    );
    change_refused(
        "",
        "Pod",
        json!({"spec": pod_spec()}),
        |new| new["spec"]["restartPolicy"] = json!("Never"),
        expect![[r#"
            spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)
        "#]],
    );
    change_refused(
        "",
        "Pod",
        json!({"spec": pod_spec()}),
        |new| new["spec"]["containers"] = json!([]),
        expect![[r#"
        spec.containers: Required value
        spec.containers: Forbidden: pod updates may not add or remove containers"#]],
    );
}

#[test]
fn workloads_and_their_selectors() {
    for kind in ["Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"] {
        accepted("apps", kind, workload());
    }
    refused(
        "apps",
        "Deployment",
        json!({"spec": {}}),
        expect![[r#"
        spec.selector: Required value
        spec.template.spec.containers: Required value"#]],
    );
    refused(
        "apps",
        "Deployment",
        json!({"spec": {"replicas": -1, "selector": {"matchLabels": {"a": "c"}}, "template": template(),
        "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}, "progressDeadlineSeconds": 5, "minReadySeconds": 5}}),
        expect![[r#"
            spec.replicas: Invalid value: -1: must be greater than or equal to 0
            spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`
            spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0
            spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"#]],
    );
    refused(
        "apps",
        "Deployment",
        json!({"spec": {"selector": {}, "template": template(), "strategy": {"type": "X"}}}),
        expect![[r#"
            spec.selector: Invalid value: {}: empty selector is invalid for deployment
            spec.strategy: Unsupported value: {"type":"X"}: supported values: "Recreate", "RollingUpdate""#]],
    );
    refused(
        "apps",
        "StatefulSet",
        json!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}, "template": template(), "podManagementPolicy": "X", "updateStrategy": {"type": "Y"},
        "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {}}]}}),
        expect![[r#"
            spec.podManagementPolicy: Invalid value: "X": must be 'OrderedReady' or 'Parallel'
            spec.updateStrategy: Invalid value: {"type":"Y"}: must be 'RollingUpdate' or 'OnDelete'
            spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'
            spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`
            spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required
            spec.volumeClaimTemplates[0].spec.resources[storage]: Required value"#]],
    );
    refused(
        "apps",
        "DaemonSet",
        json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template(), "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}}}),
        expect![
            "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"
        ],
    );
    let mut once = workload();
    once["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    refused(
        "apps",
        "ReplicaSet",
        once,
        expect![[r#"spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always""#]],
    );
    refused(
        "",
        "ReplicationController",
        json!({"spec": {}}),
        expect![[r#"
        spec.selector: Required value
        spec.template: Required value"#]],
    );
    let mut mounted = workload();
    mounted["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "d", "mountPath": "/d"}]);
    mounted["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    accepted("apps", "StatefulSet", mounted);
}

#[test]
fn changes_of_workloads() {
    let other = |new: &mut Value| {
        new["spec"]["selector"] = json!({"matchLabels": {"c": "d"}});
        new["spec"]["template"]["metadata"]["labels"] = json!({"c": "d"});
    };
    change_refused(
        "apps",
        "Deployment",
        workload(),
        other,
        expect![[r#"spec.selector: Invalid value: {"matchLabels":{"c":"d"}}: field is immutable"#]],
    );
    change_refused(
        "apps",
        "StatefulSet",
        workload(),
        |new| new["spec"]["serviceName"] = json!("s"),
        expect![
            "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        ],
    );
    change_refused("apps", "StatefulSet", workload(), |new| new["spec"]["replicas"] = json!(5), expect![[""]]);
    let job =
        json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": pod_spec()["containers"]}}}});
    change_refused(
        "batch",
        "Job",
        job.clone(),
        |new| new["spec"]["completions"] = json!(7),
        expect!["spec.completions: Invalid value: 7: field is immutable"],
    );
    change_refused(
        "batch",
        "Job",
        job,
        |new| new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("z"),
        expect![[
            r#"spec.template: Invalid value: {"metadata":{"labels":{"batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"x","controller-uid":"u","job-name":"x"}},"spec":{"containers":[{"image":"z","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Never","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}: field is immutable"#
        ]],
    );
}

#[test]
fn status_counters() {
    let kind = kind("apps", "v1", "Deployment").unwrap();
    let old = accepted("apps", "Deployment", workload());
    let mut new = old.clone();
    new["status"] = json!({"replicas": 1, "readyReplicas": 2, "availableReplicas": 3, "updatedReplicas": -1});
    expect![[r#"
        status.updatedReplicas: Invalid value: -1: must be greater than or equal to 0
        status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas
        status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas
        status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas"#]]
    .assert_eq(&shown(&validate_status_update(kind, &new, &old)));
}

#[test]
fn jobs() {
    refused(
        "batch",
        "Job",
        json!({"spec": {"template": {"spec": pod_spec()}}}),
        expect![[r#"spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never""#]],
    );
    refused(
        "batch",
        "Job",
        json!({"spec": {"completionMode": "Indexed", "parallelism": -1, "template": {"spec": {"restartPolicy": "OnFailure", "containers": []}}}}),
        expect![[r#"
            spec.parallelism: Invalid value: -1: must be greater than or equal to 0
            spec.completions: Required value: when completion mode is Indexed
            spec.template.spec.containers: Required value"#]],
    );
    refused(
        "batch",
        "Job",
        json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"restartPolicy": "Never", "containers": pod_spec()["containers"]}}}}),
        expect![[r#"
            spec.selector: Invalid value: {"matchLabels":{"a":"b","batch.kubernetes.io/controller-uid":"u"}}: `selector` not auto-generated
            spec.template.metadata.labels: Invalid value: {"batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"x","controller-uid":"u","job-name":"x"}: `selector` does not match template `labels`"#]],
    );
    let cron = |spec: Value| {
        let mut out = json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": pod_spec()["containers"]}}}}}});
        for (field, value) in spec.as_object().unwrap() {
            out["spec"][field] = value.clone();
        }
        out
    };
    accepted("batch", "CronJob", cron(json!({})));
    refused(
        "batch",
        "CronJob",
        cron(
            json!({"schedule": "x", "concurrencyPolicy": "Maybe", "timeZone": "No/Where!", "startingDeadlineSeconds": -1}),
        ),
        expect![[r#"
            spec.schedule: Invalid value: "x": expected exactly 5 fields, found 1: [x]
            spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0
            spec.timeZone: Invalid value: "No/Where!": unknown time zone No/Where!
            spec.concurrencyPolicy: Unsupported value: "Maybe": supported values: "Allow", "Forbid", "Replace""#]],
    );
    refused(
        "batch",
        "CronJob",
        cron(json!({"schedule": "TZ=UTC * * * * *"})),
        expect![[
            r#"spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead"#
        ]],
    );
    let mut long = cron(json!({}));
    long["metadata"] = json!({"name": "a".repeat(53)});
    refused(
        "batch",
        "CronJob",
        long,
        expect![[
            r#"metadata.name: Invalid value: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": must be no more than 52 characters"#
        ]],
    );
}

#[test]
fn configuration() {
    refused(
        "",
        "ConfigMap",
        json!({"data": {"a/b": "x", "c": "y"}, "binaryData": {"c": "eA=="}}),
        expect![[r#"
        data[a/b]: Invalid value: "a/b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')
        data[c]: Invalid value: "c": duplicate of key present in binaryData
        binaryData[c]: Invalid value: "c": duplicate of key present in data"#]],
    );
    refused(
        "",
        "ConfigMap",
        json!({"data": {"a": "x".repeat(1_048_577)}}),
        expect!["[]: Too long: may not be more than 1048576 bytes"],
    );
    change_refused(
        "",
        "ConfigMap",
        json!({"immutable": true, "data": {"a": "b"}}),
        |new| {
            new["immutable"] = json!(false);
            new["data"] = json!({"a": "c"});
        },
        expect![[r#"
            immutable: Forbidden: field is immutable when `immutable` is set
            data: Forbidden: field is immutable when `immutable` is set"#]],
    );
    refused(
        "",
        "Secret",
        json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "eA=="}}),
        expect!["data[tls.key]: Required value"],
    );
    refused(
        "",
        "Secret",
        json!({"type": "kubernetes.io/service-account-token"}),
        expect!["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
    );
    refused(
        "",
        "Secret",
        json!({"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "x"}}),
        expect![[
            r#"data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": expected value at line 1 column 1"#
        ]],
    );
    refused(
        "",
        "Secret",
        json!({"type": "kubernetes.io/basic-auth"}),
        expect![[r#"
        data[username]: Required value
        data[password]: Required value"#]],
    );
    change_refused(
        "",
        "Secret",
        json!({"type": "a/b"}),
        |new| new["type"] = json!("c/d"),
        expect![[r#"type: Invalid value: "c/d": field is immutable"#]],
    );
    refused(
        "",
        "Namespace",
        json!({"spec": {"finalizers": ["x"]}}),
        expect![[
            r#"spec.finalizers[0]: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified"#
        ]],
    );
    refused(
        "coordination.k8s.io",
        "Lease",
        json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}),
        expect![[r#"
            spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0
            spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"#]],
    );
    refused(
        "scheduling.k8s.io",
        "PriorityClass",
        json!({"metadata": {"name": "system-x"}, "value": 1}),
        expect![
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-x is not a known system priority class"
        ],
    );
    refused(
        "scheduling.k8s.io",
        "PriorityClass",
        json!({"value": 2_000_000_000, "preemptionPolicy": "X"}),
        expect![[r#"
            value: Forbidden: maximum allowed value of a user defined priority is 1000000000
            preemptionPolicy: Unsupported value: "X": supported values: "PreemptLowerPriority", "Never""#]],
    );
    change_refused(
        "scheduling.k8s.io",
        "PriorityClass",
        json!({"value": 1}),
        |new| new["value"] = json!(2),
        expect!["value: Forbidden: may not be changed in an update."],
    );
    refused(
        "node.k8s.io",
        "RuntimeClass",
        json!({"handler": "A_b"}),
        expect![[
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
        expect![[r#"involvedObject.namespace: Invalid value: "other": does not match event.namespace"#]],
    );
    refused(
        "",
        "Event",
        json!({"eventTime": "2026-01-01T00:00:00.000000Z", "involvedObject": {"namespace": "default"}}),
        expect![[r#"
            reportingController: Required value
            reportingInstance: Required value
            action: Required value
            reason: Required value"#]],
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
        expect![[r#"
            spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'
            spec.limits[1].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1
            spec.limits[1].defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request value 1
            spec.limits[2].type: Duplicate value: "Pod""#]],
    );
    refused(
        "",
        "ResourceQuota",
        json!({"spec": {"hard": {"pods": "1.5", "nonsense": "1", "requests.cpu": "-1", "a.b/c": "1"}}}),
        expect![[r#"
            spec.hard[nonsense]: Invalid value: "nonsense": must be a standard resource for quota
            spec.hard[pods]: Invalid value: "1500m": must be an integer
            spec.hard[requests.cpu]: Invalid value: "-1": must be greater than or equal to 0"#]],
    );
    change_refused(
        "",
        "ResourceQuota",
        json!({"spec": {"scopes": ["BestEffort"]}}),
        |new| new["spec"]["scopes"] = json!(["Terminating"]),
        expect![[r#"spec.scopes: Invalid value: ["Terminating"]: field is immutable"#]],
    );
}

#[test]
fn services() {
    accepted("", "Service", json!({"spec": {"ports": [{"port": 80}]}}));
    refused("", "Service", json!({"spec": {}}), expect!["spec.ports: Required value"]);
    refused(
        "",
        "Service",
        json!({"spec": {"ports": [{"port": 0, "protocol": "X", "targetPort": "UP"}, {"name": "a", "port": 1}, {"name": "a", "port": 1}]}}),
        expect![[r#"
            spec.ports[0].name: Required value
            spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive
            spec.ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"
            spec.ports[0].targetPort: Invalid value: "UP": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)
            spec.ports[0].targetPort: Invalid value: "UP": must contain at least one letter (a-z)
            spec.ports[2].name: Duplicate value: "a"
            spec.ports[2]: Duplicate value: {"port":1,"protocol":"TCP"}"#]],
    );
    refused(
        "",
        "Service",
        json!({"spec": {"type": "ExternalName", "sessionAffinity": "X"}}),
        expect![[r#"
        spec.externalName: Required value
        spec.sessionAffinity: Unsupported value: "X": supported values: "ClientIP", "None""#]],
    );
    refused(
        "",
        "Service",
        json!({"spec": {"ports": [{"port": 1, "nodePort": 30_001}], "loadBalancerClass": "a/b", "externalTrafficPolicy": "Local", "externalIPs": ["x"]}}),
        expect![[r#"
            spec.externalIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
            spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'
            spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"#]],
    );
    refused(
        "",
        "Service",
        json!({"spec": {"type": "NodePort", "clusterIP": "None", "ports": [{"port": 1}]}}),
        expect![[r#"spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for NodePort services"#]],
    );
    refused(
        "",
        "Service",
        json!({"spec": {"type": "Odd", "ports": [{"port": 1}], "selector": {"a b": "c"}}}),
        expect![[r#"
            spec.selector: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.type: Unsupported value: "Odd": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"
            spec.internalTrafficPolicy: Required value"#]],
    );
    change_refused(
        "",
        "Service",
        json!({"spec": {"ports": [{"port": 80}]}}),
        |new| new["spec"]["clusterIP"] = json!("10.0.0.77"),
        expect![[r#"spec.clusterIPs[0]: Invalid value: ["10.0.0.77"]: may not change once set"#]],
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
        expect!["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
    );
    refused(
        "networking.k8s.io",
        "Ingress",
        path(json!({"backend": {}})),
        expect!["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"],
    );
    refused(
        "networking.k8s.io",
        "Ingress",
        path(
            json!({"path": "a//b/..", "pathType": "Exact", "backend": {"service": {"name": "S", "port": {"number": 80, "name": "x"}}}}),
        ),
        expect![[r#"
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
        expect![[r#"
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
        expect![[r#"
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
        expect![[r#"
            subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`
            subsets[1].addresses[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
            subsets[1].ports[0].name: Required value
            subsets[1].ports[1].name: Required value
            subsets[1].ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive"#]],
    );
    refused(
        "discovery.k8s.io",
        "EndpointSlice",
        json!({"addressType": "IPv4", "endpoints": [{}, {"addresses": ["::1", "x"]}], "ports": [{"port": 1}, {"port": 2}]}),
        expect![[r#"
            endpoints[0].addresses: Required value: must contain at least 1 address
            endpoints[1].addresses[0]: Invalid value: "::1": must be an IPv4 address
            endpoints[1].addresses[1]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
            ports[1].name: Duplicate value: """#]],
    );
    change_refused(
        "discovery.k8s.io",
        "EndpointSlice",
        json!({"addressType": "IPv4"}),
        |new| new["addressType"] = json!("IPv6"),
        expect![[r#"addressType: Invalid value: "IPv6": field is immutable"#]],
    );
    refused(
        "networking.k8s.io",
        "IngressClass",
        json!({"spec": {"controller": "x"}}),
        expect![[r#"spec.controller: Invalid value: "x": must be a domain-prefixed path (such as "acme.io/foo")"#]],
    );
}

#[test]
fn access() {
    let rbac = "rbac.authorization.k8s.io";
    refused(
        rbac,
        "Role",
        json!({"rules": [{}, {"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]}]}),
        expect![[r#"
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
        expect![
            "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"
        ],
    );
    refused(
        rbac,
        "RoleBinding",
        json!({"roleRef": {"kind": "X", "name": "a/b", "apiGroup": "g"}, "subjects": [{"kind": "User"}, {"kind": "Robot", "name": "r"}, {"kind": "Group", "name": "g", "apiGroup": "h"}]}),
        expect![[r#"
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
        expect![[r#"
            roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"
            roleRef.name: Required value
            subjects[0].namespace: Required value"#]],
    );
    change_refused(
        rbac,
        "RoleBinding",
        json!({"roleRef": {"kind": "Role", "name": "r"}}),
        |new| new["roleRef"]["name"] = json!("s"),
        expect![[
            r#"roleRef: Invalid value: {"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"s"}: cannot change roleRef"#
        ]],
    );
}

#[test]
fn budgets_and_autoscalers() {
    refused(
        "policy",
        "PodDisruptionBudget",
        json!({"spec": {"minAvailable": "200%", "maxUnavailable": "x", "unhealthyPodEvictionPolicy": "X"}}),
        expect![[r#"
            spec: Invalid value: {"maxUnavailable":"x","minAvailable":"200%","unhealthyPodEvictionPolicy":"X"}: minAvailable and maxUnavailable cannot be both set
            spec.minAvailable: Invalid value: "200%": must not be greater than 100%
            spec.maxUnavailable: Invalid value: "x": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')
            spec.unhealthyPodEvictionPolicy: Unsupported value: "X": supported values: "AlwaysAllow", "IfHealthyBudget""#]],
    );
    refused(
        "autoscaling",
        "HorizontalPodAutoscaler",
        json!({"spec": {"minReplicas": 0, "scaleTargetRef": {"kind": "A/B"}, "metrics": [{}, {"type": "X"}, {"type": "Resource"}, {"type": "Resource", "resource": {"target": {"type": "Utilization"}}}],
        "behavior": {"scaleUp": {"stabilizationWindowSeconds": 4000, "policies": [{"type": "X", "value": 0, "periodSeconds": 2000}]}}}}),
        expect![[r#"
            spec.minReplicas: Invalid value: 0: must be greater than or equal to 1
            spec.maxReplicas: Invalid value: 0: must be greater than 0
            spec.scaleTargetRef.kind: Invalid value: "A/B": may not contain '/'
            spec.scaleTargetRef.name: Required value
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
        json!({"spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"}}}),
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
        expect![[r#"
        spec.accessModes: Required value: at least 1 access mode is required
        spec.resources[storage]: Required value"#]],
    );
    refused(
        "",
        "PersistentVolumeClaim",
        json!({"spec": {"accessModes": ["ReadWriteOncePod", "X"], "volumeMode": "Y", "resources": {"requests": {"storage": "0"}}}}),
        expect![[r#"
            spec.accessModes: Unsupported value: "X": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"
            spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes
            spec.resources[storage]: Invalid value: "0": must be greater than zero
            spec.volumeMode: Unsupported value: "Y": supported values: "Block", "Filesystem""#]],
    );
    change_refused(
        "",
        "PersistentVolumeClaim",
        claim,
        |new| new["spec"]["resources"]["requests"]["storage"] = json!("2Gi"),
        expect![[r#"
            spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims
        "#]],
    );
    let volume =
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}});
    accepted("", "PersistentVolume", volume.clone());
    refused(
        "",
        "PersistentVolume",
        json!({"spec": {"capacity": {"cpu": "1"}, "persistentVolumeReclaimPolicy": "X"}}),
        expect![[r#"
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
        expect![[r#"
        spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation
    "#]],
    );
    refused(
        "storage.k8s.io",
        "StorageClass",
        json!({"reclaimPolicy": "X", "volumeBindingMode": "Y"}),
        expect![[r#"
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
        expect![[r#"
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
        expect![[r#"
            metadata.name: Invalid value: "x": must be spec.names.plural+"."+spec.group
            spec.group: Invalid value: "single": should be a domain with at least one dot
            spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"
            spec.versions[0].name: Invalid value: "V1": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required
            spec.versions[1].name: Invalid value: "V1": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            spec.versions[1].schema.openAPIV3Schema: Required value: schemas are required
            spec.versions[1].additionalPrinterColumns[0].type: Invalid value: "x": must be one of boolean,date,integer,number,string
            spec.versions[1].additionalPrinterColumns[0].jsonPath: Invalid value: "a": must be a simple json path starting with .
            spec.versions: Invalid value: [{"name":"V1","served":false,"storage":false},{"additionalPrinterColumns":[{"jsonPath":"a","name":"n","type":"x"}],"name":"V1","served":false,"storage":false}]: must contain unique version names
            spec.versions: Invalid value: [{"name":"V1","served":false,"storage":false},{"additionalPrinterColumns":[{"jsonPath":"a","name":"n","type":"x"}],"name":"V1","served":false,"storage":false}]: must have exactly one version marked as storage version
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
        expect![[
            r#"status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions"#
        ]],
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
        expect![[r#"
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
        expect![[r#"
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
