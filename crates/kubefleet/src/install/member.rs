//! `join` and `leave`: a cluster becomes a member of the hub, or stops being one.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fleet_api::conditions::decode_ignoring_generation;
use fleet_api::conditions::member::MemberJoined;
use fleet_api::kinds::MemberCluster;
use fleet_api::names::{ClusterName, MemberNamespace};
use fleet_api::safe_text::line;
use fleet_api::well_known::labels::{APP_NAME, MANAGED_BY};
use fleet_api::well_known::namespaces::FLEET_SYSTEM;
use fleet_runtime::KindId;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::hub::{apply_agent, apply_definitions, delete_agent, document};
use super::manifests::{self, Images, MEMBER_AGENT, Membership, US, cluster_of};
use super::steps::{Steps, announce};
use super::target::{Conflicts, Named, is_established, rolled_out};
use super::{ImageFlags, RunFlags};
use crate::cli::connection::{Endpoint, Hub, HubFlags};
use crate::output::{Hinted, UsageError, print, print_data, progress, suggested_command};

/// Make a cluster a member of the hub
///
/// Creates an identity and a MemberCluster on the hub, installs the member agent on the cluster with a token for that identity,
/// and waits until the cluster has joined. The token is neither printed nor stored in a file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet join east --context east --registry registry.example/kubefleet
  kubefleet join east --context east --hub-context hub --label environment=canary
  kubefleet join east --context east --hub-url https://hub.example:6443
  kubefleet join east --context east --dry-run

`kubefleet leave east --context east` undoes it.")]
pub(crate) struct JoinArgs {
    #[command(flatten)]
    clusters: ClusterFlags,
    #[command(flatten)]
    images: ImageFlags,
    /// A label of the MemberCluster, for example for the stages of a run; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// Address of the hub for the agent; defaults to the one in the kubeconfig
    #[arg(long, value_name = "URL", value_parser = https_url)]
    hub_url: Option<String>,
    /// File with the CA of the hub in PEM; defaults to the one in the kubeconfig
    #[arg(long, value_name = "FILE")]
    hub_ca: Option<std::path::PathBuf>,
    /// Print the objects and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not wait until the cluster has joined
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    run: RunFlags,
}

/// Remove a member from the hub, and the agent from its cluster
///
/// Placed objects stay on the cluster; delete or change the placements first to remove them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet leave east --context east
  kubefleet leave east --hub-only        the cluster is lost: remove only what is on the hub")]
pub(crate) struct LeaveArgs {
    #[command(flatten)]
    clusters: ClusterFlags,
    /// Do not touch the cluster, and do not wait: the hub waits for its agent for up to 15 minutes
    #[arg(long, conflicts_with = "context")]
    hub_only: bool,
    #[command(flatten)]
    run: RunFlags,
}

/// The two clusters.
#[derive(Debug, clap::Args)]
struct ClusterFlags {
    /// The name of the member cluster on the hub
    #[arg(value_name = "CLUSTER")]
    cluster: String,
    /// Context of the member in the kubeconfig; defaults to the context with the name of the cluster
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Context of the hub in the kubeconfig; defaults to the current context
    #[arg(long, value_name = "NAME", visible_alias = "hub-cluster-context")]
    hub_context: Option<String>,
    /// Path to the kubeconfig; defaults to KUBECONFIG, then ~/.kube/config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<std::path::PathBuf>,
}

impl ClusterFlags {
    /// The name, if it can be that of a member.
    fn name(&self) -> anyhow::Result<&str> {
        let valid = ClusterName::parse(&self.cluster).map(|name| MemberNamespace::of(&name).map(drop));
        match valid {
            Ok(Ok(())) => Ok(&self.cluster),
            Ok(Err(error)) | Err(error) => Err(UsageError(Hinted {
                what: error.to_string(),
                hint: "use lower-case letters, digits and '-'".to_owned(),
            })
            .into()),
        }
    }

    fn flags(&self, context: Option<String>) -> HubFlags {
        HubFlags { namespace: None, context, kubeconfig: self.kubeconfig.clone() }
    }

    async fn hub(&self) -> anyhow::Result<Hub> {
        self.flags(self.hub_context.clone()).connect().await
    }

    async fn member(&self) -> anyhow::Result<Hub> {
        let context = self.context.clone().unwrap_or_else(|| self.cluster.clone());
        self.flags(Some(context)).connect_as("member").await
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("not KEY=VALUE")?;
    let problems = [k8s_values::validation::qualified_name(key), k8s_values::validation::label_value(value)].concat();
    if problems.is_empty() { Ok((key.to_owned(), value.to_owned())) } else { Err(problems.join("; ")) }
}

fn https_url(text: &str) -> Result<String, String> {
    let url: http::Uri = text.parse().map_err(|_| "not a URL".to_owned())?;
    let is_https = url.scheme_str() == Some("https") && url.host().is_some_and(|host| !host.is_empty());
    if is_https { Ok(text.to_owned()) } else { Err("must begin with https://".to_owned()) }
}

/// The Deployment of the member agent.
fn agent() -> Named<'static> {
    Named { kind: KindId::of::<Deployment>(), namespace: Some(FLEET_SYSTEM), name: MEMBER_AGENT }
}

