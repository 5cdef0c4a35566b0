//! Runs the placement controller for placements of one scope.
//!
//! Decides when a plan is made, from what, and how it is carried out. Never decides what is selected, frozen or reported:
//! that is `fleet_core::placement`.
//!
//! | file | what |
//! |---|---|
//! | `kinds` | which kinds there are, and which are watched |
//! | `interest`, `changes`, `waits` | which placements a change concerns |
//! | `inventory`, `frozen`, `tokens` | what selectors choose from |
//! | `content` | what is read, and when |
//! | `perform` | from a plan's writes to requests |
//! | `copying` | when copies of statuses that failed are tried again |
//! | `unnameable` | placements that nothing can be done for |

mod changes;
mod content;
mod copying;
mod frozen;
mod interest;
mod inventory;
mod kinds;
mod perform;
mod tokens;
mod unnameable;
mod waits;

pub(crate) use content::{Facts, capture};
pub(crate) use interest::interests;
pub(crate) use perform::Performer;

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fleet_api::kinds::{ClusterResourcePlacementStatus, Obj, Placement, Scope, ScopeKind};
use fleet_api::names::PlacementKey;
use fleet_core::overrides::Scopes;
use fleet_core::placement::{
    BindingFacts, CopyFacts, Fault, Inventory, Observed, Outcome as Stand, PlacementFacts, PolicySnapshotFacts,
    Propagation, ResourceSnapshotFacts, SnapshotPace, copied, copy_namespace, plan,
};
use fleet_core::plan::Wake;
use fleet_runtime::{
    Actions, Cache, Controller, Discovery, Error, KindId, KubeEvent, Look, Marks, MetadataCaches, Moment, Next,
    ObjectKey, Outcome, Reader, Runtime, Triggers,
};

use crate::caches::{PlacementCaches, by};
use crate::keys::object_key;
use crate::meta;
use crate::names;
use crate::options::HubOptions;
use crate::standing::Standings;
use changes::ObjectChanges;
use content::Memory;
use copying::Copying;
use inventory::{Contents, Live};
use kinds::Wanted;
use tokens::Tokens;
use waits::Waits;

/// Bindings change in crowds while a rollout runs, and a placement looks at all of its own each time. It does so at most
/// once in so long; readers of its status do not notice.
const BINDINGS_WINDOW: Duration = Duration::from_millis(100);

/// What both scopes share: what is on the hub besides fleets' own objects.
#[derive(Debug, Clone)]
pub(crate) struct World {
    metadata: MetadataCaches,
    discovery: Discovery,
    wanted: Arc<Wanted>,
    tokens: Arc<Tokens>,
    propagation: Arc<Propagation>,
}

impl World {
    pub(crate) fn new(metadata: MetadataCaches, discovery: Discovery, propagation: Propagation) -> Self {
        let propagation = Arc::new(propagation);
        let wanted = Wanted::new(discovery.clone(), metadata.clone(), propagation.clone());
        Self { metadata, discovery, wanted: Arc::new(wanted), tokens: Arc::default(), propagation }
    }

    /// What there is, by its metadata.
    pub(crate) fn catalogue(&self) -> impl Inventory {
        self.inventory(None)
    }

    pub(crate) fn propagation(&self) -> &Propagation {
        &self.propagation
    }

    pub(crate) fn metadata(&self) -> &MetadataCaches {
        &self.metadata
    }

    /// Which kinds have no namespaces.
    pub(crate) fn scopes(&self) -> impl Scopes {
        self.inventory(None)
    }

    /// The resource of this kind, if the server has it.
    pub(crate) fn kind(&self, group: &str, version: &str, kind: &str) -> Option<KindId> {
        self.wanted.kinds().find(group, version, kind).map(|(_, id)| id.clone())
    }

    pub(crate) fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    fn inventory<'c>(&self, contents: Option<&'c Contents>) -> Live<'c> {
        Live::new(self.wanted.kinds(), self.metadata.clone(), self.tokens.clone(), contents)
    }
}

