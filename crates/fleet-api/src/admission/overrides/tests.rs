//! Overrides: selectors, limits, conflicts.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::fake_lookups::{CRO, FakeLookups, RO, object, request, roles};
use super::*;

fn printed(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Allowed { message, .. } => format!("allowed: {message}"),
        Verdict::Denied { code, message } => format!("{}: {message}", code.number()),
    }
}

fn delete_rule() -> Value {
    json!({"overrideRules": [{"overrideType": "Delete"}]})
}

fn cluster_override(name: &str, selectors: Value) -> Value {
    object(CRO, name, json!({"clusterResourceSelectors": selectors, "policy": delete_rule()}))
}

fn deployment(name: &str) -> Value {
    json!({"group": "apps", "version": "v1", "kind": "Deployment", "name": name})
}

fn namespaced_override(name: &str, selectors: Value) -> Value {
    let mut made = object(RO, name, json!({"resourceSelectors": selectors, "policy": delete_rule()}));
    made["metadata"]["namespace"] = json!("app");
    made
}

fn check_cluster(operation: Operation, object: Value, lookups: &FakeLookups, expected: Expect) {
    expected.assert_eq(&printed(&admit_cluster_resource_override(&request(operation, CRO, object), lookups)));
}

fn check_namespaced(operation: Operation, object: Value, lookups: &FakeLookups, expected: Expect) {
    expected.assert_eq(&printed(&admit_resource_override(&request(operation, RO, object), lookups)));
}

#[test]
fn cluster_override_selectors() {
    let lookups = FakeLookups::default();
    let create = |selectors: Value, expected| {
        check_cluster(Operation::Create, cluster_override("a", selectors), &lookups, expected);
    };
    create(json!([roles()]), expect!["allowed: the override is valid"]);
    let mut labelled = roles();
    labelled["labelSelector"] = json!({"matchLabels": {"a": "b"}});
    let nameless = json!({"group": "", "version": "v1", "kind": "Namespace"});
    create(
        json!([labelled, nameless, roles(), roles()]),
        expect![
            "403: [label selector is not supported for resource selection {Group:rbac.authorization.k8s.io Version:v1 Kind:ClusterRole Name:reader LabelSelector:&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},} SelectionScope:}, resource name is required for resource selection {Group: Version:v1 Kind:Namespace Name: LabelSelector:nil SelectionScope:}, resource selector {Group:rbac.authorization.k8s.io Version:v1 Kind:ClusterRole Name:reader LabelSelector:nil SelectionScope:} already exists, and must be unique]"
        ],
    );
}

#[test]
fn a_wrong_selector_ends_the_check() {
    let mut made = cluster_override("a", json!([roles(), roles()]));
    made["spec"]["policy"] = json!({"overrideRules": [{"overrideType": "JSONPatch"}]});
    let lookups =
        FakeLookups { cluster_overrides: vec![cluster_override("b", json!([roles()]))], ..FakeLookups::default() };
    check_cluster(
        Operation::Create,
        made,
        &lookups,
        expect![
            "403: resource selector {Group:rbac.authorization.k8s.io Version:v1 Kind:ClusterRole Name:reader LabelSelector:nil SelectionScope:} already exists, and must be unique"
        ],
    );
}

#[test]
fn two_cluster_overrides_must_not_select_the_same_resource() {
    let mut scoped = roles();
    scoped["selectionScope"] = json!("NamespaceOnly");
    let others = vec![
        cluster_override("a", json!([roles()])),
        cluster_override("b", json!([roles()])),
        cluster_override("c", json!([scoped])),
    ];
    let lookups = FakeLookups { cluster_overrides: others, ..FakeLookups::default() };
    check_cluster(
        Operation::Create,
        cluster_override("new", json!([roles()])),
        &lookups,
        expect![
            "403: invalid resource selector {Group:rbac.authorization.k8s.io Version:v1 Kind:ClusterRole Name:reader LabelSelector:nil SelectionScope:}: the resource has been selected by both new and b, which is not supported"
        ],
    );
    check_cluster(
        Operation::Update,
        cluster_override("c", json!([scoped])),
        &lookups,
        expect!["allowed: the override is valid"],
    );
}

