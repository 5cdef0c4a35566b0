//! The override controller of one scope: creates snapshots of overrides. `fleet_core::overrides` plans. An override
//! that cannot be decoded is skipped. An override that cannot have a snapshot gets an event.

use fleet_api::conditions::events::OverrideEvent;
use fleet_api::kinds::{Family, Obj, Scope, ScopeKind};
use fleet_api::names::OverrideName;
use fleet_api::types::OverrideSnapshotSpec;
use fleet_api::well_known::{finalizers, labels};
use fleet_core::overrides::{
    Observed, OverrideFacts, OverrideOutcome, OverrideSpec, SnapshotFacts, Write as Planned, plan,
};
use fleet_runtime::{
    Actions, Controller, Event, KubeEvent, ObjectKey, PlanInput, PlanResult, Runtime, Triggers, Write,
};

use crate::caches::OverrideCaches;
use crate::meta::{self, changed};
use crate::names;
use crate::options::HubOptions;

/// Starts the controller for one scope.
pub(crate) fn start<O, F, S>(runtime: &mut Runtime, options: &HubOptions, caches: &OverrideCaches<O, F, S>)
where
    O: Family<Spec: OverrideSpec>,
    F: Family<Spec = OverrideSnapshotSpec<O::Spec>>,
    S: Scope,
{
    let triggers = Triggers::new().on(&caches.overrides, on_override).on(&caches.snapshots, on_snapshot);
    runtime.controller(Overrides { caches: caches.clone() }, triggers, options.placement_workers());
}

fn on_override<O: Family, S: Scope>(event: Event<'_, Obj<O, S>>) -> Option<ObjectKey> {
    let is_relevant = event.changed(|one| (one.generation(), one.is_deleting(), &one.metadata.finalizers));
    is_relevant.then(|| event.key())
}

/// Snapshots belong to this controller, but other clients can change or delete them.
fn on_snapshot<F: Family, S: Scope>(event: Event<'_, Obj<F, S>>) -> Vec<ObjectKey> {
    let parent = |one: &Obj<F, S>| {
        let name = one.metadata.labels.as_ref()?.get(labels::PARENT_OVERRIDE)?;
        Some(ObjectKey::new(one.metadata.namespace.as_deref(), name))
    };
    if event.changed(|one| &one.metadata.labels) { event.versions().filter_map(parent).collect() } else { Vec::new() }
}

struct Overrides<O: Family, F: Family, S: Scope> {
    caches: OverrideCaches<O, F, S>,
}

impl<O, F, S> Controller for Overrides<O, F, S>
where
    O: Family<Spec: OverrideSpec>,
    F: Family<Spec = OverrideSnapshotSpec<O::Spec>>,
    S: Scope,
{
    const NAME: &'static str = match S::KIND {
        ScopeKind::Cluster => names::CLUSTER_OVERRIDE,
        ScopeKind::Namespaced => names::NAMESPACED_OVERRIDE,
    };
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, _: Option<()>, input: PlanInput) -> Actions {
        if self.caches.overrides.is_unreadable(key) {
            return Actions { note: Some("waits until the override can be read".to_owned()), ..Actions::none() };
        }
        let Some(override_) = self.caches.overrides.get(key) else { return Actions::none() };
        let Ok(name) = OverrideName::parse(key.name()) else {
            let event = KubeEvent::about(&*override_, &OverrideEvent::NameTooLong { longest: OverrideName::MAX_BYTES });
            let result = PlanResult::Blocked("no snapshot can have such a name".to_owned());
            return Actions { events: vec![event], result, ..Actions::none() };
        };
        let snapshots = self.caches.snapshots_by_override.get(key);
        let observed = Observed {
            override_: OverrideFacts::of(&name, &*override_),
            snapshots: snapshots.iter().map(|one| SnapshotFacts::of(&**one)).collect(),
        };
        let plan = plan(&observed, input.now);
        let snapshot = |name: &str| snapshots.iter().map(|one| &**one).find(|one| one.name() == name);
        let mut actions = Actions::none();
        for planned in &plan.writes {
            actions.writes.extend(match planned {
                Planned::AddFinalizer => {
                    Some(Write::change(&*override_, &meta::with_finalizer(&*override_, finalizers::OVERRIDE)))
                }
                Planned::RemoveFinalizer => {
                    Some(Write::change(&*override_, &meta::without_finalizer(&*override_, finalizers::OVERRIDE)))
                }
                Planned::CreateSnapshot(new) => Some(Write::create(&new.object::<O, F, S>(&override_))),
                Planned::SetLatestLabel { snapshot: name, latest } => {
                    snapshot(name).map(|one| changed(one, |one| meta::set_latest(one, *latest)))
                }
                Planned::DeleteSnapshot { snapshot: name } => snapshot(name).map(Write::delete),
            });
        }
        if let OverrideOutcome::Stopped(fault) = &plan.report.outcome {
            actions.events.push(KubeEvent::about(&*override_, &OverrideEvent::Stopped { fault: fault.to_string() }));
            actions.result = PlanResult::blocked(fault);
        }
        actions.note = Some(format!("{:?}", plan.report.outcome));
        actions
    }
}
