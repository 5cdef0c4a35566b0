//! The default limits of the HTTP layer, each with a unit and a reason.

use std::time::Duration;

use super::connections::ConnectionLimits;

/// Bodies up to 3 MiB, as kube-apiserver takes them.
pub(crate) const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;
/// Of a body that is too large, this much more is read and dropped so that the client gets to read its refusal.
pub(crate) const MAX_DROPPED_BYTES: usize = 1024 * 1024;
/// Answers from this size on are compressed if the client asks for it; below it costs more than it saves.
pub(crate) const GZIP_FROM_BYTES: usize = 128 * 1024;
/// Responses go to a connection in pieces of this size, so that it takes up no more than it can send.
pub(crate) const RESPONSE_PIECE_BYTES: usize = 64 * 1024;
/// The Retry-After of a refused client.
pub(crate) const RETRY_AFTER_SECONDS: u32 = 1;

#[derive(Debug, Clone)]
pub struct Limits {
    /// Concurrent reads of all users together; more are answered with 429.
    pub max_reads: usize,
    /// Concurrent writes of all users together; more are answered with 429.
    pub max_writes: usize,
    /// Bytes of responses of all users together that clients have not read yet; more are answered with 429. A single
    /// response may be larger.
    pub max_response_bytes: usize,
    /// Open watches of the whole server: each holds a cursor and a connection's buffers.
    pub max_watches: usize,
    /// Open watches of one user in one cluster, so that one client cannot take them all.
    pub max_watches_per_user: usize,
    /// Open connections. One more closes the one that has been idle longest; if all are in use, it waits in the listen
    /// queue of the kernel.
    pub max_connections: usize,
    /// Open unauthenticated connections of one address: a fifth of all, so that one address cannot
    /// take them, and enough for many clients behind one address that start at the same time.
    pub max_unauthenticated_per_peer: usize,
    /// Streams that one HTTP/2 connection may have open.
    pub max_streams_per_connection: u32,
    /// Time for a whole TLS handshake.
    pub handshake: Duration,
    /// How long an unauthenticated connection may idle: a client that has connected has a request.
    pub unauthenticated_idle: Duration,
    /// Time for the head of a request, from the first moment that the connection could send it. It is also how long a
    /// connection may idle, so it is no shorter than clients keep theirs: one that is closed under them costs a request.
    pub header_read: Duration,
    /// Time for the whole body of a request.
    pub body_read: Duration,
    /// Time for everything but watches.
    pub request: Duration,
    /// How long a connection may wait for its peer to take what is written.
    pub write_stall: Duration,
    /// Time for a client to read a response, except that of a watch: as long as the request itself may take.
    pub response: Duration,
    /// How long open connections get to finish on shutdown.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_reads: 400,
            max_writes: 200,
            max_response_bytes: 256 << 20,
            max_watches: 20_000,
            max_watches_per_user: 10_000,
            max_connections: 5000,
            max_unauthenticated_per_peer: 1000,
            max_streams_per_connection: 1000,
            handshake: Duration::from_secs(10),
            unauthenticated_idle: Duration::from_secs(10),
            header_read: Duration::from_secs(95),
            body_read: Duration::from_secs(30),
            request: Duration::from_mins(1),
            write_stall: Duration::from_secs(30),
            response: Duration::from_mins(1),
            drain: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// The limits of connections.
    pub(crate) fn connections(&self) -> ConnectionLimits {
        ConnectionLimits {
            max_connections: self.max_connections,
            max_unauthenticated_per_peer: self.max_unauthenticated_per_peer,
            handshake: self.handshake,
            unauthenticated_idle: self.unauthenticated_idle,
            idle: self.header_read,
            response: self.response,
        }
    }
}
