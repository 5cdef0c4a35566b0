//! Scenarios of the placement specification (part G) that need members with real appliers, in virtual time. `fleet-hub`
//! and `fleet-member` have the scenarios that need the hub or the applier alone.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod fleet;
mod leaving;
mod namespaces;
mod overrides_and_envelopes;
mod placed_twice;
mod rolling;
mod statuses;
