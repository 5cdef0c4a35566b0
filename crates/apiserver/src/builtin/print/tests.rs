//! Rows as `kubectl get -o wide` would show them.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::builtin::{kind, kinds};

const NOW: &str = "2026-01-10T12:00:00Z";

#[track_caller]
fn check(group: &str, version: &str, name: &str, mut object: Value, expected: &Expect) {
    let kind = kind(group, version, name).unwrap();
    object["metadata"]["name"] = json!("x");
    object["metadata"]["creationTimestamp"] = json!("2026-01-10T11:55:00Z");
    let row = cells(kind, &object, NOW.parse().unwrap());
    assert_eq!(row.len(), columns(kind).len(), "cells and columns of {name}");
    let shown: Vec<String> =
        row.iter().map(|cell| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned)).collect();
    expected.assert_eq(&shown.join(" | "));
}

#[test]
fn every_kind_has_as_many_cells_as_columns() {
    for kind in kinds() {
        let row = cells(kind, &json!({"metadata": {"name": "x"}}), NOW.parse().unwrap());
        let expected = columns(kind).len() + usize::from(kind.kind == "IPAddress");
        assert_eq!(row.len(), expected, "{}", kind.kind);
    }
}

#[test]
fn pods() {
    let running = json!({"spec": {"containers": [{}, {}], "nodeName": "n"}, "status": {"phase": "Running", "podIPs": [{"ip": "10.1.2.3"}],
        "containerStatuses": [{"ready": true, "restartCount": 0, "state": {"running": {}}},
            {"ready": false, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
             "lastState": {"terminated": {"finishedAt": "2026-01-10T11:59:30Z"}}}]}});
    check(
        "",
        "v1",
        "Pod",
        running,
        &expect!["x | 1/2 | CrashLoopBackOff | 3 (30s ago) | 5m | 10.1.2.3 | n | <none> | <none>"],
    );
    check(
        "",
        "v1",
        "Pod",
        json!({"spec": {"containers": [{}]}, "status": {"phase": "Pending"}}),
        &expect!["x | 0/1 | Pending | 0 | 5m | <none> | <none> | <none> | <none>"],
    );
    check(
        "",
        "v1",
        "Pod",
        json!({"spec": {"containers": [{}], "initContainers": [{"name": "i"}]},
        "status": {"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}}),
        &expect!["x | 0/1 | Init:0/1 | 0 | 5m | <none> | <none> | <none> | <none>"],
    );
    check(
        "",
        "v1",
        "Pod",
        json!({"spec": {"containers": [{}]}, "status": {"phase": "Succeeded",
        "containerStatuses": [{"state": {"terminated": {"reason": "Completed", "exitCode": 0}}}]}}),
        &expect!["x | 0/1 | Completed | 0 | 5m | <none> | <none> | <none> | <none>"],
    );
    check(
        "",
        "v1",
        "Pod",
        json!({"metadata": {"deletionTimestamp": "2026-01-10T11:59:00Z"}, "spec": {"containers": [{}],
        "initContainers": [{"name": "s", "restartPolicy": "Always"}]}, "status": {"phase": "Running",
        "initContainerStatuses": [{"name": "s", "started": true, "ready": true, "state": {"running": {}}}]}}),
        &expect!["x | 1/2 | Terminating | 0 | 5m | <none> | <none> | <none> | <none>"],
    );
}

#[test]
fn an_ended_pod_is_marked_in_its_row() {
    let pod = kind("", "v1", "Pod").unwrap();
    let row = row_conditions(pod, &json!({"status": {"phase": "Failed"}}));
    assert_eq!(row[0]["reason"], json!("Failed"));
    assert!(row_conditions(pod, &json!({"status": {"phase": "Running"}})).is_empty());
}

#[test]
fn workloads_in_rows() {
    let template = json!({"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}]}});
    let selector = json!({"matchLabels": {"app": "w"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]});
    check(
        "apps",
        "v1",
        "Deployment",
        json!({"spec": {"replicas": 3, "selector": selector, "template": template}, "status": {"readyReplicas": 1, "updatedReplicas": 2}}),
        &expect!["x | 1/3 | 2 | 0 | 5m | a,b | i:1,j | a in (x,y),app=w"],
    );
    check(
        "apps",
        "v1",
        "StatefulSet",
        json!({"spec": {"replicas": 2, "template": template}}),
        &expect!["x | 0/2 | 5m | a,b | i:1,j"],
    );
    check(
        "apps",
        "v1",
        "DaemonSet",
        json!({"spec": {"template": {"spec": {"nodeSelector": {"k": "v"}}}}, "status": {"desiredNumberScheduled": 2}}),
        &expect!["x | 2 | 0 | 0 | 0 | 0 | k=v | 5m |  |  | <none>"],
    );
    check(
        "apps",
        "v1",
        "ReplicaSet",
        json!({"spec": {"replicas": 2, "selector": selector}}),
        &expect!["x | 2 | 0 | 0 | 5m |  |  | a in (x,y),app=w"],
    );
    check(
        "batch",
        "v1",
        "Job",
        json!({"spec": {"completions": 2}, "status": {"succeeded": 1, "startTime": "2026-01-10T11:58:00Z"}}),
        &expect!["x | Running | 1/2 | 2m | 5m |  |  | <none>"],
    );
    check(
        "batch",
        "v1",
        "CronJob",
        json!({"spec": {"schedule": "@daily", "suspend": false}}),
        &expect!["x | @daily | <none> | False | 0 | <none> | 5m |  |  | <none>"],
    );
    check(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        json!({"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "w"}, "minReplicas": 1, "maxReplicas": 5,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}}]}}),
        &expect!["x | Deployment/w | cpu: <unknown>/80% | 1 | 5 | 0 | 5m"],
    );
    check(
        "policy",
        "v1",
        "PodDisruptionBudget",
        json!({"spec": {"minAvailable": "50%"}}),
        &expect!["x | 50% | N/A | 0 | 5m"],
    );
}

#[test]
fn network_kinds_in_rows() {
    check(
        "",
        "v1",
        "Service",
        json!({"spec": {"type": "NodePort", "clusterIPs": ["10.0.0.5"], "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}], "selector": {"a": "b"}}}),
        &expect!["x | NodePort | 10.0.0.5 | <none> | 80:30080/TCP | 5m | a=b"],
    );
    check(
        "",
        "v1",
        "Service",
        json!({"spec": {"type": "LoadBalancer"}}),
        &expect!["x | LoadBalancer | <none> | <pending> | <none> | 5m | <none>"],
    );
    check(
        "networking.k8s.io",
        "v1",
        "Ingress",
        json!({"spec": {"rules": [{"host": "a"}, {"host": "b"}, {"host": "c"}, {"host": "d"}], "tls": [{}]}}),
        &expect!["x | <none> | a,b,c + 1 more... |  | 80, 443 | 5m"],
    );
    check(
        "",
        "v1",
        "Endpoints",
        json!({"subsets": [{"addresses": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.2"}], "ports": [{"port": 1}, {"port": 2}]}]}),
        &expect!["x | 1.1.1.1:1,1.1.1.2:1,1.1.1.1:2 + 1 more... | 5m"],
    );
    check(
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        json!({"addressType": "IPv4", "ports": [{"port": 1}], "endpoints": [{"addresses": ["1.1.1.1"]}]}),
        &expect!["x | IPv4 | 1 | 1.1.1.1 | 5m"],
    );
    check(
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        json!({"spec": {"podSelector": {}}}),
        &expect!["x | <none> | 5m"],
    );
}

#[test]
fn other_kinds_in_rows() {
    check("", "v1", "ConfigMap", json!({"data": {"a": "b"}, "binaryData": {"c": "d"}}), &expect!["x | 2 | 5m"]);
    check("", "v1", "Secret", json!({"type": "Opaque", "data": {"a": "b"}}), &expect!["x | Opaque | 1 | 5m"]);
    check("", "v1", "Namespace", json!({"status": {"phase": "Active"}}), &expect!["x | Active | 5m"]);
    check(
        "",
        "v1",
        "Event",
        json!({"type": "Normal", "reason": "R", "message": " m\n", "involvedObject": {"kind": "Pod", "name": "p"}, "eventTime": "2026-01-10T11:59:00.000000Z", "reportingComponent": "c", "reportingInstance": "i"}),
        &expect!["60s | Normal | R | pod/p |  | c, i | m | 60s | 1 | x"],
    );
    check(
        "",
        "v1",
        "Node",
        json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": ""}}, "spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "InternalIP", "address": "10.9.9.9"}]}}),
        &expect![
            "x | Ready,SchedulingDisabled | worker | 5m |  | 10.9.9.9 | <none> | <unknown> | <unknown> | <unknown>"
        ],
    );
    check(
        "",
        "v1",
        "PersistentVolume",
        json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "claimRef": {"namespace": "n", "name": "c"}}, "status": {"phase": "Bound"}}),
        &expect!["x | 1Gi | RWO |  | Bound | n/c |  | <unset> |  | 5m | <unset>"],
    );
    check(
        "",
        "v1",
        "PersistentVolumeClaim",
        json!({"spec": {"volumeName": "v", "storageClassName": "s"}, "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"]}}),
        &expect!["x | Bound | v | 1Gi | RWX | s | <unset> | 5m | <unset>"],
    );
    check(
        "storage.k8s.io",
        "v1",
        "StorageClass",
        json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p"}),
        &expect!["x (default) | p | Delete | Immediate | false | 5m"],
    );
    check(
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        json!({"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "ServiceAccount", "namespace": "n", "name": "s"}]}),
        &expect!["x | ClusterRole/r | 5m |  |  | n/s"],
    );
    check("rbac.authorization.k8s.io", "v1", "Role", json!({}), &expect!["x | 2026-01-10T11:55:00Z"]);
    check("coordination.k8s.io", "v1", "Lease", json!({"spec": {"holderIdentity": "me"}}), &expect!["x | me | 5m"]);
    check("apiextensions.k8s.io", "v1", "CustomResourceDefinition", json!({}), &expect!["x | 2026-01-10T11:55:00Z"]);
    check(
        "apiregistration.k8s.io",
        "v1",
        "APIService",
        json!({"status": {"conditions": [{"type": "Available", "status": "False", "reason": "R"}]}}),
        &expect!["x | Local | False (R) | 5m"],
    );
    check(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        json!({"webhooks": [{}]}),
        &expect!["x | 1 | 5m"],
    );
    check(
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        json!({"value": 7, "preemptionPolicy": "Never"}),
        &expect!["x | 7 | false | 5m | Never"],
    );
    check(
        "",
        "v1",
        "ResourceQuota",
        json!({"status": {"hard": {"limits.cpu": "2", "pods": "5"}, "used": {"pods": "1"}}}),
        &expect!["x | pods: 1/5 | limits.cpu: 0/2 | 5m"],
    );
}
