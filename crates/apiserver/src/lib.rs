//! A Kubernetes-compatible API server as a library.
//!
//! Decides what kube-apiserver would answer: storage, schemas, patches, watches, discovery, access. Never knows what a
//! fleet is: kinds come from CustomResourceDefinitions and from tables.

pub mod apply;
pub mod auth;
pub mod builtin;
pub mod cel;
mod controllers;
pub mod discovery;
pub mod embedded;
pub mod error;
pub mod field;
mod go_words;
pub mod http;
pub mod metrics;
pub mod openapi;
pub mod patch;
pub mod registry;
pub mod rest;
pub mod schema;
pub mod server;
pub mod store;
pub mod table;
#[cfg(test)]
mod testing;
