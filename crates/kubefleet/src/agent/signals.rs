//! When the process is asked to end: SIGTERM (from Kubernetes) or SIGINT (Ctrl-C).
//!
//! Decides that the first of either counts. Never ends the process itself.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens from the moment it is made, so that an early signal ends the process as cleanly as a late one.
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

    /// Returns when the next signal comes.
    pub(crate) async fn asked_to_stop(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
