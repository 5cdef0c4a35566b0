//! Placements that are rolled out by themselves (PL-*).

use serde_json::json;

use super::fleet::{Fleet, Kind, PLACEMENT_API, Scope, condition, scenarios};

#[tokio::test(start_paused = true)]
async fn what_keeps_a_placement_from_its_clusters_is_found_and_mended() {
    scenarios!(
        Scope::Cluster;
        pl_s1_not_enough_clusters,
        pl_s2_a_named_cluster_is_unknown,
        pl_s3_a_reserved_namespace_is_selected,
        pl_r1_the_rolling_update_is_held_back,
        pl_r2_clusters_are_chosen_anew,
        pl_o1_an_override_does_not_fit,
        pl_a1_an_object_is_not_taken_over,
        pl_v1_an_image_cannot_be_pulled,
        pl_q1_why_a_cluster_was_not_chosen,
        pl_x1_pl_x2_drifts_and_differences,
    );
}

fn rolling() -> serde_json::Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"unavailablePeriodSeconds": 1}})
}

/// Until the placement of the scenario is available, for its newest generation.
async fn until_available(fleet: &Fleet) {
    fleet.until("the placement is available", async |fleet| is_available(fleet).await).await;
}

async fn is_available(fleet: &Fleet) -> bool {
    let placement = fleet.object(Kind::Placement, &fleet.placement_name()).await;
    ["Scheduled", "RolloutStarted", "Available"].iter().all(|step| {
        condition(&placement, &format!("ClusterResourcePlacement{step}")).is_some_and(|one| {
            one["status"] == "True" && one["observedGeneration"] == placement["metadata"]["generation"]
        })
    })
}

/// The cause must be this, and its first fix makes the placement available.
async fn mends(fleet: &Fleet, entry: &str) {
    let cause = fleet.finds(&fleet.placement_name(), entry).await;
    fleet.carry_out(&cause.fixes[0], &[]).await;
    until_available(fleet).await;
    let found = fleet.diagnose(&fleet.placement_name()).await;
    assert_eq!(found.cause, None, "{found:#?}");
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
    mends(fleet, "PL-S1").await;
}

async fn pl_s2_a_named_cluster_is_unknown(fleet: &mut Fleet) {
    fleet.scenario("pls2").await;
    fleet.place(json!({"strategy": rolling(), "policy": {"placementType": "PickFixed", "clusterNames": ["member1", "mmeber2"]}})).await;
    fleet.pass(10).await;
    mends(fleet, "PL-S2").await;
}

async fn pl_s3_a_reserved_namespace_is_selected(fleet: &mut Fleet) {
    fleet.scenario("pls3").await;
    let select = |name: &str| json!({"group": "", "version": "v1", "kind": "Namespace", "name": name});
    fleet
        .place(json!({"strategy": rolling(), "resourceSelectors": [select("kube-system"), select(&fleet.space())]}))
        .await;
    fleet.pass(10).await;
    mends(fleet, "PL-S3").await;
}

async fn pl_r1_the_rolling_update_is_held_back(fleet: &mut Fleet) {
    fleet.scenario("plr1").await;
    fleet.place(json!({"strategy": rolling(), "policy": {"placementType": "PickN", "numberOfClusters": 3}})).await;
    fleet
        .until("both clusters have it", async |fleet| {
            let placement = fleet.object(Kind::Placement, &fleet.placement_name()).await;
            condition(&placement, "ClusterResourcePlacementAvailable").is_some_and(|one| one["status"] == "True")
        })
        .await;
    fleet.content("2").await;
    fleet.pass(60).await;
    let found = fleet.diagnose(&fleet.placement_name()).await;
    let all: Vec<_> = found.cause.iter().chain(&found.notices).collect();
    assert_eq!(all[0].entry, "PL-S1", "one cluster is missing: {found:#?}");
    let placement = fleet.object(Kind::Placement, &fleet.placement_name()).await;
    let blocked =
        condition(&placement, "ClusterResourcePlacementRolloutStarted").is_some_and(|one| one["status"] == "False");
    if blocked {
        let held = all.iter().find(|finding| finding.entry == "PL-R1").unwrap_or_else(|| panic!("{found:#?}"));
        fleet.carry_out(&held.fixes[0], &[]).await;
    }
    for member in ["member1", "member2"] {
        let path = format!("/api/v1/namespaces/{}/configmaps/settings", fleet.space());
        fleet
            .until("the change has arrived", async |fleet| fleet.get_on(member, &path).await["data"]["value"] == "2")
            .await;
    }
    assert!(blocked, "the rollout should have been held back");
}

async fn pl_r2_clusters_are_chosen_anew(fleet: &mut Fleet) {
    fleet.scenario("plr2").await;
    fleet.place(json!({"policy": {"placementType": "PickFixed", "clusterNames": ["member2"]}})).await;
    fleet.both_stages().await;
    fleet.pass(5).await;
    fleet.run(json!({})).await;
    fleet.until_rolled_out().await;
    let path = format!("{}/{}", fleet.collection(Kind::Placement), fleet.placement_name());
    fleet.patch(&path, json!({"spec": {"policy": {"clusterNames": ["member1", "member2"]}}})).await;
    fleet.pass(10).await;
    let found = fleet.diagnose(&fleet.placement_name()).await;
    let cause = found.cause.unwrap();
    assert!(["PL-R2", "UR-81"].contains(&cause.entry), "{cause:#?}");
    fleet.carry_out(&cause.fixes[0], &[]).await;
    fleet.until("everything is rolled out", async |fleet| is_available(fleet).await).await;
    assert_eq!(fleet.diagnose(&fleet.placement_name()).await.cause, None);
}

