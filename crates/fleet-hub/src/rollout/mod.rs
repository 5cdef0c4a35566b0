//! Runs rolling updates for placements of one scope.
//!
//! Decides what is observed, what is read for it and how each write of a plan becomes a request; `changes` has what wakes
//! it. A binding is moved or removed only as it was observed. That a rollout has started or is held back is told only if
//! it stays so for a moment: the work generator says the former itself, together with all else it has to say. Never decides
//! who moves: that is `fleet_core::rollout`.

mod changes;
pub(crate) mod overriding;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fleet_api::kinds::{Binding, MemberCluster, Obj, Placement, Scope, ScopeKind, Snapshot};
use fleet_api::names::PlacementKey;
use fleet_api::types::{DeletePropagationPolicy, RolloutStrategyType};
use fleet_api::well_known::annotations;
use fleet_core::overrides::{Candidates, Scopes};
use fleet_core::plan::{ObjectWrite as _, Wake};
use fleet_core::rollout::{
    BindingFacts, LatestSnapshot, Observed, Outcome, Overrides, PlacementFacts, Plan, Write as Planned, announce, plan,
};
use fleet_runtime::{
    Actions, Cache, Controller, Error, Look, Marks, Moment, Next, ObjectKey, Reader, Runtime, Triggers, Write,
};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::caches::{Caches, PlacementCaches, by};
use crate::contents::{Contents, GroupId, group_of, is_complete};
use crate::keys::object_key;
use crate::membership::changed;
use crate::meta;
use crate::names;
use crate::options::HubOptions;
use crate::placement::World;
use changes::{MemberChanges, OverrideChanges, on_binding, on_placement, on_snapshot};
use overriding::{Held, Overriding};

/// How long it may take until a binding says how its rollout stands. A step that takes no longer is not told of. Longer than
/// the work generator waits (`INTERIM_WINDOW`): what that tells says by the way that the rollout has started.
pub(crate) const ANNOUNCEMENT_WINDOW: Duration = Duration::from_secs(2);

/// Starts the controller for one scope.
pub(crate) fn start<S: Scope>(
    runtime: &mut Runtime,
    options: &HubOptions,
    caches: &Caches,
    scope: &PlacementCaches<S>,
    world: &World,
) -> Marks<PlacementKey> {
    let members = MemberChanges { members: caches.members.clone(), bindings: scope.bindings.clone() };
    let changes = || OverrideChanges { placements: scope.placements.clone() };
    let (frozen_cluster, frozen, live_cluster, live) = (changes(), changes(), changes(), changes());
    let memory = Memory::default();
    let (remembered, kinds) = (memory.clone(), world.clone());
    let triggers = Triggers::new()
        .on(&scope.placements, on_placement)
        .on(&scope.resource_snapshots, on_snapshot)
        .on(&scope.bindings, on_binding)
        .on(&caches.members, move |event| members.concerned(event))
        .on(&caches.cluster_overrides.snapshots, move |event| frozen_cluster.on_snapshot(event))
        .on(&caches.overrides.snapshots, move |event| frozen.on_snapshot(event))
        .on(&caches.cluster_overrides.overrides, move |event| live_cluster.on_override(event))
        .on(&caches.overrides.overrides, move |event| live.on_override(event))
        .on_discovery(world.discovery(), move || remembered.outdated(&kinds.scopes()));
    let rollouts = Rollouts {
        caches: scope.clone(),
        members: caches.members.clone(),
        overriding: Overriding { cluster: caches.cluster_overrides.clone(), namespaced: caches.overrides.clone() },
        world: world.clone(),
        contents: Contents::default(),
        memory,
    };
    runtime.controller(rollouts, triggers, options.rollout_workers())
}

struct Rollouts<S: Scope> {
    caches: PlacementCaches<S>,
    members: Cache<MemberCluster>,
    overriding: Overriding,
    world: World,
    contents: Contents<S>,
    memory: Memory,
}

