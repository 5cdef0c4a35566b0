//! Termination signals.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C and SIGTERM, from creation on.
#[derive(Debug)]
pub(crate) struct StopRequest {
    terminate: Signal,
    interrupt: Signal,
}

impl StopRequest {
    /// Create it before anything starts, so that an early Ctrl-C is not lost.
    pub(crate) fn listen() -> Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("listen for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("listen for Ctrl-C")?,
        })
    }

    /// Waits for a termination signal.
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
