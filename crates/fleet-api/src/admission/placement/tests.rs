//! Placements as a whole: selectors, strategy, names, and the order of checks on create and update.

use expect_test::{Expect, expect};
use serde_json::json;

use super::super::fake_lookups::{CRP, FakeLookups, RP, object, roles};
use super::*;
use crate::kinds::{Cluster, Namespaced};

fn printed(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Allowed { message, .. } => format!("allowed: {message}"),
        Verdict::Denied { code, message } => format!("{}: {message}", code.number()),
    }
}

/// The answer to creating a cluster-scoped placement with this spec.
fn check(spec: Value, expected: Expect) {
    let created = admit::<Cluster>(&object(CRP, "crp", spec), None, &FakeLookups::default());
    expected.assert_eq(&printed(&created));
}

fn check_strategy(strategy: Value, expected: Expect) {
    check(json!({"resourceSelectors": [roles()], "strategy": strategy}), expected);
}

fn check_update(old: Value, new: Value, expected: Expect) {
    let answer = admit::<Cluster>(&new, Some(&old), &FakeLookups::default());
    expected.assert_eq(&printed(&answer));
}

fn placement(policy: Value) -> Value {
    object(CRP, "crp", json!({"resourceSelectors": [roles()], "policy": policy}))
}

#[test]
fn a_valid_placement_is_allowed() {
    check(json!({"resourceSelectors": [roles()]}), expect!["allowed: any user is allowed to modify v1beta1 CRP"]);
    let created = admit::<Namespaced>(
        &object(RP, "rp", json!({"resourceSelectors": [{"group": "apps", "version": "v1", "kind": "Deployment"}]})),
        None,
        &FakeLookups::default(),
    );
    expect!["allowed: any user is allowed to modify v1beta1 RP"].assert_eq(&printed(&created));
}

#[test]
fn names_fit_a_label() {
    let long = object(CRP, &"x".repeat(64), json!({"resourceSelectors": [roles()]}));
    expect!["403: deny create/update v1beta1 CRP has invalid fields the name field cannot have length exceeding 63"]
        .assert_eq(&printed(&admit::<Cluster>(&long, None, &FakeLookups::default())));
}

#[test]
fn a_selector_has_a_name_or_labels() {
    let mut both = roles();
    both["labelSelector"] = json!({"matchLabels": {"a": "b"}});
    check(
        json!({"resourceSelectors": [both]}),
        expect![
            "403: deny create/update v1beta1 CRP has invalid fields the labelSelector and name fields are mutually exclusive in selector {Group:rbac.authorization.k8s.io Version:v1 Kind:ClusterRole Name:reader LabelSelector:&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},} SelectionScope:}"
        ],
    );
}

#[test]
fn labels_of_a_selector_must_be_usable() {
    check(
        json!({"resourceSelectors": [{
            "group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole",
            "labelSelector": {"matchExpressions": [{"key": "k", "operator": "in", "values": ["x"]}]},
        }]}),
        expect![[
            r#"403: deny create/update v1beta1 CRP has invalid fields the labelSelector in resource selector &LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:in,Values:[x],},},} is invalid: "in" is not a valid label selector operator"#
        ]],
    );
}

#[test]
fn an_unknown_kind_ends_the_check() {
    check(
        json!({
            "resourceSelectors": [
                {"group": "apps", "version": "v1", "kind": "Deployment"},
                {"group": "example.com", "version": "v2", "kind": "Thing"},
                {"group": "", "version": "v1", "kind": "ConfigMap"},
            ],
            "policy": {"placementType": "PickN"},
            "strategy": {"rollingUpdate": {"maxSurge": -1}},
        }),
        expect![[
            r#"403: deny create/update v1beta1 CRP has invalid fields [the resource is not found in schema (please retry) or it is not a cluster scoped resource: apps/v1, Kind=Deployment, failed to get GVR of the selector: no matches for kind "Thing" in version "example.com/v2"]"#
        ]],
    );
    check(
        json!({"resourceSelectors": [{"group": "", "version": "v9", "kind": "Pod"}]}),
        expect![[
            r#"403: deny create/update v1beta1 CRP has invalid fields failed to get GVR of the selector: no matches for kind "Pod" in version "v9""#
        ]],
    );
    check(
        json!({"resourceSelectors": [{"group": "apps", "version": "", "kind": "Pod"}]}),
        expect![[
            r#"403: deny create/update v1beta1 CRP has invalid fields failed to get GVR of the selector: no matches for kind "Pod" in group "apps""#
        ]],
    );
}

