//! The table of entries and the objects made from it.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use serde_json::json;

use super::super::fake_lookups::{CRP, FakeLookups, MEMBER, request};
use super::*;

fn listed(settings: &Settings) -> String {
    let mut lines = Vec::new();
    for configuration in configurations(settings) {
        lines.push(format!("{}\n", configuration.name));
        for entry in configuration.entries {
            let rules: Vec<String> = entry
                .rules
                .iter()
                .map(|rule| {
                    let operations: String = rule.operations.iter().map(|operation| &operation.as_str()[..1]).collect();
                    format!("{operations} {}/{} {}", rule.group, rule.version, rule.resources.join(","))
                })
                .collect();
            let rules = if rules.len() > 1 { format!("{} rules", rules.len()) } else { rules.concat() };
            let Entry { name, path, failure_policy, timeout_seconds, namespaces, .. } = entry;
            lines.push(format!("  {name} {path} {rules} {failure_policy:?} {timeout_seconds}s {namespaces:?}\n"));
        }
    }
    lines.concat()
}

#[test]
fn webhooks_installed_by_default() {
    expect![[r#"
        fleet-mutating-webhook-configuration
          fleet.clusterresourceplacementv1beta1.mutating /mutate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacement CU placement.kubernetes-fleet.io/v1beta1 clusterresourceplacements Ignore 5s All
          fleet.resourceplacementv1beta1.mutating /mutate-placement.kubernetes-fleet.io-v1beta1-resourceplacement CU placement.kubernetes-fleet.io/v1beta1 resourceplacements Ignore 5s All
        fleet-validating-webhook-configuration
          fleet.pod.validating /validate--v1-pod C /v1 pods Fail 5s Unreserved
          fleet.replicaset.validating /validate-apps-v1-replicaset C apps/v1 replicasets Fail 5s Unreserved
          fleet.clusterresourceplacementv1beta1.validating /validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacement CU placement.kubernetes-fleet.io/v1beta1 clusterresourceplacements Fail 5s All
          fleet.resourceplacementv1beta1.validating /validate-placement.kubernetes-fleet.io-v1beta1-resourceplacement CU placement.kubernetes-fleet.io/v1beta1 resourceplacements Fail 5s All
          fleet.membercluster.validating /validate-cluster.kubernetes-fleet.io-v1beta1-membercluster CUD cluster.kubernetes-fleet.io/v1beta1 memberclusters Fail 5s All
          fleet.clusterresourceoverride.validating /validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceoverride CU placement.kubernetes-fleet.io/v1beta1 clusterresourceoverrides Fail 5s All
          fleet.resourceoverride.validating /validate-placement.kubernetes-fleet.io-v1beta1-resourceoverride CU placement.kubernetes-fleet.io/v1beta1 resourceoverrides Fail 5s All
          fleet.clusterresourceplacementeviction.validating /validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacementeviction C placement.kubernetes-fleet.io/v1beta1 clusterresourceplacementevictions Fail 5s All
          fleet.clusterresourceplacementdisruptionbudget.validating /validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacementdisruptionbudget CU placement.kubernetes-fleet.io/v1beta1 clusterresourceplacementdisruptionbudgets Fail 5s All
          fleet.reservednamespaces.validating /validate-reservednamespaces CU placement.kubernetes-fleet.io/v1beta1 resourceplacements,schedulingpolicysnapshots,resourcesnapshots,resourcebindings,resourceoverrides,resourceoverridesnapshots,resourceenvelopes,stagedupdateruns,stagedupdatestrategies,approvalrequests Fail 5s Reserved
    "#]].assert_eq(&listed(&Settings::default()));
}

#[test]
fn webhooks_added_and_removed_by_flags() {
    let settings =
        Settings { enable_workload: true, enable_pdbs: false, enable_guard_rail: true, ..Settings::default() };
    expect![[r#"
        fleet-mutating-webhook-configuration
          fleet.clusterresourceplacementv1beta1.mutating /mutate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacement CU placement.kubernetes-fleet.io/v1beta1 clusterresourceplacements Ignore 5s All
          fleet.resourceplacementv1beta1.mutating /mutate-placement.kubernetes-fleet.io-v1beta1-resourceplacement CU placement.kubernetes-fleet.io/v1beta1 resourceplacements Ignore 5s All
        fleet-validating-webhook-configuration
          fleet.poddisruptionbudget.validating /validate-policy-v1-poddisruptionbudget C policy/v1 poddisruptionbudgets Fail 5s Unreserved
          fleet.clusterresourceplacementv1beta1.validating /validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacement CU placement.kubernetes-fleet.io/v1beta1 clusterresourceplacements Fail 5s All
          fleet.resourceplacementv1beta1.validating /validate-placement.kubernetes-fleet.io-v1beta1-resourceplacement CU placement.kubernetes-fleet.io/v1beta1 resourceplacements Fail 5s All
          fleet.membercluster.validating /validate-cluster.kubernetes-fleet.io-v1beta1-membercluster CUD cluster.kubernetes-fleet.io/v1beta1 memberclusters Fail 5s All
          fleet.clusterresourceoverride.validating /validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceoverride CU placement.kubernetes-fleet.io/v1beta1 clusterresourceoverrides Fail 5s All
          fleet.resourceoverride.validating /validate-placement.kubernetes-fleet.io-v1beta1-resourceoverride CU placement.kubernetes-fleet.io/v1beta1 resourceoverrides Fail 5s All
          fleet.clusterresourceplacementeviction.validating /validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacementeviction C placement.kubernetes-fleet.io/v1beta1 clusterresourceplacementevictions Fail 5s All
          fleet.clusterresourceplacementdisruptionbudget.validating /validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacementdisruptionbudget CU placement.kubernetes-fleet.io/v1beta1 clusterresourceplacementdisruptionbudgets Fail 5s All
          fleet.reservednamespaces.validating /validate-reservednamespaces CU placement.kubernetes-fleet.io/v1beta1 resourceplacements,schedulingpolicysnapshots,resourcesnapshots,resourcebindings,resourceoverrides,resourceoverridesnapshots,resourceenvelopes,stagedupdateruns,stagedupdatestrategies,approvalrequests Fail 5s Reserved
        fleet-guard-rail-webhook-configuration
          fleet.customresourcedefinition.guardrail.validating /validate-fleetresourcehandler CUD apiextensions.k8s.io/v1 customresourcedefinitions Ignore 1s All
          fleet.membercluster.guardrail.validating /validate-fleetresourcehandler CUD cluster.kubernetes-fleet.io/v1beta1 memberclusters,memberclusters/status Ignore 1s All
          fleet.fleetmembernamespacedresources.guardrail.validating /validate-fleetresourcehandler 14 rules Ignore 1s Labelled("kubernetes-fleet.io/is-fleet-resource", "true")
          fleet.fleetsystemnamespacedresources.guardrail.validating /validate-fleetresourcehandler 14 rules Ignore 1s Named(["fleet-system"])
          fleet.kubenamespacedresources.guardrail.validating /validate-fleetresourcehandler 14 rules Ignore 1s Named(["kube-system", "kube-public", "kube-node-lease"])
          fleet.namespace.guardrail.validating /validate-fleetresourcehandler CUD /v1 namespaces Ignore 1s All
    "#]].assert_eq(&listed(&settings));
    assert_eq!(listed(&Settings { enable_webhook: false, enable_guard_rail: true, ..Settings::default() }), "");
}

#[test]
fn rules_of_the_guard_rail_for_namespaces() {
    let rules: Vec<String> = guarded_rules()
        .iter()
        .map(|rule| format!("{:?} {}/{}: {}\n", rule.operations, rule.group, rule.version, rule.resources.join(" ")))
        .collect();
    expect![[r"
        [Delete] */*: */*
        [Create, Update] /v1: bindings configmaps endpoints limitranges persistentvolumeclaims persistentvolumeclaims/status podtemplates pods pods/status replicationcontrollers replicationcontrollers/status resourcequotas resourcequotas/status secrets serviceaccounts serviceaccounts/token services services/status
        [Create, Update] apps/v1: controllerrevisions daemonsets daemonsets/status replicasets replicasets/status deployments deployments/status statefulsets statefulsets/status
        [Create, Update] authorization.k8s.io/v1: localsubjectaccessreviews localsubjectaccessreviews/status
        [Create, Update] autoscaling/v1: horizontalpodautoscalers horizontalpodautoscalers/status
        [Create, Update] batch/v1: cronjobs cronjobs/status jobs jobs/status
        [Create, Update] discovery.k8s.io/v1: endpointslices
        [Create, Update] networking.k8s.io/v1: ingresses ingresses/status networkpolicies networkpolicies/status
        [Create, Update] policy/v1: poddisruptionbudgets poddisruptionbudgets/status
        [Create, Update] rbac.authorization.k8s.io/v1: roles rolebindings
        [Create, Update] storage.k8s.io/v1: csistoragecapacities
        [Create, Update] cluster.kubernetes-fleet.io/v1beta1: internalmemberclusters internalmemberclusters/status
        [Create, Update] placement.kubernetes-fleet.io/v1beta1: works works/status
        [Create, Update] networking.fleet.azure.com/v1alpha1: endpointsliceexports endpointsliceimports internalserviceexports internalserviceexports/status internalserviceimports internalserviceimports/status
    "]].assert_eq(&rules.concat());
}

fn matching(request: &Request) -> String {
    let settings = Settings { enable_guard_rail: true, enable_pdbs: false, ..Settings::default() };
    let guarded = BTreeMap::from([(labels::IS_FLEET_RESOURCE.to_owned(), "true".to_owned())]);
    let lookups = FakeLookups {
        labelled_namespaces: BTreeMap::from([("fleet-member-m1".to_owned(), guarded)]),
        ..FakeLookups::default()
    };
    let all = configurations(&settings);
    let entries = all.iter().flat_map(|configuration| &configuration.entries);
    let names: Vec<&str> = entries.filter(|entry| entry.matches(request, &lookups)).map(|entry| &*entry.name).collect();
    names.join(" ")
}

fn check(operation: Operation, kind: &str, namespace: &str, expected: Expect) {
    expected.assert_eq(&matching(&request(
        operation,
        kind,
        json!({"metadata": {"name": "x", "namespace": namespace}}),
    )));
}

#[test]
fn webhooks_called_for_a_request() {
    use Operation::{Create, Delete, Update};
    check(
        Create,
        CRP,
        "",
        expect!["fleet.clusterresourceplacementv1beta1.mutating fleet.clusterresourceplacementv1beta1.validating"],
    );
    check(Delete, CRP, "", expect![""]);
    check(Delete, MEMBER, "", expect!["fleet.membercluster.validating fleet.membercluster.guardrail.validating"]);
    check(Create, "/v1/Pod", "app", expect!["fleet.pod.validating"]);
    check(Update, "/v1/Pod", "app", expect![""]);
    check(Create, "/v1/Pod", "kube-system", expect!["fleet.kubenamespacedresources.guardrail.validating"]);
    check(
        Create,
        "/v1/Secret",
        "fleet-member-m1",
        expect!["fleet.fleetmembernamespacedresources.guardrail.validating"],
    );
    check(Create, "/v1/Secret", "fleet-member-unlabelled", expect![""]);
    check(Create, "/v1/Event", "fleet-system", expect![""]);
    check(
        Delete,
        "events.k8s.io/v1/Event",
        "fleet-system",
        expect!["fleet.fleetsystemnamespacedresources.guardrail.validating"],
    );
    check(Delete, "example.com/v1/Thing", "", expect![""]);
    check(Delete, "example.com/v1/Thing", "kube-public", expect!["fleet.kubenamespacedresources.guardrail.validating"]);
}

/// The failure policy of these entries is Fail: if they matched, a lost agent could never be started again.
#[test]
fn pods_of_system_namespaces_are_not_sent_to_webhooks() {
    for kind in ["/v1/Pod", "apps/v1/ReplicaSet", "policy/v1/PodDisruptionBudget"] {
        for namespace in ["kube-system", "fleet-system", "fleet-agents", "kube-flannel"] {
            let object = json!({"metadata": {"name": "x", "namespace": namespace}});
            let met = matching(&request(Operation::Create, kind, object));
            assert!(met.split(' ').all(|entry| entry.is_empty() || entry.contains("guardrail")), "{kind}: {met}");
        }
    }
    let all = configurations(&Settings { enable_pdbs: false, ..Settings::default() });
    let home =
        Installation { namespace: "fleet-hub".to_owned(), ..installation(Connection::Url, CaBundle::CertManager) };
    let made = manifests(&all, &home);
    let workloads = &made[1]["webhooks"].as_array().unwrap()[..3];
    for webhook in workloads {
        assert_eq!(
            json!([webhook["matchConditions"], webhook["namespaceSelector"]["matchExpressions"]]),
            json!([
                [{"name": "outside-reserved-namespaces",
                    "expression": "!(request.namespace.startsWith(\"fleet-\") || request.namespace.startsWith(\"kube-\"))"}],
                [{"key": "kubernetes.io/metadata.name", "operator": "NotIn",
                    "values": ["kube-system", "kube-public", "kube-node-lease", "fleet-system", "fleet-hub"]}],
            ]),
            "{}",
            webhook["name"]
        );
    }
    assert!(made[1]["webhooks"][3].get("matchConditions").is_none(), "{}", made[1]["webhooks"][3]["name"]);
}

#[test]
fn a_namespace_is_no_namespaced_object() {
    let mut namespace = request(Operation::Delete, "/v1/Namespace", json!({"metadata": {"name": "fleet-system"}}));
    namespace.namespace = "fleet-system".to_owned();
    expect!["fleet.namespace.guardrail.validating"].assert_eq(&matching(&namespace));
}

#[test]
fn subresources_are_watched_only_where_listed() {
    let mut status = request(Operation::Update, MEMBER, json!({"metadata": {"name": "m1"}}));
    status.subresource = "status".to_owned();
    expect!["fleet.membercluster.guardrail.validating"].assert_eq(&matching(&status));
}

#[test]
fn every_path_leads_to_its_handler() {
    assert_eq!(handler_at("/validate--v1-pod"), Some(Handler::Workload(Workload::Pod)));
    assert_eq!(handler_at("/validate-fleetresourcehandler"), Some(Handler::GuardRail));
    assert_eq!(
        handler_at("/validate-placement.kubernetes-fleet.io-v1beta1-resourceplacement"),
        Some(Handler::ResourcePlacement)
    );
    assert_eq!(handler_at("/"), None);
}

fn installation(connection: Connection, ca: CaBundle) -> Installation {
    let [service, namespace, owner_uid] = ["fleetwebhook", "fleet-system", "u-1"].map(str::to_owned);
    Installation { service, namespace, connection, ca, owner_uid }
}

#[test]
fn objects_by_url_with_an_own_authority() {
    let configurations = configurations(&Settings { enable_workload: true, ..Settings::default() });
    let made = manifests(&configurations, &installation(Connection::Url, CaBundle::Own(b"pem".to_vec())));
    expect![[r#"
        {
          "apiVersion": "admissionregistration.k8s.io/v1",
          "kind": "MutatingWebhookConfiguration",
          "metadata": {
            "labels": {
              "admissions.enforcer/disabled": "true"
            },
            "name": "fleet-mutating-webhook-configuration"
          },
          "webhooks": [
            {
              "admissionReviewVersions": [
                "v1",
                "v1beta1"
              ],
              "clientConfig": {
                "caBundle": "cGVt",
                "url": "https://fleetwebhook.fleet-system.svc.cluster.local:9443/mutate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacement"
              },
              "failurePolicy": "Ignore",
              "matchPolicy": "Equivalent",
              "name": "fleet.clusterresourceplacementv1beta1.mutating",
              "namespaceSelector": {},
              "objectSelector": {},
              "reinvocationPolicy": "Never",
              "rules": [
                {
                  "apiGroups": [
                    "placement.kubernetes-fleet.io"
                  ],
                  "apiVersions": [
                    "v1beta1"
                  ],
                  "operations": [
                    "CREATE",
                    "UPDATE"
                  ],
                  "resources": [
                    "clusterresourceplacements"
                  ],
                  "scope": "*"
                }
              ],
              "sideEffects": "None",
              "timeoutSeconds": 5
            },
            {
              "admissionReviewVersions": [
                "v1",
                "v1beta1"
              ],
              "clientConfig": {
                "caBundle": "cGVt",
                "url": "https://fleetwebhook.fleet-system.svc.cluster.local:9443/mutate-placement.kubernetes-fleet.io-v1beta1-resourceplacement"
              },
              "failurePolicy": "Ignore",
              "matchPolicy": "Equivalent",
              "name": "fleet.resourceplacementv1beta1.mutating",
              "namespaceSelector": {},
              "objectSelector": {},
              "reinvocationPolicy": "Never",
              "rules": [
                {
                  "apiGroups": [
                    "placement.kubernetes-fleet.io"
                  ],
                  "apiVersions": [
                    "v1beta1"
                  ],
                  "operations": [
                    "CREATE",
                    "UPDATE"
                  ],
                  "resources": [
                    "resourceplacements"
                  ],
                  "scope": "*"
                }
              ],
              "sideEffects": "None",
              "timeoutSeconds": 5
            }
          ]
        }"#]].assert_eq(&serde_json::to_string_pretty(&made[0]).unwrap());
    assert_eq!(
        made[1]["metadata"]["ownerReferences"][0],
        json!({
            "apiVersion": "v1", "kind": "Namespace", "name": "fleet-system", "uid": "u-1", "blockOwnerDeletion": false,
        })
    );
}

#[test]
fn objects_by_service_with_cert_manager() {
    let configurations = configurations(&Settings { enable_guard_rail: true, ..Settings::default() });
    let made = manifests(&configurations, &installation(Connection::Service, CaBundle::CertManager));
    let guard = &made[2];
    expect![[r#"
        {
          "annotations": {
            "cert-manager.io/inject-ca-from": "fleet-system/fleet-webhook-certificate"
          },
          "labels": {
            "admissions.enforcer/disabled": "true"
          },
          "name": "fleet-guard-rail-webhook-configuration",
          "ownerReferences": [
            {
              "apiVersion": "v1",
              "blockOwnerDeletion": false,
              "kind": "Namespace",
              "name": "fleet-system",
              "uid": "u-1"
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&guard["metadata"]).unwrap());
    let kube = &guard["webhooks"][4];
    let shown = json!([
        kube["name"],
        kube["clientConfig"],
        kube["namespaceSelector"],
        kube["rules"][0],
        guard["webhooks"][2]["namespaceSelector"]
    ]);
    expect![[r#"
        [
          "fleet.kubenamespacedresources.guardrail.validating",
          {
            "service": {
              "name": "fleetwebhook",
              "namespace": "fleet-system",
              "path": "/validate-fleetresourcehandler",
              "port": 9443
            }
          },
          {
            "matchExpressions": [
              {
                "key": "kubernetes.io/metadata.name",
                "operator": "In",
                "values": [
                  "kube-system",
                  "kube-public",
                  "kube-node-lease"
                ]
              }
            ]
          },
          {
            "apiGroups": [
              "*"
            ],
            "apiVersions": [
              "*"
            ],
            "operations": [
              "DELETE"
            ],
            "resources": [
              "*/*"
            ],
            "scope": "Namespaced"
          },
          {
            "matchLabels": {
              "kubernetes-fleet.io/is-fleet-resource": "true"
            }
          }
        ]"#]]
    .assert_eq(&serde_json::to_string_pretty(&shown).unwrap());
}

#[test]
fn the_connection_flag_is_read_in_any_case() {
    assert_eq!(Connection::read(""), Some(Connection::Url));
    assert_eq!(Connection::read("URL"), Some(Connection::Url));
    assert_eq!(Connection::read("Service"), Some(Connection::Service));
    assert_eq!(Connection::read("tcp"), None);
}
