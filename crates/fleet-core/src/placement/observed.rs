//! The facts for a plan of a placement, borrowed from the objects: labels and annotations of snapshots are parsed
//! here.

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

use super::groups::Groups;
use super::inventory::{GroupVersion, Inventory};
use super::propagation::Propagation;
use super::select::{SelectionError, select, undiscovered};
use super::snapshot_content::SelectedContent;

/// Everything that a plan depends on. Lists are in any order.
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
    /// The selection, if the caller has computed it. Otherwise the plan selects from the inventory, which must then
    /// have the content of objects and not only their metadata.
    pub selection: Option<&'a Result<SelectedContent, SelectionError>>,
    pub inventory: &'a dyn Inventory,
    pub propagation: &'a Propagation,
    pub snapshot_intervals: SnapshotIntervals,
}

impl Observed<'_> {
    /// The given selection, or the one from the inventory. Resources that were selected before are not dropped
    /// because a group version could not be discovered.
    pub(super) fn selected_content(&self) -> Cow<'_, Result<SelectedContent, SelectionError>> {
        let selected_content = self.selection.map_or_else(|| Cow::Owned(self.select_content()), Cow::Borrowed);
        let silent =
            selected_content.as_ref().as_ref().ok().and_then(|selected_content| self.may_have_lost(selected_content));
        silent.map_or(selected_content, |part| Cow::Owned(Err(SelectionError::Undiscovered { part })))
    }

    fn select_content(&self) -> Result<SelectedContent, SelectionError> {
        let (key, selectors) = (self.placement.key, &self.placement.spec.resource_selectors);
        let selected = select(key, selectors, self.inventory, self.propagation)?;
        Ok(SelectedContent::of(&selected).with_undiscovered(undiscovered(
            key,
            selectors,
            self.inventory,
            self.propagation,
        )))
    }

    fn may_have_lost(&self, selected_content: &SelectedContent) -> Option<GroupVersion> {
        if selected_content.undiscovered.is_empty() {
            return None;
        }
        let groups = Groups::new(&self.resource_snapshots).ok();
        let latest = groups.as_ref().and_then(|groups| Some((groups, groups.latest().ok()??)));
        let in_snapshot = latest.map(|(groups, latest)| groups.identifiers(latest.index)).unwrap_or_default();
        let in_status = self.placement.status.iter().flat_map(|status| &status.selected_resources);
        selected_content.may_have_lost(in_snapshot.iter().chain(in_status)).cloned()
    }
}

/// The copy of the status in the namespace that the placement selects by name.
#[derive(Debug, Clone, Copy, Default)]
pub struct CopyFacts<'a> {
    /// Its content, if it exists.
    pub found: Option<&'a PlacementStatus>,
    /// Until when writing it is not retried after a failure.
    pub failed_until: Option<Timestamp>,
}

/// How soon changed content may become a snapshot. With both zero, immediately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotIntervals {
    /// Minimum time since the previous snapshot.
    pub minimum_interval: SignedDuration,
    /// Time since the change was first seen, so that changes made together are rolled out together.
    pub collection: SignedDuration,
}

impl SnapshotIntervals {
    pub const NONE: Self = Self { minimum_interval: SignedDuration::ZERO, collection: SignedDuration::ZERO };
}

impl Default for SnapshotIntervals {
    fn default() -> Self {
        Self { minimum_interval: SignedDuration::from_secs(30), collection: SignedDuration::from_secs(15) }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct PlacementFacts<'a> {
    pub key: &'a PlacementKey,
    pub generation: i64,
    pub deleting: bool,
    /// Whether the placement has our finalizer.
    pub has_finalizer: bool,
    pub spec: &'a PlacementSpec,
    pub status: Option<&'a PlacementStatus>,
}

impl<'a> PlacementFacts<'a> {
    pub fn of<S: Scope>(key: &'a PlacementKey, placement: &'a Obj<Placement, S>) -> Self {
        Self {
            key,
            generation: placement.generation(),
            deleting: placement.is_deleting(),
            has_finalizer: placement.has_finalizer(finalizers::PLACEMENT),
            spec: &placement.spec,
            status: placement.status.as_ref(),
        }
    }