#[test]
fn a_cluster_scoped_placement_selects_cluster_scoped_kinds() {
    check(
        json!({"resourceSelectors": [
            {"group": "apps", "version": "v1", "kind": "Deployment"}, {"group": "", "version": "v1", "kind": "ConfigMap"},
        ]}),
        expect![
            "403: deny create/update v1beta1 CRP has invalid fields [the resource is not found in schema (please retry) or it is not a cluster scoped resource: apps/v1, Kind=Deployment, the resource is not found in schema (please retry) or it is not a cluster scoped resource: /v1, Kind=ConfigMap]"
        ],
    );
}

#[test]
fn contents_of_a_chosen_namespace_may_be_selected() {
    check(
        json!({"resourceSelectors": [
            {"group": "apps", "version": "v1", "kind": "Deployment"},
            {"group": "", "version": "v1", "kind": "Namespace", "name": "app", "selectionScope": "NamespaceWithResourceSelectors"},
        ]}),
        expect!["allowed: any user is allowed to modify v1beta1 CRP"],
    );
}

#[test]
fn a_namespaced_placement_selects_namespaced_kinds() {
    let object = object(RP, "rp", json!({"resourceSelectors": [roles()]}));
    expect!["403: deny create/update v1beta1 RP has invalid fields the resource is not found in schema (please retry) or it is a cluster scoped resource: rbac.authorization.k8s.io/v1, Kind=ClusterRole"].assert_eq(&printed(&admit::<Namespaced>(&object, None, &FakeLookups::default())));
}

#[test]
fn unknown_scopes_are_a_retryable_error() {
    let lookups = FakeLookups { kinds_not_ready: true, ..FakeLookups::default() };
    let spec = json!({"resourceSelectors": [roles(), roles()], "strategy": {"rollingUpdate": {"maxSurge": -1}}});
    expect!["403: deny create/update v1beta1 CRP has invalid fields [cannot perform resource scope check for now, please retry, the rollout Strategy field  is invalid: maxSurge must be greater than or equal to 0, got `-1`]"].assert_eq(&printed(&admit::<Cluster>(&object(CRP, "crp", spec), None, &lookups)));
}

#[test]
fn rolling_update_numbers() {
    check_strategy(
        json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}),
        expect!["allowed: any user is allowed to modify v1beta1 CRP"],
    );
    check_strategy(
        json!({"rollingUpdate": {"unavailablePeriodSeconds": -1}}),
        expect![
            "403: deny create/update v1beta1 CRP has invalid fields the rollout Strategy field  is invalid: unavailablePeriodSeconds must be greater than or equal to 0, got -1"
        ],
    );
    check_strategy(
        json!({"rollingUpdate": {"maxUnavailable": "x", "maxSurge": "y%"}}),
        expect![[
            r#"403: deny create/update v1beta1 CRP has invalid fields the rollout Strategy field  is invalid: [maxUnavailable `x` is invalid: invalid value for IntOrString: invalid type: string is not a percentage, maxSurge `y%` is invalid: invalid value for IntOrString: invalid value "y%": strconv.Atoi: parsing "y": invalid syntax]"#
        ]],
    );
    check_strategy(
        json!({"rollingUpdate": {"maxUnavailable": -1, "maxSurge": "-30%"}}),
        expect![
            "403: deny create/update v1beta1 CRP has invalid fields the rollout Strategy field  is invalid: [maxUnavailable must be greater than or equal to 0, got `-1`, maxSurge must be greater than or equal to 0, got `-30%`]"
        ],
    );
}

