//! What selectors select, and the errors of invalid ones.

use expect_test::{Expect, expect};
use fleet_api::names::PlacementKey;

use super::fixture::spec;
use super::hub::Hub;
use super::render::resources_text;
use crate::placement::{Propagation, Selected, SelectionError, select};

const HUB: &str = "
    Namespace shop team=a
    ConfigMap shop/settings team=a
    ConfigMap shop/kube-root-ca.crt
    Namespace bank team=b
    ConfigMap bank/rates
    Namespace closing team=c deleting
    ConfigMap closing/left
    Namespace kube-system
    ClusterRole reader
    ClusterRole writer deleting";

/// Selectors in YAML, without the list around them.
fn selection(key: &str, hub: &Hub, terms: &str) -> String {
    let placement = spec(&format!("{{resourceSelectors: [{terms}]}}"));
    let key = PlacementKey::parse(key).unwrap();
    match select(&key, &placement.resource_selectors, hub, &Propagation::default()) {
        Ok(selected) => resources_text(&selected.iter().map(Selected::identifier).collect::<Vec<_>>()),
        Err(SelectionError::User(invalid)) => invalid.with_class(),
        Err(SelectionError::Incomplete { resource }) => format!("not all of {resource} is known"),
        Err(SelectionError::Undiscovered { part }) => format!("{part} does not answer"),
    }
}

fn check(key: &str, terms: &str, expected: Expect) {
    expected.assert_eq(&selection(key, &Hub::parse(HUB), terms));
}

const CONFIG_MAPS: &str = "{group: '', version: v1, kind: ConfigMap}";

#[test]
fn by_name_by_labels_or_all() {
    check("web", "{group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole}", expect!["ClusterRole reader"]);
    check(
        "web",
        "{group: '', version: v1, kind: Namespace, selectionScope: NamespaceOnly, labelSelector: {matchExpressions: [{key: team, operator: Exists}]}}",
        expect!["Namespace bank, Namespace shop"],
    );
    check(
        "web",
        "{group: '', version: v1, kind: Namespace, labelSelector: {matchLabels: {team: a}}}, {group: '', version: v1, kind: Namespace, name: bank}",
        expect!["Namespace bank, Namespace shop, ConfigMap bank/rates, ConfigMap shop/settings"],
    );
    check("web", "{group: '', version: v1, kind: Namespace, name: gone}", expect![""]);
    check("web", "{group: '', version: v1, kind: Namespace, name: closing}", expect![""]);
    check("shop/web", CONFIG_MAPS, expect!["ConfigMap shop/settings"]);
    check("shop/web", "{group: '', version: v1, kind: ConfigMap, name: rates}", expect![""]);
    check(
        "shop/web",
        "{group: '', version: v1, kind: ConfigMap, labelSelector: {matchLabels: {team: a}}}",
        expect!["ConfigMap shop/settings"],
    );
}

#[test]
fn blocked_kinds_are_skipped_even_if_the_server_does_not_serve_them() {
    check("shop/web", "{group: '', version: v1, kind: Pod}", expect![""]);
    check("web", "{group: coordination.k8s.io, version: v1, kind: Lease, name: x}", expect![""]);
    check("web", "{group: placement.kubernetes-fleet.io, version: v1beta1, kind: Work}", expect![""]);
}

#[test]
fn the_scope_must_fit_the_placement() {
    check(
        "web",
        CONFIG_MAPS,
        expect![
            "failed to process the request due to a client error: invalid placement /web: cannot select namespace-scoped resource /v1, Resource=configmaps in a clusterResourcePlacement"
        ],
    );
    check(
        "shop/web",
        "{group: '', version: v1, kind: Namespace, name: shop}",
        expect![
            "failed to process the request due to a client error: invalid placement shop/web: cannot select cluster-scoped resource Namespace in a resourcePlacement"
        ],
    );
    check(
        "shop/web",
        "{group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole, name: reader}",
        expect![
            "failed to process the request due to a client error: invalid placement shop/web: cannot select cluster-scoped resource rbac.authorization.k8s.io/v1, Resource=clusterroles in a resourcePlacement"
        ],
    );
    // The scope of a version that is not preferred is not known.
    check(
        "web",
        "{group: rbac.authorization.k8s.io, version: v1beta1, kind: ClusterRole, name: reader}",
        expect![
            "failed to process the request due to a client error: invalid placement /web: cannot select namespace-scoped resource rbac.authorization.k8s.io/v1beta1, Resource=clusterroles in a clusterResourcePlacement"
        ],
    );
}

