//! The whole fleet in one process, in virtual time: what it does with objects of users, and how faults are made.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod applying;
mod config_maps;
mod examples;
mod faults;
mod migration;
mod network;
mod scenarios;
mod workloads;
