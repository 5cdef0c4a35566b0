//! The facts that a placement's plan rests on, each read once from its object.
//!
//! Decides what labels and annotations of snapshots mean, and what is malformed in them. Objects are borrowed, never
//! copied. Never decides what to do about them.

use std::borrow::Cow;

use fleet_api::conditions::Condition;
use fleet_api::kinds::{Binding, Family, Obj, Placement, PolicySnapshot, Scope, ScopeKind, Snapshot};
use fleet_api::names::{Index, PlacementKey};
use fleet_api::types::{
    Base64, EmbeddedObject, NamespacedName, PlacementScope, PlacementSpec, PlacementStatus, ResourceBindingStatus,
    ResourceIdentifier, SchedulingPolicySnapshotStatus,
};
use fleet_api::well_known::{annotations, finalizers, label_values, labels};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::capture::Captured;
use super::groups::Groups;
use super::inventory::{GroupVersion, Inventory};
use super::propagation::Propagation;
use super::select::{SelectionError, select, unheard};

/// Everything that one plan is made from. Lists are in any order.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub placement: PlacementFacts<'a>,
    /// All policy snapshots of the placement.
    pub policy_snapshots: Vec<PolicySnapshotFacts<'a>>,
    /// All resource snapshots of the placement.
    pub resource_snapshots: Vec<ResourceSnapshotFacts<'a>>,
    /// All bindings of the placement.
    pub bindings: Vec<BindingFacts<'a>>,
    pub status_copy: CopyFacts<'a>,
    /// What the selectors yield, where whoever calls has found that out. Otherwise the plan selects and captures from the
    /// inventory, which must then have the content of objects and not only their metadata.
    pub selection: Option<&'a Result<Captured, SelectionError>>,
    pub inventory: &'a dyn Inventory,
    pub propagation: &'a Propagation,
    pub pace: SnapshotPace,
}

impl Observed<'_> {
    /// What is selected, as it was given or as the inventory has it. What was selected before is not given up because a part
    /// of the API does not say which kinds it has.
    pub(super) fn captured(&self) -> Cow<'_, Result<Captured, SelectionError>> {
        let captured = self.selection.map_or_else(|| Cow::Owned(self.capture()), Cow::Borrowed);
        let silent = captured.as_ref().as_ref().ok().and_then(|captured| self.may_have_lost(captured));
        silent.map_or(captured, |part| Cow::Owned(Err(SelectionError::Silent { part })))
    }

    fn capture(&self) -> Result<Captured, SelectionError> {
        let (key, selectors) = (self.placement.key, &self.placement.spec.resource_selectors);
        let selected = select(key, selectors, self.inventory, self.propagation)?;
        Ok(Captured::of(&selected).without_hearing(unheard(key, selectors, self.inventory, self.propagation)))
    }

    fn may_have_lost(&self, captured: &Captured) -> Option<GroupVersion> {
        if captured.unheard.is_empty() {
            return None;
        }
        let groups = Groups::new(&self.resource_snapshots).ok();
        let latest = groups.as_ref().and_then(|groups| Some((groups, groups.latest().ok()??)));
        let frozen = latest.map(|(groups, latest)| groups.identifiers(latest.index)).unwrap_or_default();
        let told = self.placement.status.iter().flat_map(|status| &status.selected_resources);
        captured.may_have_lost(frozen.iter().chain(told)).cloned()
    }
}

/// The copy of the status in the namespace that the placement selects by name.
#[derive(Debug, Clone, Copy, Default)]
pub struct CopyFacts<'a> {
    /// What it says, if it is there.
    pub found: Option<&'a PlacementStatus>,
    /// Until when it is not tried again to write it, because that failed.
    pub failed_until: Option<Timestamp>,
}

/// How soon a change of content may become a snapshot. With both zero, at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotPace {
    /// At least so long after the snapshot before it.
    pub minimum_interval: SignedDuration,
    /// So long after the change was first seen, so that changes made together are rolled out together.
    pub collection: SignedDuration,
}