#[test]
fn conflicts_and_rule_violations_are_reported_together() {
    let mut made = cluster_override("new", json!([roles()]));
    made["spec"]["policy"] = json!({"overrideRules": [{"overrideType": "JSONPatch"}]});
    let lookups =
        FakeLookups { cluster_overrides: vec![cluster_override("a", json!([roles()]))], ..FakeLookups::default() };
    check_cluster(
        Operation::Update,
        made,
        &lookups,
        expect![
            "403: [invalid resource selector {Group:rbac.authorization.k8s.io Version:v1 Kind:ClusterRole Name:reader LabelSelector:nil SelectionScope:}: the resource has been selected by both new and a, which is not supported, invalid JSONPatchOverrides: JSONPatchOverrides cannot be empty]"
        ],
    );
}

#[test]
fn terminating_overrides_are_no_conflict() {
    let leaving = |mut made: Value| {
        made["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        made
    };
    let lookups = FakeLookups {
        cluster_overrides: vec![leaving(cluster_override("a", json!([roles()])))],
        overrides: vec![leaving(namespaced_override("a", json!([deployment("web")])))],
        ..FakeLookups::default()
    };
    let valid = || expect!["allowed: the override is valid"];
    check_cluster(Operation::Create, cluster_override("new", json!([roles()])), &lookups, valid());
    check_namespaced(Operation::Create, namespaced_override("new", json!([deployment("web")])), &lookups, valid());
}

#[test]
fn there_is_a_limit_to_cluster_overrides() {
    let many = (0..100).map(|i| cluster_override(&format!("o{i}"), json!([deployment(&format!("d{i}"))]))).collect();
    let lookups = FakeLookups { cluster_overrides: many, ..FakeLookups::default() };
    check_cluster(
        Operation::Create,
        cluster_override("new", json!([roles()])),
        &lookups,
        expect!["403: clusterResourceOverride limit has been reached: at most 100 cluster resources can be created."],
    );
    check_cluster(
        Operation::Update,
        cluster_override("o1", json!([deployment("d1")])),
        &lookups,
        expect!["allowed: the override is valid"],
    );
}

#[test]
fn failing_lookups_have_their_codes() {
    let lookups = FakeLookups { broken: true, ..FakeLookups::default() };
    check_cluster(
        Operation::Create,
        cluster_override("a", json!([roles()])),
        &lookups,
        expect!["400: the existing clusterResourceOverrides could not be listed, please retry: the hub is gone"],
    );
    check_namespaced(
        Operation::Create,
        namespaced_override("a", json!([deployment("web")])),
        &lookups,
        expect!["500: the existing resourceOverrides could not be listed, please retry: the hub is gone"],
    );
}

#[test]
fn an_unreadable_object_is_a_bad_request() {
    check_cluster(
        Operation::Create,
        json!({"spec": 1}),
        &FakeLookups::default(),
        expect!["400: invalid type: integer `1`, expected struct ClusterResourceOverrideSpec"],
    );
    check_namespaced(Operation::Create, json!({}), &FakeLookups::default(), expect!["400: missing field `spec`"]);
}

#[test]
fn namespaced_overrides() {
    let lookups =
        FakeLookups { overrides: vec![namespaced_override("a", json!([deployment("web")]))], ..FakeLookups::default() };
    check_namespaced(
        Operation::Create,
        namespaced_override("b", json!([deployment("db")])),
        &lookups,
        expect!["allowed: the override is valid"],
    );
    check_namespaced(
        Operation::Create,
        namespaced_override("b", json!([deployment("db"), deployment("db")])),
        &lookups,
        expect![
            "403: resource selector {Group:apps Version:v1 Kind:Deployment Name:db} already exists, and must be unique"
        ],
    );
    check_namespaced(
        Operation::Create,
        namespaced_override("b", json!([deployment("web")])),
        &lookups,
        expect![
            "403: invalid resource selector {Group:apps Version:v1 Kind:Deployment Name:web}: the resource has been selected by both b and a, which is not supported"
        ],
    );
    check_namespaced(
        Operation::Update,
        namespaced_override("a", json!([deployment("web")])),
        &lookups,
        expect!["allowed: the override is valid"],
    );
}

#[test]
fn there_is_a_limit_to_namespaced_overrides() {
    let many = (0..100).map(|i| namespaced_override(&format!("o{i}"), json!([deployment(&format!("d{i}"))]))).collect();
    let lookups = FakeLookups { overrides: many, ..FakeLookups::default() };
    check_namespaced(
        Operation::Create,
        namespaced_override("new", json!([deployment("web")])),
        &lookups,
        expect!["403: resourceOverride limit has been reached: at most 100 resources can be created."],
    );
}
