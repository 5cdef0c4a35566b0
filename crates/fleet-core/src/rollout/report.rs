//! The result of a rollout's plan as values, with the texts of every wait.

use std::fmt;

use super::health::Health;
use super::limits::Budget;

/// The result of planning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub outcome: RolloutOutcome,
    /// Absent if the limits were not computed.
    pub budget: Option<Budget>,
    /// One per binding, by the binding's name.
    pub clusters: Vec<ClusterReport>,
}

impl Report {
    pub(super) fn without_clusters(outcome: RolloutOutcome) -> Self {
        Self { outcome, budget: None, clusters: Vec::new() }
    }
}

/// How planning ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutOutcome {
    /// Staged update runs manage the bindings of this placement.
    ManagedByRuns,
    /// The placement is being deleted. `abandoned` bindings leave their resources on the clusters.
    Deleting { abandoned: usize },
    /// The limits are invalid.
    Stopped(Fault),
    /// The latest content is unknown, so no binding changes.
    AwaitingContent(ContentWait),
    /// This plan updates or removes `moved` bindings.
    Moving { moved: usize, waiting: usize },
    /// No binding changes.
    Waiting { waiting: usize },
    /// Every binding is up to date or being deleted.
    UpToDate,
}

/// Why the latest content is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentWait {
    /// There is no resource snapshot yet.
    NoSnapshot,
    /// Several snapshots have the label of the latest one.
    AmbiguousSnapshot { snapshots: usize },
    /// The matching overrides are unknown.
    OverridesUnknown,
}

impl fmt::Display for ContentWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContentWait::NoSnapshot => f.write_str("there is no snapshot of the resources yet"),
            ContentWait::AmbiguousSnapshot { snapshots } => write!(f, "{snapshots} snapshots claim to be the latest"),
            ContentWait::OverridesUnknown => f.write_str("the matching overrides are not known yet"),
        }
    }
}

/// State of one binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterReport {
    pub cluster: String,
    pub binding: String,
    pub health: Health,
    pub phase: ClusterPhase,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterPhase {
    /// Being deleted.
    Deleting,
    /// Unscheduled, deleted by this plan.
    Removing,
    /// This plan gives it resources for the first time.
    Starting,
    /// This plan gives it newer content.
    Updating(Outdated),
    UpToDate,
    Waiting(Wait),
    /// Its state is unknown to this release.
    UnknownState,
}

/// Which part of a binding is outdated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outdated {
    Snapshot,
    Overrides,
}

/// What a binding waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// Other clusters must become ready before this one may be updated.
    UpdateNeedsReady(Outdated),
    /// Other clusters must become ready before this unscheduled one may be removed.
    RemovalNeedsReady,
    /// Other clusters must be cleaned up before this one may get the resources.
    Surge,
    /// An older binding of the same cluster must be gone first.
    OlderBinding {
        binding: String,
    },
    /// There is another binding of the same cluster.
    DuplicateBinding {
        binding: String,
    },
    Content(ContentWait),
    /// The scheduler must decide for the placement's current generation before an unscheduled binding is removed.
    Scheduling,
    /// Overrides depend on the labels of a cluster that is no longer in the fleet.
    ClusterGone,
}

impl Wait {
    /// Whether the rollout strategy is the reason.
    pub fn is_strategy(&self) -> bool {
        matches!(self, Wait::UpdateNeedsReady(_) | Wait::RemovalNeedsReady | Wait::Surge)
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::UpdateNeedsReady(Outdated::Snapshot) => {
                f.write_str("maxUnavailable allows no update to the latest resources until more clusters are ready")
            }
            Wait::UpdateNeedsReady(Outdated::Overrides) => {
                f.write_str("maxUnavailable allows no update to the latest overrides until more clusters are ready")
            }
            Wait::RemovalNeedsReady => f.write_str("maxUnavailable allows no removal until more clusters are ready"),
            Wait::Surge => f.write_str("maxSurge allows no further cluster until another one is cleaned up"),
            Wait::OlderBinding { binding } => {
                write!(f, "binding {binding:?} of the same cluster is still being cleaned up")
            }
            Wait::DuplicateBinding { binding } => {
                write!(f, "there is another binding of the same cluster, {binding:?}; delete one of the two")
            }
            Wait::Content(wait) => write!(f, "{wait}"),
            Wait::Scheduling => f.write_str("the scheduler has not decided for the latest placement yet"),
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
