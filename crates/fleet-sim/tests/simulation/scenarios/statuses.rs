//! Statuses of placements and resources on the hub that come from members.

use std::time::Duration;

use serde_json::{Value, json};

use crate::scenarios::fleet::{CLUSTER_PLACEMENTS, Fleet, MAPS, conditions, entry, named};

const JOBS: &str = "/apis/batch/v1/namespaces/shop/jobs";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/shop/deployments";
/// `unavailablePeriodSeconds`.
const PERIOD: Duration = Duration::from_secs(30);
/// The shortest period that may be observed, because conditions have whole seconds.
const SHORTEST_PERIOD: Duration = Duration::from_secs(29);

fn template(restart: &str) -> Value {
    json!({"metadata": {"labels": {"app": "a"}},
        "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "nginx:1"}]}})
}

#[tokio::test(start_paused = true)]
async fn placement_44_a_suspended_job_is_rolled_out_one_by_one_after_the_period() {
    let names = ["c1", "c2", "c3"];
    let fleet = Fleet::new(&names).await;
    let job = json!({"metadata": {"name": "once"}, "spec": {"template": template("Never")}});
    fleet.hub.create(JOBS, job).await;
    let limits = json!({"maxUnavailable": 1, "unavailablePeriodSeconds": PERIOD.as_secs()});
    let spec = json!({"policy": {"placementType": "PickN", "numberOfClusters": 3},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": limits}});
    let path = format!("{CLUSTER_PLACEMENTS}/web");
    fleet.place("web", spec).await;
    fleet.wait_until_available(&path, 3).await;

    fleet.hub.patch(&format!("{JOBS}/once"), json!({"spec": {"suspend": true}})).await;
    let begun = tokio::time::Instant::now();
    let mut suspended: Vec<Duration> = Vec::new();
    while suspended.len() < names.len() {
        assert!(begun.elapsed() < PERIOD * 10, "after {suspended:?}");
        fleet.pass(Duration::from_millis(500)).await;
        let mut now = 0;
        for name in names {
            let live = fleet.on(name).get(&format!("{JOBS}/once")).await.unwrap();
            now += usize::from(live["spec"]["suspend"] == true);
        }
        assert!(now <= suspended.len() + 1, "two at once after {suspended:?}");
        suspended.extend((now > suspended.len()).then(|| begun.elapsed()));
    }
    for pair in suspended.windows(2) {
        let between = pair[1].checked_sub(pair[0]).unwrap();
        assert!((SHORTEST_PERIOD..PERIOD + Duration::from_secs(5)).contains(&between), "{suspended:?}");
    }
    let placement = fleet.wait_until_available(&path, 3).await;
    for name in names {
        let last = conditions(&entry(&placement, name)["conditions"]).pop().unwrap();
        assert_eq!(last, "Available=True NotAllWorkAreAvailabilityTrackable");
    }
    fleet.simulation.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn placement_34_a_drift_that_blocks_the_apply_is_reported_for_its_cluster() {
    let fleet = Fleet::new(&["c1", "c2"]).await;
    let path = format!("{CLUSTER_PLACEMENTS}/web");
    fleet.place("web", json!({"strategy": {"applyStrategy": {"whenToApply": "IfNotDrifted"}}})).await;
    fleet.wait_until_available(&path, 2).await;
    fleet.on("c1").patch(&format!("{MAPS}/settings"), json!({"data": {"value": "mine"}})).await;
    let placement = fleet.wait_for_condition(&path, "Applied=False", 2).await;
    let drifted = entry(&placement, "c1");
    assert_eq!(named(&drifted["failedPlacements"]), ["ConfigMap settings"]);
    assert_eq!(named(&drifted["driftedPlacements"]), ["ConfigMap settings"]);
    assert_eq!(
        drifted["driftedPlacements"][0]["observedDrifts"],
        json!([{"path": "/data/value", "valueInHub": "1", "valueInMember": "mine"}])
    );
    let other = entry(&placement, "c2");
    assert_eq!(conditions(&other["conditions"]).last().unwrap(), "Available=True AllWorkAreAvailable");

    fleet.on("c1").patch(&format!("{MAPS}/settings"), json!({"data": {"value": "1"}})).await;
    fleet.wait_until_available(&path, 2).await;
    fleet.simulation.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_deployment_is_reported_back_to_the_hub() {
    let fleet = Fleet::new(&["c1", "c2"]).await;
    let deployment = json!({"metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template("Always")}});
    fleet.hub.create(DEPLOYMENTS, deployment).await;
    let report_back = json!({"type": "Mirror", "destination": "OriginalResource"});
    let spec = json!({"policy": {"placementType": "PickN", "numberOfClusters": 1},
        "strategy": {"type": "RollingUpdate", "reportBackStrategy": report_back}});
    fleet.place("web", spec).await;
    let path = format!("{CLUSTER_PLACEMENTS}/web");
    fleet.wait_until_available(&path, 1).await;
    let on_hub = || async { fleet.hub.get(&format!("{DEPLOYMENTS}/web")).await.unwrap() };
    fleet.until("the status is reported", || async { on_hub().await["status"]["availableReplicas"] == 2 }).await;

    let picked = fleet.hub.get(&path).await.unwrap()["status"]["placementStatuses"][0]["clusterName"].take();
    let live = fleet.on(picked.as_str().unwrap()).get(&format!("{DEPLOYMENTS}/web")).await.unwrap();
    assert_eq!(on_hub().await["status"]["replicas"], live["status"]["replicas"]);

    fleet.hub.patch(&format!("{DEPLOYMENTS}/web"), json!({"spec": {"replicas": 3}})).await;
    fleet.until("the change is reported", || async { on_hub().await["status"]["availableReplicas"] == 3 }).await;
    assert_eq!(
        fleet.wait_until_available(&path, 1).await["status"]["observedResourceIndex"],
        "1",
        "a status is no change"
    );
    fleet.simulation.shut_down().await;
}
