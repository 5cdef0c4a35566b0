//! What a controller may do while it observes: read, and write where the next question depends on the answer.
//!
//! Decides nothing: every write goes the way that all writes go, with its checks, counters and caches.

use std::fmt;

use crate::controller::{Moment, Outcome};
use crate::reader::Reader;
use crate::worker::Context;
use crate::write::Write;

/// Reads and writes of one reconcile.
#[derive(Clone, Copy)]
pub struct Hands<'a> {
    context: &'a Context,
    controller: &'static str,
}

impl fmt::Debug for Hands<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hands").field("controller", &self.controller).finish_non_exhaustive()
    }
}

impl<'a> Hands<'a> {
    pub(crate) fn new(context: &'a Context, controller: &'static str) -> Self {
        Self { context, controller }
    }

    pub fn reader(&self) -> &'a Reader {
        &self.context.reader
    }

    /// Performs a write now. The answer is the object as stored, or nothing after a deletion and where nothing was to do.
    pub async fn perform(&self, write: &Write) -> Outcome {
        if write.is_nothing() {
            return Ok(None);
        }
        self.context.writer.perform(self.controller, write, true).await.map(|answer| answer.object)
    }

    /// The present moment.
    pub fn moment(&self) -> Moment {
        Moment { now: self.context.clock.now(), seed: self.context.seeds.next() }
    }
}
