//! API servers that take time for writes, as real ones do: a server carries out few writes at once, and a large object takes
//! longer than a small one. Requests wait in the order in which they arrived.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Time of a write without the size of its object: decoding, admission and the commit.
const PER_WRITE: Duration = Duration::from_millis(5);
/// Additional time per kilobyte of the stored object, most of it for the ownership of its fields.
const PER_KILOBYTE: Duration = Duration::from_micros(400);
const KILOBYTE: usize = 1000;
/// Writes that a server carries out at once, which is the number of its cores.
const WRITES_AT_ONCE: usize = 2;

/// A server that takes time for writes.
#[derive(Debug, Clone)]
pub(super) struct SlowServer(Arc<Semaphore>);

impl SlowServer {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(WRITES_AT_ONCE)))
    }

    /// Waits until the server is free for one more write. It is occupied until the permit is dropped.
    pub(super) async fn occupy(self) -> Option<OwnedSemaphorePermit> {
        self.0.acquire_owned().await.ok()
    }
}

/// How long a server takes to write an object of this size.
pub(super) fn time_to_write(bytes: usize) -> Duration {
    let kilobytes = u32::try_from(bytes.div_ceil(KILOBYTE)).unwrap_or(u32::MAX);
    PER_WRITE.saturating_add(PER_KILOBYTE.saturating_mul(kilobytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[test]
    fn large_objects_take_longer() {
        assert_eq!(time_to_write(0), Duration::from_millis(5));
        assert_eq!(time_to_write(2_500), Duration::from_micros(6_200));
        assert_eq!(time_to_write(300_000), Duration::from_millis(125));
    }

    #[tokio::test(start_paused = true)]
    async fn two_writes_are_carried_out_at_once_and_the_third_waits() {
        let (server, begun) = (SlowServer::new(), Instant::now());
        let write = |milliseconds| {
            let server = server.clone();
            async move {
                let _permit = server.occupy().await;
                tokio::time::sleep(Duration::from_millis(milliseconds)).await;
                begun.elapsed().as_millis()
            }
        };
        assert_eq!(tokio::join!(write(10), write(30), write(10)), (10, 30, 20));
    }
}