    pub fn scope(&self) -> PlacementScope {
        if self.key.namespace.is_some() { PlacementScope::Namespaced } else { PlacementScope::Cluster }
    }
}

/// The owner reference by which snapshots and status copies are garbage collected with their placement.
pub fn owner_of<S: Scope>(placement: &Obj<Placement, S>) -> OwnerReference {
    let info = Obj::<Placement, S>::INFO;
    debug_assert_eq!(placement.metadata.namespace.is_some(), info.scope == ScopeKind::Namespaced);
    OwnerReference {
        api_version: info.api_version(),
        kind: info.kind.to_owned(),
        name: placement.name().to_owned(),
        uid: placement.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A number in an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParsedAnnotation<T> {
    Absent,
    Unreadable,
    Value(T),
}

impl<T> ParsedAnnotation<T> {
    fn of(text: Option<&str>, read: impl FnOnce(&str) -> Option<T>) -> Self {
        match text.map(read) {
            None => ParsedAnnotation::Absent,
            Some(None) => ParsedAnnotation::Unreadable,
            Some(Some(value)) => ParsedAnnotation::Value(value),
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
    pub placement_generation: ParsedAnnotation<i64>,
    pub number_of_clusters: ParsedAnnotation<i32>,
    pub status: Option<&'a SchedulingPolicySnapshotStatus>,
}

impl<'a> PolicySnapshotFacts<'a> {
    pub fn of<S: Scope>(snapshot: &'a Obj<PolicySnapshot, S>) -> Self {
        Self {
            name: snapshot.name(),
            index: snapshot.label(labels::POLICY_INDEX).and_then(Index::parse),
            latest: is_latest(snapshot),
            hash: &snapshot.spec.policy_hash,
            generation: snapshot.generation(),
            placement_generation: ParsedAnnotation::of(snapshot.annotation(annotations::PLACEMENT_GENERATION), parse),
            number_of_clusters: ParsedAnnotation::of(snapshot.annotation(annotations::NUMBER_OF_CLUSTERS), parse),
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

/// The role of a snapshot in its group.
#[derive(Debug, Clone, Copy)]
pub enum PartFacts<'a> {
    Master(MasterFacts<'a>),
    /// `None` if the annotation cannot be read.
    Sub(Option<Index>),
}

/// The annotations of a master.
#[derive(Debug, Clone, Copy)]
pub struct MasterFacts<'a> {
    /// Whether it is marked as the latest.
    pub latest: bool,
    pub hash: &'a str,
    /// The number of snapshots in the group, including the master; `None` if the annotation cannot be read.
    pub snapshots: Option<usize>,
    /// When other content was first seen.
    pub change_seen: Option<Timestamp>,
}

impl<'a> ResourceSnapshotFacts<'a> {
    pub fn of<S: Scope>(snapshot: &'a Obj<Snapshot, S>) -> Self {
        let part = match snapshot.annotation(annotations::RESOURCE_HASH) {
            Some(hash) => PartFacts::Master(MasterFacts {
                latest: is_latest(snapshot),
                hash,
                snapshots: snapshot.annotation(annotations::NUMBER_OF_RESOURCE_SNAPSHOTS).and_then(parse),
                change_seen: snapshot.annotation(annotations::NEXT_SNAPSHOT_DETECTED_AT).and_then(parse),
            }),
            None => PartFacts::Sub(snapshot.annotation(annotations::SUBINDEX).and_then(Index::parse)),
        };
        Self {
            name: snapshot.name(),
            index: snapshot.label(labels::RESOURCE_INDEX).and_then(Index::parse),
            part,
            created: snapshot.metadata.creation_timestamp.as_ref().map(|time| time.0),
            resources: &snapshot.spec.selected_resources,
        }
    }

    /// The objects in it.
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
    /// Name of the resource snapshot that the cluster should have; empty before a rollout reached it.
    pub resource_snapshot: &'a str,
    pub overrides: &'a [NamespacedName],
    pub cluster_overrides: &'a [String],
    pub status: Option<&'a ResourceBindingStatus>,
}

impl<'a> BindingFacts<'a> {
    pub fn of<S: Scope>(binding: &'a Obj<Binding, S>) -> Self {
        let spec = &binding.spec;
        Self {
            name: binding.name(),
            cluster: &spec.target_cluster,
            deleting: binding.is_deleting(),
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

fn is_latest<F: Family, S: Scope>(object: &Obj<F, S>) -> bool {
    object.label(labels::IS_LATEST_SNAPSHOT) == Some(label_values::TRUE)
}
