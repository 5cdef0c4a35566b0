//! Termination signals: SIGTERM (from Kubernetes) and SIGINT (Ctrl-C).

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens from its creation on, so that an early signal causes a clean shutdown too.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Must be called within a tokio runtime.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?,
            terminate: signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?,
        })
    }

    /// Waits for the next termination signal.
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
