//! Output of the xtask commands. A closed pipe is not an error.

use std::fmt::Display;
use std::io::Write;

/// One line of result, on standard output.
pub fn line(text: impl Display) {
    let mut out = std::io::stdout().lock();
    // A closed pipe (`| head`) is not an error.
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}

/// One line of progress, on standard error, so that it does not mix with results in a pipe.
pub fn progress(text: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
