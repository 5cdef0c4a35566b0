//! Placements that are not scheduled, or whose rollout does not start (PL-S1 to PL-S4, PL-R1, PL-R2, PL-Q1, PL-Q2, PL-N2).

use serde_json::json;

use super::fleet::{Fleet, Kind, Scope, condition, rolling, scenarios};

macro_rules! all {
    ($scope:expr $(, $more:ident)*) => {
        scenarios!(
            $scope;
            pl_s1_not_enough_clusters,
            pl_s2_a_named_cluster_is_unknown,
            pl_s3_what_is_selected_cannot_be_placed,
            pl_s4_the_scheduler_is_not_running,
            pl_s4_two_policies_are_the_latest,
            pl_r1_the_rolling_update_is_blocked,
            pl_r2_clusters_are_reselected,
            pl_q1_why_a_cluster_was_not_chosen,
            pl_q2_the_latest_change_is_missing,
            $($more),*
        )
    };
}

#[tokio::test(start_paused = true)]
async fn scheduling_problems_are_found_and_fixed() {
    all!(Scope::Cluster);
}

#[tokio::test(start_paused = true)]
async fn scheduling_problems_are_found_and_fixed_in_a_namespace() {
    all!(Scope::Namespaced, pl_n2_a_cluster_scoped_resource_is_selected);
}

