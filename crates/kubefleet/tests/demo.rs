//! `kubefleet demo` as a user runs it: its output with and without a terminal, and that it removes its files.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "the tests of the verbs use the rest")]
#[path = "shared/terminal.rs"]
mod terminal;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use terminal::Terminal;

/// The demo takes about ten seconds, or longer on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(4);

/// Expected parts of the output, in this order.
const EXPECTED: &[&str] = &[
    "1. A hub and three member clusters start, in this process",
    "2. Version 1 of a small web server goes to all clusters at once",
    "$ kubefleet run web --strategy at-once --name web-1",
    "run web-1 succeeded",
    "3. Version 2 goes out in two stages",
    "$ kubefleet run web --strategy careful --name web-2",
    "waiting for an approval of stage staging",
    "$ kubefleet approve web-2 staging",
    "run web-2 stuck",
    "4. One cluster is stuck. Why?",
    "$ kubefleet diagnose web-2",
    "no node of member3 can run its Pods",
    "5. The nodes are uncordoned, and the same run continues",
    "$ kubectl --context member3 uncordon member3-node1",
    "run web-2 succeeded",
    "6. What runs now",
    "member1   web:2   2/2",
    "member2   web:2   2/2",
    "member3   web:2   2/2",
    "Two rollouts, one approval, one failure found and fixed, in ",
];

fn command(temporary: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubefleet"));
    command.arg("demo").env("TMPDIR", temporary).env("HOME", temporary);
    command.env_remove("KUBECONFIG").env_remove("NO_COLOR");
    command
}

fn demo(temporary: &Path) -> Child {
    let mut command = command(temporary);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
}

fn lines(child: &mut Child) -> mpsc::Receiver<String> {
    let out = BufReader::new(child.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    lines
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn the_demo_shows_a_staged_rollout_with_a_failure_and_removes_its_files() {
    let temporary = tempfile::tempdir().unwrap();
    let mut child = demo(temporary.path());
    let lines = lines(&mut child);
    let mut output = Vec::new();
    while let Ok(line) = lines.recv_timeout(TIMEOUT) {
        output.push(line);
    }
    let text = output.join("\n");
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(child.wait().unwrap().success(), "{text}\n{errors}");
    let mut rest = text.as_str();
    for part in EXPECTED {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part:?} is missing or out of order:\n{text}"));
        rest = &rest[at + part.len()..];
    }
    assert!(!text.contains('\x1b'), "no colours and no drawing where there is no terminal");
    assert!(is_empty(temporary.path()));
}

#[test]
fn ctrl_c_ends_it_cleanly_at_any_time() {
    let temporary = tempfile::tempdir().unwrap();
    let mut child = demo(temporary.path());
    let lines = lines(&mut child);
    while !lines.recv_timeout(TIMEOUT).expect("it begins").starts_with("2. ") {}
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    // The pipe is closed when the process ends.
    while lines.recv_timeout(TIMEOUT).is_ok() {}
    assert!(child.wait().unwrap().success(), "Ctrl-C is no failure");
    assert!(is_empty(temporary.path()));
}

#[test]
fn on_a_terminal_the_tree_is_redrawn_and_the_user_is_prompted() {
    let temporary = tempfile::tempdir().unwrap();
    // High enough that nothing scrolls off.
    let mut demo = Terminal::start(command(temporary.path()), 100, 120);
    demo.wait_for("Press Enter to approve the stage staging");
    let shown = demo.contents();
    for line in [
        "1. A hub and three member clusters start, in this process",
        "$ kubefleet run web --strategy careful --name web-2",
        "web-2 waiting  ████░░░░░░░░ ",
        "◐ stage staging                 waiting to end, ████████████ 1/1",
        "  ✓ member2                     succeeded, took ",
        "  ✓ after: wait 1s              passed, ",
        "  ◐ after: approval             waiting, for ",
        "○ stage canary                  not reached, ░░░░░░░░░░░░ 0/2",
        "waiting for an approval of stage staging, for ",
    ] {
        assert!(shown.contains(line), "{line:?} is not in\n{shown}");
    }
    assert_eq!(shown.matches("stage canary").count(), 1, "what was drawn is drawn over:\n{shown}");
    assert!(demo.sent.contains("\x1b[33m"), "with colours");
    demo.press("\r");
    assert_eq!(demo.end(), 0, "{}", demo.contents());
    let shown = demo.contents();
    for line in [
        "ClusterApprovalRequest \"web-2-after-staging\" approved successfully",
        "no node of member3 can run its Pods",
        "web-2 succeeded  ████████████ ",
        "member3   web:2   2/2",
        "Two rollouts, one approval, one failure found and fixed, in ",
    ] {
        assert!(shown.contains(line), "{line:?} is not in\n{shown}");
    }
    assert!(is_empty(temporary.path()));
}

#[test]
fn on_a_terminal_ctrl_c_ends_it_cleanly_at_a_prompt() {
    let temporary = tempfile::tempdir().unwrap();
    // Too low for the tree.
    let mut demo = Terminal::start(command(temporary.path()), 60, 8);
    demo.wait_for("Press Enter to approve the stage staging");
    demo.press("\x03");
    assert_eq!(demo.end(), 0, "{}", demo.contents());
    assert!(demo.contents().contains("stopped; all temporary files were removed"), "{}", demo.contents());
    assert!(is_empty(temporary.path()));
}
