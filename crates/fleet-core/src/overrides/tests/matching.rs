//! Which overrides match which placement, resource and cluster.

use expect_test::{Expect, expect};
use fleet_api::names::PlacementKey;
use fleet_api::types::EmbeddedObject;
use fleet_api::well_known::{label_values, labels};

use super::fixture::{
    KnownKinds, Member, Overrides, WithoutNamespaces, annotate, bare, envelope, labelled, on_settings, on_shop,
    resource,
};
use crate::overrides::{Candidates, Matched, Pins, Scopes};

fn pins(placement: &str, resources: &[EmbeddedObject], overrides: &Overrides, member: &str) -> Pins {
    let placement = PlacementKey::parse(placement).unwrap();
    let candidates = Candidates::of(resources, &KnownKinds);
    let mut facts = overrides.facts();
    let pins = Matched::new(&placement, &candidates, facts.clone()).pins(&Member::parse(member).target());
    facts.reverse();
    let reversed = Matched::new(&placement, &candidates, facts);
    assert_eq!(reversed.pins(&Member::parse(member).target()), pins, "the order of facts does not matter");
    if reversed.is_empty() {
        assert_eq!(pins, Pins::default());
    }
    pins
}

fn text(pins: &Pins) -> String {
    let namespaced = pins.overrides.iter().map(|one| format!("{}/{}", one.namespace, one.name));
    pins.cluster_overrides.iter().cloned().chain(namespaced).collect::<Vec<_>>().join(" ")
}

fn check(placement: &str, resources: &[EmbeddedObject], overrides: &Overrides, expected: Expect) {
    expected.assert_eq(&text(&pins(placement, resources, overrides, "c1 region=eu")));
}

/// With a reference to a placement, such as `{name: web}`.
fn referring(text: &str, reference: &str) -> String {
    text.replacen('{', &format!("{{placement: {reference}, "), 1)
}

fn for_any() -> String {
    annotate("a", "b")
}

#[test]
fn placement_62_a_namespace_selects_everything_in_it() {
    let overrides = Overrides::default().cro("a-0", &referring(&on_shop(&for_any()), "{name: web}"));
    check("web", &[bare("Namespace shop")], &overrides, expect!["a-0"]);
    check("web", &[bare("ConfigMap shop/settings")], &overrides, expect!["a-0"]);
    check("web", &[bare("Namespace bank"), bare("ConfigMap bank/settings")], &overrides, expect![""]);
}

#[test]
fn placement_71_an_override_for_another_placement_does_not_match() {
    let content = [bare("Namespace shop"), bare("ConfigMap shop/settings")];
    let overrides = Overrides::default()
        .cro("other-0", &referring(&on_shop(&for_any()), "{name: other}"))
        .ro("shop/namespaced-0", &referring(&on_settings(&for_any()), "{name: web, scope: Namespaced}"))
        .ro("shop/cluster-0", &referring(&on_settings(&for_any()), "{name: web, scope: Cluster}"))
        .ro("shop/default-0", &referring(&on_settings(&for_any()), "{name: web}"));
    check("web", &content, &overrides, expect!["shop/cluster-0 shop/default-0"]);
    check("shop/web", &content, &overrides, expect!["shop/namespaced-0"]);
    check("bank/web", &content, &overrides, expect![""]);
}

#[test]
fn placement_72_a_namespace_only_selection_matches_only_namespace_overrides() {
    let overrides = Overrides::default().cro("a-0", &on_shop(&for_any())).ro("shop/b-0", &on_settings(&for_any()));
    check("web", &[bare("Namespace shop")], &overrides, expect!["a-0"]);
    check("web", &[bare("Namespace shop"), bare("ConfigMap shop/settings")], &overrides, expect!["a-0 shop/b-0"]);
}

#[test]
fn placement_73_a_cluster_can_be_selected_by_its_name() {
    let rule =
        format!("{{clusterSelector: {}, overrideType: Delete}}", labelled("kubernetes-fleet.io/member-name", "c1"));
    let overrides = Overrides::default().cro("a-0", &on_shop(&rule));
    let on = |member: &str| text(&pins("web", &[bare("Namespace shop")], &overrides, member));
    assert_eq!(on("c1 kubernetes-fleet.io/member-name=c1"), "a-0");
    assert_eq!(on("c2 kubernetes-fleet.io/member-name=c2"), "");
}

