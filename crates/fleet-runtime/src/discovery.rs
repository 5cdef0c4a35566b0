//! Which kinds a server has, kept up to date without polling.
//!
//! Decides when to ask again: when a CustomResourceDefinition or an APIService changed.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::watch;

use crate::kind::KindId;
use crate::queue::Reason;
use crate::write::Side;

/// A kind that the server has, in the version that it prefers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiscoveredKind {
    pub id: KindId,
    pub namespaced: bool,
    /// `get`, `list`, `watch`, `create`, …
    pub verbs: Vec<String>,
    /// Whether this is the version of its group that the server prefers for this kind.
    pub preferred: bool,
}

type Subscriber = Box<dyn Fn(Reason) + Send + Sync>;

/// The kinds of a server as last heard. Clones are the same.
#[derive(Clone)]
pub struct Discovery {
    shared: Arc<Shared>,
}

struct Shared {
    side: Side,
    kinds: RwLock<Arc<Vec<DiscoveredKind>>>,
    subscribers: RwLock<Vec<Subscriber>>,
    known: watch::Sender<bool>,
}

impl fmt::Debug for Discovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Discovery").field("kinds", &self.kinds().len()).finish_non_exhaustive()
    }
}

impl Discovery {
    pub(crate) fn new(side: Side) -> Self {
        let shared =
            Shared { side, kinds: RwLock::default(), subscribers: RwLock::default(), known: watch::Sender::new(false) };
        Self { shared: Arc::new(shared) }
    }

    /// All kinds in all served versions, ordered.
    pub fn kinds(&self) -> Arc<Vec<DiscoveredKind>> {
        self.shared.kinds.read().clone()
    }

    /// The kind of this group, version and name.
    pub fn find(&self, group: &str, version: &str, kind: &str) -> Option<DiscoveredKind> {
        let is = |id: &KindId| *id.group == *group && *id.version == *version && *id.kind == *kind;
        self.kinds().iter().find(|found| is(&found.id)).cloned()
    }

    /// The kind of this group and name in the version that the server prefers.
    pub fn preferred(&self, group: &str, kind: &str) -> Option<DiscoveredKind> {
        let is = |id: &KindId| *id.group == *group && *id.kind == *kind;
        self.kinds().iter().find(|found| found.preferred && is(&found.id)).cloned()
    }

    /// Whether the server has answered at all.
    pub fn is_known(&self) -> bool {
        *self.shared.known.borrow()
    }

    pub(crate) fn known(&self) -> watch::Receiver<bool> {
        self.shared.known.subscribe()
    }

    pub(crate) fn side(&self) -> Side {
        self.shared.side
    }

    pub(crate) fn subscribe(&self, subscriber: Subscriber) {
        self.shared.subscribers.write().push(subscriber);
    }
}
