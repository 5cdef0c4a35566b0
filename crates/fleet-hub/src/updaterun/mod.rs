//! Runs staged update runs of one scope.
//!
//! Decides when a run is looked at, from what, and how its plan is carried out; a status to which more is sure to follow is
//! held back for a while. Never decides which cluster is updated when: that is `fleet_core::updaterun`.
//!
//! | file | what |
//! |---|---|
//! | `changes` | which runs a change concerns |
//! | `sight`, `overrides` | what a look takes in |
//! | `confirm` | whether the caches are as recent as the run, asked before one ends |
//! | `memory` | statuses that are not written yet |
//! | `perform` | from a plan's writes to requests and events |
//! | `metrics` | what is measured |

mod changes;
mod confirm;
mod memory;
mod metrics;
mod overrides;
mod perform;
mod sight;

pub(crate) use changes::{Stand, strategy_of};
pub use metrics::RunMetrics;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, OnceLock};

use fleet_api::kinds::{MemberCluster, Obj, Placement, Scope, ScopeKind, Snapshot, UpdateRun};
use fleet_api::names::{Index, PlacementKey, ResourceSnapshotName, SnapshotPart};
use fleet_api::types::UpdateRunStatus;
use fleet_api::well_known::{finalizers, labels};
use fleet_core::plan::Wake;
use fleet_core::updaterun::{Blocker, Cause, Outcome, Plan, Settings, approval_latencies, plan, stage_durations};
use fleet_runtime::{Actions, Cache, Controller, Error, Marks, Moment, Next, ObjectKey, Reader, Runtime, Triggers};
use jiff::{SignedDuration, Timestamp};

use crate::caches::{Caches, PlacementCaches, RunCaches, by};
use crate::contents::{Content, Contents, GroupId, group_of, is_complete};
use crate::keys::{object_key, placement_of};
use crate::meta;
use crate::names;
use crate::options::HubOptions;
use crate::placement::{self, World};
use crate::rollout::overriding::Overriding;
use changes::{Concerned, on_run};
use confirm::Ground;
use memory::{Held, Memory, Outlook};
use metrics::Measured;
use overrides::Latest;
use perform::Performer;
use sight::Sight;

/// When to compare again with the server if a watch is behind: it brings in a moment what a read has shown already.
const CATCH_UP: SignedDuration = SignedDuration::from_millis(100);

/// Starts the controller for one scope.
pub(crate) fn start<S: Scope>(
    runtime: &mut Runtime,
    options: &HubOptions,
    caches: &Caches,
    scope: &PlacementCaches<S>,
    runs: &RunCaches<S>,
    world: &World,
    metrics: &RunMetrics,
) -> Marks<ObjectKey> {
    let controller = StagedRuns {
        caches: runs.clone(),
        scope: scope.clone(),
        members: caches.members.clone(),
        overriding: Overriding { cluster: caches.cluster_overrides.clone(), namespaced: caches.overrides.clone() },
        contents: Contents::default(),
        world: world.clone(),
        settings: settings(options),
        memory: Memory::default(),
        metrics: metrics.clone(),
        marks: Arc::default(),
    };
    let concerned = Concerned { runs: runs.runs.clone() };
    let again = controller.marks.clone();
    let marks = runtime.controller(controller, triggers(&concerned, caches, scope, runs, world), options.run_workers());
    again.get_or_init(|| marks).clone()
}

fn settings(options: &HubOptions) -> Settings {
    Settings {
        stuck_after: SignedDuration::try_from(options.stuck_after).unwrap_or(SignedDuration::MAX),
        tolerate_strategy_changes: options.tolerate_strategy_changes,
    }
}

