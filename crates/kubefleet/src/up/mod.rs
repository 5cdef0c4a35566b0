//! `kubefleet up`: a whole fleet in one process, to try things with kubectl.

pub(crate) mod blueprint;
pub(crate) mod fleet;
mod fleet_file;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
pub(crate) mod kubeconfig;
mod merge;
mod start_errors;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fleet_sim::agents::immediate_hub_options;
use fleet_sim::workloads::Behaviours;
use serde_json::Value;

use crate::agent::signals::Signals;
use crate::cli::connection::HubFlags;
use crate::dashboard::{self, Dashboard};
use crate::output::{print, progress};
use blueprint::Blueprint;
use fleet::{Fleet, HUB};
use merge::UserKubeconfig;

/// Maximum number of simulated members. Each has its own API server of about 1 MiB.
const MEMBERS_MAX: u16 = 1000;
/// Progress is printed for every tenth of the members.
const PROGRESS_STEPS: usize = 10;

/// Run a hub and simulated member clusters in this process, until Ctrl-C
///
/// The hub has an API server with its agent, and so has every member. Use kubectl with the kubeconfig.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubefleet up
  kubefleet up --members 20 --data-dir ~/fleet
  kubefleet up --fleet examples/fleets/regions.yaml --listen 127.0.0.1:0
  kubefleet up --dashboard")]
pub(crate) struct Args {
    /// How many member clusters to simulate
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(..=i64::from(MEMBERS_MAX)))]
    members: u16,
    /// Simulate the members that this file describes: YAML with labels, taints, properties and behaviour
    /// (docs/SIMULATION.md)
    #[arg(long, value_name = "FILE", conflicts_with = "members")]
    fleet: Option<PathBuf>,
    /// Address of the API servers; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Keep all data in memory; it is lost when the command ends (the default)
    #[arg(long, conflicts_with = "data_dir")]
    in_memory: bool,
    /// Keep all data in this directory, and continue with the data in it
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where to write the kubeconfig, with the contexts `hub` and `member1`, `member2`...
    #[arg(long, value_name = "FILE", default_value = "kubefleet.kubeconfig")]
    kubeconfig: PathBuf,
    /// Add the contexts to your own kubeconfig too, until the command ends
    #[arg(long)]
    merge: bool,
    /// Behaviour of the members' Pods: a list of rules in YAML (docs/SIMULATION.md)
    #[arg(long, value_name = "FILE")]
    behaviour: Option<PathBuf>,
    /// Show the fleet in a browser too; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = dashboard::USUAL_ADDRESS)]
    dashboard: Option<SocketAddr>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(up(args))
}

async fn up(args: &Args) -> anyhow::Result<()> {
    // Before anything starts, so that an early Ctrl-C is handled too.
    let mut signals = Signals::listen()?;
    // Check everything before anything starts.
    let blueprint = blueprint(args)?;
    kubeconfig::check(&args.kubeconfig)?;
    let mut own = args.merge.then(|| UserKubeconfig::find(&args.kubeconfig)).transpose()?;
    if let Some(warning) = exposure(args.listen) {
        progress(&warning);
    }
    let mut fleet = Fleet::open(args.listen, args.data_dir.clone()).await?;
    let outcome = tokio::select! {
        () = signals.received() => Ok(()),
        never = serve(&mut fleet, blueprint, args, own.as_mut()) => never,
    };
    let restored = own.map_or(Ok(()), |own| own.restore());
    fleet.end().await;
    outcome.and(restored)
}

/// A warning if other machines can connect.
fn exposure(listen: SocketAddr) -> Option<String> {
    (!listen.ip().is_loopback()).then(|| {
        format!(
            "warning: {listen} is reachable from other machines. Requests need a token of the kubeconfig, but this server is \
             for testing only: do not expose it to an untrusted network"
        )
    })
}

