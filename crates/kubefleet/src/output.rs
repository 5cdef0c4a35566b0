//! How the binary speaks: results on standard output, errors on standard error with a hint, exit codes.
//!
//! Decides form only. A closed pipe (`kubefleet crds | head`) is not an error.

use std::io::{self, Write};
use std::process::ExitCode;

/// Writes a result for the user.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Turns the outcome of a verb into an exit code; a failure is told with all its causes.
pub(crate) fn report(outcome: anyhow::Result<()>) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    // Nothing can be told if standard error itself is gone.
    let _ = writeln!(io::stderr(), "error: {error:#}");
    ExitCode::FAILURE
}
