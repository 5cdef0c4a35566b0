//! `kubefleet member-agent`: the agent of one member cluster, or of many, as a process.
//!
//! Decides what is started in which order: what flags and environment say is checked first, then probes and metrics, then the
//! agents. A member that is not reachable holds up itself only, unless it is the only one. Never decides anything about the
//! fleet.

mod environment;
mod members;
mod settings;

use std::ffi::OsStr;

use anyhow::Context as _;
use fleet_api::kinds::PLACEMENT_GROUP;
use fleet_member::Member;
use fleet_runtime::{Broken, Election, Metrics, Options, Overlap, Ownership, Runtime};
use futures::future::try_join_all;

use crate::agent::definitions::{self, Missing};
use crate::agent::flags::{self, Flags, Refusal};
use crate::agent::health::Checks;
use crate::agent::patience::tried;
use crate::agent::process::{self, Stop};
use crate::agent::{logging, metrics, serving};
use crate::output::{Hinted, Misused, print};
use environment::Environment;
use members::{COMPONENT, Connected};
use settings::{Addresses, Settings};

/// Run the agent of a member cluster (or of many) until SIGTERM
///
/// Flags and environment are those of KubeFleet's own member agent: -x, --x, --x=VALUE or --x VALUE. `kubefleet member-agent
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
        Err(Refusal::HelpWanted) => return print(&format!("{HELP}{}", flags::help(&tables))),
        // As Go's flag package does: what a single flag says is a matter of usage.
        Err(Refusal::Problems(problems)) => return Err(Misused(refused(problems)).into()),
    };
    let settings = match Settings::of(&flags) {
        Ok(settings) => settings,
        Err(Refusal::HelpWanted) => return print(HELP),
        Err(Refusal::Problems(problems)) => return Err(refused(problems).into()),
    };
    logging::start(flags.integer("v"));
    logging::tell_of(&flags);
    process::run(|stop| serve(settings, stop))
}

/// A flag that is no text.
pub(crate) fn unreadable(flag: &OsStr) -> anyhow::Error {
    let what = format!("{} is not UTF-8", flag.display());
    Misused(Hinted { what, hint: "flags and their values are text".to_owned() }).into()
}

fn refused(problems: Vec<flags::Problem>) -> Hinted {
    flags::refused(problems, "kubefleet member-agent --help lists all flags")
}

async fn serve(settings: Settings, stop: Stop) -> anyhow::Result<()> {
    let members = members::connect(&settings, &Environment(&|name| std::env::var_os(name))).await?;
    let alone = settings.members.is_none();
    if let [only] = &members[..]
        && alone
    {
        ledgers_are_served(&only.member).await?;
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
    tracing::info!(members = agents.len(), "agents start");
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

/// One member's agent until the process is asked to stop. One of many first waits until its member knows the ledger's kind.
async fn agent(name: String, runtime: Runtime, member: kube::Client, alone: bool, stop: Stop) -> Result<(), Broken> {
    if !alone {
        let needed = definitions::ours(vec![ledger()]);
        if !definitions::all_served(member, needed, &Missing::default(), stop.clone()).await? {
            return Ok(());
        }
    }
    tracing::info!(member = name, "an agent starts");
    runtime.run(stop.asked()).await
}

/// What the agents of one process have in common.
struct Shared {
    metrics: Metrics,
    election: Option<Election>,
}

impl Shared {
    fn agent(&self, connected: Connected) -> anyhow::Result<(Runtime, Member)> {
        let told = |overlaps: Vec<Overlap>| overlaps.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let ownership = Ownership::new(fleet_member::ownership()).map_err(|overlaps| anyhow::anyhow!(told(overlaps)));
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

/// The kind by which an agent remembers what it has placed.
fn ledger() -> fleet_runtime::KindId {
    fleet_runtime::KindId::new(PLACEMENT_GROUP, "v1beta1", "AppliedWork", "appliedworks")
}

/// The member must know the kind of the ledger: without it nothing that is placed could be taken back.
async fn ledgers_are_served(member: &kube::Client) -> anyhow::Result<()> {
    let told = |why| Hinted { what: why, hint: format!("on the member: {}", definitions::HOW_TO_INSTALL) };
    Ok(tried(|| ledgers_are_seen(member)).await.map_err(told)?)
}

/// Why the ledger's kind is not to be had, if it is not.
async fn ledgers_are_seen(member: &kube::Client) -> Result<(), String> {
    match member.list_api_group_resources(&format!("{PLACEMENT_GROUP}/v1beta1")).await {
        Ok(served) if served.resources.iter().any(|resource| resource.name == "appliedworks") => Ok(()),
        Ok(_) => Err("the member's API server does not know AppliedWorks".to_owned()),
        Err(error) => Err(format!("the member's API server cannot be asked for AppliedWorks: {error}")),
    }
}
