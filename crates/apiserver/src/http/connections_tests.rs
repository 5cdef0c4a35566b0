//! Which connections are closed, and when. Time is paused and advances only where a test waits.

use std::net::Ipv4Addr;

use tokio::time::{advance, timeout};

use super::*;

const LIMITS: ConnectionLimits = ConnectionLimits {
    max_connections: 4,
    max_unauthenticated_per_peer: 3,
    handshake: Duration::from_secs(5),
    unauthenticated_idle: Duration::from_secs(10),
    idle: Duration::from_secs(90),
    response: Duration::from_mins(1),
};
const SECOND: Duration = Duration::from_secs(1);

fn peer(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

/// Why the connection is to be closed at this moment; `None` if it may stay.
async fn closing_now(connection: &OpenConnection) -> Option<Closing> {
    timeout(Duration::ZERO, connection.closing()).await.ok()
}

fn secured(connections: &Connections, from: IpAddr) -> OpenConnection {
    let connection = connections.try_admit(from).unwrap();
    connection.secured();
    connection
}

fn authenticated(connections: &Connections, from: IpAddr) -> OpenConnection {
    let connection = secured(connections, from);
    connection.handle().authenticated();
    connection
}

#[tokio::test(start_paused = true)]
async fn audit_14_a_new_connection_replaces_the_one_that_has_been_idle_longest() {
    let connections = Connections::new(LIMITS);
    let known = authenticated(&connections, peer(1));
    advance(SECOND).await;
    let first = secured(&connections, peer(2));
    advance(SECOND).await;
    let second = secured(&connections, peer(3));
    let busy = secured(&connections, peer(4));
    let request = busy.handle().request();
    // Full: the oldest unauthenticated connection is closed, though an authenticated one has been idle for longer.
    let third = secured(&connections, peer(5));
    assert_eq!(closing_now(&first).await, Some(Closing::Replaced));
    for stays in [&known, &second, &busy, &third] {
        assert_eq!(closing_now(stays).await, None);
    }
    // Only when no such connection is left, an authenticated one goes.
    let requests = [second.handle().request(), third.handle().request()];
    drop(first);
    let _fourth = secured(&connections, peer(6));
    assert_eq!(closing_now(&known).await, Some(Closing::Replaced));
    drop((request, requests));
}

#[tokio::test(start_paused = true)]
async fn audit_14_one_address_cannot_use_all_connections_without_authentication() {
    let connections = Connections::new(LIMITS);
    let other = secured(&connections, peer(9));
    advance(SECOND).await;
    let mut idle = Vec::new();
    for _ in 0..5 {
        idle.push(secured(&connections, peer(1)));
        advance(SECOND).await;
    }
    let mut closed = Vec::new();
    for connection in &idle {
        closed.push(closing_now(connection).await.is_some());
    }
    assert_eq!(closed, [true, true, false, false, false]);
    assert_eq!(closing_now(&other).await, None, "the other address keeps its connection");
    // Requests in flight are never cut off for a newer connection; the newcomer is refused.
    let requests: Vec<InFlight> = idle[2..].iter().map(|connection| connection.handle().request()).collect();
    assert!(connections.admit(peer(1)).await.is_none());
    drop(requests);
    assert!(connections.admit(peer(1)).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn audit_14_handshakes_and_idle_connections_have_deadlines() {
    let connections = Connections::new(LIMITS);
    let started = Instant::now();
    let silent = connections.try_admit(peer(1)).unwrap();
    assert_eq!((silent.closing().await, started.elapsed()), (Closing::Idle, LIMITS.handshake));
    let started = Instant::now();
    let nobody = secured(&connections, peer(1));
    assert_eq!((nobody.closing().await, started.elapsed()), (Closing::Idle, LIMITS.unauthenticated_idle));
    let started = Instant::now();
    let known = authenticated(&connections, peer(1));
    assert_eq!((known.closing().await, started.elapsed()), (Closing::Idle, LIMITS.idle));
    // The end of a request restarts the timeout.
    let started = Instant::now();
    let used = secured(&connections, peer(1));
    let request = used.handle().request();
    assert!(timeout(Duration::from_hours(1), used.closing()).await.is_err(), "a request may take its time");
    drop(request);
    let expected = Duration::from_hours(1) + LIMITS.unauthenticated_idle;
    assert_eq!((used.closing().await, started.elapsed()), (Closing::Idle, expected));
}

#[tokio::test(start_paused = true)]
async fn audit_13_a_response_must_be_read_in_time() {
    let connections = Connections::new(LIMITS);
    let connection = authenticated(&connections, peer(1));
    let (mut slow, mut quick) = (connection.handle().request(), connection.handle().request());
    slow.responding();
    advance(SECOND).await;
    quick.responding();
    drop(quick);
    let started = Instant::now();
    assert_eq!(connection.closing().await, Closing::ResponseNotRead);
    assert_eq!(started.elapsed(), LIMITS.response.saturating_sub(SECOND));
    drop(slow);
    assert_eq!(closing_now(&connection).await, None, "the response was read after all");
}

#[tokio::test(start_paused = true)]
async fn a_listener_waits_only_while_all_connections_are_in_use() {
    let connections = Connections::new(LIMITS);
    let open: Vec<OpenConnection> = (1..=4).map(|last| secured(&connections, peer(last))).collect();
    let mut requests: Vec<InFlight> = open.iter().map(|connection| connection.handle().request()).collect();
    let waiting = connections.admit(peer(5));
    tokio::pin!(waiting);
    assert!(timeout(Duration::from_hours(1), &mut waiting).await.is_err());
    requests.pop();
    let newcomer = waiting.await.unwrap();
    assert_eq!(closing_now(&open[3]).await, Some(Closing::Replaced));
    drop((requests, open, newcomer));
    connections.none_left().await;
}
