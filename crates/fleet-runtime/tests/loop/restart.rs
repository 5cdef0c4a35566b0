//! What a process that starts finds in order, it leaves alone; and the same script gives the same requests.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kube::api::DeleteParams;
use serde_json::json;

use crate::meddler::Meddling;
use crate::toy::{CHILDREN, PARENTS, World, child_of, start, toy};

const PARENT_COUNT: usize = 1_000;
const CHILDREN_EACH: usize = 100;

#[tokio::test(start_paused = true)]
async fn a_restart_with_100_000_children_in_order_writes_nothing() {
    let world = World::new().await;
    world.put_parent("p0000", CHILDREN_EACH).await;
    let (runtime, _) = toy(world.client(), world.options());
    let running = start(runtime);
    running.settled().await;
    assert_eq!(running.metrics.writes(), CHILDREN_EACH as u64);
    running.stop().await;

    // The other parents and children as if they had been made the same way.
    let parent = |number: usize| format!("p{number:04}");
    world.copy(PARENTS, "p0000", (1..PARENT_COUNT).map(|number| (parent(number), json!({})))).await;
    for number in 1..PARENT_COUNT {
        let of_parent = json!({"metadata": {"labels": {"parent": parent(number)}}});
        let name = |child: usize| child_of(&parent(number), child).metadata.name.unwrap();
        let children = (0..CHILDREN_EACH).map(|child| (name(child), of_parent.clone()));
        world.copy(CHILDREN, "p0000-000", children).await;
    }

    let (runtime, plans) = toy(world.client(), world.options());
    let running = start(runtime);
    running.settled().await;
    assert_eq!(running.metrics.writes(), 0);
    let plans = plans.load(Ordering::Relaxed);
    assert!((PARENT_COUNT..PARENT_COUNT + 10).contains(&plans), "each parent is looked at once: {plans}");
    // One that is out of order is found among them all.
    world.put_parent("p0500", CHILDREN_EACH + 1).await;
    running.settled().await;
    assert_eq!(running.metrics.writes(), 1);
    running.stop().await;
}

/// A day in the life of the toy, with faults. Gives every request that was made.
async fn day() -> Vec<String> {
    let world = World::new().await;
    let meddler = world.meddler();
    let (runtime, _) = toy(meddler.client(), world.options());
    let running = start(runtime);
    for step in 0..40usize {
        world.put_parent(&format!("p{}", step % 7), step % 5).await;
        match step % 6 {
            0 => meddler.meddle("POST", CHILDREN, 2, Meddling::LoseAnswer),
            1 => meddler.meddle("POST", CHILDREN, 1, Meddling::Answer(500)),
            2 => meddler.cut_watches(),
            3 => meddler.meddle("WATCH", CHILDREN, 1, Meddling::Answer(410)),
            4 => drop(world.children().delete(&format!("p{}-000", step % 7), &DeleteParams::default()).await),
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(37)).await;
    }
    tokio::time::sleep(Duration::from_mins(5)).await;
    running.settled().await;
    let wanted: usize = (0..7).map(|parent| (33..40usize).find(|step| step % 7 == parent).unwrap() % 5).sum();
    assert_eq!(world.child_names().await.len(), wanted);
    running.stop().await;
    std::mem::take(&mut *meddler.log.lock())
}

#[test]
fn the_same_day_makes_the_same_requests() {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(day())
    };
    let first = run();
    assert!(first.len() > 100, "{} requests", first.len());
    for _ in 0..5 {
        let again = run();
        let differs = first.iter().zip(&again).position(|(one, other)| one != other);
        assert_eq!((again.len(), differs.map(|at| (&first[at], &again[at]))), (first.len(), None));
    }
}
