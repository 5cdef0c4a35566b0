//! `kubefleet crds`: prints the CustomResourceDefinitions, or writes one file per kind.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use fleet_api::kinds::{all_crds, crd_yaml};

use crate::output::{print, print_data};

/// Print the CustomResourceDefinitions of KubeFleet
///
/// Install them on the hub before you start the hub agent.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet crds | kubectl apply --server-side -f -     install the CRDs on a hub
  kubefleet crds --dir config/crd                       one file per kind")]
pub(crate) struct Args {
    /// Write one file per kind into this directory instead of printing
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let crds = all_crds();
    let Some(dir) = &args.dir else {
        return crds.iter().try_for_each(|crd| print_data(&format!("---\n{}", crd_yaml(crd))));
    };
    fs::create_dir_all(dir).with_context(|| format!("cannot create the directory {}", dir.display()))?;
    for crd in &crds {
        let path = dir.join(crd.file_name());
        fs::write(&path, crd_yaml(crd)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    print(&format!("{} files written to {}\n", crds.len(), dir.display()))
}
