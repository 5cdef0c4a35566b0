//! Development tasks: tests, generated files, and the programs of real Kubernetes. It is built before everything else, so it
//! depends on no other crate of the workspace; `cargo` runs their programs.

// Arithmetic on times can panic; `clippy.toml` lists the types for which it is allowed.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod cargo;
pub mod codegen_builtin;
pub mod console;
pub mod coverage;
pub mod real;
pub mod test;

use std::path::{Path, PathBuf};

/// The root directory of the workspace.
pub fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").components().collect()
}