pub(super) async fn join(args: &JoinArgs) -> anyhow::Result<()> {
    let cluster = args.clusters.name()?;
    let (hub, member) = (args.clusters.hub().await?, args.clusters.member().await?);
    let endpoint = endpoint(args, &hub)?;
    let authority = endpoint.authority.as_ref().map(|pem| BASE64.encode(pem)).unwrap_or_default();
    let membership = Membership { cluster, hub_url: &endpoint.url, hub_ca: &authority };
    let images = Images { registry: &args.images.registry, tag: &args.images.tag };
    let objects = manifests::member(&images, &membership)?;
    if args.dry_run {
        return print_data(&dry_run(args, &hub, &member, &objects));
    }
    let undo = suggested_command(&["leave", cluster, "--context", member.context.as_deref().unwrap_or_default()], None);
    let mut steps = Steps::new(if args.no_wait { 4 } else { 6 }, undo);
    steps.run("check both clusters", check(&hub, &member, cluster)).await?;
    let lines = [
        format!("This writes to the hub, {}:", hub.place()),
        format!("  a MemberCluster and a service account, both named {cluster}, and its token"),
        format!("and to the member, {}:", member.place()),
        format!("  namespace {FLEET_SYSTEM}: the member agent {} and the token for the hub", args.images.tag),
        "  a ClusterRole that allows the agent to write objects of any kind".to_owned(),
    ];
    announce(args.run.yes, &lines, &format!("Join {cluster}?"))?;
    if is_loopback(&endpoint.url) {
        progress(&format!(
            "note: the agent will connect to {}, which pods usually cannot reach; --hub-url sets another address",
            line(&endpoint.url)
        ));
    }
    let patience = args.run.timeout;
    let token = steps.run("create the identity on the hub", create_identity(&hub, cluster, patience)).await?;
    let object = manifests::member_cluster(cluster, &args.label);
    steps.run("create the MemberCluster on the hub", hub.apply_any(&object, Conflicts::Refuse)).await?;
    steps.run("install the agent on the member", install_agent(&member, &token, &objects, patience)).await?;
    if !args.no_wait {
        steps.run("wait until the agent runs", wait_until_running(&member, patience)).await?;
        let object = manifests::member_cluster(cluster, &[]);
        let named = Named::of(&object);
        let joining = hub.wait_for(&named, patience, |seen| joined(seen, cluster));
        steps.run("wait until the cluster has joined", joining).await?;
        print(&format!("{cluster} has joined.\n"))?;
    }
    Ok(())
}

/// Where the agent finds the hub, and which CA it trusts.
fn endpoint(args: &JoinArgs, hub: &Hub) -> anyhow::Result<Endpoint> {
    let mut endpoint = hub.endpoint()?;
    if let Some(url) = &args.hub_url {
        endpoint.url.clone_from(url);
    }
    if let Some(file) = &args.hub_ca {
        let pem = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        endpoint = Endpoint { authority: Some(pem), is_verified: true, ..endpoint };
    }
    if !endpoint.is_verified {
        return Err(Hinted {
            what: "the kubeconfig does not verify the certificate of the hub, but the agent must".to_owned(),
            hint: "specify the CA of the hub with --hub-ca FILE".to_owned(),
        }
        .into());
    }
    Ok(endpoint)
}

