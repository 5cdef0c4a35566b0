//! The work applier against a hub and a member in this process, in virtual time, and the core set of its scenarios also against
//! real kube-apiservers. Scenario ids are those of the applier's specification, section 11.

mod adversarial;
mod applying;
mod basics;
mod budget;
mod drift;
mod faults;
mod faulty_runs;
mod fixture;
mod leaving;
mod merge;
mod pacing;
mod policy;
mod real;
mod reporting;
mod safety;
mod takeover;
