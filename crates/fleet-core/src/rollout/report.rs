//! What a rollout found out, as values: how it stands, what each cluster does or waits for, and what stopped it.
//!
//! Decides the vocabulary and the sentence of every wait; events and diagnosis render from here. Never decides which value
//! holds.

use std::fmt;

use super::health::Health;
use super::limits::Budget;

/// What a plan rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub outcome: Outcome,
    /// Absent where no limits were looked at.
    pub budget: Option<Budget>,
    /// One per binding, by the binding's name.
    pub clusters: Vec<ClusterReport>,
}

impl Report {
    pub(super) fn without_clusters(outcome: Outcome) -> Self {
        Self { outcome, budget: None, clusters: Vec::new() }
    }
}

/// How planning ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Staged runs move the bindings of this placement.
    LeftToRuns,
    /// The placement is being deleted. `abandoned` bindings leave their resources on the clusters.
    Releasing { abandoned: usize },
    /// The limits cannot be understood.
    Stopped(Fault),
    /// Nothing moves, because what to move to is not known.
    AwaitingContent(ContentWait),
    /// So many bindings are moved or removed by this plan; so many others must wait.
    Moving { moved: usize, waiting: usize },
    /// Nothing moves, and so many bindings wait.
    Waiting { waiting: usize },
    /// Every binding has what it should have, or is on its way out.
    UpToDate,
}

/// Why the wanted content is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentWait {
    /// There is no snapshot of the resources yet.
    NoSnapshot,
    /// Several snapshots claim to be the latest.
    AmbiguousSnapshot { snapshots: usize },
    /// Which overrides apply cannot be told yet.
    OverridesUnsettled,
}

impl fmt::Display for ContentWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContentWait::NoSnapshot => f.write_str("there is no snapshot of the resources yet"),
            ContentWait::AmbiguousSnapshot { snapshots } => write!(f, "{snapshots} snapshots claim to be the latest"),
            ContentWait::OverridesUnsettled => f.write_str("which overrides apply cannot be told yet"),
        }
    }
}

/// Where one binding stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterReport {
    pub cluster: String,
    pub binding: String,
    pub health: Health,
    pub standing: Standing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Being deleted; its resources are taken off the cluster.
    Leaving,
    /// No longer wanted, and deleted by this plan.
    Removing,
    /// Gets the resources for the first time by this plan.
    Starting,
    /// Gets newer content by this plan.
    Updating(Outdated),
    UpToDate,
    Waiting(Wait),
    /// In a state that this release does not know.
    Foreign,
}

/// In what a binding differs from what its cluster should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outdated {
    Snapshot,
    Overrides,
}

/// What a binding waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// Others must become ready before this one may be updated.
    UpdateNeedsReady(Outdated),
    /// Others must become ready before this one, which is no longer wanted, may be removed.
    RemovalNeedsReady,
    /// Others must be gone before this one may get the resources.
    Surge,
    /// An older binding of the same cluster must be gone first.
    OlderBinding {
        binding: String,
    },
    /// There is another binding of the same cluster; which one counts cannot be known.
    RivalBinding {
        binding: String,
    },
    Content(ContentWait),
    /// Overrides depend on the labels of a cluster that is no longer in the fleet.
    ClusterGone,
}

impl Wait {
    /// Whether it is the rollout strategy that makes it wait.
    pub fn is_strategy(&self) -> bool {
        matches!(self, Wait::UpdateNeedsReady(_) | Wait::RemovalNeedsReady | Wait::Surge)
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::UpdateNeedsReady(Outdated::Snapshot) => {
                f.write_str("maxUnavailable allows no update to the latest resources until other clusters are ready")
            }
            Wait::UpdateNeedsReady(Outdated::Overrides) => {
                f.write_str("maxUnavailable allows no update to the latest overrides until other clusters are ready")
            }
            Wait::RemovalNeedsReady => f.write_str("maxUnavailable allows no removal until other clusters are ready"),
            Wait::Surge => f.write_str("maxSurge allows no further cluster until another one is cleaned up"),
            Wait::OlderBinding { binding } => {
                write!(f, "binding {binding:?} of the same cluster is still being cleaned up")
            }
            Wait::RivalBinding { binding } => {
                write!(f, "there is another binding of the same cluster, {binding:?}; delete one of the two")
            }
            Wait::Content(wait) => write!(f, "{wait}"),
            Wait::ClusterGone => f.write_str("the cluster is no longer in the fleet, so no override can be matched"),
        }
    }
}

/// Why planning stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("{field} {text:?} is neither a number nor a percentage")]
    Limit { field: &'static str, text: String },
}