fn triggers<S: Scope>(
    concerned: &Concerned<S>,
    caches: &Caches,
    scope: &PlacementCaches<S>,
    runs: &RunCaches<S>,
    world: &World,
) -> Triggers<ObjectKey> {
    /// A function of `Concerned` as a trigger.
    macro_rules! find {
        ($method:ident) => {{
            let concerned = concerned.clone();
            move |event| concerned.$method(event)
        }};
    }
    let new = || {
        let concerned = concerned.clone();
        move || concerned.new_runs()
    };
    let (of_kinds, of_complete) = (new(), new());
    let (cluster_overrides, overrides) = (&caches.cluster_overrides, &caches.overrides);
    let (of_cluster_overrides, of_overrides) = (new(), new());
    let (of_cluster_snapshots, of_snapshots) = (new(), new());
    Triggers::new()
        .on(&runs.runs, on_run)
        .on(&runs.runs, find!(by_rival))
        .on(&runs.strategies, find!(by_strategy))
        .on(&runs.approvals, find!(by_approval))
        .on(&scope.placements, find!(by_placement))
        .on(&scope.policy_snapshots, find!(by_policy_snapshot))
        .on(&scope.resource_snapshots, find!(by_resource_snapshot))
        .on(&scope.bindings, find!(by_binding))
        .on(&caches.members, find!(by_member))
        .on(&cluster_overrides.snapshots, move |_| of_cluster_snapshots())
        .on(&overrides.snapshots, move |_| of_snapshots())
        .on(&cluster_overrides.overrides, move |_| of_cluster_overrides())
        .on(&overrides.overrides, move |_| of_overrides())
        .on_complete(world.metadata(), move |_| of_complete())
        .on_discovery(world.discovery(), of_kinds)
}

struct StagedRuns<S: Scope> {
    caches: RunCaches<S>,
    scope: PlacementCaches<S>,
    members: Cache<MemberCluster>,
    overriding: Overriding,
    contents: Contents<S>,
    world: World,
    settings: Settings,
    memory: Memory<S>,
    metrics: RunMetrics,
    /// Asks for another look at a run that is in hand.
    marks: Arc<OnceLock<Marks<ObjectKey>>>,
}

/// What was read for one look.
#[derive(Debug)]
struct Facts<S: Scope> {
    /// What the placement selects, with content, where the run is about to freeze it.
    content: placement::Facts,
    /// Resource snapshots with their content, where overrides have to look into envelopes.
    snapshots: Option<Content<S>>,
    /// What the run stands on, where the caches were in doubt.
    ground: Option<Ground>,
}

impl<S: Scope> Default for Facts<S> {
    fn default() -> Self {
        Self { content: placement::Facts::default(), snapshots: None, ground: None }
    }
}

impl<S: Scope> Controller for StagedRuns<S> {
    const NAME: &'static str = match S::KIND {
        ScopeKind::Cluster => names::CLUSTER_UPDATE_RUN,
        ScopeKind::Namespaced => names::NAMESPACED_UPDATE_RUN,
    };
    type Key = ObjectKey;
    type Facts = Facts<S>;

    fn fetch(&self, key: &ObjectKey, reader: &Reader) -> impl Future<Output = Result<Facts<S>, Error>> + Send {
        let run = self.caches.runs.get(key).filter(|run| !meta::is_deleting(&**run));
        async move {
            let mut facts = Facts::default();
            let Some(run) = run else { return Ok(facts) };
            if Stand::of(&*run) == Stand::New {
                self.read_content(&run, reader, &mut facts).await?;
            }
            if self.memory.is_doubted(key) {
                facts.ground = Some(Ground::read(&*run, &self.caches, reader).await?);
            }
            Ok(facts)
        }
    }

    fn plan(&self, key: &ObjectKey, facts: Facts<S>, moment: Moment) -> Actions {
        let Some(run) = self.caches.runs.get(key) else {
            self.memory.forget(key);
            self.metrics.forget(key);
            return Actions::none();
        };
        if is_left_alone(&run) {
            self.memory.forget(key);
            self.measure_standing(key, &run, run.status.as_ref(), moment.now);
            return Actions::none();
        }
        let sight = Sight::of(run, &self.caches, &self.scope, &self.members);
        sight.map_or_else(Actions::none, |sight| self.look(key, &sight, &facts, moment.now))
    }

    fn performed(&self, key: &ObjectKey) {
        let measured = self.memory.carried_out(key);
        self.metrics.measured(key, &measured);
    }

    fn before_the_end(&self) -> Vec<ObjectKey> {
        let holding = self.memory.holding();
        for key in &holding {
            self.memory.want(key);
        }
        holding
    }
}

