//! The contract between a controller and the reconcile loop: keys, facts and a plan.

use std::fmt::{Debug, Display};
use std::future::Future;

use fleet_api::conditions::events::{EventType, FleetEvent};
use fleet_api::kinds::ScopeKind;
use fleet_api::wake::Wake;
use jiff::Timestamp;
use serde_json::Value;

use crate::confirm::CacheCheck;
use crate::error::{Error, with_causes};
use crate::key::ObjectKey;
use crate::kind::KindId;
use crate::reconcile_context::ReconcileContext;
use crate::write::Write;

/// Turns a key into actions. A controller knows only its caches, the facts that it fetched, and its arguments.
pub trait Controller: Send + Sync + 'static {
    /// For logs, metrics and `Ownership`.
    const NAME: &'static str;
    /// Identifies what is reconciled; one key is never reconciled twice at the same time. `Ord` gives the order in which the
    /// keys of the first list are reconciled.
    type Key: Ord + Clone + Debug + Display + Send + Sync + 'static;
    /// What `fetch` returns: content that is too big to be cached, or the results of requests. Usually `()`.
    type Facts: Send + 'static;

    /// Reads what the caches do not hold, after a plan has asked for it (`Needs::Facts`). It may also write, if the next request
    /// depends on the response to a write; such writes are sent at once.
    fn fetch(
        &self,
        key: &Self::Key,
        _context: &ReconcileContext<'_>,
    ) -> impl Future<Output = Result<Self::Facts, Error>> + Send {
        std::future::ready(Err(Error::Other(format!("controller {} has nothing to fetch for {key}", Self::NAME))))
    }

    /// Decides what to do about a key. Synchronous; reads caches only. `facts` is `None` until the plan has asked for it.
    fn plan(&self, key: &Self::Key, facts: Option<Self::Facts>, input: PlanInput) -> Actions;

    /// Called after all writes of a plan were sent or deferred. Not called if a write failed or was rejected.
    fn on_committed(&self, _key: &Self::Key) {}

    /// Called with the results of all `best_effort` writes of a plan, in their order, followed by the rejection of a
    /// `report_rejection` write, if there was one. Not called if there are no results. The returned actions are executed
    /// next, and their `wake` replaces that of the plan.
    fn on_results(&self, _key: &Self::Key, _results: Vec<WriteResult>, _input: PlanInput) -> Option<Actions> {
        None
    }
}

/// The time and the random bits of one plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanInput {
    pub now: Timestamp,
    pub seed: u64,
    /// Whether the caches were compared with the API server (`Needs::Confirmation`).
    pub confirmed: bool,
}

/// What a plan wants to happen.
#[derive(Debug, Default)]
pub struct Actions {
    /// If set, this is done first, and the key is planned again. The rest of these actions is executed only if a confirmation
    /// is impossible because an object cannot be decoded.
    pub needs: Option<Needs>,
    /// Sent in order. The first failure ends the reconcile, which is then retried.
    pub writes: Vec<Write>,
    /// Objects whose deferred status must be written soon, by the controller that deferred it.
    pub flush: Vec<(KindId, ObjectKey)>,
    /// When to reconcile again if nothing changes.
    pub wake: Wake,
    /// Published after all writes were sent or deferred.
    pub events: Vec<KubeEvent>,
    /// One line for the debug log: what the controller waits for, and why.
    pub note: Option<String>,
    /// For logs and metrics.
    pub result: PlanResult,
}

/// What a plan needs before it can decide.
#[derive(Debug)]
pub enum Needs {
    /// What `Controller::fetch` returns.
    Facts,
    /// These parts of caches must be as recent as the API server, because the decision is final.
    Confirmation(Vec<CacheCheck>),
}

impl Actions {
    /// Nothing to do until something changes.
    pub fn none() -> Self {
        Self::default()
    }

    /// Nothing until `fetch` has returned.
    pub fn needs_facts() -> Self {
        Self { needs: Some(Needs::Facts), ..Self::default() }
    }

    /// Adds a write, unless it changes nothing.
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
    pub fn with_wake(mut self, wake: Wake) -> Self {
        self.wake = wake;
        self
    }
}

/// What a plan concluded about its key. Only logs and metrics depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PlanResult {
    /// The plan decided something, possibly that there is nothing to do.
    #[default]
    Decided,
    /// There is nothing to decide about (yet), for example because the object is gone.
    Skipped,
    /// The input is invalid and must be changed first; the text says why. Logged as a warning.
    Blocked(String),
}

impl PlanResult {
    /// Blocked by an error, which is logged with its causes.
    pub fn blocked(fault: &dyn std::error::Error) -> Self {
        Self::Blocked(with_causes(fault))
    }
}

/// The result of one write: the stored object (`None` after a deletion and for a write that changes nothing), or the error.
pub type WriteResult = Result<Option<Value>, Error>;

/// A Kubernetes Event about an object, shown by `kubectl describe`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeEvent {
    pub regarding: Regarding,
    /// `source.component`.
    pub component: &'static str,
    pub warning: bool,
    /// One word in CamelCase.
    pub reason: &'static str,
    pub message: String,
}

impl KubeEvent {
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

    /// The same event with another message.
    #[must_use]
    pub fn with_message(self, message: String) -> Self {
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
