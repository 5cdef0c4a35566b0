//! A boolean that tasks can wait for.
//!
//! Waiters are woken in the order in which they began to wait. `tokio::sync::watch` wakes them in random order, and two runs of
//! one simulation would differ.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

/// Clones are the same flag.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flag(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    set: AtomicBool,
    changed: Notify,
}

/// A flag that is dropped with its last `Flag`.
#[derive(Debug, Clone)]
pub(crate) struct WeakFlag(Weak<Inner>);

impl WeakFlag {
    pub(crate) fn upgrade(&self) -> Option<Flag> {
        self.0.upgrade().map(Flag)
    }
}

impl Flag {
    pub(crate) fn downgrade(&self) -> WeakFlag {
        WeakFlag(Arc::downgrade(&self.0))
    }

    pub(crate) fn new(value: bool) -> Self {
        let flag = Self::default();
        flag.set(value);
        flag
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.set.load(Ordering::Acquire)
    }

    /// Returns whether the value changed.
    pub(crate) fn set(&self, value: bool) -> bool {
        let changed = self.0.set.swap(value, Ordering::AcqRel) != value;
        if changed {
            self.0.changed.notify_waiters();
        }
        changed
    }

    /// Waits until the flag has this value.
    pub(crate) async fn becomes(&self, value: bool) {
        loop {
            let changed = self.0.changed.notified();
            if self.is_set() == value {
                return;
            }
            changed.await;
        }
    }

    /// Calls `f` whenever the flag is set, also if it was cleared and set again between two polls.
    pub(crate) async fn each_time_set(&self, mut f: impl FnMut()) -> Infallible {
        loop {
            let changed = self.0.changed.notified();
            if self.is_set() {
                f();
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
    async fn waiters_are_woken_in_the_order_in_which_they_began_to_wait() {
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
        assert!(flag.set(false) && !flag.is_set());
    }

    #[tokio::test]
    async fn every_setting_of_a_flag_is_delivered_even_if_it_was_cleared_only_briefly() {
        let (flag, told) = (Flag::default(), Arc::new(Mutex::new(0)));
        let task = tokio::spawn({
            let (flag, told) = (flag.clone(), told.clone());
            async move { flag.each_time_set(|| *told.lock() += 1).await }
        });
        for (values, expected) in [(&[][..], 0), (&[true], 1), (&[false], 1), (&[true], 2), (&[false, true], 3)] {
            for value in values {
                flag.set(*value);
            }
            tokio::task::yield_now().await;
            assert_eq!(*told.lock(), expected, "{values:?}");
        }
        task.abort();
    }
}
