//! Numbered steps of a command. An error names the step that failed, and how to continue or undo.

use crate::cli::output::confirm;
use crate::output::{Hinted, NothingChanged, progress};

pub(super) struct Steps {
    total: usize,
    started: usize,
    /// The command that undoes all steps.
    undo: String,
}

impl Steps {
    pub(super) fn new(total: usize, undo: String) -> Self {
        Self { total, started: 0, undo }
    }

    /// Announces the next step and runs it. `what` completes "the step …".
    pub(super) async fn run<T>(
        &mut self,
        what: &str,
        step: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        self.started += 1;
        progress(&format!("{}/{} {what}", self.started, self.total));
        step.await.map_err(|error| self.failed(what, &error))
    }

    fn failed(&self, what: &str, error: &anyhow::Error) -> anyhow::Error {
        let hint = error.downcast_ref().map(|Hinted { hint, .. }| format!("{hint}; then ")).unwrap_or_default();
        let next = match (self.started, self.undo.as_str()) {
            (..=1, _) => "run the same command again: nothing was changed".to_owned(),
            (_, "") => "run the same command again: it continues where it stopped".to_owned(),
            (_, undo) => format!("run the same command again: it continues where it stopped; to undo it: {undo}"),
        };
        let what = format!("step {} of {} ({what}) failed: {error:#}", self.started, self.total);
        Hinted { what, hint: format!("{hint}{next}") }.into()
    }
}

/// Names the clusters that a command will change, and asks unless `yes`.
pub(super) fn announce(yes: bool, lines: &[String], question: &str) -> anyhow::Result<()> {
    progress(&lines.join("\n"));
    if yes || confirm(question)? {
        return Ok(());
    }
    let hint = "use --yes to skip the confirmation".to_owned();
    Err(NothingChanged(Hinted { what: "not confirmed".to_owned(), hint }).into())
}
