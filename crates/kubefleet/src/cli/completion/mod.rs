//! `completion`: how shells complete our command lines, names of runs and the like included.
//!
//! Decides what a shell is told: scripts that ask this binary, and its answers. Answers are in the form that kubectl expects
//! of its plugins: a candidate a line, what it is behind a tab, and at the end how to go on. Whatever goes wrong is no
//! candidate: nobody who presses Tab wants to read an error, or to wait for a hub that does not answer.
//!
//! | file | what |
//! |---|---|
//! | `place` | which argument stands under the cursor, from the declared verbs and flags |
//! | `names` | what there is of that on the hub |

mod names;
mod place;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::sync::mpsc;
use std::time::Duration;

use clap::Command;
use clap_complete::{Shell, generate};

use crate::output::print;
use names::Sort;
use place::Place;

/// The word by which scripts ask; kubectl and others that are built like it have the same.
const ASKED: &str = "__complete";
/// Somebody is looking at the cursor; a hub that has not answered by then has no candidates.
const LONGEST_ANSWER: Duration = Duration::from_secs(2);

/// Print a script by which a shell completes verbs, flags, and names of runs, placements, strategies and contexts
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
    /// What kubectl calls to complete `kubectl fleet`
    Kubectl,
    /// Verbs and flags only
    Elvish,
    /// Verbs and flags only
    Powershell,
}

/// The script for a command by the name that it is called by.
pub(crate) fn run(args: &Args, mut command: Command, name: &str) -> anyhow::Result<()> {
    let template = match args.shell {
        For::Bash => include_str!("scripts/bash"),
        For::Zsh => include_str!("scripts/zsh"),
        For::Fish => include_str!("scripts/fish"),
        For::Kubectl => return print(include_str!("scripts/kubectl")),
        For::Elvish => return print(&generated(Shell::Elvish, &mut command, name)?),
        For::Powershell => return print(&generated(Shell::PowerShell, &mut command, name)?),
    };
    print(&template.replace("FUNCTION", &name.replace('-', "_")).replace("PROGRAM", name))
}

fn generated(shell: Shell, command: &mut Command, name: &str) -> anyhow::Result<String> {
    let mut script = Vec::new();
    generate(shell, command, name, &mut script);
    Ok(String::from_utf8(script).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?)
}

/// The words of a command line that a shell wants to be completed, if that is what is asked; the last one is not finished.
pub(crate) fn asked(arguments: &[OsString]) -> Option<Vec<String>> {
    let [_, first, words @ ..] = arguments else { return None };
    if first != ASKED {
        return None;
    }
    let mut words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    // Bash makes `--flag=value` three words.
    let is_cut = words.last().is_some_and(|last| last == "=");
    words.retain(|word| word != "=");
    if is_cut || words.is_empty() {
        words.push(String::new());
    }
    Some(words)
}

/// Answers a shell.
pub(crate) fn answer(mut command: Command, words: &[String]) -> anyhow::Result<()> {
    command.build();
    let place = place::find(&command, words);
    let sort = names::sort(&place);
    let candidates = match &sort {
        Sort::Declared => place.declared(),
        Sort::Files | Sort::Nothing => Vec::new(),
        Sort::Hub(_) => within(LONGEST_ANSWER, sort, &place),
    };
    print(&told(candidates, &place, sort))
}

/// Something that the word under the cursor can become.
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

/// Asks the hub from a thread of its own: not even credentials that a program is run for may hold us up.
fn within(longest: Duration, sort: Sort, place: &Place<'_>) -> Vec<Candidate> {
    let question = names::Question::new(sort, place);
    let (tell, answer) = mpsc::channel();
    std::thread::spawn(move || tell.send(question.ask()));
    match answer.recv_timeout(longest) {
        Ok(Ok(candidates)) => candidates,
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

fn told(candidates: Vec<Candidate>, place: &Place<'_>, sort: Sort) -> String {
    // The numbers that kubectl knows: 0 goes on with files, 4 does not.
    let directive = if sort == Sort::Files { 0 } else { 4 };
    let mut out = String::new();
    for Candidate { value, about } in candidates.into_iter().filter(|one| one.value.starts_with(&place.typed)) {
        let about = about.lines().next().unwrap_or_default();
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
    fn a_shell_is_known_by_its_word() {
        check(&["kubefleet", "status"], None);
        check(&["kubefleet"], None);
        check(&["kubefleet", "__complete"], Some(&[""]));
        check(&["kubefleet", "__complete", "approve", ""], Some(&["approve", ""]));
    }

    #[test]
    fn what_bash_cuts_at_an_equals_sign_is_one_flag_with_its_value() {
        check(&["kubefleet", "__complete", "run", "--strategy", "=", "ca"], Some(&["run", "--strategy", "ca"]));
        check(&["kubefleet", "__complete", "run", "--strategy", "="], Some(&["run", "--strategy", ""]));
    }

    #[test]
    fn a_hub_that_does_not_answer_is_not_waited_for() {
        let listening = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config");
        let server = format!("https://{}", listening.local_addr().unwrap());
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "deaf",
            "contexts": [{"name": "deaf", "context": {"cluster": "deaf", "user": "deaf"}}],
            "clusters": [{"name": "deaf", "cluster": {"server": server}}],
            "users": [{"name": "deaf", "user": {"token": "x"}}],
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
