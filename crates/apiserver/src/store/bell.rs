//! Wakes everybody who waits for news, in the order in which they began to wait.
//!
//! `tokio::sync::watch` spreads its waiters at random, so that two runs of one simulation would differ. Never says what
//! the news is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Rings for all its listeners.
#[derive(Debug, Clone, Default)]
pub(super) struct Bell(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    rung: AtomicU64,
    waiting: Notify,
}

impl Bell {
    pub(super) fn ring(&self) {
        self.0.rung.fetch_add(1, Ordering::Release);
        self.0.waiting.notify_waiters();
    }

    /// Hears what rings from now on.
    pub(super) fn listener(&self) -> Listener {
        Listener { heard: self.0.rung.load(Ordering::Acquire), bell: self.clone() }
    }
}

#[derive(Debug)]
pub(super) struct Listener {
    bell: Bell,
    heard: u64,
}

impl Listener {
    /// What rang until now is known.
    pub(super) fn catch_up(&mut self) {
        self.heard = self.bell.0.rung.load(Ordering::Acquire);
    }

    /// Waits for a ring since the last `catch_up` or `rings`. Cancelling loses nothing.
    pub(super) async fn rings(&mut self) {
        loop {
            let waiting = self.bell.0.waiting.notified();
            let rung = self.bell.0.rung.load(Ordering::Acquire);
            if rung != self.heard {
                self.heard = rung;
                return;
            }
            waiting.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[tokio::test]
    async fn listeners_hear_every_ring_in_the_order_in_which_they_wait() {
        let (bell, heard) = (Bell::default(), Arc::new(Mutex::new(Vec::new())));
        let tasks: Vec<_> = (0..20)
            .map(|number| {
                let (mut listener, heard) = (bell.listener(), heard.clone());
                tokio::spawn(async move {
                    for _ in 0..2 {
                        listener.rings().await;
                        heard.lock().push(number);
                    }
                })
            })
            .collect();
        tokio::task::yield_now().await;
        bell.ring();
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
        bell.ring();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*heard.lock(), (0..20).chain(0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_ring_before_the_wait_is_not_lost_and_a_known_one_is_not_repeated() {
        let bell = Bell::default();
        let mut listener = bell.listener();
        bell.ring();
        listener.rings().await;
        bell.ring();
        listener.catch_up();
        let again = tokio::time::timeout(std::time::Duration::from_millis(1), listener.rings());
        assert!(again.await.is_err());
    }
}
