//! A Kubernetes-compatible API server as a library: storage, schemas, patches, watches, discovery and access control.
//!
//! Kinds come from CustomResourceDefinitions and from the tables of `builtin`. Never add code that knows a particular
//! custom kind.

// Arithmetic that can panic, above all on times: `clippy.toml` names the types for which it is fine.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod apply;
pub mod auth;
pub mod builtin;
pub mod cel;
mod controllers;
pub mod discovery;
pub mod embedded;
pub mod error;
pub mod field;
mod go_errors;
pub mod http;
pub mod metrics;
pub mod openapi;
pub mod patch;
pub mod private;
pub mod registry;
pub mod rest;
pub mod schema;
pub mod server;
pub mod store;
pub mod table;
#[cfg(test)]
mod testing;
