//! Managed admission policies and their configuration.

use expect_test::{Expect, expect};

use super::*;

fn check_error(text: &str, expected: Expect) {
    expected.assert_eq(&PolicyConfig::read(text).unwrap_err().to_string());
}

#[test]
fn the_standard_policies() {
    let config = PolicyConfig::standard();
    config.check().unwrap();
    let all: Vec<Value> = config.policies().into_iter().flat_map(|one| [one.policy, one.binding]).collect();
    expect![[r#"
        [
          {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {
              "labels": {
                "app.kubernetes.io/component": "admission-policy-manager",
                "app.kubernetes.io/managed-by": "fleet-hub-agent",
                "app.kubernetes.io/part-of": "fleet"
              },
              "name": "deny-pods-and-replicasets-outside-reserved-namespaces"
            },
            "spec": {
              "failurePolicy": "Fail",
              "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
                "resourceRules": [
                  {
                    "apiGroups": [
                      ""
                    ],
                    "apiVersions": [
                      "v1"
                    ],
                    "operations": [
                      "CREATE"
                    ],
                    "resources": [
                      "pods"
                    ],
                    "scope": "*"
                  },
                  {
                    "apiGroups": [
                      "apps"
                    ],
                    "apiVersions": [
                      "v1"
                    ],
                    "operations": [
                      "CREATE"
                    ],
                    "resources": [
                      "replicasets"
                    ],
                    "scope": "*"
                  }
                ]
              },
              "validations": [
                {
                  "expression": "request.namespace.startsWith(\"fleet-\") || request.namespace.startsWith(\"kube-\")",
                  "message": "creating pods and replicas is disallowed in the fleet hub cluster",
                  "reason": "Forbidden"
                }
              ]
            }
          },
          {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {
              "labels": {
                "app.kubernetes.io/component": "admission-policy-manager",
                "app.kubernetes.io/managed-by": "fleet-hub-agent",
                "app.kubernetes.io/part-of": "fleet"
              },
              "name": "deny-pods-and-replicasets-outside-reserved-namespaces-binding"
            },
            "spec": {
              "policyName": "deny-pods-and-replicasets-outside-reserved-namespaces",
              "validationActions": [
                "Deny"
              ]
            }
          },
          {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {
              "labels": {
                "app.kubernetes.io/component": "admission-policy-manager",
                "app.kubernetes.io/managed-by": "fleet-hub-agent",
                "app.kubernetes.io/part-of": "fleet"
              },
              "name": "deny-serviceaccounts-and-tokenrequests-in-reserved-namespaces"
            },
            "spec": {
              "failurePolicy": "Fail",
              "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
                "resourceRules": [
                  {
                    "apiGroups": [
                      ""
                    ],
                    "apiVersions": [
                      "v1"
                    ],
                    "operations": [
                      "CREATE",
                      "UPDATE",
                      "DELETE"
                    ],
                    "resources": [
                      "serviceaccounts"
                    ],
                    "scope": "*"
                  },
                  {
                    "apiGroups": [
                      ""
                    ],
                    "apiVersions": [
                      "v1"
                    ],
                    "operations": [
                      "CREATE"
                    ],
                    "resources": [
                      "serviceaccounts/token"
                    ],
                    "scope": "*"
                  }
                ]
              },
              "validations": [
                {
                  "expression": "!(request.namespace.startsWith(\"fleet-\") || request.namespace.startsWith(\"kube-\")) || request.userInfo.username == \"system:kube-scheduler\" || request.userInfo.username == \"system:kube-controller-manager\" || \"system:nodes\" in request.userInfo.groups || \"system:masters\" in request.userInfo.groups || \"kubeadm:cluster-admins\" in request.userInfo.groups || \"system:serviceaccounts\" in request.userInfo.groups",
                  "message": "writing service accounts in reserved namespaces or requesting tokens from such service accounts is disallowed",
                  "reason": "Forbidden"
                }
              ]
            }
          },
          {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {
              "labels": {
                "app.kubernetes.io/component": "admission-policy-manager",
                "app.kubernetes.io/managed-by": "fleet-hub-agent",
                "app.kubernetes.io/part-of": "fleet"
              },
              "name": "deny-serviceaccounts-and-tokenrequests-in-reserved-namespaces-binding"
            },
            "spec": {
              "policyName": "deny-serviceaccounts-and-tokenrequests-in-reserved-namespaces",
              "validationActions": [
                "Deny"
              ]
            }
          }
        ]"#]].assert_eq(&serde_json::to_string_pretty(&all).unwrap());
}

