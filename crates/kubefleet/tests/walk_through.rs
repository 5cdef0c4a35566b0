//! Runs the commands of `docs/STAGED-UPDATE.md` with a real kubectl, in one shell, beside a `kubefleet up`.
//!
//! `KUBECTL=PATH cargo test -p kubefleet --test walk_through -- --ignored`; `cargo xtask real-apiserver` builds one.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "shared/page.rs"]
mod page;
#[path = "shared/shell.rs"]
mod shell;

use std::path::Path;

use page::steps;
use shell::{Shell, start_up, workplace};

/// The command that keeps running.
const UP: &str = "kubefleet up";
/// Exit code of `diagnose` if it finds a problem.
const FOUND: &str = "3";

#[test]
#[ignore = "needs a kubectl, named by KUBECTL"]
fn the_page_about_staged_updates_is_true_with_kubectl() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/STAGED-UPDATE.md");
    let steps = steps(&std::fs::read_to_string(page).unwrap());
    assert!(steps.len() > 10, "the page has commands");
    let directory = tempfile::tempdir().unwrap();
    let path = workplace(directory.path());
    let mut shell = Shell::start(directory.path(), &path);
    let mut running = Vec::new();
    for step in steps {
        let command = &step.command;
        if command == UP {
            running.push(start_up(directory.path()));
            continue;
        }
        let (seen, code) = shell.types(command);
        let may_find = command.starts_with("kubefleet diagnose") || command.starts_with("kubectl fleet diagnose");
        step.must_fit(&seen, code == "0" || may_find && code == FOUND);
    }
}
