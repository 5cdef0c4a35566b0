//! `cargo xtask codegen`: writes every generated file that is committed. A test keeps each of them fresh.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use fleet_api::kinds::{all_crds, crd_yaml};

use crate::console;

/// Writes the generated files that are committed: the CRDs under config/crd
#[derive(Debug, Args)]
pub struct Codegen {}

impl Codegen {
    pub fn execute(&self) -> anyhow::Result<()> {
        let directory = workspace_root().join("config/crd");
        let crds = all_crds();
        // A kind that was renamed or dropped must not leave its file behind.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        for crd in &crds {
            let path = directory.join(crd.file_name());
            fs::write(&path, crd_yaml(crd)).with_context(|| format!("cannot write {}", path.display()))?;
        }
        console::line(format_args!("config/crd: {} files", crds.len()));
        Ok(())
    }
}

/// The directory of the workspace's Cargo.toml, wherever the chore is called from.
pub fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").components().collect()
}
