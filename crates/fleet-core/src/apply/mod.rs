//! How the member agent applies the manifests of a Work. Each file makes one decision as a pure function. A Work
//! passes through the files in this order:
//!
//! | file | step |
//! |---|---|
//! | `decode` | identifiers of manifests, and which cannot be applied |
//! | `policy` | which manifests the member's own policy denies |
//! | `records` | write-ahead records, and objects that the Work no longer contains |
//! | `apply_order` | the order in which manifests are applied |
//! | `process` | the state machine for one manifest: take over, compare, apply |
//! | `ownership` | owners of an object |
//! | `desired`, `sanitize`, `manifest_hash`, `last_applied`, `merge` | the request that is sent |
//! | `compare` | drift and diff |
//! | `availability`, `back_report` | what the applied object reports |
//! | `status`, `metrics`, `measure` | the status of Work and AppliedWork, and counters |
//! | `definitions` | custom resources whose definition is in the same Work |
//! | `requeue`, `contention`, `priority` | when to reconcile again, and which Work first |
//! | `finalize`, `containers`, `budget` | deletion of a Work: steps, order and delete budget |

pub mod apply_order;
pub mod availability;
pub mod back_report;
pub mod budget;
pub mod compare;
pub mod containers;
pub mod contention;
pub mod decode;
pub mod definitions;
pub mod desired;
pub mod finalize;
pub mod last_applied;
pub mod manifest_hash;
pub mod measure;
pub mod merge;
pub mod metrics;
pub mod ownership;
pub mod policy;
pub mod priority;
pub mod process;
pub mod records;
pub mod requeue;
pub mod sanitize;
pub mod status;

#[cfg(test)]
pub(crate) mod adversarial;
#[cfg(test)]
mod tests;