/// Starts the controller for one scope. Statuses are copied for cluster-scoped placements only.
pub(crate) fn start<S: Scope>(
    runtime: &mut Runtime,
    options: &HubOptions,
    caches: &PlacementCaches<S>,
    status_copies: Option<&Cache<ClusterResourcePlacementStatus>>,
    world: &World,
    standings: &Standings,
) -> Marks<PlacementKey> {
    let (wanted, placements) = (world.wanted.clone(), caches.placements.clone());
    let waits = Arc::new(Waits::default());
    let waiting = waits.clone();
    let changes = || ObjectChanges { world: world.clone(), placements: caches.placements.clone() };
    let (of_objects, of_kinds) = (changes(), changes());
    let mut triggers = Triggers::new()
        .on(&caches.placements, move |event| {
            wanted.follow(&placements, &event.key());
            changes::on_placement(event)
        })
        .on(&caches.policy_snapshots, changes::on_snapshot)
        .on(&caches.resource_snapshots, changes::on_snapshot)
        .on_gathered(&caches.bindings, BINDINGS_WINDOW, changes::on_binding)
        .on_metadata(&world.metadata, move |kind, event| of_objects.on_object(kind, event))
        .on_complete(&world.metadata, move |kind| waiting.take(kind))
        .on_discovery(&world.discovery, move || of_kinds.on_discovery());
    if let Some(copies) = status_copies {
        triggers = triggers.on(copies, changes::on_status_copy);
    }
    let controller = Placements {
        caches: caches.clone(),
        status_copies: status_copies.cloned(),
        world: world.clone(),
        memory: Memory::default(),
        copying: Copying::default(),
        waits,
        standings: standings.clone(),
        marks: Arc::default(),
        pace: options.snapshot_pace,
    };
    unnameable::start(runtime, &caches.placements);
    let again = controller.marks.clone();
    let marks = runtime.controller(controller, triggers, options.placement_workers());
    again.get_or_init(|| marks).clone()
}

struct Placements<S: Scope> {
    caches: PlacementCaches<S>,
    status_copies: Option<Cache<ClusterResourcePlacementStatus>>,
    world: World,
    memory: Memory,
    copying: Copying,
    waits: Arc<Waits>,
    /// Where placements stand, for dashboards.
    standings: Standings,
    /// Asks for another look at a placement that is in hand.
    marks: Arc<OnceLock<Marks<PlacementKey>>>,
    pace: SnapshotPace,
}

impl<S: Scope> Controller for Placements<S> {
    const NAME: &'static str = match S::KIND {
        ScopeKind::Cluster => names::CLUSTER_PLACEMENT,
        ScopeKind::Namespaced => names::NAMESPACED_PLACEMENT,
    };
    type Key = PlacementKey;
    type Facts = Facts;

    fn fetch(&self, key: &PlacementKey, reader: &Reader) -> impl Future<Output = Result<Facts, Error>> + Send {
        let live = self.caches.placements.get(&object_key(key)).filter(|placement| !meta::is_deleting(&**placement));
        async move {
            match live {
                Some(placement) => content::find_out(&self.world, &self.memory, key, &placement, reader).await,
                None => Ok(Facts::default()),
            }
        }
    }

    fn plan(&self, key: &PlacementKey, facts: Facts, moment: Moment) -> Actions {
        let Some(placement) = self.caches.placements.get(&object_key(key)) else {
            self.forget(key);
            self.standings.forget(key);
            return Actions::none();
        };
        if meta::is_deleting(&*placement) {
            self.forget(key);
        } else if facts.of != Some((placement.metadata.uid.clone(), placement.generation())) {
            // It changed while its content was read, and that change has asked for another look.
            return Actions::none();
        }
        self.carry_out(key, &placement, &facts, moment)
    }

    /// How writing the copy of a status went: nothing else is observed.
    fn conclude(&self, key: &PlacementKey, outcomes: Vec<Outcome>, moment: Moment) -> Option<Actions> {
        // The next look finds when a copy that failed is tried again.
        let again = Actions::none().then(Next::At(moment.now));
        let went = match outcomes.into_iter().next()? {
            Ok(_) => {
                self.copying.forget(key);
                Ok(())
            }
            Err(error) => {
                self.copying.failed(key, moment.now);
                // Somebody else was faster, which is nothing to tell.
                if error.is_conflict() {
                    return Some(again);
                }
                tracing::warn!(error = error.with_causes(), "the copy of a status cannot be written");
                Err(error.answer())
            }
        };
        let is_written = went.is_ok();
        let placement = self.caches.placements.get(&object_key(key))?;
        match copied(&PlacementFacts::of(key, &*placement), went, moment.now) {
            Some(status) => Some(again.with(perform::say(&*placement, &status))),
            None => (!is_written).then_some(again),
        }
    }
}

