//! Collects the cached objects that a run depends on. Resource snapshots and content are only needed until the run is
//! initialized.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleet_api::kinds::{
    Approval, Binding, MemberCluster, Obj, Placement, PolicySnapshot, Scope, Snapshot, UpdateRun, UpdateStrategy,
};
use fleet_api::names::{
    ApprovalRequestName, GatePosition, Index, PlacementKey, ResourceSnapshotName, RunName, SnapshotPart, StageName,
};
use fleet_api::types::UpdateStrategySpec;
use fleet_api::well_known::labels;
use fleet_core::placement::{self, Inventory, PlacementFacts, ResourceSnapshotFacts, SnapshotIntervals};
use fleet_core::updaterun::{
    ApprovalFacts, BindingFacts, ConcurrentRunFacts, MemberFacts, Observed, Overrides, PolicySnapshotFacts, RunFacts,
    Settings,
};
use fleet_runtime::{Cache, CacheCheck, CacheIndex, Cached, Error, ObjectKey, Reader};

use super::triggers::{Phase, strategy_of};
use super::{Facts, StagedRuns};
use crate::caches::{PlacementCaches, RunCaches};
use crate::keys::{object_key, placement_of};
use crate::placement::select_content;
use crate::snapshot_content::{GroupId, SnapshotContent, group_of, is_complete};

/// The cached objects that a run depends on.
#[derive(Debug)]
pub(super) struct Observation<S: Scope> {
    pub(super) run: Arc<Obj<UpdateRun, S>>,
    /// The run as the API server has it. Differs from `run` while a status write is deferred.
    stored: Arc<Obj<UpdateRun, S>>,
    name: RunName,
    pub(super) placement_key: Option<PlacementKey>,
    pub(super) placement: Option<Arc<Obj<Placement, S>>>,
    policy_snapshots: Vec<Arc<Obj<PolicySnapshot, S>>>,
    pub(super) resource_snapshots: Vec<Arc<Obj<Snapshot, S>>>,
    pub(super) bindings: Vec<Arc<Obj<Binding, S>>>,
    strategy: Option<Arc<Obj<UpdateStrategy, S>>>,
    pub(super) members: Vec<Arc<MemberCluster>>,
    pub(super) approvals: Vec<Arc<Obj<Approval, S>>>,
    concurrent_runs: Vec<Arc<Obj<UpdateRun, S>>>,
}

impl<S: Scope> Observation<S> {
    /// `None` if the name of the run is too long for its approval requests.
    pub(super) fn of(
        run: Arc<Obj<UpdateRun, S>>,
        runs: &RunCaches<S>,
        scope: &PlacementCaches<S>,
        members: &Cache<MemberCluster>,
    ) -> Option<Self> {
        let name = RunName::parse(run.name()).ok()?;
        let placement_key = placement_of(&*run);
        let strategy = runs.strategies.get(&strategy_of(&*run));
        let is_new = Phase::of(&*run) == Phase::New;
        Some(Self {
            placement: placement_key.as_ref().and_then(|key| scope.placements.get(&object_key(key))),
            policy_snapshots: of_placement(&scope.policy_snapshots_by_placement, placement_key.as_ref()),
            resource_snapshots: of_placement(
                &scope.resource_snapshots_by_placement,
                placement_key.as_ref().filter(|_| is_new),
            ),
            bindings: of_placement(&scope.bindings_by_placement, placement_key.as_ref()),
            members: members.list(),
            approvals: approvals(&run, runs),
            concurrent_runs: concurrent_runs(&run, placement_key.as_ref(), runs),
            placement_key,
            strategy,
            name,
            stored: runs.runs.stored(&ObjectKey::of(&*run)).unwrap_or_else(|| run.clone()),
            run,
        })
    }

