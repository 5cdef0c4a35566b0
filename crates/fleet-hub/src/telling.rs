//! Events for the people who look at an object, in the form that the runtime publishes.
//!
//! Decides nothing: kind, reason and words are the event's own. Never decides what is worth telling.

use fleet_api::conditions::events::{EventType, FleetEvent};
use fleet_runtime::{KubeEvent, Regarding};
use kube::Resource;

/// This event, about this object.
pub(crate) fn told<K: Resource<DynamicType = ()>>(event: &impl FleetEvent, about: &K) -> KubeEvent {
    KubeEvent {
        regarding: Regarding::of(about),
        warning: event.event_type() == EventType::Warning,
        reason: event.reason_word(),
        message: event.to_string(),
    }
}
