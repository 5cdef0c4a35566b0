//! Scenarios of the placement specification (part G) that only members with real appliers can show, in virtual time. What
//! the hub shows by itself is in `fleet-hub`, what the applier shows by itself in `fleet-member`.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod coming_and_going;
mod fleet;
mod namespaces;
mod placed_twice;
mod rolling;
mod shaping;
mod statuses;
