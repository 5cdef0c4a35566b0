//! Tests of overrides: snapshots, matching and applying.

mod applying;
pub(crate) mod fixture;
mod matching;
mod snapshots;
