//! The rolling update controller for placements of one scope. `fleet_core::rollout` plans; `triggers` maps events to
//! placements, `overrides` looks up overrides.
//!
//! Never updates or deletes a binding without the observed resourceVersion.

pub(crate) mod overrides;
mod triggers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fleet_api::kinds::{Binding, MemberCluster, Obj, Placement, Scope, ScopeKind, Snapshot};
use fleet_api::names::PlacementKey;
use fleet_api::types::{DeletePropagationPolicy, RolloutStrategyType};
use fleet_api::well_known::annotations;
use fleet_core::overrides::{Candidates, Scopes};
use fleet_core::plan::ObjectWrite as _;
use fleet_core::rollout::{
    BindingFacts, LatestSnapshot, Observed, Overrides, PlacementFacts, Plan, RolloutOutcome, Write as Planned, plan,
    set_rollout_started,
};
use fleet_runtime::{
    Actions, Cache, Controller, Enqueuer, Error, ObjectKey, PlanInput, PlanResult, ReconcileContext, Runtime, Triggers,
    Write,
};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::caches::{Caches, PlacementCaches, by};
use crate::keys::object_key;
use crate::membership::changed;
use crate::meta;
use crate::names;
use crate::options::HubOptions;
use crate::placement::ClusterView;
use crate::snapshot_content::{GroupId, SnapshotContentCache, group_of, is_complete};
use overrides::{OverrideLookup, PlacementOverrides};
use triggers::{
    MemberTriggers, OverrideTriggers, decided_for, on_binding, on_placement, on_policy_snapshot, on_snapshot,
};

/// How long the RolloutStarted condition may be deferred. Longer than the window of the work generator
/// (`STATUS_WINDOW`), whose status write usually sets RolloutStarted too.
pub(crate) const ROLLOUT_STARTED_WINDOW: Duration = Duration::from_secs(2);

/// Starts the controller for one scope.
pub(crate) fn start<S: Scope>(
    runtime: &mut Runtime,
    options: &HubOptions,
    caches: &Caches,
    scope: &PlacementCaches<S>,
    view: &ClusterView,
) -> Enqueuer<PlacementKey> {
    let members = MemberTriggers { members: caches.members.clone(), bindings: scope.bindings.clone() };
    let override_triggers = || OverrideTriggers { placements: scope.placements.clone() };
    let (cluster_snapshots, snapshots, cluster_overrides, namespaced_overrides) =
        (override_triggers(), override_triggers(), override_triggers(), override_triggers());
    let candidate_cache = CandidateCache::default();
    let (candidates, kinds) = (candidate_cache.clone(), view.clone());
    let triggers = Triggers::new()
        .on(&scope.placements, on_placement)
        .on(&scope.policy_snapshots, on_policy_snapshot)
        .on(&scope.resource_snapshots, on_snapshot)
        .on(&scope.bindings, on_binding)
        .on(&caches.members, move |event| members.on_member(event))
        .on(&caches.cluster_overrides.snapshots, move |event| cluster_snapshots.on_snapshot(event))
        .on(&caches.overrides.snapshots, move |event| snapshots.on_snapshot(event))
        .on(&caches.cluster_overrides.overrides, move |event| cluster_overrides.on_override(event))
        .on(&caches.overrides.overrides, move |event| namespaced_overrides.on_override(event))
        .on_discovery(view.discovery(), move || candidates.outdated(&kinds.scopes()));
    let rollouts = Rollouts {
        caches: scope.clone(),
        members: caches.members.clone(),
        override_lookup: OverrideLookup {
            cluster: caches.cluster_overrides.clone(),
            namespaced: caches.overrides.clone(),
        },
        view: view.clone(),
        contents: SnapshotContentCache::default(),
        candidate_cache,
    };
    runtime.controller(rollouts, triggers, options.rollout_workers())
}

struct Rollouts<S: Scope> {
    caches: PlacementCaches<S>,
    members: Cache<MemberCluster>,
    override_lookup: OverrideLookup,
    view: ClusterView,
    contents: SnapshotContentCache<S>,
    candidate_cache: CandidateCache,
}

/// Override candidates of the latest snapshots, by placement. Only names are kept.
#[derive(Debug, Clone, Default)]
struct CandidateCache(Arc<Mutex<BTreeMap<PlacementKey, KnownCandidates>>>);

impl CandidateCache {
    fn keep(&self, key: &PlacementKey, known: &KnownCandidates) {
        self.0.lock().insert(key.clone(), known.clone());
    }

    fn forget(&self, key: &PlacementKey) {
        self.0.lock().remove(key);
    }

