//! `kubefleet member-agent`: the agent of one or many member clusters as a process. Flags and environment are checked first,
//! then probes, metrics and agents start. An unreachable member delays only its own agent, unless it is the only one.

mod environment;
mod members;
mod settings;

use std::ffi::OsStr;

use anyhow::Context as _;
use fleet_api::kinds::PLACEMENT_GROUP;
use fleet_member::Member;
use fleet_runtime::{Election, Metrics, Options, Overlap, Ownership, Runtime, TaskPanicked};
use futures::future::try_join_all;

use crate::agent::definitions::{self, Missing};
use crate::agent::flags::{self, Flags, Refusal};
use crate::agent::health::Checks;
use crate::agent::process::{self, Stop};
use crate::agent::retry::retry_with_backoff;
use crate::agent::{logging, metrics, serving};
use crate::output::{Hinted, UsageError, print};
use environment::Environment;
use members::{COMPONENT, Connected};
use settings::{Addresses, Settings};

/// Run the agent of a member cluster (or of many) until SIGTERM
///
/// The flags and environment variables are those of KubeFleet's member agent: -x, --x, --x=VALUE or --x VALUE. `kubefleet member-agent
/// --help` lists them.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    #[arg(value_name = "FLAG", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) flags: Vec<String>,
}

const HELP: &str = "Run the agent of a member cluster (or of many) until SIGTERM\n\n\
    Usage: kubefleet member-agent [FLAG]...\n\n\
    The hub is that of HUB_SERVER_URL, with the token in the file CONFIG_PATH (or IDENTITY_KEY and IDENTITY_CERT with\n\
    --use-ca-auth) and the authority of CA_BUNDLE or HUB_CERTIFICATE_AUTHORITY; or that of --hub-kubeconfig.\n\
    The member is MEMBER_CLUSTER_NAME, at --kubeconfig, KUBECONFIG, or the pod's service account.\n\n\
    Examples:\n  \
    MEMBER_CLUSTER_NAME=east kubefleet member-agent --hub-kubeconfig ~/.kube/hub --kubeconfig ~/.kube/east\n  \
    kubefleet member-agent --hub-kubeconfig ~/.kube/hub --members-kubeconfigs members/\n\n\
    Flags:\n";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let tables = [settings::FLAGS, logging::FLAGS];
    let flags = match Flags::parse(&tables, &args.flags) {
        Ok(flags) => flags,
        Err(Refusal::HelpRequested) => return print(&format!("{HELP}{}", flags::help(&tables))),
        // As in Go: an invalid flag is a usage error.
        Err(Refusal::Problems(problems)) => return Err(UsageError(refused(problems)).into()),
    };
    let settings = match Settings::of(&flags) {
        Ok(settings) => settings,
        Err(Refusal::HelpRequested) => return print(HELP),
        Err(Refusal::Problems(problems)) => return Err(refused(problems).into()),
    };
    logging::start(flags.integer("v"));
    logging::warn_about_ineffective_flags(&flags);
    process::run(|stop| serve(settings, stop))
}

/// The error for a flag that is not UTF-8.
pub(crate) fn unreadable(flag: &OsStr) -> anyhow::Error {
    let what = format!("{} is not UTF-8", flag.display());
    UsageError(Hinted { what, hint: "flags and their values must be UTF-8".to_owned() }).into()
}

fn refused(problems: Vec<flags::Problem>) -> Hinted {
    flags::refused(problems, "see kubefleet member-agent --help for all flags")
}

