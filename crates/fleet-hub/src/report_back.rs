//! Copies statuses that members send back to the resources on the hub, for placements of one scope.
//!
//! Decides when that is looked at: only for placements that ask for it, when a member says something new or a resource is
//! made anew. Who else writes a resource's status is not interfered with. Reads the resources that a status is for, and
//! writes nothing but their status. Never decides which status counts: that is `fleet_core::workgen::report_back`.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fleet_api::kinds::{Binding, Obj, Placement, Scope, ScopeKind, Work};
use fleet_api::names::{ClusterName, MemberNamespace, PlacementKey};
use fleet_api::types::ResourceIdentifier;
use fleet_core::workgen::report_back::{Observed, Write as Planned, is_asked_for, plan, wanted};
use fleet_core::workgen::{BindingFacts, WorkFacts};
use fleet_runtime::{
    Actions, Cache, Controller, Error, Event, KindId, MetadataObject, Moment, Next, ObjectKey, Outcome, PatchFormat,
    Reader, Runtime, Triggers, Write,
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
    let (of_works, of_bindings, of_resources) =
        (scope.placements.clone(), scope.placements.clone(), scope.placements.clone());
    let triggers = Triggers::new()
        .on(&scope.placements, on_placement)
        .on(&scope.bindings, move |event| on_binding(&of_bindings, event))
        .on(&caches.works, move |event| on_work(&of_works, event))
        .on_metadata(world.metadata(), move |kind, event| on_resource(&of_resources, kind, event))
        .on_discovery(world.discovery(), Vec::new);
    let controller = ReportBack { caches: scope.clone(), works: caches.works.clone(), world: world.clone() };
    runtime.controller(controller, triggers, options.placement_workers());
}

fn on_placement<S: Scope>(event: Event<'_, Obj<Placement, S>>) -> Option<PlacementKey> {
    let placement = event.new.filter(|placement| is_asked_for(&placement.spec))?;
    let is_news = event.changed(|one| (one.generation(), one.status.as_ref().map(|status| &status.selected_resources)));
    key_of(placement).filter(|_| is_news)
}

fn on_binding<S: Scope>(
    placements: &Cache<Obj<Placement, S>>,
    event: Event<'_, Obj<Binding, S>>,
) -> Option<PlacementKey> {
    let is_news = event.changed(|one| (&one.spec.state, meta::is_deleting(one)));
    let key = event.new.or(event.old).filter(|_| is_news).and_then(parent_of)?;
    Some(key).filter(|key| concerns(placements, key))
}

fn on_work<S: Scope>(placements: &Cache<Obj<Placement, S>>, event: Event<'_, Work>) -> Option<PlacementKey> {
    let key = placement_of_work(event.new?)?;
    if key.namespace.is_some() != (S::KIND == ScopeKind::Namespaced) || !concerns(placements, &key) {
        return None;
    }
    event.changed(|work| (&work.status, work.generation())).then_some(key)
}

/// One that was made anew has no status yet, and need not be selected anew.
fn on_resource<S: Scope>(
    placements: &Cache<Obj<Placement, S>>,
    kind: &KindId,
    event: Event<'_, MetadataObject>,
) -> Vec<PlacementKey> {
    if event.new.is_none() || !event.changed(|one| &one.metadata.uid) {
        return Vec::new();
    }
    let key = event.key();
    let resource =
        resource_value(&kind.group, &kind.version, &kind.kind, key.namespace().unwrap_or_default(), key.name());
    let asking = placements.keys_by(by::REPORTED_BACK, &resource);
    asking.iter().filter_map(|key| PlacementKey::parse(&key.to_string()).ok()).collect()
}

/// Under which values `by::REPORTED_BACK` has a placement.
pub(crate) fn reported_back<S: Scope>(placement: &Obj<Placement, S>) -> Vec<String> {
    let selected = placement.status.iter().flat_map(|status| &status.selected_resources);
    let value =
        |one: &ResourceIdentifier| resource_value(&one.group, &one.version, &one.kind, &one.namespace, &one.name);
    selected.filter(|_| is_asked_for(&placement.spec)).map(value).collect()
}

fn resource_value(group: &str, version: &str, kind: &str, namespace: &str, name: &str) -> String {
    format!("{group}/{version}/{kind} {namespace}/{name}")
}

fn concerns<S: Scope>(placements: &Cache<Obj<Placement, S>>, key: &PlacementKey) -> bool {
    placements.get(&object_key(key)).is_some_and(|placement| is_asked_for(&placement.spec))
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
        let placement = self.caches.placements.get(&object_key(key)).filter(|one| is_asked_for(&one.spec))?;
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