#[test]
fn placement_76_a_namespace_override_without_a_reference_matches_resource_placements() {
    let overrides = Overrides::default()
        .cro("free-0", &on_shop(&for_any()))
        .cro("bound-0", &referring(&on_shop(&for_any()), "{name: web}"));
    check("shop/web", &[bare("ConfigMap shop/settings")], &overrides, expect!["free-0"]);
}

#[test]
fn an_override_is_pinned_only_for_clusters_that_a_rule_selects() {
    let on = |selector: &str, member: &str| {
        let rule = format!("{{clusterSelector: {selector}, overrideType: Delete}}");
        let overrides = Overrides::default().cro("a-0", &on_shop(&rule));
        !pins("web", &[bare("Namespace shop")], &overrides, member).cluster_overrides.is_empty()
    };
    assert!(!on("null", "c1"), "no selector");
    assert!(on("{clusterSelectorTerms: []}", "c1"), "no terms");
    assert!(!on("{clusterSelectorTerms: [{}]}", "c1"), "a term without labels");
    assert!(on("{clusterSelectorTerms: [{labelSelector: {}}]}", "c1"), "an empty label selector");
    assert!(on(&labelled("region", "eu"), "c1 region=eu"));
    assert!(!on(&labelled("region", "eu"), "c1 region=us"));
    let either =
        "{clusterSelectorTerms: [{labelSelector: {matchLabels: {a: '1'}}}, {labelSelector: {matchLabels: {b: '1'}}}]}";
    assert!(on(either, "c1 b=1"));
    assert!(!on(either, "c1 a=2"));
}

#[test]
fn an_override_with_an_invalid_selector_is_pinned_so_that_it_fails_visibly() {
    let rule = "{clusterSelector: {clusterSelectorTerms: [{labelSelector: {matchLabels: {'a b': c}}}]}}";
    let overrides = Overrides::default().cro("a-0", &on_shop(rule));
    check("web", &[bare("Namespace shop")], &overrides, expect!["a-0"]);
}

#[test]
fn pins_are_sorted_as_text() {
    let mut overrides = Overrides::default()
        .cro("x-9", &on_shop(&for_any()))
        .cro("x-1-0", &on_shop(&for_any()))
        .cro("w-10", &on_shop(&for_any()))
        .ro("b/y-0", &on_settings(&for_any()))
        .ro("a/z-0", &on_settings(&for_any()));
    let content = [bare("Namespace shop"), bare("ConfigMap a/settings"), bare("ConfigMap b/settings")];
    check("web", &content, &overrides, expect!["w-10 x-1-0 x-9 a/z-0 b/y-0"]);
    // If two have the latest label, the higher index wins: the new snapshot is created before the old label is removed.
    overrides = overrides.cro("x-10", &on_shop(&for_any()));
    check("web", &content, &overrides, expect!["w-10 x-1-0 x-10 a/z-0 b/y-0"]);
}

#[test]
fn only_the_latest_snapshots_are_pinned() {
    let mut overrides = Overrides::default().cro("a-0", &on_shop(&for_any()));
    let marks = overrides.cluster[0].metadata.labels.as_mut().unwrap();
    marks.insert(labels::IS_LATEST_SNAPSHOT.to_owned(), label_values::FALSE.to_owned());
    check("web", &[bare("Namespace shop")], &overrides, expect![""]);
}

#[test]
fn placement_74_enveloped_resources_match_and_the_envelope_does_not() {
    let selecting = |kind: &str, group: &str, version: &str, name: &str| {
        on_settings(&for_any())
            .replace("kind: ConfigMap, name: settings", &format!("kind: {kind}, name: {name}"))
            .replace("group: '', version: v1", &format!("group: '{group}', version: {version}"))
    };
    let overrides = Overrides::default()
        .ro("shop/inside-0", &selecting("Deployment", "apps", "v1", "web"))
        .ro("shop/itself-0", &selecting("ResourceEnvelope", "placement.kubernetes-fleet.io", "v1beta1", "env"))
        .ro("bank/elsewhere-0", &selecting("Deployment", "apps", "v1", "web"))
        .cro("namespace-0", &on_shop(&for_any()));
    let content = [bare("Deployment shop/web"), bare("Deployment bank/web")];
    let wrapped = envelope("ResourceEnvelope shop/env", &content);
    check("web", std::slice::from_ref(&wrapped), &overrides, expect!["namespace-0 shop/inside-0"]);
    let mut newer = wrapped;
    newer.0["apiVersion"] = "placement.kubernetes-fleet.io/v2".into();
    check("web", &[newer], &overrides, expect!["namespace-0"]);
}