impl<S: Scope> Placements<S> {
    fn carry_out(&self, key: &PlacementKey, placement: &Obj<Placement, S>, facts: &Facts, moment: Moment) -> Actions {
        let parent = key.to_string();
        let policy_snapshots = self.caches.policy_snapshots.by(by::PLACEMENT, &parent);
        let resource_snapshots = self.caches.resource_snapshots.by(by::PLACEMENT, &parent);
        let bindings = self.caches.bindings.by(by::PLACEMENT, &parent);
        let status_copy = self.status_copy(key, placement);
        let inventory = self.world.inventory(None);
        let observed = Observed {
            placement: PlacementFacts::of(key, placement),
            policy_snapshots: policy_snapshots.iter().map(|one| PolicySnapshotFacts::of(&**one)).collect(),
            resource_snapshots: resource_snapshots.iter().map(|one| ResourceSnapshotFacts::of(&**one)).collect(),
            bindings: bindings.iter().map(|one| BindingFacts::of(&**one)).collect(),
            status_copy: CopyFacts {
                found: status_copy.as_ref().map(|copy| &copy.spec),
                failed_until: self.copying.failed_until(key),
            },
            selection: facts.selection.as_ref(),
            inventory: &inventory,
            propagation: &self.world.propagation,
            pace: self.pace,
        };
        let plan = plan(&observed, moment.now);
        if plan.report.outcome == Stand::Stopped(Fault::ContentNotRead) {
            self.memory.forget(key);
            self.look_again(key);
            return Actions::none();
        }
        if let Stand::AwaitingInventory { resource } = &plan.report.outcome
            && self.waits.add(resource, key, &self.world.metadata)
        {
            self.look_again(key);
        }
        if let Stand::AwaitingAnswer { part } = &plan.report.outcome {
            tracing::warn!(
                placement = %key, api = %part,
                "a placement waits for an API of the hub to answer; if that is gone for good, delete its APIService or \
                 leave it out by --skipped-propagating-apis"
            );
        }
        let performer = Performer {
            key,
            placement,
            policy_snapshots: policy_snapshots.iter().map(|one| (meta::name(&**one), &**one)).collect(),
            resource_snapshots: resource_snapshots.iter().map(|one| (meta::name(&**one), &**one)).collect(),
        };
        let mut actions = Actions::none().then(match plan.wake {
            Wake::OnChange => Next::OnChange,
            Wake::At(instant) => Next::At(instant),
        });
        actions.writes.extend(plan.writes.into_iter().filter_map(|write| performer.write(write)));
        let telling = plan.status.iter();
        actions.writes.extend(telling.flat_map(|one| perform::tell(one, key, placement, status_copy.as_deref())));
        actions.events.extend(plan.report.events.iter().map(|event| KubeEvent::about(placement, event)));
        actions.note = Some(format!("{:?}, {:?}", plan.report.outcome, plan.report.content));
        if let Stand::Stopped(fault) = &plan.report.outcome {
            actions.look = Look::stopped(fault);
        }
        if !meta::is_deleting(placement) {
            let told = plan.status.as_ref().and_then(|telling| telling.status.as_ref());
            let status = told.or(placement.status.as_ref());
            self.standings.seen(key, placement, status, moment.now);
        }
        actions
    }

    fn forget(&self, key: &PlacementKey) {
        self.memory.forget(key);
        self.copying.forget(key);
    }

    /// As soon as this look is over.
    fn look_again(&self, key: &PlacementKey) {
        if let Some(marks) = self.marks.get() {
            marks.mark(key.clone());
        }
    }

    fn status_copy(
        &self,
        key: &PlacementKey,
        placement: &Obj<Placement, S>,
    ) -> Option<Arc<ClusterResourcePlacementStatus>> {
        let namespace = copy_namespace(&PlacementFacts::of(key, placement))?;
        self.status_copies.as_ref()?.get(&ObjectKey::new(Some(namespace), key.name.as_str()))
    }
}
