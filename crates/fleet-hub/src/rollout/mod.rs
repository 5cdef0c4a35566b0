//! The rolling update controller for placements of one scope; `fleet_core::rollout` plans.
//!
//! Never updates or deletes a binding without the observed resourceVersion.
//!
//! | file | what |
//! |---|---|
//! | `triggers` | maps events to placements |
//! | `observe`, `overrides` | the input of a plan, from the caches |
//! | `execute` | turns a plan into API writes |

mod execute;
mod observe;
pub(crate) mod overrides;
mod triggers;

use std::collections::BTreeMap;
use std::sync::Arc;

use fleet_api::kinds::{MemberCluster, Scope, ScopeKind};
use fleet_api::names::PlacementKey;
use fleet_core::overrides::Candidates;
use fleet_core::rollout::{LatestSnapshot, Observed, Overrides, PlacementFacts, plan};
use fleet_runtime::{Actions, Cache, Controller, Enqueuer, Error, PlanInput, ReconcileContext, Runtime, Triggers};

use crate::caches::{Caches, PlacementCaches};
use crate::keys::object_key;
use crate::names;
use crate::options::HubOptions;
use crate::placement::ClusterView;
use crate::snapshot_content::{SnapshotContentCache, group_of};
use execute::execute;
use observe::{CandidateCache, CandidateSource, KnownCandidates, latest_snapshots};
use overrides::OverrideLookup;
use triggers::{MemberTriggers, OverrideTriggers, on_binding, on_placement, on_policy_snapshot, on_snapshot};

/// Starts the controller for one scope.
pub(crate) fn start<S: Scope>(
    runtime: &mut Runtime,
    options: &HubOptions,
    caches: &Caches,
    scope: &PlacementCaches<S>,
    view: &ClusterView,
) -> Enqueuer<PlacementKey> {
    let members = MemberTriggers { members: caches.members.clone(), bindings: scope.bindings_by_cluster.clone() };
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
        contents: scope.contents.clone(),
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
        let snapshots = self.caches.resource_snapshots_by_placement.get(key);
        let bindings = self.caches.bindings_by_placement.get(key);
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
