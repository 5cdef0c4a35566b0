//! The limits of the edge, each with a unit and a reason.
//!
//! Decides defaults only; whoever starts a server may choose others.

use std::time::Duration;

/// Bodies up to 3 MiB, as kube-apiserver takes them.
pub const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;
/// Of a body that is too large, this much more is read and dropped so that the client gets to read its refusal.
pub const MAX_DROPPED_BYTES: usize = 1024 * 1024;
/// Answers from this size on are compressed if the client asks for it; below it costs more than it saves.
pub const GZIP_FROM_BYTES: usize = 128 * 1024;
/// What a client that was turned away should wait.
pub const RETRY_AFTER_SECONDS: u32 = 1;

#[derive(Debug, Clone)]
pub struct Limits {
    /// Concurrent reads of all users together; more are answered with 429.
    pub max_reads: usize,
    /// Concurrent writes of all users together; more are answered with 429.
    pub max_writes: usize,
    /// Open watches of the whole server: each holds a cursor and a connection's buffers.
    pub max_watches: usize,
    /// Open watches of one user in one cluster, so that one client cannot take them all.
    pub max_watches_per_user: usize,
    /// Open connections; more wait in the listen queue of the kernel.
    pub max_connections: usize,
    /// Streams that one HTTP/2 connection may have open.
    pub max_streams_per_connection: u32,
    /// Time for a whole TLS handshake.
    pub handshake: Duration,
    /// Time for the head of a request, from the first moment that the connection could send it. It is also how long a
    /// connection may idle, so it is no shorter than clients keep theirs: one that is closed under them costs a request.
    pub header_read: Duration,
    /// Time for the whole body of a request.
    pub body_read: Duration,
    /// Time for everything but watches.
    pub request: Duration,
    /// How long open connections get to finish on shutdown.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_reads: 400,
            max_writes: 200,
            max_watches: 20_000,
            max_watches_per_user: 10_000,
            max_connections: 5000,
            max_streams_per_connection: 1000,
            handshake: Duration::from_secs(10),
            header_read: Duration::from_secs(95),
            body_read: Duration::from_secs(30),
            request: Duration::from_mins(1),
            drain: Duration::from_secs(10),
        }
    }
}
