//! When a person or a supervisor wants a chore to stop. What was started is then dropped, never left behind.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C and SIGTERM, from the moment of creation on.
#[derive(Debug)]
pub struct StopRequest {
    terminate: Signal,
    interrupt: Signal,
}

impl StopRequest {
    /// To be created before anything is started, so that an early Ctrl-C is not lost.
    pub fn listen() -> Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("listen for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("listen for Ctrl-C")?,
        })
    }

    /// Returns when a stop was asked for.
    pub async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
