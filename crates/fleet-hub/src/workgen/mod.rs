//! Runs the work generator for bindings of one scope, one key per binding.
//!
//! Decides when content is read (only when a Work has to be made), how each write of a plan becomes a request, and what
//! becomes of a refusal: the server's words go into the binding's status. A status that waits for the member's next word
//! is held back for a moment. A member that leaves gets nothing any more. Never decides what is in a Work: that is
//! `fleet_core::workgen`.
//!
//! | file | what |
//! |---|---|
//! | `changes` | which bindings a change concerns |
//! | `seen` | what is observed of a binding |
//! | `refusals` | which Works the server did not take |

mod changes;
mod refusals;
mod seen;

use std::future::Future;
use std::time::Duration;

use fleet_api::kinds::{Scope, ScopeKind, Work};
use fleet_api::types::DeletePropagationPolicy;
use fleet_api::well_known::{annotations, finalizers};
use fleet_core::workgen::{
    Content as Depth, Observed, Outcome as Stand, Plan, SyncError, WorkChange, Write as Planned, needs_content, plan,
};
use fleet_runtime::{
    Actions, Controller, Error, KindId, KubeEvent, Marks, Moment, Next, ObjectKey, Outcome, PatchFormat, Reader,
    Runtime, Triggers, Write,
};

use crate::caches::{Caches, PlacementCaches};
use crate::contents::{Content, Contents, GroupId};
use crate::membership::changed;
use crate::meta;
use crate::names;
use crate::options::HubOptions;
use crate::placement::World;
use changes::Changes;
use refusals::Refusals;
use seen::{Observer, Seen};

/// How long a status may be held back that waits for the member's next word. A step that takes no longer is not told of.
const INTERIM_WINDOW: Duration = Duration::from_secs(1);

/// Starts the controller for one scope.
pub(crate) fn start<S: Scope>(
    runtime: &mut Runtime,
    options: &HubOptions,
    caches: &Caches,
    scope: &PlacementCaches<S>,
    world: &World,
) -> Marks<ObjectKey> {
    let changes = || Changes { caches: scope.clone(), members: caches.members.clone() };
    let (of_works, of_snapshots, of_placements, of_members) = (changes(), changes(), changes(), changes());
    let (of_cluster_overrides, of_overrides) = (changes(), changes());
    let triggers = Triggers::new()
        .on(&scope.bindings, changes::on_binding)
        .on(&caches.works, move |event| of_works.on_work(event))
        .on(&scope.resource_snapshots, move |event| of_snapshots.on_resource_snapshot(event))
        .on(&scope.placements, move |event| of_placements.on_placement(event))
        .on(&caches.members, move |event| of_members.on_member(event))
        .on(&caches.cluster_overrides.snapshots, move |event| of_cluster_overrides.on_override_snapshot(event))
        .on(&caches.overrides.snapshots, move |event| of_overrides.on_override_snapshot(event))
        .on_discovery(world.discovery(), Vec::new);
    let generator = WorkGenerator {
        observer: Observer::new(caches, scope),
        world: world.clone(),
        contents: Contents::default(),
        refusals: Refusals::default(),
    };
    runtime.controller(generator, triggers, options.work_generator_workers())
}

struct WorkGenerator<S: Scope> {
    observer: Observer<S>,
    world: World,
    contents: Contents<S>,
    refusals: Refusals,
}

/// The content that a binding's Works are made from.
#[derive(Debug)]
struct Fetched<S: Scope> {
    group: GroupId,
    content: Content<S>,
}

