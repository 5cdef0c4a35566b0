//! The report-back controller of one scope: copies statuses from members to the resources on the hub, for placements
//! that enable it. `fleet_core::workgen::report_back` plans. It reacts to new statuses from members and to recreated
//! resources, and does not fight other writers of the status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fleet_api::kinds::{Binding, Obj, Placement, Scope, ScopeKind, Work};
use fleet_api::names::{ClusterName, MemberNamespace, PlacementKey};
use fleet_api::types::ResourceIdentifier;
use fleet_core::workgen::report_back::{Observed, Write as Planned, is_enabled, plan, resources_to_read};
use fleet_core::workgen::{BindingFacts, WorkFacts};
use fleet_runtime::{
    Actions, Cache, CacheIndex, Controller, Error, Event, KindId, MetadataObject, ObjectKey, PatchFormat, PlanInput,
    ReconcileContext, Runtime, Triggers, Wake, Write, WriteResult,
};
use serde_json::{Value, json};

use crate::caches::{Caches, PlacementAndMember, PlacementCaches};
use crate::keys::{key_of, object_key, parent_of, placement_of_work};
use crate::names;
use crate::options::HubOptions;
use crate::placement::ClusterView;

/// Delay before a failed status write is retried. Some kinds accept no status at all.
const RETRY_DELAY: Duration = Duration::from_mins(1);

/// Starts the controller for one scope.
pub(crate) fn start<S: Scope>(
    runtime: &mut Runtime,
    options: &HubOptions,
    caches: &Caches,
    scope: &PlacementCaches<S>,
    view: &ClusterView,
) {
    let (of_works, of_bindings, of_resources) =
        (scope.placements.clone(), scope.placements.clone(), scope.placements_by_reported_resource.clone());
    let triggers = Triggers::new()
        .on(&scope.placements, on_placement)
        .on(&scope.bindings, move |event| on_binding(&of_bindings, event))
        .on(&caches.works, move |event| on_work(&of_works, event))
        .on_metadata(view.metadata(), move |kind, event| on_resource(&of_resources, kind, event))
        .on_discovery(view.discovery(), Vec::new);
    let controller =
        ReportBack { caches: scope.clone(), works: caches.works_by_placement_and_member.clone(), view: view.clone() };
    runtime.controller(controller, triggers, options.placement_workers());
}

fn on_placement<S: Scope>(event: Event<'_, Obj<Placement, S>>) -> Option<PlacementKey> {
    let placement = event.new.filter(|placement| is_enabled(&placement.spec))?;
    let is_relevant =
        event.changed(|one| (one.generation(), one.status.as_ref().map(|status| &status.selected_resources)));
    key_of(placement).filter(|_| is_relevant)
}

fn on_binding<S: Scope>(
    placements: &Cache<Obj<Placement, S>>,
    event: Event<'_, Obj<Binding, S>>,
) -> Option<PlacementKey> {
    let is_relevant = event.changed(|one| (&one.spec.state, one.is_deleting()));
    let key = event.new.or(event.old).filter(|_| is_relevant).and_then(parent_of)?;
    Some(key).filter(|key| is_enabled_for(placements, key))
}

fn on_work<S: Scope>(placements: &Cache<Obj<Placement, S>>, event: Event<'_, Work>) -> Option<PlacementKey> {
    let key = placement_of_work(event.new?)?;
    if key.namespace.is_some() != (S::KIND == ScopeKind::Namespaced) || !is_enabled_for(placements, &key) {
        return None;
    }
    event.changed(|work| (&work.status, work.generation())).then_some(key)
}

/// A recreated resource has no status, although the placement's selection does not change.
fn on_resource<S: Scope>(
    placements: &CacheIndex<Obj<Placement, S>, String>,
    kind: &KindId,
    event: Event<'_, MetadataObject>,
) -> Vec<PlacementKey> {
    if event.new.is_none() || !event.changed(|one| &one.metadata.uid) {
        return Vec::new();
    }
    let key = event.key();
    let resource =
        resource_value(&kind.group, &kind.version, &kind.kind, key.namespace().unwrap_or_default(), key.name());
    let enabled = placements.keys(&resource);
    enabled.iter().filter_map(|key| PlacementKey::parse(&key.to_string()).ok()).collect()
}

/// The resources whose status a placement wants reported back.
pub(crate) fn reported_resources<S: Scope>(placement: &Obj<Placement, S>) -> Vec<String> {
    let selected = placement.status.iter().flat_map(|status| &status.selected_resources);
    let value =
        |one: &ResourceIdentifier| resource_value(&one.group, &one.version, &one.kind, &one.namespace, &one.name);
    selected.filter(|_| is_enabled(&placement.spec)).map(value).collect()
}

fn resource_value(group: &str, version: &str, kind: &str, namespace: &str, name: &str) -> String {
    format!("{group}/{version}/{kind} {namespace}/{name}")
}