    /// The remembered candidates of this group, unless the kinds on the hub have changed.
    fn of(&self, key: &PlacementKey, group: &GroupId, scopes: &dyn Scopes) -> Option<KnownCandidates> {
        self.0.lock().get(key).filter(|known| known.group == *group && known.candidates.are_current(scopes)).cloned()
    }

    /// Placements whose candidates are outdated because the kinds on the hub have changed.
    fn outdated(&self, scopes: &dyn Scopes) -> Vec<PlacementKey> {
        let known = self.0.lock();
        known.iter().filter(|(_, one)| !one.candidates.are_current(scopes)).map(|(key, _)| key.clone()).collect()
    }
}

/// Override candidates of one group of snapshots.
#[derive(Debug, Clone)]
struct KnownCandidates {
    group: GroupId,
    candidates: Arc<Candidates>,
}

/// How to get the override candidates.
enum CandidateSource {
    Nothing,
    Known(KnownCandidates),
    Read(GroupId),
}

impl<S: Scope> Controller for Rollouts<S> {
    const NAME: &'static str = match S::KIND {
        ScopeKind::Cluster => names::CLUSTER_ROLLOUT,
        ScopeKind::Namespaced => names::NAMESPACED_ROLLOUT,
    };
    type Key = PlacementKey;
    /// `fetch` puts the override candidates into `candidate_cache`.
    type Facts = ();

    async fn fetch(&self, key: &PlacementKey, context: &ReconcileContext<'_>) -> Result<(), Error> {
        if let CandidateSource::Read(group) = self.candidate_source(key) {
            let content = self.contents.read(group.clone(), context.reader()).await?;
            let resources = content.snapshots().iter().flat_map(|one| &one.spec.selected_resources);
            let candidates = Arc::new(Candidates::of(resources, &self.view.scopes()));
            self.candidate_cache.keep(key, &KnownCandidates { group, candidates });
        }
        Ok(())
    }

    fn plan(&self, key: &PlacementKey, _: Option<()>, input: PlanInput) -> Actions {
        let Some(placement) = self.caches.placements.get(&object_key(key)) else {
            self.candidate_cache.forget(key);
            return Actions::none();
        };
        let known = match self.candidate_source(key) {
            CandidateSource::Nothing => None,
            CandidateSource::Known(known) => Some(known),
            CandidateSource::Read(_) => return Actions::needs_facts(),
        };
        if let Some(known) = &known {
            self.candidate_cache.keep(key, known);
        }
        let snapshots = self.caches.resource_snapshots.by(by::PLACEMENT, &key.to_string());
        let bindings = self.caches.bindings.by(by::PLACEMENT, &key.to_string());
        let marked = latest_snapshots(&snapshots);
        let latest = LatestSnapshot::of(&marked);
        let placement_overrides = self.override_lookup.of_placement(key);
        let clusters = bindings.iter().map(|binding| binding.spec.target_cluster.as_str());
        let observed = Observed {
            placement: PlacementFacts::of(&*placement),
            scheduled: self.is_scheduled(key, &placement),
            snapshot: latest,
            overrides: match latest {
                LatestSnapshot::One(master) if !placement_overrides.is_empty() => {
                    self.overrides(key, &placement_overrides, &group_of(&snapshots, master), known.as_ref(), clusters)
                }
                _ => Overrides::Matched(BTreeMap::new()),
            },
            bindings: bindings.iter().map(|binding| self.facts(binding)).collect(),
        };
        let plan = plan(&observed, input.now);
        let bindings = bindings.iter().map(|binding| (binding.name(), &**binding)).collect();
        execute(&plan, &bindings, input.now)
    }
}

impl<S: Scope> Rollouts<S> {
    fn candidate_source(&self, key: &PlacementKey) -> CandidateSource {
        let is_rolling = |placement: &Obj<Placement, S>| {
            !placement.is_deleting() && placement.spec.strategy_type() == RolloutStrategyType::RollingUpdate
        };
        let is_rolling = self.caches.placements.get(&object_key(key)).is_some_and(|placement| is_rolling(&placement));
        if !is_rolling || self.override_lookup.of_placement(key).is_empty() {
            return CandidateSource::Nothing;
        }
        let snapshots = self.caches.resource_snapshots.by(by::PLACEMENT, &key.to_string());
        let LatestSnapshot::One(master) = LatestSnapshot::of(&latest_snapshots(&snapshots)) else {
            return CandidateSource::Nothing;
        };
        let group = group_of(&snapshots, master);
        if !is_complete(&group) {
            return CandidateSource::Nothing;
        }
        let id = GroupId::of(group.iter().copied());
        let scopes = self.view.scopes();
        if let Some(known) = self.candidate_cache.of(key, &id, &scopes) {
            return CandidateSource::Known(known);
        }
        // The cached names are sufficient unless the group has envelopes.
        if group[0].annotation(annotations::NUMBER_OF_ENVELOPES).is_none_or(|count| count != "0") {
            return CandidateSource::Read(id);
        }
        let resources = group.iter().flat_map(|one| &one.spec.selected_resources);
        CandidateSource::Known(KnownCandidates { group: id, candidates: Arc::new(Candidates::of(resources, &scopes)) })
    }

