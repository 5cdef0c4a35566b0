//! Evictions that are refused or blocked (EV-1 to EV-9).

use fleet_core::diagnose::Fix;
use serde_json::{Value, json};

use super::fleet::{Fleet, Kind, PLACEMENT_API, Scope, condition, rolling};

#[tokio::test(start_paused = true)]
async fn failed_evictions_are_explained_and_fixed() {
    let mut fleet = Fleet::new(Scope::Cluster).await;
    fleet.scenario("ev").await;
    fleet.place(json!({"strategy": rolling()})).await;
    until_bound(&fleet).await;
    let placement = fleet.placement_name();

    evict(&fleet, "ev1", &placement.replace("placement", "plcaement"), "member1").await;
    fixes(&fleet, "ev1", "EV-1").await;
    evict(&fleet, "ev3", &placement, "mmeber1").await;
    fixes(&fleet, "ev3", "EV-3").await;

    budget(&fleet, json!({"maxUnavailable": 1})).await;
    evict(&fleet, "ev7", &placement, "member1").await;
    fixes(&fleet, "ev7", "EV-7").await;
    fleet.delete(&format!("{PLACEMENT_API}/clusterresourceplacementdisruptionbudgets/{placement}")).await;
    budget(&fleet, json!({"minAvailable": 2})).await;
    evict(&fleet, "ev8", &placement, "member1").await;
    fixes(&fleet, "ev8", "EV-8").await;

    fleet.scenario("ev5").await;
    fleet.place(json!({"strategy": {"type": "RollingUpdate"}, "policy": {"placementType": "PickFixed", "clusterNames": ["member1", "member2"]}})).await;
    until_bound(&fleet).await;
    evict(&fleet, "ev5", &fleet.placement_name(), "member1").await;
    let cause = fleet.finds("ev5", "EV-5").await;
    fleet.paste_fix(&cause.fixes[0], &[]).await;
    fleet.until("it is off the cluster", async |fleet| clusters(fleet).await == ["member2"]).await;

    ev_2_the_placement_is_being_deleted(&mut fleet).await;
    ev_4_the_cluster_is_being_rescheduled(&mut fleet).await;

    fleet.scenario("ev6").await;
    fleet.place(json!({})).await;
    fleet.both_stages().await;
    fleet.pass(5).await;
    evict(&fleet, "ev6", &fleet.placement_name(), "member2").await;
    let mut cause = fleet.finds("ev6", "EV-6").await;
    // A user who follows the fix lets the run finish before evicting again.
    let mut first = cause.fixes.remove(0);
    let again = first.steps.split_off(first.steps.len() - 1);
    fleet.paste_fix(&first, &[]).await;
    fleet.until_rolled_out().await;
    fleet.paste_fix(&Fix { what: String::new(), steps: again }, &[]).await;
    fleet.finds("ev6-2", "EV-9").await;
    fleet.world.shut_down().await;
}

async fn ev_2_the_placement_is_being_deleted(fleet: &mut Fleet) {
    fleet.scenario("ev2").await;
    fleet.place(json!({"strategy": rolling()})).await;
    until_bound(fleet).await;
    let placement = fleet.object(Kind::Placement, &fleet.placement_name()).await;
    let mut held = placement["metadata"]["finalizers"].as_array().unwrap().clone();
    held.push(json!("example.com/hold"));
    fleet.patch(&fleet.placement_path(), json!({"metadata": {"finalizers": held}})).await;
    fleet.delete(&fleet.placement_path()).await;
    evict(fleet, "ev2", &fleet.placement_name(), "member1").await;
    let cause = fleet.finds("ev2", "EV-2").await;
    assert!(cause.fixes.is_empty(), "it goes anyway: {cause:?}");
    fleet.pass(30).await;
    fleet.patch(&fleet.placement_path(), json!({"metadata": {"finalizers": null}})).await;
    fleet.pass(5).await;
    fleet.place(json!({"strategy": rolling()})).await;
    until_bound(fleet).await;
    fixes(fleet, "ev2", "EV-2").await;
}

async fn ev_4_the_cluster_is_being_rescheduled(fleet: &mut Fleet) {
    fleet.scenario("ev4").await;
    fleet.place(json!({"strategy": rolling()})).await;
    until_bound(fleet).await;
    // The old binding is being deleted and has a finalizer.
    fleet.world.stop("hub");
    let bindings = fleet.list(Kind::Binding).await;
    let of_placement = |one: &&Value| {
        one["spec"]["targetCluster"] == "member1"
            && one["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] == fleet.placement_name()
    };
    let mut before = bindings.iter().find(of_placement).unwrap().clone();
    let labels = before["metadata"]["labels"].take();
    before["metadata"] = json!({"name": "before-ev4", "labels": labels, "finalizers": ["example.com/hold"]});
    fleet.create(&fleet.collection(Kind::Binding), before).await;
    let path = format!("{}/before-ev4", fleet.collection(Kind::Binding));
    fleet.delete(&path).await;
    fleet.world.start_hub().unwrap();
    evict(fleet, "ev4", &fleet.placement_name(), "member1").await;
    fleet.finds("ev4", "EV-4").await;
    fleet.patch(&path, json!({"metadata": {"finalizers": null}})).await;
    fleet.pass(5).await;
    until_bound(fleet).await;
    fixes(fleet, "ev4", "EV-4").await;
}

async fn evict(fleet: &Fleet, name: &str, placement: &str, cluster: &str) {
    let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacementEviction",
        "metadata": {"name": name}, "spec": {"placementName": placement, "clusterName": cluster}});
    fleet.create(&format!("{PLACEMENT_API}/clusterresourceplacementevictions"), object).await;
    fleet.pass(5).await;
}

async fn budget(fleet: &Fleet, spec: Value) {
    let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacementDisruptionBudget",
        "metadata": {"name": fleet.placement_name()}, "spec": spec});
    fleet.create(&format!("{PLACEMENT_API}/clusterresourceplacementdisruptionbudgets"), object).await;
    fleet.pass(2).await;
}

/// Checks the cause; the eviction of the fix is executed (EV-9).
async fn fixes(fleet: &Fleet, name: &str, entry: &str) {
    let cause = fleet.finds(name, entry).await;
    fleet.paste_fix(&cause.fixes[0], &[]).await;
    let again = format!("{name}-2");
    let path = format!("{PLACEMENT_API}/clusterresourceplacementevictions/{again}");
    fleet
        .until("it is decided", async |fleet| {
            fleet.get(&path).await.is_some_and(|one| condition(&one, "Executed").is_some())
        })
        .await;
    fleet.finds(&again, "EV-9").await;
    until_bound(fleet).await;
}

async fn clusters(fleet: &Fleet) -> Vec<String> {
    let bindings = fleet.list(Kind::Binding).await;
    let own = bindings
        .iter()
        .filter(|one| one["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] == fleet.placement_name());
    let mut clusters: Vec<String> = own
        .filter(|one| {
            one["spec"]["state"] == "Bound"
                && condition(one, "Available").is_some_and(|available| available["status"] == "True")
        })
        .filter_map(|one| one["spec"]["targetCluster"].as_str().map(str::to_owned))
        .collect();
    clusters.sort();
    clusters
}

/// Waits until the placement is on both clusters: an evicted cluster is selected again.
async fn until_bound(fleet: &Fleet) {
    fleet.until("it is on both clusters", async |fleet| clusters(fleet).await == ["member1", "member2"]).await;
}
