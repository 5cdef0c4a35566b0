//! A restart without changes writes nothing, and the same script sends the same requests.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kube::api::DeleteParams;
use serde_json::json;

use crate::faulty_client::Fault;
use crate::fixture::{CHILDREN, PARENTS, TestServer, child_of, child_runtime, start};

const PARENT_COUNT: usize = 1_000;
const CHILDREN_EACH: usize = 100;

#[tokio::test(start_paused = true)]
async fn a_restart_with_100_000_children_in_order_writes_nothing() {
    let server = TestServer::new().await;
    server.put_parent("p0000", CHILDREN_EACH).await;
    let (runtime, _) = child_runtime(server.client(), server.options());
    let running = start(runtime);
    running.settled().await;
    assert_eq!(running.metrics.writes(), CHILDREN_EACH as u64);
    running.stop().await;

    // The other parents and children, as if the controller had created them.
    let parent = |number: usize| format!("p{number:04}");
    server.copy(PARENTS, "p0000", (1..PARENT_COUNT).map(|number| (parent(number), json!({})))).await;
    for number in 1..PARENT_COUNT {
        let of_parent = json!({"metadata": {"labels": {"parent": parent(number)}}});
        let name = |child: usize| child_of(&parent(number), child).metadata.name.unwrap();
        let children = (0..CHILDREN_EACH).map(|child| (name(child), of_parent.clone()));
        server.copy(CHILDREN, "p0000-000", children).await;
    }

    let (runtime, plans) = child_runtime(server.client(), server.options());
    let running = start(runtime);
    running.settled().await;
    assert_eq!(running.metrics.writes(), 0);
    let plans = plans.load(Ordering::Relaxed);
    assert!((PARENT_COUNT..PARENT_COUNT + 10).contains(&plans), "each parent is planned once: {plans}");
    // One parent with a missing child is found among them.
    server.put_parent("p0500", CHILDREN_EACH + 1).await;
    running.settled().await;
    assert_eq!(running.metrics.writes(), 1);
    running.stop().await;
}

/// Runs a script with faults and returns all requests.
async fn script() -> Vec<String> {
    let server = TestServer::new().await;
    let faulty = server.faulty_client();
    let (runtime, _) = child_runtime(faulty.client(), server.options());
    let running = start(runtime);
    for step in 0..40usize {
        server.put_parent(&format!("p{}", step % 7), step % 5).await;
        match step % 6 {
            0 => faulty.inject("POST", CHILDREN, 2, Fault::LoseResponse),
            1 => faulty.inject("POST", CHILDREN, 1, Fault::Status(500)),
            2 => faulty.cut_watches(),
            3 => faulty.inject("WATCH", CHILDREN, 1, Fault::Status(410)),
            4 => drop(server.children().delete(&format!("p{}-000", step % 7), &DeleteParams::default()).await),
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(37)).await;
    }
    tokio::time::sleep(Duration::from_mins(5)).await;
    running.settled().await;
    let wanted: usize = (0..7).map(|parent| (33..40usize).find(|step| step % 7 == parent).unwrap() % 5).sum();
    assert_eq!(server.child_names().await.len(), wanted);
    running.stop().await;
    std::mem::take(&mut *faulty.log.lock())
}

#[test]
fn the_same_script_sends_the_same_requests() {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(script())
    };
    let first = run();
    assert!(first.len() > 100, "{} requests", first.len());
    for _ in 0..5 {
        let again = run();
        let differs = first.iter().zip(&again).position(|(one, other)| one != other);
        assert_eq!((again.len(), differs.map(|at| (&first[at], &again[at]))), (first.len(), None));
    }
}
