//! Writes and duration of a staged run over a hundred clusters, with members whose agents apply Works.

use std::time::Duration;

use fleet_api::kinds::{
    ClusterApprovalRequest, ClusterResourceBinding, ClusterResourcePlacement, ClusterResourceSnapshot,
    ClusterSchedulingPolicySnapshot, ClusterStagedUpdateRun, Work,
};
use fleet_runtime::{KindId, Metrics};
use fleet_sim::member::SimulatedMember;
use fleet_sim::network::FaultRates;
use serde_json::{Value, json};

use crate::fleet::{Fleet, PLACEMENT_API, is_true, maps};

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

/// The cost of one run.
#[derive(Debug)]
struct Cost {
    writes: u64,
    /// Writes to the run itself.
    own: u64,
    took: Duration,
}

impl Fleet {
    async fn set_up() -> Self {
        let mut fleet = Self::new().await;
        for number in 0..CLUSTERS {
            let stage = format!("s{}", number % STAGES);
            let member =
                SimulatedMember::new(&format!("c{number:03}")).unwrap().labelled(&[("stage", &stage)]).applying();
            fleet.join(&member).await;
        }
        fleet.create_content("shop").await;
        let stage = |number: u64| {
            let name = format!("s{number}");
            json!({"name": name, "labelSelector": {"matchLabels": {"stage": name}}, "maxConcurrency": AT_ONCE})
        };
        let stages: Vec<Value> = (0..STAGES).map(stage).collect();
        let strategy = json!({"stages": stages});
        fleet.make("ClusterStagedUpdateStrategy", "clusterstagedupdatestrategies", "staged", strategy).await;
        fleet.place("shop", "External").await;
        fleet.until_bindings(100).await;
        fleet.simulation.advance(Duration::from_mins(1)).await;
        fleet
            .simulation
            .network()
            .set_fault_rates(FaultRates { latency: SHORTEST_LATENCY..LONGEST_LATENCY, ..FaultRates::none() });
        fleet
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

    async fn cost_of_run(&self, name: &str) -> Cost {
        let own = || of_kind(&self.metrics.hub, &KindId::of::<ClusterStagedUpdateRun>());
        let (before, own_before, begun) = (self.writes(), own(), tokio::time::Instant::now());
        self.run(name, "shop").await;
        let path = format!("{PLACEMENT_API}/clusterstagedupdateruns/{name}");
        self.until("the run has succeeded", async |fleet| is_true(&fleet.get(&path).await, "Succeeded")).await;
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
    let fleet = Fleet::set_up().await;
    let check = |what: &str, cost: &Cost, most: u64| {
        println!("{what}: {cost:?}");
        assert!(cost.own <= MOST_STATUS_WRITES, "{what}: {cost:?}");
        assert!(cost.writes * 10 <= most * CLUSTERS, "{what}: {cost:?}");
        assert!(cost.took <= Duration::from_secs(MOST_SECONDS), "{what}: {cost:?}");
    };
    check("a first rollout", &fleet.cost_of_run("first").await, MOST_FOR_A_FIRST_ROLLOUT);
    fleet.send("PATCH", &format!("{}/settings", maps("shop")), &json!({"data": {"value": "2"}})).await;
    fleet.simulation.advance(Duration::from_mins(1)).await;
    check("an update", &fleet.cost_of_run("update").await, MOST_FOR_AN_UPDATE);
    let again = fleet.cost_of_run("again").await;
    assert!(again.writes <= again.own + 10, "nothing is left to move: {again:?}");
    for member in ["c000", "c099"] {
        let path = format!("{}/settings", maps("shop"));
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let live: Value = fleet.simulation.user_of(member).request(request).await.unwrap();
        assert_eq!(live["data"]["value"], "2", "{member} has really got it");
    }
    fleet.simulation.shut_down().await;
}
