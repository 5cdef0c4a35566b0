//! A hub in one process: an API server with virtual time and our kinds, members that are only objects, and the hub's
//! controllers, which can be stopped and started again.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use apiserver::{Builder, Embedded, LocalService, Options as ServerOptions, ROOT_CLUSTER, User};
use fleet_api::kinds::{ClusterResourceBinding, ClusterResourcePlacement, ClusterResourceSnapshot, Work, all_crds};
use fleet_core::placement::SnapshotIntervals;
use fleet_hub::{Hub, HubOptions, install, ownership};
use fleet_runtime::{
    Clock, KindId, Metrics, Options, Ownership, Progress, ReconcileResult, Runtime, Seeds, TaskPanicked,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::deaf::Deaf;
use crate::members::Members;
use crate::mortal::{Life, Mortal};
use crate::refusing::Refusing;

/// Virtual time after which a hub that has not settled never will.
const PATIENCE: Duration = Duration::from_mins(10);
pub(crate) const PLACEMENT: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const MEMBERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";

pub(crate) struct World {
    server: Embedded,
    pub(crate) clock: Clock,
}

impl World {
    /// A server with our kinds, the namespace `shop` and these members.
    pub(crate) async fn new(members: &[&str]) -> Self {
        let world = Self::bare().await;
        for crd in all_crds() {
            world.create(DEFINITIONS, crd.object).await;
        }
        world.furnish(members).await
    }

    /// The same on a server that lets everything through, as an older or a careless one may have done.
    pub(crate) async fn without_schemas(members: &[&str]) -> Self {
        let world = Self::bare().await;
        for mut crd in all_crds() {
            for version in crd.object["spec"]["versions"].as_array_mut().unwrap() {
                let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
                version["schema"]["openAPIV3Schema"] = schema;
            }
            world.create(DEFINITIONS, crd.object).await;
        }
        world.furnish(members).await
    }

    async fn furnish(self, members: &[&str]) -> Self {
        let world = self;
        world.create("/api/v1/namespaces", json!({"metadata": {"name": "shop"}})).await;
        for member in members {
            world.join(member, json!({})).await;
        }
        world
    }

    /// A server without any of our kinds.
    pub(crate) async fn bare() -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let servers = clock.clone();
        let builder = Builder::default().clock(Arc::new(move || servers.now())).seed(1);
        let server = Embedded::with(builder, ServerOptions::default()).await.unwrap();
        Self { server, clock }
    }

    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    pub(crate) fn service(&self) -> LocalService {
        self.server.service(ROOT_CLUSTER, User::authenticated("admin", ["system:masters".to_owned()]))
    }

    /// A member that is heard of and healthy.
    pub(crate) async fn join(&self, name: &str, labels: Value) {
        let spec = json!({"identity": {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}});
        let object = json!({"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
            "metadata": {"name": name, "labels": labels}, "spec": spec});
        self.create(MEMBERS, object).await;
        self.heartbeat(name).await;
    }

    pub(crate) async fn heartbeat(&self, name: &str) {
        let now = self.clock.now().to_string();
        let condition = |type_: &str| {
            json!({"type": type_, "status": "True", "reason": "Fine", "message": "", "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let agent = json!({"type": "MemberAgent", "conditions": [condition("Joined"), condition("Healthy")],
            "lastReceivedHeartbeat": now});
        let status = json!({"status": {"agentStatus": [agent], "conditions": [condition("Joined")]}});
        self.patch(&format!("{MEMBERS}/{name}/status"), status).await;
    }

    pub(crate) async fn place(&self, name: &str, spec: Value) {
        let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
            "metadata": {"name": name}, "spec": spec});
        self.create(&format!("{PLACEMENT}/clusterresourceplacements"), object).await;
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
        let word = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let resources = status["selectedResources"].as_array().cloned().unwrap_or_default();
        let names: Vec<_> =
            resources.iter().map(|one| format!("{} {}", word(&one["kind"]), word(&one["name"]))).collect();
        format!("{}: {}", word(&status["observedResourceIndex"]), names.join(", "))
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

    pub(crate) async fn create(&self, path: &str, object: Value) -> Value {
        self.try_create(path, object).await.unwrap()
    }

    pub(crate) async fn try_create(&self, path: &str, object: Value) -> kube::Result<Value> {
        self.request("POST", path, "application/json", Some(object)).await
    }

    pub(crate) async fn patch(&self, path: &str, change: Value) -> Value {
        self.try_patch(path, change).await.unwrap()
    }

    pub(crate) async fn try_patch(&self, path: &str, change: Value) -> kube::Result<Value> {
        self.request("PATCH", path, "application/merge-patch+json", Some(change)).await
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.request("DELETE", path, "application/json", None).await.unwrap();
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        self.request("GET", path, "application/json", None).await.ok()
    }

    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        self.get(path).await.unwrap()["items"].as_array().unwrap().clone()
    }

    async fn request(&self, method: &str, path: &str, format: &str, body: Option<Value>) -> kube::Result<Value> {
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = http::Request::builder().method(method).uri(path).header("content-type", format).body(body);
        self.client().request(request.unwrap()).await
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
        let runtime_options = Options {
            component: "hub-agent".to_owned(),
            clock: self.clock.clone(),
            seeds: Seeds::starting_with(1),
            ownership: Ownership::new(ownership()).unwrap(),
            strict: true,
            metrics: Metrics::default(),
            election: None,
        };
        let mut runtime = Runtime::new(client, runtime_options);
        // Members are only objects here; who writes about them is tested with their agents, in fleet-member.
        let hub = install(&mut runtime, &HubOptions { cluster_inventory: false, ..options });
        let (stop, stopped) = oneshot::channel();
        let (progress, metrics) = (runtime.progress(), runtime.metrics().clone());
        let task = tokio::spawn(runtime.run(async move { drop(stopped.await) }));
        Running { stop, task, progress, metrics, hub }
    }
}

/// `type=status reason`, in order.
pub(crate) fn conditions(list: &Value) -> Vec<String> {
    let word = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let all = list.as_array().cloned().unwrap_or_default();
    all.iter().map(|one| format!("{}={} {}", word(&one["type"]), word(&one["status"]), word(&one["reason"]))).collect()
}

/// A hub's controllers at work.
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), TaskPanicked>>,
    progress: Progress,
    pub(crate) metrics: Metrics,
    pub(crate) hub: Hub,
}

impl Running {
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap().unwrap();
    }

    /// Ends it in the middle of whatever it does.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// Waits until all is done that there is to do. With paused time this takes no time; wake-ups stay set.
    pub(crate) async fn settled(&self) {
        let begun = tokio::time::Instant::now();
        let mut held = 0;
        // Twice in a row, with everybody else idle in between: news may be on its way.
        while held < 2 {
            assert!(begun.elapsed() < PATIENCE, "never settled: {:?}", self.progress);
            let settled = self.progress.is_synced() && self.progress.is_idle() && self.hub.knows_inventory();
            held = if settled { held + 1 } else { 0 };
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until nothing happens any more, neither on the hub nor with the members, and what was held back is written.
    pub(crate) async fn at_rest(&self, members: &Members) {
        for _ in 0..2 {
            self.settled_with(&members.progress).await;
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        self.settled_with(&members.progress).await;
    }

    async fn settled_with(&self, members: &Progress) {
        loop {
            self.settled().await;
            if members.is_synced() && members.is_idle() && self.progress.is_idle() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until a change of the server's kinds has been noticed, which a server may need a moment for.
    pub(crate) async fn hub_learns(&self) {
        self.settled().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
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
