//! Wakes all waiting tasks, in the order in which they began to wait.
//!
//! `tokio::sync::watch` wakes its waiters in random order, so that two runs of one simulation would differ.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Notifies all its subscriptions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notifier(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    generation: AtomicU64,
    waiting: Notify,
}

impl Notifier {
    pub(crate) fn notify(&self) {
        self.0.generation.fetch_add(1, Ordering::Release);
        self.0.waiting.notify_waiters();
    }

    /// A subscription to notifications from now on.
    pub(crate) fn subscribe(&self) -> Subscription {
        Subscription { seen: self.0.generation.load(Ordering::Acquire), notifier: self.clone() }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    notifier: Notifier,
    seen: u64,
}

impl Subscription {
    /// Marks all notifications until now as seen.
    pub(super) fn catch_up(&mut self) {
        self.seen = self.notifier.0.generation.load(Ordering::Acquire);
    }

    /// Whether there was a notification since the last `catch_up` or `notified`.
    #[cfg(test)]
    pub(crate) fn is_notified(&self) -> bool {
        self.notifier.0.generation.load(Ordering::Acquire) != self.seen
    }

    /// Waits for a notification since the last `catch_up` or `notified`. Cancel-safe.
    pub(crate) async fn notified(&mut self) {
        loop {
            let waiting = self.notifier.0.waiting.notified();
            let generation = self.notifier.0.generation.load(Ordering::Acquire);
            if generation != self.seen {
                self.seen = generation;
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
    async fn subscriptions_are_notified_in_the_order_in_which_they_wait() {
        let (notifier, seen) = (Notifier::default(), Arc::new(Mutex::new(Vec::new())));
        let tasks: Vec<_> = (0..20)
            .map(|number| {
                let (mut subscription, seen) = (notifier.subscribe(), seen.clone());
                tokio::spawn(async move {
                    for _ in 0..2 {
                        subscription.notified().await;
                        seen.lock().push(number);
                    }
                })
            })
            .collect();
        tokio::task::yield_now().await;
        notifier.notify();
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
        notifier.notify();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*seen.lock(), (0..20).chain(0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_notification_before_the_wait_is_not_lost_and_a_seen_one_is_not_repeated() {
        let notifier = Notifier::default();
        let mut subscription = notifier.subscribe();
        notifier.notify();
        subscription.notified().await;
        notifier.notify();
        subscription.catch_up();
        let again = tokio::time::timeout(std::time::Duration::from_millis(1), subscription.notified());
        assert!(again.await.is_err());
    }
}
