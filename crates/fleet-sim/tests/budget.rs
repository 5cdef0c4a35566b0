//! What a staged run over a hundred clusters costs, and how long it takes, with members whose agents apply what they are given.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and this one tells what it measures"
)]

use std::time::Duration;

use fleet_api::kinds::{
    ClusterApprovalRequest, ClusterResourceBinding, ClusterResourcePlacement, ClusterResourceSnapshot,
    ClusterSchedulingPolicySnapshot, ClusterStagedUpdateRun, Work,
};
use fleet_runtime::{KindId, Metrics};
use fleet_sim::member::SimulatedMember;
use fleet_sim::network::Weather;
use fleet_sim::world::{AgentMetrics, Ground, World};
use serde_json::{Value, json};

const CLUSTERS: u64 = 100;
const STAGES: u64 = 4;
const AT_ONCE: u64 = 10;
/// Writes to the hub for one cluster and its share of everything else, in tenths: the binding is moved, the Work is made, the
/// agent says what it is about to apply and what came of it, the binding tells.
const MOST_FOR_A_FIRST_ROLLOUT: u64 = 60;
/// The same without what an agent writes ahead.
const MOST_FOR_AN_UPDATE: u64 = 45;
/// What the run writes of its own status, at most, however many clusters it has.
const MOST_STATUS_WRITES: u64 = 30;
/// Virtual time in which all clusters have everything, where each request takes as long as within one region. Whoever looks
/// every 15 seconds takes longer than that for the first cluster alone.
const MOST_SECONDS: u64 = 10;
const SHORTEST_WAY: Duration = Duration::from_millis(5);
const LONGEST_WAY: Duration = Duration::from_millis(15);
/// Virtual time after which what has not happened never will.
const PATIENCE: Duration = Duration::from_mins(10);

const PLACEMENT_API: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
const MEMBERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
const MAPS: &str = "/api/v1/namespaces/shop/configmaps";

struct Fleet {
    world: World,
    hub: kube::Client,
    metrics: AgentMetrics,
}

/// What one run came to.
#[derive(Debug)]
struct Cost {
    writes: u64,
    /// Of these, to the run itself.
    own: u64,
    took: Duration,
}

impl Fleet {
    async fn new() -> Self {
        let ground = Ground::lay().await.unwrap();
        let metrics = AgentMetrics::default();
        let mut world = World::new(&ground, 1, metrics.clone()).await.unwrap();
        world.start_hub().unwrap();
        let hub = world.user();
        let fleet = Self { world, hub, metrics };
        fleet.furnish().await
    }

    async fn furnish(mut self) -> Self {
        for number in 0..CLUSTERS {
            let stage = format!("s{}", number % STAGES);
            let member =
                SimulatedMember::new(&format!("c{number:03}")).unwrap().labelled(&[("stage", &stage)]).applying();
            self.send("POST", MEMBERS, &serde_json::to_value(member.member_cluster()).unwrap()).await;
            self.world.start_member(&member).await.unwrap();
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        self.send("POST", "/api/v1/namespaces", &namespace).await;
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"value": "1"}});
        self.send("POST", MAPS, &map).await;
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
            fleet.get(&format!("{PLACEMENT_API}/clusterresourcebindings")).await["items"].as_array().unwrap().len()
                == 100
        })
        .await;
        self.world.pass(Duration::from_mins(1)).await;
        self.world.network().set_weather(Weather { latency: SHORTEST_WAY..LONGEST_WAY, ..Weather::calm() });
        self
    }

    async fn make(&self, kind: &str, plural: &str, name: &str, spec: Value) {
        let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind,
            "metadata": {"name": name}, "spec": spec});
        self.send("POST", &format!("{PLACEMENT_API}/{plural}"), &object).await;
    }

    async fn send(&self, method: &str, path: &str, body: &Value) {
        let format = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(path).header("content-type", format);
        self.hub.request::<Value>(request.body(body.to_string().into_bytes()).unwrap()).await.unwrap();
    }

    async fn get(&self, path: &str) -> Value {
        self.hub.request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
    }

    async fn until(&self, what: &str, reached: impl AsyncFn(&Self) -> bool) {
        let begun = tokio::time::Instant::now();
        while !reached(self).await {
            assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Requests to the hub that changed something: the hub agent's, and what members say of Works.
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
            let run = fleet.get(&path).await;
            let conditions = run["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| one["type"] == "Succeeded" && one["status"] == "True")
        })
        .await;
        let took = begun.elapsed();
        // What is told later counts too.
        self.world.pass(Duration::from_mins(2)).await;
        Cost { writes: self.writes() - before, own: own() - own_before, took }
    }
}

/// All writes of a kind, those that came too late included.
fn of_kind(metrics: &Metrics, kind: &KindId) -> u64 {
    let verbs = ["create", "patch", "status", "delete"];
    verbs.iter().flat_map(|verb| ["ok", "conflict"].map(|outcome| metrics.writes_of(kind, verb, outcome))).sum()
}

#[tokio::test(start_paused = true)]
async fn a_run_over_a_hundred_clusters_keeps_to_its_budget_and_takes_seconds() {
    let fleet = Fleet::new().await;
    let check = |what: &str, cost: &Cost, most: u64| {
        println!("{what}: {cost:?}");
        assert!(cost.own <= MOST_STATUS_WRITES, "{what}: {cost:?}");
        assert!(cost.writes * 10 <= most * CLUSTERS, "{what}: {cost:?}");
        assert!(cost.took <= Duration::from_secs(MOST_SECONDS), "{what}: {cost:?}");
    };
    check("a first rollout", &fleet.run("first").await, MOST_FOR_A_FIRST_ROLLOUT);
    fleet.send("PATCH", &format!("{MAPS}/settings"), &json!({"data": {"value": "2"}})).await;
    fleet.world.pass(Duration::from_mins(1)).await;
    check("an update", &fleet.run("update").await, MOST_FOR_AN_UPDATE);
    let again = fleet.run("again").await;
    assert!(again.writes <= again.own + 10, "nothing is left to move: {again:?}");
    for member in ["c000", "c099"] {
        let path = format!("{MAPS}/settings");
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let live: Value = fleet.world.user_of(member).request(request).await.unwrap();
        assert_eq!(live["data"]["value"], "2", "{member} has really got it");
    }
    fleet.world.end().await;
}
