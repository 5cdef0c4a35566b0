//! Index keys that find the placements that a changed object may affect, without checking all of them.
//!
//! The index may return too many placements; `fleet_core::placement::ChangedObject` decides.

use fleet_api::kinds::{Obj, Placement, Scope};
use fleet_api::types::SelectionScope;
use fleet_core::placement::Kind;

/// Stands for "no namespace"; no namespace can have this name.
const NOWHERE: &str = "-";
/// Stands for any name.
const ANY: &str = "*";

/// The index keys of a placement.
pub(crate) fn selector_index_keys<S: Scope>(placement: &Obj<Placement, S>) -> Vec<String> {
    let own = placement.metadata.namespace.as_deref();
    let mut words = Vec::new();
    for term in &placement.spec.resource_selectors {
        let name = Some(term.name.as_str()).filter(|name| !name.is_empty()).unwrap_or(ANY);
        words.push(object_key_text(own, &term.group, &term.version, &term.kind, name));
        if own.is_none() && term.is_namespace() && term.selection_scope() != SelectionScope::NamespaceOnly {
            words.push(inside_key_text(name));
        }
    }
    words.sort_unstable();
    words.dedup();
    words
}

/// The index keys to look up for an object.
pub(super) fn index_keys_of<S: Scope>(kind: &Kind, namespace: &str, name: &str) -> Vec<String> {
    let own = (S::KIND == fleet_api::kinds::ScopeKind::Namespaced).then_some(namespace);
    let mut words: Vec<_> =
        [name, ANY].map(|name| object_key_text(own, &kind.group, &kind.version, &kind.kind, name)).into();
    if own.is_none() && !namespace.is_empty() {
        words.extend([namespace, ANY].map(inside_key_text));
    }
    words
}

fn object_key_text(own: Option<&str>, group: &str, version: &str, kind: &str, name: &str) -> String {
    format!("{} {group}/{version}/{kind} {name}", own.unwrap_or(NOWHERE))
}

fn inside_key_text(namespace: &str) -> String {
    format!("inside {namespace}")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use fleet_api::kinds::{Cluster, Namespaced};
    use serde_json::json;

    use super::*;

    fn placement<S: Scope>(namespace: Option<&str>, selectors: serde_json::Value) -> Obj<Placement, S> {
        let spec = serde_json::from_value(json!({"resourceSelectors": selectors})).unwrap();
        let mut placement = Obj::named("web", spec);
        placement.metadata.namespace = namespace.map(str::to_owned);
        placement
    }

    fn kind(kind: &str, namespaced: bool) -> Kind {
        let words = [String::new(), "v1".to_owned(), kind.to_owned(), String::new()];
        let [group, version, kind, plural] = words;
        Kind { group, version, kind, plural, namespaced, preferred: true }
    }

    fn check(found: Vec<String>, expected: Expect) {
        expected.assert_eq(&found.join("\n"));
    }

    #[test]
    fn placements_are_found_by_their_selectors() {
        let selectors = json!([
            {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"},
            {"group": "", "version": "v1", "kind": "Namespace", "name": "bare", "selectionScope": "NamespaceOnly"},
            {"group": "", "version": "v1", "kind": "Namespace", "labelSelector": {"matchLabels": {"a": "b"}}},
            {"group": "r.io", "version": "v1", "kind": "ClusterRole", "name": "*"},
        ]);
        check(
            selector_index_keys(&placement::<Cluster>(None, selectors)),
            expect![[r#"
                - /v1/Namespace *
                - /v1/Namespace bare
                - /v1/Namespace shop
                - r.io/v1/ClusterRole *
                inside *
                inside shop"#]],
        );
        let selectors = json!([{"group": "", "version": "v1", "kind": "ConfigMap"}]);
        check(selector_index_keys(&placement::<Namespaced>(Some("shop"), selectors)), expect!["shop /v1/ConfigMap *"]);
    }

    #[test]
    fn an_object_is_looked_up_by_kind_name_and_namespace() {
        check(
            index_keys_of::<Cluster>(&kind("ConfigMap", true), "shop", "settings"),
            expect![[r#"
                - /v1/ConfigMap settings
                - /v1/ConfigMap *
                inside shop
                inside *"#]],
        );
        check(
            index_keys_of::<Namespaced>(&kind("ConfigMap", true), "shop", "settings"),
            expect![[r#"
                shop /v1/ConfigMap settings
                shop /v1/ConfigMap *"#]],
        );
        check(
            index_keys_of::<Cluster>(&kind("Namespace", false), "", "shop"),
            expect![[r#"
                - /v1/Namespace shop
                - /v1/Namespace *"#]],
        );
    }
}