/// Whether an address can only be reached from the same machine.
fn is_loopback(url: &str) -> bool {
    let host = url.parse::<http::Uri>().ok().and_then(|url| url.host().map(str::to_owned)).unwrap_or_default();
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The objects, without the token.
fn dry_run(args: &JoinArgs, hub: &Hub, member: &Hub, objects: &[Value]) -> String {
    let cluster = &args.clusters.cluster;
    let [account, secret] = manifests::identity(cluster);
    let mut out = format!("# On the hub, {}\n", line(&hub.place()));
    for object in [account, secret, manifests::member_cluster(cluster, &args.label)] {
        out.push_str(&document(&object));
    }
    let _ = writeln!(
        out,
        "# On the member, {}. The token is that of the Secret {FLEET_SYSTEM}/{} on the hub.",
        line(&member.place()),
        manifests::token_name(cluster)
    );
    let token = manifests::token_secret("<token>");
    for object in manifests::member_definitions().iter().chain([&manifests::namespace(), &token]).chain(objects) {
        out.push_str(&document(object));
    }
    out
}

/// Fails before anything is written if the hub is none, or if the member has the agent of another cluster.
async fn check(hub: &Hub, member: &Hub, cluster: &str) -> anyhow::Result<()> {
    let definition = MemberCluster::crd().object;
    let served = hub.find_any(&Named::of(&definition)).await?;
    if is_established(served.as_ref()).is_err() {
        return Err(Hinted {
            what: format!("{} is not a hub: it does not serve MemberClusters", hub.place()),
            hint: format!(
                "run {} first, or choose another with --hub-context",
                suggested_command(&["install", "hub"], None)
            ),
        }
        .into());
    }
    let known = hub.find_any(&Named::of(&manifests::member_cluster(cluster, &[]))).await?.unwrap_or_default();
    if !known["metadata"]["deletionTimestamp"].is_null() {
        let hint = "wait until it has left; `kubectl get memberclusters` shows it".to_owned();
        return Err(Hinted { what: format!("the member cluster {cluster:?} is leaving the fleet"), hint }.into());
    }
    check_agent(member, cluster, "helm upgrade").await.map(drop)
}

/// The Deployment of the agent. Fails if it is that of another cluster, or managed by Helm.
async fn check_agent(member: &Hub, cluster: &str, instead: &str) -> anyhow::Result<Option<Value>> {
    member.refuse_helm(&agent(), instead).await?;
    let found = member.find_any(&agent()).await?;
    if let Some(other) = found.as_ref().and_then(cluster_of).filter(|other| *other != cluster) {
        return Err(Hinted {
            what: format!("{} has the agent of the member cluster {other:?}, not of {cluster:?}", member.place()),
            hint: "choose another cluster with --context, or use that name".to_owned(),
        }
        .into());
    }
    Ok(found)
}

/// Creates the service account and returns its token in base64.
async fn create_identity(hub: &Hub, cluster: &str, patience: Duration) -> anyhow::Result<String> {
    let [account, secret] = manifests::identity(cluster);
    hub.apply_any(&manifests::namespace(), Conflicts::Overwrite).await?;
    hub.apply_any(&account, Conflicts::Overwrite).await?;
    hub.apply_any(&secret, Conflicts::Overwrite).await?;
    let token = |secret: Option<&Value>| {
        let token = secret.and_then(|secret| secret["data"]["token"].as_str()).map(str::to_owned);
        token.ok_or_else(|| "the hub has not issued the token yet".to_owned())
    };
    hub.wait_for(&Named::of(&secret), patience, token).await
}

async fn install_agent(member: &Hub, token: &str, objects: &[Value], patience: Duration) -> anyhow::Result<()> {
    apply_definitions(member, &manifests::member_definitions(), patience).await?;
    member.apply_any(&manifests::namespace(), Conflicts::Overwrite).await?;
    member.apply_any(&manifests::token_secret(token), Conflicts::Overwrite).await?;
    apply_agent(member, objects).await
}

async fn wait_until_running(member: &Hub, patience: Duration) -> anyhow::Result<()> {
    let Err(error) = member.wait_for(&agent(), patience, rolled_out).await else { return Ok(()) };
    Err(match why_not_running(member).await {
        Some(why) => error.context(line(&why).into_owned()),
        None => error,
    })
}

fn joined(seen: Option<&Value>, cluster: &str) -> Result<(), String> {
    let decoded = seen.and_then(|object| serde_json::from_value::<MemberCluster>(object.clone()).ok());
    let Some(status) = decoded.and_then(|member| member.status) else {
        return Err(format!("the hub agent has not seen {cluster} yet"));
    };
    if decode_ignoring_generation::<MemberJoined>(&status.conditions).is_true() {
        return Ok(());
    }
    Err(format!("the agent of {cluster} has not reported to the hub yet"))
}

/// Why the pods of the agent do not run, if they say so.
async fn why_not_running(member: &Hub) -> Option<String> {
    let labels = format!("{APP_NAME}={MEMBER_AGENT}");
    let pods: Vec<Value> = member.list_kind(&KindId::of::<Pod>(), Some(FLEET_SYSTEM), Some(&labels)).await.ok()?;
    if pods.is_empty() {
        return Some(format!("its Deployment has no pods; kubectl -n {FLEET_SYSTEM} describe replicasets shows why"));
    }
    let containers = pods.iter().filter_map(|pod| pod["status"]["containerStatuses"].as_array()).flatten();
    containers.filter_map(|one| one["state"]["waiting"].as_object()).find_map(|waiting| {
        let text = |field: &str| waiting.get(field).and_then(Value::as_str).unwrap_or_default();
        Some(format!("{}: {}", text("reason"), text("message"))).filter(|said| said != ": ")
    })
}

pub(super) async fn leave(args: &LeaveArgs) -> anyhow::Result<()> {
    let cluster = args.clusters.name()?;
    let hub = args.clusters.hub().await?;
    let member = if args.hub_only { None } else { Some(args.clusters.member().await?) };
    let mut steps = Steps::new(if member.is_some() { 4 } else { 3 }, String::new());
    let agent_answers = steps.run("check the clusters", check_leaving(&hub, member.as_ref(), cluster)).await?;
    let mut lines = vec![
        format!("This writes to the hub, {}:", hub.place()),
        format!("  the MemberCluster {cluster} and its service account are deleted"),
    ];
    if let Some(member) = &member {
        lines.push(format!("and to the member, {}:", member.place()));
        lines.push(format!(
            "  namespace {FLEET_SYSTEM}: the member agent and its token are deleted; placed objects stay"
        ));
    }
    announce(args.run.yes, &lines, &format!("Remove {cluster} from the fleet?"))?;
    let patience = args.run.timeout;
    let deleting = delete_member_cluster(&hub, cluster, agent_answers, patience);
    let is_gone = steps.run("delete the MemberCluster on the hub", deleting).await?;
    if let Some(member) = &member {
        steps.run("delete the agent on the member", uninstall_agent(member, patience)).await?;
    }
    steps.run("delete the identity on the hub", delete_identity(&hub, cluster)).await?;
    print(&if is_gone {
        format!("{cluster} has left the fleet.\n")
    } else {
        format!("{cluster} is leaving the fleet: without its agent, the hub removes it within 15 minutes.\n")
    })
}

/// Whether there is an agent that will confirm that it has stopped to apply.
async fn check_leaving(hub: &Hub, member: Option<&Hub>, cluster: &str) -> anyhow::Result<bool> {
    let object = hub.find_any(&Named::of(&manifests::member_cluster(cluster, &[]))).await?;
    let Some(member) = member else { return Ok(false) };
    let agent = check_agent(member, cluster, "kubectl delete membercluster and helm uninstall").await?;
    Ok(agent.is_some() && joined(object.as_ref(), cluster).is_ok())
}

/// Deletes the MemberCluster. Waits only for an agent that can answer. Returns whether the object is gone.
async fn delete_member_cluster(
    hub: &Hub,
    cluster: &str,
    agent_answers: bool,
    patience: Duration,
) -> anyhow::Result<bool> {
    let object = manifests::member_cluster(cluster, &[]);
    let named = Named::of(&object);
    if !hub.delete_any(&named).await? {
        return Ok(true);
    }
    if agent_answers {
        hub.wait_until_gone(&named, patience).await?;
    }
    Ok(agent_answers)
}

async fn uninstall_agent(member: &Hub, patience: Duration) -> anyhow::Result<()> {
    let nothing = Membership { cluster: "", hub_url: "", hub_ca: "" };
    let objects = manifests::member(&Images { registry: "", tag: "" }, &nothing)?;
    delete_agent(member, &objects, patience).await?;
    delete_ours(member, &manifests::token_secret("")).await
}

async fn delete_identity(hub: &Hub, cluster: &str) -> anyhow::Result<()> {
    for object in manifests::identity(cluster).iter().rev() {
        delete_ours(hub, object).await?;
    }
    Ok(())
}

/// Deletes an object if `join` created it. Others may use an object of the same name.
async fn delete_ours(cluster: &Hub, object: &Value) -> anyhow::Result<()> {
    let found = cluster.find_any(&Named::of(object)).await?.unwrap_or_default();
    if found["metadata"]["labels"][MANAGED_BY] == US {
        cluster.delete_any(&Named::of(object)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_members_are_refused_before_anything_is_written() {
        let flags = |cluster: &str| ClusterFlags {
            cluster: cluster.to_owned(),
            context: None,
            hub_context: None,
            kubeconfig: None,
        };
        assert_eq!(flags("east").name().unwrap(), "east");
        for bad in ["", "East", "a/b", "a b", "$(id)", "x\n"] {
            assert!(flags(bad).name().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn addresses_of_the_same_machine_are_recognised() {
        for local in ["https://127.0.0.1:6443", "https://localhost", "https://[::1]:6443/x"] {
            assert!(is_loopback(local), "{local}");
        }
        assert!(!is_loopback("https://hub.example:6443") && !is_loopback("https://10.0.0.1"));
    }

    #[test]
    fn flags_are_checked() {
        assert_eq!(label("environment=canary"), Ok(("environment".to_owned(), "canary".to_owned())));
        assert!(label("a b=c").is_err() && label("a").is_err() && label("a=b c").is_err());
        assert!(https_url("https://hub:6443").is_ok() && https_url("http://hub").is_err() && https_url("hub").is_err());
    }
}