#[test]
fn parts_of_a_strategy_fit_together() {
    check_strategy(
        json!({"type": "External", "rollingUpdate": {}}),
        expect![
            "403: deny create/update v1beta1 CRP has invalid fields the rollout Strategy field  is invalid: rollingUpdateConifg is not valid for ExternalRollout strategy type"
        ],
    );
    check_strategy(
        json!({"applyStrategy": {"serverSideApplyConfig": {"force": true}}}),
        expect![
            "403: deny create/update v1beta1 CRP has invalid fields the rollout Strategy field  is invalid: serverSideApplyConfig is only valid for ServerSideApply strategy type"
        ],
    );
    check_strategy(
        json!({"applyStrategy": {"type": "ServerSideApply", "serverSideApplyConfig": {}}}),
        expect!["allowed: any user is allowed to modify v1beta1 CRP"],
    );
}

#[test]
fn unknown_enum_values() {
    check_strategy(
        json!({"type": "Sideways"}),
        expect![
            "403: deny create/update v1beta1 CRP has invalid fields the rollout Strategy field  is invalid: unsupported rollout strategy type `Sideways`"
        ],
    );
    check(
        json!({
            "resourceSelectors": [roles()],
            "policy": {
                "placementType": "PickN", "numberOfClusters": 1,
                "topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "Panic"}],
                "affinity": {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"propertySorter": {"name": "x", "sortOrder": "Random"}}},
                ]}},
            },
            "strategy": {"type": "Sideways"},
        }),
        expect![
            "403: deny create/update v1beta1 CRP has invalid fields [the placement policy field is invalid: [invalid property sort order Random, unknown unsatisfiable type Panic], the rollout Strategy field  is invalid: unsupported rollout strategy type `Sideways`]"
        ],
    );
}

#[test]
fn an_unreadable_object_is_a_bad_request() {
    check(json!({"resourceSelectors": 7}), expect!["400: invalid type: integer `7`, expected a sequence"]);
}

#[test]
fn findings_come_in_the_order_of_the_fields() {
    let mut both = roles();
    both["labelSelector"] = json!({});
    check(
        json!({
            "resourceSelectors": [both],
            "policy": {"placementType": "PickN", "clusterNames": ["a"]},
            "strategy": {"type": "External", "rollingUpdate": {"maxSurge": -1}},
        }),
        expect![
            "403: deny create/update v1beta1 CRP has invalid fields [the labelSelector and name fields are mutually exclusive in selector {Group:rbac.authorization.k8s.io Version:v1 Kind:ClusterRole Name:reader LabelSelector:&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},} SelectionScope:}, the placement policy field is invalid: [cluster names needs to be empty for policy type PickN, only valid for PickFixed policy type, number of cluster cannot be nil for policy type PickN], the rollout Strategy field  is invalid: [rollingUpdateConifg is not valid for ExternalRollout strategy type, maxSurge must be greater than or equal to 0, got `-1`]]"
        ],
    );
}

#[test]
fn updates_of_a_valid_placement() {
    let old = placement(json!({"placementType": "PickN", "numberOfClusters": 1}));
    let new = placement(json!({"placementType": "PickN", "numberOfClusters": 2}));
    check_update(old.clone(), new, expect!["allowed: any user is allowed to modify v1beta1 CRP"]);
    check_update(
        old,
        placement(json!({"placementType": "PickN", "numberOfClusters": -2})),
        expect![
            "403: deny create/update v1beta1 CRP has invalid fields the placement policy field is invalid: number of clusters cannot be -2 for policy type PickN"
        ],
    );
}

#[test]
fn an_invalid_stored_placement_may_only_be_finalized() {
    let old = placement(json!({"placementType": "PickN"}));
    let mut new = placement(json!({"placementType": "PickN", "numberOfClusters": 2}));
    check_update(
        old.clone(),
        new.clone(),
        expect![
            "403: deny update on old invalid v1beta1 CRP with DeletionTimestamp not set the placement policy field is invalid: number of cluster cannot be nil for policy type PickN"
        ],
    );
    new["metadata"]["deletionTimestamp"] = json!("2026-11-15T00:00:00Z");
    check_update(old, new, expect!["allowed: allow update on old invalid v1beta1 CRP with DeletionTimestamp set"]);
}

