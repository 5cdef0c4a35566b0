//! Output of all commands: results on standard output, errors with a hint on standard error, exit codes (see
//! `docs/COMMANDS.md`). A closed pipe (`kubefleet crds | head`) is not an error.
//!
//! Text for the terminal must go through `print` or `progress`: they escape control characters from objects.

use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use fleet_api::safe_text;

/// The executable of the kubectl plugin `fleet`.
const PLUGIN: &str = "kubectl-fleet";

/// Whether the binary was invoked as kubectl plugin.
pub(crate) fn is_plugin() -> bool {
    let name = std::env::args_os().next().map(std::path::PathBuf::from);
    name.as_deref().and_then(std::path::Path::file_stem).is_some_and(|stem| stem == PLUGIN)
}

/// How the user invokes the program, for suggested commands.
pub(crate) fn program() -> &'static str {
    if is_plugin() { "kubectl fleet" } else { "kubefleet" }
}

/// A command that the user can run next. An argument that is not a plain name is replaced by `NAME`.
pub(crate) fn suggested_command(words: &[&str], namespace: Option<&str>) -> String {
    let words = words.iter().copied().chain(namespace.into_iter().flat_map(|one| ["-n", one]));
    let plain = |word: &&str| safe_text::shell_word(word).as_deref() == Some(*word);
    let words: Vec<&str> = words.map(|word| Some(word).filter(plain).unwrap_or("NAME")).collect();
    format!("{} {}", program(), words.join(" "))
}

/// Marks the end of our own control sequence until it is written.
const SEQUENCE_END: char = '\u{fdd1}';

/// Marks the start of our own control sequence until it is written. Random per process, so that no object can contain it.
fn sequence_start() -> &'static str {
    static START: OnceLock<String> = OnceLock::new();
    START.get_or_init(|| {
        let random = || RandomState::new().build_hasher().finish();
        format!("\u{fdd0}{:016x}{:016x}:", random(), random())
    })
}

/// A control sequence for the terminal, without the escape character, such as `[32m`. Only `print` and `progress` write it.
pub(crate) fn sequence(text: &str) -> String {
    format!("{}{text}{SEQUENCE_END}", sequence_start())
}

/// Escapes all control characters except our own sequences.
pub(crate) fn for_terminal(text: &str) -> String {
    let mut pieces = text.split(sequence_start());
    let mut out = safe_text::lines(pieces.next().unwrap_or_default()).into_owned();
    for piece in pieces {
        let (sequence, rest) = piece.split_once(SEQUENCE_END).unwrap_or((piece, ""));
        out.push('\x1b');
        out.push_str(sequence);
        out.push_str(&safe_text::lines(rest));
    }
    out
}

/// Writes a result for the terminal and flushes.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_data(&for_terminal(text))
}

/// Writes a result for programs without escaping and flushes.
pub(crate) fn print_data(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes progress, notes and errors to standard error.
pub(crate) fn progress(text: &str) {
    // A failed write to standard error cannot be reported.
    let _ = writeln!(io::stderr(), "{}", for_terminal(text));
}

/// An error with a hint for the user.
#[derive(Debug)]
pub(crate) struct Hinted {
    pub(crate) what: String,
    /// The hint, without the prefix "hint: ".
    pub(crate) hint: String,
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Hinted {}

/// An invalid command line; has its own exit code.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) Hinted);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for UsageError {}

/// The operation was not started and nothing was changed; has its own exit code.
#[derive(Debug)]
pub(crate) struct NothingChanged(pub(crate) Hinted);

impl fmt::Display for NothingChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for NothingChanged {}

/// `diagnose` found problems and has printed them; has its own exit code.
#[derive(Debug)]
pub(crate) struct ProblemsFound;

impl fmt::Display for ProblemsFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("something is wrong with the fleet")
    }
}

impl std::error::Error for ProblemsFound {}

/// `diagnose` found problems. Exit code 1 would mean that it failed.
const PROBLEMS_FOUND: u8 = 3;

/// Invalid usage, as in shells and the Go agents; also that nothing was changed.
const USAGE_ERROR: u8 = 2;

/// Turns the result of a command into an exit code; prints an error with all causes and its hint.
pub(crate) fn report(outcome: anyhow::Result<()>) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    if error.is::<ProblemsFound>() {
        return ExitCode::from(PROBLEMS_FOUND);
    }
    progress(&indented("error", &format!("{error:#}")));
    let misused = error.downcast_ref().map(|UsageError(hinted)| hinted);
    let nothing_done = error.downcast_ref().map(|NothingChanged(hinted)| hinted);
    let refused = misused.or(nothing_done);
    if let Some(Hinted { hint, .. }) = refused.or_else(|| error.downcast_ref()) {
        progress(&indented("hint", hint));
    }
    if refused.is_some() { ExitCode::from(USAGE_ERROR) } else { ExitCode::FAILURE }
}

/// Indents further lines, so that text from objects cannot imitate our own lines.
fn indented(lead: &str, text: &str) -> String {
    format!("{lead}: {}", text.replace('\n', "\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_07_only_our_own_control_sequences_are_written() {
        let adversarial = "a\u{1b}[2Jb\u{1b}]52;c;eA==\u{7}\u{9b}8mc\u{fdd0}\u{202e}d\n";
        let text = format!("{}red{} {adversarial}", sequence("[31m"), sequence("[0m"));
        let written = "\u{1b}[31mred\u{1b}[0m a\\u{1b}[2Jb\\u{1b}]52;c;eA==\\u{7}\\u{9b}8mc\\u{fdd0}\\u{202e}d\n";
        assert_eq!(for_terminal(&text), written);
    }

    #[test]
    fn audit_07_an_error_of_several_lines_has_one_hint() {
        assert_eq!(indented("error", "no\nhint: rm -r /"), "error: no\n  hint: rm -r /");
    }

    #[test]
    fn audit_05_only_plain_names_appear_in_suggested_commands() {
        assert_eq!(
            suggested_command(&["approve", "web", "a; touch x"], Some("shop")),
            "kubefleet approve web NAME -n shop"
        );
        assert_eq!(suggested_command(&["status", "$(id)"], None), "kubefleet status NAME");
    }

    #[test]
    fn audit_07_all_control_characters_are_escaped() {
        let all: String = ('\0'..=char::MAX).collect();
        let written = for_terminal(&all);
        assert!(!written.chars().any(|one| one != '\n' && safe_text::is_hidden(one)));
        assert!(written.contains("abc") && written.contains('ä') && written.contains('→'));
    }
}
