//! A hub and its members, and requests of users.

use std::time::Duration;

use fleet_sim::member::SimulatedMember;
use fleet_sim::simulation::{AgentMetrics, Simulation, SimulationTemplate};
use serde_json::{Value, json};

/// Timeout of waits, in virtual time.
const TIMEOUT: Duration = Duration::from_mins(10);

pub(crate) const PLACEMENT_API: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
pub(crate) const MEMBERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";

pub(crate) struct Fleet {
    pub(crate) simulation: Simulation,
    hub: kube::Client,
    pub(crate) metrics: AgentMetrics,
    /// Time between two looks at what a test waits for.
    pub(crate) look_every: Duration,
}

impl Fleet {
    /// A hub without members.
    pub(crate) async fn new() -> Self {
        let template = SimulationTemplate::build().await.unwrap();
        let metrics = AgentMetrics::default();
        let mut simulation = Simulation::new(&template, 1, metrics.clone()).await.unwrap();
        simulation.start_hub().unwrap();
        let hub = simulation.user();
        Self { simulation, hub, metrics, look_every: Duration::from_millis(10) }
    }

    pub(crate) async fn join(&mut self, member: &SimulatedMember) {
        self.send("POST", MEMBERS, &serde_json::to_value(member.member_cluster()).unwrap()).await;
        self.simulation.start_member(member).await.unwrap();
    }

    /// Creates a namespace with a ConfigMap.
    pub(crate) async fn create_content(&self, namespace: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        self.send("POST", "/api/v1/namespaces", &object).await;
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"value": "1"}});
        self.send("POST", &maps(namespace), &map).await;
    }

    /// Places a namespace under its own name.
    pub(crate) async fn place(&self, namespace: &str, strategy: &str) {
        let selector = json!({"group": "", "version": "v1", "kind": "Namespace", "name": namespace});
        let spec = json!({"resourceSelectors": [selector], "strategy": {"type": strategy}});
        self.make("ClusterResourcePlacement", "clusterresourceplacements", namespace, spec).await;
    }

    /// Starts a run with the strategy `staged`.
    pub(crate) async fn run(&self, name: &str, placement: &str) {
        let spec = json!({"placementName": placement, "stagedRolloutStrategyName": "staged", "state": "Run"});
        self.make("ClusterStagedUpdateRun", "clusterstagedupdateruns", name, spec).await;
    }

    pub(crate) async fn make(&self, kind: &str, plural: &str, name: &str, spec: Value) {
        let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind,
            "metadata": {"name": name}, "spec": spec});
        self.send("POST", &format!("{PLACEMENT_API}/{plural}"), &object).await;
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &Value) {
        let format = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(path).header("content-type", format);
        self.hub.request::<Value>(request.body(body.to_string().into_bytes()).unwrap()).await.unwrap();
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.hub.request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
    }

    pub(crate) async fn until(&self, what: &str, reached: impl AsyncFn(&Self) -> bool) {
        let begun = tokio::time::Instant::now();
        while !reached(self).await {
            assert!(begun.elapsed() < TIMEOUT, "timed out waiting until {what}");
            tokio::time::sleep(self.look_every).await;
        }
    }

    /// Waits until the cluster-scoped placements together have this number of bindings.
    pub(crate) async fn until_bindings(&self, count: usize) {
        let path = format!("{PLACEMENT_API}/clusterresourcebindings");
        self.until("every cluster is chosen", async |fleet| {
            fleet.get(&path).await["items"].as_array().unwrap().len() == count
        })
        .await;
    }
}

pub(crate) fn maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// Whether an object has this condition with status True.
pub(crate) fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|one| one["type"] == condition && one["status"] == "True")
}
