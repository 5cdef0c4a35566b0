//! `cargo xtask codegen`: writes every generated file that is committed. A test keeps each of them fresh.
//!
//! Decides which definitions go where; what they say is `fleet-api`'s.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use fleet_api::kinds::{AppliedWork, Crd, all_crds, crd_yaml};

use crate::console;

/// Writes the generated files that are committed: the CRDs under config/crd and in the charts
#[derive(Debug, Args)]
pub struct Codegen {}

impl Codegen {
    pub fn execute(&self) -> anyhow::Result<()> {
        for (name, files) in generated() {
            let directory = workspace_root().join(name);
            // A kind that was renamed or dropped must not leave its file behind.
            let _ = fs::remove_dir_all(&directory);
            fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
            for (file, text) in &files {
                let path = directory.join(file);
                fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            }
            console::line(format_args!("{name}: {} files", files.len()));
        }
        Ok(())
    }
}

/// Directories that hold generated files and nothing else, each with the names and texts of its files.
fn generated() -> [(&'static str, BTreeMap<String, String>); 3] {
    // The ledger of what is placed is the one kind that members need, and that a hub does not.
    let is_ledger = |crd: &Crd| crd.info.plural == AppliedWork::INFO.plural;
    let files = |wanted: &dyn Fn(&Crd) -> bool| {
        let wanted = all_crds().into_iter().filter(|crd| wanted(crd));
        wanted.map(|crd| (crd.file_name(), crd_yaml(&crd))).collect()
    };
    [
        ("config/crd", files(&|_| true)),
        ("charts/hub-agent/files/definitions", files(&|crd| !is_ledger(crd))),
        ("charts/member-agent/files/definitions", files(&is_ledger)),
    ]
}

/// The directory of the workspace's Cargo.toml, wherever the chore is called from.
pub fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").components().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn committed_files_are_as_they_are_generated() {
        for (name, files) in generated() {
            let entries = fs::read_dir(workspace_root().join(name)).unwrap().map(Result::unwrap);
            let committed: BTreeMap<String, String> = entries
                .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
                .collect();
            assert!(committed == files, "{name} is not what `cargo xtask codegen` writes");
        }
    }

    #[test]
    fn members_are_given_the_ledger_and_hubs_everything_else() {
        let [all, hub, member] = generated().map(|(_, files)| files);
        assert_eq!(member.keys().collect::<Vec<_>>(), ["placement.kubernetes-fleet.io_appliedworks.yaml"]);
        assert_eq!(hub.len() + member.len(), all.len());
    }
}
