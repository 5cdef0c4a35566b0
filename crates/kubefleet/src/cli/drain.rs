//! `drain`: removes all cluster-scoped placements from a member cluster and keeps new ones away. Executes the plans of
//! `fleet_core::eviction::drain`; the hub decides whether an eviction is allowed.
//!
//! `draincluster`, the name in other releases, exits with 0 if placements stay, because scripts rely on it. Namespaced
//! placements cannot be evicted and stay.

use std::fmt::Write as _;
use std::pin::pin;
use std::time::Duration;

use fleet_api::kinds::{
    Binding, Cluster, ClusterResourcePlacement, ClusterResourcePlacementEviction, Member, MemberCluster, Placement,
};
use fleet_api::names::{ClusterName, PlacementName};
use fleet_api::safe_text::line;
use fleet_api::types::Taint;
use fleet_core::eviction::drain::{Observed, Progress, Report, Write, plan};
use fleet_core::eviction::{Verdict, verdict};
use fleet_runtime::{KindId, Seeds};
use futures::StreamExt as _;
use kube::core::WatchEvent;
use serde_json::json;

use super::approve::timeout;
use super::connection::{Hub, HubFlags};
use super::objects::based_on;
use crate::output::{Hinted, UsageError, print, program};

/// Remove all placements from a member cluster and keep new ones away
///
/// Taints the cluster, then evicts every ClusterResourcePlacement from it. Disruption budgets are respected. The taint stays
/// until `uncordon`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet drain member1
  kubefleet drain --cluster-name member1 --hub-cluster-context hub --timeout 2m

Exit code 1: some placements are still on the cluster; the output has the reasons.")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    hub: HubFlags,
}

pub(crate) const EXAMPLE_OF_OTHER_RELEASES: &str = "\
Examples:
  kubefleet draincluster --hub-cluster-context hub --cluster-name member1

Exit code 0: it is over, and the last lines say whether anything is still there.";

/// Whether placements that stay on the cluster are an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhatStays {
    IsAnError,
    IsTold,
}

/// The member cluster and the timeout.
#[derive(Debug, clap::Args)]
pub(crate) struct ClusterFlags {
    /// The member cluster
    #[arg(value_name = "CLUSTER", conflicts_with = "cluster_name")]
    cluster: Option<String>,
    /// The member cluster (flag of other releases)
    #[arg(long, value_name = "CLUSTER")]
    cluster_name: Option<String>,
    /// Give up after this time
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = timeout)]
    pub(crate) timeout: Duration,
}

impl ClusterFlags {
    pub(crate) fn name(&self) -> anyhow::Result<&str> {
        self.cluster.as_deref().or(self.cluster_name.as_deref()).filter(|name| !name.is_empty()).ok_or_else(|| {
            let hint = "specify a member cluster; `kubectl get memberclusters` lists them".to_owned();
            UsageError(Hinted { what: "a member cluster is required".to_owned(), hint }).into()
        })
    }
}

pub(crate) async fn run(args: &Args, what_stays: WhatStays) -> anyhow::Result<()> {
    let name = args.cluster.name()?;
    let draining = async {
        let hub = args.hub.connect().await?;
        drain(&hub, name, what_stays).await
    };
    match tokio::time::timeout(args.cluster.timeout, draining).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Hinted {
            what: format!("member cluster {name:?} was not drained within {:?}", args.cluster.timeout),
            hint: "evictions in progress continue; run the command again to see their progress".to_owned(),
        }
        .into()),
    }
}

async fn drain(hub: &Hub, name: &str, what_stays: WhatStays) -> anyhow::Result<()> {
    let mut member: MemberCluster = hub.find::<Member, Cluster>("member cluster", name).await?;
    let cluster = ClusterName::parse(name)?;
    let seeds = Seeds::Random;
    let mut evictions: Vec<ClusterResourcePlacementEviction> = Vec::new();
    loop {
        let bindings = hub.list::<Binding, Cluster>(None).await?;
        let placements = hub.list::<Placement, Cluster>(None).await?;
        let observed = Observed {
            cluster: &cluster,
            taints: &member.spec.taints,
            bindings: &bindings,
            placements: &placements,
            evictions: &evictions,
            suffix_seed: u32::try_from(seeds.next() >> u32::BITS).unwrap_or_default(),
        };
        let step = plan(&observed);
        if step.writes.is_empty() && step.report.is_over() {
            report(name, &step.report, &evictions, &placements)?;
            return conclude(name, &step.report, what_stays);
        }
        for write in step.writes {
            match write {
                Write::Cordon { taints } => member = cordon(hub, member, &taints).await?,
                Write::CreateEviction(new) => evictions.push(hub.create(&new.object()).await?),
            }
        }
        await_verdicts(hub, &mut evictions).await?;
    }
}

async fn cordon(hub: &Hub, member: MemberCluster, taints: &[Taint]) -> anyhow::Result<MemberCluster> {
    let name = member.metadata.name.clone().unwrap_or_default();
    match set_taints(hub, &member, taints).await? {
        Some(member) => {
            print(&format!("Successfully cordoned member cluster {name} by adding cordon taint\n"))?;
            Ok(member)
        }
        // Conflict: plan again with the current object.
        None => hub.find::<Member, Cluster>("member cluster", &name).await,
    }
}

