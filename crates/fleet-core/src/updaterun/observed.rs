//! The input of a run's plan: what labels, annotations and spec fields mean to a run. Objects are borrowed, not copied.

use std::collections::BTreeMap;
use std::fmt;

use fleet_api::conditions::update_run::UpdateRunInitialized;
use fleet_api::conditions::{Condition, decode_ignoring_generation};
use fleet_api::kinds::{Approval, Binding, Cluster, Member, Obj, PolicySnapshot, Scope, UpdateRun};
use fleet_api::names::RunName;
use fleet_api::types::{
    ApplyStrategy, BindingState, EmbeddedObject, NamespacedName, PlacementPolicy, UpdateRunSpec, UpdateRunStatus,
    UpdateStrategySpec,
};
use fleet_api::well_known::{annotations, finalizers, label_values, labels};
use jiff::SignedDuration;

use super::binding::MovedBy;
/// The override snapshots that a run pins on one cluster.
pub use crate::overrides::Pins as MatchedOverrides;
use crate::placement::{self, PlacementFacts};

/// The input of a plan. Lists are in any order; all objects are in the run's scope and namespace.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub run: RunFacts<'a>,
    /// The placement that the run names, if it exists.
    pub placement: Option<PlacementFacts<'a>>,
    /// All policy snapshots of that placement.
    pub policy_snapshots: Vec<PolicySnapshotFacts<'a>>,
    /// All bindings of that placement.
    pub bindings: Vec<BindingFacts<'a>>,
    /// The strategy that the run names, if it exists.
    pub strategy: Option<&'a UpdateStrategySpec>,
    /// All member clusters.
    pub members: Vec<MemberFacts<'a>>,
    /// All approval requests that are labelled with the run or have the name of one of its approvals.
    pub approvals: Vec<ApprovalFacts<'a>>,
    /// The other unfinished runs of that placement.
    pub concurrent_runs: Vec<ConcurrentRunFacts<'a>>,
    /// The input of the placement controller, from which the snapshot is chosen. Needed until the run is initialized,
    /// see [`RunFacts::is_initialized`].
    pub content: Option<&'a placement::Observed<'a>>,
    pub overrides: &'a dyn Overrides,
    /// Whether the other facts were confirmed to be at least as recent as the run. No run fails before that, because an
    /// object may be missing only from a cache.
    pub confirmed: bool,
    pub settings: Settings,
}

/// Options of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// A cluster that takes longer than this makes the run stuck.
    pub stuck_after: SignedDuration,
    /// Whether a run continues when its strategy is deleted or becomes invalid.
    pub tolerate_strategy_changes: bool,
}

impl Settings {
    /// Longer than a healthy Deployment takes to pull its images, short enough for a waiting user.
    pub const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(5);
}

impl Default for Settings {
    fn default() -> Self {
        Self { stuck_after: Self::STUCK_AFTER, tolerate_strategy_changes: false }
    }
}

/// Looks up which overrides apply. The caller implements it over its caches.
pub trait Overrides: fmt::Debug {
    /// For each of `clusters`, in their order, the snapshots that match the resources there.
    fn matching(&self, resources: &[&EmbeddedObject], clusters: &[&str]) -> Result<Vec<MatchedOverrides>, Unmatched>;
}

/// Why the overrides cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unmatched {
    /// A matching override has no snapshot yet. `name` is `namespace/name` for namespaced overrides.
    NotSnapshotted { name: String },
    /// The hub could not discover the scope of a selected kind, on which overrides depend.
    Undiscovered { kind: String },
    /// An error that the user must fix.
    Invalid(String),
}

/// A fleet without overrides.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoOverrides;

impl Overrides for NoOverrides {
    fn matching(&self, _: &[&EmbeddedObject], clusters: &[&str]) -> Result<Vec<MatchedOverrides>, Unmatched> {
        Ok(vec![MatchedOverrides::default(); clusters.len()])
    }
}

#[derive(Debug, Clone, Copy)]
pub struct RunFacts<'a> {
    /// `None` for a ClusterStagedUpdateRun.
    pub namespace: Option<&'a str>,
    pub name: &'a RunName,
    pub uid: Option<&'a str>,
    pub generation: i64,
    pub deleting: bool,
    pub has_finalizer: bool,
    pub spec: &'a UpdateRunSpec,
    /// The newest status, stored or deferred.
    pub status: Option<&'a UpdateRunStatus>,
    /// The stored status. Differs from `status` only while a status write is deferred.
    pub stored: Option<&'a UpdateRunStatus>,
}

impl<'a> RunFacts<'a> {
    pub fn of<S: Scope>(name: &'a RunName, run: &'a Obj<UpdateRun, S>) -> Self {
        Self {
            namespace: run.metadata.namespace.as_deref(),
            name,
            uid: run.metadata.uid.as_deref(),
            generation: run.generation(),
            deleting: run.is_deleting(),
            has_finalizer: run.has_finalizer(finalizers::UPDATE_RUN),
            spec: &run.spec,
            status: run.status.as_ref(),
            stored: run.status.as_ref(),
        }
    }

    /// Whether the snapshot has been chosen, so that `Observed::content` is no longer needed.
    pub fn is_initialized(&self) -> bool {
        let conditions = self.status.map_or(&[][..], |status| &status.conditions);
        decode_ignoring_generation::<UpdateRunInitialized>(conditions).current().is_some()
    }

