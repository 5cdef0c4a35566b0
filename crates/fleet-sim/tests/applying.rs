//! A placement all the way: from the hub's user to running workloads on members whose agents apply what they are given.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use fleet_sim::member::SimulatedMember;
use fleet_sim::world::{AgentMetrics, Ground, World};
use serde_json::{Value, json};

const PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements";
const MEMBERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
const NAMESPACES: &str = "/api/v1/namespaces";
const SHOPS: &str = "/apis/apps/v1/namespaces/shop/deployments";
/// Virtual time after which what has not happened never will.
const PATIENCE: Duration = Duration::from_mins(10);

async fn send(client: &kube::Client, method: &str, path: &str, body: Option<&Value>) -> Option<Value> {
    let request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
    let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    match client.request(request.body(body).unwrap()).await {
        Ok(answer) => Some(answer),
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        Err(error) => panic!("{method} {path}: {error}"),
    }
}

async fn until<F: Future<Output = bool>>(what: &str, mut reached: impl FnMut() -> F) {
    let begun = tokio::time::Instant::now();
    while !reached().await {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn deployment(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}},
        },
    })
}

fn is_true(object: &Value, type_: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| {
        condition["type"] == type_
            && condition["status"] == "True"
            && condition["observedGeneration"] == object["metadata"]["generation"]
    })
}

#[tokio::test(start_paused = true)]
async fn a_placement_becomes_workloads_that_run_and_goes_without_a_trace() {
    let ground = Ground::lay().await.unwrap();
    let mut world = World::new(&ground, 1, AgentMetrics::default()).await.unwrap();
    world.start_hub().unwrap();
    let hub = world.user();
    let names = ["east", "west"];
    for name in names {
        let member = SimulatedMember::new(name).unwrap().applying();
        send(&hub, "POST", MEMBERS, Some(&serde_json::to_value(member.member_cluster()).unwrap())).await;
        world.start_member(&member).await.unwrap();
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    send(&hub, "POST", NAMESPACES, Some(&namespace)).await;
    send(&hub, "POST", SHOPS, Some(&deployment("nginx:1"))).await;
    let placement = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement", "metadata": {"name": "shop"},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
            "policy": {"placementType": "PickAll"},
        },
    });
    send(&hub, "POST", PLACEMENTS, Some(&placement)).await;
    let stored = format!("{PLACEMENTS}/shop");
    until("the placement is available", || async {
        let placement = send(&hub, "GET", &stored, None).await.unwrap();
        is_true(&placement, "ClusterResourcePlacementAvailable")
            && placement["status"]["placementStatuses"].as_array().is_some_and(|clusters| clusters.len() == 2)
    })
    .await;
    for name in names {
        let live = send(&world.user_of(name), "GET", &format!("{SHOPS}/web"), None).await.unwrap();
        assert_eq!(live["status"]["availableReplicas"], 2);
    }
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "nginx:2"}]}}}});
    let request =
        http::Request::patch(format!("{SHOPS}/web")).header("content-type", "application/strategic-merge-patch+json");
    hub.request::<Value>(request.body(patch.to_string().into_bytes()).unwrap()).await.unwrap();
    for name in names {
        let member = world.user_of(name);
        until("the new image runs", || async {
            let live = send(&member, "GET", &format!("{SHOPS}/web"), None).await.unwrap();
            live["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2"
                && live["status"]["observedGeneration"] == live["metadata"]["generation"]
                && live["status"]["updatedReplicas"] == 2
        })
        .await;
    }
    send(&hub, "DELETE", &stored, None).await;
    until("the placement is gone", || async { send(&hub, "GET", &stored, None).await.is_none() }).await;
    for name in names {
        let member = world.user_of(name);
        until("its objects are gone", || async {
            send(&member, "GET", &format!("{NAMESPACES}/shop"), None).await.is_none()
        })
        .await;
    }
    world.end().await;
}