impl SnapshotPace {
    pub const AT_ONCE: Self = Self { minimum_interval: SignedDuration::ZERO, collection: SignedDuration::ZERO };
}

impl Default for SnapshotPace {
    fn default() -> Self {
        Self { minimum_interval: SignedDuration::from_secs(30), collection: SignedDuration::from_secs(15) }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct PlacementFacts<'a> {
    pub key: &'a PlacementKey,
    pub generation: i64,
    pub deleting: bool,
    /// Whether our finalizer is on it.
    pub held: bool,
    pub spec: &'a PlacementSpec,
    pub status: Option<&'a PlacementStatus>,
}

impl<'a> PlacementFacts<'a> {
    pub fn of<S: Scope>(key: &'a PlacementKey, placement: &'a Obj<Placement, S>) -> Self {
        Self {
            key,
            generation: placement.generation(),
            deleting: placement.metadata.deletion_timestamp.is_some(),
            held: placement.metadata.finalizers.iter().flatten().any(|one| one == finalizers::PLACEMENT),
            spec: &placement.spec,
            status: placement.status.as_ref(),
        }
    }

    pub fn scope(&self) -> PlacementScope {
        if self.key.namespace.is_some() { PlacementScope::Namespaced } else { PlacementScope::Cluster }
    }
}

/// The reference by which snapshots and status copies go when their placement does.
pub fn owner_of<S: Scope>(placement: &Obj<Placement, S>) -> OwnerReference {
    let info = Obj::<Placement, S>::INFO;
    debug_assert_eq!(placement.metadata.namespace.is_some(), info.scope == ScopeKind::Namespaced);
    OwnerReference {
        api_version: info.api_version(),
        kind: info.kind.to_owned(),
        name: name(placement).to_owned(),
        uid: placement.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A number in an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noted<T> {
    Absent,
    Unreadable,
    Value(T),
}

impl<T> Noted<T> {
    fn of(text: Option<&str>, read: impl FnOnce(&str) -> Option<T>) -> Self {
        match text.map(read) {
            None => Noted::Absent,
            Some(None) => Noted::Unreadable,
            Some(Some(value)) => Noted::Value(value),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct PolicySnapshotFacts<'a> {
    pub name: &'a str,
    /// `None` if the label cannot be read.
    pub index: Option<Index>,
    /// Whether it is marked as the latest.
    pub latest: bool,
    pub hash: &'a Base64,
    pub generation: i64,
    pub placement_generation: Noted<i64>,
    pub number_of_clusters: Noted<i32>,
    pub status: Option<&'a SchedulingPolicySnapshotStatus>,
}

impl<'a> PolicySnapshotFacts<'a> {
    pub fn of<S: Scope>(snapshot: &'a Obj<PolicySnapshot, S>) -> Self {
        Self {
            name: name(snapshot),
            index: label(snapshot, labels::POLICY_INDEX).and_then(Index::parse),
            latest: is_latest(snapshot),
            hash: &snapshot.spec.policy_hash,
            generation: snapshot.generation(),
            placement_generation: Noted::of(annotation(snapshot, annotations::PLACEMENT_GENERATION), parse),
            number_of_clusters: Noted::of(annotation(snapshot, annotations::NUMBER_OF_CLUSTERS), parse),
            status: snapshot.status.as_ref(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct ResourceSnapshotFacts<'a> {
    pub name: &'a str,
    /// Index of its group; `None` if the label cannot be read.
    pub index: Option<Index>,
    pub part: PartFacts<'a>,
    pub created: Option<Timestamp>,
    pub resources: &'a [EmbeddedObject],
}

/// What a snapshot is in its group.
#[derive(Debug, Clone, Copy)]
pub enum PartFacts<'a> {
    Master(MasterFacts<'a>),
    /// `None` if the annotation cannot be read.
    Sub(Option<Index>),
}

/// What a master says of its group.
#[derive(Debug, Clone, Copy)]
pub struct MasterFacts<'a> {
    /// Whether it is marked as the latest.
    pub latest: bool,
    pub hash: &'a str,
    /// How many snapshots the group has, itself included; `None` if that cannot be read.
    pub snapshots: Option<usize>,
    /// When other content was first seen.
    pub change_seen: Option<Timestamp>,
}

impl<'a> ResourceSnapshotFacts<'a> {
    pub fn of<S: Scope>(snapshot: &'a Obj<Snapshot, S>) -> Self {
        let part = match annotation(snapshot, annotations::RESOURCE_HASH) {
            Some(hash) => PartFacts::Master(MasterFacts {
                latest: is_latest(snapshot),
                hash,
                snapshots: annotation(snapshot, annotations::NUMBER_OF_RESOURCE_SNAPSHOTS).and_then(parse),
                change_seen: annotation(snapshot, annotations::NEXT_SNAPSHOT_DETECTED_AT).and_then(parse),
            }),
            None => PartFacts::Sub(annotation(snapshot, annotations::SUBINDEX).and_then(Index::parse)),
        };
        Self {
            name: name(snapshot),
            index: label(snapshot, labels::RESOURCE_INDEX).and_then(Index::parse),
            part,
            created: snapshot.metadata.creation_timestamp.as_ref().map(|time| time.0),
            resources: &snapshot.spec.selected_resources,
        }
    }

    /// Which objects are in it.
    pub(super) fn identifiers(&self) -> impl Iterator<Item = ResourceIdentifier> + use<'a> {
        self.resources.iter().map(|object| {
            let (group, version) = object.api_version().split_once('/').unwrap_or(("", object.api_version()));
            ResourceIdentifier {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: object.kind().to_owned(),
                name: object.name().to_owned(),
                namespace: object.namespace().to_owned(),
                envelope: None,
            }
        })
    }
}

#[derive(Debug, Clone, Copy)]
pub struct BindingFacts<'a> {
    pub name: &'a str,
    pub cluster: &'a str,
    pub deleting: bool,
    pub generation: i64,
    pub policy_snapshot: &'a str,
    /// Name of the resource snapshot that the cluster shall have; empty before a rollout reached it.
    pub resource_snapshot: &'a str,
    pub overrides: &'a [NamespacedName],
    pub cluster_overrides: &'a [String],
    pub status: Option<&'a ResourceBindingStatus>,
}

impl<'a> BindingFacts<'a> {
    pub fn of<S: Scope>(binding: &'a Obj<Binding, S>) -> Self {
        let spec = &binding.spec;
        Self {
            name: name(binding),
            cluster: &spec.target_cluster,
            deleting: binding.metadata.deletion_timestamp.is_some(),
            generation: binding.generation(),
            policy_snapshot: &spec.scheduling_policy_snapshot_name,
            resource_snapshot: &spec.resource_snapshot_name,
            overrides: spec.resource_override_snapshots.as_deref().unwrap_or_default(),
            cluster_overrides: spec.cluster_resource_override_snapshots.as_deref().unwrap_or_default(),
            status: binding.status.as_ref(),
        }
    }

    pub(super) fn conditions(&self) -> &'a [Condition] {
        self.status.map_or(&[], |status| &status.conditions)
    }
}

fn parse<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn name<F: Family, S: Scope>(object: &Obj<F, S>) -> &str {
    object.metadata.name.as_deref().unwrap_or_default()
}

fn label<'o, F: Family, S: Scope>(object: &'o Obj<F, S>, key: &str) -> Option<&'o str> {
    object.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn is_latest<F: Family, S: Scope>(object: &Obj<F, S>) -> bool {
    label(object, labels::IS_LATEST_SNAPSHOT) == Some(label_values::TRUE)
}

fn annotation<'o, F: Family, S: Scope>(object: &'o Obj<F, S>, key: &str) -> Option<&'o str> {
    object.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}