    /// Whether the write that adds the finalizer must also store an empty index. A set field is immutable, even if it
    /// is empty; an absent field could still be set while the run progresses.
    pub fn is_index_to_be_stored(&self) -> bool {
        !self.has_finalizer && self.spec.resource_snapshot_index.is_none()
    }

    /// The generation for conditions: the one after the finalizer write, which may change the spec.
    pub(super) fn condition_generation(&self) -> i64 {
        self.generation + i64::from(self.is_index_to_be_stored())
    }

    /// `namespace/name` as in messages; `/name` for a cluster-scoped object.
    pub(super) fn key_of(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace.unwrap_or_default())
    }

    /// Like `key_of`, but without a slash for a cluster-scoped object.
    pub(super) fn reference_to(&self, name: &str) -> String {
        self.namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
    }
}

/// Another run that may update the same bindings.
#[derive(Debug, Clone, Copy)]
pub struct ConcurrentRunFacts<'a> {
    pub name: &'a str,
    pub uid: Option<&'a str>,
    /// The stored status.
    pub status: Option<&'a UpdateRunStatus>,
}

impl<'a> ConcurrentRunFacts<'a> {
    pub fn of<S: Scope>(run: &'a Obj<UpdateRun, S>) -> Self {
        Self { name: run.name(), uid: run.metadata.uid.as_deref(), status: run.status.as_ref() }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct PolicySnapshotFacts<'a> {
    pub name: &'a str,
    /// The label, absent if empty.
    pub index: Option<&'a str>,
    /// Whether it is labelled as the latest.
    pub latest: bool,
    pub policy: Option<&'a PlacementPolicy>,
    /// The annotation, unparsed.
    pub number_of_clusters: Option<&'a str>,
    pub generation: i64,
    pub conditions: &'a [Condition],
}

impl<'a> PolicySnapshotFacts<'a> {
    pub fn of<S: Scope>(snapshot: &'a Obj<PolicySnapshot, S>) -> Self {
        Self {
            name: snapshot.name(),
            index: snapshot.label(labels::POLICY_INDEX).filter(|index| !index.is_empty()),
            latest: snapshot.label(labels::IS_LATEST_SNAPSHOT) == Some(label_values::TRUE),
            policy: snapshot.spec.policy.as_ref(),
            number_of_clusters: snapshot.annotation(annotations::NUMBER_OF_CLUSTERS),
            generation: snapshot.generation(),
            conditions: snapshot.status.as_ref().map_or(&[], |status| &status.conditions),
        }
    }
}

#[derive(Debug, Clone)]
pub struct BindingFacts<'a> {
    pub name: &'a str,
    pub cluster: &'a str,
    pub deleting: bool,
    pub generation: i64,
    pub state: &'a BindingState,
    pub policy_snapshot: &'a str,
    pub resource_snapshot: &'a str,
    pub overrides: &'a [NamespacedName],
    pub cluster_overrides: &'a [String],
    pub apply_strategy: Option<&'a ApplyStrategy>,
    /// The run that updated it last.
    pub moved_by: Option<MovedBy>,
    pub conditions: &'a [Condition],
}

impl<'a> BindingFacts<'a> {
    pub fn of<S: Scope>(binding: &'a Obj<Binding, S>) -> Self {
        let spec = &binding.spec;
        Self {
            name: binding.name(),
            cluster: &spec.target_cluster,
            deleting: binding.is_deleting(),
            generation: binding.generation(),
            state: &spec.state,
            policy_snapshot: &spec.scheduling_policy_snapshot_name,
            resource_snapshot: &spec.resource_snapshot_name,
            overrides: spec.resource_override_snapshots.as_deref().unwrap_or_default(),
            cluster_overrides: spec.cluster_resource_override_snapshots.as_deref().unwrap_or_default(),
            apply_strategy: spec.apply_strategy.as_ref(),
            moved_by: binding.annotation(annotations::MOVED_BY_RUN).and_then(MovedBy::parse),
            conditions: binding.status.as_ref().map_or(&[], |status| &status.conditions),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct MemberFacts<'a> {
    pub name: &'a str,
    pub labels: &'a BTreeMap<String, String>,
}

impl<'a> MemberFacts<'a> {
    pub fn of(member: &'a Obj<Member, Cluster>) -> Self {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        Self { name: member.name(), labels: member.metadata.labels.as_ref().unwrap_or(&NONE) }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct ApprovalFacts<'a> {
    pub name: &'a str,
    pub generation: i64,
    pub deleting: bool,
    /// The run in its label, which decides about deletion.
    pub labelled_with: Option<&'a str>,
    /// The run in its spec, which decides about approval.
    pub run: &'a str,
    pub stage: &'a str,
    pub conditions: &'a [Condition],
}

impl<'a> ApprovalFacts<'a> {
    pub fn of<S: Scope>(request: &'a Obj<Approval, S>) -> Self {
        Self {
            name: request.name(),
            generation: request.generation(),
            deleting: request.is_deleting(),
            labelled_with: request.label(labels::TARGET_UPDATE_RUN),
            run: &request.spec.parent_stage_rollout,
            stage: &request.spec.target_stage,
            conditions: request.status.as_ref().map_or(&[], |status| &status.conditions),
        }
    }
}
