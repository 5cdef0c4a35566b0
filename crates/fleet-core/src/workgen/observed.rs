//! The facts that a binding's plan rests on, each read once from its object.
//!
//! Decides what labels and annotations of Works mean. Objects are borrowed, never copied; of a Work everything but its
//! manifests is looked at, so these need not be kept. Never decides what to do about them.

use fleet_api::conditions::Condition;
use fleet_api::kinds::{Binding, Obj, Scope, Work};
use fleet_api::names::{Index, MemberNamespace, PlacementKey};
use fleet_api::types::{
    ApplyStrategy, ApplyStrategyType, BindingState, DeletePropagationPolicy, EnvelopeIdentifier, EnvelopeType,
    ManifestCondition, NamespacedName, ReportBackStrategy, ReportBackStrategyType, ResourceBindingStatus, WorkStatus,
};
use fleet_api::well_known::{annotations, finalizers, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::overrides::{Scopes, SnapshotFacts, Target};
use crate::placement::ResourceSnapshotFacts;

/// Everything that one plan is made from. Lists are in any order.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub placement: &'a PlacementKey,
    pub binding: BindingFacts<'a>,
    /// The member that the binding is for; `None` if there is no such MemberCluster.
    pub cluster: Option<Target<'a>>,
    /// Whether that member is on its way out of the fleet: what it has, it keeps.
    pub leaving: bool,
    /// Where the member's Works live.
    pub namespace: &'a MemberNamespace,
    /// All Works of the placement in that namespace: those of this binding, and those that another one left there.
    pub works: Vec<WorkFacts<'a>>,
    /// At least the resource snapshots of the group that the binding names.
    pub snapshots: Vec<ResourceSnapshotFacts<'a>>,
    pub content: Content,
    /// At least the override snapshots that the binding names.
    pub overrides: Vec<SnapshotFacts<'a>>,
    pub report_back: ReportBack,
    pub start: Start,
    /// What the API server answered when it refused the Works of the plan before this one.
    pub refusal: Option<&'a str>,
    pub scopes: &'a dyn Scopes,
}

/// How much of the snapshots' resources is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Kinds and names only: enough as long as no Work has to be made.
    Identities,
    Whole,
}

/// Whether members send the status of what they applied back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportBack {
    /// The placement is not there, so nobody says: Works stay as they are.
    Unknown,
    As(Option<ReportBackStrategy>),
}

/// Who says that a binding's rollout has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Whoever rolls out; until then nothing is done for a Bound binding. A staged run may also leave a note on the
    /// binding (`annotations::MOVED_BY_RUN`) that asks the plan to say it for this generation: one write less.
    SaidByRollout,
    /// A rolling update that moved the binding to the latest snapshot, which is the same as saying so. The plan then
    /// says it, together with all else that it has to say: one write less.
    MeantByBinding,
}

#[derive(Debug, Clone, Copy)]
pub struct BindingFacts<'a> {
    pub name: &'a str,
    pub generation: i64,
    pub deleting: bool,
    /// Whether our finalizer is on it.
    pub held: bool,
    /// Whether it says that its resources stay on the cluster.
    pub abandoned: bool,
    /// The note of the staged run that moved it, as it stands.
    pub moved_by_run: Option<&'a str>,
    pub state: &'a BindingState,
    pub resource_snapshot: &'a str,
    pub overrides: &'a [NamespacedName],
    pub cluster_overrides: &'a [String],
    pub apply_strategy: Option<&'a ApplyStrategy>,
    pub status: Option<&'a ResourceBindingStatus>,
}

impl<'a> BindingFacts<'a> {
    pub fn of<S: Scope>(binding: &'a Obj<Binding, S>) -> Self {
        let spec = &binding.spec;
        Self {
            name: binding.metadata.name.as_deref().unwrap_or_default(),
            generation: binding.generation(),
            deleting: binding.metadata.deletion_timestamp.is_some(),
            held: binding.metadata.finalizers.iter().flatten().any(|one| one == finalizers::WORK),
            abandoned: says_abandon(&binding.metadata),
            moved_by_run: note_of(&binding.metadata),
            state: &spec.state,
            resource_snapshot: &spec.resource_snapshot_name,
            overrides: spec.resource_override_snapshots.as_deref().unwrap_or_default(),
            cluster_overrides: spec.cluster_resource_override_snapshots.as_deref().unwrap_or_default(),
            apply_strategy: spec.apply_strategy.as_ref(),
            status: binding.status.as_ref(),
        }
    }

