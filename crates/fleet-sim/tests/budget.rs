//! Writes and duration of a staged run over a hundred clusters, with members whose agents apply Works.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and this one prints what it measures"
)]

use std::time::Duration;

use fleet_api::kinds::{
    ClusterApprovalRequest, ClusterResourceBinding, ClusterResourcePlacement, ClusterResourceSnapshot,
    ClusterSchedulingPolicySnapshot, ClusterStagedUpdateRun, Work,
};
use fleet_runtime::{KindId, Metrics};
use fleet_sim::member::SimulatedMember;
use fleet_sim::network::FaultRates;
use fleet_sim::simulation::{AgentMetrics, Simulation, SimulationTemplate};
use fleet_testkit::{JsonClient, MEMBERS, PLACEMENT_API};
use serde_json::{Value, json};

const CLUSTERS: u64 = 100;
const STAGES: u64 = 4;
const AT_ONCE: u64 = 10;
/// Most writes to the hub per cluster, in tenths: the binding is moved, the Work is created, the agent reports what it
/// is about to apply and the result, and the binding's status is written.
const MOST_FOR_A_FIRST_ROLLOUT: u64 = 60;
/// The same without the write-ahead report of the agent.
const MOST_FOR_AN_UPDATE: u64 = 45;
/// Most status writes of the run itself, for any number of clusters.
const MOST_STATUS_WRITES: u64 = 30;
/// Longest virtual time until all clusters are updated, with the latency of one region. A controller that polls every
/// 15 seconds would take longer for the first cluster alone.
const MOST_SECONDS: u64 = 10;
const SHORTEST_LATENCY: Duration = Duration::from_millis(5);
const LONGEST_LATENCY: Duration = Duration::from_millis(15);
/// Timeout of waits, in virtual time.
const TIMEOUT: Duration = Duration::from_mins(10);

const MAPS: &str = "/api/v1/namespaces/shop/configmaps";

struct Fleet {
    simulation: Simulation,
    hub: JsonClient,
    metrics: AgentMetrics,
}

/// The cost of one run.
#[derive(Debug)]
struct Cost {
    writes: u64,
    /// Writes to the run itself.
    own: u64,
    took: Duration,
}

impl Fleet {
    async fn new() -> Self {
        let template = SimulationTemplate::build().await.unwrap();
        let metrics = AgentMetrics::default();
        let mut simulation = Simulation::new(&template, 1, metrics.clone()).await.unwrap();
        simulation.start_hub().unwrap();
        let hub = JsonClient(simulation.user());
        let fleet = Self { simulation, hub, metrics };
        fleet.set_up().await
    }

