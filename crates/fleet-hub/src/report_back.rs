//! Copies statuses that members send back to the resources on the hub, for placements of one scope.
//!
//! Decides when that is looked at: only for placements that ask for it. Reads the resources that a status is for, and
//! writes nothing but their status. Never decides which status counts: that is `fleet_core::workgen::report_back`.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fleet_api::kinds::{Binding, Obj, Placement, Scope, ScopeKind, Work};
use fleet_api::names::{ClusterName, MemberNamespace, PlacementKey};
use fleet_api::types::{ReportBackDestination, ReportBackStrategyType, ResourceIdentifier};
use fleet_core::workgen::report_back::{Observed, Write as Planned, plan, wanted};
use fleet_core::workgen::{BindingFacts, WorkFacts};
use fleet_runtime::{
    Actions, Cache, Controller, Error, Event, KindId, Moment, Next, ObjectKey, Outcome, PatchFormat, Reader, Runtime,
    Triggers, Write,
};
use serde_json::{Value, json};

use crate::caches::{Caches, PlacementCaches, by, works_at};
use crate::keys::{key_of, object_key, parent_of, placement_of_work};
use crate::meta;
use crate::names;
use crate::options::HubOptions;
use crate::placement::World;

/// When a status is tried again that could not be written. A resource that takes none must not be asked all the time.
const TRY_AGAIN_AFTER: Duration = Duration::from_mins(1);

/// Starts the controller for one scope.
pub(crate) fn start<S: Scope>(
    runtime: &mut Runtime,
    options: &HubOptions,
    caches: &Caches,
    scope: &PlacementCaches<S>,
    world: &World,
) {
    let (of_works, of_bindings) = (scope.placements.clone(), scope.placements.clone());
    let triggers = Triggers::new()
        .on(&scope.placements, on_placement)
        .on(&scope.bindings, move |event| on_binding(&of_bindings, event))
        .on(&caches.works, move |event| on_work(&of_works, event))
        .on_discovery(world.discovery(), Vec::new);
    let controller = ReportBack { caches: scope.clone(), works: caches.works.clone(), world: world.clone() };
    runtime.controller(controller, triggers, options.placement_workers());
}

fn on_placement<S: Scope>(event: Event<'_, Obj<Placement, S>>) -> Option<PlacementKey> {
    let looked_at = |one: &Obj<Placement, S>| {
        (one.generation(), one.status.as_ref().map(|status| status.selected_resources.clone()))
    };
    let placement = event.new.filter(|placement| asks(placement))?;
    key_of(placement).filter(|_| event.changed(looked_at))
}

fn on_binding<S: Scope>(
    placements: &Cache<Obj<Placement, S>>,
    event: Event<'_, Obj<Binding, S>>,
) -> Option<PlacementKey> {
    let looked_at = |one: &Obj<Binding, S>| (one.spec.state.clone(), meta::is_deleting(one));
    let key = event.new.or(event.old).filter(|_| event.changed(looked_at)).and_then(parent_of)?;
    Some(key).filter(|key| concerns(placements, key))
}

fn on_work<S: Scope>(placements: &Cache<Obj<Placement, S>>, event: Event<'_, Work>) -> Option<PlacementKey> {
    let key = placement_of_work(event.new?)?;
    if key.namespace.is_some() != (S::KIND == ScopeKind::Namespaced) || !concerns(placements, &key) {
        return None;
    }
    event.changed(|work| (work.status.clone(), work.generation())).then_some(key)
}

fn concerns<S: Scope>(placements: &Cache<Obj<Placement, S>>, key: &PlacementKey) -> bool {
    placements.get(&object_key(key)).is_some_and(|placement| asks(&placement))
}

fn asks<S: Scope>(placement: &Obj<Placement, S>) -> bool {
    let strategy = placement.spec.strategy.as_ref().and_then(|strategy| strategy.report_back_strategy);
    strategy.is_some_and(|strategy| {
        strategy.type_ == ReportBackStrategyType::Mirror
            && strategy.destination == Some(ReportBackDestination::OriginalResource)
    })
}

struct ReportBack<S: Scope> {
    caches: PlacementCaches<S>,
    works: Cache<Work>,
    world: World,
}

