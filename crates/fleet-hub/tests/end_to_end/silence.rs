//! A part of the hub's API does not say which kinds it has: nothing that is placed goes because of that.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use apiserver::LocalService;
use fleet_core::placement::SnapshotIntervals;
use fleet_hub::HubOptions;
use http::Request;
use kube::client::Body;
use serde_json::json;
use tower_service::Service;

use crate::end_to_end::placing::definition;
use crate::end_to_end::world::{DEFINITIONS, Running, World, shop};

/// A way to a server that speaks for it of its kinds as another one would, while it is told to.
#[derive(Debug, Clone)]
struct Forgetful {
    server: LocalService,
    other: LocalService,
    forgets: Arc<AtomicBool>,
}

type Answer = <LocalService as Service<Request<Body>>>::Response;

impl Service<Request<Body>> for Forgetful {
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_about_kinds = request.uri().path() == "/apis";
        if is_about_kinds && self.forgets.load(Ordering::Relaxed) {
            return self.other.call(request);
        }
        self.server.call(request)
    }
}

/// Longer than the hub waits before it asks once more.
const A_WHILE: Duration = Duration::from_mins(3);

async fn placed_with_a_widget() -> (World, Running, crate::end_to_end::members::Members) {
    let world = World::new(&["c1"]).await;
    world.create(DEFINITIONS, definition("test.io", "Widget", "widgets", "Namespaced")).await;
    let widget = json!({"apiVersion": "test.io/v1", "kind": "Widget", "metadata": {"name": "w"}});
    world.create("/apis/test.io/v1/namespaces/shop/widgets", widget).await;
    world.place("web", shop()).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    assert_eq!(world.works().await, ["c1/web-work: shop w"]);
    (world, running, members)
}

#[tokio::test(start_paused = true)]
async fn placed_objects_stay_when_a_hub_starts_before_discovery_is_complete() {
    let (world, running, members) = placed_with_a_widget().await;
    running.stop().await;
    let forgets = Arc::new(AtomicBool::new(true));
    let other = World::new(&[]).await;
    let way = Forgetful { server: world.service(), other: other.service(), forgets: forgets.clone() };
    let options = HubOptions { snapshot_intervals: SnapshotIntervals::NONE, ..HubOptions::default() };
    let running = world.start_over(kube::Client::new(way, "default"), options);
    running.at_rest(&members).await;
    world.config_map("settings", "1").await;
    tokio::time::sleep(A_WHILE).await;
    running.at_rest(&members).await;
    assert!(running.installed.discovery.is_undiscoverable("test.io", "v1"));
    assert_eq!(world.works().await, ["c1/web-work: shop w"], "neither less nor more");
    let told = world.list("/api/v1/namespaces/default/events").await;
    assert!(told.iter().any(|event| event["reason"] == "PlacementContentUnknown"), "{told:?}");

    let role = json!({"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "view"});
    world.place("of-roles", json!({"resourceSelectors": [role]})).await;
    running.at_rest(&members).await;
    assert_eq!(world.selected("of-roles").await, "0: ClusterRole view", "others go on");

    forgets.store(false, Ordering::Relaxed);
    tokio::time::sleep(A_WHILE).await;
    running.at_rest(&members).await;
    assert_eq!(world.works().await, ["c1/of-roles-work: view", "c1/web-work: shop settings w"]);
    running.stop().await;
    members.stop().await;
}
