//! The background tasks of a cluster. A task that panics is restarted; health checks and metrics show its state.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;

/// Time until a task that panicked is started again: long enough that one that panics at once does not use up a core.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// The tasks of one cluster, by name.
#[derive(Debug, Default)]
pub(crate) struct Tasks(Mutex<BTreeMap<&'static str, Arc<Task>>>);

/// The state of one task.
#[derive(Debug, Default)]
pub struct Task {
    failing: AtomicBool,
    restarts: AtomicU64,
}

/// The state of a task for health checks and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskState {
    pub(crate) name: &'static str,
    /// False from a panic until the task has completed a round of work.
    pub(crate) healthy: bool,
    /// How often the task was started again after a panic.
    pub(crate) restarts: u64,
}

impl Tasks {
    /// The task of this name, registered on the first call.
    pub(crate) fn register(&self, name: &'static str) -> Arc<Task> {
        self.0.lock().entry(name).or_default().clone()
    }

    pub(crate) fn states(&self) -> Vec<TaskState> {
        let state = |(name, task): (&&'static str, &Arc<Task>)| TaskState {
            name,
            healthy: !task.failing.load(Ordering::Relaxed),
            restarts: task.restarts.load(Ordering::Relaxed),
        };
        self.0.lock().iter().map(state).collect()
    }
}

impl Task {
    /// Records that the task has done all that was due.
    pub fn completed_round(&self) {
        self.failing.store(false, Ordering::Relaxed);
    }

    /// Runs the future of `start` until it ends. After a panic `start` is called again; no state is kept.
    pub async fn supervise<F: Future<Output = ()>>(&self, cluster: &str, name: &str, mut start: impl FnMut() -> F) {
        while AssertUnwindSafe(start()).catch_unwind().await.is_err() {
            self.failing.store(true, Ordering::Relaxed);
            self.restarts.fetch_add(1, Ordering::Relaxed);
            tracing::error!(cluster, task = name, "the task panicked and is started again");
            tokio::time::sleep(RESTART_AFTER).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn audit_02_a_task_that_panics_is_started_again_and_fails_its_check_until_it_has_worked() {
        let tasks = Tasks::default();
        let task = tasks.register("controllers");
        let seen = Mutex::new(Vec::new());
        let runs = AtomicU64::new(0);
        let start = || async {
            let run = runs.fetch_add(1, Ordering::Relaxed);
            seen.lock().extend(tasks.states());
            assert!(run >= 2, "run {run}");
            task.completed_round();
        };
        task.supervise("root", "controllers", start).await;
        let state = |healthy, restarts| TaskState { name: "controllers", healthy, restarts };
        assert_eq!(*seen.lock(), [state(true, 0), state(false, 1), state(false, 2)]);
        assert_eq!(tasks.states(), [state(true, 2)]);
    }
}
