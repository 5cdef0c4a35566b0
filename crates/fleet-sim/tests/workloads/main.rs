//! What a user sees of workloads on a simulated cluster: the tables of `kubectl get`, in virtual time.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;
mod controllers;
mod many;
mod pods;
mod surroundings;
