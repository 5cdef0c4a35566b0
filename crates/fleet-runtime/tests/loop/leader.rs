//! One process leads, the others stand by.

use std::time::Duration;

use fleet_runtime::leader::{LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD};
use fleet_runtime::{ClockOffset, Election, Options, Timing};
use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use crate::faulty_client::Fault;
use crate::fixture::{PARENTS, Running, TestServer, child_runtime, start};

fn options(server: &TestServer, identity: &str) -> Options {
    let (namespace, name, identity) = (PARENTS.to_owned(), "leader".to_owned(), identity.to_owned());
    let election = Election { namespace, name, identity, timing: Timing::default() };
    Options { election: Some(election), ..server.options() }
}

async fn lease(server: &TestServer) -> Lease {
    Api::namespaced(server.client(), PARENTS).get("leader").await.unwrap()
}

async fn holder(server: &TestServer) -> String {
    lease(server).await.spec.unwrap().holder_identity.unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_standby_is_synced_and_takes_over_at_once_when_the_leader_releases_the_lease() {
    let server = TestServer::new().await;
    server.put_parent("a", 1).await;
    let (first, _) = child_runtime(server.client(), options(&server, "first"));
    let first = start(first);
    first.settled().await;
    let (second, plans) = child_runtime(server.client(), options(&server, "second"));
    let second = start(second);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(holder(&server).await, "first");
    assert!(second.progress.is_synced(), "its caches are complete");
    assert_eq!((plans.load(std::sync::atomic::Ordering::Relaxed), second.metrics.writes()), (0, 0), "it does nothing");

    first.stop().await;
    server.put_parent("b", 1).await;
    tokio::time::sleep(RETRY_PERIOD).await;
    second.settled().await;
    assert_eq!((holder(&server).await, second.metrics.writes()), ("second".to_owned(), 1));
    assert_eq!(server.child_names().await, ["a-000", "b-000"]);
    let spec = lease(&server).await.spec.unwrap();
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(15), Some(1)));
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_releases_its_lease_despite_a_concurrent_renewal() {
    let server = TestServer::new().await;
    let faulty = server.faulty_client();
    let (first, _) = child_runtime(faulty.client(), options(&server, "first"));
    let first = start(first);
    first.settled().await;
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{PARENTS}/leases/leader");
    let body = r#"{"spec": {"renewTime": "2026-01-01T00:00:00.500000Z"}}"#.to_owned();
    faulty.inject("PUT", "leases", 1, Fault::After { method: "PATCH", path, body });
    first.stop().await;
    assert_eq!(holder(&server).await, "");
}

#[tokio::test(start_paused = true)]
async fn a_crashed_leader_is_replaced_when_its_lease_has_expired() {
    let server = TestServer::new().await;
    let (first, _) = child_runtime(server.client(), options(&server, "first"));
    let first = start(first);
    first.settled().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (second, _) = child_runtime(server.client(), options(&server, "second"));
    let second = start(second);
    tokio::time::sleep(Duration::from_secs(5)).await;
    first.kill().await;
    server.put_parent("a", 1).await;
    tokio::time::sleep(LEASE_DURATION.saturating_sub(RETRY_PERIOD * 2)).await;
    assert_eq!((holder(&server).await, server.child_names().await.len()), ("first".to_owned(), 0), "not yet");
    tokio::time::sleep(RETRY_PERIOD * 4).await;
    assert_eq!((holder(&server).await, server.child_names().await.len()), ("second".to_owned(), 1));
    second.stop().await;
}

