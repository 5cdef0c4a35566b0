//! Retries an operation a few times with growing delays, for servers that are starting and connections that were cut.

use std::time::Duration;

/// Number of attempts, and the growing delay between them. As in the Go agents.
const TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const PAUSE_GROWTH: u32 = 5;

/// The first success, or the last failure.
pub(crate) async fn retry_with_backoff<T, E, F>(attempt: impl Fn() -> F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut pause = FIRST_PAUSE;
    for _ in 1..TRIES {
        if let Ok(success) = attempt().await {
            return Ok(success);
        }
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(PAUSE_GROWTH);
    }
    attempt().await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::Instant;

    use super::*;

    /// Result and duration if the attempt with this number is the first to succeed.
    async fn succeeding_at(number: u32) -> (Result<u32, u32>, u128) {
        let (tries, begun) = (AtomicU32::new(0), Instant::now());
        let attempt = || {
            let this = tries.fetch_add(1, Ordering::Relaxed) + 1;
            std::future::ready(if this >= number { Ok(this) } else { Err(this) })
        };
        (retry_with_backoff(attempt).await, begun.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn four_attempts_are_made_within_a_third_of_a_second() {
        assert_eq!(succeeding_at(1).await, (Ok(1), 0));
        assert_eq!(succeeding_at(3).await, (Ok(3), 60));
        assert_eq!(succeeding_at(4).await, (Ok(4), 310));
        assert_eq!(succeeding_at(5).await, (Err(4), 310));
    }
}
