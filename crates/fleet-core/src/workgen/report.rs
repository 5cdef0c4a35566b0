//! The result of a binding's plan as values, with the texts of failures.

use std::time::Duration;

use fleet_api::conditions::events::BindingEvent;
use fleet_api::conditions::per_cluster::RolloutStep;

use super::contents::EnvelopeError;
use crate::overrides::{MissingSnapshot, OverrideFailure};

/// The longest delay before rejected Works are retried. It is long because the same request is nearly always rejected
/// again. A retry is needed because a changed quota or webhook causes no event.
pub const REJECTED_WORK_RETRY_MAX: Duration = Duration::from_mins(5);

/// The result of planning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub outcome: SyncOutcome,
    pub events: Vec<BindingEvent>,
}

impl Report {
    pub(super) fn of(outcome: SyncOutcome) -> Self {
        Self { outcome, events: Vec::new() }
    }
}

/// How planning ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncOutcome {
    /// The binding and its Works are being deleted.
    Deleting,
    /// The scheduler has picked the cluster; there is no content yet.
    NotBound,
    /// The member does not exist.
    ClusterGone,
    /// The rollout has not started.
    AwaitingRollout,
    /// Works must be written and the content was not read: read it and plan again.
    AwaitingContent,
    /// Works must be written and the hub could not discover the scope of a kind, on which overrides depend.
    AwaitingDiscovery,
    /// The Works cannot be synchronized.
    Failed(SyncError),
    /// The step is undecided: the member has not reported it for this Work, or this plan writes the Work.
    AwaitingMember {
        step: RolloutStep,
        work: String,
    },
    /// The member reports that the step failed for this Work.
    Failing {
        step: RolloutStep,
        work: String,
    },
    Complete,
}

/// Why the Works cannot be synchronized.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SyncError {
    #[error("the master resource snapshot is not found")]
    MasterMissing,
    #[error("not all resource snapshot in the same index group are created: found {found} of {wanted}")]
    IncompleteGroup { found: usize, wanted: usize },
    #[error("resource snapshot {snapshot:?} does not say which place in its group it has")]
    MalformedSnapshot { snapshot: String },
    #[error(transparent)]
    OverrideMissing(#[from] MissingSnapshot),
    #[error(transparent)]
    Override(Box<OverrideFailure>),
    #[error("resource {place} of snapshot {snapshot:?} is no object of any kind")]
    MalformedResource { snapshot: String, place: usize },
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    #[error("{} work objects found for the same envelope {envelope}, only one expected", .works.len())]
    DuplicateEnvelopeWorks { envelope: String, works: Vec<String> },
    #[error("more than one part of the resource snapshots would be in work {work:?}")]
    RepeatedWork { work: String },
    #[error("work {work:?} of an earlier binding is still being deleted")]
    WorkStillDeleting { work: String },
    #[error("work {work:?} belongs to binding {binding:?}")]
    WorkOfAnother { work: String, binding: String },
    #[error("{answer}; retried with increasing delays of up to {} minutes", REJECTED_WORK_RETRY_MAX.as_secs() / 60)]
    Rejected { answer: String },
}

impl SyncError {
    /// The step that failed.
    pub fn step(&self) -> RolloutStep {
        match self {
            Self::MasterMissing
            | Self::IncompleteGroup { .. }
            | Self::MalformedSnapshot { .. }
            | Self::OverrideMissing(_)
            | Self::Override(_) => RolloutStep::Overridden,
            Self::MalformedResource { .. }
            | Self::Envelope(_)
            | Self::DuplicateEnvelopeWorks { .. }
            | Self::RepeatedWork { .. }
            | Self::WorkStillDeleting { .. }
            | Self::WorkOfAnother { .. }
            | Self::Rejected { .. } => RolloutStep::WorkSynchronized,
        }
    }

    /// Whether it may resolve soon without help: the missing object may be about to appear, or the blocking one is
    /// being deleted.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::MasterMissing
            | Self::IncompleteGroup { .. }
            | Self::OverrideMissing(_)
            | Self::WorkStillDeleting { .. }
            | Self::WorkOfAnother { .. } => true,
            Self::MalformedSnapshot { .. }
            | Self::Override(_)
            | Self::MalformedResource { .. }
            | Self::Envelope(_)
            | Self::DuplicateEnvelopeWorks { .. }
            | Self::RepeatedWork { .. }
            | Self::Rejected { .. } => false,
        }
    }
}
