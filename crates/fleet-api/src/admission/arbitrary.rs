//! Random objects for property tests: valid ones, invalid ones, and some of the wrong shape.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Shallow JSON with keys and values of placements, overrides and member clusters.
pub(super) fn json_like() -> BoxedStrategy<Value> {
    let words = vec![
        "",
        "PickAll",
        "PickN",
        "PickFixed",
        "In",
        "Exists",
        "Equal",
        "Gt",
        "Eq",
        "25%",
        "-5%",
        "x%",
        "1Gi",
        "1e3",
        "a/b",
        "A_b",
        "External",
        "RollingUpdate",
        "ServerSideApply",
        "NoSchedule",
        "add",
        "remove",
        "/metadata/labels",
        "Delete",
        "JSONPatch",
        "v1",
        "Namespace",
        "é",
        "placement.kubernetes-fleet.io/v1beta1",
        "cluster.kubernetes-fleet.io/v1beta1",
    ];
    let keys = vec![
        "apiVersion",
        "kind",
        "metadata",
        "name",
        "namespace",
        "labels",
        "annotations",
        "deletionTimestamp",
        "spec",
        "status",
        "resourceSelectors",
        "group",
        "version",
        "labelSelector",
        "matchLabels",
        "matchExpressions",
        "key",
        "operator",
        "values",
        "policy",
        "placementType",
        "clusterNames",
        "numberOfClusters",
        "affinity",
        "tolerations",
        "value",
        "effect",
        "strategy",
        "type",
        "rollingUpdate",
        "maxSurge",
        "applyStrategy",
        "overrideRules",
        "clusterResourceSelectors",
        "taints",
        "identity",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![-3_i64..9, any::<i64>()].prop_map(Value::from),
        prop::sample::select(words).prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(keys.clone()).prop_map(str::to_owned), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
    .boxed()
}

/// Each field is left out, taken from its own values, or occasionally filled with anything.
fn fields(choices: Vec<(&'static str, Vec<Value>)>) -> BoxedStrategy<Value> {
    let fields: Vec<BoxedStrategy<Option<(String, Value)>>> = choices
        .into_iter()
        .map(|(key, values)| {
            prop_oneof![
                4 => Just(None),
                8 => prop::sample::select(values).prop_map(move |value| Some((key.to_owned(), value))),
                1 => json_like().prop_map(move |value| Some((key.to_owned(), value))),
            ]
            .boxed()
        })
        .collect();
    fields.prop_map(|fields| Value::Object(fields.into_iter().flatten().collect::<Map<_, _>>())).boxed()
}

/// A placement whose fields are mostly well formed, in all combinations.
pub(super) fn placement_like() -> BoxedStrategy<Value> {
    let policy = fields(vec![
        ("placementType", vec![json!("PickAll"), json!("PickN"), json!("PickFixed")]),
        ("clusterNames", vec![json!([]), json!(["m1", "m1"]), json!(["M_1"])]),
        ("numberOfClusters", vec![json!(0), json!(-1)]),
        (
            "affinity",
            vec![
                json!({}),
                json!({"clusterAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [
                        {"labelSelector": {"matchLabels": {"a b": "c"}}},
                        {"propertySelector": {"matchExpressions": [
                            {"name": "x", "operator": "Gt", "values": ["3"]}, {"name": "x", "operator": "Lt", "values": ["2Ki"]},
                            {"name": "x", "operator": "Eq", "values": ["1"]}, {"name": "a/b/", "operator": "??", "values": []},
                        ]}},
                    ]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "preference": {"propertySorter": {"name": "resources.kubernetes-fleet.io/x", "sortOrder": "Ascending"}}},
                    ],
                }}),
            ],
        ),
        ("topologySpreadConstraints", vec![json!([{"topologyKey": "zone"}]), json!([])]),
        (
            "tolerations",
            vec![json!([]), json!([{}, {}]), json!([{"key": "a/b/c", "operator": "Exists", "value": "x"}])],
        ),
    ]);
    let strategy = fields(vec![
        ("type", vec![json!("RollingUpdate"), json!("External"), json!("Sideways")]),
        (
            "rollingUpdate",
            vec![json!({}), json!({"maxSurge": "x", "maxUnavailable": -1, "unavailablePeriodSeconds": -2})],
        ),
        ("applyStrategy", vec![json!({}), json!({"type": "ServerSideApply"}), json!({"serverSideApplyConfig": {}})]),
    ]);
    let selectors = prop::sample::select(vec![
        json!([]),
        json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]),
        json!([{"group": "", "version": "v1", "kind": "ConfigMap", "name": "x", "labelSelector": {}}]),
        json!([{"group": "x", "version": "", "kind": "Y"}]),
    ]);
    (selectors, prop::option::of(policy), prop::option::of(strategy))
        .prop_map(|(selectors, policy, strategy)| {
            let mut spec = json!({"resourceSelectors": selectors});
            if let Some(policy) = policy {
                spec["policy"] = policy;
            }
            if let Some(strategy) = strategy {
                spec["strategy"] = strategy;
            }
            json!({
                "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
                "metadata": {"name": "crp"}, "spec": spec,
            })
        })
        .boxed()
}