/// What overrides may select in the latest snapshots. Names only.
#[derive(Debug, Clone, Default)]
struct Memory(Arc<Mutex<BTreeMap<PlacementKey, Selectable>>>);

impl Memory {
    fn keep(&self, key: &PlacementKey, selectable: &Selectable) {
        self.0.lock().insert(key.clone(), selectable.clone());
    }

    fn forget(&self, key: &PlacementKey) {
        self.0.lock().remove(key);
    }

    /// What is remembered of this group, unless it was found out with other kinds on the hub.
    fn of(&self, key: &PlacementKey, group: &GroupId, scopes: &dyn Scopes) -> Option<Selectable> {
        self.0.lock().get(key).filter(|known| known.group == *group && known.candidates.hold_for(scopes)).cloned()
    }

    /// Placements of which something else would be found out now that the hub has other kinds.
    fn outdated(&self, scopes: &dyn Scopes) -> Vec<PlacementKey> {
        let known = self.0.lock();
        known.iter().filter(|(_, one)| !one.candidates.hold_for(scopes)).map(|(key, _)| key.clone()).collect()
    }
}

/// What overrides may select in one group of snapshots.
#[derive(Debug, Clone)]
struct Selectable {
    group: GroupId,
    candidates: Arc<Candidates>,
}

/// What it takes to know what overrides may select.
enum Need {
    Nothing,
    Known(Selectable),
    Read(GroupId),
}

impl<S: Scope> Controller for Rollouts<S> {
    const NAME: &'static str = match S::KIND {
        ScopeKind::Cluster => names::CLUSTER_ROLLOUT,
        ScopeKind::Namespaced => names::NAMESPACED_ROLLOUT,
    };
    type Key = PlacementKey;
    type Facts = Option<Selectable>;

    fn fetch(
        &self,
        key: &PlacementKey,
        reader: &Reader,
    ) -> impl Future<Output = Result<Option<Selectable>, Error>> + Send {
        let need = self.need(key);
        async move {
            let selectable = match need {
                Need::Nothing => return Ok(None),
                Need::Known(selectable) => selectable,
                Need::Read(group) => {
                    let content = self.contents.read(group.clone(), reader).await?;
                    let resources = content.snapshots().iter().flat_map(|one| &one.spec.selected_resources);
                    let candidates = Arc::new(Candidates::of(resources, &self.world.scopes()));
                    Selectable { group, candidates }
                }
            };
            self.memory.keep(key, &selectable);
            Ok(Some(selectable))
        }
    }

    fn plan(&self, key: &PlacementKey, selectable: Option<Selectable>, moment: Moment) -> Actions {
        let Some(placement) = self.caches.placements.get(&object_key(key)) else {
            self.memory.forget(key);
            return Actions::none();
        };
        let snapshots = self.caches.resource_snapshots.by(by::PLACEMENT, &key.to_string());
        let bindings = self.caches.bindings.by(by::PLACEMENT, &key.to_string());
        let marked = marked(&snapshots);
        let latest = LatestSnapshot::of(&marked);
        let held = self.overriding.hold(key);
        let clusters = bindings.iter().map(|binding| binding.spec.target_cluster.as_str());
        let observed = Observed {
            placement: PlacementFacts::of(&*placement),
            snapshot: latest,
            overrides: match latest {
                LatestSnapshot::One(master) if !held.is_empty() => {
                    self.overrides(key, &held, &group_of(&snapshots, master), selectable.as_ref(), clusters)
                }
                _ => Overrides::Matched(BTreeMap::new()),
            },
            bindings: bindings.iter().map(|binding| self.facts(binding)).collect(),
        };
        let plan = plan(&observed, moment.now);
        let bindings = bindings.iter().map(|binding| (meta::name(&**binding), &**binding)).collect();
        carry_out(&plan, &bindings, moment.now)
    }
}

