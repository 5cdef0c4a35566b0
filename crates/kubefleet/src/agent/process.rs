//! Runs an agent process until a termination signal, with a bounded shutdown.

use std::time::Duration;

use anyhow::Context as _;

use super::signals::Signals;

/// Longest shutdown. Kubernetes allows 30 s, but a standby replica waits for the lease meanwhile.
pub(crate) const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(1900);
/// How long to wait for blocking system calls (such as DNS lookups) after everything else has ended.
const BLOCKING_CALLS_TIMEOUT: Duration = Duration::from_millis(50);

/// Runs an agent. After a termination signal it has `SHUTDOWN_TIMEOUT` to end.
pub(crate) fn run<A>(agent: impl FnOnce(Stop) -> A) -> anyhow::Result<()>
where
    A: Future<Output = anyhow::Result<()>>,
{
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?;
    let outcome = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let (asked, stop) = tokio::sync::watch::channel(false);
        let agent = agent(Stop(stop));
        tokio::pin!(agent);
        tokio::select! {
            outcome = &mut agent => return outcome,
            () = signals.received() => tracing::info!("received a termination signal; shutting down"),
        }
        asked.send_replace(true);
        tokio::select! {
            outcome = tokio::time::timeout(SHUTDOWN_TIMEOUT, agent) => {
                if let Ok(outcome) = outcome {
                    tracing::info!("stopped");
                    return outcome;
                }
                tracing::warn!("shutdown timed out; cancelling the work in progress");
                Ok(())
            }
            () = signals.received() => {
                tracing::warn!("received a second termination signal; cancelling the work in progress");
                Ok(())
            }
        }
    });
    runtime.shutdown_timeout(BLOCKING_CALLS_TIMEOUT);
    outcome
}

/// The shutdown signal. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Stop(tokio::sync::watch::Receiver<bool>);

impl Stop {
    /// Completes once shutdown was requested, before or after this call.
    pub(crate) async fn asked(mut self) {
        // The sender lives as long as the process; if it is dropped, stop too.
        drop(self.0.wait_for(|asked| *asked).await);
    }
}
