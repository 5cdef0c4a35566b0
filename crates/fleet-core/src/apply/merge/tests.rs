//! Exact patches. `fleet-member` tests that servers accept them.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::apply::adversarial;

const DEPLOYMENT: (&str, &str) = ("apps/v1", "Deployment");
const SERVICE: (&str, &str) = ("v1", "Service");
const WIDGET: (&str, &str) = ("example.com/v1", "Widget");

fn object((api_version, kind): (&str, &str), mut fields: Value) -> Value {
    fields["apiVersion"] = json!(api_version);
    fields["kind"] = json!(kind);
    fields
}

/// The patch of the pod spec of a deployment.
fn check_pod(last: Value, desired: Value, live: Value, expected: Expect) {
    let [last, desired, live] =
        [last, desired, live].map(|pod| object(DEPLOYMENT, json!({"spec": {"template": {"spec": pod}}})));
    let patch = three_way(&last, &desired, &live).unwrap();
    assert_eq!(patch.patch_type, PatchType::Strategic);
    let body = Value::Object(patch.body);
    expected.assert_eq(&body.pointer("/spec/template/spec").unwrap_or(&json!({})).to_string());
}

fn check(kind: (&str, &str), last: Value, desired: Value, live: Value, expected: Expect) {
    let [last, desired, live] = [last, desired, live].map(|fields| object(kind, fields));
    let patch = three_way(&last, &desired, &live).unwrap();
    assert_eq!(patch.patch_type == PatchType::JsonMerge, kind == WIDGET);
    expected.assert_eq(&Value::Object(patch.body).to_string());
}

