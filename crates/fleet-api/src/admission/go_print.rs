//! Prints objects in messages as Go prints structures: `{Field:value Other:value}`.
//!
//! Where Go prints a memory address (a property selector or sorter), the content is printed instead.

use kube::core::GroupVersionKind;

use crate::types::{
    ClusterSelectorTerm, JsonPatchOverride, LabelSelector, LabelSelectorRequirement, ResourceSelector,
    ResourceSelectorTerm, Taint, Toleration,
};

pub fn resource_selector_term(term: &ResourceSelectorTerm) -> String {
    format!(
        "{{Group:{} Version:{} Kind:{} Name:{} LabelSelector:{} SelectionScope:{}}}",
        term.group,
        term.version,
        term.kind,
        term.name,
        label_selector(term.label_selector.as_ref()),
        term.selection_scope.map_or("", |scope| scope.as_str()),
    )
}

/// The selector of a ResourceOverride.
pub fn resource_selector(selector: &ResourceSelector) -> String {
    let ResourceSelector { group, version, kind, name } = selector;
    format!("{{Group:{group} Version:{version} Kind:{kind} Name:{name}}}")
}

pub fn label_selector(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let labels: Vec<String> = selector.match_labels.iter().map(|(key, value)| format!("{key}: {value},")).collect();
    let expressions: Vec<String> = selector.match_expressions.iter().map(label_requirement).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},MatchExpressions:[]LabelSelectorRequirement{{{}}},}}",
        labels.concat(),
        expressions.concat(),
    )
}

fn label_requirement(requirement: &LabelSelectorRequirement) -> String {
    let LabelSelectorRequirement { key, operator, values } = requirement;
    format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{}],}},", values.join(" "))
}

pub fn cluster_selector_term(term: &ClusterSelectorTerm) -> String {
    let selector = term.property_selector.as_ref().map_or_else(nil, |selector| {
        let expressions: Vec<String> = selector
            .match_expressions
            .iter()
            .map(|one| format!("{{Name:{} Operator:{} Values:[{}]}}", one.name, one.operator, one.values.join(" ")))
            .collect();
        format!("&{{MatchExpressions:[{}]}}", expressions.join(" "))
    });
    let sorter = term
        .property_sorter
        .as_ref()
        .map_or_else(nil, |sorter| format!("&{{Name:{} SortOrder:{}}}", sorter.name, sorter.sort_order));
    let labels = label_selector(term.label_selector.as_ref());
    format!("{{LabelSelector:{labels} PropertySelector:{selector} PropertySorter:{sorter}}}")
}

fn nil() -> String {
    "<nil>".to_owned()
}

pub fn toleration(toleration: &Toleration) -> String {
    let operator = toleration.operator.map_or("", |operator| operator.as_str());
    let effect = toleration.effect.map_or("", |effect| effect.as_str());
    format!("{{Key:{} Operator:{operator} Value:{} Effect:{effect}}}", toleration.key, toleration.value)
}

pub fn taint(taint: &Taint) -> String {
    format!("{{Key:{} Value:{} Effect:{}}}", taint.key, taint.value, taint.effect)
}

pub fn json_patch(patch: &JsonPatchOverride) -> String {
    let value = patch_value(patch).map(ToString::to_string).unwrap_or_default();
    format!("{{{} {} {{{value}}}}}", patch.op.as_str(), patch.path)
}

/// The value of a patch; an explicit null counts as absent, as in Go.
pub fn patch_value(patch: &JsonPatchOverride) -> Option<&serde_json::Value> {
    patch.value.as_ref().filter(|value| !value.is_null())
}

pub fn group_version_kind(kind: &GroupVersionKind) -> String {
    format!("{}/{}, Kind={}", kind.group, kind.version, kind.kind)
}

