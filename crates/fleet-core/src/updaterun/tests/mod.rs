//! Tests of the runs' decisions: scenarios by number, then what holds for every plan.

mod catalogue;
mod checklist;
mod exploring;
pub(crate) mod fixture;
mod lagging;
mod measuring;
mod properties;
mod render;
mod rival_worlds;
mod small_worlds;
mod timelines;
mod troubleshooting_execution;
mod troubleshooting_initialization;
mod troubleshooting_waiting;
