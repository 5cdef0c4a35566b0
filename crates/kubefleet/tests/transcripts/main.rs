//! Scripted sessions with the binary: `tests/scripts/*.txt` contain the input and output of a user, each on its own fleet.
//!
//! `UPDATE_SCRIPTS=1 cargo test -p kubefleet --test transcripts` writes the actual output into the scripts; review the diff
//! before you commit it. `script.rs` describes the format.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../shared/breakages.rs"]
mod breakages;
mod doctoring;
mod fleet;
mod joining;
mod live;
mod mcp;
mod script;
mod seen;
#[path = "../shared/terminal.rs"]
mod terminal;
mod verbs;

use std::path::{Path, PathBuf};

use fleet::Fleet;
use script::{Script, Step};

/// One test per script, by file name.
macro_rules! scripts {
    ($($name:ident)+) => {
        $(#[tokio::test]
        async fn $name() {
            check(stringify!($name)).await;
        })+

        const LISTED: &[&str] = &[$(stringify!($name)),+];
    };
}

scripts! {
    approve
    runs
    namespaced
    overrides
    envelopes
    drain
    scheduling_49_a_drain_that_a_budget_blocks
    mistakes
    diagnose
    joining
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts")
}

#[test]
fn every_script_is_run() {
    let mut found: Vec<String> = std::fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    found.sort();
    let mut listed = LISTED.to_vec();
    listed.sort_unstable();
    assert_eq!(found, listed);
}

async fn check(name: &str) {
    let path = directory().join(format!("{name}.txt"));
    let text = std::fs::read_to_string(&path).unwrap();
    let mut script = Script::parse(&text);
    let fleet = Fleet::start_with(script.members, &script.clusters).await;
    for step in &mut script.steps {
        match step {
            Step::Remark(_) => {}
            Step::Apply(yaml) => fleet.apply(yaml).await,
            Step::Agent(name) => fleet.start_agent(name),
            Step::Patch { object, change } => fleet.patch(object, change).await,
            Step::Wait { object, wanted } => fleet.wait(object, wanted).await,
            Step::Run { command, output } => *output = fleet.run(command).await,
        }
    }
    let seen = script.to_string();
    if std::env::var_os("UPDATE_SCRIPTS").is_some() {
        std::fs::write(&path, seen).unwrap();
        return;
    }
    if seen != text {
        let difference = similar::TextDiff::from_lines(text.as_str(), seen.as_str());
        panic!(
            "{name}.txt (UPDATE_SCRIPTS=1 takes what is seen):\n{}",
            difference.unified_diff().context_radius(4).header("expected", "seen")
        );
    }
}
