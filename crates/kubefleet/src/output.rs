//! How the binary speaks: results on standard output, errors on standard error with a hint, exit codes.
//!
//! Decides form only. A closed pipe (`kubefleet crds | head`) is not an error. `docs/COMMANDS.md` tells users what the exit
//! codes mean.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// The name that kubectl looks for when it is asked for its plugin `fleet`.
const PLUGIN: &str = "kubectl-fleet";

/// Whether we are kubectl's plugin: the same binary by its other name.
pub(crate) fn is_plugin() -> bool {
    let name = std::env::args_os().next().map(std::path::PathBuf::from);
    name.as_deref().and_then(std::path::Path::file_stem).is_some_and(|stem| stem == PLUGIN)
}

/// How the user calls us, for commands that are to be typed.
pub(crate) fn program() -> &'static str {
    if is_plugin() { "kubectl fleet" } else { "kubefleet" }
}

/// Writes a result for the user, at once.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes what goes on meanwhile, apart from results.
pub(crate) fn progress(text: &str) {
    // Nothing can be told if standard error itself is gone.
    let _ = writeln!(io::stderr(), "{text}");
}

/// A failure that the user can do something about.
#[derive(Debug)]
pub(crate) struct Hinted {
    pub(crate) what: String,
    /// What to try, without the word "hint".
    pub(crate) hint: String,
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Hinted {}

/// A command line that was not understood; the exit code says so.
#[derive(Debug)]
pub(crate) struct Misused(pub(crate) Hinted);

impl fmt::Display for Misused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Misused {}

/// What was asked for could not be started, and nothing was changed; the exit code says so.
#[derive(Debug)]
pub(crate) struct NothingDone(pub(crate) Hinted);

impl fmt::Display for NothingDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for NothingDone {}

/// Something is wrong with the fleet, and everything about it has been said; the exit code says so, too.
#[derive(Debug)]
pub(crate) struct Found;

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("something is wrong with the fleet")
    }
}

impl std::error::Error for Found {}

/// That something is wrong with what was looked at; 1 would mean that it could not be looked at.
const FOUND: u8 = 3;

/// What shells and the Go agents mean by a wrong usage; also that nothing was done.
const MISUSED: u8 = 2;

/// Turns the outcome of a verb into an exit code; a failure is told with all its causes, and with a hint if there is one.
pub(crate) fn report(outcome: anyhow::Result<()>) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    if error.is::<Found>() {
        return ExitCode::from(FOUND);
    }
    progress(&format!("error: {error:#}"));
    let misused = error.downcast_ref().map(|Misused(hinted)| hinted);
    let nothing_done = error.downcast_ref().map(|NothingDone(hinted)| hinted);
    let refused = misused.or(nothing_done);
    if let Some(Hinted { hint, .. }) = refused.or_else(|| error.downcast_ref()) {
        progress(&format!("hint: {hint}"));
    }
    if refused.is_some() { ExitCode::from(MISUSED) } else { ExitCode::FAILURE }
}