#[test]
fn cluster_scoped_content_of_an_envelope_matches_if_its_kind_is_served() {
    let on = |group: &str, kind: &str, name: &str| {
        on_shop(&for_any())
            .replace("group: '', version: v1", &format!("group: '{group}', version: v1"))
            .replace("kind: Namespace, name: shop", &format!("kind: {kind}, name: {name}"))
    };
    let overrides = Overrides::default()
        .cro("known-0", &on("rbac.authorization.k8s.io", "ClusterRole", "reader"))
        .cro("unknown-0", &on("example.com", "Gizmo", "g"))
        .cro("misplaced-0", &on_shop(&for_any()));
    let mut wrapped = envelope(
        "ClusterResourceEnvelope env",
        &[bare("ClusterRole reader"), bare("Gizmo g"), bare("ConfigMap shop/settings")],
    );
    wrapped.0["data"]["junk"] = resource("{just: a map}").0;
    wrapped.0["data"]["text"] = "not an object".into();
    check("web", &[wrapped], &overrides, expect!["known-0"]);
}

#[test]
fn pins_are_compared_with_a_binding_as_lists() {
    let pins = Pins::default();
    assert!(pins.are_on(None, None));
    assert!(pins.are_on(Some(&[]), Some(&[])));
    assert!(!pins.are_on(None, Some(&["a-0".to_owned()])));
    let pins = Pins { cluster_overrides: vec!["a-0".to_owned()], ..Pins::default() };
    assert!(pins.are_on(None, Some(&["a-0".to_owned()])));
    assert!(!pins.are_on(None, None));
}

/// A hub with a newly installed kind.
#[derive(Debug)]
struct WithGadgets;

impl Scopes for WithGadgets {
    fn is_cluster_scoped(&self, group: &str, version: &str, kind: &str) -> Option<bool> {
        if kind == "Gadget" { Some(true) } else { KnownKinds.is_cluster_scoped(group, version, kind) }
    }
}

#[test]
fn candidates_are_current_until_the_scope_of_a_kind_changes() {
    let content = |objects: &[&str]| -> Vec<_> { objects.iter().map(|text| bare(text)).collect() };
    let plain = content(&["Namespace shop", "ConfigMap shop/settings", "Gadget shop/lamp"]);
    let candidates = Candidates::of(&plain, &KnownKinds);
    assert!(candidates.are_current(&WithGadgets), "one with a namespace is no question of scope");
    for resources in
        [content(&["Gadget lamp"]), vec![envelope("ClusterResourceEnvelope box", &content(&["Gadget lamp"]))]]
    {
        let candidates = Candidates::of(&resources, &KnownKinds);
        assert!(candidates.are_current(&KnownKinds));
        assert!(!candidates.are_current(&WithGadgets), "installed");
        let candidates = Candidates::of(&resources, &WithGadgets);
        assert!(candidates.are_current(&WithGadgets));
        assert!(!candidates.are_current(&KnownKinds), "removed");
    }
}

#[test]
fn candidates_are_unknown_while_the_scope_of_a_kind_is_undiscovered() {
    let resources = [bare("Namespace shop"), bare("ConfigMap shop/settings")];
    let candidates = Candidates::of(&resources, &WithoutNamespaces);
    assert_eq!(candidates.undiscovered_kind().as_deref(), Some("v1, Kind=Namespace"));
    assert!(!candidates.are_current(&KnownKinds), "discovered by now");
    assert_eq!(Candidates::of(&resources, &KnownKinds).undiscovered_kind(), None);
    assert_eq!(Candidates::of(&resources[1..], &WithoutNamespaces).undiscovered_kind(), None);
}
