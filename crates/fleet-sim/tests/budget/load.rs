//! Many runs or placements at the same time, on an API server that takes time for writes. Slower answers must not cause more
//! writes. Only counts are asserted.

use std::time::Duration;

use fleet_sim::member::SimulatedMember;
use fleet_sim::network::{FaultRates, HUB_SERVER};
use serde_json::{Value, json};

use crate::fleet::{Fleet, MEMBERS, PLACEMENT_API, is_true};
use crate::requests::{Counter, Requests};

/// Name and percentage of clusters of each stage.
const STAGES: [(&str, usize); 3] = [("first", 20), ("second", 30), ("third", 50)];
/// Most status writes of bindings per hundred clusters: one each, and a few whose member takes long.
const MOST_BINDING_STATUSES: u64 = 105;
/// Four objects, MemberCluster and ClusterProfile with their statuses, the agent's status, and three Events.
const MOST_WRITES_PER_JOIN: u64 = 13;
/// A look at many large objects takes a while.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Writes that follow the end of a rollout count as well.
const AFTERMATH: Duration = Duration::from_mins(2);
/// Watch events that are late, in thousandths, and by how much. They delay all later events of their watch.
const LATE_EVENTS: u32 = 5;
const SHORTEST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(3);
const SHORTER_THAN_A_HEARTBEAT: Duration = Duration::from_secs(20);

/// How much happens at the same time.
#[derive(Debug, Clone, Copy)]
struct Load {
    clusters: usize,
    /// Placements, and runs if there are any.
    placements: usize,
}

impl Load {
    /// As in the measurements on real API servers.
    const FULL: Self = Self { clusters: 100, placements: 20 };
    /// For the default tests.
    const SMALL: Self = Self { clusters: 20, placements: 20 };

    fn moved_clusters(self) -> u64 {
        u64::try_from(self.clusters * self.placements).unwrap()
    }

    /// Light members, and one namespace per placement.
    async fn fleet(self) -> Fleet {
        let mut fleet = Fleet::new().await;
        fleet.look_every = LOOK_EVERY;
        self.join(&mut fleet).await;
        for name in self.names() {
            fleet.create_content(&name).await;
        }
        fleet
    }

    async fn join(self, fleet: &mut Fleet) {
        for number in 0..self.clusters {
            let stage = self.stage_of(number);
            let member = SimulatedMember::new(&format!("c{number:03}")).unwrap().labelled(&[("stage", stage)]);
            fleet.join(&member).await;
        }
    }

    fn stage_of(self, number: usize) -> &'static str {
        let mut end = 0;
        let stage = STAGES.iter().find(|(_, percentage)| {
            end += percentage * self.clusters / 100;
            number < end
        });
        stage.map_or("third", |(name, _)| name)
    }

    /// From now on, the hub's server is that of a small machine: it takes time for writes and sends some events late.
    fn slow_down(fleet: &Fleet) {
        fleet.simulation.network().make_writes_slow(HUB_SERVER);
        fleet.simulation.network().set_fault_rates(FaultRates {
            late: LATE_EVENTS,
            lateness: SHORTEST_DELAY..LONGEST_DELAY,
            ..FaultRates::none()
        });
    }

    fn names(self) -> Vec<String> {
        (0..self.placements).map(|number| format!("shop-{number:02}")).collect()
    }
}

/// The requests of concurrent runs that roll out for the first time.
async fn runs(load: Load) -> Requests {
    let fleet = load.fleet().await;
    let stage = |(name, _): (&str, usize)| json!({"name": name, "labelSelector": {"matchLabels": {"stage": name}}, "maxConcurrency": "50%"});
    let stages: Vec<Value> = STAGES.into_iter().map(stage).collect();
    let strategy = json!({"stages": stages});
    fleet.make("ClusterStagedUpdateStrategy", "clusterstagedupdatestrategies", "staged", strategy).await;
    for name in load.names() {
        fleet.place(&name, "External").await;
    }
    fleet.until_bindings(load.clusters * load.placements).await;
    fleet.simulation.advance(AFTERMATH).await;
    Load::slow_down(&fleet);
    let counter = Counter::start(&fleet.simulation);
    for name in load.names() {
        fleet.run(&name, &name).await;
    }
    ended(fleet, counter, "clusterstagedupdateruns", "Succeeded", load).await
}

