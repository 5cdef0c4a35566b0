//! Emits an event for placements whose names are not valid label values, which the webhooks refuse.
//!
//! No object can belong to such a placement, so all other controllers ignore it.

use fleet_api::conditions::events::PlacementEvent;
use fleet_api::kinds::{Obj, Placement, Scope, ScopeKind};
use fleet_api::names::PlacementName;
use fleet_runtime::{Actions, Cache, Controller, Event, KubeEvent, ObjectKey, PlanInput, Runtime, Triggers};

use crate::keys::key_of;
use crate::names;

/// Such placements are rare, and an event is cheap.
const WORKERS: usize = 1;

/// Starts the controller for one scope.
pub(super) fn start<S: Scope>(runtime: &mut Runtime, placements: &Cache<Obj<Placement, S>>) {
    let triggers = Triggers::new().on(placements, on_placement);
    runtime.controller(InvalidNames { placements: placements.clone() }, triggers, WORKERS);
}

/// A name never changes.
fn on_placement<S: Scope>(event: Event<'_, Obj<Placement, S>>) -> Option<ObjectKey> {
    let placement = event.new.filter(|_| event.old.is_none())?;
    (key_of(placement).is_none() && !placement.is_deleting()).then(|| event.key())
}

struct InvalidNames<S: Scope> {
    placements: Cache<Obj<Placement, S>>,
}

impl<S: Scope> Controller for InvalidNames<S> {
    const NAME: &'static str = match S::KIND {
        ScopeKind::Cluster => names::CLUSTER_PLACEMENT_NAMES,
        ScopeKind::Namespaced => names::NAMESPACED_PLACEMENT_NAMES,
    };
    type Key = ObjectKey;
    type Facts = ();

    fn plan(&self, key: &ObjectKey, _: Option<()>, _: PlanInput) -> Actions {
        let (Some(placement), Err(problem)) = (self.placements.get(key), PlacementName::parse(key.name())) else {
            return Actions::none();
        };
        tracing::warn!(placement = %key, %problem, "nothing is done for a placement with such a name");
        let event = KubeEvent::about(&*placement, &PlacementEvent::NameInvalid { problem: problem.to_string() });
        Actions { events: vec![event], ..Actions::none() }
    }
}
