//! What the member agent does with the manifests of a Work, one decision a file: facts in, a value out.
//!
//! Decides how a manifest becomes an object on the member, how the two differ, whether the object is there for its users,
//! and what of all that is reported. Never reads or writes an object, never takes the time.

pub mod availability;
pub mod back_report;
pub mod compare;
pub mod last_applied;
pub mod manifest_hash;
pub mod merge;
pub mod sanitize;

#[cfg(test)]
pub(crate) mod hostile;
