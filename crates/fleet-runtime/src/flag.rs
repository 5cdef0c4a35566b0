//! A truth that others wait for.
//!
//! Wakes those who wait in the order in which they came: `tokio::sync::watch` wakes them at random, and two runs of one
//! simulation would differ.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Clones are the same flag.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flag(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    up: AtomicBool,
    changed: Notify,
}

impl Flag {
    pub(crate) fn new(up: bool) -> Self {
        let flag = Self::default();
        flag.set(up);
        flag
    }

    pub(crate) fn is_up(&self) -> bool {
        self.0.up.load(Ordering::Acquire)
    }

    /// Says whether that changed it.
    pub(crate) fn set(&self, up: bool) -> bool {
        let changed = self.0.up.swap(up, Ordering::AcqRel) != up;
        if changed {
            self.0.changed.notify_waiters();
        }
        changed
    }

    /// Waits until the flag is up or down.
    pub(crate) async fn becomes(&self, up: bool) {
        loop {
            let changed = self.0.changed.notified();
            if self.is_up() == up {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[tokio::test]
    async fn all_who_wait_are_woken_in_the_order_in_which_they_came() {
        let (flag, woken) = (Flag::default(), Arc::new(Mutex::new(Vec::new())));
        let tasks: Vec<_> = (0..20)
            .map(|number| {
                let (flag, woken) = (flag.clone(), woken.clone());
                tokio::spawn(async move {
                    flag.becomes(true).await;
                    woken.lock().push(number);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(flag.set(true) && !flag.set(true));
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*woken.lock(), (0..20).collect::<Vec<_>>());
        flag.becomes(true).await;
        assert!(flag.set(false) && !flag.is_up());
    }
}