    pub(super) fn conditions(&self) -> &'a [Condition] {
        self.status.map_or(&[], |status| &status.conditions)
    }

    /// Whether the member only compares, and applies nothing.
    pub(super) fn only_reports_diff(&self) -> bool {
        self.apply_strategy.is_some_and(|strategy| strategy.strategy_type() == ApplyStrategyType::ReportDiff)
    }
}

#[derive(Debug, Clone)]
pub struct WorkFacts<'a> {
    pub name: &'a str,
    pub generation: i64,
    pub deleting: bool,
    /// Whether it says that what it applied stays on the member.
    pub abandoned: bool,
    /// Name of the binding that it was written for; empty if it does not say.
    pub binding: &'a str,
    /// Index of the snapshot that it was made from.
    pub index: Option<Index>,
    /// Master snapshot that it was made from.
    pub snapshot: Option<&'a str>,
    pub overrides_hash: Option<&'a str>,
    pub cluster_overrides_hash: Option<&'a str>,
    /// The envelope that it was made from, if any.
    pub envelope: Option<EnvelopeIdentifier>,
    pub apply_strategy: Option<&'a ApplyStrategy>,
    pub report_back: Option<ReportBackStrategy>,
    pub status: Option<&'a WorkStatus>,
}

impl<'a> WorkFacts<'a> {
    pub fn of(work: &'a Work) -> Self {
        let metadata = &work.metadata;
        let label = |key: &str| metadata.labels.as_ref().and_then(|all| all.get(key)).map(String::as_str);
        let annotation = |key: &str| metadata.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
        let envelope_kind =
            label(labels::ENVELOPE_KIND).and_then(|word| EnvelopeType::ALL.iter().find(|kind| kind.as_str() == word));
        Self {
            name: metadata.name.as_deref().unwrap_or_default(),
            generation: work.generation(),
            deleting: metadata.deletion_timestamp.is_some(),
            abandoned: says_abandon(metadata),
            binding: label(labels::PARENT_BINDING).unwrap_or_default(),
            index: label(labels::PARENT_RESOURCE_SNAPSHOT_INDEX).and_then(Index::parse),
            snapshot: annotation(annotations::PARENT_RESOURCE_SNAPSHOT),
            overrides_hash: annotation(annotations::PARENT_OVERRIDES_HASH),
            cluster_overrides_hash: annotation(annotations::PARENT_CLUSTER_OVERRIDES_HASH),
            envelope: envelope_kind.map(|kind| EnvelopeIdentifier {
                name: label(labels::ENVELOPE_NAME).unwrap_or_default().to_owned(),
                namespace: label(labels::ENVELOPE_NAMESPACE).unwrap_or_default().to_owned(),
                type_: Some(*kind),
            }),
            apply_strategy: work.spec.apply_strategy.as_ref(),
            report_back: mirroring(work.spec.report_back_strategy),
            status: work.status.as_ref(),
        }
    }

    pub(super) fn conditions(&self) -> &'a [Condition] {
        self.status.map_or(&[], |status| &status.conditions)
    }

    pub(super) fn manifests(&self) -> &'a [ManifestCondition] {
        self.status.map_or(&[], |status| &status.manifest_conditions)
    }
}

fn note_of(metadata: &ObjectMeta) -> Option<&str> {
    metadata.annotations.as_ref()?.get(annotations::MOVED_BY_RUN).map(String::as_str)
}

fn says_abandon(metadata: &ObjectMeta) -> bool {
    let said = metadata.annotations.as_ref().and_then(|all| all.get(annotations::DELETE_PROPAGATION));
    said.is_some_and(|word| word == DeletePropagationPolicy::Abandon.as_str())
}

/// A strategy that brings nothing back is none.
pub(super) fn mirroring(strategy: Option<ReportBackStrategy>) -> Option<ReportBackStrategy> {
    strategy.filter(|strategy| strategy.type_ == ReportBackStrategyType::Mirror)
}
