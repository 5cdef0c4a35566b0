//! The writes of one reconcile, as data. Executing a part of a plan is safe, because the rest is planned again.

use jiff::Timestamp;
use serde_json::Value;

use super::kinds::Kind;

/// The writes for one object, and when to reconcile it again without a change.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) writes: Vec<Write>,
    pub(super) wake: Option<Timestamp>,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Write {
    Create {
        kind: Kind,
        object: Value,
    },
    /// A PersistentVolume, which is not a simulated kind.
    CreateVolume(Value),
    /// A merge patch of an object in the same namespace.
    Patch {
        kind: Kind,
        name: String,
        patch: Value,
    },
    /// A merge patch of the status of the planned object.
    Status(Value),
    /// Binds the planned pod to a node.
    Bind {
        node: String,
    },
    /// Deletes an object in the same namespace.
    Delete {
        kind: Kind,
        name: String,
        uid: String,
        how: Deletion,
    },
    Event(Event),
}

/// How an object is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deletion {
    /// With the grace period, as a user would.
    Graceful,
    /// Without a grace period: the pod has ended.
    Immediate,
}

/// A Kubernetes Event about the planned object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) component: &'static str,
}

impl Event {
    pub(super) fn normal(component: &'static str, reason: &'static str, message: impl Into<String>) -> Write {
        Write::Event(Self { warning: false, reason, message: message.into(), component })
    }

    pub(super) fn warning(component: &'static str, reason: &'static str, message: impl Into<String>) -> Write {
        Write::Event(Self { warning: true, reason, message: message.into(), component })
    }
}

impl Plan {
    pub(super) fn push(&mut self, write: Write) {
        self.writes.push(write);
    }

    /// Requeues the object at this time, unless it is requeued earlier.
    pub(super) fn wake_at(&mut self, at: Option<Timestamp>) {
        self.wake = match (self.wake, at) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }

    /// Writes the status if it differs.
    pub(super) fn report(&mut self, object: &Value, status: Value) {
        let same = status.as_object().is_some_and(|fields| {
            fields.iter().all(|(name, value)| {
                let there = object["status"].get(name).unwrap_or(&Value::Null);
                // The API omits empty values.
                there == value || (there.is_null() && (*value == 0 || *value == serde_json::json!([])))
            })
        });
        if !same {
            self.push(Write::Status(status));
        }
    }
}
