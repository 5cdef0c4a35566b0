//! Which objects a placement's selectors select, in the order of snapshots.
//!
//! An object that is selected twice makes the whole selection invalid.

use std::collections::BTreeSet;

use fleet_api::names::{NamespaceName, PlacementKey};
use fleet_api::types::{ResourceIdentifier, ResourceSelectorTerm, SelectionScope};
use k8s_values::Selector;

use super::inventory::{GroupVersion, Inventory, Kind, LiveObject, Selected};
use super::order;
use super::propagation::{GroupVersionKind, Propagation};

/// Why there is no selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelectionError {
    /// Only the user can fix it.
    User(InvalidSelector),
    /// The cache of this resource is not synced yet.
    Incomplete { resource: String },
    /// The selection depends on a group version that could not be discovered.
    Undiscovered { part: GroupVersion },
}

/// What is wrong with the selectors. The messages are KubeFleet's, including the spelling.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSelector {
    #[error(
        "invalid placement {placement}, failed to get GVR of the selector: no matches for kind \"{kind}\" in version \"{api_version}\""
    )]
    UnknownKind { placement: String, kind: String, api_version: String },
    #[error("invalid placement {placement}: cannot select cluster-scoped resource {resource} in a resourcePlacement")]
    ClusterScoped { placement: String, resource: String },
    #[error(
        "invalid placement {placement}: cannot select namespace-scoped resource {resource} in a clusterResourcePlacement"
    )]
    Namespaced { placement: String, resource: String },
    #[error("invalid clusterRresourcePlacement {placement}: namespace {namespace} is not allowed to propagate")]
    NamespaceStays { placement: String, namespace: String },
    #[error(
        "invalid clusterResourcePlacement {placement}: NamespaceWithResourceSelectors mode requires exactly one namespace, but no namespaces were selected"
    )]
    NoNamespace { placement: String },
    #[error(
        "invalid placement {placement}: cannot select Secrets, because the hub agent is not allowed to read them (--place-secrets=false)"
    )]
    SecretsStay { placement: String },
    #[error("cannot convert the label selector to a selector: {complaint}")]
    Labels { complaint: String },
    #[error("found duplicate resource {{Group:{} Version:{} Kind:{} Name:{} Namespace:{} Envelope:<nil>}}",
        .0.group, .0.version, .0.kind, .0.name, .0.namespace)]
    Duplicate(ResourceIdentifier),
}

impl InvalidSelector {
    /// The message with the prefix for user errors.
    pub fn with_class(&self) -> String {
        format!("failed to process the request due to a client error: {self}")
    }
}

impl From<InvalidSelector> for SelectionError {
    fn from(invalid: InvalidSelector) -> Self {
        Self::User(invalid)
    }
}

type Found<'a> = Result<Vec<Selected<'a>>, SelectionError>;

/// The selected objects, in the order of snapshots.
pub fn select<'a>(
    placement: &PlacementKey,
    selectors: &[ResourceSelectorTerm],
    inventory: &'a dyn Inventory,
    propagation: &Propagation,
) -> Found<'a> {
    let selection = Selection { placement, inventory, propagation };
    let chosen_namespace = selection.chosen_namespace(selectors)?;
    let mut selected = Vec::new();
    let mut seen = BTreeSet::new();
    for term in selectors {
        let mut found = selection.term(term, chosen_namespace.as_deref())?;
        found.retain(|one| propagation.lets_object_through(one.kind, one.object, inventory));
        order::sort(&mut found);
        if let Some(twice) = found.iter().map(Selected::identifier).find(|one| !seen.insert(one.clone())) {
            return Err(InvalidSelector::Duplicate(twice).into());
        }
        selected.append(&mut found);
    }
    order::sort(&mut selected);
    Ok(selected)
}

