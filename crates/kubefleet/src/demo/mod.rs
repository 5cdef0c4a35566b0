//! `kubefleet demo`: a fleet that rolls a change out in stages, with a failure on the way, in a quarter of a minute.
//!
//! Decides how it begins and ends: everything is in memory and on free ports, nothing is left behind, not even after
//! Ctrl-C. What is told is `story`'s, how it looks `view`'s, what is placed `scene`'s.

mod scene;
mod story;
mod view;

use std::io::{self, IsTerminal as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::agent::signals::Signals;
use crate::output::progress;
use crate::up::fleet::Fleet;

/// See a change go through a fleet in stages: with an approval, a wait, a failure and its repair
///
/// Runs a hub and three simulated member clusters in this process, for about ten seconds. Nothing is left behind.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubefleet demo            you approve
  kubefleet demo --yes      it approves by itself, as it does without a terminal")]
pub(crate) struct Args {
    /// Approve without asking
    #[arg(short, long)]
    yes: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(demo(args))
}

async fn demo(args: &Args) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let workplace = Workplace::make()?;
    let mut fleet = Fleet::open(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), None).await?;
    let asks = !args.yes && io::stdin().is_terminal() && io::stdout().is_terminal();
    let outcome = tokio::select! {
        told = story::tell(&mut fleet, &workplace.0, asks) => told,
        () = signals.asked_to_stop() => {
            progress("\nstopped; nothing is left behind");
            Ok(())
        }
    };
    fleet.end().await;
    outcome
}

/// A directory for the kubeconfig; it goes with this value.
struct Workplace(PathBuf);

impl Workplace {
    fn make() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("kubefleet-demo-{}", std::process::id()));
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            progress(&format!("{} could not be removed: {error}", self.0.display()));
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_dir_all(path)
}
