//! What is to be written to a simulated cluster, as data.
//!
//! Decides nothing. Plans are made of what was observed; carrying one out in part does no harm, because the rest is planned
//! again.

use jiff::Timestamp;
use serde_json::Value;

use super::kinds::Kind;

/// What to do about one object, and when to look at it again though nothing changes.
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
    /// A kind that nobody here looks after: events' volumes.
    CreateVolume(Value),
    /// Merges into the object that the plan is about, or into the named one of its namespace.
    Patch {
        kind: Kind,
        name: String,
        patch: Value,
    },
    /// Merges into the status of the object that the plan is about.
    Status(Value),
    /// Puts the pod that the plan is about on a node.
    Bind {
        node: String,
    },
    /// Deletes an object of the same namespace.
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
    /// As a user would.
    Asked,
    /// At once: it has ended.
    Final,
}

/// Something to tell about the object that the plan is about.
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

    /// Looks again at this instant, or earlier if something else asked for that.
    pub(super) fn wake_at(&mut self, at: Option<Timestamp>) {
        self.wake = match (self.wake, at) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }

    /// Writes the status if it says something new.
    pub(super) fn report(&mut self, object: &Value, status: Value) {
        let same = status.as_object().is_some_and(|fields| {
            fields.iter().all(|(name, value)| {
                let there = object["status"].get(name).unwrap_or(&Value::Null);
                // A count of nothing is left out on the wire.
                there == value || (there.is_null() && (*value == 0 || *value == serde_json::json!([])))
            })
        });
        if !same {
            self.push(Write::Status(status));
        }
    }
}
