//! Maps events of watched objects to the unfinished runs that depend on them, through indexes.

use std::collections::BTreeSet;
use std::fmt;

use fleet_api::conditions::decode_ignoring_generation;
use fleet_api::conditions::update_run::{UpdateRunInitialized, UpdateRunSucceeded};
use fleet_api::kinds::{
    Approval, Binding, Family, MemberCluster, Obj, Placement, PolicySnapshot, Scope, UpdateRun, UpdateStrategy,
};
use fleet_api::names::{ApprovalRequestName, PlacementKey};
use fleet_api::well_known::{annotations, labels};
use fleet_runtime::{Event, ObjectKey, Triggers};

use crate::caches::{Caches, PlacementCaches, RunCaches};
use crate::keys::{key_of, parent_of, placement_of};
use crate::placement::ClusterView;

/// Phase of a run, for indexes and triggers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not initialized.
    New,
    Active,
    /// Succeeded or failed.
    Finished,
}

/// Unfinished runs, as an index groups them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfinished {
    All,
    /// Not initialized.
    New,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Phase {
    pub(crate) fn of<S: Scope>(run: &Obj<UpdateRun, S>) -> Self {
        let conditions = run.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let initialized = decode_ignoring_generation::<UpdateRunInitialized>(conditions);
        if initialized.current().is_none() {
            Self::New
        } else if initialized.is_false()
            || decode_ignoring_generation::<UpdateRunSucceeded>(conditions).current().is_some()
        {
            Self::Finished
        } else {
            Self::Active
        }
    }

    pub(crate) fn index_values(self) -> &'static [Unfinished] {
        match self {
            Self::New => &[Unfinished::New, Unfinished::All],
            Self::Active => &[Unfinished::All],
            Self::Finished => &[],
        }
    }
}

/// The key of the run's strategy.
pub(crate) fn strategy_of<S: Scope>(run: &Obj<UpdateRun, S>) -> ObjectKey {
    ObjectKey::new(run.metadata.namespace.as_deref(), &run.spec.staged_update_strategy_name)
}

/// The run itself. The controller's own status writes also enqueue it; planning then finds nothing to do.
pub(super) fn on_run<S: Scope>(event: Event<'_, Obj<UpdateRun, S>>) -> Option<ObjectKey> {
    let relevant = |run: &Obj<UpdateRun, S>| (run.generation(), run.is_deleting());
    let is_relevant =
        event.changed(relevant) || event.changed(|run| &run.metadata.finalizers) || event.changed(|run| &run.status);
    is_relevant.then(|| event.key())
}

/// Maps events to keys of runs of one scope.
#[derive(Debug, Clone)]
pub(super) struct RunTriggers<S: Scope>(pub(super) RunCaches<S>);

impl<S: Scope> RunTriggers<S> {
    /// Runs that are not initialized.
    pub(super) fn new_runs(&self) -> Vec<ObjectKey> {
        self.0.unfinished_runs.keys(&Unfinished::New)
    }

    fn of_placements(&self, placements: impl Iterator<Item = PlacementKey>) -> BTreeSet<ObjectKey> {
        placements.flat_map(|placement| self.0.runs_by_placement.keys(&placement)).collect()
    }

    /// The runs of the placement that the old or the new version of the object belongs to. The placement of an
    /// undecodable object is unknown, so all open runs are enqueued: one may wait for its removal.
    fn of_versions<F: Family>(
        &self,
        event: Event<'_, Obj<F, S>>,
        placement: impl Fn(&Obj<F, S>) -> Option<PlacementKey>,
    ) -> BTreeSet<ObjectKey> {
        if event.is_of_unreadable() {
            return self.0.unfinished_runs.keys(&Unfinished::All).into_iter().collect();
        }
        self.of_placements(event.versions().filter_map(placement))
    }

    /// Other runs of the same placement wait for the stored status of a run and for its end.
    pub(super) fn by_concurrent_run(&self, event: Event<'_, Obj<UpdateRun, S>>) -> BTreeSet<ObjectKey> {
        let mut affected = self.of_placements(event.versions().filter_map(placement_of));
        affected.remove(&event.key());
        // Usually there are no others; comparing statuses is expensive.
        let is_relevant = || event.changed(Obj::is_deleting) || event.changed(|run| &run.status);
        if !affected.is_empty() && is_relevant() { affected } else { BTreeSet::new() }
    }

    pub(super) fn by_placement(&self, event: Event<'_, Obj<Placement, S>>) -> BTreeSet<ObjectKey> {
        let relevant = |placement: &Obj<Placement, S>| (placement.generation(), placement.is_deleting());
        if !event.changed(relevant) {
            return BTreeSet::new();
        }
        self.of_versions(event, key_of)
    }

    pub(super) fn by_policy_snapshot(&self, event: Event<'_, Obj<PolicySnapshot, S>>) -> BTreeSet<ObjectKey> {
        if !is_snapshot_changed(event) && !event.changed(|snapshot| &snapshot.status) {
            return BTreeSet::new();
        }
        self.of_versions(event, parent_of)
    }

