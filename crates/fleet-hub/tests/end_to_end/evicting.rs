//! Evictions: decided once, one after the other, on what is true at that moment.

use serde_json::{Value, json};

use crate::end_to_end::members::Fares;
use crate::end_to_end::world::{MEMBERS, PLACEMENT, World, conditions, shop, shop_on};

impl World {
    pub(crate) async fn evict(&self, name: &str, placement: &str, cluster: &str) {
        let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ClusterResourcePlacementEviction", "metadata": {"name": name},
            "spec": {"placementName": placement, "clusterName": cluster}});
        self.create(&format!("{PLACEMENT}/clusterresourceplacementevictions"), object).await;
    }

    /// `type=status message` of each of its conditions.
    pub(crate) async fn verdict(&self, name: &str) -> String {
        let eviction = self.get(&format!("{PLACEMENT}/clusterresourceplacementevictions/{name}")).await.unwrap();
        let conditions = eviction["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let word = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let told = |one: &Value| format!("{}={} {}", word(&one["type"]), word(&one["status"]), word(&one["message"]));
        conditions.iter().map(told).collect::<Vec<_>>().join("\n")
    }
}

/// A placement that waits for somebody to roll it out, so that nothing reaches a cluster.
fn not_rolled_out(mut spec: Value) -> Value {
    spec["strategy"] = json!({"type": "External"});
    spec
}

