//! The work applier against a hub and a member in this process, in virtual time, and the core set of its scenarios also against
//! real kube-apiservers. Scenario ids are those of the applier's specification, section 11.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod applying;
mod basics;
mod drift;
mod hostile;
mod leaving;
mod pacing;
mod real;
mod reporting;
mod safety;
mod storms;
mod takeover;
mod weather;
mod world;
