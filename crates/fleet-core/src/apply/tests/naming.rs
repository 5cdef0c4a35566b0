//! Identifiers of manifests, and the order in which they are applied.

use expect_test::{Expect, expect};
use fleet_api::types::EmbeddedObject;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::apply::adversarial;
use crate::apply::apply_order::{batch_of, batches};
use crate::apply::decode::{Served, decode};

pub(super) fn served(group: &str, version: &str, kind: &str) -> Option<Served> {
    let resource = match (group, version, kind) {
        ("", "v1", "Namespace") => return Some(Served { resource: "namespaces".into(), namespaced: false }),
        ("", "v1", "ConfigMap") => "configmaps",
        ("", "v1", "Service") => "services",
        ("apps", "v1", "Deployment") => "deployments",
        ("rbac.authorization.k8s.io", "v1", "Role") => "roles",
        ("example.com", "v1" | "v2", "Widget") => "widgets",
        _ => return None,
    };
    Some(Served { resource: resource.into(), namespaced: true })
}

fn manifests(values: &[Value]) -> Vec<EmbeddedObject> {
    values.iter().cloned().map(EmbeddedObject).collect()
}

fn check(values: &[Value], expected: Expect) {
    let manifests = manifests(values);
    let line = |manifest: &crate::apply::decode::Manifest<'_>| {
        let identifier = serde_json::to_string(&manifest.identifier).unwrap();
        let verdict = match &manifest.verdict {
            Ok(_) => "ok".to_owned(),
            Err(refusal) => format!("{}: {refusal}", refusal.reason()),
        };
        format!("{identifier}\n    {verdict}\n")
    };
    expected.assert_eq(&decode(&manifests, &served).iter().map(line).collect::<String>());
}

fn named(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "app"}})
}

#[test]
fn applier_s10_an_invalid_manifest_does_not_affect_others() {
    check(
        &[
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app"}}),
            named("ConfigMap", "cm"),
            json!({"apiVersion": "v10", "kind": "MalformedObj", "metadata": {"name": "x"}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x", "namespace": "app"}}),
            named("ConfigMap", "cm"),
        ],
        expect![[r#"
            {"ordinal":0,"version":"v1","kind":"Namespace","resource":"namespaces","name":"app"}
                ok
            {"ordinal":1,"version":"v1","kind":"ConfigMap","resource":"configmaps","namespace":"app","name":"cm"}
                ok
            {"ordinal":2,"version":"v10","kind":"MalformedObj","name":"x"}
                DecodingErred: failed to decode manifest: failed to find GVR from member cluster client REST mapping: no matches for kind "MalformedObj" in version "v10"
            {"ordinal":3,"version":"v1","kind":"ConfigMap","resource":"configmaps","namespace":"app"}
                FoundGenerateName: objects with only generate name are not supported
            {"ordinal":4,"version":"v1","kind":"ConfigMap","resource":"configmaps","namespace":"app","name":"cm"}
                Duplicated: a duplicate manifest has been found
        "#]],
    );
}

#[test]
fn two_versions_of_one_object_are_no_duplicate_and_generate_name_with_a_name_is_valid() {
    check(
        &[
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "n"}}),
            json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "a", "namespace": "n"}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "generateName": "b", "namespace": "n"}}),
        ],
        expect![[r#"
            {"ordinal":0,"group":"example.com","version":"v1","kind":"Widget","resource":"widgets","namespace":"n","name":"a"}
                ok
            {"ordinal":1,"group":"example.com","version":"v2","kind":"Widget","resource":"widgets","namespace":"n","name":"a"}
                ok
            {"ordinal":2,"version":"v1","kind":"ConfigMap","resource":"configmaps","namespace":"n","name":"a"}
                ok
        "#]],
    );
}

#[test]
fn manifests_without_a_kind_or_a_served_scope_are_not_applied() {
    check(
        &[
            json!("text"),
            json!({"metadata": {"name": "x"}}),
            json!({"apiVersion": "a/b/c", "kind": "ConfigMap"}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": []}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x", "namespace": "y"}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "y"}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "..", "name": "kube-system"}}),
        ],
        expect![[r#"
            {"ordinal":0}
                DecodingErred: failed to decode manifest: failed to unmarshal JSON: it is not an object
            {"ordinal":1}
                DecodingErred: failed to decode manifest: failed to unmarshal JSON: Object 'Kind' is missing
            {"ordinal":2}
                DecodingErred: failed to decode manifest: failed to unmarshal JSON: unexpected GroupVersion string: a/b/c
            {"ordinal":3}
                DecodingErred: failed to decode manifest: failed to unmarshal JSON: metadata is not an object
            {"ordinal":4,"version":"v1","kind":"ConfigMap","resource":"configmaps","name":"x"}
                ManifestApplyFailed: failed to apply the manifest: failed to create manifest object: an object of this kind needs a namespace
            {"ordinal":5,"version":"v1","kind":"Namespace","resource":"namespaces","namespace":"y","name":"x"}
                ManifestApplyFailed: failed to apply the manifest: failed to create manifest object: an object of this kind does not live in a namespace
            {"ordinal":6,"version":"v1","kind":"ConfigMap","resource":"configmaps","namespace":"y"}
                ManifestApplyFailed: failed to apply the manifest: failed to create manifest object: the object has no name
            {"ordinal":7,"version":"v1","kind":"ConfigMap","resource":"configmaps","namespace":"..","name":"kube-system"}
                ManifestApplyFailed: failed to apply the manifest: failed to create manifest object: the name may not be '.' or '..'
        "#]],
    );
}

#[test]
fn applier_s12_dependencies_are_applied_first() {
    let wave = |text: &str| {
        let (group, resource) = text.split_once('/').unwrap();
        batch_of(group, resource)
    };
    for (wanted, resources) in [
        (0, "/namespaces scheduling.k8s.io/priorityclasses"),
        (1, "/configmaps /secrets apiextensions.k8s.io/customresourcedefinitions networking.k8s.io/ingressclasses"),
        (2, "rbac.authorization.k8s.io/roles rbac.authorization.k8s.io/clusterroles"),
        (3, "rbac.authorization.k8s.io/rolebindings"),
        (4, "/services apps/deployments batch/jobs networking.k8s.io/ingresses apps/services"),
        (5, "apiregistration.k8s.io/apiservices admissionregistration.k8s.io/validatingwebhookconfigurations"),
        (999, "example.com/widgets example.com/deployments /endpoints coordination.k8s.io/leases"),
    ] {
        for resource in resources.split(' ') {
            assert_eq!(wave(resource), wanted, "{resource}");
        }
    }
    let values = [
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "n"}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "n"}}),
        json!({"apiVersion": "v1", "kind": "Unknown", "metadata": {"name": "a", "namespace": "n"}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "n"}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}),
    ];
    let manifests = manifests(&values);
    assert_eq!(batches(&decode(&manifests, &served)), [vec![4], vec![1, 3], vec![0]]);
}

proptest! {
    #[test]
    fn any_manifest_can_be_decoded(objects in prop::collection::vec(adversarial::object(), 0..8)) {
        let manifests = manifests(&objects);
        let decoded = decode(&manifests, &|_: &str, _: &str, _: &str| {
            Some(Served { resource: "things".to_owned(), namespaced: true })
        });
        prop_assert_eq!(decoded.len(), manifests.len());
        let in_batches: usize = batches(&decoded).iter().map(Vec::len).sum();
        prop_assert_eq!(in_batches, decoded.iter().filter(|one| one.verdict.is_ok()).count());
    }
}
