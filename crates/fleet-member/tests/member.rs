//! The member agent on API servers in this process, with paused time. Decisions are tested where they are made, in
//! `fleet-core`.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod applier;
mod membership;
