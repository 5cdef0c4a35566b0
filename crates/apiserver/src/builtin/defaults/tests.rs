//! Defaulted objects, kind by kind.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::builtin::{kind, kinds};

fn defaulted(group: &str, version: &str, name: &str, mut object: Value) -> Value {
    let kind = kind(group, version, name).unwrap();
    default(kind, &mut object).unwrap();
    let once = object.clone();
    default(kind, &mut object).unwrap();
    assert_eq!(once, object, "defaulting twice changes something");
    object
}

#[track_caller]
fn check(group: &str, version: &str, name: &str, object: Value, expected: &Expect) {
    let object = defaulted(group, version, name, object);
    expected.assert_eq(&format!("{}\n", serde_json::to_string_pretty(&object).unwrap()));
}

#[track_caller]
fn check_part(group: &str, version: &str, name: &str, object: Value, pointer: &str, expected: &Expect) {
    let object = defaulted(group, version, name, object);
    expected.assert_eq(&object.pointer(pointer).unwrap().to_string());
}

#[test]
fn every_rule_names_a_definition_and_its_fields() {
    for (name, defaults) in rules() {
        let definition = table::definition(name).unwrap_or_else(|| panic!("{name}"));
        for (field, _) in defaults.constants {
            assert!(definition.fields().contains_key(*field), "{name}.{field}");
        }
    }
}

#[test]
fn every_kind_can_be_defaulted_from_an_empty_object() {
    for kind in kinds() {
        defaulted(kind.group, kind.version, kind.kind, json!({}));
    }
}

