//! Whether a created, changed or deleted object may change the plan of a placement.
//!
//! False positives are harmless: a plan without a change does nothing.

use fleet_api::types::{PlacementScope, ResourceIdentifier, ResourceSelectorTerm, SelectionScope};
use k8s_values::Selector;

use super::inventory::{Inventory, Kind, LiveObject};
use super::observed::PlacementFacts;
use super::propagation::Propagation;

/// A created, changed or deleted object.
#[derive(Debug, Clone, Copy)]
pub struct ChangedObject<'a> {
    pub kind: &'a Kind,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    pub name: &'a str,
    /// `None` if it is deleted.
    pub live: Option<LiveObject<'a>>,
}

impl ChangedObject<'_> {
    /// Whether this placement must be reconciled.
    pub fn affects(
        &self,
        placement: &PlacementFacts<'_>,
        inventory: &dyn Inventory,
        propagation: &Propagation,
    ) -> bool {
        if propagation.blocks_kind(self.kind.into()) {
            return false;
        }
        // A placement that has selected the object must notice when propagation is blocked.
        let live = self.live.filter(|live| propagation.lets_object_through(self.kind, *live, inventory));
        let is_selected =
            || placement.status.is_some_and(|status| status.selected_resources.contains(&self.identifier()));
        let matches = |term: &ResourceSelectorTerm| live.is_some_and(|live| matches(term, self.kind, live));
        let terms = &placement.spec.resource_selectors;
        match (placement.scope(), self.kind.is_cluster_scoped()) {
            (PlacementScope::Namespaced, true) => false,
            (PlacementScope::Namespaced, false) => {
                let is_here = placement.key.namespace.as_ref().is_some_and(|own| own.as_str() == self.namespace);
                is_here && (is_selected() || terms.iter().any(matches))
            }
            (PlacementScope::Cluster, true) => is_selected() || terms.iter().any(matches),
            (PlacementScope::Cluster, false) => {
                !propagation.blocks_namespace(self.namespace) && self.is_inside(terms, inventory, is_selected)
            }
        }
    }

    /// For a cluster-scoped placement, a change inside a namespace is a change of that namespace.
    fn is_inside(
        &self,
        terms: &[ResourceSelectorTerm],
        inventory: &dyn Inventory,
        is_selected: impl FnOnce() -> bool,
    ) -> bool {
        let Some(kind) = inventory.kind("", "v1", "Namespace") else { return false };
        let Some(namespace) = inventory.get(kind, "", self.namespace) else { return false };
        let with_content = |term: &&ResourceSelectorTerm| term.selection_scope() != SelectionScope::NamespaceOnly;
        is_selected() || terms.iter().filter(with_content).any(|term| matches(term, kind, namespace))
    }

    fn identifier(&self) -> ResourceIdentifier {
        ResourceIdentifier {
            group: self.kind.group.clone(),
            version: self.kind.version.clone(),
            kind: self.kind.kind.clone(),
            name: self.name.to_owned(),
            namespace: self.namespace.to_owned(),
            envelope: None,
        }
    }
}

/// An invalid selector matches nothing: its placement waits until it is changed.
fn matches(term: &ResourceSelectorTerm, kind: &Kind, live: LiveObject<'_>) -> bool {
    if !kind.is(&term.group, &term.version, &term.kind) {
        return false;
    }
    if !term.name.is_empty() {
        return term.name == live.name();
    }
    let Some(labels) = &term.label_selector else { return true };
    Selector::new(Some(labels)).is_ok_and(|selector| selector.matches(&live.labels()))
}