fn prod() -> serde_json::Value {
    let prod = json!({"labelSelector": {"matchLabels": {"env": "prod"}}});
    json!({"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [prod]}}})
}

async fn pl_s1_not_enough_clusters(fleet: &mut Fleet) {
    fleet.scenario("pls1").await;
    fleet.label("member1", json!({"env": "prod"})).await;
    fleet.place(json!({"strategy": rolling(), "policy": {"placementType": "PickN", "numberOfClusters": 2, "affinity": prod()}})).await;
    fleet.pass(10).await;
    fleet.finds_and_places("PL-S1").await;
}

async fn pl_s2_a_named_cluster_is_unknown(fleet: &mut Fleet) {
    fleet.scenario("pls2").await;
    fleet.place(json!({"strategy": rolling(), "policy": {"placementType": "PickFixed", "clusterNames": ["member1", "mmeber2"]}})).await;
    fleet.pass(10).await;
    fleet.finds_and_places("PL-S2").await;
}

async fn pl_s3_what_is_selected_cannot_be_placed(fleet: &mut Fleet) {
    fleet.scenario("pls3").await;
    let mut selectors = fleet.selectors();
    selectors.push(match fleet.scope {
        Scope::Cluster => json!({"group": "", "version": "v1", "kind": "Namespace", "name": "kube-system"}),
        Scope::Namespaced => json!({"group": "example.com", "version": "v1", "kind": "Gizmo", "name": "one"}),
    });
    fleet.place(json!({"strategy": rolling(), "resourceSelectors": selectors})).await;
    fleet.pass(10).await;
    fleet.finds_and_places("PL-S3").await;
}

async fn pl_s4_the_scheduler_is_not_running(fleet: &mut Fleet) {
    fleet.scenario("pls4").await;
    fleet.world.stop("hub");
    fleet.place(json!({"strategy": rolling()})).await;
    fleet.pass(70).await;
    let cause = fleet.finds(&fleet.placement_name(), "PL-S4").await;
    assert!(cause.title.starts_with("The hub agent does not process placement"), "{}", cause.title);
    // The status that a hub without a running scheduler leaves.
    let pending = json!({"type": fleet.condition_type("Scheduled"), "status": "Unknown", "reason": "SchedulePending",
        "message": "Scheduling has not completed", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    fleet.patch(&format!("{}/status", fleet.placement_path()), json!({"status": {"conditions": [pending]}})).await;
    let cause = fleet.finds(&fleet.placement_name(), "PL-S4").await;
    assert!(cause.title.ends_with("has not been scheduled yet"), "{}", cause.title);
    // The fix is for the operator of the hub.
    fleet.world.start_hub().unwrap();
    fleet.until_available().await;
    fleet.is_well().await;
}

async fn pl_s4_two_policies_are_the_latest(fleet: &mut Fleet) {
    fleet.scenario("pls4b").await;
    let on = |clusters: serde_json::Value| json!({"placementType": "PickFixed", "clusterNames": clusters});
    fleet.place(json!({"strategy": rolling(), "policy": on(json!(["member1"]))})).await;
    fleet.until_available().await;
    fleet.patch(&fleet.placement_path(), json!({"spec": {"policy": on(json!(["member1", "member2"]))}})).await;
    fleet.until_available().await;
    let plural = match fleet.scope {
        Scope::Cluster => "clusterschedulingpolicysnapshots",
        Scope::Namespaced => "schedulingpolicysnapshots",
    };
    let first = fleet.placement_path().replace(Kind::Placement.plural(fleet.scope), plural) + "-0";
    let marked = json!({"metadata": {"labels": {"kubernetes-fleet.io/is-latest-snapshot": "true"}}});
    fleet.patch(&first, marked).await;
    let cause = fleet.finds_and_places("PL-S4").await;
    assert!(cause.explanation.contains("2 policy snapshots are marked as the latest"), "{}", cause.explanation);
}

async fn pl_r1_the_rolling_update_is_blocked(fleet: &mut Fleet) {
    fleet.scenario("plr1").await;
    fleet.place(json!({"strategy": rolling(), "policy": {"placementType": "PickN", "numberOfClusters": 3}})).await;
    fleet
        .until("both clusters have it", async |fleet| {
            let placement = fleet.object(Kind::Placement, &fleet.placement_name()).await;
            condition(&placement, &fleet.condition_type("Available")).is_some_and(|one| one["status"] == "True")
        })
        .await;
    fleet.content("2").await;
    fleet.pass(60).await;
    let found = fleet.diagnose(&fleet.placement_name()).await;
    let all: Vec<_> = found.cause.iter().chain(&found.notices).collect();
    assert_eq!(all[0].entry, "PL-S1", "one cluster is missing: {found:#?}");
    let placement = fleet.object(Kind::Placement, &fleet.placement_name()).await;
    let blocked =
        condition(&placement, &fleet.condition_type("RolloutStarted")).is_some_and(|one| one["status"] == "False");
    if blocked {
        let held = all.iter().find(|finding| finding.entry == "PL-R1").unwrap_or_else(|| panic!("{found:#?}"));
        fleet.paste_fix(&held.fixes[0], &[]).await;
    }
    for member in ["member1", "member2"] {
        let path = format!("/api/v1/namespaces/{}/configmaps/settings", fleet.space());
        fleet
            .until("the change has arrived", async |fleet| fleet.get_on(member, &path).await["data"]["value"] == "2")
            .await;
    }
    assert!(blocked, "the rollout should have been held back");
}

async fn pl_r2_clusters_are_reselected(fleet: &mut Fleet) {
    fleet.scenario("plr2").await;
    fleet.place(json!({"policy": {"placementType": "PickFixed", "clusterNames": ["member2"]}})).await;
    fleet.both_stages().await;
    fleet.pass(5).await;
    fleet.run(json!({})).await;
    fleet.until_rolled_out().await;
    fleet.patch(&fleet.placement_path(), json!({"spec": {"policy": {"clusterNames": ["member1", "member2"]}}})).await;
    fleet.pass(10).await;
    let found = fleet.diagnose(&fleet.placement_name()).await;
    let cause = found.cause.unwrap();
    assert!(["PL-R2", "UR-81"].contains(&cause.entry), "{cause:#?}");
    fleet.paste_fix(&cause.fixes[0], &[]).await;
    fleet.until_available().await;
    fleet.is_well().await;
}

async fn pl_q1_why_a_cluster_was_not_chosen(fleet: &mut Fleet) {
    fleet.scenario("plq1").await;
    fleet.label("member1", json!({"env": "prod"})).await;
    fleet.place(json!({"strategy": rolling(), "policy": {"placementType": "PickAll", "affinity": prod()}})).await;
    fleet.pass(10).await;
    let found = fleet.diagnose("cluster/member2").await;
    let notice = found.notices.iter().find(|one| one.entry == "PL-Q1" && one.title.contains(&fleet.placement_name()));
    let notice = notice.unwrap_or_else(|| panic!("{found:#?}"));
    fleet.paste_fix(&notice.fixes[0], &[]).await;
    let path = format!("/api/v1/namespaces/{}/configmaps/settings", fleet.space());
    fleet.until("it is placed there, too", async |fleet| fleet.is_on("member2", &path).await).await;
}

async fn pl_q2_the_latest_change_is_missing(fleet: &mut Fleet) {
    fleet.scenario("plq2").await;
    fleet.place(json!({"strategy": rolling()})).await;
    fleet.until_available().await;
    fleet.world.stop("member2");
    fleet.content("2").await;
    fleet.pass(240).await;
    let cause = fleet.finds(&fleet.placement_name(), "PL-Q2").await;
    assert!(cause.title.starts_with("The agent of cluster member2 has sent no heartbeat since"), "{}", cause.title);
    // The fix is for the operator of the member's agent.
    fleet.start_member("member2").await;
    let path = format!("/api/v1/namespaces/{}/configmaps/settings", fleet.space());
    fleet
        .until("the change has arrived", async |fleet| fleet.get_on("member2", &path).await["data"]["value"] == "2")
        .await;
    fleet.until_available().await;
    fleet.is_well().await;
}

async fn pl_n2_a_cluster_scoped_resource_is_selected(fleet: &mut Fleet) {
    fleet.scenario("pln2").await;
    let namespace = json!({"group": "", "version": "v1", "kind": "Namespace", "name": fleet.space()});
    let mut selectors = fleet.selectors();
    selectors.push(namespace.clone());
    fleet.place(json!({"strategy": rolling(), "resourceSelectors": selectors})).await;
    fleet.pass(10).await;
    fleet.finds_and_places("PL-N2").await;

    // If nothing else is selected, only the user knows what to select instead.
    fleet.scenario("pln2b").await;
    fleet.place(json!({"strategy": rolling(), "resourceSelectors": [namespace]})).await;
    fleet.pass(10).await;
    let cause = fleet.finds(&fleet.placement_name(), "PL-N2").await;
    let words = [("<group>", ""), ("<version>", "v1"), ("<kind>", "ConfigMap"), ("<name>", "settings")];
    fleet.paste_fix(&cause.fixes[0], &words).await;
    fleet.until_available().await;
    fleet.is_well().await;
}

#[tokio::test(start_paused = true)]
async fn a_whole_fleet_is_diagnosed_and_only_problems_are_reported() {
    let mut fleet = Fleet::new(Scope::Cluster).await;
    fleet.scenario("well").await;
    fleet.place(json!({"strategy": rolling()})).await;
    fleet.until_available().await;
    let answer = fleet.everything().await;
    assert_eq!((answer.placements, answer.clusters, answer.diagnoses.len()), (1, 2, 0), "{answer:#?}");
    fleet.scenario("unwell").await;
    fleet.deployment("nginx:1:2").await;
    fleet.place(json!({"strategy": rolling()})).await;
    fleet.run_named("orphan", json!({"placementName": "nothing"})).await;
    fleet.world.stop("member1");
    fleet.pass(600).await;
    let answer = fleet.everything().await;
    let found: Vec<String> = answer
        .diagnoses
        .iter()
        .map(|one| format!("{} {}", one.subject, one.cause.as_ref().map_or("none", |cause| cause.entry)))
        .collect();
    for expected in [
        "MemberCluster member1 PL-Q2",
        "ClusterResourcePlacement placement-unwell PL-V1",
        "ClusterStagedUpdateRun orphan UR-05",
    ] {
        assert!(found.iter().any(|one| one == expected), "{expected}: {found:?}");
    }
    fleet.world.shut_down().await;
}