    /// The placement's facts for choosing the content; `None` if they were read from another version of the placement.
    pub(super) fn content<'a>(
        &'a self,
        facts: &'a Facts<S>,
        inventory: &'a dyn Inventory,
        propagation: &'a placement::Propagation,
    ) -> Option<placement::Observed<'a>> {
        let (key, placement) = (self.placement_key.as_ref()?, self.placement.as_ref()?);
        let is_of_this = facts.content.of == Some((placement.metadata.uid.clone(), placement.generation()));
        if facts.content.of.is_some() && !is_of_this {
            return None;
        }
        let read: BTreeMap<&str, &Obj<Snapshot, S>> =
            facts.snapshots.iter().flat_map(SnapshotContent::snapshots).map(|one| (one.name(), one)).collect();
        let with_content = |cached: &'a Arc<Obj<Snapshot, S>>| {
            ResourceSnapshotFacts::of(read.get(cached.name()).copied().unwrap_or(&**cached))
        };
        Some(placement::Observed {
            placement: PlacementFacts::of(key, placement),
            policy_snapshots: Vec::new(),
            resource_snapshots: self.resource_snapshots.iter().map(with_content).collect(),
            bindings: Vec::new(),
            status_copy: placement::CopyFacts::default(),
            selection: facts.content.selection.as_ref(),
            inventory,
            propagation,
            snapshot_intervals: SnapshotIntervals::NONE,
        })
    }

    /// The input of the plan.
    pub(super) fn observed<'a>(
        &'a self,
        content: Option<&'a placement::Observed<'a>>,
        overrides: &'a dyn Overrides,
        confirmed: bool,
        settings: Settings,
    ) -> Observed<'a> {
        let placement = self.placement_key.as_ref().zip(self.placement.as_ref());
        let mut run = RunFacts::of(&self.name, &self.run);
        run.stored = self.stored.status.as_ref();
        Observed {
            run,
            placement: placement.map(|(key, placement)| PlacementFacts::of(key, placement)),
            policy_snapshots: self.policy_snapshots.iter().map(|one| PolicySnapshotFacts::of(&**one)).collect(),
            bindings: self.bindings.iter().map(|one| BindingFacts::of(&**one)).collect(),
            strategy: self.strategy.as_ref().map(|strategy| &strategy.spec),
            members: self.members.iter().map(|one| MemberFacts::of(one)).collect(),
            approvals: self.approvals.iter().map(|one| ApprovalFacts::of(&**one)).collect(),
            concurrent_runs: self.concurrent_runs.iter().map(|one| ConcurrentRunFacts::of(&**one)).collect(),
            content,
            overrides,
            confirmed,
            settings,
        }
    }
}

/// The objects of a placement; none without a placement.
fn of_placement<K: Cached>(index: &CacheIndex<K, PlacementKey>, placement: Option<&PlacementKey>) -> Vec<Arc<K>> {
    placement.map(|placement| index.get(placement)).unwrap_or_default()
}

/// The other unfinished runs of the placement, as the API server has them.
fn concurrent_runs<S: Scope>(
    run: &Obj<UpdateRun, S>,
    placement: Option<&PlacementKey>,
    caches: &RunCaches<S>,
) -> Vec<Arc<Obj<UpdateRun, S>>> {
    let keys = placement.map(|placement| caches.runs_by_placement.keys(placement)).unwrap_or_default();
    let mut others: Vec<_> = keys.iter().filter_map(|key| caches.runs.stored(key)).collect();
    others.retain(|other| other.metadata.uid != run.metadata.uid && !other.is_deleting());
    others
}

/// Requests that are labelled with the run, and those with the name of one of its approvals.
pub(super) fn approvals<S: Scope>(run: &Obj<UpdateRun, S>, runs: &RunCaches<S>) -> Vec<Arc<Obj<Approval, S>>> {
    let mut found = BTreeMap::new();
    for request in runs.approvals_by_run.get(&ObjectKey::of(run)) {
        found.insert(ObjectKey::of(&*request), request);
    }
    let Ok(name) = RunName::parse(run.name()) else { return Vec::new() };
    let strategy = runs.strategies.get(&strategy_of(run));
    let recorded = run.status.as_ref().and_then(|status| status.staged_update_strategy_snapshot.as_ref());
    let specs: [Option<&UpdateStrategySpec>; 2] = [recorded, strategy.as_ref().map(|strategy| &strategy.spec)];
    for stage in specs.into_iter().flatten().flat_map(|spec| &spec.stages) {
        let Ok(stage) = StageName::parse(&stage.name) else { continue };
        for position in [GatePosition::Before, GatePosition::After] {
            let gate = ApprovalRequestName { run: name.clone(), position, stage: stage.clone() };
            let key = ObjectKey::new(run.metadata.namespace.as_deref(), &gate.to_string());
            if let Some(request) = runs.approvals.get(&key) {
                found.insert(key, request);
            }
        }
    }
    found.into_values().collect()
}

