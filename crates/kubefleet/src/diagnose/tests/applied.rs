//! Placements that are scheduled and whose resources do not arrive as they should (PL-O1, PL-W1, PL-A1, PL-V1, PL-D1, PL-X1,
//! PL-X2, PL-N1).

use serde_json::json;

use super::fleet::{DEFINITIONS, Fleet, Kind, PLACEMENT_API, Scope, condition, definition, rolling, scenarios};

macro_rules! all {
    ($scope:expr $(, $more:ident)*) => {
        scenarios!(
            $scope;
            pl_o1_an_override_does_not_fit,
            pl_w1_an_envelope_cannot_be_opened,
            pl_a1_an_object_is_not_taken_over,
            pl_v1_an_image_cannot_be_pulled,
            pl_d1_differences_cannot_be_reported,
            pl_x1_an_object_was_changed_on_a_member,
            pl_x1_a_full_comparison_sees_what_others_write,
            pl_x2_an_object_differs_from_the_hubs,
            $($more),*
        )
    };
}

#[tokio::test(start_paused = true)]
async fn resources_that_do_not_arrive_are_explained_and_fixed() {
    all!(Scope::Cluster);
}

#[tokio::test(start_paused = true)]
async fn resources_that_do_not_arrive_are_explained_and_fixed_in_a_namespace() {
    all!(
        Scope::Namespaced,
        pl_n1_the_namespace_was_deleted_on_the_member,
        pl_n1_a_cluster_without_the_namespace_is_not_chosen,
        pl_n1_too_few_clusters_have_the_namespace
    );
}

/// A rolling update that applies like this.
fn applying(strategy: serde_json::Value) -> serde_json::Value {
    let mut rolling = rolling();
    rolling["applyStrategy"] = strategy;
    json!({"strategy": rolling})
}

async fn pl_o1_an_override_does_not_fit(fleet: &mut Fleet) {
    fleet.scenario("plo1").await;
    let rule = json!({"clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"environment": "staging"}}}]},
        "jsonPatchOverrides": [{"op": "add", "path": "/metadata/annotations/note", "value": "new"}]});
    fleet.override_with("override-plo1", rule).await;
    fleet.pass(5).await;
    fleet.place(json!({"strategy": rolling()})).await;
    fleet.pass(30).await;
    fleet.finds_and_places("PL-O1").await;
}

async fn pl_w1_an_envelope_cannot_be_opened(fleet: &mut Fleet) {
    fleet.scenario("plw1").await;
    let space = fleet.space();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "enveloped", "namespace": space}});
    let role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "lost"}});
    let envelope = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope",
        "metadata": {"name": "letter"}, "data": {"map.yaml": map, "role.yaml": role}});
    fleet.create(&format!("{PLACEMENT_API}/namespaces/{space}/resourceenvelopes"), envelope).await;
    fleet.select("placement.kubernetes-fleet.io", "v1beta1", "ResourceEnvelope", "letter");
    fleet.place(json!({"strategy": rolling()})).await;
    fleet.pass(30).await;
    let cause = fleet.finds_and_places("PL-W1").await;
    assert_eq!(
        cause.title,
        format!("ResourceEnvelope {space}/letter cannot be opened: entry role.yaml cannot be in it")
    );
    assert!(fleet.is_on("member2", &format!("/api/v1/namespaces/{space}/configmaps/enveloped")).await);
}

async fn pl_a1_an_object_is_not_taken_over(fleet: &mut Fleet) {
    fleet.scenario("pla1").await;
    let (path, object) = fleet.placed();
    fleet.create_on("member2", &path, object).await;
    fleet.place(applying(json!({"whenToTakeOver": "Never"}))).await;
    fleet.pass(30).await;
    fleet.finds_and_places("PL-A1").await;
}

async fn pl_v1_an_image_cannot_be_pulled(fleet: &mut Fleet) {
    fleet.scenario("plv1").await;
    fleet.deployment("registry.example/no-such-image:1").await;
    fleet.place(json!({"strategy": rolling()})).await;
    fleet.pass(30).await;
    let cause = fleet.finds(&fleet.placement_name(), "PL-V1").await;
    fleet.paste_fix(&cause.fixes[0], &[("<image>", "nginx:1.27")]).await;
    fleet.until_available().await;
    fleet.is_well().await;
}

async fn pl_d1_differences_cannot_be_reported(fleet: &mut Fleet) {
    fleet.scenario("pld1").await;
    // A kind that the member does not have cannot be compared with.
    fleet.create(DEFINITIONS, definition("puzzles", "Puzzle")).await;
    fleet.pass(5).await;
    let puzzle = json!({"apiVersion": "example.com/v1", "kind": "Puzzle", "metadata": {"name": "map"}});
    fleet.create(&format!("/apis/example.com/v1/namespaces/{}/puzzles", fleet.space()), puzzle).await;
    fleet.select("example.com", "v1", "Puzzle", "map");
    fleet.place(applying(json!({"type": "ReportDiff"}))).await;
    fleet.pass(30).await;
    let cause = fleet.finds(&fleet.placement_name(), "PL-D1").await;
    assert!(cause.title.ends_with("does not know the kind Puzzle"), "{}", cause.title);
    // The fix is for the operator of the members.
    for member in ["member1", "member2"] {
        fleet.create_on(member, DEFINITIONS, definition("puzzles", "Puzzle")).await;
    }
    fleet
        .until("differences are reported", async |fleet| {
            let placement = fleet.object(Kind::Placement, &fleet.placement_name()).await;
            condition(&placement, &fleet.condition_type("DiffReported")).is_some_and(|one| one["status"] == "True")
        })
        .await;
    fleet.is_well().await;
}

