//! `kubefleet up`: a whole fleet in one process, to try things with kubectl.
//!
//! Decides what the user is told and when it ends. What runs is `fleet`'s, where kubectl finds it `kubeconfig`'s.

mod fleet;
mod kubeconfig;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fleet_sim::workloads::Behaviours;

use crate::agent::signals::Signals;
use crate::output::{print, progress};
use fleet::Fleet;

/// Most members that one process simulates. Each has an API server of its own, of about 1 MiB.
const MEMBERS_MAX: i64 = 1000;

/// Run a hub and simulated member clusters in this process, until Ctrl-C
///
/// Everything is there for kubectl: the hub's API server with its agent, and an API server for every member.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many member clusters to simulate
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(..=MEMBERS_MAX))]
    members: u16,
    /// Where the API servers listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Keep everything in memory; it is gone when the command ends (the default)
    #[arg(long, conflicts_with = "data_dir")]
    in_memory: bool,
    /// Keep everything in this directory, and go on from what is in it
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where to write the kubeconfig, with the contexts `hub` and `member1`, `member2`...
    #[arg(long, value_name = "FILE", default_value = "kubefleet.kubeconfig")]
    kubeconfig: PathBuf,
    /// How the members' pods behave: a list of rules in YAML (docs/SIMULATION.md); what is not said is as usual
    #[arg(long, value_name = "FILE")]
    behaviour: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(up(args))
}

async fn up(args: &Args) -> anyhow::Result<()> {
    // From here on, so that an early Ctrl-C ends it as cleanly as a late one.
    let mut signals = Signals::listen()?;
    kubeconfig::check(&args.kubeconfig)?;
    let behaviours = args.behaviour.as_deref().map(behaviours).transpose()?.unwrap_or_default();
    let fleet = Fleet::start(args.listen, args.data_dir.clone(), args.members, behaviours).await?;
    kubeconfig::write(&args.kubeconfig, &fleet.kubeconfig())?;
    let outcome = tokio::select! {
        () = signals.asked_to_stop() => Ok(()),
        never = serve(&fleet, args) => never,
    };
    fleet.end().await;
    outcome
}

fn behaviours(path: &Path) -> anyhow::Result<Behaviours> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Behaviours::from_yaml(&text).with_context(|| format!("{} cannot be used", path.display()))
}

/// Tells when the fleet is ready, then stays.
async fn serve(fleet: &Fleet, args: &Args) -> anyhow::Result<()> {
    let all = fleet.members();
    fleet.joined(|joined| progress(&format!("{joined} of {all} members have joined"))).await?;
    print(&format!("ready\n{}", next_steps(args, all)))?;
    std::future::pending().await
}

fn next_steps(args: &Args, members: usize) -> String {
    let path = std::path::absolute(&args.kubeconfig).unwrap_or_else(|_| args.kubeconfig.clone());
    let kept = match &args.data_dir {
        Some(directory) => format!("kept in {}", directory.display()),
        None => "kept in memory".to_owned(),
    };
    let mut out = format!("A hub and {members} simulated members, {kept}, until Ctrl-C. In another terminal:\n\n");
    let _ = writeln!(out, "  export KUBECONFIG={}", shell_word(&path));
    out.push_str("  kubectl --context hub get memberclusters --show-labels\n");
    out.push_str("  kubectl --context hub create namespace web\n");
    if members > 0 {
        out.push_str("  kubectl --context member1 get namespaces\n");
    }
    out
}

/// A path as a shell takes it.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_survive_a_shell() {
        assert_eq!(shell_word(Path::new("/tmp/a-b_1.yaml")), "/tmp/a-b_1.yaml");
        assert_eq!(shell_word(Path::new("/tmp/it's here")), r"'/tmp/it'\''s here'");
    }
}