/// A list of texts, `[a b c]`.
pub fn list<S: AsRef<str>>(texts: &[S]) -> String {
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    format!("[{}]", texts.join(" "))
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests {
    use expect_test::{Expect, expect};
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn check<T: DeserializeOwned>(print: impl Fn(&T) -> String, object: Value, expected: Expect) {
        expected.assert_eq(&print(&serde_json::from_value(object).unwrap()));
    }

    #[test]
    fn resource_selectors() {
        let given = json!({"group": "apps", "version": "v1", "kind": "Deployment", "name": "web", "selectionScope": "NamespaceOnly"});
        check(
            resource_selector_term,
            given,
            expect!["{Group:apps Version:v1 Kind:Deployment Name:web LabelSelector:nil SelectionScope:NamespaceOnly}"],
        );
        let given =
            json!({"group": "", "version": "v1", "kind": "Namespace", "labelSelector": {"matchLabels": {"a": "b"}}});
        check(
            resource_selector_term,
            given,
            expect![
                "{Group: Version:v1 Kind:Namespace Name: LabelSelector:&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},} SelectionScope:}"
            ],
        );
        let given = json!({"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"});
        check(resource_selector, given, expect!["{Group:apps Version:v1 Kind:Deployment Name:web}"]);
    }

    #[test]
    fn label_selectors() {
        let given =
            json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["x"]}]});
        check(
            |selector| label_selector(Some(selector)),
            given,
            expect![
                "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[x],},},}"
            ],
        );
        let given = json!({"matchLabels": {"c": "d", "a": "b"}, "matchExpressions": [
            {"key": "j", "operator": "Exists"}, {"key": "k", "operator": "NotIn", "values": ["x", "y"]},
        ]});
        check(
            |selector| label_selector(Some(selector)),
            given,
            expect![
                "&LabelSelector{MatchLabels:map[string]string{a: b,c: d,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:j,Operator:Exists,Values:[],},LabelSelectorRequirement{Key:k,Operator:NotIn,Values:[x y],},},}"
            ],
        );
        assert_eq!(label_selector(None), "nil");
    }

    #[test]
    fn cluster_selector_terms() {
        check(
            cluster_selector_term,
            json!({}),
            expect!["{LabelSelector:nil PropertySelector:<nil> PropertySorter:<nil>}"],
        );
        let given = json!({
            "propertySelector": {"matchExpressions": [{"name": "n", "operator": "Gt", "values": ["1"]}]},
            "propertySorter": {"name": "n", "sortOrder": "Ascending"},
        });
        check(
            cluster_selector_term,
            given,
            expect![
                "{LabelSelector:nil PropertySelector:&{MatchExpressions:[{Name:n Operator:Gt Values:[1]}]} PropertySorter:&{Name:n SortOrder:Ascending}}"
            ],
        );
    }

    #[test]
    fn tolerations_and_taints() {
        let given = json!({"key": "k", "operator": "Exists", "value": "v", "effect": "NoSchedule"});
        check(toleration, given, expect!["{Key:k Operator:Exists Value:v Effect:NoSchedule}"]);
        check(toleration, json!({}), expect!["{Key: Operator: Value: Effect:}"]);
        let given = json!({"key": "k", "value": "v", "effect": "NoSchedule"});
        check(taint, given, expect!["{Key:k Value:v Effect:NoSchedule}"]);
    }

    #[test]
    fn patches() {
        check(json_patch, json!({"op": "remove", "path": "/kind"}), expect!["{remove /kind {}}"]);
        check(json_patch, json!({"op": "remove", "path": "/kind", "value": null}), expect!["{remove /kind {}}"]);
        check(json_patch, json!({"op": "add", "path": "/kind", "value": "v"}), expect![[r#"{add /kind {"v"}}"#]]);
        check(
            json_patch,
            json!({"op": "replace", "path": "/a", "value": {"b": [1]}}),
            expect![[r#"{replace /a {{"b":[1]}}}"#]],
        );
    }

    #[test]
    fn kinds_and_lists() {
        assert_eq!(group_version_kind(&GroupVersionKind::gvk("apps", "v1", "Deployment")), "apps/v1, Kind=Deployment");
        assert_eq!(group_version_kind(&GroupVersionKind::gvk("", "v1", "Pod")), "/v1, Kind=Pod");
        assert_eq!(list(&["a", "b"]), "[a b]");
    }
}