/// The requests of concurrent placements that roll out for the first time.
async fn placements(load: Load) -> Requests {
    let fleet = load.fleet().await;
    fleet.simulation.advance(AFTERMATH).await;
    Load::slow_down(&fleet);
    let counter = Counter::start(&fleet.simulation);
    for name in load.names() {
        fleet.place(&name, "RollingUpdate").await;
    }
    ended(fleet, counter, "clusterresourceplacements", "ClusterResourcePlacementAvailable", load).await
}

/// The requests of members that join at the same time, without later heartbeats.
async fn joins(load: Load) -> Requests {
    let mut fleet = Fleet::new().await;
    let counter = Counter::start(&fleet.simulation);
    load.join(&mut fleet).await;
    fleet
        .until("all have joined", async |fleet| {
            fleet.get(MEMBERS).await["items"].as_array().unwrap().iter().all(|one| is_true(one, "Joined"))
        })
        .await;
    fleet.simulation.advance(SHORTER_THAN_A_HEARTBEAT).await;
    let requests = counter.stop(&fleet.simulation);
    println!("joins, {load:?}\n{requests}");
    fleet.simulation.shut_down().await;
    requests
}

/// Waits until all objects of a kind have a condition, and prints what that took.
async fn ended(fleet: Fleet, counter: Counter, plural: &str, condition: &str, load: Load) -> Requests {
    let begun = tokio::time::Instant::now();
    let path = format!("{PLACEMENT_API}/{plural}");
    fleet
        .until("all have ended", async |fleet| {
            let list = fleet.get(&path).await;
            list["items"].as_array().unwrap().iter().all(|one| is_true(one, condition))
        })
        .await;
    let took = begun.elapsed();
    fleet.simulation.advance(AFTERMATH).await;
    let requests = counter.stop(&fleet.simulation);
    println!("{plural}, {load:?}, {took:?} of virtual time");
    println!("{requests}");
    fleet.simulation.shut_down().await;
    requests
}

/// Checks the requests of rollouts whose writes of all kinds are at most this many.
fn check(requests: &Requests, load: Load, most_writes: u64) {
    let (moved, placements) = (load.moved_clusters(), u64::try_from(load.placements).unwrap());
    assert!(requests.writes() <= most_writes, "{} writes", requests.writes());
    let statuses = requests.of_hub("status", "clusterresourcebindings");
    assert!(statuses * 100 <= moved * MOST_BINDING_STATUSES, "{statuses} binding statuses for {moved} clusters");
    let reads = requests.of_hub("get", "clusterresourcesnapshots");
    assert!(reads <= placements, "{reads} reads for {placements} versions");
    assert_eq!(requests.of_hub("get", "memberclusters"), 0);
}

#[tokio::test(start_paused = true)]
async fn concurrent_runs_on_a_slow_server_stay_within_their_budget() {
    check(&runs(Load::SMALL).await, Load::SMALL, 2_300);
}

#[tokio::test(start_paused = true)]
async fn concurrent_placements_on_a_slow_server_stay_within_their_budget() {
    check(&placements(Load::SMALL).await, Load::SMALL, 2_350);
}

#[tokio::test(start_paused = true)]
async fn joining_members_cause_few_writes() {
    let requests = joins(Load::SMALL).await;
    let members = u64::try_from(Load::SMALL.clusters).unwrap();
    assert!(requests.all_writes() <= members * MOST_WRITES_PER_JOIN, "{} writes", requests.all_writes());
}

#[tokio::test(start_paused = true)]
#[ignore = "takes minutes"]
async fn twenty_runs_over_a_hundred_clusters_stay_within_their_budget() {
    check(&runs(Load::FULL).await, Load::FULL, 8_800);
}

#[tokio::test(start_paused = true)]
#[ignore = "takes minutes"]
async fn twenty_placements_on_a_hundred_clusters_stay_within_their_budget() {
    check(&placements(Load::FULL).await, Load::FULL, 10_400);
}
