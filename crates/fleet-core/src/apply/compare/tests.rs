//! The exact format, and that applying the differences leads from source to target.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::walk::{Difference, Differences};
use super::*;
use crate::apply::adversarial;

fn shown(details: &[PatchDetail]) -> String {
    let line = |PatchDetail { path, value_in_member, value_in_hub }: &PatchDetail| {
        format!("{path} member={value_in_member:?} hub={value_in_hub:?}\n")
    };
    details.iter().map(line).collect()
}

fn check(source: Value, target: Value, expected: Expect) {
    expected.assert_eq(&shown(&differences(&source, &target)));
}

#[test]
fn the_worked_example_of_the_format() {
    check(
        json!({"spec": {"big": 1_000_000, "n": null, "l": [1, 2, 3, 4], "m": {"b": 1, "a": "x"}, "e": ""}}),
        json!({"spec": {
            "big": 1_234_567, "n": 5, "l": [1], "m": [1_000_000, {"z": 1.5, "y": null}], "e": "full", "el": [], "empty": {},
        }}),
        expect![[r#"
            /spec/big member="1.234567e+06" hub="1000000"
            /spec/e member="full" hub=""
            /spec/el member="[]" hub=""
            /spec/empty member="map[]" hub=""
            /spec/l/1 member="" hub="2"
            /spec/l/1 member="" hub="2"
            /spec/l/1 member="" hub="2"
            /spec/m member="[1e+06 map[y:<nil> z:1.5]]" hub="map[a:x b:1]"
            /spec/n member="5" hub="<nil>"
        "#]],
    );
}

#[test]
fn applier_s58_lists_are_compared_by_index() {
    let port = |name: &str, number: u16, protocol: &str, target: Value| json!({"name": name, "port": number, "protocol": protocol, "targetPort": target});
    let http = || port("http", 80, "TCP", json!("http"));
    let https = || port("https", 443, "TCP", json!("https"));
    check(
        json!({"spec": {"ports": [http(), port("custom", 10000, "UDP", json!(10000)), https()]}}),
        json!({"spec": {"ports": [http(), https()]}}),
        expect![[r#"
            /spec/ports/2 member="" hub="map[name:https port:443 protocol:TCP targetPort:https]"
            /spec/ports/1/name member="https" hub="custom"
            /spec/ports/1/port member="443" hub="10000"
            /spec/ports/1/protocol member="TCP" hub="UDP"
            /spec/ports/1/targetPort member="https" hub="10000"
        "#]],
    );
    check(
        json!({"l": [1]}),
        json!({"l": [2, 3, 4]}),
        expect![[r#"
            /l/0 member="2" hub="1"
            /l/- member="3" hub=""
            /l/- member="4" hub=""
        "#]],
    );
}

#[test]
fn applier_s26_a_full_comparison_reports_server_defaults() {
    let deployment = |replicas: u8| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
            "replicas": replicas, "strategy": {}, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"creationTimestamp": null, "labels": {"a": "b"}}, "spec": {"containers": [
                {"name": "nginx", "image": "nginx", "ports": [{"containerPort": 80}], "resources": {}},
            ]}},
        }})
    };
    let mut live = deployment(2);
    live["metadata"] = json!({"name": "d", "uid": "u", "annotations": {"deployment.kubernetes.io/revision": "1"}});
    live["status"] = json!({"replicas": 2});
    let spec = live["spec"].as_object_mut().unwrap();
    spec.insert("progressDeadlineSeconds".into(), json!(600));
    spec.insert("revisionHistoryLimit".into(), json!(10));
    spec.insert(
        "strategy".into(),
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}),
    );
    let pod = live["spec"]["template"]["spec"].as_object_mut().unwrap();
    for (key, value) in [
        ("dnsPolicy", json!("ClusterFirst")),
        ("restartPolicy", json!("Always")),
        ("schedulerName", json!("default-scheduler")),
        ("securityContext", json!({})),
        ("terminationGracePeriodSeconds", json!(30)),
    ] {
        pod.insert(key.into(), value);
    }
    let container = live["spec"]["template"]["spec"]["containers"][0].as_object_mut().unwrap();
    container["ports"][0]["protocol"] = json!("TCP");
    container.insert("imagePullPolicy".into(), json!("Always"));
    container.insert("terminationMessagePath".into(), json!("/dev/termination-log"));
    container.insert("terminationMessagePolicy".into(), json!("File"));
    check(
        deployment(1),
        live,
        expect![[r#"
            /spec/progressDeadlineSeconds member="600" hub=""
            /spec/replicas member="2" hub="1"
            /spec/revisionHistoryLimit member="10" hub=""
            /spec/strategy/rollingUpdate member="map[maxSurge:25% maxUnavailable:25%]" hub=""
            /spec/strategy/type member="RollingUpdate" hub=""
            /spec/template/spec/containers/0/imagePullPolicy member="Always" hub=""
            /spec/template/spec/containers/0/ports/0/protocol member="TCP" hub=""
            /spec/template/spec/containers/0/terminationMessagePath member="/dev/termination-log" hub=""
            /spec/template/spec/containers/0/terminationMessagePolicy member="File" hub=""
            /spec/template/spec/dnsPolicy member="ClusterFirst" hub=""
            /spec/template/spec/restartPolicy member="Always" hub=""
            /spec/template/spec/schedulerName member="default-scheduler" hub=""
            /spec/template/spec/securityContext member="map[]" hub=""
            /spec/template/spec/terminationGracePeriodSeconds member="30" hub=""
        "#]],
    );
}

#[test]
fn applier_s46_fields_that_servers_write_are_not_compared() {
    check(
        json!({"metadata": {"name": "a", "namespace": "n", "generateName": "g", "labels": {"app.kubernetes.io/version": "1"}}}),
        json!({"status": {"x": 1}, "metadata": {
            "name": "b", "uid": "u", "resourceVersion": "4", "generation": 3, "creationTimestamp": "t", "selfLink": "/",
            "deletionTimestamp": "t", "deletionGracePeriodSeconds": 1, "finalizers": ["f"], "managedFields": [{}],
            "ownerReferences": [{}], "annotations": {"kubernetes-fleet.io/spec-hash": "h", "node.k8s.io/x": "y"},
            "labels": {"app.kubernetes.io/version": "2"},
        }}),
        expect![""],
    );
    check(
        json!({"spec": {"template": {"metadata": {"creationTimestamp": null, "labels": {"app.kubernetes.io/version": "1"}}}}}),
        json!({"spec": {"template": {"metadata": {"labels": {"app.kubernetes.io/version": "2"}}}}}),
        expect![[r#"
            /spec/template/metadata/labels/app.kubernetes.io~1version member="2" hub="1"
        "#]],
    );
}

#[test]
fn keys_are_escaped_as_in_json_pointers() {
    check(
        json!({"metadata": {"annotations": {"example.com/k": "v"}}, "a~b": {"": 1}}),
        json!({"metadata": {}, "a~b": {"": 2}}),
        expect![[r#"
            /a~0b/ member="2" hub="1"
            /metadata/annotations/example.com~1k member="" hub="v"
        "#]],
    );
}

#[test]
fn applier_s45_values_of_secrets_are_not_shown() {
    let secret = |data: Value| json!({"apiVersion": "v1", "kind": "Secret", "data": data});
    let mut live = secret(json!({"k": "bmV3", "fooStr": "YQ=="}));
    live["type"] = json!("Opaque");
    check(
        secret(json!({"k": "b2xk"})),
        live,
        expect![[r#"
            /data/fooStr member="(redacted for security reasons)" hub=""
            /data/k member="(redacted for security reasons)" hub="(redacted for security reasons)"
            /type member="Opaque" hub=""
        "#]],
    );
    check(
        json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "x", "e": ""}}),
        json!({"apiVersion": "v1", "kind": "Secret", "data": {}}),
        expect![[r#"
            /data member="(redacted for security reasons)" hub=""
            /stringData member="" hub="(redacted for security reasons)"
        "#]],
    );
}

#[test]
fn applier_s44_values_of_config_maps_are_shown() {
    let map = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": value}});
    check(
        map("hub"),
        map("member"),
        expect![[r#"
        /data/k member="member" hub="hub"
    "#]],
    );
}

#[test]
fn applier_s57_the_first_hundred_differences_are_kept() {
    let many = |value: u8| json!({"data": (0..150).map(|n| (format!("k{n:03}"), json!(value))).collect::<serde_json::Map<_, _>>()});
    let details = differences(&many(1), &many(2));
    assert_eq!(details.len(), MAX_DETAILS);
    assert_eq!(details[99].path, "/data/k099");
    let longer = json!({"l": vec![1; 150]});
    assert_eq!(differences(&longer, &json!({"l": []})).len(), MAX_DETAILS);
    assert_eq!(differences(&json!({"l": []}), &longer).len(), MAX_DETAILS);
}

#[test]
fn numbers_are_compared_as_doubles() {
    check(json!({"n": [1, 9_007_199_254_740_993_i64]}), json!({"n": [1.0, 9_007_199_254_740_992_i64]}), expect![""]);
    check(
        json!({"n": 1}),
        json!({"n": "1"}),
        expect![[r#"
        /n member="1" hub="1"
    "#]],
    );
}

#[test]
fn an_absent_object_is_one_entry() {
    expect![[r#"
        / member="" hub="(the whole object)"
    "#]]
    .assert_eq(&shown(&[whole_object_missing()]));
}

#[test]
fn a_large_element_is_not_copied_per_difference() {
    let mut elements = vec![json!("x".repeat(1_000_000)); 2];
    elements.extend(vec![json!(0); 200]);
    let details = differences(&json!({"l": elements}), &json!({"l": [1]}));
    let bytes: usize = details.iter().map(|detail| detail.value_in_hub.len()).sum();
    assert_eq!(details.len(), MAX_DETAILS);
    assert!(bytes <= MAX_VALUE_BYTES + MAX_DETAILS * OMITTED.len(), "{bytes}");
    assert_eq!(details[1].value_in_hub, OMITTED);
    let long_key = |value: u8| json!({"k".repeat(1_000_000): (0..100).map(|n| (format!("{n}"), json!(value))).collect::<serde_json::Map<_, _>>()});
    assert!(differences(&long_key(1), &long_key(2)).len() <= 2);
}

/// Applies the RFC 6902 operation of a difference to the source.
fn follow(document: &mut Value, difference: &Difference<'_>) {
    let Some((parent, step)) = difference.path.rsplit_once('/') else {
        *document = difference.target.cloned().unwrap();
        return;
    };
    let step = step.replace("~1", "/").replace("~0", "~");
    match (document.pointer_mut(parent).unwrap(), difference.target) {
        (Value::Object(fields), Some(value)) => _ = fields.insert(step, value.clone()),
        (Value::Object(fields), None) => _ = fields.remove(&step).unwrap(),
        (Value::Array(items), Some(value)) if step == "-" => items.push(value.clone()),
        (Value::Array(items), Some(value)) => items[step.parse::<usize>().unwrap()] = value.clone(),
        (Value::Array(items), None) => _ = items.remove(step.parse::<usize>().unwrap()),
        (other, _) => panic!("{other} has no fields"),
    }
}

proptest! {
    #[test]
    fn following_the_differences_leads_from_source_to_target(source in adversarial::value(), target in adversarial::value()) {
        let mut document = source.clone();
        for difference in Differences::between(&source, &target, usize::MAX) {
            follow(&mut document, &difference);
        }
        prop_assert!(Differences::between(&document, &target, 1).is_empty(), "{document} is not {target}");
    }

    #[test]
    fn an_object_does_not_differ_from_itself(object in adversarial::value()) {
        prop_assert_eq!(differences(&object, &object), vec![]);
    }

    #[test]
    fn any_two_documents_can_be_compared(source in adversarial::object(), target in adversarial::object()) {
        let details = differences(&source, &target);
        prop_assert!(details.len() <= MAX_DETAILS);
        let secret = source["kind"] == "Secret" && source["apiVersion"] == "v1";
        for detail in details.iter().filter(|detail| secret && detail.path.starts_with("/data")) {
            for value in [&detail.value_in_hub, &detail.value_in_member] {
                prop_assert!(value.is_empty() || value == REDACTED);
            }
        }
    }
}
