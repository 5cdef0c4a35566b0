//! What a controller may do while it fetches: read, and write where the next request depends on the response.

use std::fmt;

use crate::controller::{PlanInput, WriteResult};
use crate::reader::Reader;
use crate::worker::Context;
use crate::write::Write;

/// Reads and writes of one reconcile.
#[derive(Clone, Copy)]
pub struct ReconcileContext<'a> {
    context: &'a Context,
    controller: &'static str,
}

impl fmt::Debug for ReconcileContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReconcileContext").field("controller", &self.controller).finish_non_exhaustive()
    }
}

impl<'a> ReconcileContext<'a> {
    pub(crate) fn new(context: &'a Context, controller: &'static str) -> Self {
        Self { context, controller }
    }

    pub fn reader(&self) -> &'a Reader {
        &self.context.reader
    }

    /// Sends a write now, with the same checks, metrics and cache update as the writes of a plan.
    pub async fn write(&self, write: &Write) -> WriteResult {
        if write.is_nothing() {
            return Ok(None);
        }
        self.context.writer.send(self.controller, write, true).await.map(|written| written.object)
    }

    /// The current time and a fresh seed.
    pub fn plan_input(&self) -> PlanInput {
        PlanInput { now: self.context.clock.now(), seed: self.context.seeds.next(), confirmed: false }
    }
}
