//! `kubefleet hub-agent`: the hub's controllers as a process, on any Kubernetes API server.
//!
//! Decides what is started in which order: probes, metrics and webhooks at once, controllers when the server knows our kinds.
//! Installs nothing that no flag asks for. Never decides anything about the fleet.

mod settings;
mod webhooks;

use anyhow::Context as _;
use fleet_hub::Hub;
use fleet_runtime::{Metrics, Options, Overlap, Ownership, Progress, Runtime, Side};
use prometheus_client::registry::Registry;

use crate::agent::definitions::{self, Missing};
use crate::agent::flags::{self, Flags, Refusal};
use crate::agent::health::Checks;
use crate::agent::process::{self, Stop};
use crate::agent::{connect, logging, metrics, serving};
use crate::output::{Misused, print, progress};
use settings::{Settings, Surroundings};

/// Who writes, in managed fields, events and access logs.
const COMPONENT: &str = "fleet-hub-agent";

/// Run the hub's controllers against a Kubernetes API server, until SIGTERM
///
/// Flags are those of KubeFleet's own hub agent: -x, --x, --x=VALUE or --x VALUE. `kubefleet hub-agent --help` lists them.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    #[arg(value_name = "FLAG", trailing_var_arg = true, allow_hyphen_values = true)]
    flags: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let tables = [settings::FLAGS, logging::FLAGS];
    let usage = || format!("{HELP}{}", flags::help(&tables));
    let flags = match Flags::parse(&tables, &args.flags) {
        Ok(flags) => flags,
        Err(Refusal::HelpWanted) => return print(&usage()),
        // As Go's flag package does: what a single flag says is a matter of usage. What is wrong comes last, where it is seen.
        Err(Refusal::Problems(problems)) => {
            progress(&usage());
            return Err(Misused(flags::refused(problems, LISTED)).into());
        }
    };
    let settings = match Settings::of(&flags, &Surroundings::of_this_process()) {
        Ok(settings) => settings,
        Err(problems) => return Err(flags::refused(problems, LISTED).into()),
    };
    logging::start(flags.integer("v"));
    logging::tell_of(&flags);
    if let Some(doubt) = settings.doubt() {
        tracing::warn!(doubt, "the flags can hardly be meant so");
    }
    process::run(|stop| serve(settings, stop))
}

const LISTED: &str = "kubefleet hub-agent --help lists all flags";
const HELP: &str = "Run the hub's controllers against a Kubernetes API server, until SIGTERM\n\n\
    Usage: kubefleet hub-agent [FLAG]...\n\n\
    The server is that of --kubeconfig, of KUBECONFIG, or of the pod's service account. It must know our kinds:\n\
    kubefleet crds | kubectl apply --server-side -f -\n\n\
    Examples:\n  \
    kubefleet hub-agent --kubeconfig ~/.kube/hub\n  \
    kubefleet hub-agent --leader-elect --health-probe-bind-address 127.0.0.1:8081 -v 2\n\n\
    Flags:\n";

async fn serve(settings: Settings, stop: Stop) -> anyhow::Result<()> {
    let probes = serving::listen("health-probe-bind-address", &settings.probes).await?;
    let scraped = serving::listen("metrics-bind-address", &settings.metrics).await?;
    let config = connect::config(settings.kubeconfig.as_deref()).await?;
    let unlimited = connect::client(config, COMPONENT, None)?;
    let client = connect::limited(unlimited.clone(), settings.limit);
    let mut registry = metrics::registry();
    let (mut runtime, hub) = controllers(client.clone(), &settings, &mut registry)?;
    let checks = Checks::default();
    checks.put("ping", || Ok(()));
    let webhooks =
        webhooks::prepare(&settings.admission, &unlimited, &mut runtime, &hub, &checks, &mut registry).await?;
    let missing = Missing::default();
    let needed = [definitions::ours(runtime.kinds(Side::MAIN)), hub.read_kinds()].concat();
    add_checks(&checks, &missing, runtime.progress(), hub);
    let work = async {
        if definitions::all_served(client, needed, &missing, stop.clone()).await? {
            tracing::info!("controllers start");
            runtime.run(stop.asked()).await?;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        biased;
        ended = work => ended?,
        () = serving::serve(probes, checks.page()) => {}
        () = serving::serve(scraped, metrics::page(registry)) => {}
        () = webhooks::serve(webhooks) => {}
    }
    Ok(())
}

/// The controllers, ready to run, and what they show of themselves.
fn controllers(client: kube::Client, settings: &Settings, registry: &mut Registry) -> anyhow::Result<(Runtime, Hub)> {
    let told = |overlaps: Vec<Overlap>| overlaps.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let grants = fleet_hub::ownership().into_iter().chain(webhooks::OWNERSHIP);
    let ownership = Ownership::new(grants).map_err(|overlaps| anyhow::anyhow!(told(overlaps)));
    let options = Options {
        component: COMPONENT.to_owned(),
        ownership: ownership.context("two controllers own the same field")?,
        metrics: Metrics::registered(registry),
        election: settings.election.clone(),
        ..Options::default()
    };
    let mut runtime = Runtime::new(client, options).retrying(settings.retry);
    let hub = fleet_hub::install(&mut runtime, &settings.hub);
    hub.register(registry, &runtime.progress());
    Ok((runtime, hub))
}

/// Ready: everything is known, so that this process acts, or could at any moment.
fn add_checks(checks: &Checks, missing: &Missing, progress: Progress, hub: Hub) {
    let missing = missing.clone();
    checks.put("definitions", move || missing.check());
    checks.put("informer-cache", move || {
        if !progress.is_synced() {
            Err("objects are still being listed".to_owned())
        } else if !hub.knows_inventory() {
            Err("the kinds that placements may select are still being listed".to_owned())
        } else {
            Ok(())
        }
    });
}