#[test]
fn a_file_replaces_the_defaults_and_keys_are_case_insensitive() {
    let config = PolicyConfig::read(
        "denyserviceaccountsAndTokenRequestsInReservedNamespaces:\n  reservednamespaceprefixes: [ops-]\n  whitelistedUsernames: [ann]\n  WHITELISTEDUSERGROUPS: [team]\n",
    )
    .unwrap();
    assert_eq!(config.pods_and_replica_sets, None);
    let policies = config.policies();
    assert_eq!(policies.len(), 1);
    expect![[r#"!(request.namespace.startsWith("ops-")) || request.userInfo.username == "system:kube-scheduler" || request.userInfo.username == "system:kube-controller-manager" || request.userInfo.username == "ann" || "system:nodes" in request.userInfo.groups || "system:masters" in request.userInfo.groups || "kubeadm:cluster-admins" in request.userInfo.groups || "system:serviceaccounts" in request.userInfo.groups || "team" in request.userInfo.groups"#]].assert_eq(policies[0].policy["spec"]["validations"][0]["expression"].as_str().unwrap());
}

#[test]
fn json_is_read_too_and_an_empty_file_has_no_policies() {
    let config = PolicyConfig::read(
        r#"{"denyPodsAndReplicaSetsOutsideReservedNamespaces": {"ReservedNamespacePrefixes": ["a-"]}}"#,
    );
    assert_eq!(config.unwrap().pods_and_replica_sets.unwrap().reserved_namespace_prefixes, ["a-"]);
    assert_eq!(PolicyConfig::read("{}"), Ok(PolicyConfig::default()));
    assert!(PolicyConfig::default().policies().is_empty());
}

#[test]
fn invalid_configurations_are_refused() {
    check_error("[1]", expect!["the admission policy configuration cannot be read: it is not a map of generators"]);
    check_error(
        "denyPodsAndReplicaSetsOutsideReservedNamespaces: 1",
        expect![
            "the admission policy configuration cannot be read: denyPodsAndReplicaSetsOutsideReservedNamespaces is not a map"
        ],
    );
    check_error(
        "denyPodsAndReplicaSetsOutsideReservedNamespaces: {}",
        expect!["denyPodsAndReplicaSetsOutsideReservedNamespaces: reservedNamespacePrefixes must not be empty"],
    );
    check_error(
        "denyPodsAndReplicaSetsOutsideReservedNamespaces: {reservedNamespacePrefixes: 1}",
        expect!["the admission policy configuration cannot be read: ReservedNamespacePrefixes is not a list of texts"],
    );
    check_error(
        "denyPodsAndReplicaSetsOutsideReservedNamespaces: {reservedNamespacePrefixes: [ok-, Not_ok]}",
        expect![[
            r#"denyPodsAndReplicaSetsOutsideReservedNamespaces: prefix "Not_ok" may have only lower case letters, digits and hyphens"#
        ]],
    );
    check_error(
        "denyServiceAccountsAndTokenRequestsInReservedNamespaces: {reservedNamespacePrefixes: ['']}",
        expect![[
            r#"denyServiceAccountsAndTokenRequestsInReservedNamespaces: prefix "" may have only lower case letters, digits and hyphens"#
        ]],
    );
    check_error(
        "denyServiceAccountsAndTokenRequestsInReservedNamespaces: {reservedNamespacePrefixes: [a], whitelistedUsernames: ['x\"']}",
        expect![[
            r#"denyServiceAccountsAndTokenRequestsInReservedNamespaces: whitelistedUsernames "x\"" must not contain quotes or backslashes"#
        ]],
    );
    check_error(
        r"denyServiceAccountsAndTokenRequestsInReservedNamespaces: {reservedNamespacePrefixes: [a], whitelistedUserGroups: ['x\']}",
        expect![[
            r#"denyServiceAccountsAndTokenRequestsInReservedNamespaces: whitelistedUserGroups "x\\" must not contain quotes or backslashes"#
        ]],
    );
}
