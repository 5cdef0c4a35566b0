//! Which placements a changed object affects.

use fleet_api::kinds::Scope;

use super::fixture::{ClusterFixture, Fixture, NamespacedFixture, SHOP};
use super::hub::Hub;
use crate::placement::{ChangedObject, LiveObject};

const HUB: &str = "
    Namespace shop team=a
    ConfigMap shop/cm team=a
    Namespace bank
    ConfigMap bank/cm
    ClusterRole reader
    Namespace kube-system";

/// Whether the object of this line affects the placement after it has settled; `-` before it means deleted.
fn concerns<S: Scope>(fixture: &Fixture<S>, line: &str) -> bool {
    let (line, gone) = line.strip_prefix('-').map_or((line, false), |line| (line, true));
    let changed = Hub::parse(line);
    let (kind, object) = &changed.objects[0];
    let object = LiveObject(object);
    let mut hub = fixture.hub.clone();
    if gone {
        hub.remove(line);
    } else {
        hub.set(line);
    }
    let changed =
        ChangedObject { kind, namespace: object.namespace(), name: object.name(), live: (!gone).then_some(object) };
    changed.affects(&fixture.observe().placement, &hub, &fixture.propagation)
}

fn check<S: Scope>(mut fixture: Fixture<S>, cases: &[(&str, bool)]) {
    fixture.settle();
    for (line, expected) in cases {
        assert_eq!(concerns(&fixture, line), *expected, "{line}");
    }
}

#[test]
fn a_namespace_with_content_is_affected_by_everything_in_it() {
    check(
        ClusterFixture::new("web", HUB, SHOP),
        &[
            ("Namespace shop", true),
            ("-Namespace shop", true),
            ("ConfigMap shop/new", true),
            ("-ConfigMap shop/cm", true),
            ("-ConfigMap shop/never-seen", true),
            ("Namespace bank", false),
            ("ConfigMap bank/cm", false),
            ("ConfigMap nowhere/cm", false),
            ("ClusterRole reader", false),
            ("Pod shop/p", false),
        ],
    );
}

#[test]
fn a_namespace_only_selection_is_not_affected_by_its_content() {
    let only = SHOP.replace("name: shop", "name: shop, selectionScope: NamespaceOnly");
    check(
        ClusterFixture::new("web", HUB, &only),
        &[("Namespace shop x=y", true), ("ConfigMap shop/cm x=y", false), ("-ConfigMap shop/cm", false)],
    );
}

#[test]
fn an_object_affects_placements_by_its_labels_or_an_earlier_selection() {
    let by_label = SHOP.replace("name: shop", "labelSelector: {matchLabels: {team: a}}");
    check(
        ClusterFixture::new("web", HUB, &by_label),
        &[
            ("Namespace shop team=b", true),
            ("Namespace bank team=a", true),
            ("Namespace bank team=b", false),
            ("ConfigMap bank/cm team=a", false),
            ("-Namespace bank", false),
        ],
    );
    let roles = "{resourceSelectors: [{group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole}]}";
    check(
        ClusterFixture::new("web", HUB, roles),
        &[("ClusterRole new", true), ("-ClusterRole reader", true), ("-ClusterRole never-seen", false)],
    );
}

#[test]
fn a_namespaced_placement_is_affected_only_by_its_namespace() {
    let maps =
        "{resourceSelectors: [{group: '', version: v1, kind: ConfigMap, labelSelector: {matchLabels: {team: a}}}]}";
    check(
        NamespacedFixture::new("shop/web", HUB, maps),
        &[
            ("ConfigMap shop/new team=a", true),
            ("ConfigMap shop/new team=b", false),
            ("ConfigMap shop/cm team=b", true),
            ("-ConfigMap shop/cm", true),
            ("-ConfigMap shop/never-seen", false),
            ("ConfigMap bank/new team=a", false),
            ("ConfigMap shop/kube-root-ca.crt team=a", false),
            ("Secret shop/new team=a", false),
            ("Namespace shop", false),
        ],
    );
}

#[test]
fn reserved_namespaces_affect_only_their_own_placements() {
    let maps = "{resourceSelectors: [{group: '', version: v1, kind: ConfigMap}]}";
    check(NamespacedFixture::new("default/web", "Namespace default", maps), &[("ConfigMap default/new", true)]);
    let by_scope = SHOP.replace("name: shop", "name: default, selectionScope: NamespaceWithResources");
    check(ClusterFixture::new("web", "Namespace default", &by_scope), &[("ConfigMap default/new", false)]);
}