/// The parts of caches that a run depends on. They are compared with the API server before the run fails because an
/// object is missing or does not match.
pub(super) fn prerequisites<S: Scope>(
    run: &Obj<UpdateRun, S>,
    runs: &RunCaches<S>,
    scope: &PlacementCaches<S>,
    members: &Cache<MemberCluster>,
) -> Vec<CacheCheck> {
    let mut checks = vec![CacheCheck::object(&runs.strategies, strategy_of(run))];
    let all_members = members.clone();
    checks.push(CacheCheck::labelled(members, None, None, move || all_members.keys()));
    // A request that is not cached may have the name of an approval and belong to another run.
    let requests = approvals(run, runs);
    checks.extend(requests.iter().map(|one| CacheCheck::object(&runs.approvals, ObjectKey::of(&**one))));
    let Some(placement) = placement_of(run) else { return checks };
    checks.push(CacheCheck::object(&scope.placements, object_key(&placement)));
    checks.extend(snapshot_key(run, &placement).map(|key| CacheCheck::object(&scope.resource_snapshots, key)));
    let selector = format!("{}={}", labels::PARENT_PLACEMENT, placement.name);
    let namespace = run.metadata.namespace.as_deref();
    let (policies, of_policies) = (scope.policy_snapshots_by_placement.clone(), placement.clone());
    let policies = move || policies.keys(&of_policies);
    checks.push(CacheCheck::labelled(&scope.policy_snapshots, namespace, Some(selector.clone()), policies));
    let bindings = scope.bindings_by_placement.clone();
    let bindings = move || bindings.keys(&placement);
    checks.push(CacheCheck::labelled(&scope.bindings, namespace, Some(selector), bindings));
    checks
}

/// The master snapshot of the index that the run names, if it names one.
fn snapshot_key<S: Scope>(run: &Obj<UpdateRun, S>, placement: &PlacementKey) -> Option<ObjectKey> {
    let index = Index::parse(run.spec.resource_snapshot_index())?;
    let name = ResourceSnapshotName { placement: placement.name.clone(), index, part: SnapshotPart::Master };
    Some(ObjectKey::new(run.metadata.namespace.as_deref(), &name.to_string()))
}

impl<S: Scope> StagedRuns<S> {
    /// Reads what an uninitialized run needs to choose its content.
    pub(super) async fn read_content(
        &self,
        run: &Obj<UpdateRun, S>,
        reader: &Reader,
        facts: &mut Facts<S>,
    ) -> Result<(), Error> {
        let Some(key) = placement_of(run) else { return Ok(()) };
        let Some(placement) = self.scope.placements.get(&object_key(&key)) else { return Ok(()) };
        let snapshots = self.scope.resource_snapshots_by_placement.get(&key);
        let index = Index::parse(run.spec.resource_snapshot_index());
        let is_there = index.is_some_and(|index| is_complete(&group(&snapshots, &key, index)));
        if !is_there {
            // Read from the API server: the placement may have changed together with the run. The run waits until the
            // cache has the same version.
            let newest: Option<Obj<Placement, S>> = reader.get_as(&object_key(&key)).await?;
            let placement = newest.as_ref().unwrap_or(&*placement);
            facts.content = select_content(&self.view, &key, placement, reader).await?;
        }
        let newest = || snapshots.iter().filter_map(|one| index_of(one)).max();
        if let Some(index) = index.or_else(newest)
            && !self.override_lookup.of_placement(&key).is_empty()
        {
            let group = GroupId::of(group(&snapshots, &key, index));
            facts.snapshots = Some(self.contents.read(group, reader).await?);
        }
        Ok(())
    }
}

/// The snapshots of this index, the master first.
fn group<'a, S: Scope>(
    snapshots: &'a [Arc<Obj<Snapshot, S>>],
    placement: &PlacementKey,
    index: Index,
) -> Vec<&'a Obj<Snapshot, S>> {
    let master = ResourceSnapshotName { placement: placement.name.clone(), index, part: SnapshotPart::Master };
    group_of(snapshots, &master.to_string())
}

fn index_of<S: Scope>(snapshot: &Obj<Snapshot, S>) -> Option<Index> {
    snapshot.metadata.labels.as_ref()?.get(labels::RESOURCE_INDEX).and_then(|index| Index::parse(index))
}