impl<S: Scope> Rollouts<S> {
    fn need(&self, key: &PlacementKey) -> Need {
        let rolls = |placement: &Obj<Placement, S>| {
            !meta::is_deleting(placement) && placement.spec.strategy_type() == RolloutStrategyType::RollingUpdate
        };
        let rolls = self.caches.placements.get(&object_key(key)).is_some_and(|placement| rolls(&placement));
        if !rolls || self.overriding.hold(key).is_empty() {
            return Need::Nothing;
        }
        let snapshots = self.caches.resource_snapshots.by(by::PLACEMENT, &key.to_string());
        let LatestSnapshot::One(master) = LatestSnapshot::of(&marked(&snapshots)) else { return Need::Nothing };
        let group = group_of(&snapshots, master);
        if !is_complete(&group) {
            return Need::Nothing;
        }
        let id = GroupId::of(group.iter().copied());
        let scopes = self.world.scopes();
        if let Some(known) = self.memory.of(key, &id, &scopes) {
            return Need::Known(known);
        }
        // The names that are at hand do, unless something is wrapped.
        if meta::annotation(group[0], annotations::NUMBER_OF_ENVELOPES).is_none_or(|count| count != "0") {
            return Need::Read(id);
        }
        let resources = group.iter().flat_map(|one| &one.spec.selected_resources);
        Need::Known(Selectable { group: id, candidates: Arc::new(Candidates::of(resources, &scopes)) })
    }

    /// A member that cannot be read is there all the same.
    fn facts<'a>(&self, binding: &'a Obj<Binding, S>) -> BindingFacts<'a> {
        let member = ObjectKey::cluster(binding.spec.target_cluster.as_str());
        BindingFacts::of(binding).gone_if(self.members.get(&member).is_none() && !self.members.is_broken(&member))
    }

    /// The overrides of each cluster, if it is known what they may select in this group.
    fn overrides<'a>(
        &self,
        key: &PlacementKey,
        held: &'a Held,
        group: &[&Obj<Snapshot, S>],
        selectable: Option<&Selectable>,
        clusters: impl Iterator<Item = &'a str>,
    ) -> Overrides<'a> {
        match selectable.filter(|selectable| selectable.group == GroupId::of(group.iter().copied())) {
            Some(selectable) => held.matched(key, &selectable.candidates, clusters, &self.members),
            None => Overrides::Unsettled,
        }
    }
}

fn marked<S: Scope>(snapshots: &[Arc<Obj<Snapshot, S>>]) -> Vec<&Obj<Snapshot, S>> {
    let latest = |one: &&Obj<Snapshot, S>| meta::is_latest(*one) && !meta::is_deleting(*one);
    snapshots.iter().map(Arc::as_ref).filter(latest).collect()
}

/// Turns a plan into requests.
fn carry_out<S: Scope>(plan: &Plan, bindings: &BTreeMap<&str, &Obj<Binding, S>>, now: Timestamp) -> Actions {
    let mut actions = Actions::none().then(match plan.wake {
        Wake::OnChange => Next::OnChange,
        Wake::At(instant) => Next::At(instant),
    });
    let altered: BTreeSet<&str> =
        plan.writes.iter().filter(|write| !write.may_wait()).map(|write| write.object().1).collect();
    for planned in &plan.writes {
        // What is altered by this plan gets a new generation, of which the next plan tells.
        if planned.may_wait() && altered.contains(planned.object().1) {
            continue;
        }
        if let Some(binding) = bindings.get(planned.object().1) {
            actions.write(request(planned, binding, now));
        }
    }
    actions.note = Some(format!("{:?}", plan.report.outcome));
    if let Outcome::Stopped(fault) = &plan.report.outcome {
        actions.look = Look::stopped(fault);
    }
    actions
}

fn request<S: Scope>(planned: &Planned, binding: &Obj<Binding, S>, now: Timestamp) -> Write {
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
        Planned::Announce { started, .. } => {
            let mut told = binding.clone();
            let conditions = &mut told.status.get_or_insert_default().conditions;
            announce(conditions, started, binding.generation(), now);
            Write::status(binding, &told).coalesce(ANNOUNCEMENT_WINDOW)
        }
    }
}
