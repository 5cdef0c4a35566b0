//! The open connections of a listener: limits, idle timeouts, and which connection is closed when there are too many.
//! Also used by the servers of the agents.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::server::graceful::GracefulConnection;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

/// Time that a closing connection has to notify its client.
const CLOSING_GRACE: Duration = Duration::from_secs(1);

/// How many connections there may be and how long they may do nothing.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Connections at a time. When there are that many, the one that has been idle longest is closed for a new one.
    pub max_connections: usize,
    /// Unauthenticated connections of one address. One more closes the oldest idle one of them.
    pub max_unauthenticated_per_peer: usize,
    /// Time from accept to the end of the TLS handshake.
    pub handshake: Duration,
    /// How long an unauthenticated connection may be idle.
    pub unauthenticated_idle: Duration,
    /// How long any other connection may be idle.
    pub idle: Duration,
    /// Time for a client to read a whole response, except that of a watch.
    pub response: Duration,
}

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// A newer connection takes its place.
    Replaced,
    /// It was idle, or its handshake took too long.
    Idle,
    /// The client did not read a response in time.
    ResponseNotRead,
}

impl fmt::Display for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Closing::Replaced => "replaced by a newer connection",
            Closing::Idle => "idle for too long",
            Closing::ResponseNotRead => "the client did not read a response in time",
        })
    }
}

/// Why a connection is not accepted now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    /// All connections are in use.
    AllInUse,
    /// This address has too many in use without authentication.
    OfThisPeer,
}

/// The connections of one listener. Clones share them.
#[derive(Debug, Clone)]
pub struct Connections {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limits: ConnectionLimits,
    table: Mutex<Table>,
    /// Notified when a connection ends or becomes idle.
    room: Notify,
}

#[derive(Debug, Default)]
struct Table {
    last_id: u64,
    open: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    peer: IpAddr,
    /// When it was accepted, or when its last request ended.
    idle_since: Instant,
    secured: bool,
    authenticated: bool,
    /// Requests whose response has not been read to its end.
    requests: usize,
    /// Until when responses must have been read.
    responses: BTreeSet<(Instant, u64)>,
    replaced: bool,
    changed: Arc<Notify>,
}

impl Entry {
    fn is_idle(&self) -> bool {
        self.requests == 0 && !self.replaced
    }
}

impl Connections {
    pub fn new(limits: ConnectionLimits) -> Self {
        Self { shared: Arc::new(Shared { limits, table: Mutex::default(), room: Notify::new() }) }
    }

    /// Accepts a new connection of this address, in place of an idle one if there are too many; waits while all are in
    /// use. `None` if the address has as many connections in use without authentication as it may have.
    pub async fn admit(&self, peer: IpAddr) -> Option<OpenConnection> {
        loop {
            let changed = self.shared.room.notified();
            match self.try_admit(peer) {
                Ok(open) => return Some(open),
                Err(Refused::OfThisPeer) => return None,
                Err(Refused::AllInUse) => changed.await,
            }
        }
    }

    fn try_admit(&self, peer: IpAddr) -> Result<OpenConnection, Refused> {
        let limits = &self.shared.limits;
        let mut table = self.shared.table.lock();
        let of_peer = |entry: &Entry| entry.peer == peer && !entry.authenticated && !entry.replaced;
        if table.open.values().filter(|entry| of_peer(entry)).count() >= limits.max_unauthenticated_per_peer {
            table.replace_one(of_peer).ok_or(Refused::OfThisPeer)?;
        }
        if table.count() >= limits.max_connections {
            table.replace_one(|_| true).ok_or(Refused::AllInUse)?;
        }
        table.last_id += 1;
        let (id, changed) = (table.last_id, Arc::new(Notify::new()));
        let entry = Entry {
            peer,
            idle_since: Instant::now(),
            secured: false,
            authenticated: false,
            requests: 0,
            responses: BTreeSet::new(),
            replaced: false,
            changed: Arc::clone(&changed),
        };
        table.open.insert(id, entry);
        Ok(OpenConnection { handle: ConnectionHandle { id, shared: Arc::clone(&self.shared) }, changed })
    }

    /// How many connections are open.
    pub(crate) fn count(&self) -> usize {
        self.shared.table.lock().open.len()
    }

    /// Completes when no connection is open.
    pub(crate) async fn none_left(&self) {
        loop {
            let changed = self.shared.room.notified();
            if self.count() == 0 {
                return;
            }
            changed.await;
        }
    }
}

impl Table {
    /// Connections that hold a place.
    fn count(&self) -> usize {
        self.open.values().filter(|entry| !entry.replaced).count()
    }

