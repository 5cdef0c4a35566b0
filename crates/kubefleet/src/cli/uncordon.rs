//! `uncordon`: removes the taint of `drain` from a member cluster. Evicted placements return only if their policy picks the
//! cluster again.

use fleet_api::kinds::{Cluster, Member, MemberCluster};
use fleet_core::eviction::drain::uncordoned;

use super::connection::{Hub, HubFlags};
use super::drain::{ClusterFlags, set_taints};
use crate::output::print;

/// Allow placements on a member cluster again after a drain
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet uncordon member1
  kubefleet uncordon --cluster-name member1 --hub-cluster-context hub")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    hub: HubFlags,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let name = args.cluster.name()?;
    let hub = args.hub.connect().await?;
    match tokio::time::timeout(args.cluster.timeout, uncordon(&hub, name)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(anyhow::anyhow!("member cluster {name:?} was not uncordoned within {:?}", args.cluster.timeout)),
    }
}

async fn uncordon(hub: &Hub, name: &str) -> anyhow::Result<()> {
    loop {
        let member: MemberCluster = hub.find::<Member, Cluster>("member cluster", name).await?;
        let Some(taints) = uncordoned(&member.spec.taints) else {
            return print(&format!("member cluster {name} has no cordon taint; nothing to do\n"));
        };
        if set_taints(hub, &member, &taints).await?.is_some() {
            return print(&format!("uncordoned member cluster {name}\n"));
        }
    }
}