#[test]
fn a_deployment() {
    check(
        "apps",
        "v1",
        "Deployment",
        json!({
            "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "nginx", "ports": [{"containerPort": 80}],
                    "readinessProbe": {"httpGet": {"port": 80}},
                    "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}],
                    "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}}, {"name": "h", "hostPath": {"path": "/x"}}]}}},
        }),
        &expect![[r#"
            {
              "metadata": {
                "name": "web"
              },
              "spec": {
                "progressDeadlineSeconds": 600,
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "selector": {
                  "matchLabels": {
                    "a": "b"
                  }
                },
                "strategy": {
                  "rollingUpdate": {
                    "maxSurge": "25%",
                    "maxUnavailable": "25%"
                  },
                  "type": "RollingUpdate"
                },
                "template": {
                  "metadata": {
                    "labels": {
                      "a": "b"
                    }
                  },
                  "spec": {
                    "containers": [
                      {
                        "env": [
                          {
                            "name": "N",
                            "valueFrom": {
                              "fieldRef": {
                                "apiVersion": "v1",
                                "fieldPath": "metadata.name"
                              }
                            }
                          }
                        ],
                        "image": "nginx",
                        "imagePullPolicy": "Always",
                        "name": "c",
                        "ports": [
                          {
                            "containerPort": 80,
                            "protocol": "TCP"
                          }
                        ],
                        "readinessProbe": {
                          "failureThreshold": 3,
                          "httpGet": {
                            "path": "/",
                            "port": 80,
                            "scheme": "HTTP"
                          },
                          "periodSeconds": 10,
                          "successThreshold": 1,
                          "timeoutSeconds": 1
                        },
                        "resources": {},
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File"
                      }
                    ],
                    "dnsPolicy": "ClusterFirst",
                    "restartPolicy": "Always",
                    "schedulerName": "default-scheduler",
                    "securityContext": {},
                    "terminationGracePeriodSeconds": 30,
                    "volumes": [
                      {
                        "emptyDir": {},
                        "name": "v"
                      },
                      {
                        "name": "s",
                        "secret": {
                          "defaultMode": 420,
                          "secretName": "x"
                        }
                      },
                      {
                        "hostPath": {
                          "path": "/x",
                          "type": ""
                        },
                        "name": "h"
                      }
                    ]
                  }
                }
              },
              "status": {}
            }
        "#]],
    );
}

#[test]
fn a_pod_copies_limits_into_requests_and_templates_do_not() {
    let containers = json!([{"name": "c", "image": "a:1", "resources": {"limits": {"cpu": "1"}}}]);
    check_part(
        "",
        "v1",
        "Pod",
        json!({"spec": {"containers": containers, "serviceAccount": "sa"}}),
        "/spec",
        &expect![[
            r#"{"containers":[{"image":"a:1","imagePullPolicy":"IfNotPresent","name":"c","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"1"}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","enableServiceLinks":true,"restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"serviceAccount":"sa","serviceAccountName":"sa","terminationGracePeriodSeconds":30}"#
        ]],
    );
    check_part(
        "",
        "v1",
        "PodTemplate",
        json!({"template": {"spec": {"containers": containers}}}),
        "/template/spec/containers/0/resources",
        &expect![[r#"{"limits":{"cpu":"1"}}"#]],
    );
    check_part(
        "",
        "v1",
        "Pod",
        json!({"spec": {"hostNetwork": true, "containers": [{"name": "c", "ports": [{"containerPort": 8080}]}]}}),
        "/spec/containers/0/ports",
        &expect![[r#"[{"containerPort":8080,"hostPort":8080,"protocol":"TCP"}]"#]],
    );
    check_part(
        "",
        "v1",
        "Pod",
        json!({"spec": {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
        "containers": [{"name": "a", "resources": {"requests": {"cpu": "100m"}}}, {"name": "b", "resources": {"requests": {"cpu": "200m"}}}]}}),
        "/spec/resources",
        &expect![[r#"{"limits":{"cpu":"2","memory":"1Gi"},"requests":{"cpu":"300m","memory":"1Gi"}}"#]],
    );
}

#[test]
fn the_pull_policy_follows_the_tag() {
    for (image, policy) in [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("host:5000/nginx", "Always"),
        ("host:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:0123", "IfNotPresent"),
        ("", "IfNotPresent"),
    ] {
        let pod = defaulted("", "v1", "Pod", json!({"spec": {"containers": [{"image": image}]}}));
        assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], json!(policy), "{image}");
    }
}

#[test]
fn other_workloads() {
    check_part(
        "apps",
        "v1",
        "StatefulSet",
        json!({"spec": {"volumeClaimTemplates": [{"metadata": {"name": "d"}}]}}),
        "/spec",
        &expect![[
            r#"{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Retain"},"podManagementPolicy":"OrderedReady","replicas":1,"revisionHistoryLimit":10,"selector":null,"serviceName":"","template":{"metadata":{},"spec":{"containers":null,"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}},"updateStrategy":{"rollingUpdate":{"partition":0},"type":"RollingUpdate"},"volumeClaimTemplates":[{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"d"},"spec":{"resources":{},"volumeMode":"Filesystem"},"status":{"phase":"Pending"}}]}"#
        ]],
    );
    check_part(
        "apps",
        "v1",
        "DaemonSet",
        json!({}),
        "/spec/updateStrategy",
        &expect![[r#"{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1},"type":"RollingUpdate"}"#]],
    );
    check_part(
        "apps",
        "v1",
        "DaemonSet",
        json!({}),
        "/status",
        &expect![[r#"{"currentNumberScheduled":0,"desiredNumberScheduled":0,"numberMisscheduled":0,"numberReady":0}"#]],
    );
    check_part(
        "apps",
        "v1",
        "Deployment",
        json!({"spec": {"strategy": {"type": "Recreate"}}}),
        "/spec/strategy",
        &expect![[r#"{"type":"Recreate"}"#]],
    );
    check_part(
        "batch",
        "v1",
        "Job",
        json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}),
        "",
        &expect![[
            r#"{"metadata":{"labels":{"a":"b"}},"spec":{"backoffLimit":6,"completionMode":"NonIndexed","completions":1,"manualSelector":false,"parallelism":1,"podReplacementPolicy":"TerminatingOrFailed","suspend":false,"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":null,"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}},"status":{}}"#
        ]],
    );
    check_part(
        "batch",
        "v1",
        "CronJob",
        json!({"spec": {"schedule": "* * * * *"}}),
        "/spec",
        &expect![[
            r#"{"concurrencyPolicy":"Allow","failedJobsHistoryLimit":1,"jobTemplate":{"metadata":{},"spec":{"template":{"metadata":{},"spec":{"containers":null,"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}},"schedule":"* * * * *","successfulJobsHistoryLimit":3,"suspend":false}"#
        ]],
    );
}

#[test]
fn services() {
    check_part(
        "",
        "v1",
        "Service",
        json!({"spec": {"ports": [{"port": 80}]}}),
        "",
        &expect![[
            r#"{"metadata":{},"spec":{"internalTrafficPolicy":"Cluster","ports":[{"port":80,"protocol":"TCP","targetPort":80}],"sessionAffinity":"None","type":"ClusterIP"},"status":{"loadBalancer":{}}}"#
        ]],
    );
    check_part(
        "",
        "v1",
        "Service",
        json!({"spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP", "ports": [{"port": 80, "targetPort": "http"}]}}),
        "/spec",
        &expect![[
            r#"{"allocateLoadBalancerNodePorts":true,"externalTrafficPolicy":"Cluster","internalTrafficPolicy":"Cluster","ports":[{"port":80,"protocol":"TCP","targetPort":"http"}],"sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":10800}},"type":"LoadBalancer"}"#
        ]],
    );
    check_part(
        "",
        "v1",
        "Service",
        json!({"spec": {"type": "ExternalName", "externalName": "x.y"}}),
        "/spec",
        &expect![[r#"{"externalName":"x.y","sessionAffinity":"None","type":"ExternalName"}"#]],
    );
}

#[test]
fn small_kinds() {
    check_part(
        "",
        "v1",
        "Secret",
        json!({"stringData": {"a": "b"}, "data": {"a": "eA==", "c": "eQ=="}}),
        "",
        &expect![[r#"{"data":{"a":"Yg==","c":"eQ=="},"metadata":{},"type":"Opaque"}"#]],
    );
    check_part("", "v1", "ConfigMap", json!({"data": {}}), "", &expect![[r#"{"metadata":{}}"#]]);
    check_part(
        "",
        "v1",
        "Namespace",
        json!({"metadata": {"name": "n"}}),
        "",
        &expect![[
            r#"{"metadata":{"labels":{"kubernetes.io/metadata.name":"n"},"name":"n"},"spec":{},"status":{"phase":"Active"}}"#
        ]],
    );
    check_part(
        "",
        "v1",
        "PersistentVolumeClaim",
        json!({"spec": {"resources": {"requests": {"storage": "1024Mi"}}}}),
        "",
        &expect![[
            r#"{"metadata":{},"spec":{"resources":{"requests":{"storage":"1Gi"}},"volumeMode":"Filesystem"},"status":{"phase":"Pending"}}"#
        ]],
    );
    check_part(
        "",
        "v1",
        "PersistentVolume",
        json!({"spec": {"capacity": {"storage": "1Gi"}}}),
        "",
        &expect![[
            r#"{"metadata":{},"spec":{"capacity":{"storage":"1Gi"},"persistentVolumeReclaimPolicy":"Retain","volumeMode":"Filesystem"},"status":{"phase":"Pending"}}"#
        ]],
    );
    check_part(
        "",
        "v1",
        "LimitRange",
        json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}, "min": {"memory": "1Mi"}}]}}),
        "/spec",
        &expect![[
            r#"{"limits":[{"default":{"cpu":"1"},"defaultRequest":{"cpu":"1","memory":"1Mi"},"max":{"cpu":"1"},"min":{"memory":"1Mi"},"type":"Container"}]}"#
        ]],
    );
    check_part(
        "",
        "v1",
        "ResourceQuota",
        json!({"spec": {"hard": {"pods": 10}}}),
        "",
        &expect![[r#"{"metadata":{},"spec":{"hard":{"pods":"10"}},"status":{}}"#]],
    );
    check_part(
        "",
        "v1",
        "Endpoints",
        json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]}]}),
        "",
        &expect![[
            r#"{"metadata":{},"subsets":[{"addresses":[{"ip":"10.0.0.1"}],"ports":[{"port":1,"protocol":"TCP"}]}]}"#
        ]],
    );
    check_part("", "v1", "ServiceAccount", json!({"secrets": []}), "", &expect![[r#"{"metadata":{}}"#]]);
    check_part(
        "",
        "v1",
        "Node",
        json!({"status": {"capacity": {"cpu": "4"}}}),
        "",
        &expect![[
            r#"{"metadata":{},"spec":{},"status":{"allocatable":{"cpu":"4"},"capacity":{"cpu":"4"},"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"architecture":"","bootID":"","containerRuntimeVersion":"","kernelVersion":"","kubeProxyVersion":"","kubeletVersion":"","machineID":"","operatingSystem":"","osImage":"","systemUUID":""}}}"#
        ]],
    );
    check_part(
        "rbac.authorization.k8s.io",
        "v1",
        "RoleBinding",
        json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]}),
        "",
        &expect![[
            r#"{"metadata":{},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"u"},{"kind":"ServiceAccount","name":"s","namespace":"n"}]}"#
        ]],
    );
    check_part(
        "rbac.authorization.k8s.io",
        "v1",
        "Role",
        json!({"rules": []}),
        "",
        &expect![[r#"{"metadata":{},"rules":null}"#]],
    );
    check_part(
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        json!({"spec": {"egress": [{"ports": [{"port": 53}]}]}}),
        "/spec",
        &expect![[
            r#"{"egress":[{"ports":[{"port":53,"protocol":"TCP"}]}],"podSelector":{},"policyTypes":["Ingress","Egress"]}"#
        ]],
    );
    check_part(
        "networking.k8s.io",
        "v1",
        "Ingress",
        json!({"spec": {"rules": [{"http": {"paths": [{"backend": {"service": {"name": "s", "port": {"number": 80}}}}]}}]}}),
        "",
        &expect![[
            r#"{"metadata":{},"spec":{"rules":[{"http":{"paths":[{"backend":{"service":{"name":"s","port":{"number":80}}},"pathType":null}]}}]},"status":{"loadBalancer":{}}}"#
        ]],
    );
    check_part(
        "policy",
        "v1",
        "PodDisruptionBudget",
        json!({"spec": {"minAvailable": 1}}),
        "",
        &expect![[
            r#"{"metadata":{},"spec":{"minAvailable":1},"status":{"currentHealthy":0,"desiredHealthy":0,"disruptionsAllowed":0,"expectedPods":0}}"#
        ]],
    );
    check_part(
        "storage.k8s.io",
        "v1",
        "StorageClass",
        json!({"provisioner": "p"}),
        "",
        &expect![[r#"{"metadata":{},"provisioner":"p","reclaimPolicy":"Delete","volumeBindingMode":"Immediate"}"#]],
    );
    check_part(
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        json!({"value": 5}),
        "",
        &expect![[r#"{"metadata":{},"preemptionPolicy":"PreemptLowerPriority","value":5}"#]],
    );
    check_part("coordination.k8s.io", "v1", "Lease", json!({}), "", &expect![[r#"{"metadata":{},"spec":{}}"#]]);
    check_part(
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        json!({"addressType": "IPv4", "ports": [{"port": 1}]}),
        "",
        &expect![[
            r#"{"addressType":"IPv4","endpoints":null,"metadata":{},"ports":[{"name":"","port":1,"protocol":"TCP"}]}"#
        ]],
    );
}

#[test]
fn extension_kinds() {
    check_part(
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        json!({"webhooks": [{"name": "a.b.c", "sideEffects": "None", "clientConfig": {"service": {"name": "s", "namespace": "n"}}, "rules": [{"operations": ["*"]}]}]}),
        "",
        &expect![[
            r#"{"metadata":{},"webhooks":[{"admissionReviewVersions":null,"clientConfig":{"service":{"name":"s","namespace":"n","port":443}},"failurePolicy":"Fail","matchPolicy":"Equivalent","name":"a.b.c","namespaceSelector":{},"objectSelector":{},"reinvocationPolicy":"Never","rules":[{"operations":["*"],"scope":"*"}],"sideEffects":"None","timeoutSeconds":10}]}"#
        ]],
    );
    check_part(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        json!({"spec": {"group": "g", "names": {"kind": "Foo", "plural": "foos"}, "versions": [{"name": "v1", "storage": true}]}}),
        "",
        &expect![[
            r#"{"metadata":{},"spec":{"conversion":{"strategy":"None"},"group":"g","names":{"kind":"Foo","listKind":"FooList","plural":"foos","singular":"foo"},"scope":"","versions":[{"name":"v1","served":false,"storage":true}]},"status":{"acceptedNames":{"kind":"","plural":""},"conditions":null,"storedVersions":["v1"]}}"#
        ]],
    );
    check_part(
        "apiregistration.k8s.io",
        "v1",
        "APIService",
        json!({"spec": {"service": {"name": "s"}}}),
        "",
        &expect![[
            r#"{"metadata":{},"spec":{"groupPriorityMinimum":0,"service":{"name":"s","port":443},"versionPriority":0},"status":{}}"#
        ]],
    );
}

#[test]
fn autoscalers() {
    check_part(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        json!({"spec": {"maxReplicas": 3, "behavior": {"scaleUp": {"selectPolicy": "Min"}}}}),
        "",
        &expect![[
            r#"{"metadata":{},"spec":{"behavior":{"scaleDown":{"policies":[{"periodSeconds":15,"type":"Percent","value":100}],"selectPolicy":"Max"},"scaleUp":{"policies":[{"periodSeconds":15,"type":"Pods","value":4},{"periodSeconds":15,"type":"Percent","value":100}],"selectPolicy":"Min","stabilizationWindowSeconds":0}},"maxReplicas":3,"metrics":[{"resource":{"name":"cpu","target":{"averageUtilization":80,"type":"Utilization"}},"type":"Resource"}],"minReplicas":1,"scaleTargetRef":{"kind":"","name":""}},"status":{"currentMetrics":null,"desiredReplicas":0}}"#
        ]],
    );
    check_part(
        "autoscaling",
        "v1",
        "HorizontalPodAutoscaler",
        json!({"spec": {"maxReplicas": 3}}),
        "",
        &expect![[
            r#"{"metadata":{},"spec":{"maxReplicas":3,"minReplicas":1,"scaleTargetRef":{"kind":"","name":""}},"status":{"currentReplicas":0,"desiredReplicas":0}}"#
        ]],
    );
}
