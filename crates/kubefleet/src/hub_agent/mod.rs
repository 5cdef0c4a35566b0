//! `kubefleet hub-agent`: the hub controllers as a process, on any Kubernetes API server. Probes, metrics and webhooks start
//! at once, controllers when all CustomResourceDefinitions are served. Installs only what a flag asks for.

mod settings;
mod webhooks;

#[cfg(feature = "fuzzing")]
pub(crate) use webhooks::answered;

use anyhow::Context as _;
use fleet_hub::Hub;
use fleet_runtime::{ClusterId, Metrics, Options, Overlap, Ownership, Progress, Runtime};
use prometheus_client::registry::Registry;

use crate::agent::definitions::{self, Missing};
use crate::agent::flags::{self, Flags, Refusal};
use crate::agent::health::Checks;
use crate::agent::process::{self, Stop};
use crate::agent::{connect, logging, metrics, serving};
use crate::output::{UsageError, print, progress};
use settings::{Environment, Settings};

/// Name in managed fields, events and access logs.
const COMPONENT: &str = "fleet-hub-agent";

/// Run the hub controllers against a Kubernetes API server until SIGTERM
///
/// The flags are those of KubeFleet's hub agent: -x, --x, --x=VALUE or --x VALUE. `kubefleet hub-agent --help` lists them.
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
        Err(Refusal::HelpRequested) => return print(&usage()),
        // As in Go: an invalid flag prints the usage. The error comes last, where it is visible.
        Err(Refusal::Problems(problems)) => {
            progress(&usage());
            return Err(UsageError(flags::refused(problems, LISTED)).into());
        }
    };
    let settings = match Settings::of(&flags, &Environment::of_process()) {
        Ok(settings) => settings,
        Err(problems) => return Err(flags::refused(problems, LISTED).into()),
    };
    logging::start(flags.integer("v"));
    logging::warn_about_ineffective_flags(&flags);
    for warning in settings.warnings() {
        tracing::warn!(warning, "questionable flags");
    }
    process::run(|stop| serve(settings, stop))
}

const LISTED: &str = "see kubefleet hub-agent --help for all flags";
const HELP: &str = "Run the hub controllers against a Kubernetes API server until SIGTERM\n\n\
    Usage: kubefleet hub-agent [FLAG]...\n\n\
    The API server is that of --kubeconfig, KUBECONFIG or the pod's service account. The CRDs must be installed:\n\
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
    let needed = [definitions::ours(runtime.kinds(ClusterId::MAIN)), hub.read_kinds()].concat();
    add_checks(&checks, &missing, runtime.progress(), hub);
    let work = async {
        if definitions::all_served(client, needed, &missing, stop.clone()).await? {
            tracing::info!("starting controllers");
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

/// The controllers, ready to run, with their metrics.
fn controllers(client: kube::Client, settings: &Settings, registry: &mut Registry) -> anyhow::Result<(Runtime, Hub)> {
    let messages = |overlaps: Vec<Overlap>| overlaps.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let grants = fleet_hub::ownership().into_iter().chain(webhooks::OWNERSHIP);
    let ownership = Ownership::new(grants).map_err(|overlaps| anyhow::anyhow!(messages(overlaps)));
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

/// Ready means that all caches are synced and this process can lead at any time.
fn add_checks(checks: &Checks, missing: &Missing, progress: Progress, hub: Hub) {
    let missing = missing.clone();
    checks.put("definitions", move || missing.check());
    checks.put("informer-cache", move || {
        if !progress.is_synced() {
            Err("caches are not synced yet".to_owned())
        } else if !hub.knows_inventory() {
            Err("the caches of selectable kinds are not synced yet".to_owned())
        } else {
            Ok(())
        }
    });
}
