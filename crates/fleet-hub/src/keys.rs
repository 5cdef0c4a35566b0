//! Maps objects to the placements that they belong to, and back.
//!
//! An object with unreadable names belongs to no placement.

use fleet_api::kinds::{Family, Obj, Placement, Scope, UpdateRun, Work};
use fleet_api::names::{NamespaceName, PlacementKey, PlacementName};
use fleet_api::well_known::labels;
use fleet_runtime::ObjectKey;

/// The key of a placement; `None` if its name is not a valid label value.
pub fn key_of<S: Scope>(placement: &Obj<Placement, S>) -> Option<PlacementKey> {
    placement_named(placement.metadata.namespace.as_deref(), placement.metadata.name.as_deref()?)
}

/// The placement of a snapshot or a binding.
pub fn parent_of<F: Family, S: Scope>(object: &Obj<F, S>) -> Option<PlacementKey> {
    let parent = object.metadata.labels.as_ref()?.get(labels::PARENT_PLACEMENT)?;
    placement_named(object.metadata.namespace.as_deref(), parent)
}

/// The placement of a Work.
pub fn placement_of_work(work: &Work) -> Option<PlacementKey> {
    let labels = work.metadata.labels.as_ref()?;
    placement_named(
        labels.get(labels::PARENT_PLACEMENT_NAMESPACE).map(String::as_str),
        labels.get(labels::PARENT_PLACEMENT)?,
    )
}

/// The binding of a Work, in the namespace of its placement.
pub fn binding_of_work(work: &Work) -> Option<ObjectKey> {
    let labels = work.metadata.labels.as_ref()?;
    let namespace = labels.get(labels::PARENT_PLACEMENT_NAMESPACE).map(String::as_str);
    Some(ObjectKey::new(namespace, labels.get(labels::PARENT_BINDING)?))
}

/// The key of a placement in its cache.
pub fn object_key(key: &PlacementKey) -> ObjectKey {
    ObjectKey::new(key.namespace.as_ref().map(NamespaceName::as_str), key.name.as_str())
}

/// The placement of a staged run.
pub fn placement_of<S: Scope>(run: &Obj<UpdateRun, S>) -> Option<PlacementKey> {
    placement_named(run.metadata.namespace.as_deref(), &run.spec.placement_name)
}

fn placement_named(namespace: Option<&str>, name: &str) -> Option<PlacementKey> {
    let namespace = namespace.map(NamespaceName::parse).transpose().ok()?;
    Some(PlacementKey { namespace, name: PlacementName::parse(name).ok()? })
}

#[cfg(test)]
mod tests {
    use fleet_api::kinds::{Cluster, Namespaced, Snapshot};
    use fleet_api::types::{PlacementSpec, ResourceSnapshotSpec};

    use super::*;

    #[test]
    fn a_placement_and_its_dependents_have_the_same_key() {
        let placement = Obj::<Placement, Namespaced>::named("web", PlacementSpec::default()).in_namespace("shop");
        let spec = ResourceSnapshotSpec { selected_resources: Vec::new() };
        let mut snapshot = Obj::<Snapshot, Namespaced>::named("web-0-snapshot", spec).in_namespace("shop");
        assert_eq!(parent_of(&snapshot), None);
        snapshot.metadata.labels = Some([(labels::PARENT_PLACEMENT.to_owned(), "web".to_owned())].into());
        let key = key_of(&placement).unwrap();
        assert_eq!(parent_of(&snapshot), Some(key.clone()));
        assert_eq!((key.to_string(), object_key(&key).to_string()), ("shop/web".into(), "shop/web".into()));
    }

    #[test]
    fn a_name_that_is_no_label_value_has_no_placement() {
        let placement = Obj::<Placement, Cluster>::named("x".repeat(64), PlacementSpec::default());
        assert_eq!(key_of(&placement), None);
    }
}
