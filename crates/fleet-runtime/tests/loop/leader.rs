//! One process acts, the others stand by.

use std::time::Duration;

use fleet_runtime::leader::{LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD};
use fleet_runtime::{Election, Options, Timing};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use crate::meddler::Meddling;
use crate::toy::{PARENTS, Running, World, start, toy};

fn options(world: &World, identity: &str) -> Options {
    let (namespace, name, identity) = (PARENTS.to_owned(), "leader".to_owned(), identity.to_owned());
    let election = Election { namespace, name, identity, timing: Timing::default() };
    Options { election: Some(election), ..world.options() }
}

async fn lease(world: &World) -> Lease {
    Api::namespaced(world.client(), PARENTS).get("leader").await.unwrap()
}

async fn holder(world: &World) -> String {
    lease(world).await.spec.unwrap().holder_identity.unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_standby_is_warm_and_takes_over_at_once_when_the_leader_says_goodbye() {
    let world = World::new().await;
    world.put_parent("a", 1).await;
    let (first, _) = toy(world.client(), options(&world, "first"));
    let first = start(first);
    first.settled().await;
    let (second, plans) = toy(world.client(), options(&world, "second"));
    let second = start(second);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(holder(&world).await, "first");
    assert!(second.progress.is_synced(), "its caches are complete");
    assert_eq!((plans.load(std::sync::atomic::Ordering::Relaxed), second.metrics.writes()), (0, 0), "it does nothing");

    first.stop().await;
    world.put_parent("b", 1).await;
    tokio::time::sleep(RETRY_PERIOD).await;
    second.settled().await;
    assert_eq!((holder(&world).await, second.metrics.writes()), ("second".to_owned(), 1));
    assert_eq!(world.child_names().await, ["a-000", "b-000"]);
    let spec = lease(&world).await.spec.unwrap();
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(15), Some(1)));
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_gives_its_lease_up_though_a_renewal_of_its_own_comes_in_between() {
    let world = World::new().await;
    let meddler = world.meddler();
    let (first, _) = toy(meddler.client(), options(&world, "first"));
    let first = start(first);
    first.settled().await;
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{PARENTS}/leases/leader");
    let body = r#"{"spec": {"renewTime": "2026-01-01T00:00:00.500000Z"}}"#.to_owned();
    meddler.meddle("PUT", "leases", 1, Meddling::After { method: "PATCH", path, body });
    first.stop().await;
    assert_eq!(holder(&world).await, "");
}

#[tokio::test(start_paused = true)]
async fn a_crashed_leader_is_followed_when_its_lease_has_run_out() {
    let world = World::new().await;
    let (first, _) = toy(world.client(), options(&world, "first"));
    let first = start(first);
    first.settled().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (second, _) = toy(world.client(), options(&world, "second"));
    let second = start(second);
    tokio::time::sleep(Duration::from_secs(5)).await;
    first.crash().await;
    world.put_parent("a", 1).await;
    tokio::time::sleep(LEASE_DURATION.saturating_sub(RETRY_PERIOD * 2)).await;
    assert_eq!((holder(&world).await, world.child_names().await.len()), ("first".to_owned(), 0), "not yet");
    tokio::time::sleep(RETRY_PERIOD * 4).await;
    assert_eq!((holder(&world).await, world.child_names().await.len()), ("second".to_owned(), 1));
    second.stop().await;
}

/// Gives both something to do every tenth of a second, for half a minute. Says when the first ceased to act and when the second
/// began, and that never both did.
async fn relay(world: &World, first: &Running, second: &Running) -> (Duration, Duration) {
    let begun = tokio::time::Instant::now();
    let (mut stopped, mut began) = (None, None);
    for step in 0..300 {
        let (of_first, of_second) = (first.metrics.writes(), second.metrics.writes());
        world.put_parent("a", step % 2).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let acted = (first.metrics.writes() > of_first, second.metrics.writes() > of_second);
        assert_ne!(acted, (true, true), "two act at once after {:?}", begun.elapsed());
        assert!(!acted.0 || began.is_none(), "the first acts again after {:?}", begun.elapsed());
        if !acted.0 && stopped.is_none() && step > 0 {
            stopped = Some(begun.elapsed());
        }
        if acted.1 && began.is_none() {
            began = Some(begun.elapsed());
        }
    }
    (stopped.unwrap(), began.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_another_one_begins() {
    let world = World::new().await;
    let meddler = world.meddler();
    let (first, _) = toy(meddler.client(), options(&world, "first"));
    let first = start(first);
    let (second, _) = toy(world.client(), options(&world, "second"));
    tokio::time::sleep(RETRY_PERIOD).await;
    let second = start(second);
    first.settled().await;
    for method in ["GET", "PUT"] {
        meddler.meddle(method, "leases", 1000, Meddling::Refuse);
    }
    let (stopped, began) = relay(&world, &first, &second).await;
    assert!(stopped <= RENEW_DEADLINE + Duration::from_millis(200), "{stopped:?}");
    assert!(began > stopped && began <= LEASE_DURATION + RETRY_PERIOD * 2, "{began:?}");
    assert_eq!(holder(&world).await, "second");
    first.stop().await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_counts_from_when_it_asked_and_not_from_when_it_was_answered() {
    let world = World::new().await;
    let meddler = world.meddler();
    let (first, _) = toy(meddler.client(), options(&world, "first"));
    let first = start(first);
    let (second, _) = toy(world.client(), options(&world, "second"));
    first.settled().await;
    let second = start(second);
    // One more renewal is stored at once and answered late; then nothing gets through.
    meddler.meddle("GET", "leases", 1, Meddling::Delay(Duration::ZERO));
    meddler.meddle("PUT", "leases", 1, Meddling::AnswerLate(RENEW_DEADLINE.saturating_sub(RETRY_PERIOD)));
    for method in ["GET", "PUT"] {
        meddler.meddle(method, "leases", 1000, Meddling::Refuse);
    }
    let (stopped, began) = relay(&world, &first, &second).await;
    assert!(stopped <= RETRY_PERIOD + RENEW_DEADLINE + Duration::from_millis(200), "{stopped:?}");
    assert!(began > stopped, "{began:?}");
    first.stop().await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn losing_the_lease_cuts_short_what_has_begun() {
    let world = World::new().await;
    world.put_parent("a", 5).await;
    let meddler = world.meddler();
    meddler.meddle("POST", "configmaps", 100, Meddling::Delay(Duration::from_secs(4)));
    let (first, _) = toy(meddler.client(), options(&world, "first"));
    let first = start(first);
    tokio::time::sleep(Duration::from_secs(1)).await;
    for method in ["GET", "PUT"] {
        meddler.meddle(method, "leases", 1000, Meddling::Refuse);
    }
    tokio::time::sleep(Duration::from_mins(1)).await;
    let asked = meddler.count("POST", "configmaps");
    assert!((2..=4).contains(&asked), "writes end with the leadership: {asked}");
    meddler.relent();
    tokio::time::sleep(Duration::from_mins(1)).await;
    first.settled().await;
    assert_eq!(world.child_names().await.len(), 5, "and go on with it");
    first.stop().await;
}
