//! Tests of the runs' decisions: scenarios by number, then what holds for every plan.

mod fixture;
mod render;
mod small_worlds;
mod troubleshooting_execution;
mod troubleshooting_initialization;
mod troubleshooting_waiting;
