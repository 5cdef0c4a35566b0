//! Which placements a changed object may concern, without asking all of them.
//!
//! Decides under which words a placement is found in its cache (`by::INTEREST`), and by which words of an object. The words
//! are generous; `fleet_core::placement::Changed` has the last say. Never selects.

use fleet_api::kinds::{Obj, Placement, Scope};
use fleet_api::types::SelectionScope;
use fleet_core::placement::Kind;

/// In place of a namespace: none. No namespace is called so.
const NOWHERE: &str = "-";
/// In place of a name: any.
const ANY: &str = "*";

/// The words under which a placement is found.
pub(crate) fn interests<S: Scope>(placement: &Obj<Placement, S>) -> Vec<String> {
    let own = placement.metadata.namespace.as_deref();
    let mut words = Vec::new();
    for term in &placement.spec.resource_selectors {
        let name = Some(term.name.as_str()).filter(|name| !name.is_empty()).unwrap_or(ANY);
        words.push(object_word(own, &term.group, &term.version, &term.kind, name));
        if own.is_none() && term.is_namespace() && term.selection_scope() != SelectionScope::NamespaceOnly {
            words.push(inside_word(name));
        }
    }
    words.sort_unstable();
    words.dedup();
    words
}

/// The words by which placements of a scope that an object concerns are found.
pub(super) fn words_of<S: Scope>(kind: &Kind, namespace: &str, name: &str) -> Vec<String> {
    let own = (S::KIND == fleet_api::kinds::ScopeKind::Namespaced).then_some(namespace);
    let mut words: Vec<_> =
        [name, ANY].map(|name| object_word(own, &kind.group, &kind.version, &kind.kind, name)).into();
    if own.is_none() && !namespace.is_empty() {
        words.extend([namespace, ANY].map(inside_word));
    }
    words
}

fn object_word(own: Option<&str>, group: &str, version: &str, kind: &str, name: &str) -> String {
    format!("{} {group}/{version}/{kind} {name}", own.unwrap_or(NOWHERE))
}

fn inside_word(namespace: &str) -> String {
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
    fn placements_are_found_by_what_they_select() {
        let selectors = json!([
            {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"},
            {"group": "", "version": "v1", "kind": "Namespace", "name": "bare", "selectionScope": "NamespaceOnly"},
            {"group": "", "version": "v1", "kind": "Namespace", "labelSelector": {"matchLabels": {"a": "b"}}},
            {"group": "r.io", "version": "v1", "kind": "ClusterRole", "name": "*"},
        ]);
        check(
            interests(&placement::<Cluster>(None, selectors)),
            expect![[r#"
                - /v1/Namespace *
                - /v1/Namespace bare
                - /v1/Namespace shop
                - r.io/v1/ClusterRole *
                inside *
                inside shop"#]],
        );
        let selectors = json!([{"group": "", "version": "v1", "kind": "ConfigMap"}]);
        check(interests(&placement::<Namespaced>(Some("shop"), selectors)), expect!["shop /v1/ConfigMap *"]);
    }

    #[test]
    fn an_object_asks_for_its_kind_its_name_and_its_namespace() {
        check(
            words_of::<Cluster>(&kind("ConfigMap", true), "shop", "settings"),
            expect![[r#"
                - /v1/ConfigMap settings
                - /v1/ConfigMap *
                inside shop
                inside *"#]],
        );
        check(
            words_of::<Namespaced>(&kind("ConfigMap", true), "shop", "settings"),
            expect![[r#"
                shop /v1/ConfigMap settings
                shop /v1/ConfigMap *"#]],
        );
        check(
            words_of::<Cluster>(&kind("Namespace", false), "", "shop"),
            expect![[r#"
                - /v1/Namespace shop
                - /v1/Namespace *"#]],
        );
    }
}
