//! Tests of staged runs: scenarios by number, then properties of every plan.

mod catalogue;
mod checklist;
mod concurrent_runs;
mod exploring;
pub(crate) mod fixture;
mod lagging_caches;
mod metrics;
mod properties;
mod render;
mod small_worlds;
mod timelines;
mod troubleshooting_execution;
mod troubleshooting_initialization;
mod troubleshooting_waiting;