/// A run that is over and that nobody deletes.
fn is_left_alone<S: Scope>(run: &Obj<UpdateRun, S>) -> bool {
    let is_held = run.metadata.finalizers.iter().flatten().any(|one| one == finalizers::UPDATE_RUN);
    Stand::of(run) == Stand::Over && is_held && !meta::is_deleting(run)
}

impl<S: Scope> StagedRuns<S> {
    fn look(&self, key: &ObjectKey, sight: &Sight<S>, facts: &Facts<S>, now: Timestamp) -> Actions {
        let held = self.memory.held(key, &sight.run);
        let catalogue = self.world.catalogue();
        let content = sight.content(facts, &catalogue, self.world.propagation());
        let is_new = Stand::of(&*sight.run) == Stand::New;
        let overriding = sight.placement_key.as_ref().filter(|_| is_new).map(|key| self.overriding.hold(key));
        let overrides = Latest {
            placement: sight.placement_key.as_ref(),
            held: overriding,
            members: &self.members,
            scopes: &catalogue,
        };
        let settled = facts.ground.as_ref().is_some_and(|ground| *ground == self.cached_ground(&sight.run));
        let newest = held.as_ref().map(|held| &*held.status);
        let observed = sight.observed(newest, content.as_ref(), &overrides, settled, self.settings);
        let plan = plan(&observed, now);
        if settled {
            self.memory.trust(key);
        }
        let mut actions = self.carry_out(key, sight, held, &plan, now);
        if !settled && is_behind(&plan) {
            actions.next = actions.next.or(self.find_out_more(key, facts, now));
        }
        actions
    }

    fn carry_out(
        &self,
        key: &ObjectKey,
        sight: &Sight<S>,
        held: Option<Held<S>>,
        plan: &Plan,
        now: Timestamp,
    ) -> Actions {
        let before = held.as_ref().map(|held| &*held.status).or(sight.run.status.as_ref());
        let measured = plan.status.as_ref().map_or_else(Measured::default, |new| Measured {
            approvals: approval_latencies(before, &new.status),
            stages: stage_durations(before, &new.status, now),
        });
        let newest = plan.status.as_ref().map(|new| &new.status).or(before);
        self.measure_standing(key, &sight.run, newest, now);
        let (status, still_held) = status_to_write(sight, held, plan, now, self.memory.is_wanted(key));
        let wake = match plan.wake {
            Wake::OnChange => Next::OnChange,
            Wake::At(instant) => Next::At(instant),
        };
        let due = still_held.as_ref().map_or(Next::OnChange, |held| Next::At(held.until));
        let performer = Performer { sight, now };
        let mut actions = Actions::none().then(wake.or(due));
        actions.writes = performer.requests(&plan.writes, status.as_deref());
        actions.events = performer.events(&plan.report.events, &plan.writes);
        actions.note = Some(note(plan));
        self.memory.expect(key, Outlook { held: still_held, measured });
        self.ask_for_records(key, plan);
        actions
    }

    /// Runs whose record this one waits for store it now.
    fn ask_for_records(&self, key: &ObjectKey, plan: &Plan) {
        let movers = plan.report.blockers.iter().filter_map(|blocker| match &blocker.cause {
            Cause::MoveNotRecorded { run, .. } => Some(ObjectKey::new(key.namespace(), run)),
            _ => None,
        });
        for mover in movers.collect::<BTreeSet<_>>() {
            self.memory.want(&mover);
            self.look_again_at(mover);
        }
    }

    fn look_again_at(&self, key: ObjectKey) {
        if let Some(marks) = self.marks.get() {
            marks.mark(key);
        }
    }