fn is_enabled_for<S: Scope>(placements: &Cache<Obj<Placement, S>>, key: &PlacementKey) -> bool {
    placements.get(&object_key(key)).is_some_and(|placement| is_enabled(&placement.spec))
}

struct ReportBack<S: Scope> {
    caches: PlacementCaches<S>,
    works: CacheIndex<Work, PlacementAndMember>,
    view: ClusterView,
}

/// A placement with its bindings and Works.
struct Observation<S: Scope> {
    placement: Arc<Obj<Placement, S>>,
    bindings: Vec<Arc<Obj<Binding, S>>>,
    works: Vec<Arc<Work>>,
}

impl<S: Scope> Observation<S> {
    fn observed<'a>(&'a self, originals: BTreeMap<ResourceIdentifier, &'a Value>) -> Observed<'a> {
        Observed {
            spec: &self.placement.spec,
            selected: self.placement.status.as_ref().map_or(&[], |status| &status.selected_resources),
            bindings: self.bindings.iter().map(|binding| BindingFacts::of(&**binding)).collect(),
            works: self.works.iter().map(|work| WorkFacts::of(work)).collect(),
            originals,
        }
    }

    fn resources_to_read(&self) -> BTreeSet<ResourceIdentifier> {
        resources_to_read(&self.observed(BTreeMap::new()))
    }
}

impl<S: Scope> Controller for ReportBack<S> {
    const NAME: &'static str = match S::KIND {
        ScopeKind::Cluster => names::CLUSTER_REPORT_BACK,
        ScopeKind::Namespaced => names::NAMESPACED_REPORT_BACK,
    };
    type Key = PlacementKey;
    /// The resources on the hub for which a member reported a status.
    type Facts = BTreeMap<ResourceIdentifier, Value>;

    async fn fetch(&self, key: &PlacementKey, context: &ReconcileContext<'_>) -> Result<Self::Facts, Error> {
        let mut originals = BTreeMap::new();
        let observation = self.observe(key);
        for resource in observation.as_ref().map(Observation::resources_to_read).unwrap_or_default() {
            let Some((kind, key)) = self.locate(&resource) else { continue };
            if let Some(original) = context.reader().get(&kind, &key).await? {
                originals.insert(resource, original);
            }
        }
        Ok(originals)
    }

    fn plan(&self, key: &PlacementKey, originals: Option<Self::Facts>, input: PlanInput) -> Actions {
        let Some(observation) = self.observe(key) else { return Actions::none() };
        let Some(originals) = originals.or_else(|| observation.resources_to_read().is_empty().then(BTreeMap::new))
        else {
            return Actions::needs_facts();
        };
        let originals = originals.iter().map(|(resource, original)| (resource.clone(), original)).collect();
        let plan = plan(&observation.observed(originals), input.now);
        let mut actions = Actions::none();
        for Planned::SetStatus { resource, status, .. } in &plan.writes {
            if let Some((kind, key)) = self.locate(resource) {
                let whole = json!([{"op": "add", "path": "/status", "value": status}]);
                let write = Write::patch_raw(kind, key, PatchFormat::Json, whole).to_subresource("status");
                actions.writes.push(write.best_effort());
            }
        }
        actions.note = Some(format!("{:?}", plan.report.outcome));
        actions
    }

    fn on_results(&self, key: &PlacementKey, results: Vec<WriteResult>, input: PlanInput) -> Option<Actions> {
        let failed = results.into_iter().find_map(Result::err)?;
        tracing::warn!(placement = %key, error = failed.with_causes(), "cannot copy a reported status to the hub");
        let again = input.now.checked_add(RETRY_DELAY).unwrap_or(input.now);
        Some(Actions::none().with_wake(Wake::At(again)))
    }
}

impl<S: Scope> ReportBack<S> {
    /// `None` if the placement does not exist or does not enable report-back.
    fn observe(&self, key: &PlacementKey) -> Option<Observation<S>> {
        let placement = self.caches.placements.get(&object_key(key)).filter(|one| is_enabled(&one.spec))?;
        let bindings = self.caches.bindings_by_placement.get(key);
        let member = |binding: &Arc<Obj<Binding, S>>| {
            let namespace = MemberNamespace::of(&ClusterName::parse(&binding.spec.target_cluster).ok()?).ok()?;
            Some(PlacementAndMember { placement: key.clone(), member_namespace: namespace.to_string() })
        };
        let works = bindings.iter().filter_map(member).flat_map(|member| self.works.get(&member));
        Some(Observation { placement, works: works.collect(), bindings })
    }

    /// Kind and key of a resource on the hub, if the hub knows its kind.
    fn locate(&self, resource: &ResourceIdentifier) -> Option<(KindId, ObjectKey)> {
        let kind = self.view.kind(&resource.group, &resource.version, &resource.kind)?;
        Some((kind, ObjectKey::new(Some(resource.namespace.as_str()).filter(|one| !one.is_empty()), &resource.name)))
    }
}