    /// Whether the scheduler has decided for the latest generation of the placement. It reports that after it has
    /// written the bindings.
    fn is_scheduled(&self, key: &PlacementKey, placement: &Obj<Placement, S>) -> bool {
        let snapshots = self.caches.policy_snapshots.by(by::PLACEMENT, &key.to_string());
        let mut latest = snapshots.iter().filter(|one| meta::is_latest(&***one) && !one.is_deleting());
        latest.any(|one| decided_for(one) >= Some(placement.generation()))
    }

    /// A member that cannot be decoded still exists.
    fn facts<'a>(&self, binding: &'a Obj<Binding, S>) -> BindingFacts<'a> {
        let member = ObjectKey::cluster(binding.spec.target_cluster.as_str());
        BindingFacts::of(binding)
            .with_cluster_gone(self.members.get(&member).is_none() && !self.members.is_unreadable(&member))
    }

    /// The overrides of each cluster, if the candidates of this group and the scopes of their kinds are known.
    fn overrides<'a>(
        &self,
        key: &PlacementKey,
        placement_overrides: &'a PlacementOverrides,
        group: &[&Obj<Snapshot, S>],
        known: Option<&KnownCandidates>,
        clusters: impl Iterator<Item = &'a str>,
    ) -> Overrides<'a> {
        let is_usable = |known: &&KnownCandidates| {
            known.group == GroupId::of(group.iter().copied()) && known.candidates.undiscovered_kind().is_none()
        };
        match known.filter(is_usable) {
            Some(known) => placement_overrides.matched(key, &known.candidates, clusters, &self.members),
            None => Overrides::Unknown,
        }
    }
}

fn latest_snapshots<S: Scope>(snapshots: &[Arc<Obj<Snapshot, S>>]) -> Vec<&Obj<Snapshot, S>> {
    let latest = |one: &&Obj<Snapshot, S>| meta::is_latest(*one) && !one.is_deleting();
    snapshots.iter().map(Arc::as_ref).filter(latest).collect()
}

/// Turns a plan into API writes.
fn execute<S: Scope>(plan: &Plan, bindings: &BTreeMap<&str, &Obj<Binding, S>>, now: Timestamp) -> Actions {
    let mut actions = Actions::none().with_wake(plan.wake);
    let changed_bindings: BTreeSet<&str> =
        plan.writes.iter().filter(|write| !write.is_deferrable()).map(|write| write.object().1).collect();
    for planned in &plan.writes {
        // A changed binding gets a new generation; the next plan sets its condition.
        if planned.is_deferrable() && changed_bindings.contains(planned.object().1) {
            continue;
        }
        if let Some(binding) = bindings.get(planned.object().1) {
            actions.write(to_write(planned, binding, now));
        }
    }
    actions.note = Some(format!("{:?}", plan.report.outcome));
    if let RolloutOutcome::Stopped(fault) = &plan.report.outcome {
        actions.result = PlanResult::blocked(fault);
    }
    actions
}

fn to_write<S: Scope>(planned: &Planned, binding: &Obj<Binding, S>, now: Timestamp) -> Write {
    match planned {
        Planned::SetApplyStrategy { strategy, .. } => {
            changed(binding, |binding| binding.spec.apply_strategy = Some(strategy.clone()))
        }
        Planned::Move(content) => changed(binding, |binding| content.apply_to(&mut binding.spec)),
        Planned::Remove { .. } => {
            Write::delete(binding).of_version(binding.metadata.resource_version.clone().unwrap_or_default())
        }
        Planned::Abandon { .. } => changed(binding, |binding| {
            let word = DeletePropagationPolicy::Abandon.as_str().to_owned();
            meta::annotate(binding, annotations::DELETE_PROPAGATION, word);
        }),
        Planned::SetRolloutStarted { started, .. } => {
            let mut updated = binding.clone();
            let conditions = &mut updated.status.get_or_insert_default().conditions;
            set_rollout_started(conditions, started, binding.generation(), now);
            Write::status(binding, &updated).deferrable(ROLLOUT_STARTED_WINDOW)
        }
    }
}
