//! What members are given, and what becomes of it when placements, clusters and resources come and go.

use std::sync::atomic::Ordering;
use std::time::Duration;

use expect_test::expect;
use fleet_hub::HubOptions;
use serde_json::{Value, json};

use crate::end_to_end::members::Fares;
use crate::end_to_end::world::{MEMBERS, PLACEMENT, World, conditions, shop, shop_on};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/shop/deployments";
const WORKS_OF_C1: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-c1/works";
/// The time within which a refused Work has been tried at least once more.
const FIRST_RETRIES: Duration = Duration::from_secs(10);
/// Longer than any status is held back.
const SLOW: Duration = Duration::from_secs(10);

fn envelope(name: &str, data: Value) -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope",
        "metadata": {"name": name}, "data": data})
}

fn wrapped(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}})
}

#[tokio::test(start_paused = true)]
async fn placement_57_60_an_envelope_has_a_work_of_its_own_until_it_is_removed() {
    let world = World::new(&["c1"]).await;
    let envelopes = format!("{PLACEMENT}/namespaces/shop/resourceenvelopes");
    world.create(&envelopes, envelope("box", json!({"a": wrapped("one"), "b": wrapped("two")}))).await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    members.say(|work| {
        let labels = work.metadata.labels.clone().unwrap_or_default();
        if labels.contains_key("kubernetes-fleet.io/envelope-work") { Fares::NotApplied } else { Fares::Available }
    });
    running.at_rest(&members).await;
    let works = world.works().await;
    assert_eq!(works.len(), 2, "{works:?}");
    assert!(works[0].starts_with("c1/web-work: shop"), "{works:?}");
    assert!(works[1].starts_with("c1/web-work-envelope-") && works[1].ends_with(": two one"), "{works:?}");
    let entry = world.placement("web").await["status"]["placementStatuses"][0].take();
    let blamed = &entry["failedPlacements"][0];
    assert_eq!(blamed["envelope"], json!({"name": "box", "namespace": "shop", "type": "ResourceEnvelope"}));
    assert_eq!(blamed["name"], "two");
    world.delete(&format!("{envelopes}/box")).await;
    running.at_rest(&members).await;
    assert_eq!(world.works().await, ["c1/web-work: shop"]);
    assert_eq!(world.conditions("web").await[5], "ClusterResourcePlacementAvailable=True ResourceAvailable");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_58_an_envelope_with_wrong_content_is_explained_and_nothing_is_placed() {
    let world = World::new(&["c1"]).await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}});
    let envelopes = format!("{PLACEMENT}/namespaces/shop/resourceenvelopes");
    world.create(&envelopes, envelope("box", json!({"a": role}))).await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    assert!(world.works().await.is_empty());
    assert_eq!(
        world.conditions("web").await[3],
        "ClusterResourcePlacementWorkSynchronized=False WorkNotSynchronizedYet"
    );
    let condition = world.binding("web", "c1").await["status"]["conditions"][2].take();
    expect!["Failed to synchronize the work to the latest: a cluster scope object a (r) has been wrapped in a resource envelope shop/box"]
        .assert_eq(condition["message"].as_str().unwrap());
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_33_another_apply_strategy_reaches_all_clusters_at_once() {
    let world = World::new(&["c1", "c2", "c3"]).await;
    let mut spec = shop();
    spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    world.place("web", spec).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    world.edit("web", json!({"strategy": {"applyStrategy": {"type": "ReportDiff"}}})).await;
    running.at_rest(&members).await;
    for work in world.list(&format!("{PLACEMENT}/works")).await {
        assert_eq!(work["spec"]["applyStrategy"]["type"], "ReportDiff");
        assert_eq!(work["spec"]["workload"]["manifests"].as_array().unwrap().len(), 1, "the manifests stay");
    }
    expect![[r"
        ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled
        ClusterResourcePlacementRolloutStarted=True RolloutStarted
        ClusterResourcePlacementOverridden=True NoOverrideSpecified
        ClusterResourcePlacementWorkSynchronized=True WorkSynchronized
        ClusterResourcePlacementDiffReported=True DiffReportingCompleted"]]
    .assert_eq(&world.conditions("web").await.join("\n"));
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_33_an_edit_waits_for_clusters_that_are_adopting_another_apply_strategy() {
    let world = World::new(&["c1", "c2", "c3"]).await;
    let mut spec = shop();
    spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    world.place("web", spec).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    members.say(|_| Fares::Silent);
    world.edit("web", json!({"strategy": {"applyStrategy": {"type": "ServerSideApply"}}})).await;
    tokio::time::sleep(SLOW).await;
    for cluster in ["c1", "c2", "c3"] {
        let said = conditions(&world.binding("web", cluster).await["status"]["conditions"]);
        assert_eq!(said.last().unwrap(), "Applied=False ApplyInProgress");
    }
    world.config_map("settings", "1").await;
    tokio::time::sleep(SLOW).await;
    assert_eq!(world.works().await, ["c1/web-work: shop", "c2/web-work: shop", "c3/web-work: shop"]);
    // With two that are ready, the third adds nothing to them and may be overtaken; no other may.
    members.only("c3", Fares::Silent);
    tokio::time::sleep(SLOW).await;
    assert_eq!(world.works().await, ["c1/web-work: shop", "c2/web-work: shop", "c3/web-work: shop settings"]);
    members.say(|_| Fares::Available);
    running.at_rest(&members).await;
    let all = ["c1/web-work: shop settings", "c2/web-work: shop settings", "c3/web-work: shop settings"];
    assert_eq!(world.works().await, all);
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_42_56_works_stay_although_their_snapshot_was_deleted() {
    let world = World::new(&["c1", "c2"]).await;
    world.config_map("settings", "1").await;
    let mut spec = shop_on(2);
    spec["revisionHistoryLimit"] = json!(1);
    spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    world.place("web", spec).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    members.say(|work| {
        let is_bad = work.spec.manifests().iter().any(|one| one.get("data").is_some_and(|data| data["value"] == "bad"));
        if is_bad { Fares::NotAvailable } else { Fares::Available }
    });
    let settings = "/api/v1/namespaces/shop/configmaps/settings";
    for more in ["a", "b"] {
        world.patch(settings, json!({"data": {"value": "bad", "more": more}})).await;
        running.at_rest(&members).await;
    }
    assert_eq!(world.snapshots().await, ["web-2-snapshot*: shop settings"]);
    // One cluster never left the first content, of which there is no snapshot any more.
    let values = || async {
        let works = world.list(&format!("{PLACEMENT}/works")).await;
        let mut values: Vec<String> =
            works.iter().map(|work| work["spec"]["workload"]["manifests"][1]["data"]["value"].to_string()).collect();
        values.sort();
        values
    };
    assert_eq!(values().await, ["\"1\"", "\"bad\""]);
    members.say(|_| Fares::Untrackable);
    running.at_rest(&members).await;
    let held_back = world.list(&format!("{PLACEMENT}/clusterresourcebindings")).await;
    let held_back = held_back.iter().find(|one| one["spec"]["resourceSnapshotName"] == "web-0-snapshot").unwrap();
    let last = conditions(&held_back["status"]["conditions"]).pop().unwrap();
    assert_eq!(last, "Available=True NotAllWorkAreAvailabilityTrackable", "its status follows the Works");
    members.say(|_| Fares::Available);
    running.at_rest(&members).await;
    assert_eq!(values().await, ["\"bad\"", "\"bad\""]);
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_46_a_cluster_that_is_picked_again_waits_until_its_old_binding_is_gone() {
    let world = World::new(&["c1", "c2"]).await;
    let on = |cluster: &str| json!({"policy": {"placementType": "PickFixed", "clusterNames": [cluster]}});
    let mut spec = shop();
    spec["policy"] = on("c1")["policy"].take();
    spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    world.place("web", spec).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let old = world.binding("web", "c1").await;
    let old_path = format!("{PLACEMENT}/clusterresourcebindings/{}", old["metadata"]["name"].as_str().unwrap());
    let mut finalizers = old["metadata"]["finalizers"].as_array().unwrap().clone();
    finalizers.push(json!("test.io/stuck"));
    world.patch(&old_path, json!({"metadata": {"finalizers": finalizers}})).await;
    world.edit("web", on("c2")).await;
    running.at_rest(&members).await;
    assert_eq!(world.bindings("web").await, "c2=Bound");
    assert!(!world.get(&old_path).await.unwrap()["metadata"]["deletionTimestamp"].is_null());

    world.edit("web", on("c1")).await;
    running.at_rest(&members).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(world.bindings("web").await, "c1=Scheduled");
    assert!(!world.works().await.iter().any(|work| work.starts_with("c1/")));
    world.patch(&old_path, json!({"metadata": {"finalizers": []}})).await;
    running.at_rest(&members).await;
    assert_eq!(world.bindings("web").await, "c1=Bound");
    assert_eq!(world.works().await, ["c1/web-work: shop"]);
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_45_an_unscheduled_cluster_is_cleaned_up_before_it_is_picked_again() {
    let world = World::new(&["c1", "c2"]).await;
    let on = |cluster: &str| json!({"policy": {"placementType": "PickFixed", "clusterNames": [cluster]}});
    let mut spec = shop();
    spec["policy"] = on("c1")["policy"].take();
    spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    world.place("web", spec).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    world.patch(&format!("{WORKS_OF_C1}/web-work"), json!({"metadata": {"finalizers": ["test.io/stuck"]}})).await;
    world.edit("web", on("c2")).await;
    running.at_rest(&members).await;
    assert_eq!(world.works().await, ["c1/web-work: shop (going)", "c2/web-work: shop"]);
    assert_eq!(world.bindings("web").await, "c2=Bound", "a stuck Work does not keep its binding");
    assert_eq!(world.conditions("web").await[5], "ClusterResourcePlacementAvailable=True ResourceAvailable");

    world.edit("web", on("c1")).await;
    running.at_rest(&members).await;
    let waiting = world.binding("web", "c1").await;
    assert_eq!(
        conditions(&waiting["status"]["conditions"]).last().unwrap(),
        "WorkSynchronized=False SyncWorkFailed",
        "the name of its Work is not free"
    );
    world.patch(&format!("{WORKS_OF_C1}/web-work"), json!({"metadata": {"finalizers": []}})).await;
    running.at_rest(&members).await;
    assert_eq!(world.works().await, ["c1/web-work: shop"]);
    assert_eq!(world.conditions("web").await[5], "ClusterResourcePlacementAvailable=True ResourceAvailable");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_29_a_placement_scaled_to_zero_removes_everything() {
    let world = World::new(&["c1", "c2"]).await;
    world.place("web", shop_on(2)).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    world.edit("web", json!({"policy": {"numberOfClusters": 0}})).await;
    running.at_rest(&members).await;
    assert!(world.works().await.is_empty());
    assert_eq!(world.bindings("web").await, "");
    assert_eq!(world.conditions("web").await, ["ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled"]);
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn placement_61_a_deleted_cluster_is_abandoned_and_blocks_no_other() {
    let world = World::new(&["c1", "c2", "c3"]).await;
    world.place("web", shop_on(3)).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    for gone in ["c1", "c2"] {
        world.delete(&format!("{MEMBERS}/{gone}")).await;
    }
    running.at_rest(&members).await;
    tokio::time::sleep(Duration::from_mins(20)).await;
    running.at_rest(&members).await;
    assert_eq!(world.bindings("web").await, "c3=Bound");
    assert_eq!(world.works().await, ["c3/web-work: shop"]);
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_abandoning_placement_leaves_its_resources_on_the_clusters() {
    let world = World::new(&["c1"]).await;
    let mut spec = shop();
    spec["strategy"] = json!({"type": "RollingUpdate", "deleteStrategy": {"propagationPolicy": "Abandon"}});
    world.place("web", spec).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    // A member holds its Works until what they applied is gone.
    world.patch(&format!("{WORKS_OF_C1}/web-work"), json!({"metadata": {"finalizers": ["test.io/member"]}})).await;
    world.delete(&format!("{PLACEMENT}/clusterresourceplacements/web")).await;
    running.at_rest(&members).await;
    assert_eq!(world.works().await, ["c1/web-work: shop (going)"]);
    let work = world.get(&format!("{WORKS_OF_C1}/web-work")).await.unwrap();
    assert_eq!(work["metadata"]["annotations"]["kubernetes-fleet.io/delete-propagation-policy"], "Abandon");
    assert!(world.list(&format!("{PLACEMENT}/clusterresourcebindings")).await.is_empty());
    assert!(world.list(&format!("{PLACEMENT}/clusterresourceplacements")).await.is_empty());
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_placed_resource_is_reported_back() {
    let world = World::new(&["c1"]).await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "app"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    world.create(DEPLOYMENTS, deployment.clone()).await;
    let mut spec = shop_on(1);
    let report_back = json!({"type": "Mirror", "destination": "OriginalResource"});
    spec["strategy"] = json!({"type": "RollingUpdate", "reportBackStrategy": report_back});
    world.place("web", spec).await;
    // Changes are collected for a while before they are taken for content.
    let (running, members) = (world.start_with(HubOptions::default()), world.members());
    members.say(|_| Fares::Silent);
    running.at_rest(&members).await;
    let work = world.get(&format!("{WORKS_OF_C1}/web-work")).await.unwrap();
    assert_eq!(work["spec"]["reportBackStrategy"]["type"], "Mirror");
    let applied = json!({"type": "Applied", "status": "True", "reason": "AllManifestsApplied", "message": "",
        "observedGeneration": work["metadata"]["generation"], "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let identifier = json!({"ordinal": 1, "group": "apps", "version": "v1", "kind": "Deployment",
        "resource": "deployments", "namespace": "shop", "name": "app"});
    let sent = json!({"observedStatus": {"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "app", "namespace": "shop"}, "status": {"replicas": 3, "observedGeneration": 1}},
        "observationTime": "2026-01-01T00:00:00Z"});
    let manifest = json!({"identifier": identifier, "conditions": [], "backReportedStatus": sent});
    let status = json!({"status": {"conditions": [applied], "manifestConditions": [manifest]}});
    world.patch(&format!("{WORKS_OF_C1}/web-work/status"), status).await;
    running.at_rest(&members).await;
    let told = json!({"replicas": 3, "observedGeneration": 1});
    assert_eq!(world.get(&format!("{DEPLOYMENTS}/app")).await.unwrap()["status"], told);
    assert_eq!(
        world.placement("web").await["status"]["observedResourceIndex"],
        "0",
        "a status is no change of content"
    );
    let writes = running.metrics.writes();
    world.heartbeat("c1").await;
    running.at_rest(&members).await;
    assert_eq!(running.metrics.writes(), writes);

    // Whoever else writes the status is not fought with.
    world.patch(&format!("{DEPLOYMENTS}/app/status"), json!({"status": {"replicas": 1}})).await;
    running.at_rest(&members).await;
    assert_eq!(running.metrics.writes(), writes);

    // The same content made anew is no change of content either, and has no status yet.
    world.delete(&format!("{DEPLOYMENTS}/app")).await;
    world.create(DEPLOYMENTS, deployment).await;
    running.at_rest(&members).await;
    assert_eq!(world.get(&format!("{DEPLOYMENTS}/app")).await.unwrap()["status"], told);
    assert_eq!(world.placement("web").await["status"]["observedResourceIndex"], "0");
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn blocked_and_failed_rollouts_are_events() {
    let world = World::new(&["c1", "c2"]).await;
    let mut spec = shop_on(2);
    spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    world.place("web", spec).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let events = |reason: &'static str| {
        let world = &world;
        async move {
            let all = world.list("/api/v1/events").await;
            let of_it = all.iter().filter(|event| event["reason"] == reason);
            of_it
                .map(|event| format!("{} {}", event["type"].as_str().unwrap(), event["message"].as_str().unwrap()))
                .collect::<Vec<_>>()
        }
    };
    assert!(events("PlacementRolloutBlocked").await.is_empty() && events("PlacementRolloutFailed").await.is_empty());
    members.say(|work| if work.spec.manifests().len() > 1 { Fares::NotApplied } else { Fares::Available });
    world.config_map("settings", "1").await;
    running.at_rest(&members).await;
    assert_eq!(
        events("PlacementRolloutBlocked").await,
        ["Normal The rollout is being blocked by the rollout strategy in 1 cluster(s)"]
    );
    world.edit("web", json!({"strategy": {"rollingUpdate": {"maxUnavailable": 2}}})).await;
    running.at_rest(&members).await;
    assert_eq!(
        events("PlacementRolloutFailed").await,
        ["Warning Failed to apply resources to 2 cluster(s), please check the `failedPlacements` status"]
    );
    running.stop().await;
    members.stop().await;
}

#[tokio::test(start_paused = true)]
async fn last_09_a_rejected_work_is_reported_and_retried_within_seconds() {
    let world = World::new(&["c1"]).await;
    world.place("web", shop()).await;
    let ((running, accepts), members) = (world.start_refused(), world.members());
    running.at_rest(&members).await;
    let synchronized = |conditions: &Value, type_: &str| {
        let all = conditions.as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|one| one["type"] == type_).unwrap_or_default();
        format!("{} {}", found["status"], found["message"])
    };
    let hint = "; retried with increasing delays of up to 5 minutes";
    let said = synchronized(&world.binding("web", "c1").await["status"]["conditions"], "WorkSynchronized");
    assert!(said.contains("\"False\"") && said.contains("forbidden") && said.contains(hint), "{said}");
    let entry = world.placement("web").await["status"]["placementStatuses"][0].take();
    let said = synchronized(&entry["conditions"], "WorkSynchronized");
    assert!(said.contains("\"False\"") && said.contains(hint), "{said}");
    assert!(world.works().await.is_empty());

    accepts.store(true, Ordering::SeqCst);
    tokio::time::sleep(FIRST_RETRIES).await;
    running.at_rest(&members).await;
    assert_eq!(world.works().await, ["c1/web-work: shop"], "nothing has changed but the server's mind");
    assert_eq!(world.conditions("web").await[5], "ClusterResourcePlacementAvailable=True ResourceAvailable");
    running.stop().await;
    members.stop().await;
}
