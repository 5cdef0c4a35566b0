//! The objects of the demo: the app, its placement, the strategies, and the failure (cordoned nodes of one member).

use std::collections::BTreeSet;

use anyhow::Context as _;
use fleet_api::conditions::decode_in;
use fleet_api::conditions::placement::{PlacementScheduled, PlacementScope};
use fleet_api::kinds::{ClusterResourcePlacement, PLACEMENT_API_VERSION};
use fleet_runtime::KindId;
use fleet_sim::setup::wait_for_all;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "shop";
/// The Deployment and its placement.
pub(crate) const APP: &str = "web";
/// A strategy with one stage for all clusters, for the first version.
pub(crate) const AT_ONCE: &str = "at-once";
/// A strategy with staging, an approval and a wait, then the canaries one by one.
pub(crate) const CAREFUL: &str = "careful";
/// The member that fails: the first canary.
pub(crate) const FAILING: &str = "member3";

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/shop/deployments";

/// Creates the app, its placement and two strategies on the hub; returns when the placement is scheduled.
pub(crate) async fn deploy(hub: &kube::Client, clusters: usize) -> anyhow::Result<()> {
    create(hub, "/api/v1/namespaces", &json!({"metadata": {"name": NAMESPACE}})).await?;
    create(hub, DEPLOYMENTS, &deployment("web:1")).await?;
    let placement = json!({
        "apiVersion": PLACEMENT_API_VERSION, "kind": "ClusterResourcePlacement", "metadata": {"name": APP},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": NAMESPACE}],
            "policy": {"placementType": "PickAll"},
            "strategy": {"type": "External"},
        },
    });
    create(hub, &path("clusterresourceplacements"), &placement).await?;
    let strategies = path("clusterstagedupdatestrategies");
    let everywhere = json!({"name": "everywhere", "labelSelector": {}, "maxConcurrency": "100%"});
    create(hub, &strategies, &strategy(AT_ONCE, &[everywhere])).await?;
    let of = |environment: &str| json!({"matchLabels": {"environment": environment}});
    let staging = json!({
        "name": "staging", "labelSelector": of("staging"),
        "afterStageTasks": [{"type": "TimedWait", "waitTime": "1s"}, {"type": "Approval"}],
    });
    let canary = json!({"name": "canary", "labelSelector": of("canary"), "sortingLabelKey": "order"});
    create(hub, &strategies, &strategy(CAREFUL, &[staging, canary])).await?;
    let (kind, names) = (KindId::of::<ClusterResourcePlacement>(), BTreeSet::from([APP.to_owned()]));
    let scheduled = |placement: &Value| is_scheduled(placement, clusters);
    wait_for_all(hub, &kind, names, scheduled, |_| ()).await.context("cannot watch the placement")
}

/// The path of the collection of a kind.
fn path(plural: &str) -> String {
    format!("/apis/{PLACEMENT_API_VERSION}/{plural}")
}

fn strategy(name: &str, stages: &[Value]) -> Value {
    let kind = "ClusterStagedUpdateStrategy";
    json!({"apiVersion": PLACEMENT_API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": {"stages": stages}})
}

fn is_scheduled(placement: &Value, clusters: usize) -> bool {
    let placement: Option<ClusterResourcePlacement> = serde_json::from_value(placement.clone()).ok();
    placement.is_some_and(|placement| {
        let generation = placement.metadata.generation.unwrap_or_default();
        placement.status.is_some_and(|status| {
            let scheduled = decode_in::<PlacementScheduled>(PlacementScope::Cluster, &status.conditions, generation);
            scheduled.is_true() && status.placement_statuses.len() == clusters
        })
    })
}

fn deployment(image: &str) -> Value {
    json!({
        "metadata": {"name": APP, "namespace": NAMESPACE},
        "spec": {
            "replicas": 2,
            // All Pods at once, to save time.
            "strategy": {"rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}},
            "selector": {"matchLabels": {"app": APP}},
            "template": {"metadata": {"labels": {"app": APP}}, "spec": {"containers": [{"name": APP, "image": image}]}},
        },
    })
}

/// Changes the image of the app.
pub(crate) async fn set_image(hub: &kube::Client, image: &str) -> anyhow::Result<()> {
    let containers = json!([{"name": APP, "image": image}]);
    patch(hub, &format!("{DEPLOYMENTS}/{APP}"), &json!({"spec": {"template": {"spec": {"containers": containers}}}}))
        .await
}

/// Names of the nodes of a member.
pub(crate) async fn nodes(member: &kube::Client) -> anyhow::Result<Vec<String>> {
    let list = get(member, &KindId::of::<Node>().collection_path(None)).await?;
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(items.iter().filter_map(|node| node["metadata"]["name"].as_str()).map(str::to_owned).collect())
}

/// Like `kubectl cordon` and `uncordon`.
pub(crate) async fn cordon(member: &kube::Client, nodes: &[String], cordoned: bool) -> anyhow::Result<()> {
    for name in nodes {
        let path = KindId::of::<Node>().object_path(None, name, None);
        patch(member, &path, &json!({"spec": {"unschedulable": cordoned}})).await?;
    }
    Ok(())
}

/// Image and ready Pods of the app in a cluster.
pub(crate) async fn running(member: &kube::Client) -> anyhow::Result<(String, String)> {
    let live = get(member, &format!("{DEPLOYMENTS}/{APP}")).await?;
    let image = live.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str).unwrap_or("-");
    let number = |field: &str| live["status"][field].as_i64().unwrap_or(0);
    Ok((image.to_owned(), format!("{}/{}", number("readyReplicas"), number("replicas"))))
}

async fn get(client: &kube::Client, path: &str) -> anyhow::Result<Value> {
    send(client, http::Request::get(path), Vec::new()).await
}

async fn create(client: &kube::Client, path: &str, object: &Value) -> anyhow::Result<()> {
    let request = http::Request::post(path).header(http::header::CONTENT_TYPE, "application/json");
    send(client, request, object.to_string().into_bytes()).await.map(drop)
}

async fn patch(client: &kube::Client, path: &str, change: &Value) -> anyhow::Result<()> {
    let request =
        http::Request::patch(path).header(http::header::CONTENT_TYPE, "application/strategic-merge-patch+json");
    send(client, request, change.to_string().into_bytes()).await.map(drop)
}

async fn send(client: &kube::Client, request: http::request::Builder, body: Vec<u8>) -> anyhow::Result<Value> {
    let request = request.body(body)?;
    let what = format!("the demo's {} {} failed", request.method(), request.uri());
    client.request(request).await.context(what)
}
