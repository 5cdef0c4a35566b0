//! A few more tries for what usually works: a server that is just starting, a connection that was cut.
//!
//! Decides how often and how far apart. Never decides what to do when all tries have failed.

use std::time::Duration;

/// How often something is tried, and how the pause between two tries grows. As in the Go agents.
const TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const PAUSE_GROWTH: u32 = 5;

/// The first success, or the last failure.
pub(crate) async fn tried<T, E, F>(attempt: impl Fn() -> F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut pause = FIRST_PAUSE;
    for _ in 1..TRIES {
        if let Ok(success) = attempt().await {
            return Ok(success);
        }
        tokio::time::sleep(pause).await;
        pause *= PAUSE_GROWTH;
    }
    attempt().await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::Instant;

    use super::*;

    /// What comes of an attempt that succeeds from this one on, and how long it took.
    async fn succeeding_at(number: u32) -> (Result<u32, u32>, u128) {
        let (tries, begun) = (AtomicU32::new(0), Instant::now());
        let attempt = || {
            let this = tries.fetch_add(1, Ordering::Relaxed) + 1;
            std::future::ready(if this >= number { Ok(this) } else { Err(this) })
        };
        (tried(attempt).await, begun.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn four_tries_are_made_within_a_third_of_a_second() {
        assert_eq!(succeeding_at(1).await, (Ok(1), 0));
        assert_eq!(succeeding_at(3).await, (Ok(3), 60));
        assert_eq!(succeeding_at(4).await, (Ok(4), 310));
        assert_eq!(succeeding_at(5).await, (Err(4), 310));
    }
}
