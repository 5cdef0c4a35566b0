//! What is admitted to the hub beyond what the schemas of the kinds say.

pub mod findings;
