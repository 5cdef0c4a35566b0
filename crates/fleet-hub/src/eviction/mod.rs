//! Carries out evictions of ClusterResourcePlacements.
//!
//! Decides which eviction is next: of each placement the oldest that is undecided, one at a time, so that two never pass one
//! budget together. A verdict is for ever, so it rests on what the server says at that moment and not on caches, which may
//! lag. What cannot be read decides nothing. Never decides whether an eviction is allowed: that is `fleet_core::eviction`.

mod metrics;

pub(crate) use metrics::Completions;

use std::collections::BTreeMap;
use std::sync::Arc;

use fleet_api::kinds::{
    ClusterResourceBinding, ClusterResourcePlacement, ClusterResourcePlacementDisruptionBudget,
    ClusterResourcePlacementEviction,
};
use fleet_api::names::PlacementName;
use fleet_api::well_known::labels;
use fleet_core::eviction::{
    BindingFacts, EvictionFacts, Observed, PlacementFacts, Verdict, Write as Planned, plan, verdict,
};
use fleet_runtime::{Actions, Cache, Controller, Error, KindId, Moment, ObjectKey, Reader, Runtime, Triggers, Write};
use parking_lot::Mutex;

use crate::caches::by;
use crate::meta::{is_deleting, name};
use crate::names;

/// As many placements as are looked at together; each has one eviction in hand.
const WORKERS: usize = 4;

/// Starts evictions.
pub(crate) fn start(runtime: &mut Runtime, evictions: &Cache<ClusterResourcePlacementEviction>) {
    let triggers = Triggers::new().on(evictions, |event| {
        event.sides().map(|eviction| ObjectKey::cluster(eviction.spec.placement_name.as_str())).collect::<Vec<_>>()
    });
    let controller = Evictions { evictions: evictions.clone(), begun: Mutex::default() };
    runtime.controller(controller, triggers, WORKERS);
}

struct Evictions {
    evictions: Cache<ClusterResourcePlacementEviction>,
    /// By placement, the eviction in hand that was carried out and not recorded yet.
    begun: Mutex<BTreeMap<ObjectKey, Begun>>,
}

/// Which binding is removed for which eviction, by their uids.
#[derive(Debug, Clone)]
struct Begun {
    eviction: Option<String>,
    binding: Option<String>,
}

/// What a verdict rests on, read at that moment.
struct Live {
    placement: Option<ClusterResourcePlacement>,
    bindings: Vec<ClusterResourceBinding>,
    budget: Option<ClusterResourcePlacementDisruptionBudget>,
}

impl Controller for Evictions {
    const NAME: &'static str = names::EVICTION;
    /// The name of a placement, which may not exist.
    type Key = ObjectKey;
    type Facts = Option<Live>;

    async fn fetch(&self, placement: &ObjectKey, reader: &Reader) -> Result<Option<Live>, Error> {
        if self.next(placement).is_none() {
            return Ok(None);
        }
        // The budget last: one that is made while the rest is read still counts.
        let (object, bindings) = (reader.get_as(placement).await?, bindings(placement, reader).await?);
        Ok(Some(Live { placement: object, bindings, budget: reader.get_as(placement).await? }))
    }

    fn plan(&self, placement: &ObjectKey, live: Option<Live>, moment: Moment) -> Actions {
        let begun = self.begun.lock().remove(placement);
        let (Some(eviction), Some(live)) = (self.next(placement), live) else { return Actions::none() };
        let begun = begun.filter(|begun| begun.eviction == eviction.metadata.uid);
        let observed = Observed {
            eviction: EvictionFacts::of(&eviction),
            placement: live.placement.as_ref().map(PlacementFacts::of),
            bindings: live.bindings.iter().map(BindingFacts::of).collect(),
            budget: live.budget.as_ref().map(|budget| &budget.spec),
            begun_with: begun.as_ref().and_then(|begun| begun.binding.as_deref()),
        };
        let plan = plan(&observed, moment.now);
        let mut actions = Actions::none();
        let mut current = ClusterResourcePlacementEviction::clone(&eviction);
        let mut target = begun.and_then(|begun| begun.binding);
        for planned in plan.writes {
            match planned {
                Planned::Begin { status, .. } => {
                    let begun = current.clone().with_status(status);
                    actions.write(Write::status(&current, &begun));
                    current = begun;
                }
                Planned::DeleteBinding { binding } => {
                    let found = live.bindings.iter().find(|found| name(*found) == binding);
                    actions.writes.extend(found.map(delete_as_seen));
                    target = found.and_then(|found| found.metadata.uid.clone());
                }
            }
        }
        if let Some(status) = plan.status {
            actions.write(Write::status(&current, &current.clone().with_status(status)));
        }
        if target.is_some() {
            let begun = Begun { eviction: eviction.metadata.uid.clone(), binding: target };
            self.begun.lock().insert(placement.clone(), begun);
        }
        actions.note = Some(format!("{}: {:?}", name(&*eviction), plan.report));
        actions
    }
}

impl Evictions {
    /// The oldest eviction of a placement that waits for its verdict.
    fn next(&self, placement: &ObjectKey) -> Option<Arc<ClusterResourcePlacementEviction>> {
        let all = self.evictions.by(by::PLACEMENT, placement.name());
        let waiting = all.into_iter().filter(|one| verdict(one) == Verdict::Pending && !is_deleting(&**one));
        waiting.min_by_key(|one| (one.metadata.creation_timestamp.clone(), one.metadata.name.clone()))
    }
}

/// Only the version that the verdict rests on: if it changed, the verdict may be another.
fn delete_as_seen(binding: &ClusterResourceBinding) -> Write {
    let version = binding.metadata.resource_version.clone().unwrap_or_default();
    Write::delete(binding).of_version(version)
}

/// All bindings of a placement. A name that no binding can carry has none.
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