    fn measure_standing(
        &self,
        key: &ObjectKey,
        run: &Obj<UpdateRun, S>,
        status: Option<&UpdateRunStatus>,
        now: Timestamp,
    ) {
        if let Some(status) = status {
            self.metrics.seen(key, run.spec.state(), status, now);
        }
    }

    /// The plan would end the run on facts that may be old: they are compared with the server, at once if they were not
    /// yet, in a moment if a watch is behind, and not before something changes if an object cannot be read.
    fn find_out_more(&self, key: &ObjectKey, facts: &Facts<S>, now: Timestamp) -> Next {
        self.memory.doubt(key);
        if facts.ground.is_none() {
            self.look_again_at(key.clone());
            return Next::OnChange;
        }
        if self.is_something_unreadable() {
            return Next::OnChange;
        }
        now.checked_add(CATCH_UP).map_or(Next::OnChange, Next::At)
    }

    fn is_something_unreadable(&self) -> bool {
        !(self.scope.placements.broken().is_empty()
            && self.scope.policy_snapshots.broken().is_empty()
            && self.scope.bindings.broken().is_empty()
            && self.caches.strategies.broken().is_empty()
            && self.members.broken().is_empty())
    }

    fn cached_ground(&self, run: &Obj<UpdateRun, S>) -> Ground {
        Ground::cached(run, &self.caches, &self.scope, &self.members)
    }

    /// What a run that is about to choose its content has to have read.
    async fn read_content(&self, run: &Obj<UpdateRun, S>, reader: &Reader, facts: &mut Facts<S>) -> Result<(), Error> {
        let Some(key) = placement_of(run) else { return Ok(()) };
        let Some(placement) = self.scope.placements.get(&object_key(&key)) else { return Ok(()) };
        let snapshots = self.scope.resource_snapshots.by(by::PLACEMENT, &key.to_string());
        let index = Index::parse(run.spec.resource_snapshot_index());
        let is_there = index.is_some_and(|index| is_complete(&group(&snapshots, &key, index)));
        if !is_there {
            // As it is now: it may have been changed together with the run. Until the cache has it too, the run waits.
            let newest: Option<Obj<Placement, S>> = reader.get_as(&object_key(&key)).await?;
            let placement = newest.as_ref().unwrap_or(&*placement);
            facts.content = placement::capture(&self.world, &key, placement, reader).await?;
        }
        let newest = || snapshots.iter().filter_map(|one| index_of(one)).max();
        if let Some(index) = index.or_else(newest)
            && !self.overriding.hold(&key).is_empty()
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

/// The status that is written now, or else the one that is held back.
fn status_to_write<S: Scope>(
    sight: &Sight<S>,
    held: Option<Held<S>>,
    plan: &Plan,
    now: Timestamp,
    wanted: bool,
) -> (Option<Arc<UpdateRunStatus>>, Option<Held<S>>) {
    if meta::is_deleting(&*sight.run) {
        return (None, None);
    }
    let held_since = held.as_ref().map(|held| held.until);
    let (status, until) = match (&plan.status, held) {
        (Some(new), _) => (Arc::new(new.status.clone()), new.interim.map(|until| held_since.unwrap_or(until))),
        (None, Some(held)) => (held.status, Some(held.until)),
        (None, None) => return (None, None),
    };
    match until.filter(|until| *until > now && !wanted) {
        Some(until) => (None, Some(Held { over: sight.run.clone(), status, until })),
        None => (Some(status), None),
    }
}

fn is_behind(plan: &Plan) -> bool {
    let is_it = |blocker: &Blocker| matches!(blocker.cause, Cause::FactsBehind);
    plan.report.outcome == Outcome::Retrying && plan.report.blockers.iter().any(is_it)
}

/// One line for the log.
fn note(plan: &Plan) -> String {
    let causes: Vec<String> = plan.report.blockers.iter().map(|blocker| format!("{:?}", blocker.cause)).collect();
    format!("{:?}: {}", plan.report.outcome, causes.join("; "))
}