async fn serve(settings: Settings, stop: Stop) -> anyhow::Result<()> {
    let members = members::connect(&settings, &Environment(&|name| std::env::var_os(name))).await?;
    let alone = settings.members.is_none();
    if let [only] = &members[..]
        && alone
    {
        require_applied_works(&only.member).await?;
    }
    let mut registry = metrics::registry();
    let shared = Shared { metrics: Metrics::registered(&mut registry), election: settings.election.clone() };
    let mut agents = Vec::new();
    for connected in members {
        let name = connected.options.cluster.to_string();
        let member = connected.member.clone();
        let (runtime, installed) = shared.agent(connected)?;
        installed.register(&mut registry, (!alone).then_some(name.as_str()));
        agents.push(agent(name, runtime, member, alone, stop.clone()));
    }
    tracing::info!(members = agents.len(), "starting agents");
    let checks = Checks::default();
    checks.put("ping", || Ok(()));
    let (probes, scraped) = (checks.page(), metrics::page(registry));
    let hub = listen("hub-", &settings.hub_addresses).await?;
    let own = listen("", &settings.addresses).await?;
    tokio::select! {
        biased;
        ended = try_join_all(agents) => drop(ended?),
        () = serving::serve(hub.0, probes.clone()) => {}
        () = serving::serve(hub.1, scraped.clone()) => {}
        () = serving::serve(own.0, probes) => {}
        () = serving::serve(own.1, scraped) => {}
    }
    Ok(())
}

type Listener = Option<tokio::net::TcpListener>;

async fn listen(whose: &str, addresses: &Addresses) -> anyhow::Result<(Listener, Listener)> {
    let probes = serving::listen(&format!("{whose}health-probe-bind-address"), &addresses.probes).await?;
    let scraped = serving::listen(&format!("{whose}metrics-bind-address"), &addresses.metrics).await?;
    Ok((probes, scraped))
}

/// Runs the agent of a member until shutdown. One of many agents first waits until its member serves AppliedWorks.
async fn agent(
    name: String,
    runtime: Runtime,
    member: kube::Client,
    alone: bool,
    stop: Stop,
) -> Result<(), TaskPanicked> {
    if !alone {
        let needed = definitions::ours(vec![applied_work_kind()]);
        if !definitions::all_served(member, needed, &Missing::default(), stop.clone()).await? {
            return Ok(());
        }
    }
    tracing::info!(member = name, "starting agent");
    runtime.run(stop.asked()).await
}

/// Shared by the agents of a process.
struct Shared {
    metrics: Metrics,
    election: Option<Election>,
}

impl Shared {
    fn agent(&self, connected: Connected) -> anyhow::Result<(Runtime, Member)> {
        let messages = |overlaps: Vec<Overlap>| overlaps.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let ownership =
            Ownership::new(fleet_member::ownership()).map_err(|overlaps| anyhow::anyhow!(messages(overlaps)));
        let options = Options {
            component: COMPONENT.to_owned(),
            ownership: ownership.context("two controllers own the same field")?,
            metrics: self.metrics.clone(),
            election: self.election.clone(),
            ..Options::default()
        };
        let mut runtime = Runtime::new(connected.hub, options);
        let own = runtime.connect(connected.member);
        runtime.elect_on(own);
        let member = fleet_member::install(&mut runtime, own, &connected.options);
        Ok((runtime, member))
    }
}

/// The kind that records the applied objects.
fn applied_work_kind() -> fleet_runtime::KindId {
    fleet_runtime::KindId::new(PLACEMENT_GROUP, "v1beta1", "AppliedWork", "appliedworks")
}

/// Fails if the member does not serve AppliedWorks: without them, applied objects could never be removed.
async fn require_applied_works(member: &kube::Client) -> anyhow::Result<()> {
    let hinted = |why| Hinted { what: why, hint: format!("on the member: {}", definitions::HOW_TO_INSTALL) };
    Ok(retry_with_backoff(|| find_applied_works(member)).await.map_err(hinted)?)
}

/// Checks whether the member serves AppliedWorks.
async fn find_applied_works(member: &kube::Client) -> Result<(), String> {
    match member.list_api_group_resources(&format!("{PLACEMENT_GROUP}/v1beta1")).await {
        Ok(served) if served.resources.iter().any(|resource| resource.name == "appliedworks") => Ok(()),
        Ok(_) => Err("the member's API server does not serve AppliedWorks".to_owned()),
        Err(error) => Err(format!("cannot discover AppliedWorks on the member's API server: {error}")),
    }
}
