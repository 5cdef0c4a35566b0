//! Agents at work in the background, and waiting for what they do. Paused time advances only while all tasks are idle, so
//! that waiting takes no real time.

use std::time::Duration;

use fleet_runtime::{Clock, Metrics, Options, Ownership, Progress, Runtime, Seeds, TaskPanicked};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Virtual time after which a state that was not reached never will be.
const TIMEOUT: Duration = Duration::from_mins(30);

/// The options of an agent whose writes are checked against the fields that it owns.
pub fn runtime_options(component: &str, clock: &Clock, ownership: Ownership) -> Options {
    Options {
        component: component.to_owned(),
        clock: clock.clone(),
        seeds: Seeds::starting_with(1),
        strict: true,
        metrics: Metrics::default(),
        ownership,
        ..Options::default()
    }
}

/// A runtime in the background, and what was installed in it.
pub struct Running<T = ()> {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), TaskPanicked>>,
    pub progress: Progress,
    pub metrics: Metrics,
    pub installed: T,
}

impl<T> Running<T> {
    pub fn start(runtime: Runtime, installed: T) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (progress, metrics) = (runtime.progress(), runtime.metrics().clone());
        let task = tokio::spawn(runtime.run(async move { drop(stopped.await) }));
        Self { stop, task, progress, metrics, installed }
    }

    pub async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap().unwrap();
    }

    /// Ends it without a graceful shutdown, whatever it is doing.
    pub async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    /// Waits until it ends by itself, and returns why.
    pub async fn panicked(self) -> TaskPanicked {
        self.task.await.unwrap().unwrap_err()
    }

    /// Whether all caches are synced and no key is due. Wake-ups and deferred statuses may be left.
    pub fn is_idle(&self) -> bool {
        self.progress.is_synced() && self.progress.is_idle()
    }

    pub async fn settled(&self) {
        self.settled_and(|_| true).await;
    }

    /// Waits until it is idle and this also holds.
    pub async fn settled_and(&self, also: impl Fn(&T) -> bool) {
        until_stable("everything is settled", || self.is_idle() && also(&self.installed)).await;
    }
}

/// Waits until a condition holds twice in a row, with all other tasks idle in between: watch events may be on their way.
pub async fn until_stable(what: &str, mut reached: impl FnMut() -> bool) {
    let begun = tokio::time::Instant::now();
    let mut times = 0;
    while times < 2 {
        assert!(begun.elapsed() < TIMEOUT, "timed out waiting until {what}");
        times = if reached() { times + 1 } else { 0 };
        pass(Duration::from_millis(1)).await;
    }
}

/// Waits until a condition holds that takes requests to see.
pub async fn until<F: Future<Output = bool>>(what: &str, mut reached: impl FnMut() -> F) {
    let begun = tokio::time::Instant::now();
    while !reached().await {
        assert!(begun.elapsed() < TIMEOUT, "timed out waiting until {what}");
        pass(Duration::from_millis(100)).await;
    }
}

/// Lets virtual time pass.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}
