//! Every target has seeds and a program for libFuzzer, and every input of every corpus passes.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use fleet_fuzz::corpus;
use fleet_fuzz::targets::TARGETS;

fn fuzz_directory() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn names_in(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).expect("a readable directory").flatten();
    entries.map(|entry| entry.path().file_stem().expect("a name").to_string_lossy().into_owned()).collect()
}

#[test]
fn every_target_has_a_corpus_and_a_libfuzzer_program_and_nothing_else_has() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(targets.len(), TARGETS.len(), "two targets have one name");
    assert_eq!(names_in(&corpus::directory()), targets);
    assert_eq!(names_in(&fuzz_directory().join("fuzz_targets")), targets);
    let manifest = std::fs::read_to_string(fuzz_directory().join("Cargo.toml")).expect("the manifest of fuzz/");
    for target in &targets {
        assert!(manifest.contains(&format!("name = \"{target}\"\n")), "fuzz/Cargo.toml does not name {target}");
        let program = fuzz_directory().join("fuzz_targets").join(format!("{target}.rs"));
        let program = std::fs::read_to_string(program).expect("a program");
        assert!(program.contains(&format!("check(\"{target}\", input)")), "{program}");
        assert!(!corpus::inputs(target).expect("a corpus").is_empty(), "{target} has no seed");
    }
}

/// By the program itself: every target in a process of its own, where a stack overflow ends nothing else.
#[test]
fn every_input_of_every_corpus_passes() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_fleet-fuzz")).args(["--runs", "0"]).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
