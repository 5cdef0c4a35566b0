//! A hub in one process: an API server with virtual time and our kinds, members that are only objects, and the hub's
//! controllers, which can be stopped and started again.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fleet_api::kinds::{ClusterResourceBinding, ClusterResourcePlacement, ClusterResourceSnapshot, Work};
use fleet_core::placement::SnapshotIntervals;
use fleet_hub::HubOptions;
use fleet_runtime::{KindId, Progress, ReconcileResult};
pub(crate) use fleet_testkit::{DEFINITIONS, MEMBERS, PLACEMENT_API as PLACEMENT, conditions_text as conditions};
use fleet_testkit::{Schemas, TestServer, member_cluster, member_status, object, pass, text};
use serde_json::{Value, json};

pub(crate) use crate::agent::HubAgent as Running;
use crate::connections::deaf::Deaf;
use crate::connections::mortal::{Life, Mortal};
use crate::connections::refusing::Refusing;
use crate::end_to_end::members::Members;

pub(crate) struct World(TestServer);

impl Deref for World {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.0
    }
}

impl World {
    /// A server with our kinds, the namespace `shop` and these members.
    pub(crate) async fn new(members: &[&str]) -> Self {
        Self::with(Schemas::Strict, members).await
    }

    /// The same on a server that lets everything through, as an older or a careless one may have done.
    pub(crate) async fn without_schemas(members: &[&str]) -> Self {
        Self::with(Schemas::Loose, members).await
    }

    async fn with(schemas: Schemas, members: &[&str]) -> Self {
        let world = Self(TestServer::with_kinds(schemas).await);
        world.create_namespace("shop").await;
        for member in members {
            world.join(member, json!({})).await;
        }
        world
    }

    /// A member that is heard of and healthy.
    pub(crate) async fn join(&self, name: &str, labels: Value) {
        self.create(MEMBERS, member_cluster(name, labels)).await;
        self.heartbeat(name).await;
    }

    pub(crate) async fn heartbeat(&self, name: &str) {
        self.patch(&format!("{MEMBERS}/{name}/status"), member_status(&self.clock)).await;
    }

    pub(crate) async fn place(&self, name: &str, spec: Value) {
        let path = format!("{PLACEMENT}/clusterresourceplacements");
        self.create(&path, object("ClusterResourcePlacement", name, spec)).await;
    }

    pub(crate) async fn placement(&self, name: &str) -> Value {
        self.get(&format!("{PLACEMENT}/clusterresourceplacements/{name}")).await.unwrap()
    }

    pub(crate) async fn edit(&self, name: &str, spec: Value) {
        self.patch(&format!("{PLACEMENT}/clusterresourceplacements/{name}"), json!({"spec": spec})).await;
    }

    /// `index: Kind name, …` of the status, or its Scheduled condition's reason if nothing is selected.
    pub(crate) async fn selected(&self, name: &str) -> String {
        let status = &self.placement(name).await["status"];
        let resources = status["selectedResources"].as_array().cloned().unwrap_or_default();
        let names: Vec<_> =
            resources.iter().map(|one| format!("{} {}", text(&one["kind"]), text(&one["name"]))).collect();
        format!("{}: {}", text(&status["observedResourceIndex"]), names.join(", "))
    }

    /// `type=status reason` of each of the placement's conditions.
    pub(crate) async fn conditions(&self, name: &str) -> Vec<String> {
        conditions(&self.placement(name).await["status"]["conditions"])
    }

    /// Names of resource snapshots with what is in them; the latest has a star.
    pub(crate) async fn snapshots(&self) -> Vec<String> {
        let list = self.list(&format!("{PLACEMENT}/clusterresourcesnapshots")).await;
        let text = |snapshot: &Value| {
            let latest = &snapshot["metadata"]["labels"]["kubernetes-fleet.io/is-latest-snapshot"] == "true";
            let resources = snapshot["spec"]["selectedResources"].as_array().unwrap().iter();
            let names: Vec<_> = resources.map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect();
            let name = snapshot["metadata"]["name"].as_str().unwrap();
            format!("{name}{}: {}", if latest { "*" } else { "" }, names.join(" "))
        };
        list.iter().map(text).collect()
    }

