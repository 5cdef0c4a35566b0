//! The applier's decisions without a server: processing, records, statuses, requeue intervals, finalization.

mod finalizing;
mod naming;
mod pacing;
mod processing;
mod recording;
mod reporting;
