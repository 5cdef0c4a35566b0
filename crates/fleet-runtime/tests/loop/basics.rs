//! The whole loop on an API server in this process, with paused time.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod toy;

use std::sync::atomic::Ordering;

use kube::api::DeleteParams;
use toy::{World, start, toy};

#[tokio::test(start_paused = true)]
async fn children_follow_their_parent_up_and_down() {
    let world = World::new().await;
    world.put_parent("a", 3).await;
    let (runtime, plans) = toy(&world, world.options());
    let running = start(runtime);
    running.settled().await;
    assert_eq!(world.child_names().await, ["a-000", "a-001", "a-002"]);

    world.put_parent("a", 1).await;
    world.put_parent("b", 2).await;
    running.settled().await;
    assert_eq!(world.child_names().await, ["a-000", "b-000", "b-001"]);

    world.children().delete("b-001", &DeleteParams::default()).await.unwrap();
    running.settled().await;
    assert_eq!(world.child_names().await, ["a-000", "b-000", "b-001"], "a missing child is made again");

    world.parents().delete("a", &DeleteParams::default()).await.unwrap();
    running.settled().await;
    assert_eq!(world.child_names().await, ["b-000", "b-001"]);
    assert_eq!(running.metrics.writes(), 3 + 2 + 2 + 1 + 1, "each write was needed");
    assert!(plans.load(Ordering::Relaxed) < 40, "{plans:?} plans");
    running.stop().await;
}
