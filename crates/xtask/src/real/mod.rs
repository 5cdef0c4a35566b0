//! The programs of real Kubernetes: their pinned versions, and how they are built. The crate `real-kubernetes` starts them.

pub mod build;
pub mod versions;