    async fn set_up(mut self) -> Self {
        for number in 0..CLUSTERS {
            let stage = format!("s{}", number % STAGES);
            let member =
                SimulatedMember::new(&format!("c{number:03}")).unwrap().labelled(&[("stage", &stage)]).applying();
            self.hub.create(MEMBERS, serde_json::to_value(member.member_cluster()).unwrap()).await;
            self.simulation.start_member(&member).await.unwrap();
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        self.hub.create("/api/v1/namespaces", namespace).await;
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"value": "1"}});
        self.hub.create(MAPS, map).await;
        let stage = |number: u64| {
            let name = format!("s{number}");
            json!({"name": name, "labelSelector": {"matchLabels": {"stage": name}}, "maxConcurrency": AT_ONCE})
        };
        let stages: Vec<Value> = (0..STAGES).map(stage).collect();
        self.make("ClusterStagedUpdateStrategy", "clusterstagedupdatestrategies", "staged", json!({"stages": stages}))
            .await;
        let selector = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "shop"});
        let spec = json!({"resourceSelectors": [selector], "strategy": {"type": "External"}});
        self.make("ClusterResourcePlacement", "clusterresourceplacements", "shop", spec).await;
        self.until("every cluster is chosen", async |fleet| {
            fleet.hub.list(&format!("{PLACEMENT_API}/clusterresourcebindings")).await.len() == 100
        })
        .await;
        self.simulation.advance(Duration::from_mins(1)).await;
        self.simulation
            .network()
            .set_fault_rates(FaultRates { latency: SHORTEST_LATENCY..LONGEST_LATENCY, ..FaultRates::none() });
        self
    }

    async fn make(&self, kind: &str, plural: &str, name: &str, spec: Value) {
        let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind,
            "metadata": {"name": name}, "spec": spec});
        self.hub.create(&format!("{PLACEMENT_API}/{plural}"), object).await;
    }

    async fn until(&self, what: &str, reached: impl AsyncFn(&Self) -> bool) {
        let begun = tokio::time::Instant::now();
        while !reached(self).await {
            assert!(begun.elapsed() < TIMEOUT, "timed out waiting until {what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Writes to the hub: those of the hub agent, and the statuses of Works.
    fn writes(&self) -> u64 {
        let kinds = [
            KindId::of::<ClusterResourceBinding>(),
            KindId::of::<ClusterResourcePlacement>(),
            KindId::of::<ClusterResourceSnapshot>(),
            KindId::of::<ClusterSchedulingPolicySnapshot>(),
            KindId::of::<ClusterApprovalRequest>(),
            KindId::of::<ClusterStagedUpdateRun>(),
            KindId::of::<Work>(),
        ];
        let hub: u64 = kinds.iter().map(|kind| of_kind(&self.metrics.hub, kind)).sum();
        hub + of_kind(&self.metrics.members, &KindId::of::<Work>())
    }

    async fn run(&self, name: &str) -> Cost {
        let own = || of_kind(&self.metrics.hub, &KindId::of::<ClusterStagedUpdateRun>());
        let (before, own_before, begun) = (self.writes(), own(), tokio::time::Instant::now());
        let spec = json!({"placementName": "shop", "stagedRolloutStrategyName": "staged", "state": "Run"});
        self.make("ClusterStagedUpdateRun", "clusterstagedupdateruns", name, spec).await;
        let path = format!("{PLACEMENT_API}/clusterstagedupdateruns/{name}");
        self.until("the run has succeeded", async |fleet| {
            let run = fleet.hub.get(&path).await.unwrap();
            let conditions = run["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| one["type"] == "Succeeded" && one["status"] == "True")
        })
        .await;
        let took = begun.elapsed();
        // Later status writes count as well.
        self.simulation.advance(Duration::from_mins(2)).await;
        Cost { writes: self.writes() - before, own: own() - own_before, took }
    }
}

/// All writes of a kind, including conflicts.
fn of_kind(metrics: &Metrics, kind: &KindId) -> u64 {
    let verbs = ["create", "patch", "status", "delete"];
    verbs.iter().flat_map(|verb| ["ok", "conflict"].map(|outcome| metrics.writes_of(kind, verb, outcome))).sum()
}

#[tokio::test(start_paused = true)]
async fn a_run_over_a_hundred_clusters_stays_within_its_budget_and_takes_seconds() {
    let fleet = Fleet::new().await;
    let check = |what: &str, cost: &Cost, most: u64| {
        println!("{what}: {cost:?}");
        assert!(cost.own <= MOST_STATUS_WRITES, "{what}: {cost:?}");
        assert!(cost.writes * 10 <= most * CLUSTERS, "{what}: {cost:?}");
        assert!(cost.took <= Duration::from_secs(MOST_SECONDS), "{what}: {cost:?}");
    };
    check("a first rollout", &fleet.run("first").await, MOST_FOR_A_FIRST_ROLLOUT);
    fleet.hub.patch(&format!("{MAPS}/settings"), json!({"data": {"value": "2"}})).await;
    fleet.simulation.advance(Duration::from_mins(1)).await;
    check("an update", &fleet.run("update").await, MOST_FOR_AN_UPDATE);
    let again = fleet.run("again").await;
    assert!(again.writes <= again.own + 10, "nothing is left to move: {again:?}");
    for member in ["c000", "c099"] {
        let path = format!("{MAPS}/settings");
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let live: Value = fleet.simulation.user_of(member).request(request).await.unwrap();
        assert_eq!(live["data"]["value"], "2", "{member} has really got it");
    }
    fleet.simulation.shut_down().await;
}