#[test]
fn applier_s16_own_fields_are_set_and_removed_and_foreign_ones_kept() {
    check(
        ("v1", "ConfigMap"),
        json!({"metadata": {"labels": {"k1": "v", "k2": "v"}}, "data": {"d1": "old"}}),
        json!({"metadata": {"labels": {"k1": "v"}}, "data": {"d1": "new", "d2": "own"}}),
        json!({"metadata": {"labels": {"k1": "theirs", "k2": "v"}}, "data": {"d1": "old", "d2": "theirs", "d3": "theirs"}}),
        expect![[r#"{"data":{"d1":"new","d2":"own"},"metadata":{"labels":{"k1":"v","k2":null}}}"#]],
    );
}

#[test]
fn applier_s18_lists_of_custom_resources_are_replaced() {
    check(
        WIDGET,
        json!({"spec": {"list": [1, 2], "gone": [1]}}),
        json!({"spec": {"list": [1, 2, 3], "null": null, "deep": {"null": null}, "empty": {}}}),
        json!({"spec": {"list": [1, 9], "gone": [1], "theirs": [4]}}),
        expect![[r#"{"spec":{"empty":{},"gone":null,"list":[1,2,3]}}"#]],
    );
}

#[test]
fn without_a_last_applied_text_nothing_is_deleted() {
    for kind in [("v1", "ConfigMap"), WIDGET] {
        check(
            kind,
            json!({}),
            json!({"data": {"a": "1"}}),
            json!({"data": {"a": "0", "b": "2"}}),
            expect![[r#"{"data":{"a":"1"}}"#]],
        );
    }
}

#[test]
fn containers_are_merged_by_name_and_keep_the_desired_order() {
    check_pod(
        json!({"containers": [{"name": "old", "image": "x"}, {"name": "web", "image": "a:1", "args": ["x"]}]}),
        json!({"containers": [{"name": "web", "image": "a:2"}, {"name": "new", "image": "n"}]}),
        json!({"containers": [
            {"name": "old", "image": "x"}, {"name": "web", "image": "a:1", "args": ["x"], "imagePullPolicy": "Always"},
            {"name": "injected", "image": "i"},
        ]}),
        expect![[
            r#"{"$setElementOrder/containers":[{"name":"web"},{"name":"new"}],"containers":[{"args":null,"image":"a:2","name":"web"},{"image":"n","name":"new"},{"$patch":"delete","name":"old"}]}"#
        ]],
    );
}

#[test]
fn an_injected_container_needs_no_patch() {
    let own = json!({"containers": [{"name": "web", "image": "a"}]});
    check_pod(
        own.clone(),
        own,
        json!({"containers": [{"name": "proxy"}, {"name": "web", "image": "a", "tty": false}]}),
        expect!["{}"],
    );
}

#[test]
fn a_changed_order_alone_is_a_patch() {
    let list = |names: [&str; 2]| json!({"containers": names.map(|name| json!({"name": name}))});
    check_pod(
        list(["a", "b"]),
        list(["b", "a"]),
        list(["a", "b"]),
        expect![[r#"{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}]}"#]],
    );
}

#[test]
fn a_volume_with_a_new_source_loses_the_old_one() {
    let volume = |source: Value| json!({"volumes": [source]});
    check_pod(
        volume(json!({"name": "v", "emptyDir": {}})),
        volume(json!({"name": "v", "configMap": {"name": "c"}})),
        volume(json!({"name": "v", "emptyDir": {}})),
        expect![[
            r#"{"$setElementOrder/volumes":[{"name":"v"}],"volumes":[{"$retainKeys":["configMap","name"],"configMap":{"name":"c"},"emptyDir":null,"name":"v"}]}"#
        ]],
    );
}

#[test]
fn a_deployment_strategy_is_a_union() {
    let strategy = |strategy: Value| json!({"spec": {"strategy": strategy}});
    let rolling = || strategy(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}));
    check(
        DEPLOYMENT,
        json!({}),
        strategy(json!({"type": "Recreate"})),
        rolling(),
        expect![[r#"{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}"#]],
    );
    check(DEPLOYMENT, json!({}), strategy(json!({})), rolling(), expect!["{}"]);
}

#[test]
fn the_selector_of_a_budget_is_replaced_whole() {
    let budget = |labels: Value| json!({"spec": {"selector": {"matchLabels": labels}}});
    check(
        ("policy/v1", "PodDisruptionBudget"),
        budget(json!({"a": "1"})),
        budget(json!({"b": "2"})),
        budget(json!({"a": "1"})),
        expect![[r#"{"spec":{"selector":{"matchLabels":{"b":"2"}}}}"#]],
    );
}

#[test]
fn finalizers_are_a_set() {
    let with = |list: Value| json!({"metadata": {"finalizers": list}});
    check(
        ("v1", "ConfigMap"),
        with(json!(["a", "gone"])),
        with(json!(["a", "new", "new"])),
        with(json!(["theirs", "gone", "a"])),
        expect![[
            r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["gone"],"$setElementOrder/finalizers":["a","new","new"],"finalizers":["new"]}}"#
        ]],
    );
}

#[test]
fn ports_that_share_a_number_are_sent_as_a_whole_list_with_server_defaults() {
    let ports = |list: Value| json!({"spec": {"ports": list}});
    let live = || {
        ports(json!([
            {"port": 53, "protocol": "UDP", "nodePort": 30053}, {"port": 53, "protocol": "TCP", "nodePort": 30054},
            {"port": 99, "protocol": "TCP", "nodePort": 30099},
        ]))
    };
    let desired = || ports(json!([{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]));
    check(SERVICE, desired(), desired(), live(), expect!["{}"]);
    check(
        SERVICE,
        desired(),
        ports(json!([{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP", "name": "tcp"}])),
        live(),
        expect![[
            r#"{"spec":{"ports":[{"nodePort":30053,"port":53,"protocol":"UDP"},{"name":"tcp","nodePort":30054,"port":53,"protocol":"TCP"},{"nodePort":30099,"port":99,"protocol":"TCP"},{"$patch":"replace"}]}}"#
        ]],
    );
    check(
        SERVICE,
        desired(),
        ports(json!([{"port": 53, "protocol": "TCP"}])),
        live(),
        expect![[
            r#"{"spec":{"ports":[{"nodePort":30054,"port":53,"protocol":"TCP"},{"nodePort":30099,"port":99,"protocol":"TCP"},{"$patch":"replace"}]}}"#
        ]],
    );
}

#[test]
fn ports_that_share_a_number_replace_an_empty_list() {
    let ports = |list: Value| json!({"spec": {"ports": list}});
    let desired = || ports(json!([{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]));
    check(
        SERVICE,
        json!({}),
        desired(),
        ports(json!([])),
        expect![[
            r#"{"spec":{"ports":[{"port":53,"protocol":"UDP"},{"port":53,"protocol":"TCP"},{"$patch":"replace"}]}}"#
        ]],
    );
    // A server stores a list that it does not have as it is.
    check(
        SERVICE,
        json!({}),
        desired(),
        json!({"spec": {}}),
        expect![[r#"{"spec":{"ports":[{"port":53,"protocol":"UDP"},{"port":53,"protocol":"TCP"}]}}"#]],
    );
}

#[test]
fn a_new_owner_joins_the_others_on_any_kind() {
    let owned = |owners: Value| json!({"metadata": {"ownerReferences": owners}});
    let (ours, old, theirs) = (json!({"uid": "ours"}), json!({"uid": "old"}), json!({"uid": "theirs", "kind": "X"}));
    let check_owners = |kind, expected: Expect| {
        check(kind, owned(json!([old])), owned(json!([ours])), owned(json!([old, theirs])), expected);
    };
    check_owners(
        ("v1", "ConfigMap"),
        expect![[
            r#"{"metadata":{"$setElementOrder/ownerReferences":[{"uid":"ours"}],"ownerReferences":[{"uid":"ours"},{"$patch":"delete","uid":"old"}]}}"#
        ]],
    );
    check_owners(WIDGET, expect![[r#"{"metadata":{"ownerReferences":[{"kind":"X","uid":"theirs"},{"uid":"ours"}]}}"#]]);
    check(WIDGET, owned(json!([ours])), owned(json!([ours])), owned(json!([theirs, ours])), expect!["{}"]);
}

#[test]
fn the_identity_of_a_custom_resource_is_not_patched() {
    let named = |name: &str| object(WIDGET, json!({"metadata": {"name": name}}));
    assert_eq!(three_way(&json!({}), &named("a"), &named("b")), Err(MergeFailure::Identity("metadata.name")));
    let other_version = object(("example.com/v2", "Widget"), json!({}));
    assert_eq!(
        three_way(&json!({}), &object(WIDGET, json!({})), &other_version),
        Err(MergeFailure::Identity("apiVersion"))
    );
    assert_eq!(three_way(&json!({}), &json!([]), &json!({})), Err(MergeFailure::NoObject));
}

#[test]
fn definitions_of_resources_are_merged_as_plain_json() {
    for kind in [("apiextensions.k8s.io/v1", "CustomResourceDefinition"), ("apiregistration.k8s.io/v1", "APIService")] {
        let object = object(kind, json!({}));
        assert_eq!(three_way(&json!({}), &object, &object).unwrap().patch_type, PatchType::JsonMerge);
    }
}

#[test]
fn directives_in_a_manifest_are_not_passed_on() {
    check(
        DEPLOYMENT,
        json!({"$patch": "delete", "spec": {"$retainKeys": ["a"]}}),
        json!({"$patch": "replace", "spec": {"$setElementOrder/x": [], "new": {"$patch": "delete", "a": 1}}}),
        json!({"spec": {}}),
        expect![[r#"{"spec":{"new":{"a":1}}}"#]],
    );
}

#[test]
fn a_lock_is_part_of_the_patch() {
    let config_map = object(("v1", "ConfigMap"), json!({"metadata": {"resourceVersion": "5"}}));
    let patch = three_way(&json!({}), &object(("v1", "ConfigMap"), json!({})), &config_map).unwrap();
    assert!(patch.is_empty());
    expect![[r#"{"metadata":{"resourceVersion":"5"}}"#]]
        .assert_eq(&Value::Object(patch.meant_for(None, Some("5")).body).to_string());
}

#[test]
fn long_lists_take_no_longer_than_a_sort() {
    let elements = |list: &dyn Fn(u32) -> Value| (0..50_000).map(list).collect::<Vec<_>>();
    let pod = |containers: Vec<Value>| json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let named = object(DEPLOYMENT, pod(elements(&|n| json!({"name": format!("c{n}")}))));
    assert!(three_way(&named, &named, &named).unwrap().is_empty());
    let repeated = object(DEPLOYMENT, pod(elements(&|n| json!({"name": "same", "n": n}))));
    assert!(three_way(&repeated, &repeated, &repeated).unwrap().is_empty());
    let set = object(DEPLOYMENT, json!({"metadata": {"finalizers": elements(&|n| json!(n))}}));
    assert!(three_way(&set, &set, &set).unwrap().is_empty());
}

/// Contains no directive, null or union: applying it again must change nothing.
fn is_settled(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(fields) => fields.iter().all(|(name, value)| !name.starts_with('$') && is_settled(value)),
        Value::Array(items) => items.iter().all(is_settled),
        _ => true,
    }
}

proptest! {
    #[test]
    fn any_three_documents_have_a_patch_or_a_failure(
        last in adversarial::value(), desired in adversarial::object(), live in adversarial::object(),
    ) {
        let first = three_way(&last, &desired, &live);
        prop_assert_eq!(&first, &three_way(&last, &desired, &live));
        if let Ok(patch) = first && patch.patch_type == PatchType::JsonMerge {
            prop_assert!(!patch.body.contains_key("kind"));
        }
    }

    #[test]
    fn an_unchanged_object_needs_no_patch(object in adversarial::object()) {
        prop_assume!(is_settled(&object));
        prop_assert!(three_way(&object, &object, &object).unwrap().is_empty());
    }
}
