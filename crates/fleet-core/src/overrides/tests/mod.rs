//! Tests of overrides: which snapshots there are, whom they concern, and what they make of a resource.

mod applying;
pub(crate) mod fixture;
mod matching;
mod snapshots;
