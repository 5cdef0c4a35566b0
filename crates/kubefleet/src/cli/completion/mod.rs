//! `completion`: shell completion of commands, flags and names. The scripts call this binary, which answers in the format of
//! kubectl plugins: a candidate per line with a description after a tab, then a directive.
//!
//! Errors and slow hubs yield no candidates: completion must never print an error or block.
//!
//! | file | what |
//! |---|---|
//! | `place` | the argument under the cursor, from the declared commands and flags |
//! | `names` | candidates from the kubeconfig and the hub |

mod names;
mod place;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::sync::mpsc;
use std::time::Duration;

use clap::Command;
use clap_complete::{Shell, generate};
use fleet_api::safe_text;

use crate::output::print_data;
use names::Sort;
use place::Place;

/// The hidden command of completion scripts, as in cobra programs.
const ASKED: &str = "__complete";
/// Timeout of the hub, after which there are no candidates.
const LONGEST_ANSWER: Duration = Duration::from_secs(2);

/// Print a shell completion script for commands, flags, and names of runs, placements, strategies and contexts
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  source <(kubefleet completion bash)                             in ~/.bashrc
  source <(kubefleet completion zsh)                              in ~/.zshrc, after compinit
  kubefleet completion fish > ~/.config/fish/completions/kubefleet.fish
  kubefleet completion kubectl > ~/bin/kubectl_complete-fleet     for `kubectl fleet`; make it executable

`kubectl fleet` is completed by kubectl's own completion, which looks for kubectl_complete-fleet in the PATH.")]
pub(crate) struct Args {
    /// The shell, or kubectl
    #[arg(value_enum)]
    shell: For,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum For {
    Bash,
    Zsh,
    Fish,
    /// For kubectl to complete `kubectl fleet`
    Kubectl,
    /// Commands and flags only
    Elvish,
    /// Commands and flags only
    Powershell,
}

/// Prints the script for a program name.
pub(crate) fn run(args: &Args, mut command: Command, name: &str) -> anyhow::Result<()> {
    let template = match args.shell {
        For::Bash => include_str!("scripts/bash"),
        For::Zsh => include_str!("scripts/zsh"),
        For::Fish => include_str!("scripts/fish"),
        For::Kubectl => return print_data(include_str!("scripts/kubectl")),
        For::Elvish => return print_data(&generated(Shell::Elvish, &mut command, name)?),
        For::Powershell => return print_data(&generated(Shell::PowerShell, &mut command, name)?),
    };
    print_data(&template.replace("FUNCTION", &name.replace('-', "_")).replace("PROGRAM", name))
}

fn generated(shell: Shell, command: &mut Command, name: &str) -> anyhow::Result<String> {
    let mut script = Vec::new();
    generate(shell, command, name, &mut script);
    Ok(String::from_utf8(script).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?)
}

/// The words of a completion request, if it is one; the last word is incomplete.
pub(crate) fn asked(arguments: &[OsString]) -> Option<Vec<String>> {
    let [_, first, words @ ..] = arguments else { return None };
    if first != ASKED {
        return None;
    }
    let mut words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    // Bash splits `--flag=value` into three words.
    let is_cut = words.last().is_some_and(|last| last == "=");
    words.retain(|word| word != "=");
    if is_cut || words.is_empty() {
        words.push(String::new());
    }
    Some(words)
}

/// Answers a completion request.
pub(crate) fn answer(mut command: Command, words: &[String]) -> anyhow::Result<()> {
    command.build();
    let place = place::find(&command, words);
    let sort = names::sort(&place);
    let candidates = match &sort {
        Sort::Declared => place.declared(),
        Sort::Files | Sort::Nothing => Vec::new(),
        Sort::Hub(_) => within(LONGEST_ANSWER, sort, &place),
    };
    print_data(&render(candidates, &place, sort))
}

/// A completion candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    value: String,
    about: String,
}

impl Candidate {
    fn new(value: impl Into<String>, about: impl Into<String>) -> Self {
        Self { value: value.into(), about: about.into() }
    }
}

/// Asks the hub in a separate thread, because credential plugins may block.
fn within(longest: Duration, sort: Sort, place: &Place<'_>) -> Vec<Candidate> {
    let question = names::Question::new(sort, place);
    let (sender, answer) = mpsc::channel();
    std::thread::spawn(move || sender.send(question.ask()));
    match answer.recv_timeout(longest) {
        Ok(Ok(candidates)) => candidates,
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

fn render(candidates: Vec<Candidate>, place: &Place<'_>, sort: Sort) -> String {
    // Directives of cobra: 0 also completes files, 4 does not.
    let directive = if sort == Sort::Files { 0 } else { 4 };
    let mut out = String::new();
    // Skip candidates that would need quotes in a shell.
    let is_plain = |value: &str| safe_text::shell_word(value).as_deref() == Some(value);
    let fits = |one: &Candidate| one.value.starts_with(&place.typed) && is_plain(&one.value);
    for Candidate { value, about } in candidates.into_iter().filter(fits) {
        let about = safe_text::line(about.lines().next().unwrap_or_default());
        let tab = if about.is_empty() { "" } else { "\t" };
        let _ = writeln!(out, "{}{value}{tab}{about}", place.kept);
    }
    let _ = writeln!(out, ":{directive}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &[&str], expected: Option<&[&str]>) {
        let arguments: Vec<OsString> = line.iter().map(OsString::from).collect();
        let expected = expected.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(asked(&arguments), expected);
    }

    #[test]
    fn a_completion_request_is_recognised() {
        check(&["kubefleet", "status"], None);
        check(&["kubefleet"], None);
        check(&["kubefleet", "__complete"], Some(&[""]));
        check(&["kubefleet", "__complete", "approve", ""], Some(&["approve", ""]));
    }

    #[test]
    fn words_that_bash_splits_at_an_equals_sign_are_joined() {
        check(&["kubefleet", "__complete", "run", "--strategy", "=", "ca"], Some(&["run", "--strategy", "ca"]));
        check(&["kubefleet", "__complete", "run", "--strategy", "="], Some(&["run", "--strategy", ""]));
    }

    #[test]
    fn audit_07_candidates_are_plain_words_and_descriptions_have_no_control_characters() {
        let mut command = crate::Cli::tree();
        command.build();
        let place = place::find(&command, &["stop", ""].map(str::to_owned));
        let candidates = vec![
            Candidate::new("web", "run of placement \u{1b}[2J"),
            Candidate::new("x; touch y", ""),
            Candidate::new("a\tb", ""),
            Candidate::new("$(id)", ""),
        ];
        assert_eq!(render(candidates, &place, Sort::Nothing), "web\trun of placement \\u{1b}[2J\n:4\n");
    }

    #[test]
    fn completion_does_not_wait_for_a_slow_hub() {
        let listening = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config");
        let server = format!("https://{}", listening.local_addr().unwrap());
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "slow",
            "contexts": [{"name": "slow", "context": {"cluster": "slow", "user": "slow"}}],
            "clusters": [{"name": "slow", "cluster": {"server": server}}],
            "users": [{"name": "slow", "user": {"token": "x"}}],
        });
        std::fs::write(&file, config.to_string()).unwrap();
        let words = ["stop", "--kubeconfig", file.to_str().unwrap(), ""].map(str::to_owned);
        let mut command = crate::Cli::tree();
        command.build();
        let place = place::find(&command, &words);
        let sort = names::sort(&place);
        assert!(matches!(sort, Sort::Hub(_)));
        let begun = std::time::Instant::now();
        assert_eq!(within(Duration::from_millis(300), sort, &place), []);
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}
