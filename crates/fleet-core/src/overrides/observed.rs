//! The facts about overrides and their snapshots, read once from objects of both kinds.
//!
//! Decides what labels and finalizers mean. Objects are borrowed, never copied. Never decides what to do about them.

use fleet_api::hashes::{cluster_override_hash, override_hash};
use fleet_api::kinds::{Family, Obj, Scope};
use fleet_api::names::{Index, OverrideName};
use fleet_api::types::{
    Base64, ClusterResourceOverrideSpec, OverridePolicy, OverrideSnapshotSpec, PlacementRef, ResourceOverrideSpec,
};
use fleet_api::well_known::{finalizers, label_values, labels};

/// Everything that one plan is made from: an override and all its snapshots, in any order.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub override_: OverrideFacts<'a>,
    pub snapshots: Vec<SnapshotFacts<'a>>,
}

#[derive(Debug, Clone)]
pub struct OverrideFacts<'a> {
    pub name: &'a OverrideName,
    pub deleting: bool,
    /// Whether our finalizer is on it.
    pub held: bool,
    /// Of its spec as it is now.
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
            held: metadata.finalizers.iter().flatten().any(|one| one == finalizers::OVERRIDE),
            hash: override_.spec.hash(),
        }
    }
}

/// What the specs of both kinds of overrides can do.
pub trait OverrideSpec {
    fn hash(&self) -> Base64;

    /// `namespace` is that of the object; cluster-scoped ones have none.
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

/// What an override of either kind asks for.
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

    /// The one placement that it is for; `None` means every one.
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

/// A snapshot of an override of either kind.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotFacts<'a> {
    pub name: &'a str,
    /// Name of the override that it is of; empty if it does not say.
    pub parent: &'a str,
    /// `None` if the label cannot be read.
    pub index: Option<Index>,
    /// Whether it is marked as the latest.
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
