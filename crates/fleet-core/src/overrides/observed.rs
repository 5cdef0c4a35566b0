//! The input of an override's plan: overrides and snapshots of both kinds. Objects are borrowed, not copied.

use fleet_api::hashes::{cluster_override_hash, override_hash};
use fleet_api::kinds::{Family, Obj, Scope};
use fleet_api::names::{Index, OverrideName};
use fleet_api::types::{
    Base64, ClusterResourceOverrideSpec, OverridePolicy, OverrideSnapshotSpec, PlacementRef, ResourceOverrideSpec,
};
use fleet_api::well_known::{finalizers, label_values, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The input of a plan: an override and all its snapshots, in any order.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub override_: OverrideFacts<'a>,
    pub snapshots: Vec<SnapshotFacts<'a>>,
}

#[derive(Debug, Clone)]
pub struct OverrideFacts<'a> {
    pub name: &'a OverrideName,
    pub deleting: bool,
    pub has_finalizer: bool,
    /// Hash of its current spec.
    pub hash: Base64,
}

impl<'a> OverrideFacts<'a> {
    pub fn of<O: OverrideSpec, F: Family<Spec = O>, S: Scope>(
        name: &'a OverrideName,
        override_: &'a Obj<F, S>,
    ) -> Self {
        let metadata = &override_.metadata;
        Self {
            name,
            deleting: metadata.deletion_timestamp.is_some(),
            has_finalizer: metadata.finalizers.iter().flatten().any(|one| one == finalizers::OVERRIDE),
            hash: override_.spec.hash(),
        }
    }
}

/// Common interface of the specs of both kinds of overrides.
pub trait OverrideSpec {
    fn hash(&self) -> Base64;

    /// `namespace` is the namespace of the object, empty for cluster-scoped ones.
    fn as_ref<'a>(&'a self, namespace: &'a str) -> OverrideSpecRef<'a>;
}

impl OverrideSpec for ClusterResourceOverrideSpec {
    fn hash(&self) -> Base64 {
        cluster_override_hash(self)
    }

    fn as_ref<'a>(&'a self, _: &'a str) -> OverrideSpecRef<'a> {
        OverrideSpecRef::Cluster(self)
    }
}

impl OverrideSpec for ResourceOverrideSpec {
    fn hash(&self) -> Base64 {
        override_hash(self)
    }

    fn as_ref<'a>(&'a self, namespace: &'a str) -> OverrideSpecRef<'a> {
        OverrideSpecRef::Namespaced { namespace, spec: self }
    }
}

/// The spec of an override of either kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OverrideSpecRef<'a> {
    Cluster(&'a ClusterResourceOverrideSpec),
    Namespaced { namespace: &'a str, spec: &'a ResourceOverrideSpec },
}

impl<'a> OverrideSpecRef<'a> {
    pub fn policy(&self) -> &'a OverridePolicy {
        match self {
            Self::Cluster(spec) => &spec.policy,
            Self::Namespaced { spec, .. } => &spec.policy,
        }
    }

    /// The placement that it is for; `None` means all placements.
    pub fn placement(&self) -> Option<&'a PlacementRef> {
        match self {
            Self::Cluster(spec) => spec.placement.as_ref(),
            Self::Namespaced { spec, .. } => spec.placement.as_ref(),
        }
    }

    /// Empty for a ClusterResourceOverride.
    pub fn namespace(&self) -> &'a str {
        match self {
            Self::Cluster(_) => "",
            Self::Namespaced { namespace, .. } => namespace,
        }
    }
}

/// Whether one of these snapshots is the latest of the override. Rollouts use only snapshots of overrides.
pub fn has_latest_snapshot<'a>(override_: &ObjectMeta, snapshots: impl IntoIterator<Item = &'a ObjectMeta>) -> bool {
    snapshots.into_iter().any(|snapshot| {
        let label = |key: &str| snapshot.labels.as_ref().and_then(|labels| labels.get(key));
        label(labels::IS_LATEST_SNAPSHOT).is_some_and(|value| value == label_values::TRUE)
            && label(labels::PARENT_OVERRIDE) == override_.name.as_ref()
            && snapshot.namespace == override_.namespace
    })
}

/// A snapshot of an override of either kind.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotFacts<'a> {
    pub name: &'a str,
    /// Name of its override; empty if the label is missing.
    pub parent: &'a str,
    /// `None` if the label is invalid.
    pub index: Option<Index>,
    /// Whether it has the label of the latest one.
    pub latest: bool,
    pub hash: &'a Base64,
    pub spec: OverrideSpecRef<'a>,
}

impl<'a> SnapshotFacts<'a> {
    pub fn of<O, F, S>(snapshot: &'a Obj<F, S>) -> Self
    where
        O: OverrideSpec + 'a,
        F: Family<Spec = OverrideSnapshotSpec<O>>,
        S: Scope,
    {
        let metadata = &snapshot.metadata;
        let label = |key: &str| metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
        Self {
            name: metadata.name.as_deref().unwrap_or_default(),
            parent: label(labels::PARENT_OVERRIDE).unwrap_or_default(),
            index: label(labels::OVERRIDE_INDEX).and_then(Index::parse),
            latest: label(labels::IS_LATEST_SNAPSHOT) == Some(label_values::TRUE),
            hash: &snapshot.spec.override_hash,
            spec: snapshot.spec.override_spec.as_ref(metadata.namespace.as_deref().unwrap_or_default()),
        }
    }
}