#[tokio::test(start_paused = true)]
async fn ev_1_3_5_6_scheduling_45_47_invalid_evictions_are_terminal_and_say_why() {
    let world = World::new(&["c1"]).await;
    world.place("waits", not_rolled_out(shop())).await;
    let mut fixed = not_rolled_out(shop());
    fixed["policy"] = json!({"placementType": "PickFixed", "clusterNames": ["c1"]});
    world.place("fixed", fixed).await;
    let running = world.start();
    running.settled().await;
    let long = "x".repeat(100);
    let cases = [
        ("missing", "nothing", "c1", "Valid=False Failed to find ClusterResourcePlacement targeted by eviction"),
        (
            "undiscovered",
            long.as_str(),
            "c1",
            "Valid=False Failed to find ClusterResourcePlacement targeted by eviction",
        ),
        (
            "elsewhere",
            "waits",
            "c9",
            "Valid=False Failed to find scheduler decision for placement in cluster targeted by eviction",
        ),
        (
            "fixed",
            "fixed",
            "c1",
            "Valid=False Found ClusterResourcePlacement with PickFixed placement type targeted by eviction",
        ),
        (
            "early",
            "waits",
            "c1",
            "Valid=True Eviction is valid\nExecuted=False Eviction is blocked, placement has not propagated resources \
             to target cluster yet",
        ),
    ];
    for (name, placement, cluster, _) in cases {
        world.evict(name, placement, cluster).await;
    }
    running.settled().await;
    for (name, _, _, expected) in cases {
        assert_eq!(world.verdict(name).await, expected, "{name}");
    }
    assert_eq!(world.bindings("waits").await, "c1=Scheduled");

    // Whatever comes later, a verdict stands; a new eviction gets a new one.
    world.place("nothing", not_rolled_out(shop_on(1))).await;
    running.settled().await;
    world.evict("again", "nothing", "c1").await;
    running.settled().await;
    assert_eq!(world.verdict("missing").await, cases[0].3);
    assert!(world.verdict("again").await.starts_with("Valid=True"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ev_2_a_placement_that_is_being_deleted_is_not_evicted() {
    let world = World::new(&["c1"]).await;
    world.place("web", not_rolled_out(shop())).await;
    let path = format!("{PLACEMENT}/clusterresourceplacements/web");
    world.patch(&path, json!({"metadata": {"finalizers": ["test.io/held"]}})).await;
    world.delete(&path).await;
    let running = world.start();
    world.evict("late", "web", "c1").await;
    running.settled().await;
    assert_eq!(world.verdict("late").await, "Valid=False Found deleting ClusterResourcePlacement targeted by eviction");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_reads_and_writes_nothing_for_completed_evictions() {
    let world = World::new(&[]).await;
    let running = world.start();
    for number in 0..5 {
        world.evict(&format!("e{number}"), "nothing", "c1").await;
    }
    running.settled().await;
    running.stop().await;
    let running = world.start();
    running.settled().await;
    assert_eq!((running.metrics.writes(), running.metrics.reads()), (0, 0));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn evictions_can_be_turned_off() {
    let world = World::new(&[]).await;
    let options = fleet_hub::HubOptions { evictions: false, ..fleet_hub::HubOptions::default() };
    let running = world.start_with(options);
    world.evict("ignored", "nothing", "c1").await;
    running.settled().await;
    assert_eq!(world.verdict("ignored").await, "");
    running.stop().await;
}

impl World {
    /// Lets a binding that is deleted stay until it is released.
    async fn hold(&self, binding: &Value) {
        let mut finalizers = binding["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.push(json!("test.io/held"));
        self.patch(&path_of(binding), json!({"metadata": {"finalizers": finalizers}})).await;
    }

    /// By then everybody else has let it go.
    async fn release(&self, binding: &Value) {
        let held = self.get(&path_of(binding)).await.unwrap();
        assert_eq!(held["metadata"]["finalizers"], json!(["test.io/held"]));
        self.patch(&path_of(binding), json!({"metadata": {"finalizers": []}})).await;
    }

    /// Sets the budget of a placement.
    pub(crate) async fn budget(&self, placement: &str, spec: Value) {
        let budgets = format!("{PLACEMENT}/clusterresourceplacementdisruptionbudgets");
        if self.get(&format!("{budgets}/{placement}")).await.is_some() {
            self.delete(&format!("{budgets}/{placement}")).await;
        }
        let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ClusterResourcePlacementDisruptionBudget", "metadata": {"name": placement}, "spec": spec});
        self.create(&budgets, object).await;
    }
}

fn path_of(binding: &Value) -> String {
    format!("{PLACEMENT}/clusterresourcebindings/{}", binding["metadata"]["name"].as_str().unwrap())
}

const EXECUTED: &str = "Valid=True Eviction is valid\nExecuted=True Eviction is allowed";
const BLOCKED: &str = "Valid=True Eviction is valid\nExecuted=False Eviction is blocked";

#[tokio::test(start_paused = true)]
async fn ev_9_scheduling_41_42_an_evicted_cluster_is_picked_again_unless_it_is_tainted() {
    let world = World::new(&["c1", "c2", "c3"]).await;
    world.config_map("settings", "1").await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    assert_eq!(world.bindings("web").await, "c1=Bound c2=Bound c3=Bound");
    let evicted = world.binding("web", "c1").await;
    let no_budget = format!("{EXECUTED}, no ClusterResourcePlacementDisruptionBudget specified");

    world.evict("first", "web", "c1").await;
    running.at_rest(&members).await;
    assert_eq!(world.verdict("first").await, no_budget);
    assert_eq!(world.bindings("web").await, "c1=Bound c2=Bound c3=Bound");
    assert_ne!(world.binding("web", "c1").await["metadata"]["uid"], evicted["metadata"]["uid"], "picked again");

    let taint = json!({"key": "maintenance", "value": "now", "effect": "NoSchedule"});
    world.patch(&format!("{MEMBERS}/c1"), json!({"spec": {"taints": [taint]}})).await;
    world.evict("second", "web", "c1").await;
    running.at_rest(&members).await;
    assert_eq!(world.verdict("second").await, no_budget);
    assert_eq!(world.bindings("web").await, "c2=Bound c3=Bound");
    assert_eq!(world.works().await, ["c2/web-work: shop settings", "c3/web-work: shop settings"]);
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ev_8_scheduling_43_46_a_blocked_eviction_stays_blocked_and_a_new_one_is_decided_again() {
    let world = World::new(&["c1", "c2", "c3"]).await;
    world.place("web", shop()).await;
    world.budget("web", json!({"minAvailable": 3})).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    world.evict("blocked", "web", "c1").await;
    running.at_rest(&members).await;
    let blocked = format!(
        "{BLOCKED} by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 3, totalPlacements: 3"
    );
    assert_eq!(world.verdict("blocked").await, blocked);
    let before = world.binding("web", "c1").await;

    world.budget("web", json!({"minAvailable": 2})).await;
    running.at_rest(&members).await;
    assert_eq!(world.verdict("blocked").await, blocked, "a verdict stands");
    assert_eq!(world.binding("web", "c1").await, before);
    world.evict("allowed", "web", "c1").await;
    running.at_rest(&members).await;
    assert_eq!(
        world.verdict("allowed").await,
        format!(
            "{EXECUTED} by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 3, totalPlacements: 3"
        )
    );
    world.budget("web", json!({"maxUnavailable": 1})).await;
    world.evict("misconfigured", "web", "c2").await;
    running.at_rest(&members).await;
    assert!(world.verdict("misconfigured").await.starts_with(&format!("{BLOCKED} by misconfigured")), "EV-7");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scheduling_44_budgets_of_pick_n_placements_may_be_percentages() {
    let world = World::new(&["c1", "c2", "c3"]).await;
    world.place("web", shop_on(3)).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let cases = [
        (json!({"maxUnavailable": 0}), BLOCKED),
        (json!({"maxUnavailable": "0%"}), BLOCKED),
        (json!({"maxUnavailable": 1}), EXECUTED),
        (json!({"maxUnavailable": "33%"}), EXECUTED),
        (json!({"minAvailable": 3}), BLOCKED),
        (json!({"minAvailable": "100%"}), BLOCKED),
        (json!({"minAvailable": 2}), EXECUTED),
        (json!({"minAvailable": "66%"}), EXECUTED),
    ];
    for (number, (budget, expected)) in cases.into_iter().enumerate() {
        world.budget("web", budget.clone()).await;
        world.evict(&format!("e{number}"), "web", "c2").await;
        running.at_rest(&members).await;
        let verdict = world.verdict(&format!("e{number}")).await;
        assert!(verdict.starts_with(expected), "{budget}: {verdict}");
        assert_eq!(world.bindings("web").await, "c1=Bound c2=Bound c3=Bound", "picked again: no other is there");
    }
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_concurrent_evictions_do_not_exceed_one_budget() {
    let world = World::new(&["c1", "c2", "c3", "c4"]).await;
    world.place("web", shop()).await;
    world.place("other", shop()).await;
    world.budget("web", json!({"minAvailable": 3})).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    running.stop().await;
    // All are there when the hub starts again, so it could take them up at once.
    for cluster in ["c1", "c2", "c3", "c4"] {
        world.evict(&format!("web-{cluster}"), "web", cluster).await;
        world.evict(&format!("other-{cluster}"), "other", cluster).await;
    }
    members.say(|_| Fares::Silent);
    let running = world.start();
    running.at_rest(&members).await;
    let mut executed = Vec::new();
    for cluster in ["c1", "c2", "c3", "c4"] {
        let verdict = world.verdict(&format!("web-{cluster}")).await;
        if verdict.starts_with(EXECUTED) {
            executed.push(cluster);
        } else {
            assert!(verdict.starts_with(BLOCKED) && verdict.contains("availablePlacements: 3,"), "{verdict}");
        }
        assert!(world.verdict(&format!("other-{cluster}")).await.starts_with(EXECUTED), "nobody's budget");
    }
    assert_eq!(executed, ["c1"], "the oldest, and of those made together the first by name");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ev_9_failed_clusters_use_no_budget() {
    let world = World::new(&["c1", "c2"]).await;
    world.config_map("settings", "1").await;
    world.place("web", shop()).await;
    world.budget("web", json!({"minAvailable": 2})).await;
    let (running, members) = (world.start(), world.members());
    members.only("c1", Fares::NotApplied);
    running.at_rest(&members).await;
    world.evict("failed", "web", "c1").await;
    running.at_rest(&members).await;
    assert_eq!(world.verdict("failed").await, format!("{EXECUTED}, placement has failed"));
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_crashed_during_an_eviction_completes_it() {
    let world = World::new(&["c1", "c2"]).await;
    world.place("web", shop()).await;
    world.budget("web", json!({"minAvailable": 1})).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    running.stop().await;
    members.stop().await;
    // For the first the hub had recorded the binding and deleted it, for the second only recorded it. They are reconciled
    // in this order: created at the same time, sorted by name.
    for (name, cluster) in [("deleted", "c1"), ("only-begun", "c2")] {
        world.evict(name, "web", cluster).await;
        let uid = world.binding("web", cluster).await["metadata"]["uid"].clone();
        let begun = json!({"metadata": {"annotations": {"kubernetes-fleet.io/evicted-binding-uid": uid}}});
        world.patch(&format!("{PLACEMENT}/clusterresourceplacementevictions/{name}"), begun).await;
    }
    let binding = world.binding("web", "c1").await;
    let name = binding["metadata"]["name"].as_str().unwrap();
    world.delete(&format!("{PLACEMENT}/clusterresourcebindings/{name}")).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    assert_eq!(
        world.verdict("deleted").await,
        format!(
            "{EXECUTED}, resources propagated by placement is currently being removed from cluster targeted by eviction"
        )
    );
    assert!(world.verdict("only-begun").await.starts_with("Valid=True Eviction is valid\nExecuted="));
    assert_eq!(world.bindings("web").await, "c1=Bound c2=Bound", "whoever was evicted is picked again");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ev_4_a_cluster_with_two_bindings_is_not_evicted() {
    let world = World::new(&["c1"]).await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let first = world.binding("web", "c1").await;
    world.hold(&first).await;
    world.evict("first", "web", "c1").await;
    running.at_rest(&members).await;
    assert!(world.verdict("first").await.starts_with(EXECUTED));
    assert_eq!(world.bindings("web").await, "c1=Scheduled", "the next one waits until the last one is gone");

    world.evict("too-early", "web", "c1").await;
    running.at_rest(&members).await;
    assert_eq!(
        world.verdict("too-early").await,
        "Valid=False Found more than one scheduler decision for placement in cluster targeted by eviction"
    );
    assert_eq!(world.bindings("web").await, "c1=Scheduled");

    world.release(&first).await;
    running.at_rest(&members).await;
    assert_eq!(world.bindings("web").await, "c1=Bound");
    world.evict("in-time", "web", "c1").await;
    running.at_rest(&members).await;
    assert!(world.verdict("in-time").await.starts_with(EXECUTED));
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_47_without_surge_another_cluster_starts_only_when_the_evicted_one_is_gone() {
    let world = World::new(&["c1", "c2", "c3"]).await;
    let mut spec = shop_on(2);
    spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    world.place("web", spec).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    assert_eq!(world.bindings("web").await, "c2=Bound c3=Bound");
    let evicted = world.binding("web", "c3").await;
    world.hold(&evicted).await;
    let taint = json!({"key": "maintenance", "value": "now", "effect": "NoSchedule"});
    world.patch(&format!("{MEMBERS}/c3"), json!({"spec": {"taints": [taint]}})).await;
    world.evict("away", "web", "c3").await;
    running.at_rest(&members).await;
    assert_eq!(world.bindings("web").await, "c1=Scheduled c2=Bound");
    let waiting = world.binding("web", "c1").await;
    assert_eq!(conditions(&waiting["status"]["conditions"]), ["RolloutStarted=False RolloutNotStartedYet"]);

    world.release(&evicted).await;
    running.at_rest(&members).await;
    assert_eq!(world.bindings("web").await, "c1=Bound c2=Bound");
    assert_eq!(world.works().await, ["c1/web-work: shop", "c2/web-work: shop"]);
    running.stop().await;
    members.stop().await;
}
