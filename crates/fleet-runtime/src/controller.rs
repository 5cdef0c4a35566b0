//! What a controller is: keys, facts, a plan. The one reconcile pattern.
//!
//! Decides nothing; it is the contract between controllers and the loop. A plan is made without waiting, from caches and
//! fetched facts alone, and says everything that is to happen.

use std::fmt::{Debug, Display};
use std::future::Future;

use fleet_api::conditions::events::{EventType, FleetEvent};
use fleet_api::kinds::ScopeKind;
use jiff::Timestamp;
use serde_json::Value;

use crate::error::{Error, with_causes};
use crate::hands::Hands;
use crate::key::ObjectKey;
use crate::kind::KindId;
use crate::reader::Reader;
use crate::write::Write;

/// Turns a key into actions. Everything it knows comes from caches, from `fetch` and from its arguments.
pub trait Controller: Send + Sync + 'static {
    /// For logs, metrics and `Ownership`.
    const NAME: &'static str;
    /// What is reconciled one at a time. `Ord` gives the order in which keys of the first list are looked at.
    type Key: Ord + Clone + Debug + Display + Send + Sync + 'static;
    /// Content that is too big to be cached. Usually `()`.
    type Facts: Default + Send + 'static;

    /// Reads what the caches do not hold. The default reads nothing.
    fn fetch(&self, _key: &Self::Key, _reader: &Reader) -> impl Future<Output = Result<Self::Facts, Error>> + Send {
        std::future::ready(Ok(Self::Facts::default()))
    }

    /// As `fetch`, for controllers whose writes depend on the answers to earlier ones, such as one that reads, writes and
    /// looks at what came of it. What it writes is written when it returns; the plan says the rest. The default fetches.
    fn converse(&self, key: &Self::Key, hands: &Hands<'_>) -> impl Future<Output = Result<Self::Facts, Error>> + Send {
        self.fetch(key, hands.reader())
    }

    /// Decides what is to be done about a key. Synchronous; reads caches only.
    fn plan(&self, key: &Self::Key, facts: Self::Facts, moment: Moment) -> Actions;

    /// Told that every write of the last plan of this key was made, but for those that may wait. What a plan concluded
    /// from its own writes is true from now on; if one failed or was refused, this is not called. The default needs no
    /// telling.
    fn performed(&self, _key: &Self::Key) {}

    /// Asked when the process is about to end: keys that are looked at once more, because what could wait so far cannot wait
    /// any longer. The default has none.
    fn before_the_end(&self) -> Vec<Self::Key> {
        Vec::new()
    }

    /// Told how the `observed` writes of a plan went, in their order, if there were any, and that an `explained` one was
    /// refused. What it returns is done next; its `next` replaces the plan's. The default has nothing to add.
    fn conclude(&self, _key: &Self::Key, _outcomes: Vec<Outcome>, _moment: Moment) -> Option<Actions> {
        None
    }
}

/// The time and the random bits of one plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub now: Timestamp,
    pub seed: u64,
}

/// What a plan wants to happen.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Actions {
    /// Performed in order; the first that fails ends the reconcile, which is then tried again.
    pub writes: Vec<Write>,
    /// When to look again if nothing changes.
    pub next: Next,
    /// Published when all writes have succeeded. Not if one of them was put off (`Write::coalesce`): the plan that makes it
    /// has to tell them again.
    pub events: Vec<KubeEvent>,
    /// One line for the log: what is waited for, and why.
    pub note: Option<String>,
    /// What the look at the key came to.
    pub look: Look,
}

impl Actions {
    /// Nothing to do until something changes.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds a write, if it is one.
    pub fn write(&mut self, write: Write) {
        if !write.is_nothing() {
            self.writes.push(write);
        }
    }

    #[must_use]
    pub fn with(mut self, write: Write) -> Self {
        self.write(write);
        self
    }

    #[must_use]
    pub fn then(mut self, next: Next) -> Self {
        self.next = next;
        self
    }
}

/// What a look at a key came to, for logs and metrics. What happens next does not depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Look {
    /// Something was decided, be it that nothing is to be done.
    #[default]
    Decided,
    /// There was nothing to decide about, or not yet: such as an object that is gone.
    Passed,
    /// What was found makes no sense, and why; somebody has to change it. Logged as a warning.
    Stopped(String),
}

impl Look {
    /// Stopped at an error, which is told with its causes.
    pub fn stopped(fault: &dyn std::error::Error) -> Self {
        Self::Stopped(with_causes(fault))
    }
}

/// When a key is looked at again by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Next {
    #[default]
    OnChange,
    At(Timestamp),
}

impl Next {
    /// The earlier of two.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::At(a), Self::At(b)) => Self::At(a.min(b)),
            (Self::OnChange, next) | (next, Self::OnChange) => next,
        }
    }
}

/// How an observed write went: the object as stored (`None` after a deletion or where nothing was to do), or why not.
pub type Outcome = Result<Option<Value>, Error>;

/// Something worth telling the people who look at an object (`kubectl describe`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeEvent {
    pub regarding: Regarding,
    /// Who tells it: `source.component`.
    pub component: &'static str,
    pub warning: bool,
    /// One word in CamelCase.
    pub reason: &'static str,
    pub message: String,
}

impl KubeEvent {
    /// What happened to this object.
    pub fn about<K: kube::Resource<DynamicType = ()>>(object: &K, happened: &impl FleetEvent) -> Self {
        let regarding = Regarding::of(object);
        let scope = regarding.key.namespace().map_or(ScopeKind::Cluster, |_| ScopeKind::Namespaced);
        Self {
            component: happened.component(scope),
            warning: happened.event_type() == EventType::Warning,
            reason: happened.reason_word(),
            message: happened.to_string(),
            regarding,
        }
    }

    /// The same in other words.
    #[must_use]
    pub fn saying(self, message: String) -> Self {
        Self { message, ..self }
    }
}

/// The object that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Regarding {
    pub kind: KindId,
    pub key: ObjectKey,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

impl Regarding {
    pub fn of<K: kube::Resource<DynamicType = ()>>(object: &K) -> Self {
        Self {
            kind: KindId::of::<K>(),
            key: ObjectKey::of(object),
            uid: object.meta().uid.clone(),
            resource_version: object.meta().resource_version.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_wake_up_wins() {
        let (early, late) = (Timestamp::from_second(1).unwrap(), Timestamp::from_second(2).unwrap());
        assert_eq!(Next::At(late).or(Next::At(early)), Next::At(early));
        assert_eq!(Next::OnChange.or(Next::At(late)), Next::At(late));
        assert_eq!(Next::At(late).or(Next::OnChange), Next::At(late));
        assert_eq!(Next::OnChange.or(Next::OnChange), Next::OnChange);
    }
}