impl<S: Scope> Controller for WorkGenerator<S> {
    const NAME: &'static str = match S::KIND {
        ScopeKind::Cluster => names::CLUSTER_WORK_GENERATOR,
        ScopeKind::Namespaced => names::NAMESPACED_WORK_GENERATOR,
    };
    type Key = ObjectKey;
    type Facts = Option<Fetched<S>>;

    fn fetch(
        &self,
        key: &ObjectKey,
        reader: &Reader,
    ) -> impl Future<Output = Result<Option<Fetched<S>>, Error>> + Send {
        let group = self.missing_content(key);
        async move {
            let Some(group) = group else { return Ok(None) };
            let content = self.contents.read(group.clone(), reader).await?;
            Ok(Some(Fetched { group, content }))
        }
    }

    fn plan(&self, key: &ObjectKey, fetched: Option<Fetched<S>>, moment: Moment) -> Actions {
        let Some(seen) = self.observer.see(key) else {
            self.refusals.forget(key);
            return Actions::none();
        };
        let refusal = self.refusals.of(key, seen.binding.generation(), moment.now);
        let scopes = self.world.scopes();
        let fetched = fetched.filter(|fetched| fetched.group == seen.group());
        let observed = Observed {
            refusal: refusal.as_ref().map(|refusal| refusal.answer.as_str()),
            ..seen.observed(fetched.as_ref().map(|fetched| fetched.content.snapshots()), &scopes)
        };
        let plan = plan(&observed, moment.now);
        if plan.report.outcome == Stand::AwaitingContent {
            // What it needs has changed since it was read.
            return Actions::none().then(Next::At(moment.now));
        }
        let mut actions = carry_out(&seen, plan);
        if let Some(refusal) = refusal {
            actions.next = actions.next.or(Next::At(refusal.until));
        }
        actions
    }

    fn conclude(&self, key: &ObjectKey, outcomes: Vec<Outcome>, moment: Moment) -> Option<Actions> {
        let refused = outcomes.into_iter().find_map(Result::err)?;
        let generation = self.observer.generation(key)?;
        self.refusals.note(key, generation, &refused, moment.now);
        // The next look finds the refusal and tells of it.
        Some(Actions::none().then(Next::At(moment.now)))
    }
}

impl<S: Scope> WorkGenerator<S> {
    /// The snapshots whose content a plan would need.
    fn missing_content(&self, key: &ObjectKey) -> Option<GroupId> {
        let seen = self.observer.see(key)?;
        let scopes = self.world.scopes();
        needs_content(&seen.observed(None, &scopes)).then(|| seen.group())
    }
}

fn carry_out<S: Scope>(seen: &Seen<S>, plan: Plan) -> Actions {
    let mut actions = Actions::none();
    for planned in plan.writes {
        actions.writes.extend(request(seen, planned));
    }
    if let Some(new) = plan.status {
        let mut told = (*seen.binding).clone();
        told.status = Some(new.status);
        let write = Write::status(&*seen.binding, &told);
        actions.write(if new.interim { write.coalesce(INTERIM_WINDOW) } else { write });
    }
    actions.events.extend(plan.report.events.iter().map(|event| KubeEvent::about(&*seen.binding, event)));
    if let Stand::Failed(error) = &plan.report.outcome
        && !matches!(error, SyncError::WorkStillGoing { .. })
    {
        tracing::info!(binding = %ObjectKey::of(&*seen.binding), %error, "works cannot be made");
    }
    actions.note = Some(format!("{:?}", plan.report.outcome));
    actions
}

/// `None` for a Work that was not observed, of which no plan speaks.
fn request<S: Scope>(seen: &Seen<S>, planned: Planned) -> Option<Write> {
    let binding = &*seen.binding;
    match planned {
        Planned::HoldBinding => Some(Write::change(binding, &meta::with_finalizer(binding, finalizers::WORK))),
        Planned::ReleaseBinding => Some(Write::change(binding, &meta::without_finalizer(binding, finalizers::WORK))),
        Planned::CreateWork(new) => Some(Write::create(&new.into_object()).explained()),
        Planned::ChangeWork(change) => seen.work(&change.name).map(|work| patched(work, change)),
        Planned::AbandonWork { work } => seen.work(&work).map(|work| {
            changed(work, |work| {
                let word = DeletePropagationPolicy::Abandon.as_str().to_owned();
                meta::annotate(work, annotations::DELETE_PROPAGATION, word);
            })
        }),
        Planned::DeleteWork { work } => seen.work(&work).map(Write::delete),
    }
}

/// Says everything that is to be so of the Work that was seen, whatever its member has reported since.
fn patched(work: &Work, change: WorkChange) -> Write {
    let mut body = change.into_merge_patch();
    if let Some(uid) = &work.metadata.uid {
        body["metadata"]["uid"] = uid.as_str().into();
    }
    Write::patch_raw(KindId::of::<Work>(), ObjectKey::of(work), PatchFormat::Merge, body).explained()
}

/// How much of the snapshots is at hand.
fn depth(is_whole: bool) -> Depth {
    if is_whole { Depth::Whole } else { Depth::Identities }
}