    /// Only runs that have not chosen a resource snapshot.
    pub(super) fn by_resource_snapshot<F: Family>(&self, event: Event<'_, Obj<F, S>>) -> BTreeSet<ObjectKey> {
        if !is_snapshot_changed(event) {
            return BTreeSet::new();
        }
        let mut affected = self.of_versions(event, parent_of);
        let new: BTreeSet<ObjectKey> = self.new_runs().into_iter().collect();
        affected.retain(|run| new.contains(run));
        affected
    }

    pub(super) fn by_binding(&self, event: Event<'_, Obj<Binding, S>>) -> BTreeSet<ObjectKey> {
        let marks = |binding: &Obj<Binding, S>| (binding.generation(), binding.is_deleting(), parent_of(binding));
        let is_relevant = event.changed(|binding| &binding.spec)
            || event.changed(marks)
            || event.changed(|binding| binding.annotation(annotations::MOVED_BY_RUN))
            || event.changed(|binding| binding.status.as_ref().map(|status| &status.conditions));
        if !is_relevant {
            return BTreeSet::new();
        }
        self.of_versions(event, parent_of)
    }

    pub(super) fn by_strategy(&self, event: Event<'_, Obj<UpdateStrategy, S>>) -> Vec<ObjectKey> {
        if !event.changed(|strategy| &strategy.spec) {
            return Vec::new();
        }
        self.0.runs_by_strategy.keys(&event.key())
    }

    /// The runs in the request's label, in its spec and in its name.
    pub(super) fn by_approval(&self, event: Event<'_, Obj<Approval, S>>) -> BTreeSet<ObjectKey> {
        let is_relevant = event.changed(Obj::is_deleting)
            || event.changed(|request| &request.metadata.labels)
            || event.changed(|request| request.status.as_ref().map(|status| &status.conditions))
            || event.changed(|request| &request.spec);
        if !is_relevant {
            return BTreeSet::new();
        }
        let runs = |request: &Obj<Approval, S>| -> Vec<ObjectKey> {
            let label = request.metadata.labels.as_ref().and_then(|all| all.get(labels::TARGET_UPDATE_RUN)).cloned();
            let from_name = ApprovalRequestName::parse(request.name()).map(|name| name.run.to_string());
            let names = [label, from_name, Some(request.spec.parent_stage_rollout.clone())];
            let namespace = request.metadata.namespace.as_deref();
            names.into_iter().flatten().map(|name| ObjectKey::new(namespace, &name)).collect()
        };
        let mut affected: BTreeSet<ObjectKey> = event.versions().flat_map(runs).collect();
        affected.retain(|run| self.0.runs.get(run).is_some_and(|run| Phase::of(&*run) != Phase::Finished));
        affected
    }

    /// Only labels and existence of members matter to runs.
    pub(super) fn by_member(&self, event: Event<'_, MemberCluster>) -> Vec<ObjectKey> {
        if !event.changed(|member| member.metadata.labels.as_ref().filter(|labels| !labels.is_empty())) {
            return Vec::new();
        }
        self.0.unfinished_runs.keys(&Unfinished::All)
    }
}

fn is_snapshot_changed<F: Family, S: Scope>(event: Event<'_, Obj<F, S>>) -> bool {
    let relevant = |snapshot: &Obj<F, S>| (snapshot.generation(), snapshot.is_deleting(), parent_of(snapshot));
    event.changed(relevant)
        || event.changed(|snapshot| &snapshot.metadata.labels)
        || event.changed(|snapshot| snapshot.annotation(annotations::NUMBER_OF_CLUSTERS))
}

pub(super) fn triggers<S: Scope>(
    run_triggers: &RunTriggers<S>,
    caches: &Caches,
    scope: &PlacementCaches<S>,
    runs: &RunCaches<S>,
    view: &ClusterView,
) -> Triggers<ObjectKey> {
    /// Makes a trigger from a method of `RunTriggers`.
    macro_rules! trigger {
        ($method:ident) => {{
            let run_triggers = run_triggers.clone();
            move |event| run_triggers.$method(event)
        }};
    }
    let new = || {
        let run_triggers = run_triggers.clone();
        move || run_triggers.new_runs()
    };
    let (of_kinds, of_complete) = (new(), new());
    let (cluster_overrides, overrides) = (&caches.cluster_overrides, &caches.overrides);
    let (of_cluster_overrides, of_overrides) = (new(), new());
    let (of_cluster_snapshots, of_snapshots) = (new(), new());
    Triggers::new()
        .on(&runs.runs, on_run)
        .on(&runs.runs, trigger!(by_concurrent_run))
        .on(&runs.strategies, trigger!(by_strategy))
        .on(&runs.approvals, trigger!(by_approval))
        .on(&scope.placements, trigger!(by_placement))
        .on(&scope.policy_snapshots, trigger!(by_policy_snapshot))
        .on(&scope.resource_snapshots, trigger!(by_resource_snapshot))
        .on(&scope.bindings, trigger!(by_binding))
        .on(&caches.members, trigger!(by_member))
        .on(&cluster_overrides.snapshots, move |_| of_cluster_snapshots())
        .on(&overrides.snapshots, move |_| of_snapshots())
        .on(&cluster_overrides.overrides, move |_| of_cluster_overrides())
        .on(&overrides.overrides, move |_| of_overrides())
        .on_complete(view.metadata(), move |_| of_complete())
        .on_discovery(view.discovery(), of_kinds)
}
