//! Namespaces and CustomResourceDefinitions: objects whose deletion deletes other objects. Also the order in which
//! objects are removed.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use fleet_api::types::WorkResourceIdentifier;

use super::apply_order::batch_of;
use super::decode::Identity;

/// The content of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Content {
    Nothing,
    /// The custom resources that it defines.
    CustomResources,
    /// All objects of the namespace.
    Namespace,
}

fn content_of(identifier: &WorkResourceIdentifier) -> Content {
    match (identifier.group.as_str(), identifier.kind.as_str()) {
        ("", "Namespace") => Content::Namespace,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Content::CustomResources,
        _ => Content::Nothing,
    }
}

/// Whether deleting this object deletes other objects.
pub fn is_container(identifier: &WorkResourceIdentifier) -> bool {
    content_of(identifier) != Content::Nothing
}

/// Whether `object` is deleted when `container` is deleted.
pub fn is_in(object: &WorkResourceIdentifier, container: &WorkResourceIdentifier) -> bool {
    match content_of(container) {
        Content::Nothing => false,
        Content::Namespace => !object.namespace.is_empty() && object.namespace == container.name,
        // A CustomResourceDefinition is named `<plural>.<group>`.
        Content::CustomResources => container
            .name
            .split_once('.')
            .is_some_and(|(resource, group)| object.resource == resource && object.group == group),
    }
}

/// The placed objects in these containers, each once. `apart` are objects that are removed separately.
pub fn placed_in<'a>(
    containers: &[&WorkResourceIdentifier],
    placed: impl IntoIterator<Item = &'a WorkResourceIdentifier>,
    apart: &[WorkResourceIdentifier],
) -> Vec<WorkResourceIdentifier> {
    let mut seen: BTreeSet<_> =
        apart.iter().filter_map(|identifier| Some(Identity::of(identifier)?.object())).collect();
    placed
        .into_iter()
        .filter(|object| containers.iter().any(|container| is_in(object, container)))
        .filter(|object| Identity::of(object).is_some_and(|identity| seen.insert(identity.object())))
        .cloned()
        .collect()
}

/// Sorts objects into the order of removal: the reverse of the apply order, with containers after everything that
/// they may contain.
pub fn sort_for_removal(identifiers: &mut [WorkResourceIdentifier]) {
    identifiers
        .sort_by_key(|identifier| (content_of(identifier), Reverse(batch_of(&identifier.group, &identifier.resource))));
}
