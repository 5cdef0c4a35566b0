//! `drain`: takes everything off one member cluster and keeps new placements away.
//!
//! Carries out the plans of `fleet_core::eviction::drain` until nothing more will be tried, and says what became of each
//! placement. Decides the exit code: under the name that other releases have for it, `draincluster`, a drain that left
//! something is no error, because scripts rely on it. Whether an eviction is allowed is the hub's decision. Namespaced
//! placements cannot be evicted and stay.

use std::fmt::Write as _;
use std::pin::pin;
use std::time::Duration;

use fleet_api::kinds::{
    Binding, Cluster, ClusterResourcePlacement, ClusterResourcePlacementEviction, Member, MemberCluster, Placement,
};
use fleet_api::names::{ClusterName, PlacementName};
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
use crate::output::{Hinted, Misused, print, program};

/// Take everything off a member cluster and keep new placements away
///
/// Taints the cluster, then evicts every ClusterResourcePlacement from it. Disruption budgets are respected. The taint stays
/// until `uncordon`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet drain member1
  kubefleet drain --cluster-name member1 --hub-cluster-context hub --timeout 2m

Exit code 1: something is still there, and why is told.")]
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

/// What a drain makes of placements that stay on the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhatStays {
    IsAnError,
    IsTold,
}

/// Which member cluster, and how long it may take.
#[derive(Debug, clap::Args)]
pub(crate) struct ClusterFlags {
    /// The member cluster
    #[arg(value_name = "CLUSTER", conflicts_with = "cluster_name")]
    cluster: Option<String>,
    /// The member cluster, as other releases take it
    #[arg(long, value_name = "CLUSTER")]
    cluster_name: Option<String>,
    /// Give up after this time
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = timeout)]
    pub(crate) timeout: Duration,
}

impl ClusterFlags {
    pub(crate) fn name(&self) -> anyhow::Result<&str> {
        self.cluster.as_deref().or(self.cluster_name.as_deref()).filter(|name| !name.is_empty()).ok_or_else(|| {
            let hint = "name it: a member cluster as `kubectl get memberclusters` lists them".to_owned();
            Misused(Hinted { what: "a member cluster is required".to_owned(), hint }).into()
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
            hint: "evictions that are under way go on; run it again to see how far they came".to_owned(),
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
            tell(name, &step.report, &evictions, &placements)?;
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
        // Somebody else changed it; the next plan sees what stands there now.
        None => hub.find::<Member, Cluster>("member cluster", &name).await,
    }
}

/// `None` if the member was changed by somebody else meanwhile.
pub(crate) async fn set_taints(
    hub: &Hub,
    member: &MemberCluster,
    taints: &[Taint],
) -> anyhow::Result<Option<MemberCluster>> {
    let change = based_on(member, json!({"spec": {"taints": taints}}));
    hub.patch::<Member, Cluster>(member.metadata.name.as_deref().unwrap_or_default(), None, &change).await
}

/// Follows our evictions until each has its verdict.
async fn await_verdicts(hub: &Hub, ours: &mut [ClusterResourcePlacementEviction]) -> anyhow::Result<()> {
    let is_pending = |one: &ClusterResourcePlacementEviction| verdict(one) == Verdict::Pending;
    while ours.iter().any(is_pending) {
        let path = KindId::of::<ClusterResourcePlacementEviction>().collection_path(None);
        let failed = |error: kube::Error| hub.failed("watch evictions", &error);
        // Without a version a watch begins with everything that is there.
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
                    return Err(anyhow::anyhow!("somebody deleted the eviction {name:?} before it was decided"));
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

/// What became of each placement.
fn tell(
    name: &str,
    report: &Report,
    evictions: &[ClusterResourcePlacementEviction],
    placements: &[ClusterResourcePlacement],
) -> anyhow::Result<()> {
    if report.placements.is_empty() && report.unattributed.is_empty() {
        print(&format!("nothing is placed on member cluster {name}\n"))?;
    }
    for (placement, progress) in &report.placements {
        let was_evicted = evictions.iter().any(|one| one.spec.placement_name == placement.as_str());
        match progress {
            Progress::Gone if was_evicted => print(&evicted(name, placement, placements))?,
            Progress::Gone | Progress::Leaving | Progress::Evicting => {
                print(&format!("placement {placement} is leaving member cluster {name}\n"))?;
            }
            Progress::NamesItsClusters => print(&format!(
                "placement {placement} names its clusters (PickFixed): only its owner can take it off {name}\n"
            ))?,
            Progress::Refused { message } => print(&format!("placement {placement} stays: {message}\n"))?,
            Progress::Returned => print(&format!(
                "placement {placement} was evicted and picked {name} again: it tolerates the cordon taint\n"
            ))?,
        }
    }
    for binding in &report.unattributed {
        print(&format!("binding {binding} does not say which placement it belongs to\n"))?;
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
        hint: format!("`kubectl get crpe` shows what was refused; {} uncordon {name} undoes the taint", program()),
    }
    .into())
}

/// What went, a line for every cluster-scoped resource.
fn evicted(name: &str, placement: &PlacementName, placements: &[ClusterResourcePlacement]) -> String {
    let object = placements.iter().find(|one| one.metadata.name.as_deref() == Some(placement.as_str()));
    let selected = object.and_then(|one| one.status.as_ref()).map_or(&[][..], |status| &status.selected_resources);
    let mut out = format!("placement {placement} was evicted from member cluster {name}\n");
    for one in selected.iter().filter(|one| one.namespace.is_empty()) {
        let group = if one.group.is_empty() { "''" } else { &one.group };
        let _ = writeln!(
            out,
            "evicted resource {group}/{}/{}/''/{} propagated by CRP {placement} targeting member cluster {name}",
            one.version, one.kind, one.name
        );
    }
    out
}
