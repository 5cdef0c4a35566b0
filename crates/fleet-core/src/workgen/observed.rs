//! The input of a binding's plan. Objects are borrowed, not copied. The manifests of Works are not read, so caches need
//! not keep them.

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

/// The input of a plan. Lists are in any order.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub placement: &'a PlacementKey,
    pub binding: BindingFacts<'a>,
    /// The member that the binding is for; `None` if there is no such MemberCluster.
    pub cluster: Option<Target<'a>>,
    /// Whether that member is leaving the fleet. It keeps its workloads.
    pub leaving: bool,
    /// The namespace of the member's Works.
    pub namespace: &'a MemberNamespace,
    /// All Works of the placement in that namespace, including those of earlier bindings.
    pub works: Vec<WorkFacts<'a>>,
    /// At least the resource snapshots of the group that the binding names.
    pub snapshots: Vec<ResourceSnapshotFacts<'a>>,
    pub content: ContentDepth,
    /// At least the override snapshots that the binding names.
    pub overrides: Vec<SnapshotFacts<'a>>,
    pub report_back: ReportBack,
    pub start: RolloutStart,
    /// The API server's message if it rejected the Works of the previous plan.
    pub rejection: Option<&'a str>,
    pub scopes: &'a dyn Scopes,
}

/// How much of the snapshots' resources was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentDepth {
    /// Only kinds and names, which is enough if no Work must be written.
    Identities,
    Whole,
}

/// Whether members report back the status of applied objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportBack {
    /// The placement does not exist; Works keep their strategy.
    Unknown,
    As(Option<ReportBackStrategy>),
}

/// Who sets the RolloutStarted condition of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutStart {
    /// The rollout. Until then a Bound binding gets no Works. A staged run may instead annotate the binding
    /// (`annotations::MOVED_BY_RUN`), and this plan sets the condition, which saves a write.
    SetByRollout,
    /// A rolling update that set the latest snapshot implies it. This plan sets the condition together with the rest of
    /// the status, which saves a write.
    ImpliedByBinding,
}

#[derive(Debug, Clone, Copy)]
pub struct BindingFacts<'a> {
    pub name: &'a str,
    pub generation: i64,
    pub deleting: bool,
    pub has_finalizer: bool,
    /// Whether it has the annotation that its resources stay on the cluster.
    pub abandoned: bool,
    /// The annotation of the staged run that updated it, unparsed.
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
            name: binding.name(),
            generation: binding.generation(),
            deleting: binding.is_deleting(),
            has_finalizer: binding.has_finalizer(finalizers::WORK),
            abandoned: is_abandoned(&binding.metadata),
            moved_by_run: moved_by_annotation(&binding.metadata),
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

    /// Whether the strategy is ReportDiff.
    pub(super) fn only_reports_diff(&self) -> bool {
        self.apply_strategy.is_some_and(|strategy| strategy.strategy_type() == ApplyStrategyType::ReportDiff)
    }
}

#[derive(Debug, Clone)]
pub struct WorkFacts<'a> {
    pub name: &'a str,
    pub generation: i64,
    pub deleting: bool,
    /// Whether it has the annotation that its objects stay on the member.
    pub abandoned: bool,
    /// Name of its binding; empty if the label is missing.
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
            abandoned: is_abandoned(metadata),
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

fn moved_by_annotation(metadata: &ObjectMeta) -> Option<&str> {
    metadata.annotations.as_ref()?.get(annotations::MOVED_BY_RUN).map(String::as_str)
}

fn is_abandoned(metadata: &ObjectMeta) -> bool {
    let policy = metadata.annotations.as_ref().and_then(|all| all.get(annotations::DELETE_PROPAGATION));
    policy.is_some_and(|word| word == DeletePropagationPolicy::Abandon.as_str())
}

/// The strategy, if it reports a status back.
pub(super) fn mirroring(strategy: Option<ReportBackStrategy>) -> Option<ReportBackStrategy> {
    strategy.filter(|strategy| strategy.type_ == ReportBackStrategyType::Mirror)
}