    /// Closes the connection that has been idle longest, one without authentication before all others.
    fn replace_one(&mut self, candidate: impl Fn(&Entry) -> bool) -> Option<()> {
        let idle = self.open.iter_mut().filter(|(_, entry)| entry.is_idle() && candidate(entry));
        let (_, victim) = idle.min_by_key(|(id, entry)| (entry.authenticated, entry.idle_since, **id))?;
        victim.replaced = true;
        victim.changed.notify_one();
        Some(())
    }
}

/// A connection, for the task that serves it. It is closed for the table when this is dropped.
#[derive(Debug)]
pub struct OpenConnection {
    handle: ConnectionHandle,
    changed: Arc<Notify>,
}

impl OpenConnection {
    /// For requests on this connection.
    pub fn handle(&self) -> ConnectionHandle {
        self.handle.clone()
    }

    /// The TLS handshake is complete.
    pub fn secured(&self) {
        self.handle.change(|entry| {
            entry.secured = true;
            entry.idle_since = Instant::now();
        });
    }

    /// Completes when the connection is to be closed.
    pub async fn closing(&self) -> Closing {
        loop {
            let changed = self.changed.notified();
            match self.next() {
                Next::Close(why) => return why,
                Next::At(deadline) => tokio::select! { () = changed => {}, () = sleep_until(deadline) => {} },
                Next::Wait => changed.await,
            }
        }
    }

    /// Serves the connection until it ends, has to be closed, or `stop` completes; then requests in flight get `grace`.
    pub async fn serve<C: GracefulConnection>(
        self,
        serving: C,
        stop: impl Future<Output = ()>,
        grace: Duration,
    ) -> Result<(), C::Error> {
        let mut serving = pin!(serving);
        let grace = tokio::select! {
            ended = serving.as_mut() => return ended,
            why = self.closing() => {
                tracing::debug!(%why, "closing a connection");
                CLOSING_GRACE
            }
            () = stop => grace,
        };
        serving.as_mut().graceful_shutdown();
        // What is not done by then is dropped with the connection.
        timeout(grace, serving).await.unwrap_or(Ok(()))
    }

    fn next(&self) -> Next {
        let limits = &self.handle.shared.limits;
        let table = self.handle.shared.table.lock();
        let Some(entry) = table.open.get(&self.handle.id) else { return Next::Close(Closing::Replaced) };
        if entry.replaced {
            return Next::Close(Closing::Replaced);
        }
        let (deadline, why) = if entry.requests > 0 {
            let Some((deadline, _)) = entry.responses.first() else { return Next::Wait };
            (*deadline, Closing::ResponseNotRead)
        } else {
            let longest = match (entry.secured, entry.authenticated) {
                (false, _) => limits.handshake,
                (true, false) => limits.unauthenticated_idle,
                (true, true) => limits.idle,
            };
            (entry.idle_since.checked_add(longest).unwrap_or(entry.idle_since), Closing::Idle)
        };
        if deadline <= Instant::now() { Next::Close(why) } else { Next::At(deadline) }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.handle.shared.table.lock().open.remove(&self.handle.id);
        self.handle.shared.room.notify_waiters();
    }
}

enum Next {
    Close(Closing),
    At(Instant),
    Wait,
}

/// A connection, for requests on it.
#[derive(Debug, Clone)]
pub struct ConnectionHandle {
    id: u64,
    shared: Arc<Shared>,
}

impl ConnectionHandle {
    /// Somebody has authenticated on this connection.
    pub fn authenticated(&self) {
        self.change(|entry| entry.authenticated = true);
    }

    /// A request has begun. It counts until the result is dropped.
    pub fn request(&self) -> InFlight {
        self.change(|entry| entry.requests += 1);
        InFlight { connection: self.clone(), deadline: None }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let mut table = self.shared.table.lock();
        let entry = table.open.get_mut(&self.id)?;
        let out = change(entry);
        entry.changed.notify_one();
        Some(out)
    }
}

/// A request that has not been answered, or whose response has not been read to its end.
#[derive(Debug)]
pub struct InFlight {
    connection: ConnectionHandle,
    deadline: Option<(Instant, u64)>,
}

impl InFlight {
    /// The response is there: from now on the client has to read it.
    pub fn responding(&mut self) {
        let mut table = self.connection.shared.table.lock();
        table.last_id += 1;
        let now = Instant::now();
        let deadline = (now.checked_add(self.connection.shared.limits.response).unwrap_or(now), table.last_id);
        if let Some(entry) = table.open.get_mut(&self.connection.id) {
            entry.responses.insert(deadline);
            entry.changed.notify_one();
            self.deadline = Some(deadline);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.connection.change(|entry| {
            entry.requests -= 1;
            entry.idle_since = Instant::now();
            if let Some(deadline) = &self.deadline {
                entry.responses.remove(deadline);
            }
        });
        self.connection.shared.room.notify_waiters();
    }
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
