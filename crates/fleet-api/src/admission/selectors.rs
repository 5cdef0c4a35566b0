//! Checks the resource selectors of a placement: whether they are valid and fit its scope.

use k8s_values::Selector;
use k8s_values::go;
use kube::core::GroupVersionKind;

use super::findings::Findings;
use super::go_print;
use super::lookups::{KindLookup, Lookup};
use crate::kinds::ScopeKind;
use crate::types::{LabelSelector, ResourceSelectorTerm, SelectionScope};

/// The findings, and whether the rest of the placement is checked: an unknown kind ends the check.
pub(super) fn check(
    selectors: &[ResourceSelectorTerm],
    scope: ScopeKind,
    kinds: &dyn KindLookup,
) -> (Findings, ControlAfter) {
    let mut findings = Findings::none();
    // A namespace with selectors for its content allows namespaced kinds in a cluster-scoped placement.
    let contents_selected = selectors.iter().any(|term| {
        term.is_namespace() && term.selection_scope == Some(SelectionScope::NamespaceWithResourceSelectors)
    });
    for term in selectors {
        if let Some(labels) = &term.label_selector {
            if !term.name.is_empty() {
                let term = go_print::resource_selector_term(term);
                findings.add(format!("the labelSelector and name fields are mutually exclusive in selector {term}"));
            }
            findings.absorb(check_labels(Some(labels), "resource selector"));
        }
        let kind = GroupVersionKind::gvk(&term.group, &term.version, &term.kind);
        match (scope, kinds.scope(&kind)) {
            (_, Lookup::Unknown) => {
                findings.add(format!("failed to get GVR of the selector: {}", no_match(&kind)));
                return (findings, ControlAfter::Stop);
            }
            (_, Lookup::NotReady) => findings.add("cannot perform resource scope check for now, please retry"),
            (ScopeKind::Cluster, Lookup::Namespaced) if !contents_selected => {
                findings.add(wrong_scope("not a cluster scoped", &kind));
            }
            (ScopeKind::Namespaced, Lookup::Cluster) => findings.add(wrong_scope("a cluster scoped", &kind)),
            _ => {}
        }
    }
    (findings, ControlAfter::GoOn)
}

/// Whether validation continues after the selectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ControlAfter {
    GoOn,
    Stop,
}

/// `parent` is the field that contains the label selector.
pub(super) fn check_labels(selector: Option<&LabelSelector>, parent: &str) -> Findings {
    match Selector::new(selector) {
        Ok(_) => Findings::none(),
        Err(error) => {
            let selector = go_print::label_selector(selector);
            Findings::one(format!("the labelSelector in {parent} {selector} is invalid: {error}"))
        }
    }
}

fn wrong_scope(what: &str, kind: &GroupVersionKind) -> String {
    let kind = go_print::group_version_kind(kind);
    format!("the resource is not found in schema (please retry) or it is {what} resource: {kind}")
}

fn no_match(kind: &GroupVersionKind) -> String {
    let version = match (kind.group.as_str(), kind.version.as_str()) {
        (group, "") => {
            return format!("no matches for kind {} in group {}", go::quoted(&kind.kind), go::quoted(group));
        }
        ("", version) => version.to_owned(),
        (group, version) => format!("{group}/{version}"),
    };
    format!("no matches for kind {} in version {}", go::quoted(&kind.kind), go::quoted(&version))
}
