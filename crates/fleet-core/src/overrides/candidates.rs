//! The keys that overrides may select in a placement's resources: a ClusterResourceOverride selects a namespaced
//! resource through its Namespace, a ResourceOverride by its name. Both select objects in envelopes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use fleet_api::types::{EmbeddedObject, EnvelopeType};
use serde_json::Value;

use crate::envelope::Envelope;
use crate::placement::{GroupVersion, Inventory};

/// Knows which kinds are cluster-scoped.
pub trait Scopes: fmt::Debug {
    /// `Some(false)` for a kind that the hub does not serve. `None` if the hub could not discover this part of its API, so
    /// that the kind may exist.
    fn is_cluster_scoped(&self, group: &str, version: &str, kind: &str) -> Option<bool>;
}

impl<I: Inventory> Scopes for I {
    fn is_cluster_scoped(&self, group: &str, version: &str, kind: &str) -> Option<bool> {
        if let Some(kind) = self.kind(group, version, kind) {
            return Some(kind.preferred && !kind.namespaced);
        }
        (!self.undiscovered().contains(&GroupVersion::new(group, version))).then_some(false)
    }
}

/// The key that overrides select resources by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceKey {
    pub group: String,
    pub version: String,
    pub kind: String,
    /// Empty for cluster-scoped resources.
    pub namespace: String,
    pub name: String,
}

impl ResourceKey {
    /// The key of the resource itself.
    pub fn of(resource: &EmbeddedObject) -> Self {
        let (group, version) = resource.api_version().split_once('/').unwrap_or(("", resource.api_version()));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: resource.kind().to_owned(),
            namespace: resource.namespace().to_owned(),
            name: resource.name().to_owned(),
        }
    }

    fn of_namespace(name: &str) -> Self {
        Self {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "Namespace".to_owned(),
            namespace: String::new(),
            name: name.to_owned(),
        }
    }

    /// The key for ClusterResourceOverrides: the Namespace of a namespaced resource. `None` for an object without
    /// namespace whose kind the hub does not know.
    pub(super) fn for_cluster_overrides(resource: &EmbeddedObject, scopes: &dyn Scopes) -> Option<Self> {
        if !resource.namespace().is_empty() {
            return Some(Self::of_namespace(resource.namespace()));
        }
        (Self::is_cluster_scoped(resource, scopes) == Some(true)).then(|| Self::of(resource))
    }

    /// Whether the kind of an object without namespace is cluster-scoped; `None` if the hub could not discover that.
    pub(super) fn is_cluster_scoped(resource: &EmbeddedObject, scopes: &dyn Scopes) -> Option<bool> {
        let Self { group, version, kind, .. } = Self::of(resource);
        scopes.is_cluster_scoped(&group, &version, &kind)
    }

    /// The key for ResourceOverrides.
    pub(super) fn for_overrides(resource: &EmbeddedObject) -> Option<Self> {
        (!resource.namespace().is_empty()).then(|| Self::of(resource))
    }
}

/// The keys of all resources in a group of resource snapshots. Snapshots are immutable, so the keys change only if the
/// hub learns the scope of a kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidates {
    /// Keys for ClusterResourceOverrides.
    pub cluster: BTreeSet<ResourceKey>,
    /// Keys for ResourceOverrides.
    pub namespaced: BTreeSet<ResourceKey>,
    /// For the kinds of objects without namespace, what the hub knew about their scope.
    scopes: BTreeMap<Named, Option<bool>>,
}

/// Group, version and kind.
type Named = (String, String, String);

/// Only envelopes of this version are opened.
const ENVELOPE_VERSION: &str = "v1beta1";

impl Candidates {
    /// Whether they would be the same with these scopes.
    pub fn are_current(&self, scopes: &dyn Scopes) -> bool {
        let is_same = |((group, version, kind), known): (&Named, &Option<bool>)| {
            scopes.is_cluster_scoped(group, version, kind) == *known
        };
        self.scopes.iter().all(is_same)
    }

    /// A kind whose scope the hub could not discover. Until then, overrides cannot be matched.
    pub fn undiscovered_kind(&self) -> Option<String> {
        let ((group, version, kind), _) = self.scopes.iter().find(|(_, known)| known.is_none())?;
        Some(format!("{}, Kind={kind}", GroupVersion::new(group, version)))
    }

    /// From all resources of a snapshot group.
    pub fn of<'r>(resources: impl IntoIterator<Item = &'r EmbeddedObject>, scopes: &dyn Scopes) -> Self {
        let mut candidates = Self::default();
        for resource in resources {
            match Envelope::of(resource).filter(|envelope| envelope.version == ENVELOPE_VERSION) {
                Some(envelope) => candidates.add_content(&envelope, scopes),
                None => candidates.add(resource, scopes),
            }
        }
        candidates
    }

    fn add(&mut self, resource: &EmbeddedObject, scopes: &dyn Scopes) {
        self.add_for_cluster_overrides(resource, scopes);
        self.namespaced.extend(ResourceKey::for_overrides(resource));
    }

    fn add_for_cluster_overrides(&mut self, resource: &EmbeddedObject, scopes: &dyn Scopes) {
        let key = ResourceKey::for_cluster_overrides(resource, scopes);
        if resource.namespace().is_empty() {
            let ResourceKey { group, version, kind, .. } = ResourceKey::of(resource);
            self.scopes.insert((group, version, kind), ResourceKey::is_cluster_scoped(resource, scopes));
        }
        self.cluster.extend(key);
    }

    /// Misplaced entries have no keys; opening the envelope fails for them.
    fn add_content(&mut self, envelope: &Envelope<'_>, scopes: &dyn Scopes) {
        let entries = envelope.entries().map(|(_, value)| value).filter(|value| is_object_of_some_kind(value));
        let objects = entries.map(|value| EmbeddedObject(value.clone()));
        if envelope.kind == EnvelopeType::ResourceEnvelope {
            self.cluster.insert(ResourceKey::of_namespace(envelope.namespace));
            let own = objects.filter(|object| object.namespace() == envelope.namespace);
            self.namespaced.extend(own.filter_map(|object| ResourceKey::for_overrides(&object)));
        } else {
            let own = objects.filter(|object| object.namespace().is_empty());
            own.for_each(|object| self.add_for_cluster_overrides(&object, scopes));
        }
    }
}

fn is_object_of_some_kind(value: &Value) -> bool {
    value.get("kind").and_then(Value::as_str).is_some_and(|kind| !kind.is_empty())
}
