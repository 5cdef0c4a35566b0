//! Objects that are refused, and why. Each goes the whole way: defaults, preparation, validation.

mod configuration;
mod extensions;
mod network_and_storage;
mod nodes_and_hooks;
mod pods;

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
fn refused(group: &str, name: &str, object: Value, expected: &Expect) {
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

/// Changes a valid object by `change` and prints the validation errors.
#[track_caller]
fn change_refused(group: &str, name: &str, object: Value, change: impl Fn(&mut Value), expected: &Expect) {
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
        &expect![[r#"
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
        &expect![[r#"
        metadata.generateName: Invalid value: "UP-": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        metadata.name: Required value: name or generateName is required"#]],
    );
    refused(
        "",
        "Namespace",
        json!({"metadata": {"name": "a.b", "namespace": "c"}}),
        &expect![[r#"
        metadata.name: Invalid value: "a.b": must not contain dots
        metadata.namespace: Forbidden: not allowed on this type"#]],
    );
    refused(
        "",
        "Service",
        json!({"metadata": {"name": "1a"}, "spec": {"ports": [{"port": 1}]}}),
        &expect![[
            r#"metadata.name: Invalid value: "1a": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"#
        ]],
    );
    refused(
        "",
        "ConfigMap",
        json!({"metadata": {"annotations": {"a": "x".repeat(262_145)}}}),
        &expect!["metadata.annotations: Too long: may not be more than 262144 bytes"],
    );
    refused(
        "",
        "ConfigMap",
        json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "controller": true},
        {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "2", "controller": true}]}}),
        &expect![[
            r#"metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"A","name":"a","uid":"1","controller":true},{"apiVersion":"v1","kind":"B","name":"b","uid":"2","controller":true}]: Only one reference can have Controller set to true. Found "true" in references for A/a and B/b"#
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
        &expect![[r#"metadata.uid: Invalid value: "other": field is immutable"#]],
    );
    change_refused(
        "",
        "ConfigMap",
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.b/c"]}}),
        |new| new["metadata"]["finalizers"] = json!(["a.b/c", "a.b/d"]),
        &expect![[
            r#"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"a.b/d"}"#
        ]],
    );
}

#[test]
fn pods() {
    accepted("", "Pod", json!({"spec": pod_spec()}));
    refused("", "Pod", json!({"spec": {}}), &expect!["spec.containers: Required value"]);
    refused(
        "",
        "Pod",
        json!({"spec": {"containers": [{"name": "A"}, {"name": "A", "image": "i"}], "restartPolicy": "Sometimes", "dnsPolicy": "x"}}),
        &expect![[r#"
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
        &expect![[r#"
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
        &expect![[r#"
            spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type
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
        &expect!["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
    );
    change_refused(
        "",
        "Pod",
        json!({"spec": pod_spec()}),
        |new| new["spec"]["containers"][0]["image"] = json!("i:2"),
        &expect![[""]],
    );
    change_refused(
        "",
        "Pod",
        json!({"spec": pod_spec()}),
        |new| new["spec"]["restartPolicy"] = json!("Never"),
        &expect![[r"
            spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)
        "]],
    );
    change_refused(
        "",
        "Pod",
        json!({"spec": pod_spec()}),
        |new| new["spec"]["containers"] = json!([]),
        &expect![[r"
        spec.containers: Required value
        spec.containers: Forbidden: pod updates may not add or remove containers"]],
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
        &expect![[r"
            spec.selector: Required value
            spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`
            spec.template.spec.containers: Required value"]],
    );
    refused(
        "apps",
        "Deployment",
        json!({"spec": {"replicas": -1, "selector": {"matchLabels": {"a": "c"}}, "template": template(),
        "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}, "progressDeadlineSeconds": 5, "minReadySeconds": 5}}),
        &expect![[r#"
            spec.replicas: Invalid value: -1: must be greater than or equal to 0
            spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`
            spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0
            spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"#]],
    );
    refused(
        "apps",
        "Deployment",
        json!({"spec": {"selector": {}, "template": template(), "strategy": {"type": "X"}}}),
        &expect![[r#"
            spec.selector: Invalid value: {}: empty selector is invalid for deployment
            spec.strategy: Unsupported value: {"Type":"X","RollingUpdate":null}: supported values: "Recreate", "RollingUpdate""#]],
    );
    refused(
        "apps",
        "StatefulSet",
        json!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}, "template": template(), "podManagementPolicy": "X", "updateStrategy": {"type": "Y"},
        "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {}}]}}),
        &expect![[r#"
            spec.podManagementPolicy: Invalid value: "X": must be 'OrderedReady' or 'Parallel'
            spec.updateStrategy: Invalid value: {"Type":"Y","RollingUpdate":null}: must be 'RollingUpdate' or 'OnDelete'
            spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'
            spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"In"}]}
            spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required
            spec.volumeClaimTemplates[0].spec.resources[storage]: Required value"#]],
    );
    refused(
        "apps",
        "DaemonSet",
        json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template(), "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}}}),
        &expect![
            "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"
        ],
    );
    let mut once = workload();
    once["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    refused(
        "apps",
        "ReplicaSet",
        once,
        &expect![[r#"spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always""#]],
    );
    refused(
        "",
        "ReplicationController",
        json!({"spec": {}}),
        &expect![[r"
        spec.selector: Required value
        spec.template: Required value"]],
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
        &expect![[r#"spec.selector: Invalid value: {"matchLabels":{"c":"d"}}: field is immutable"#]],
    );
    change_refused(
        "apps",
        "StatefulSet",
        workload(),
        |new| new["spec"]["serviceName"] = json!("s"),
        &expect![
            "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        ],
    );
    change_refused("apps", "StatefulSet", workload(), |new| new["spec"]["replicas"] = json!(5), &expect![[""]]);
    let job =
        json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": pod_spec()["containers"]}}}});
    change_refused(
        "batch",
        "Job",
        job.clone(),
        |new| new["spec"]["completions"] = json!(7),
        &expect!["spec.completions: Invalid value: 7: field is immutable"],
    );
    change_refused(
        "batch",
        "Job",
        job,
        |new| new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("z"),
        &expect![[
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
    expect![[r"
        status.updatedReplicas: Invalid value: -1: must be greater than or equal to 0
        status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas
        status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas
        status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas"]]
    .assert_eq(&shown(&validate_status_update(kind, &new, &old)));
}

#[test]
fn jobs() {
    refused(
        "batch",
        "Job",
        json!({"spec": {"template": {"spec": pod_spec()}}}),
        &expect![[r#"spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never""#]],
    );
    refused(
        "batch",
        "Job",
        json!({"spec": {"completionMode": "Indexed", "parallelism": -1, "template": {"spec": {"restartPolicy": "OnFailure", "containers": []}}}}),
        &expect![[r"
            spec.parallelism: Invalid value: -1: must be greater than or equal to 0
            spec.completions: Required value: when completion mode is Indexed
            spec.template.spec.containers: Required value"]],
    );
    refused(
        "batch",
        "Job",
        json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"restartPolicy": "Never", "containers": pod_spec()["containers"]}}}}),
        &expect![[r#"
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
        &expect![[r#"
            spec.schedule: Invalid value: "x": expected exactly 5 fields, found 1: [x]
            spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0
            spec.timeZone: Invalid value: "No/Where!": unknown time zone No/Where!
            spec.concurrencyPolicy: Unsupported value: "Maybe": supported values: "Allow", "Forbid", "Replace""#]],
    );
    refused(
        "batch",
        "CronJob",
        cron(json!({"schedule": "TZ=UTC * * * * *"})),
        &expect![[
            r#"spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead"#
        ]],
    );
    let mut long = cron(json!({}));
    long["metadata"] = json!({"name": "a".repeat(53)});
    refused(
        "batch",
        "CronJob",
        long,
        &expect![[
            r#"metadata.name: Invalid value: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": must be no more than 52 characters"#
        ]],
    );
}
