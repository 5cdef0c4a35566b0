//! The one place where chores speak to the person at the terminal. A closed pipe is not an error here.

use std::fmt::Display;
use std::io::Write;

/// One line of result, on standard output.
pub fn line(text: impl Display) {
    let mut out = std::io::stdout().lock();
    // A reader that has gone away (`| head`) ends the talk, not the chore.
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}

/// One line of progress, on standard error, so that results stay clean for a pipe.
pub fn progress(text: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