    /// `cluster=State` of the placement's bindings that are not being deleted, by cluster.
    pub(crate) async fn bindings(&self, placement: &str) -> String {
        let list = self.list(&format!("{PLACEMENT}/clusterresourcebindings")).await;
        let mut texts: Vec<_> = list
            .iter()
            .filter(|one| one["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] == placement)
            .filter(|one| one["metadata"]["deletionTimestamp"].is_null() && one["spec"].is_object())
            .map(|one| {
                format!("{}={}", one["spec"]["targetCluster"].as_str().unwrap(), one["spec"]["state"].as_str().unwrap())
            })
            .collect();
        texts.sort();
        texts.join(" ")
    }

    /// The one binding of a placement for a cluster.
    pub(crate) async fn binding(&self, placement: &str, cluster: &str) -> Value {
        let list = self.list(&format!("{PLACEMENT}/clusterresourcebindings")).await;
        let is_it = |one: &Value| {
            one["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] == placement
                && one["spec"]["targetCluster"] == cluster
                && one["metadata"]["deletionTimestamp"].is_null()
        };
        list.into_iter().find(is_it).unwrap()
    }

    pub(crate) async fn config_map(&self, name: &str, value: &str) {
        let object = json!({"metadata": {"name": name}, "data": {"value": value}});
        self.create("/api/v1/namespaces/shop/configmaps", object).await;
    }

    /// Starts the members' agents, which find everything available.
    pub(crate) fn members(&self) -> Members {
        Members::start(self.client(), self.clock.clone())
    }

    /// `member/name: manifests` of all Works, by member.
    pub(crate) async fn works(&self) -> Vec<String> {
        let list = self.list(&format!("{PLACEMENT}/works")).await;
        let text = |work: &Value| {
            let manifests = work["spec"]["workload"]["manifests"].as_array().cloned().unwrap_or_default();
            let names: Vec<_> =
                manifests.iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect();
            let member = work["metadata"]["namespace"].as_str().unwrap().trim_start_matches("fleet-member-");
            let going = if work["metadata"]["deletionTimestamp"].is_null() { "" } else { " (going)" };
            format!("{member}/{}: {}{going}", work["metadata"]["name"].as_str().unwrap(), names.join(" "))
        };
        list.iter().map(text).collect()
    }

    /// Starts the hub's controllers without any delay of snapshots.
    pub(crate) fn start(&self) -> Running {
        self.start_with(HubOptions { snapshot_intervals: SnapshotIntervals::NONE, ..HubOptions::default() })
    }

    pub(crate) fn start_with(&self, options: HubOptions) -> Running {
        self.start_over(self.client(), options)
    }

    /// Starts a hub that lists what is at this path and hears of no change there.
    pub(crate) fn start_deaf(&self, plural: &'static str) -> Running {
        // Nobody keeps what would open its ears.
        let (deaf, _) = Deaf::to(plural, self.service());
        let client = kube::Client::new(deaf, "default");
        self.start_over(client, HubOptions { snapshot_intervals: SnapshotIntervals::NONE, ..HubOptions::default() })
    }

    /// Starts a hub that dies at one of its writes.
    pub(crate) fn start_mortal(&self, life: Life) -> Running {
        let client = kube::Client::new(Mortal { server: self.service(), life }, "default");
        self.start_over(client, HubOptions { snapshot_intervals: SnapshotIntervals::NONE, ..HubOptions::default() })
    }

    /// Starts a hub whose Works are refused until it is told otherwise.
    pub(crate) fn start_refused(&self) -> (Running, Arc<AtomicBool>) {
        let accepts = Arc::new(AtomicBool::new(false));
        let client = kube::Client::new(Refusing { server: self.service(), accepts: accepts.clone() }, "default");
        let options = HubOptions { snapshot_intervals: SnapshotIntervals::NONE, ..HubOptions::default() };
        (self.start_over(client, options), accepts)
    }

    /// The same over another way to the server.
    pub(crate) fn start_over(&self, client: kube::Client, options: HubOptions) -> Running {
        // Members are only objects here; who writes about them is tested with their agents, in fleet-member.
        let options = HubOptions { cluster_inventory: false, ..options };
        Running::start(client, &self.clock, &options, None)
    }
}

impl Running {
    /// Waits until nothing happens any more, neither on the hub nor with the members, and what was held back is written.
    pub(crate) async fn at_rest(&self, members: &Members) {
        for _ in 0..2 {
            self.settled_with(members.progress()).await;
            pass(Duration::from_secs(2)).await;
        }
        self.settled_with(members.progress()).await;
    }

    async fn settled_with(&self, members: &Progress) {
        loop {
            self.settled().await;
            if members.is_synced() && members.is_idle() && self.progress.is_idle() {
                return;
            }
            pass(Duration::from_millis(1)).await;
        }
    }

    /// Waits until a change of the server's kinds has been noticed, which a server may need a moment for.
    pub(crate) async fn hub_learns(&self) {
        self.settled().await;
        pass(Duration::from_secs(2)).await;
        self.settled().await;
    }

    /// How often users' objects were read. Our own are read for Works, and again after conflicts.
    pub(crate) fn content_reads(&self) -> u64 {
        let own = [
            KindId::of::<ClusterResourcePlacement>(),
            KindId::of::<ClusterResourceBinding>(),
            KindId::of::<ClusterResourceSnapshot>(),
            KindId::of::<Work>(),
        ];
        self.metrics.reads() - own.iter().map(|kind| self.metrics.reads_of(kind)).sum::<u64>()
    }

    pub(crate) fn reconciles(&self, controller: &'static str) -> u64 {
        let ended =
            [ReconcileResult::Succeeded, ReconcileResult::Failed, ReconcileResult::Conflict, ReconcileResult::Panicked];
        ended.into_iter().map(|how| self.metrics.reconciles(controller, how)).sum()
    }
}

/// Selects the namespace `shop` with everything in it.
pub(crate) fn shop() -> Value {
    json!({"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]})
}

/// The same for so many clusters.
pub(crate) fn shop_on(clusters: u32) -> Value {
    let mut spec = shop();
    spec["policy"] = json!({"placementType": "PickN", "numberOfClusters": clusters});
    spec
}