#[test]
fn a_stored_placement_with_unknown_enum_values_may_only_be_finalized() {
    let old = object(CRP, "crp", json!({"resourceSelectors": [roles()], "strategy": {"type": "Sideways"}}));
    let mut new = object(CRP, "crp", json!({"resourceSelectors": [roles()]}));
    check_update(
        old.clone(),
        new.clone(),
        expect![
            "403: deny update on old invalid v1beta1 CRP with DeletionTimestamp not set the rollout Strategy field  is invalid: unsupported rollout strategy type `Sideways`"
        ],
    );
    new["metadata"]["deletionTimestamp"] = json!("2026-11-15T00:00:00Z");
    check_update(old, new, expect!["allowed: allow update on old invalid v1beta1 CRP with DeletionTimestamp set"]);
}

#[test]
fn an_unreadable_stored_placement_may_only_be_finalized() {
    let old = placement(json!({"placementType": "PickNone"}));
    let mut new = old.clone();
    check_update(
        old.clone(),
        new.clone(),
        expect!["400: unknown variant `PickNone`, expected one of `PickAll`, `PickN`, `PickFixed`"],
    );
    new["metadata"]["deletionTimestamp"] = json!("2026-11-15T00:00:00Z");
    check_update(old, new, expect!["allowed: allow update on old invalid v1beta1 CRP with DeletionTimestamp set"]);
}

#[test]
fn the_placement_type_is_immutable_and_absent_means_pick_all() {
    let pick_all = placement(json!({"placementType": "PickAll"}));
    let fixed = placement(json!({"placementType": "PickFixed", "clusterNames": ["m"]}));
    let none = object(CRP, "crp", json!({"resourceSelectors": [roles()]}));
    check_update(pick_all.clone(), fixed.clone(), expect!["403: placement type is immutable"]);
    check_update(fixed, none.clone(), expect!["403: placement type is immutable"]);
    check_update(none.clone(), pick_all.clone(), expect!["allowed: any user is allowed to modify v1beta1 CRP"]);
    check_update(pick_all, none, expect!["allowed: any user is allowed to modify v1beta1 CRP"]);
}

#[test]
fn tolerations_may_only_be_added() {
    let a = json!({"key": "a", "operator": "Exists"});
    let b = json!({"key": "b", "operator": "Equal", "value": "x"});
    let with = |tolerations: Value| placement(json!({"placementType": "PickAll", "tolerations": tolerations}));
    check_update(with(json!([a])), with(json!([b, a])), expect!["allowed: any user is allowed to modify v1beta1 CRP"]);
    check_update(
        with(json!([a, b])),
        with(json!([b])),
        expect!["403: tolerations have been updated/deleted, only additions to tolerations are allowed"],
    );
    check_update(
        with(json!([b])),
        with(json!([{"key": "b", "operator": "Equal", "value": "y"}])),
        expect!["403: tolerations have been updated/deleted, only additions to tolerations are allowed"],
    );
    check_update(
        with(json!([b])),
        placement(json!({"placementType": "PickAll"})),
        expect!["403: tolerations have been updated/deleted, only additions to tolerations are allowed"],
    );
}

#[test]
fn the_type_is_checked_before_tolerations_and_both_before_new_fields() {
    let old = placement(json!({"placementType": "PickAll", "tolerations": [{"key": "a", "operator": "Exists"}]}));
    check_update(
        old.clone(),
        placement(json!({"placementType": "PickN"})),
        expect!["403: placement type is immutable"],
    );
    check_update(
        old,
        placement(json!({"placementType": "PickAll", "numberOfClusters": 1})),
        expect!["403: tolerations have been updated/deleted, only additions to tolerations are allowed"],
    );
}