/// The undiscovered group versions that may have objects to select: a selected namespace includes objects of all
/// kinds.
pub fn undiscovered(
    placement: &PlacementKey,
    selectors: &[ResourceSelectorTerm],
    inventory: &dyn Inventory,
    propagation: &Propagation,
) -> Vec<GroupVersion> {
    let selection = Selection { placement, inventory, propagation };
    let takes_everything = |term: &ResourceSelectorTerm| {
        term.is_namespace()
            && term.selection_scope() == SelectionScope::NamespaceWithResources
            && !selection.blocks(term)
    };
    if selection.is_namespaced() || !selectors.iter().any(takes_everything) {
        return Vec::new();
    }
    inventory.undiscovered().into_iter().filter(|part| !propagation.blocks_part(part)).collect()
}

#[derive(Debug, Clone, Copy)]
struct Selection<'a, 'p> {
    placement: &'p PlacementKey,
    inventory: &'a dyn Inventory,
    propagation: &'p Propagation,
}

impl<'a> Selection<'a, '_> {
    fn is_namespaced(&self) -> bool {
        self.placement.namespace.is_some()
    }

    /// The placement as messages name it.
    fn placement_in(&self, namespace: &str) -> String {
        format!("{namespace}/{}", self.placement.name)
    }

    fn placement(&self) -> String {
        self.placement_in(self.placement.namespace.as_ref().map_or("", NamespaceName::as_str))
    }

    fn blocks(&self, term: &ResourceSelectorTerm) -> bool {
        self.propagation.blocks_kind(GroupVersionKind { group: &term.group, version: &term.version, kind: &term.kind })
    }

    /// The namespace from which the other selectors choose, if one is selected for that.
    fn chosen_namespace(&self, selectors: &[ResourceSelectorTerm]) -> Result<Option<String>, SelectionError> {
        let with_selectors = |term: &&ResourceSelectorTerm| {
            term.is_namespace()
                && term.selection_scope() == SelectionScope::NamespaceWithResourceSelectors
                && !self.blocks(term)
        };
        let Some(term) = selectors.iter().find(with_selectors).filter(|_| !self.is_namespaced()) else {
            return Ok(None);
        };
        let kind = self.known_kind(term, &self.placement())?;
        let usable =
            |object: &LiveObject<'_>| !object.is_deleting() && !self.propagation.blocks_namespace(object.name());
        match self.look_up(kind, term, None)?.into_iter().find(usable) {
            Some(namespace) => Ok(Some(namespace.name().to_owned())),
            None => Err(InvalidSelector::NoNamespace { placement: self.placement.name.to_string() }.into()),
        }
    }

    fn term(&self, term: &ResourceSelectorTerm, chosen_namespace: Option<&str>) -> Found<'a> {
        let kind = GroupVersionKind { group: &term.group, version: &term.version, kind: &term.kind };
        if self.propagation.keeps_as_secret(kind) {
            return Err(InvalidSelector::SecretsStay { placement: self.placement() }.into());
        }
        if self.blocks(term) {
            return Ok(Vec::new());
        }
        if !term.is_namespace() {
            return self.plain(term, chosen_namespace);
        }
        if self.is_namespaced() {
            let resource = "Namespace".to_owned();
            return Err(InvalidSelector::ClusterScoped { placement: self.placement(), resource }.into());
        }
        match term.selection_scope() {
            SelectionScope::NamespaceWithResources => self.with_content(term),
            SelectionScope::NamespaceOnly | SelectionScope::NamespaceWithResourceSelectors => self.plain(term, None),
        }
    }

    /// Objects of the selected kind itself.
    fn plain(&self, term: &ResourceSelectorTerm, chosen_namespace: Option<&str>) -> Found<'a> {
        let own_namespace = self.placement.namespace.as_ref().map(NamespaceName::as_str);
        let found = self.inventory.kind(&term.group, &term.version, &term.kind);
        // The chosen namespace replaces the placement's only where it is used.
        let namespace = match found {
            Some(kind) if kind.is_cluster_scoped() => own_namespace,
            _ => own_namespace.or(chosen_namespace),
        };
        let placement = self.placement_in(namespace.unwrap_or_default());
        let kind = self.known_kind(term, &placement)?;
        let resource = kind.to_string();
        match (kind.is_cluster_scoped(), self.is_namespaced(), namespace) {
            (true, true, _) => return Err(InvalidSelector::ClusterScoped { placement, resource }.into()),
            (false, _, None) => return Err(InvalidSelector::Namespaced { placement, resource }.into()),
            _ => {}
        }
        let found = self.look_up(kind, term, namespace)?.into_iter().filter(|object| !object.is_deleting());
        Ok(found.map(|object| Selected { kind, object }).collect())
    }

    /// Namespaces with all objects in them.
    fn with_content(&self, term: &ResourceSelectorTerm) -> Found<'a> {
        let kind = self.known_kind(term, &self.placement())?;
        let stays = |name: &str| InvalidSelector::NamespaceStays {
            placement: self.placement.name.to_string(),
            namespace: name.to_owned(),
        };
        if !term.name.is_empty() && self.propagation.blocks_namespace(&term.name) {
            return Err(stays(&term.name).into());
        }
        let mut namespaces = self.look_up(kind, term, None)?;
        namespaces.sort_unstable_by_key(|object| object.name());
        if let Some(object) = namespaces.iter().find(|object| self.propagation.blocks_namespace(object.name())) {
            return Err(stays(object.name()).into());
        }
        let mut content: Vec<_> = self.inventory.namespaced_kinds();
        content.retain(|kind| self.propagation.sweeps_kind(kind));
        content.sort_unstable();
        let mut selected = Vec::new();
        for namespace in namespaces.into_iter().filter(|object| !object.is_deleting()) {
            selected.push(Selected { kind, object: namespace });
            for &kind in &content {
                self.check_complete(kind)?;
                let objects = self.inventory.list(kind, Some(namespace.name())).into_iter();
                let objects = objects.filter(|object| !object.is_deleting());
                selected.extend(objects.map(|object| Selected { kind, object }));
            }
        }
        Ok(selected)
    }

    fn known_kind(&self, term: &ResourceSelectorTerm, placement: &str) -> Result<&'a Kind, SelectionError> {
        self.inventory.kind(&term.group, &term.version, &term.kind).ok_or_else(|| {
            let is_undiscovered = |part: &GroupVersion| part.group == term.group && part.version == term.version;
            if let Some(part) = self.inventory.undiscovered().into_iter().find(is_undiscovered) {
                return SelectionError::Undiscovered { part };
            }
            let api_version = match term.group.as_str() {
                "" => term.version.clone(),
                group => format!("{group}/{}", term.version),
            };
            let kind = term.kind.clone();
            InvalidSelector::UnknownKind { placement: placement.to_owned(), kind, api_version }.into()
        })
    }

    fn check_complete(&self, kind: &Kind) -> Result<(), SelectionError> {
        if self.inventory.is_complete(kind) {
            return Ok(());
        }
        Err(SelectionError::Incomplete { resource: kind.to_string() })
    }

    /// Objects by name, by labels, or all.
    fn look_up(
        &self,
        kind: &Kind,
        term: &ResourceSelectorTerm,
        namespace: Option<&str>,
    ) -> Result<Vec<LiveObject<'a>>, SelectionError> {
        self.check_complete(kind)?;
        let namespace = namespace.filter(|_| !kind.is_cluster_scoped());
        if !term.name.is_empty() {
            let found = self.inventory.get(kind, namespace.unwrap_or_default(), &term.name);
            return Ok(found.into_iter().collect());
        }
        let all = self.inventory.list(kind, namespace);
        let Some(labels) = &term.label_selector else { return Ok(all) };
        let selector =
            Selector::new(Some(labels)).map_err(|error| InvalidSelector::Labels { complaint: error.to_string() })?;
        Ok(all.into_iter().filter(|object| selector.matches(&object.labels())).collect())
    }
}
