//! `cargo xtask codegen`: writes the generated files that are committed. A test keeps them up to date.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use fleet_api::kinds::{all_crds, crd_yaml};

use crate::console;

/// Writes the generated files that are committed: the CRDs under config/crd, to which the charts link
#[derive(Debug, Args)]
pub struct Codegen {}

/// The directory of the CRDs. `charts/hub-agent/files/definitions` and the one file of the member agent's chart link to it; Helm
/// packages the targets of links.
const DEFINITIONS: &str = "config/crd";

impl Codegen {
    pub fn execute(&self) -> anyhow::Result<()> {
        let directory = workspace_root().join(DEFINITIONS);
        // Remove the files of renamed or dropped kinds.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let files = definitions();
        for (file, text) in &files {
            let path = directory.join(file);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        console::line(format_args!("{DEFINITIONS}: {} files", files.len()));
        Ok(())
    }
}

/// The names and texts of the files.
fn definitions() -> BTreeMap<String, String> {
    all_crds().into_iter().map(|crd| (crd.file_name(), crd_yaml(&crd))).collect()
}

/// The root directory of the workspace.
pub fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").components().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use fleet_api::kinds::AppliedWork;

    use super::*;

    fn files(directory: &str) -> BTreeMap<String, String> {
        let entries = fs::read_dir(workspace_root().join(directory)).unwrap().map(Result::unwrap);
        entries
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
            .collect()
    }

    #[test]
    fn committed_files_are_as_they_are_generated() {
        assert!(files(DEFINITIONS) == definitions(), "{DEFINITIONS} is not what `cargo xtask codegen` writes");
    }

    /// AppliedWork is the one kind that members need, and that a hub does not.
    #[test]
    fn the_charts_link_to_the_definitions() {
        assert_eq!(files("charts/hub-agent/files/definitions"), definitions());
        let ignored = fs::read_to_string(workspace_root().join("charts/hub-agent/.helmignore")).unwrap();
        let file = all_crds().into_iter().find(|crd| crd.info.plural == AppliedWork::INFO.plural).unwrap().file_name();
        assert!(ignored.lines().any(|line| line == file), "{ignored}");
        let member = files("charts/member-agent/files/definitions");
        assert_eq!(member.into_iter().collect::<Vec<_>>(), [(file.clone(), definitions()[&file].clone())]);
        for link in
            ["charts/hub-agent/files/definitions".to_owned(), format!("charts/member-agent/files/definitions/{file}")]
        {
            assert!(workspace_root().join(&link).is_symlink(), "{link} is a copy");
        }
    }
}