#[test]
fn kinds_must_be_known() {
    check(
        "web",
        "{group: a.io, version: v2, kind: Ghost, name: x}",
        expect![[
            r#"failed to process the request due to a client error: invalid placement /web, failed to get GVR of the selector: no matches for kind "Ghost" in version "a.io/v2""#
        ]],
    );
    check(
        "shop/web",
        "{group: '', version: v7, kind: ConfigMap}",
        expect![[
            r#"failed to process the request due to a client error: invalid placement shop/web, failed to get GVR of the selector: no matches for kind "ConfigMap" in version "v7""#
        ]],
    );
    check(
        "web",
        "{group: '', version: v1, kind: Namespace, name: shop, selectionScope: NamespaceWithResourceSelectors}, {group: a.io, version: v2, kind: Ghost}",
        expect![[
            r#"failed to process the request due to a client error: invalid placement shop/web, failed to get GVR of the selector: no matches for kind "Ghost" in version "a.io/v2""#
        ]],
    );
}

#[test]
fn reserved_namespaces_are_refused_only_with_their_content() {
    check(
        "web",
        "{group: '', version: v1, kind: Namespace, name: fleet-none}",
        expect![
            "failed to process the request due to a client error: invalid clusterRresourcePlacement web: namespace fleet-none is not allowed to propagate"
        ],
    );
    check(
        "web",
        "{group: '', version: v1, kind: Namespace}",
        expect![
            "failed to process the request due to a client error: invalid clusterRresourcePlacement web: namespace kube-system is not allowed to propagate"
        ],
    );
    check(
        "web",
        "{group: '', version: v1, kind: Namespace, name: kube-system, selectionScope: NamespaceOnly}",
        expect!["Namespace kube-system"],
    );
    check(
        "web",
        "{group: '', version: v1, kind: Namespace, name: kube-system, selectionScope: NamespaceWithResourceSelectors}",
        expect![
            "failed to process the request due to a client error: invalid clusterResourcePlacement web: NamespaceWithResourceSelectors mode requires exactly one namespace, but no namespaces were selected"
        ],
    );
}

#[test]
fn invalid_label_selectors_are_a_user_error() {
    check(
        "shop/web",
        "{group: '', version: v1, kind: ConfigMap, labelSelector: {matchExpressions: [{key: a, operator: Is}]}}",
        expect![[
            r#"failed to process the request due to a client error: cannot convert the label selector to a selector: "Is" is not a valid label selector operator"#
        ]],
    );
}

#[test]
fn one_object_is_selected_once() {
    check(
        "shop/web",
        "{group: '', version: v1, kind: ConfigMap, name: settings}, {group: '', version: v1, kind: ConfigMap}",
        expect![
            "failed to process the request due to a client error: found duplicate resource {Group: Version:v1 Kind:ConfigMap Name:settings Namespace:shop Envelope:<nil>}"
        ],
    );
}

#[test]
fn selection_waits_for_a_complete_inventory() {
    let mut hub = Hub::parse(HUB);
    hub.incomplete.insert("Widget".to_owned());
    expect!["not all of example.com/v1, Resource=widgets is known"].assert_eq(&selection(
        "web",
        &hub,
        "{group: '', version: v1, kind: Namespace, name: shop}",
    ));
    expect!["ConfigMap shop/settings"].assert_eq(&selection("shop/web", &hub, CONFIG_MAPS));
    hub.incomplete.insert("ConfigMap".to_owned());
    expect!["not all of /v1, Resource=configmaps is known"].assert_eq(&selection("shop/web", &hub, CONFIG_MAPS));
}

#[test]
fn objects_that_controllers_create_are_not_selected() {
    let hub = Hub::parse(
        "Namespace shop
        ReplicaSet shop/made owned
        ReplicaSet shop/own
        ControllerRevision shop/made owned
        ConfigMap shop/kube-root-ca.crt
        ServiceAccount shop/default
        ServiceAccount shop/runner
        Secret shop/token type=kubernetes.io/service-account-token
        Secret shop/password type=Opaque
        Service shop/web
        Endpoints shop/web
        Endpoints shop/manual
        EndpointSlice shop/made endpointslice.kubernetes.io/managed-by=controller
        EndpointSlice shop/manual
        PersistentVolumeClaim shop/disk
        Pod shop/web-1
        Event shop/happened
        Deployment shop/web deleting
        Work shop/inner
        ResourceEnvelope shop/envelope",
    );
    expect!["Namespace shop, ServiceAccount shop/runner, Secret shop/password, PersistentVolumeClaim shop/disk, Service shop/web, ReplicaSet shop/own, Endpoints shop/manual, EndpointSlice shop/manual, ResourceEnvelope shop/envelope"].assert_eq(&selection("web", &hub, "{group: '', version: v1, kind: Namespace, name: shop}"));
}
