//! What the architecture promises and a compiler does not check: which crate may depend on which, that the code map
//! lists exactly the crates that exist, and that every source file says what it decides.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Crates that each crate may depend on, of those in this workspace. Development dependencies are free.
const ALLOWED: &[(&str, &[&str])] = &[
    ("fleet-api", &[]),
    ("fleet-core", &["fleet-api"]),
    ("fleet-runtime", &["fleet-api"]),
    ("fleet-hub", &["fleet-api", "fleet-core", "fleet-runtime"]),
    ("fleet-member", &["fleet-api", "fleet-core", "fleet-runtime"]),
    ("apiserver", &[]),
    ("fleet-sim", &["fleet-api", "fleet-core", "fleet-runtime", "fleet-hub", "fleet-member", "apiserver"]),
    ("kubefleet", &["fleet-api", "fleet-core", "fleet-runtime", "fleet-hub", "fleet-member", "fleet-sim", "apiserver"]),
    ("xtask", &["fleet-api", "apiserver", "fleet-sim"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Workspace dependencies of every crate of the workspace.
fn crates() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let name = |package: &Value| package["name"].as_str().expect("a package has a name").to_owned();
    let names: BTreeSet<String> = packages.iter().map(name).collect();
    let dependencies = |package: &Value| {
        let all = package["dependencies"].as_array().expect("dependencies").iter();
        let normal = all.filter(|dependency| dependency["kind"] != "dev").map(name);
        normal.filter(|dependency| names.contains(dependency)).collect()
    };
    packages.iter().map(|package| (name(package), dependencies(package))).collect()
}

#[test]
fn crates_depend_only_in_the_direction_of_the_design() {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    for (name, dependencies) in crates() {
        let may = allowed.get(name.as_str()).unwrap_or_else(|| panic!("the design does not know the crate {name}"));
        for dependency in dependencies {
            assert!(may.contains(&dependency.as_str()), "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn the_code_map_lists_exactly_the_crates_that_exist() {
    let architecture = std::fs::read_to_string(root().join("docs/ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let section = architecture.split("## Code map").nth(1).expect("a section `## Code map`");
    let section = section.split("\n## ").next().unwrap_or_default();
    let listed: BTreeSet<String> = section
        .lines()
        .filter_map(|line| line.strip_prefix("### `crates/")?.strip_suffix('`').map(str::to_owned))
        .collect();
    assert_eq!(listed, crates().into_keys().collect());
}

fn rust_files(directory: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a readable directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
}

#[test]
fn every_source_file_opens_with_what_it_is_for() {
    let mut files = Vec::new();
    rust_files(&root().join("crates"), &mut files);
    let silent: Vec<_> =
        files.iter().filter(|path| !std::fs::read_to_string(path).is_ok_and(|text| text.starts_with("//! "))).collect();
    assert!(silent.is_empty(), "these files do not open with `//! `: {silent:?}");
}
