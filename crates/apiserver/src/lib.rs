//! A Kubernetes-compatible API server as a library.
//!
//! Decides what kube-apiserver would answer: storage, schemas, patches, watches, discovery, access. Never knows what a
//! fleet is: kinds come from CustomResourceDefinitions and from tables.

pub mod cel;
pub mod error;
pub mod field;
pub mod patch;
pub mod schema;
