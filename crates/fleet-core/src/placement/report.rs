//! The result of a placement's plan as values; `diagnose`, metrics and events render them.

use fleet_api::conditions::events::PlacementEvent;
use fleet_api::conditions::per_cluster::RolloutStep;
use fleet_api::names::Index;
use jiff::Timestamp;

use super::inventory::GroupVersion;
use super::select::InvalidSelector;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub outcome: PlacementOutcome,
    pub content: Content,
    /// The progress of each selected cluster, in the order of the scheduler's decisions.
    pub clusters: Vec<(String, Progress)>,
    /// Events to emit, in order.
    pub events: Vec<PlacementEvent>,
}

impl Report {
    pub(super) fn of(outcome: PlacementOutcome) -> Self {
        Self { outcome, content: Content::NotObserved, clusters: Vec::new(), events: Vec::new() }
    }
}

/// The outcome of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlacementOutcome {
    /// The placement is being deleted; its snapshots are deleted.
    Deleting,
    /// Blocked until the placement or the selected resources change.
    Refused(Refusal),
    /// The cache of a resource is not synced yet.
    AwaitingSync {
        resource: String,
    },
    /// A group version of the hub could not be discovered, and some of its objects were selected before.
    AwaitingDiscovery {
        part: GroupVersion,
    },
    /// Another writer has made one of our objects unreadable.
    Stopped(Fault),
    AwaitingScheduler,
    /// No cluster was picked; `as_wanted` if the policy asks for none.
    NoClusters {
        as_wanted: bool,
    },
    /// Some clusters have not decided this step yet.
    Undecided {
        step: RolloutStep,
        clusters: usize,
    },
    /// Some clusters failed at this step, or are blocked.
    Failing {
        step: RolloutStep,
        clusters: usize,
    },
    /// Staged runs roll out, and the clusters do not all have the same content.
    LeftToRuns(External),
    /// Every picked cluster is up to date, but the scheduler wanted more of them.
    TooFewClusters,
    Complete,
}

/// Why a placement is not acted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    Selectors(InvalidSelector),
    /// The status copy must not move to another namespace, whose readers are not allowed to see it.
    NamespaceChanged {
        chosen: String,
        original: String,
    },
    /// The status is to be copied into the selected namespace, and none is selected by name.
    NoNamespaceSelected,
}

/// The state of the clusters under staged runs, if it is not the same everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum External {
    DifferentSnapshots,
    NoSnapshot,
    ClusterUndecided { cluster: String },
}

/// Which resource snapshot the plan refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    NotObserved,
    /// The latest snapshot has the selected content.
    UpToDate {
        index: Index,
    },
    /// The selected content has changed and becomes a snapshot later.
    Delayed {
        index: Index,
        until: Timestamp,
    },
    /// Staged runs create the snapshots.
    LeftToRuns,
}

/// The progress of one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The scheduler has not created the binding yet.
    AwaitingBinding,
    /// It has other content, and the rollout has not decided about it yet.
    AwaitingRollout,
    /// It has other content, and the rollout is blocked for now.
    HeldBack,
    Undecided(RolloutStep),
    Failed(RolloutStep),
    Arrived,
}

/// Why planning stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("{count} {kind} are marked as the latest")]
    SeveralLatest { kind: &'static str, count: usize },
    #[error("snapshot {snapshot:?} does not say which index it has")]
    SnapshotIndex { snapshot: String },
    #[error("policy snapshot {snapshot:?} has a malformed annotation {annotation:?}")]
    PolicyAnnotation { snapshot: String, annotation: &'static str },
    #[error("the content is needed and was not read")]
    ContentNotRead,
    #[error("{picked} clusters are picked where {wanted} are wanted")]
    MoreClustersThanWanted { picked: usize, wanted: i64 },
}
