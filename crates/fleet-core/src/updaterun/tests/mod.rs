//! Tests of the runs' decisions: scenarios by number, then what holds for every plan.

mod catalogue;
pub(crate) mod fixture;
mod measuring;
mod properties;
mod render;
mod small_worlds;
mod timelines;
mod troubleshooting_execution;
mod troubleshooting_initialization;
mod troubleshooting_waiting;