async fn pl_o1_an_override_does_not_fit(fleet: &mut Fleet) {
    fleet.scenario("plo1").await;
    let rule = json!({"clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"environment": "staging"}}}]},
        "jsonPatchOverrides": [{"op": "add", "path": "/metadata/annotations/note", "value": "new"}]});
    let spec = json!({"clusterResourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": fleet.space()}],
        "policy": {"overrideRules": [rule]}});
    let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourceOverride",
        "metadata": {"name": "override-plo1"}, "spec": spec});
    fleet.create(&format!("{PLACEMENT_API}/clusterresourceoverrides"), object).await;
    fleet.pass(5).await;
    fleet.place(json!({"strategy": rolling()})).await;
    fleet.pass(30).await;
    mends(fleet, "PL-O1").await;
}

async fn pl_a1_an_object_is_not_taken_over(fleet: &mut Fleet) {
    fleet.scenario("pla1").await;
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": fleet.space()}});
    fleet.create_on("member2", "/api/v1/namespaces", space).await;
    let mut strategy = rolling();
    strategy["applyStrategy"] = json!({"whenToTakeOver": "Never"});
    fleet.place(json!({"strategy": strategy})).await;
    fleet.pass(30).await;
    mends(fleet, "PL-A1").await;
}

async fn pl_v1_an_image_cannot_be_pulled(fleet: &mut Fleet) {
    fleet.scenario("plv1").await;
    fleet.deployment("registry.example/no-such-image:1").await;
    fleet.place(json!({"strategy": rolling()})).await;
    fleet.pass(30).await;
    let cause = fleet.finds(&fleet.placement_name(), "PL-V1").await;
    fleet.carry_out(&cause.fixes[0], &[("<image>", "nginx:1.27")]).await;
    until_available(fleet).await;
    assert_eq!(fleet.diagnose(&fleet.placement_name()).await.cause, None);
}

async fn pl_q1_why_a_cluster_was_not_chosen(fleet: &mut Fleet) {
    fleet.scenario("plq1").await;
    fleet.label("member1", json!({"env": "prod"})).await;
    fleet.place(json!({"strategy": rolling(), "policy": {"placementType": "PickAll", "affinity": prod()}})).await;
    fleet.pass(10).await;
    let found = fleet.diagnose("cluster/member2").await;
    let notice = found.notices.iter().find(|one| one.entry == "PL-Q1" && one.title.contains(&fleet.placement_name()));
    let notice = notice.unwrap_or_else(|| panic!("{found:#?}"));
    fleet.carry_out(&notice.fixes[0], &[]).await;
    let path = format!("/api/v1/namespaces/{}", fleet.space());
    fleet.until("it is placed there, too", async |fleet| fleet.is_on("member2", &path).await).await;
}

async fn pl_x1_pl_x2_drifts_and_differences(fleet: &mut Fleet) {
    fleet.scenario("plx1").await;
    let mut strategy = rolling();
    strategy["applyStrategy"] = json!({"type": "ReportDiff"});
    fleet.place(json!({"strategy": strategy})).await;
    fleet.pass(30).await;
    let found = fleet.diagnose(&fleet.placement_name()).await;
    assert!(
        found.cause.is_none() && found.notices.iter().any(|one| one.entry == "PL-X2"),
        "nothing is there yet: {found:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_keeps_a_namespaced_placement_from_its_clusters_is_found_and_mended() {
    let mut fleet = Fleet::new(Scope::Namespaced).await;
    fleet.scenario("pln2").await;
    let selector = json!({"group": "", "version": "v1", "kind": "Namespace", "name": fleet.space()});
    fleet.place(json!({"strategy": rolling(), "resourceSelectors": [selector]})).await;
    fleet.pass(10).await;
    let cause = fleet.finds(&fleet.placement_name(), "PL-N2").await;
    let words = [("<group>", ""), ("<version>", "v1"), ("<kind>", "ConfigMap"), ("<name>", "settings")];
    fleet.carry_out(&cause.fixes[0], &words).await;
    fleet
        .until("the placement is available", async |fleet| {
            let placement = fleet.object(Kind::Placement, &fleet.placement_name()).await;
            condition(&placement, "ResourcePlacementAvailable").is_some_and(|one| one["status"] == "True")
        })
        .await;
    assert_eq!(fleet.diagnose(&fleet.placement_name()).await.cause, None);
    fleet.world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_whole_fleet_is_asked_about_and_only_trouble_is_told() {
    let mut fleet = Fleet::new(Scope::Cluster).await;
    fleet.scenario("well").await;
    fleet.place(json!({"strategy": rolling()})).await;
    until_available(&fleet).await;
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
    fleet.world.end().await;
}
