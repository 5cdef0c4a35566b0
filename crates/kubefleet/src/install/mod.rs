//! `install hub`, `join`, `leave`, `uninstall`: the agents on real clusters, one command per task. They create the objects that the
//! charts render, and may be run again at any time.
//!
//! | file | what |
//! |---|---|
//! | `hub`, `member` | the commands |
//! | `manifests` | the objects, rendered from the charts |
//! | `target` | writing and awaiting objects of any kind on one cluster |
//! | `steps` | numbered steps with progress; which step failed, and how to undo it |

mod hub;
pub(crate) mod manifests;
mod member;
mod steps;
pub(crate) mod target;

use std::time::Duration;

use crate::cli::approve::timeout;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    Install(InstallArgs),
    Join(member::JoinArgs),
    Leave(member::LeaveArgs),
    Uninstall(hub::UninstallArgs),
}

/// Install the hub agent and the CustomResourceDefinitions on a cluster
///
/// The objects are those of the chart hub-agent with its default values. Members join with `kubefleet join`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet install hub --context hub --registry registry.example/kubefleet
  kubefleet install hub --context hub --dry-run | less")]
pub(crate) struct InstallArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Hub(hub::InstallArgs),
}

impl Verb {
    pub(crate) async fn execute(&self) -> anyhow::Result<()> {
        match self {
            Verb::Install(InstallArgs { what: What::Hub(args) }) => hub::install(args).await,
            Verb::Join(args) => member::join(args).await,
            Verb::Leave(args) => member::leave(args).await,
            Verb::Uninstall(args) => hub::uninstall(args).await,
        }
    }
}

/// Which images the agents run.
#[derive(Debug, clap::Args)]
struct ImageFlags {
    /// The registry with the images, and the path in it
    #[arg(long, value_name = "REGISTRY", default_value = "kubefleet")]
    registry: String,
    /// Tag of the images; defaults to the version of this program
    #[arg(long, value_name = "TAG", default_value = env!("CARGO_PKG_VERSION"))]
    tag: String,
}

/// How the command asks and waits.
#[derive(Debug, Clone, Copy, clap::Args)]
struct RunFlags {
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Give up waiting after this time
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = timeout)]
    timeout: Duration,
}
