//! `install hub` and `uninstall`: the hub agent with its permissions and the CustomResourceDefinitions.

use std::time::Duration;

use fleet_api::kinds::{Cluster, Member, MemberCluster};
use fleet_api::well_known::namespaces::FLEET_SYSTEM;
use fleet_api::well_known::webhook_configurations;
use fleet_runtime::KindId;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::Value;

use super::manifests::{self, HUB_AGENT, Images};
use super::steps::{Steps, announce};
use super::target::{Conflicts, Named, is_established, rolled_out};
use super::{ImageFlags, RunFlags};
use crate::cli::connection::{Hub, HubFlags};
use crate::output::{Hinted, print, print_data, suggested_command};

/// Install the hub agent
///
/// Applies the CustomResourceDefinitions, the permissions and the Deployment of the hub agent in namespace fleet-system, and waits
/// until it runs. For other settings use the chart hub-agent, which creates the same objects.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet install hub --context hub --registry registry.example/kubefleet
  kubefleet install hub --context hub --enable-workload --yes
  kubefleet install hub --context hub --dry-run > hub.yaml")]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    images: ImageFlags,
    /// Allow Pods and ReplicaSets on the hub; without it only namespaces kube-* and fleet-* may have them
    #[arg(long)]
    enable_workload: bool,
    /// Print the objects and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not wait until the agent runs
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    run: RunFlags,
    #[command(flatten)]
    hub: HubFlags,
}

/// Remove the hub agent and its webhooks from the hub
///
/// Members must leave first. The CustomResourceDefinitions and all placements stay, so that a new agent continues where this one
/// ended, unless you use --delete-crds.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet uninstall --context hub
  kubefleet uninstall --context hub --delete-crds    also delete all placements, runs and overrides")]
pub(crate) struct UninstallArgs {
    /// Also delete the CustomResourceDefinitions, and with them all objects of the fleet
    #[arg(long)]
    delete_crds: bool,
    #[command(flatten)]
    run: RunFlags,
    #[command(flatten)]
    hub: HubFlags,
}

/// The Deployment of the hub agent.
fn agent() -> Named<'static> {
    Named { kind: KindId::of::<Deployment>(), namespace: Some(FLEET_SYSTEM), name: HUB_AGENT }
}

pub(super) async fn install(args: &InstallArgs) -> anyhow::Result<()> {
    let images = Images { registry: &args.images.registry, tag: &args.images.tag };
    let objects = manifests::hub(&images, args.enable_workload)?;
    let definitions = manifests::hub_definitions();
    if args.dry_run {
        let all = definitions.iter().chain([&manifests::namespace()]).chain(&objects).map(document).collect::<String>();
        return print_data(&all);
    }
    let hub = args.hub.connect().await?;
    let lines = [
        format!("This writes to {}:", hub.place()),
        format!("  {} CustomResourceDefinitions", definitions.len()),
        format!("  namespace {FLEET_SYSTEM}: the hub agent {} with its permissions", args.images.tag),
    ];
    announce(args.run.yes, &lines, "Install the hub agent?")?;
    let undo = with_context(&["uninstall"], &hub);
    let mut steps = Steps::new(if args.no_wait { 3 } else { 4 }, undo);
    steps.run("check the hub", hub.refuse_helm(&agent(), "helm upgrade")).await?;
    steps.run("apply the CustomResourceDefinitions", apply_definitions(&hub, &definitions, args.run.timeout)).await?;
    steps.run("apply the hub agent", apply_agent(&hub, &objects)).await?;
    if !args.no_wait {
        let agent = agent();
        steps.run("wait until the hub agent runs", hub.wait_for(&agent, args.run.timeout, rolled_out)).await?;
    }
    print(&format!(
        "The hub agent is installed.\n→ {}\n",
        suggested_command(&["join", "CLUSTER", "--context", "CONTEXT"], None)
    ))
}

/// Applies CustomResourceDefinitions and waits until all are served.
pub(super) async fn apply_definitions(hub: &Hub, definitions: &[Value], patience: Duration) -> anyhow::Result<()> {
    for definition in definitions {
        hub.apply_any(definition, Conflicts::Overwrite).await?;
    }
    for definition in definitions {
        hub.wait_for(&Named::of(definition), patience, is_established).await?;
    }
    Ok(())
}

