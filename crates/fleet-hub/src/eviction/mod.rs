//! The eviction controller for ClusterResourcePlacements. `fleet_core::eviction` plans.
//!
//! It handles one eviction per placement at a time, the oldest first, so that two evictions never use the same budget.
//! A verdict is final, so it is based on reads from the API server and not on caches.

mod metrics;

pub(crate) use metrics::EvictionMetrics;

use std::sync::Arc;

use fleet_api::kinds::{
    ClusterResourceBinding, ClusterResourcePlacement, ClusterResourcePlacementDisruptionBudget,
    ClusterResourcePlacementEviction,
};
use fleet_api::names::PlacementName;
use fleet_api::well_known::{annotations, labels};
use fleet_core::eviction::{
    BindingFacts, EvictionFacts, Observed, PlacementFacts, Verdict, Write as Planned, plan, verdict,
};
use fleet_runtime::{
    Actions, CacheIndex, Controller, Error, KindId, ObjectKey, PlanInput, Reader, ReconcileContext, Runtime, Triggers,
    Write,
};

use crate::meta::annotate;
use crate::names;

/// Number of placements handled in parallel, each with one eviction.
const WORKERS: usize = 4;

type EvictionsByPlacement = CacheIndex<ClusterResourcePlacementEviction, String>;

/// Starts the controller.
pub(crate) fn start(runtime: &mut Runtime, evictions: &EvictionsByPlacement) {
    let triggers = Triggers::new().on(evictions.cache(), |event| {
        event.versions().map(|eviction| ObjectKey::cluster(eviction.spec.placement_name.as_str())).collect::<Vec<_>>()
    });
    let controller = Evictions { evictions: evictions.clone() };
    runtime.controller(controller, triggers, WORKERS);
}

struct Evictions {
    evictions: EvictionsByPlacement,
}

/// The input of a verdict, read from the API server.
struct ServerState {
    placement: Option<ClusterResourcePlacement>,
    bindings: Vec<ClusterResourceBinding>,
    budget: Option<ClusterResourcePlacementDisruptionBudget>,
}

impl Controller for Evictions {
    const NAME: &'static str = names::EVICTION;
    /// The name of a placement, which may not exist.
    type Key = ObjectKey;
    type Facts = ServerState;

    async fn fetch(&self, placement: &ObjectKey, context: &ReconcileContext<'_>) -> Result<ServerState, Error> {
        let reader = context.reader();
        // The budget is read last, so that one created meanwhile still counts.
        let (object, bindings) = (reader.get_as(placement).await?, bindings(placement, reader).await?);
        Ok(ServerState { placement: object, bindings, budget: reader.get_as(placement).await? })
    }

    fn plan(&self, placement: &ObjectKey, state: Option<ServerState>, input: PlanInput) -> Actions {
        let Some(eviction) = self.next(placement) else { return Actions::none() };
        let Some(state) = state else { return Actions::needs_facts() };
        let observed = Observed {
            eviction: EvictionFacts::of(&eviction),
            placement: state.placement.as_ref().map(PlacementFacts::of),
            bindings: state.bindings.iter().map(BindingFacts::of).collect(),
            budget: state.budget.as_ref().map(|budget| &budget.spec),
        };
        let plan = plan(&observed, input.now);
        let mut actions = Actions::none();
        let mut current = ClusterResourcePlacementEviction::clone(&eviction);
        for planned in plan.writes {
            match planned {
                Planned::Record { binding_uid, allowed_by, .. } => {
                    let mut recorded = current.clone();
                    annotate(&mut recorded, annotations::EVICTED_BINDING_UID, binding_uid);
                    annotate(&mut recorded, annotations::EVICTION_ALLOWED_BY, allowed_by.to_string());
                    actions.write(Write::change(&current, &recorded));
                    current = recorded;
                }
                Planned::DeleteBinding { binding } => {
                    let found = state.bindings.iter().find(|found| found.name() == binding);
                    actions.writes.extend(found.map(delete_observed));
                }
            }
        }
        if let Some(status) = plan.status {
            actions.write(Write::status(&current, &current.clone().with_status(status)));
        }
        actions.note = Some(format!("{}: {:?}", eviction.name(), plan.report));
        actions
    }
}

impl Evictions {
    /// The oldest pending eviction of a placement.
    fn next(&self, placement: &ObjectKey) -> Option<Arc<ClusterResourcePlacementEviction>> {
        let all = self.evictions.get(placement.name());
        let waiting = all.into_iter().filter(|one| verdict(one) == Verdict::Pending && !one.is_deleting());
        waiting.min_by_key(|one| (one.metadata.creation_timestamp.clone(), one.metadata.name.clone()))
    }
}

/// Deletes only the observed version: if the binding has changed, the verdict may differ.
fn delete_observed(binding: &ClusterResourceBinding) -> Write {
    let version = binding.metadata.resource_version.clone().unwrap_or_default();
    Write::delete(binding).of_version(version)
}

/// All bindings of a placement; none if the name is invalid.
async fn bindings(placement: &ObjectKey, reader: &Reader) -> Result<Vec<ClusterResourceBinding>, Error> {
    if PlacementName::parse(placement.name()).is_err() {
        return Ok(Vec::new());
    }
    let kind = KindId::of::<ClusterResourceBinding>();
    let selector = format!("{}={}", labels::PARENT_PLACEMENT, placement.name());
    let objects = reader.list(&kind, None, Some(&selector)).await?;
    let read = |object: serde_json::Value| {
        let key = ObjectKey::of_value(&object).unwrap_or_else(|| ObjectKey::cluster(""));
        serde_json::from_value(object).map_err(|source| Error::Unreadable { kind: kind.clone(), key, source })
    };
    objects.into_iter().map(read).collect()
}
