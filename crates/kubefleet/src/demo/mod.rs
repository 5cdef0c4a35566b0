//! `kubefleet demo`: a staged rollout with a failure, in about ten seconds. All data is in memory and on free ports, and
//! everything is removed at the end, also after Ctrl-C.

pub(crate) mod objects;
mod script;
mod view;

use std::io::{self, IsTerminal as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::agent::signals::Signals;
use crate::output::progress;
use crate::up::fleet::Fleet;

/// Watch a staged rollout with an approval, a wait, a failure and its fix
///
/// Runs a hub and three simulated member clusters in this process, for about ten seconds. All data is removed at the end.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubefleet demo                  you approve
  kubefleet demo --yes            approves automatically, as without a terminal
  kubefleet demo --dashboard      also in a browser, until you press Enter")]
pub(crate) struct Args {
    /// Approve without asking
    #[arg(short, long)]
    yes: bool,
    /// Show the fleet in a browser too, until Enter is pressed; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = FREE_PORT)]
    dashboard: Option<SocketAddr>,
}

/// A free port on loopback.
const FREE_PORT: &str = "127.0.0.1:0";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(demo(args))
}

async fn demo(args: &Args) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let directory = TempDirectory::make()?;
    let mut fleet = Fleet::open(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), None).await?;
    let interactive = !args.yes && io::stdin().is_terminal() && io::stdout().is_terminal();
    let outcome = tokio::select! {
        outcome = script::run(&mut fleet, &directory.0, interactive, args.dashboard) => outcome,
        () = signals.received() => {
            progress("\nstopped; all temporary files were removed");
            Ok(())
        }
    };
    fleet.end().await;
    outcome
}

/// A temporary directory for the kubeconfig, removed on drop.
struct TempDirectory(PathBuf);

impl TempDirectory {
    fn make() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("kubefleet-demo-{}", std::process::id()));
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for TempDirectory {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            progress(&format!("cannot remove {}: {error}", self.0.display()));
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_dir_all(path)
}
