//! `kubefleet crds` as a user runs it.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};

fn kubefleet(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubefleet")).args(arguments).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the binary prints UTF-8")
}

#[test]
fn printed_crds_are_one_yaml_stream_of_all_kinds() {
    let output = kubefleet(&["crds"]);
    assert!(output.status.success());
    let documents = fleet_api::yaml::documents(&text(&output.stdout)).unwrap();
    assert_eq!(documents.len(), 28);
    assert!(documents.iter().all(|crd| crd["kind"] == "CustomResourceDefinition"));
}

#[test]
fn a_directory_gets_the_committed_files() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("new/crd");
    let output = kubefleet(&["crds", "--dir", target.to_str().unwrap()]);
    assert_eq!(text(&output.stdout), format!("28 files written to {}\n", target.display()));
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/crd");
    for entry in std::fs::read_dir(committed).unwrap() {
        let entry = entry.unwrap();
        let written = std::fs::read(target.join(entry.file_name())).unwrap();
        assert!(written == std::fs::read(entry.path()).unwrap(), "{:?}", entry.file_name());
    }
}

#[test]
fn a_directory_that_cannot_be_created_is_an_error_with_its_name_and_cause() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = kubefleet(&["crds", "--dir", file.join("crd").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(
        message.starts_with("error: cannot create the directory ") && message.contains("Not a directory"),
        "{message}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn without_a_verb_help_is_printed_and_a_wrong_one_gets_a_hint() {
    let help = kubefleet(&["--help"]);
    assert!(help.status.success() && text(&help.stdout).contains("crds"));
    assert_eq!(kubefleet(&[]).status.code(), Some(2));
    let wrong = kubefleet(&["crd"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("crds"), "the nearest verb is named");
}
