//! `kubefleet doctor`: whether hub and members are installed in a way that can work. The rules are in `fleet_core::doctor`. Writes
//! nothing: what it tries, it tries as a dry run.
//!
//! | file | what |
//! |---|---|
//! | `read` | the facts of one API server |
//! | `print` | human-readable output |

mod print;
mod read;

use fleet_api::kinds::{Cluster, Member, MemberCluster};
use fleet_core::diagnose::Severity;
use fleet_core::doctor::{Facts, MemberFacts, examine};
use fleet_runtime::Clock;
use futures::stream::{self, StreamExt as _};

use crate::cli::connection::{Hub, HubFlags};
use crate::cli::output::OutputFlags;
use crate::output::{ProblemsFound, progress};

/// Members that are read at the same time.
const MEMBERS_AT_ONCE: usize = 8;

/// Check the installation: versions, CRDs, permissions, webhooks, clocks, heartbeats, tokens, limits
///
/// Reads the hub, and each member for which the kubeconfig has a context with the name of the cluster. Every problem is printed with
/// the commands that fix it. `kubefleet diagnose` explains placements and runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet doctor
  kubefleet doctor --context hub -o json

Exit codes: 0 no problem, 1 the hub could not be read, 3 a problem was found.")]
pub(crate) struct Args {
    #[command(flatten)]
    output: OutputFlags,
    /// Context of the hub in the kubeconfig; defaults to the current context
    #[arg(long, value_name = "NAME", visible_alias = "hub-cluster-context")]
    context: Option<String>,
    /// Path to the kubeconfig; defaults to KUBECONFIG, then ~/.kube/config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<std::path::PathBuf>,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let flags = |context| HubFlags { namespace: None, context, kubeconfig: args.kubeconfig.clone() };
    let hub = flags(args.context.clone()).connect().await?;
    progress(&format!("checking the hub, {}", hub.place()));
    // The first request: if it fails, nothing can be said.
    let (kubernetes, clock_offset_seconds) = read::version(&hub).await?;
    let facts = read::hub(&hub).await;
    let is_no_hub = facts.definitions.iter().any(|one| one.name == MemberCluster::crd().info.crd_name());
    let members = if is_no_hub { Vec::new() } else { hub.list::<Member, Cluster>(None).await? };
    let facts = fleet_core::doctor::ServerFacts { kubernetes, clock_offset_seconds, ..facts };
    if !members.is_empty() {
        progress(&format!("checking {} members", members.len()));
    }
    let contexts = flags(None).contexts().unwrap_or_default();
    let members = stream::iter(members).map(|object| {
        let name = object.metadata.name.clone().unwrap_or_default();
        let flags = contexts.contains(&name).then(|| flags(Some(name)));
        member(&hub, flags, object)
    });
    let facts = Facts {
        now: Clock::Real.now(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        hub: facts,
        members: members.buffered(MEMBERS_AT_ONCE).collect().await,
    };
    let report = examine(&facts);
    args.output.show(&report, print::report)?;
    let is_problem = |severity: Severity| severity > Severity::Information;
    if report.findings.iter().any(|one| is_problem(one.severity)) { Err(ProblemsFound.into()) } else { Ok(()) }
}

async fn member(hub: &Hub, flags: Option<HubFlags>, object: MemberCluster) -> MemberFacts {
    let denied = read::denied_to_member(hub, &object).await;
    let server = match flags {
        Some(flags) => Some(match flags.connect_as("member").await {
            Ok(member) => read::member(&member).await,
            Err(error) => read::unreachable(&format!("{error:#}")),
        }),
        None => None,
    };
    MemberFacts { object, denied, server }
}
