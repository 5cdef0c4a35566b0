//! Requests that rollouts cost: of one run, and of many runs and placements at the same time on a slow API server.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and these print what they measure"
)]

mod fleet;
mod load;
mod one_run;
mod requests;