/// Gives both something to do every tenth of a second, for half a minute. Returns when the first stopped writing and when the
/// second started, and asserts that they never write at the same time.
async fn take_over(server: &TestServer, first: &Running, second: &Running) -> (Duration, Duration) {
    let begun = tokio::time::Instant::now();
    let (mut stopped, mut began) = (None, None);
    for step in 0..300 {
        let (of_first, of_second) = (first.metrics.writes(), second.metrics.writes());
        server.put_parent("a", step % 2).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let acted = (first.metrics.writes() > of_first, second.metrics.writes() > of_second);
        assert_ne!(acted, (true, true), "both write after {:?}", begun.elapsed());
        assert!(!acted.0 || began.is_none(), "the first writes again after {:?}", begun.elapsed());
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
async fn a_leader_that_cannot_renew_stops_before_another_one_starts() {
    let server = TestServer::new().await;
    let faulty = server.faulty_client();
    let (first, _) = child_runtime(faulty.client(), options(&server, "first"));
    let first = start(first);
    let (second, _) = child_runtime(server.client(), options(&server, "second"));
    tokio::time::sleep(RETRY_PERIOD).await;
    let second = start(second);
    first.settled().await;
    for method in ["GET", "PUT"] {
        faulty.inject(method, "leases", 1000, Fault::Refuse);
    }
    let (stopped, began) = take_over(&server, &first, &second).await;
    assert!(stopped <= RENEW_DEADLINE + Duration::from_millis(200), "{stopped:?}");
    assert!(began > stopped && began <= LEASE_DURATION + RETRY_PERIOD * 2, "{began:?}");
    assert_eq!(holder(&server).await, "second");
    first.stop().await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_counts_from_when_it_sent_the_renewal_and_not_from_the_response() {
    let server = TestServer::new().await;
    let faulty = server.faulty_client();
    let (first, _) = child_runtime(faulty.client(), options(&server, "first"));
    let first = start(first);
    let (second, _) = child_runtime(server.client(), options(&server, "second"));
    first.settled().await;
    let second = start(second);
    // One more renewal is stored at once and its response is late; then all requests fail.
    faulty.inject("GET", "leases", 1, Fault::Delay(Duration::ZERO));
    faulty.inject("PUT", "leases", 1, Fault::DelayResponse(RENEW_DEADLINE.saturating_sub(RETRY_PERIOD)));
    for method in ["GET", "PUT"] {
        faulty.inject(method, "leases", 1000, Fault::Refuse);
    }
    let (stopped, began) = take_over(&server, &first, &second).await;
    assert!(stopped <= RETRY_PERIOD + RENEW_DEADLINE + Duration::from_millis(200), "{stopped:?}");
    assert!(began > stopped, "{began:?}");
    first.stop().await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn losing_the_lease_cancels_running_reconciles() {
    let server = TestServer::new().await;
    server.put_parent("a", 5).await;
    let faulty = server.faulty_client();
    faulty.inject("POST", "configmaps", 100, Fault::Delay(Duration::from_secs(4)));
    let (first, _) = child_runtime(faulty.client(), options(&server, "first"));
    let first = start(first);
    tokio::time::sleep(Duration::from_secs(1)).await;
    for method in ["GET", "PUT"] {
        faulty.inject(method, "leases", 1000, Fault::Refuse);
    }
    tokio::time::sleep(Duration::from_mins(1)).await;
    let posts = faulty.count("POST", "configmaps");
    assert!((2..=4).contains(&posts), "no writes after the lease is lost: {posts}");
    faulty.clear_faults();
    tokio::time::sleep(Duration::from_mins(1)).await;
    first.settled().await;
    assert_eq!(server.child_names().await.len(), 5, "writes continue with the lease");
    first.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_20_clock_skew_of_more_than_the_lease_duration_does_not_change_the_leader() {
    for (behind, ahead) in [(-2, 2), (2, -2), (0, 2), (0, -2)] {
        let server = TestServer::new().await;
        let skewed = |identity: &str, hours: i64| {
            let offset = ClockOffset::default();
            offset.set(SignedDuration::from_hours(hours));
            Options { clock: server.clock.with_offset(&offset), ..options(&server, identity) }
        };
        let first = start(child_runtime(server.client(), skewed("first", behind)).0);
        first.settled().await;
        let second = start(child_runtime(server.client(), skewed("second", ahead)).0);
        tokio::time::sleep(LEASE_DURATION * 4).await;
        assert_eq!(
            (holder(&server).await, second.metrics.writes()),
            ("first".to_owned(), 0),
            "{behind} and {ahead} hours"
        );

        // The standby takes over when the lease has expired by its own clock.
        first.kill().await;
        server.put_parent("a", 1).await;
        tokio::time::sleep(LEASE_DURATION.saturating_sub(RETRY_PERIOD * 2)).await;
        assert_eq!(holder(&server).await, "first", "{behind} and {ahead} hours: not yet");
        tokio::time::sleep(RETRY_PERIOD * 4).await;
        assert_eq!((holder(&server).await, second.metrics.writes()), ("second".to_owned(), 1));
        second.stop().await;
    }
}