/// Pastes the first fix of a notice of this entry; all such notices then disappear.
async fn settles(fleet: &Fleet, entry: &str) {
    let found = fleet.diagnose(&fleet.placement_name()).await;
    let notice = found.notices.iter().find(|one| one.entry == entry).unwrap_or_else(|| panic!("{found:#?}"));
    fleet.paste_fix(&notice.fixes[0], &[]).await;
    fleet
        .until("it is no longer reported", async |fleet| {
            let found = fleet.diagnose(&fleet.placement_name()).await;
            found.cause.is_none() && found.notices.iter().all(|one| one.entry != entry)
        })
        .await;
    fleet.until_available().await;
}

async fn pl_x1_an_object_was_changed_on_a_member(fleet: &mut Fleet) {
    fleet.scenario("plx1").await;
    fleet.place(applying(json!({"whenToApply": "IfNotDrifted"}))).await;
    fleet.until_available().await;
    let path = format!("/api/v1/namespaces/{}/configmaps/settings", fleet.space());
    fleet.patch_on("member2", &path, json!({"data": {"value": "mine"}})).await;
    fleet.pass(30).await;
    let cause = fleet.finds(&fleet.placement_name(), "PL-A1").await;
    assert!(cause.title.contains("was changed on the member"), "{}", cause.title);
    settles(fleet, "PL-X1").await;
    assert_eq!(fleet.get_on("member2", &path).await["data"]["value"], "1");
}

async fn pl_x1_a_full_comparison_sees_what_others_write(fleet: &mut Fleet) {
    fleet.scenario("plx1b").await;
    fleet.place(applying(json!({"comparisonOption": "FullComparison"}))).await;
    fleet.until_available().await;
    let path = format!("/api/v1/namespaces/{}/configmaps/settings", fleet.space());
    fleet.patch_on("member2", &path, json!({"data": {"theirs": "too"}})).await;
    fleet.pass(30).await;
    fleet.is_well().await;
    settles(fleet, "PL-X1").await;
    assert_eq!(fleet.get_on("member2", &path).await["data"]["theirs"], "too");
}

async fn pl_x2_an_object_differs_from_the_hubs(fleet: &mut Fleet) {
    fleet.scenario("plx2").await;
    fleet.place(applying(json!({"type": "ReportDiff"}))).await;
    fleet.pass(30).await;
    // The object does not exist yet, which is a difference.
    fleet.is_well().await;
    settles(fleet, "PL-X2").await;
    assert!(fleet.is_on("member2", &format!("/api/v1/namespaces/{}/configmaps/settings", fleet.space())).await);
}

/// The namespace of the scenario is gone from `member2`, and the hub knows.
async fn without_namespace(fleet: &mut Fleet, name: &str) {
    fleet.members_report_namespaces().await;
    fleet.scenario(name).await;
    fleet.delete_on("member2", &format!("/api/v1/namespaces/{}", fleet.space())).await;
    // Members report their namespaces with heartbeats.
    fleet.pass(70).await;
}

async fn pl_n1_a_cluster_without_the_namespace_is_not_chosen(fleet: &mut Fleet) {
    without_namespace(fleet, "pln1").await;
    fleet.place(json!({"strategy": rolling()})).await;
    fleet.pass(10).await;
    let found = fleet.diagnose("cluster/member2").await;
    let notice = found.notices.iter().find(|one| one.entry == "PL-N1" && one.title.contains(&fleet.placement_name()));
    let notice = notice.unwrap_or_else(|| panic!("{found:#?}"));
    fleet.paste_fix(&notice.fixes[0], &[]).await;
    let path = format!("/api/v1/namespaces/{}/configmaps/settings", fleet.space());
    fleet.until("it is placed there, too", async |fleet| fleet.is_on("member2", &path).await).await;
}

async fn pl_n1_too_few_clusters_have_the_namespace(fleet: &mut Fleet) {
    without_namespace(fleet, "pln1b").await;
    fleet.place(json!({"strategy": rolling(), "policy": {"placementType": "PickN", "numberOfClusters": 2}})).await;
    fleet.pass(10).await;
    let cause = fleet.finds_and_places("PL-S1").await;
    assert_eq!(cause.because_of, Some("PL-N1"));
}

async fn pl_n1_the_namespace_was_deleted_on_the_member(fleet: &mut Fleet) {
    fleet.scenario("pln1c").await;
    fleet.place(json!({"strategy": rolling()})).await;
    fleet.until_available().await;
    fleet.delete_on("member2", &format!("/api/v1/namespaces/{}", fleet.space())).await;
    fleet.pass(15).await;
    fleet.finds_and_places("PL-N1").await;
}
