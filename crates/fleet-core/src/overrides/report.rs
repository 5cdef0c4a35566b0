//! The result of an override's plan as values.

use fleet_api::names::Index;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub outcome: OverrideOutcome,
}

/// How planning ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OverrideOutcome {
    /// The override and its snapshots are being deleted.
    Deleting,
    /// The latest snapshot equals the override.
    UpToDate { index: Index },
    /// The override has changed and gets a new snapshot.
    NewSnapshot { index: Index },
    /// A snapshot was changed by another client and is invalid.
    Stopped(Fault),
}

/// Why planning stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("override snapshot {snapshot:?} does not say which index it has")]
    SnapshotIndex { snapshot: String },
}
