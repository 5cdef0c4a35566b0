//! What a placement's plan found out, as values: how it ended, what its content is, where each cluster stands.
//!
//! Decides the vocabulary; `diagnose`, metrics and events render from here. Never decides which value holds.

use fleet_api::conditions::events::PlacementEvent;
use fleet_api::conditions::per_cluster::RolloutStep;
use fleet_api::names::Index;
use jiff::Timestamp;

use super::inventory::GroupVersion;
use super::select::InvalidSelector;

/// What a plan rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub outcome: Outcome,
    pub content: Content,
    /// Where each selected cluster stands, in the order of the scheduler's decisions.
    pub clusters: Vec<(String, Progress)>,
    /// What became true with this plan, in the order in which it does.
    pub events: Vec<PlacementEvent>,
}

impl Report {
    pub(super) fn of(outcome: Outcome) -> Self {
        Self { outcome, content: Content::NotLookedAt, clusters: Vec::new(), events: Vec::new() }
    }
}

/// How planning ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The placement is being deleted; its snapshots are let go.
    Releasing,
    /// Only a change of the placement or of what it selects can help.
    Refused(Refusal),
    /// Not all objects of a resource are known yet.
    AwaitingInventory {
        resource: String,
    },
    /// A part of the hub's API does not say which kinds it has, and something of it was selected before.
    AwaitingAnswer {
        part: GroupVersion,
    },
    /// Something that we wrote was changed by others so that it cannot be understood.
    Stopped(Fault),
    AwaitingScheduler,
    /// No cluster was picked, which is `as_wanted` where the policy asks for none.
    NoClusters {
        as_wanted: bool,
    },
    /// So many clusters have not decided this step yet.
    Undecided {
        step: RolloutStep,
        clusters: usize,
    },
    /// So many clusters failed at this step, or are held back.
    Failing {
        step: RolloutStep,
        clusters: usize,
    },
    /// Staged runs roll out, and the clusters do not agree on what they have.
    LeftToRuns(External),
    /// Every picked cluster has arrived, but the scheduler wanted more of them.
    TooFewClusters,
    Complete,
}

/// Why the selectors are not acted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    Selectors(InvalidSelector),
    /// Whoever may read the status in one namespace must not get it in another.
    NamespaceChanged {
        chosen: String,
        original: String,
    },
    /// The status is to be copied into the selected namespace, and none is selected by name.
    NoNamespaceSelected,
}

/// What clusters have under staged runs, if it is not the same everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum External {
    DifferentSnapshots,
    NoSnapshot,
    ClusterUndecided { cluster: String },
}

/// Which snapshot of the resources the plan speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    NotLookedAt,
    /// The latest snapshot has what is selected now.
    UpToDate {
        index: Index,
    },
    /// What is selected has changed and becomes a snapshot later.
    Delayed {
        index: Index,
        until: Timestamp,
    },
    /// Staged runs take the snapshots.
    LeftToRuns,
}

/// Where one cluster stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The scheduler's binding is not there yet.
    AwaitingBinding,
    /// It has other resources, and nothing says yet whether it may take these.
    AwaitingRollout,
    /// It has other resources and must keep them for now.
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
