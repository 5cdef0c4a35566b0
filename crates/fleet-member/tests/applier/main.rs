//! The work applier against a hub and a member in this process, in virtual time, and the core set of its scenarios also against
//! real kube-apiservers. Scenario ids are those of the applier's specification, section 11.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod adversarial;
mod applying;
mod basics;
mod budget;
mod drift;
mod faults;
mod faulty_runs;
mod fixture;
mod leaving;
mod pacing;
mod policy;
mod real;
mod reporting;
mod safety;
mod takeover;