/// Applies the objects of an agent to its namespace. The Deployment is last, so that its pods have their permissions.
pub(super) async fn apply_agent(hub: &Hub, objects: &[Value]) -> anyhow::Result<()> {
    hub.apply_any(&manifests::namespace(), Conflicts::Overwrite).await?;
    let (last, first): (Vec<&Value>, Vec<&Value>) = objects.iter().partition(|one| one["kind"] == "Deployment");
    for object in first.into_iter().chain(last) {
        hub.apply_any(object, Conflicts::Overwrite).await?;
    }
    Ok(())
}

/// Deletes the objects of an agent. The Deployment is first and is waited for, so that the agent ends with its permissions.
pub(super) async fn delete_agent(hub: &Hub, objects: &[Value], patience: Duration) -> anyhow::Result<()> {
    let (first, last): (Vec<&Value>, Vec<&Value>) = objects.iter().partition(|one| one["kind"] == "Deployment");
    for object in first {
        hub.delete_any(&Named::of(object)).await?;
        hub.wait_until_gone(&Named::of(object), patience).await?;
    }
    for object in last.into_iter().rev() {
        hub.delete_any(&Named::of(object)).await?;
    }
    Ok(())
}

pub(super) async fn uninstall(args: &UninstallArgs) -> anyhow::Result<()> {
    let hub = args.hub.connect().await?;
    let mut lines = vec![
        format!("This writes to {}:", hub.place()),
        format!("  namespace {FLEET_SYSTEM}: the hub agent, its permissions and its webhooks are deleted"),
    ];
    lines.push(if args.delete_crds {
        "  the CustomResourceDefinitions and ALL placements, runs, overrides and snapshots are deleted".to_owned()
    } else {
        "  the CustomResourceDefinitions and all placements stay".to_owned()
    });
    announce(args.run.yes, &lines, "Uninstall the hub agent?")?;
    let mut steps = Steps::new(if args.delete_crds { 4 } else { 3 }, String::new());
    steps.run("check the hub", check_leavable(&hub)).await?;
    let objects = manifests::hub(&Images { registry: "", tag: "" }, false)?;
    let patience = args.run.timeout;
    steps.run("delete the hub agent", delete_agent(&hub, &objects, patience)).await?;
    // Without an agent the webhooks would reject changes. The agent does not run any more, so it cannot restore them.
    steps.run("delete the webhooks", delete_webhooks(&hub)).await?;
    if args.delete_crds {
        steps.run("delete the CustomResourceDefinitions", delete_definitions(&hub, patience)).await?;
    }
    print("The hub agent is uninstalled.\n")
}

/// Fails if Helm manages the agent, or if the hub has members.
async fn check_leavable(hub: &Hub) -> anyhow::Result<()> {
    hub.refuse_helm(&agent(), "helm uninstall").await?;
    let definition = MemberCluster::crd().object;
    if hub.find_any(&Named::of(&definition)).await?.is_none() {
        return Ok(());
    }
    let members = hub.list::<Member, Cluster>(None).await?;
    let members: Vec<&str> = members.iter().filter_map(|one| one.metadata.name.as_deref()).collect();
    let Some(first) = members.first() else { return Ok(()) };
    Err(Hinted {
        what: format!("the hub has members: {}", members.join(", ")),
        hint: format!("remove each of them first: {}", suggested_command(&["leave", first], None)),
    }
    .into())
}

async fn delete_webhooks(hub: &Hub) -> anyhow::Result<()> {
    let named = |kind: KindId, name| Named { kind, namespace: None, name };
    let validating = KindId::of::<ValidatingWebhookConfiguration>;
    for one in [
        named(KindId::of::<MutatingWebhookConfiguration>(), webhook_configurations::MUTATING),
        named(validating(), webhook_configurations::VALIDATING),
        named(validating(), webhook_configurations::GUARD_RAIL),
    ] {
        hub.delete_any(&one).await?;
    }
    Ok(())
}

async fn delete_definitions(hub: &Hub, patience: Duration) -> anyhow::Result<()> {
    let definitions = manifests::hub_definitions();
    for definition in &definitions {
        hub.delete_any(&Named::of(definition)).await?;
    }
    for definition in &definitions {
        hub.wait_until_gone(&Named::of(definition), patience).await?;
    }
    Ok(())
}

/// A document of a list of objects.
pub(super) fn document(object: &Value) -> String {
    format!("---\n{}", fleet_api::yaml::to_string(object))
}

/// A command for the same hub.
fn with_context(words: &[&str], hub: &Hub) -> String {
    let context = hub.context.iter().flat_map(|context| ["--context", context]);
    suggested_command(&words.iter().copied().chain(context).collect::<Vec<_>>(), None)
}