/// A placement with what members said of it.
struct Seen<S: Scope> {
    placement: Arc<Obj<Placement, S>>,
    bindings: Vec<Arc<Obj<Binding, S>>>,
    works: Vec<Arc<Work>>,
}

impl<S: Scope> Seen<S> {
    fn observed<'a>(&'a self, originals: BTreeMap<ResourceIdentifier, &'a Value>) -> Observed<'a> {
        Observed {
            spec: &self.placement.spec,
            selected: self.placement.status.as_ref().map_or(&[], |status| &status.selected_resources),
            bindings: self.bindings.iter().map(|binding| BindingFacts::of(&**binding)).collect(),
            works: self.works.iter().map(|work| WorkFacts::of(work)).collect(),
            originals,
        }
    }
}

impl<S: Scope> Controller for ReportBack<S> {
    const NAME: &'static str = match S::KIND {
        ScopeKind::Cluster => names::CLUSTER_REPORT_BACK,
        ScopeKind::Namespaced => names::NAMESPACED_REPORT_BACK,
    };
    type Key = PlacementKey;
    /// The resources on the hub that a status was sent back for.
    type Facts = BTreeMap<ResourceIdentifier, Value>;

    fn fetch(&self, key: &PlacementKey, reader: &Reader) -> impl Future<Output = Result<Self::Facts, Error>> + Send {
        let wanted = self.see(key).map(|seen| wanted(&seen.observed(BTreeMap::new()))).unwrap_or_default();
        async move {
            let mut originals = BTreeMap::new();
            for resource in wanted {
                let Some((kind, key)) = self.address(&resource) else { continue };
                if let Some(original) = reader.get(&kind, &key).await? {
                    originals.insert(resource, original);
                }
            }
            Ok(originals)
        }
    }

    fn plan(&self, key: &PlacementKey, originals: Self::Facts, moment: Moment) -> Actions {
        let Some(seen) = self.see(key) else { return Actions::none() };
        let originals = originals.iter().map(|(resource, original)| (resource.clone(), original)).collect();
        let plan = plan(&seen.observed(originals), moment.now);
        let mut actions = Actions::none();
        for Planned::SetStatus { resource, status, .. } in &plan.writes {
            if let Some((kind, key)) = self.address(resource) {
                let whole = json!([{"op": "add", "path": "/status", "value": status}]);
                let write = Write::patch_raw(kind, key, PatchFormat::Json, whole).to_subresource("status");
                actions.writes.push(write.observed());
            }
        }
        actions.note = Some(format!("{:?}", plan.report.outcome));
        actions
    }

    fn conclude(&self, key: &PlacementKey, outcomes: Vec<Outcome>, moment: Moment) -> Option<Actions> {
        let failed = outcomes.into_iter().find_map(Result::err)?;
        tracing::warn!(placement = %key, error = failed.with_causes(), "a status cannot be copied back");
        let again = moment.now.checked_add(TRY_AGAIN_AFTER).unwrap_or(moment.now);
        Some(Actions::none().then(Next::At(again)))
    }
}

impl<S: Scope> ReportBack<S> {
    /// `None` for a placement that is not there or does not ask for anything.
    fn see(&self, key: &PlacementKey) -> Option<Seen<S>> {
        let placement = self.caches.placements.get(&object_key(key)).filter(|placement| asks(placement))?;
        let bindings = self.caches.bindings.by(by::PLACEMENT, &key.to_string());
        let namespace = |binding: &Arc<Obj<Binding, S>>| {
            MemberNamespace::of(&ClusterName::parse(&binding.spec.target_cluster).ok()?).ok()
        };
        let works = bindings
            .iter()
            .filter_map(namespace)
            .flat_map(|namespace| self.works.by(by::PLACEMENT_AND_MEMBER, &works_at(key, namespace.as_str())));
        Some(Seen { placement, works: works.collect(), bindings })
    }

    /// Where a resource is on the hub, if the hub knows its kind.
    fn address(&self, resource: &ResourceIdentifier) -> Option<(KindId, ObjectKey)> {
        let kind = self.world.kind(&resource.group, &resource.version, &resource.kind)?;
        Some((kind, ObjectKey::new(Some(resource.namespace.as_str()).filter(|one| !one.is_empty()), &resource.name)))
    }
}
