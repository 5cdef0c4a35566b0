//! What the member agent does with the manifests of a Work, one decision a file: facts in, a value out.
//!
//! Decides how a manifest becomes an object on the member, how the two differ, whether the object is there for its users,
//! and what of all that is reported. Never reads or writes an object, never takes the time. One Work goes through the files
//! in this order:
//!
//! | file | step |
//! |---|---|
//! | `decode` | what each manifest names, and which cannot be applied |
//! | `records` | what is remembered before anything is applied; what the Work no longer names |
//! | `waves` | in which order manifests are applied |
//! | `process` | the conversation with the member about one manifest: take over, compare, apply |
//! | `ownership` | whose an object is |
//! | `desired`, `sanitize`, `manifest_hash`, `last_applied`, `merge` | what is sent |
//! | `compare` | drift and difference |
//! | `availability`, `back_report` | what an applied object tells |
//! | `status`, `tally`, `measure` | the Work's status, the member's ledger, how both are counted |
//! | `definitions` | custom resources whose definition comes with them |
//! | `requeue`, `fights`, `priority` | when to look again, and at which Work first |
//! | `farewell`, `budget` | how a Work goes, and how much may go at once |

pub mod availability;
pub mod back_report;
pub mod budget;
pub mod compare;
pub mod decode;
pub mod definitions;
pub mod desired;
pub mod farewell;
pub mod fights;
pub mod last_applied;
pub mod manifest_hash;
pub mod measure;
pub mod merge;
pub mod ownership;
pub mod priority;
pub mod process;
pub mod records;
pub mod requeue;
pub mod sanitize;
pub mod status;
pub mod tally;
pub mod waves;

#[cfg(test)]
pub(crate) mod hostile;
#[cfg(test)]
mod tests;
