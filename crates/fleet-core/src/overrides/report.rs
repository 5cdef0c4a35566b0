//! What an override's plan found out, as values.
//!
//! Decides the vocabulary; whoever explains renders from here. Never decides which value holds.

use fleet_api::names::Index;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub outcome: Outcome,
}

/// How planning ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The override is being deleted; its snapshots are let go.
    Releasing,
    /// The latest snapshot says what the override says.
    UpToDate { index: Index },
    /// The override says something that no snapshot says, so there will be one.
    Frozen { index: Index },
    /// Something that we wrote was changed by others so that it cannot be understood.
    Stopped(Fault),
}

/// Why planning stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("override snapshot {snapshot:?} does not say which index it has")]
    SnapshotIndex { snapshot: String },
}
