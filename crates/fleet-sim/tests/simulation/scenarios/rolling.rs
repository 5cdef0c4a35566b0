//! Rollouts of workloads to members.

use serde_json::{Value, json};

use crate::scenarios::fleet::{CLUSTER_PLACEMENTS, Fleet, MAPS, NAMESPACES, conditions, entry, named, text};

const CLUSTERS: [&str; 3] = ["c1", "c2", "c3"];
const APPS: &str = "/apis/apps/v1/namespaces/shop";
const SERVICES: &str = "/api/v1/namespaces/shop/services";

fn image(tag: &str) -> Value {
    let containers = json!([{"name": "c", "image": format!("nginx:{tag}")}]);
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers}})
}

fn workload(more: Value) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"app": "a"}}, "template": image("1")});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": "web"}, "spec": spec})
}

/// Places an object and makes a bad and then a good change: the bad one stops at one cluster, the good one reaches all.
async fn check_a_bad_change_stops_at_one_cluster(kind: &str, collection: &str, object: Value, bad: Value, good: Value) {
    let fleet = Fleet::new(&CLUSTERS).await;
    fleet.hub.create(collection, object).await;
    let spec = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}});
    fleet.place("web", spec).await;
    let path = format!("{CLUSTER_PLACEMENTS}/web");
    fleet.wait_until_available(&path, CLUSTERS.len()).await;

    fleet.hub.patch(&format!("{collection}/web"), bad).await;
    let placement = || async { fleet.hub.get(&path).await.unwrap() };
    let has_failures = |placement: &Value, cluster: &&str| entry(placement, cluster)["failedPlacements"].is_array();
    fleet
        .until("one cluster fails", || async {
            let placement = placement().await;
            CLUSTERS.iter().any(|cluster| has_failures(&placement, cluster))
        })
        .await;
    let placement = fleet.wait_for_condition(&path, "RolloutStarted=False", CLUSTERS.len()).await;
    let last = conditions(&placement["status"]["conditions"]).pop().unwrap();
    assert_eq!(last, "ClusterResourcePlacementRolloutStarted=False RolloutNotStartedYet", "and nothing after it");
    let (failing, others): (Vec<&str>, Vec<&str>) =
        CLUSTERS.iter().partition(|cluster| has_failures(&placement, cluster));
    assert_eq!(failing.len(), 1, "{:#}", placement["status"]);
    let failed = entry(&placement, failing[0]);
    assert_eq!(conditions(&failed["conditions"]).last().unwrap(), "Available=False NotAllWorkAreAvailable");
    assert_eq!(named(&failed["failedPlacements"]), [format!("{kind} web")]);
    for other in others {
        let last = conditions(&entry(&placement, other)["conditions"]).pop().unwrap();
        assert_eq!(last, "RolloutStarted=False RolloutNotStartedYet");
    }
    let entries = placement["status"]["placementStatuses"].as_array().unwrap();
    assert!(entries.iter().all(|one| text(&one["observedResourceIndex"]) == "1"));

    fleet.hub.patch(&format!("{collection}/web"), good).await;
    let placement = fleet.wait_until_available(&path, CLUSTERS.len()).await;
    assert_eq!(placement["status"]["observedResourceIndex"], "2");
    fleet.simulation.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn placement_40_41_a_deployment_with_a_bad_image_stops_at_one_cluster() {
    let (object, collection) = (workload(json!({"replicas": 2})), format!("{APPS}/deployments"));
    let change = |tag: &str| json!({"spec": {"template": image(tag)}});
    check_a_bad_change_stops_at_one_cluster("Deployment", &collection, object, change("doesnotexist"), change("2"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn placement_40_41_a_daemon_set_with_a_bad_image_stops_at_one_cluster() {
    let (object, collection) = (workload(json!({})), format!("{APPS}/daemonsets"));
    let change = |tag: &str| json!({"spec": {"template": image(tag)}});
    check_a_bad_change_stops_at_one_cluster("DaemonSet", &collection, object, change("doesnotexist"), change("2"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn placement_40_41_a_stateful_set_with_a_bad_image_stops_at_one_cluster() {
    // With ordered pods, the StatefulSet would wait for the broken pod until a user deletes it.
    let more = json!({"replicas": 2, "serviceName": "web", "podManagementPolicy": "Parallel"});
    let (object, collection) = (workload(more), format!("{APPS}/statefulsets"));
    let change = |tag: &str| json!({"spec": {"template": image(tag)}});
    check_a_bad_change_stops_at_one_cluster("StatefulSet", &collection, object, change("doesnotexist"), change("2"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn placement_40_41_a_service_that_waits_for_a_load_balancer_stops_at_one_cluster() {
    let ports = json!([{"port": 80}]);
    let object = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "a"}, "ports": ports}});
    // No controller serves that class.
    let bad = json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": "test.io/nobody"}});
    let good = json!({"spec": {"type": "ClusterIP", "loadBalancerClass": null}});
    check_a_bad_change_stops_at_one_cluster("Service", SERVICES, object, bad, good).await;
}

#[tokio::test(start_paused = true)]
async fn placement_32_differences_are_reported_and_members_are_not_changed() {
    let fleet = Fleet::new(&["c1", "c2"]).await;
    let theirs = json!({"metadata": {"name": "settings"}, "data": {"value": "theirs"}});
    fleet.on("c1").create(NAMESPACES, json!({"metadata": {"name": "shop"}})).await;
    fleet.on("c1").create(MAPS, theirs).await;
    fleet.place("web", json!({"strategy": {"applyStrategy": {"type": "ReportDiff"}}})).await;
    let placement = fleet.wait_for_condition(&format!("{CLUSTER_PLACEMENTS}/web"), "DiffReported=True", 2).await;
    let types =
        |list: &Value| -> Vec<String> { list.as_array().unwrap().iter().map(|one| text(&one["type"])).collect() };
    let prefixed = ["Scheduled", "RolloutStarted", "Overridden", "WorkSynchronized", "DiffReported"];
    assert_eq!(
        types(&placement["status"]["conditions"]),
        prefixed.map(|type_| format!("ClusterResourcePlacement{type_}"))
    );
    for cluster in ["c1", "c2"] {
        assert_eq!(types(&entry(&placement, cluster)["conditions"]), prefixed);
    }
    let differing = &entry(&placement, "c1")["diffedPlacements"];
    assert_eq!(named(differing), ["ConfigMap settings"]);
    assert_eq!(
        differing[0]["observedDiffs"],
        json!([{"path": "/data/value", "valueInHub": "1", "valueInMember": "theirs"}])
    );
    assert_eq!(named(&entry(&placement, "c2")["diffedPlacements"]), ["ConfigMap settings", "Namespace shop"]);
    assert_eq!(fleet.on("c1").get(&format!("{MAPS}/settings")).await.unwrap()["data"]["value"], "theirs");
    assert!(!fleet.on("c2").has(&format!("{NAMESPACES}/shop")).await);
    fleet.simulation.shut_down().await;
}
