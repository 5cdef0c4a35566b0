//! Workloads on a simulated cluster as users see them: the tables of `kubectl get`, in virtual time.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;
mod controllers;
mod infrastructure;
mod many_clusters;
mod pods;