fn blueprint(args: &Args) -> anyhow::Result<Blueprint> {
    let rules = args.behaviour.as_deref().map(blueprint::rules).transpose()?.unwrap_or_default();
    match &args.fleet {
        Some(path) => fleet_file::read(path, &rules),
        None => Blueprint::usual(args.members, Behaviours::parse(Value::Array(rules))?),
    }
}

/// Starts the members, prints the next steps, reports progress, and serves until an agent fails.
async fn serve(
    fleet: &mut Fleet,
    blueprint: Blueprint,
    args: &Args,
    own: Option<&mut UserKubeconfig>,
) -> anyhow::Result<()> {
    fleet.start(blueprint, &immediate_hub_options()).await?;
    let content = fleet.kubeconfig();
    kubeconfig::write(&args.kubeconfig, &content)?;
    let merged = match own {
        Some(own) => {
            own.add(&content)?;
            Some(own.path().to_owned())
        }
        None => None,
    };
    print(&next_steps(args, fleet.members(), merged.as_deref()))?;
    let pages = match args.dashboard {
        Some(address) => Some(pages(address, &args.kubeconfig).await?),
        None => None,
    };
    let shown = async {
        match pages {
            Some(pages) => pages.serve().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = joined(fleet) => ended,
        () = shown => Ok(()),
    }
}

/// The dashboard of the fleet, with the kubeconfig that was written for it.
async fn pages(address: SocketAddr, kubeconfig: &Path) -> anyhow::Result<Dashboard> {
    let flags = HubFlags { namespace: None, context: Some(HUB.to_owned()), kubeconfig: Some(kubeconfig.to_owned()) };
    let pages = Dashboard::open(address, dashboard::Settings { flags, ..Default::default() }).await?;
    print(&format!("In a browser: {}\n\n", pages.link()))?;
    Ok(pages)
}

/// Reports progress until all members have joined, then waits until an agent fails.
async fn joined(fleet: &mut Fleet) -> anyhow::Result<()> {
    let all = fleet.members().len();
    let mut reported = 0;
    let report = |joined: usize| {
        let step = joined * PROGRESS_STEPS / all.max(1);
        if step > reported {
            reported = step;
            progress(&format!("{joined} of {all} members have joined"));
        }
    };
    fleet.joined(report).await?;
    print("ready\n")?;
    Err(fleet.agent_failure().await)
}

fn next_steps(args: &Args, members: &[String], merged: Option<&Path>) -> String {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let kept = match &args.data_dir {
        Some(directory) => format!("kept in {}", directory.display()),
        None => "kept in memory".to_owned(),
    };
    let count = members.len();
    let mut out = format!("A hub and {count} simulated members, {kept}, until Ctrl-C. In another terminal:\n\n");
    if merged.is_none() {
        let _ = writeln!(out, "  export KUBECONFIG={}", shell_word(&absolute(&args.kubeconfig)));
    }
    out.push_str("  kubectl --context hub get memberclusters --show-labels\n");
    if let Some(first) = members.first() {
        let _ = writeln!(out, "  kubectl --context {first} get nodes");
    }
    out.push_str("  kubectl --context hub apply -f examples/cluster-scoped/\n\n");
    if let Some(path) = merged {
        let _ = writeln!(out, "Until then, the contexts are in {}.\n", path.display());
    }
    out
}

/// A path, quoted for a shell.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_14_listening_beyond_loopback_is_warned_about() {
        for address in ["0.0.0.0:6443", "[::]:6443", "192.0.2.1:6443"] {
            let warning = exposure(address.parse().unwrap()).unwrap();
            assert!(warning.starts_with(&format!("warning: {address} is reachable from other machines")), "{warning}");
        }
        assert_eq!(exposure("127.0.0.1:6443".parse().unwrap()), None);
        assert_eq!(exposure("[::1]:0".parse().unwrap()), None);
    }

    #[test]
    fn paths_survive_a_shell() {
        assert_eq!(shell_word(Path::new("/tmp/a-b_1.yaml")), "/tmp/a-b_1.yaml");
        assert_eq!(shell_word(Path::new("/tmp/it's here")), r"'/tmp/it'\''s here'");
    }
}
