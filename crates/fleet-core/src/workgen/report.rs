//! What a binding's plan found out, as values: what is waited for, what failed and at which step.
//!
//! Decides the vocabulary and the sentences of failures; conditions, events and `diagnose` render from here. Never
//! decides which value holds.

use fleet_api::conditions::events::BindingEvent;
use fleet_api::conditions::per_cluster::RolloutStep;

use super::contents::EnvelopeError;
use crate::overrides::{MissingSnapshot, OverrideFailure};

/// What a plan rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub outcome: Outcome,
    pub events: Vec<BindingEvent>,
}

impl Report {
    pub(super) fn of(outcome: Outcome) -> Self {
        Self { outcome, events: Vec::new() }
    }
}

/// How planning ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The binding is being deleted; its Works are taken back.
    Releasing,
    /// The scheduler has picked the cluster and nothing was rolled out yet.
    NotBound,
    /// There is no such member.
    ClusterGone,
    /// Nobody said yet that the rollout has started.
    AwaitingRollout,
    /// Works must be made and the snapshots' content was not given: read it and plan again.
    AwaitingContent,
    /// The Works are not what the binding asks for.
    Failed(SyncError),
    /// This step is not decided: the member has not said enough about this Work, or the Work is only now written.
    AwaitingMember {
        step: RolloutStep,
        work: String,
    },
    /// The member says that this step failed for this Work.
    Failing {
        step: RolloutStep,
        work: String,
    },
    Complete,
}

/// Why the Works cannot be what the binding asks for.
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
    #[error("work {work:?} of an earlier binding is still being deleted")]
    WorkStillGoing { work: String },
    #[error("work {work:?} belongs to binding {binding:?}")]
    WorkOfAnother { work: String, binding: String },
    #[error("{answer}")]
    Refused { answer: String },
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
            | Self::WorkStillGoing { .. }
            | Self::WorkOfAnother { .. }
            | Self::Refused { .. } => RolloutStep::WorkSynchronized,
        }
    }

    /// Whether it may pass in a moment and without anybody's help: what is missed may be on its way, and what is in the
    /// way may be going.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::MasterMissing
            | Self::IncompleteGroup { .. }
            | Self::OverrideMissing(_)
            | Self::WorkStillGoing { .. }
            | Self::WorkOfAnother { .. } => true,
            Self::MalformedSnapshot { .. }
            | Self::Override(_)
            | Self::MalformedResource { .. }
            | Self::Envelope(_)
            | Self::DuplicateEnvelopeWorks { .. }
            | Self::Refused { .. } => false,
        }
    }
}