/// `None` on a conflict.
pub(crate) async fn set_taints(
    hub: &Hub,
    member: &MemberCluster,
    taints: &[Taint],
) -> anyhow::Result<Option<MemberCluster>> {
    let change = based_on(member, json!({"spec": {"taints": taints}}));
    hub.patch::<Member, Cluster>(member.metadata.name.as_deref().unwrap_or_default(), None, &change).await
}

/// Watches our evictions until all are executed or rejected.
async fn await_verdicts(hub: &Hub, ours: &mut [ClusterResourcePlacementEviction]) -> anyhow::Result<()> {
    let is_pending = |one: &ClusterResourcePlacementEviction| verdict(one) == Verdict::Pending;
    while ours.iter().any(is_pending) {
        let path = KindId::of::<ClusterResourcePlacementEviction>().collection_path(None);
        let failed = |error: kube::Error| hub.failed("watch evictions", &error);
        // A watch without resourceVersion begins with all existing objects.
        let request = http::Request::get(format!("{path}?watch=true")).body(Vec::new());
        let request = request.map_err(|error| failed(kube::Error::HttpError(error)))?;
        let mut events =
            pin!(hub.client.request_events::<ClusterResourcePlacementEviction>(request).await.map_err(failed)?);
        while let Some(event) = events.next().await {
            match event.map_err(failed)? {
                WatchEvent::Added(new) | WatchEvent::Modified(new) => {
                    let known = ours.iter_mut().find(|one| one.metadata.uid == new.metadata.uid);
                    if let Some(known) = known {
                        *known = new;
                    }
                }
                WatchEvent::Deleted(gone) if ours.iter().any(|one| one.metadata.uid == gone.metadata.uid) => {
                    let name = gone.metadata.name.unwrap_or_default();
                    return Err(anyhow::anyhow!("the eviction {name:?} was deleted before it was executed"));
                }
                WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(_) => break,
            }
            if !ours.iter().any(is_pending) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Reports the result for each placement.
fn report(
    name: &str,
    report: &Report,
    evictions: &[ClusterResourcePlacementEviction],
    placements: &[ClusterResourcePlacement],
) -> anyhow::Result<()> {
    if report.placements.is_empty() && report.without_placement.is_empty() {
        print(&format!("no placements on member cluster {name}\n"))?;
    }
    for (placement, progress) in &report.placements {
        let was_evicted = evictions.iter().any(|one| one.spec.placement_name == placement.as_str());
        match progress {
            Progress::Gone if was_evicted => print(&evicted(name, placement, placements))?,
            Progress::Gone | Progress::PlacementDeleting | Progress::Evicting => {
                print(&format!("placement {placement} is leaving member cluster {name}\n"))?;
            }
            Progress::FixedClusters => print(&format!(
                "placement {placement} lists its clusters (PickFixed): remove {name} from spec.policy.clusterNames\n"
            ))?,
            Progress::Refused { message } => print(&format!("placement {placement} stays: {}\n", line(message)))?,
            Progress::Returned => print(&format!(
                "placement {placement} was evicted and picked {name} again: it tolerates the cordon taint\n"
            ))?,
        }
    }
    for binding in &report.without_placement {
        print(&format!("binding {binding} has no parent placement label\n"))?;
    }
    Ok(())
}

fn conclude(name: &str, report: &Report, what_stays: WhatStays) -> anyhow::Result<()> {
    let reminder = format!("reminder: uncordon the cluster {name} to remove cordon taint if needed\n");
    let failed = format!("drain was not successful for cluster {name}");
    if report.is_drained() {
        return print(&format!("drain was successful for cluster {name}\n{reminder}"));
    }
    if what_stays == WhatStays::IsTold {
        return print(&format!("{failed}\n{reminder}"));
    }
    print(&reminder)?;
    Err(Hinted {
        what: failed,
        hint: format!("`kubectl get crpe` shows rejected evictions; {} uncordon {name} removes the taint", program()),
    }
    .into())
}

/// The removed resources, one line per cluster-scoped resource.
fn evicted(name: &str, placement: &PlacementName, placements: &[ClusterResourcePlacement]) -> String {
    let object = placements.iter().find(|one| one.metadata.name.as_deref() == Some(placement.as_str()));
    let selected = object.and_then(|one| one.status.as_ref()).map_or(&[][..], |status| &status.selected_resources);
    let mut out = format!("placement {placement} was evicted from member cluster {name}\n");
    for one in selected.iter().filter(|one| one.namespace.is_empty()) {
        let group = if one.group.is_empty() { "''".into() } else { line(&one.group) };
        let _ = writeln!(
            out,
            "evicted resource {group}/{}/{}/''/{} propagated by CRP {placement} targeting member cluster {name}",
            line(&one.version),
            line(&one.kind),
            line(&one.name)
        );
    }
    out
}
