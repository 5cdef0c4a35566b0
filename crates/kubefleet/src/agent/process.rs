//! The life of an agent process: it runs until it is asked to stop, and then ends soon, whatever is still under way.
//!
//! Decides how long an end may take. Never decides what runs.

use std::time::Duration;

use anyhow::Context as _;

use super::signals::Signals;

/// From the signal to the end of the process. Kubernetes gives 30 s, but a standby waits for the lease meanwhile.
pub(crate) const LONGEST_END: Duration = Duration::from_millis(1900);
/// What threads get that are in a call of the operating system (a look-up of a name) when everything else has ended.
const LAST_CALLS: Duration = Duration::from_millis(50);

/// Runs an agent. `agent` gets a future that is ready when the process is asked to stop; it has `LONGEST_END` from then on.
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
            () = signals.asked_to_stop() => tracing::info!("asked to stop"),
        }
        asked.send_replace(true);
        tokio::select! {
            outcome = tokio::time::timeout(LONGEST_END, agent) => {
                if let Ok(outcome) = outcome {
                    tracing::info!("stopped");
                    return outcome;
                }
                tracing::warn!("what was under way did not end in time; it is cut short");
                Ok(())
            }
            () = signals.asked_to_stop() => {
                tracing::warn!("asked to stop again; what is under way is cut short");
                Ok(())
            }
        }
    });
    runtime.shutdown_timeout(LAST_CALLS);
    outcome
}

/// Tells that the process was asked to stop. Clones tell the same.
#[derive(Debug, Clone)]
pub(crate) struct Stop(tokio::sync::watch::Receiver<bool>);

impl Stop {
    /// Ready once the process was asked to stop, at any time before or after this call.
    pub(crate) async fn asked(mut self) {
        // The sender lives as long as the process; without it, stopping is right too.
        drop(self.0.wait_for(|asked| *asked).await);
    }
}
