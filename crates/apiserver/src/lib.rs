//! A Kubernetes-compatible API server as a library.
//!
//! Decides what kube-apiserver would answer: storage, schemas, patches, watches, discovery, access. Never knows what a
//! fleet is: kinds come from CustomResourceDefinitions and from tables.

mod controllers;
pub mod error;
pub mod field;
pub mod registry;
pub mod rest;
pub mod schema;
pub mod server;
pub mod store;
#[cfg(test)]
mod testing;
