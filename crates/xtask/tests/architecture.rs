//! Rules of the architecture that the compiler does not check: dependencies between crates, the code map, file heads, and
//! which crates start no tasks, read no clock, use no randomness and call no server.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Allowed dependencies between the crates of the workspace, without development dependencies.
const ALLOWED: &[(&str, &[&str])] = &[
    ("k8s-values", &[]),
    ("fleet-api", &["k8s-values"]),
    ("fleet-core", &["k8s-values", "fleet-api"]),
    ("fleet-runtime", &["k8s-values", "fleet-api"]),
    ("fleet-hub", &["k8s-values", "fleet-api", "fleet-core", "fleet-runtime"]),
    ("fleet-member", &["k8s-values", "fleet-api", "fleet-core", "fleet-runtime"]),
    ("fleet-dashboard", &["fleet-api", "fleet-core"]),
    ("apiserver", &["k8s-values"]),
    (
        "fleet-sim",
        &["k8s-values", "fleet-api", "fleet-core", "fleet-runtime", "fleet-hub", "fleet-member", "apiserver"],
    ),
    (
        "kubefleet",
        &[
            "k8s-values",
            "fleet-api",
            "fleet-core",
            "fleet-runtime",
            "fleet-hub",
            "fleet-member",
            "fleet-sim",
            "fleet-dashboard",
            "apiserver",
        ],
    ),
    ("fleet-fuzz", &["k8s-values", "fleet-api", "fleet-core", "fleet-runtime", "fleet-sim", "apiserver", "kubefleet"]),
    ("real-kubernetes", &["fleet-api", "apiserver", "xtask"]),
    ("fleet-testkit", &["fleet-api", "fleet-runtime", "apiserver"]),
    ("xtask", &[]),
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

/// The section of the code map for each crate.
fn code_map() -> BTreeMap<String, String> {
    let architecture = std::fs::read_to_string(root().join("docs/ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let section = architecture.split("## Code map").nth(1).expect("a section `## Code map`");
    let section = section.split("\n## ").next().unwrap_or_default();
    let crates = section.split("\n### `crates/").skip(1);
    crates
        .map(|text| text.split_once('`').expect("a crate's name"))
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .collect()
}

#[test]
fn the_code_map_lists_exactly_the_crates_that_exist() {
    let listed: BTreeSet<String> = code_map().into_keys().collect();
    assert_eq!(listed, crates().into_keys().collect());
}

#[test]
fn the_code_map_names_every_module() {
    for (name, section) in code_map() {
        let entries = std::fs::read_dir(root().join("crates").join(&name).join("src")).expect("a crate has sources");
        let modules = entries.flatten().filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()));
        let modules: BTreeSet<String> = modules.filter(|module| module != "lib" && module != "main").collect();
        for module in modules {
            let is_named = section.contains(&format!("`{module}`")) || section.contains(&format!("`{module}/`"));
            assert!(is_named, "the section of {name} does not name `{module}`");
        }
    }
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
fn every_source_file_begins_with_its_purpose() {
    let mut files = Vec::new();
    rust_files(&root().join("crates"), &mut files);
    let without_head: Vec<_> =
        files.iter().filter(|path| !std::fs::read_to_string(path).is_ok_and(|text| text.starts_with("//! "))).collect();
    assert!(without_head.is_empty(), "these files do not open with `//! `: {without_head:?}");
}

/// Operations that only `fleet-runtime` may use. Durations and timeouts are allowed.
const LEFT_TO_THE_RUNTIME: &[(&str, &[&str])] = &[
    ("starts a task", &["spawn(", "spawn_blocking(", "JoinSet", "std::thread"]),
    (
        "reads a clock",
        &["Timestamp::now", "Zoned::now", "SystemTime", "Instant", "sleep(", "sleep_until(", "interval("],
    ),
    ("draws a random number", &["RandomState", "getrandom", "rand::", "fastrand", "Uuid::new"]),
    ("calls a server", &["kube::Api", "kube::Client", "Api::all", "Api::namespaced", "reqwest"]),
];

/// Operations that `fleet-api` and `fleet-core` must not use either.
const PURE: &[(&str, &[&str])] =
    &[("does I/O", &["std::fs", "std::net", "std::env", "tokio::"]), ("logs", &["tracing::", "println!", "eprintln!"])];

#[test]
fn only_the_runtime_uses_tasks_clocks_random_numbers_and_requests() {
    let mut found = Vec::new();
    for (name, also) in [("fleet-api", PURE), ("fleet-core", PURE), ("fleet-hub", &[][..]), ("fleet-member", &[][..])] {
        let mut files = Vec::new();
        rust_files(&root().join("crates").join(name).join("src"), &mut files);
        for path in files.iter().filter(|path| !is_test(path)) {
            let text = std::fs::read_to_string(path).expect("a readable file");
            for (line, code) in product_code(&text) {
                let is_there = |words: &&[&str]| words.iter().any(|word| code.contains(word));
                let wrongs = LEFT_TO_THE_RUNTIME.iter().chain(also).filter(|(_, words)| is_there(words));
                found.extend(wrongs.map(|(what, _)| format!("{}:{line} {what}: {}", path.display(), code.trim())));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The lint knows the types of operands, so it finds exactly the arithmetic on times that can panic.
#[test]
fn audit_02_every_crate_refuses_time_arithmetic_that_can_panic() {
    const LINT: &str = "#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]";
    let mut roots = Vec::new();
    for name in crates().keys() {
        let source = root().join("crates").join(name).join("src");
        if source.join("bin").is_dir() {
            rust_files(&source.join("bin"), &mut roots);
        }
        roots.extend(["lib.rs", "main.rs"].map(|file| source.join(file)).into_iter().filter(|path| path.exists()));
    }
    assert!(roots.len() >= crates().len(), "{roots:?}");
    for path in roots {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        assert!(text.lines().any(|line| line == LINT), "{} lacks {LINT}", path.display());
    }
    let settings = std::fs::read_to_string(root().join("clippy.toml")).expect("a readable file");
    assert!(settings.contains("arithmetic-side-effects-allowed-binary = ["), "the lint is off for numbers");
    let (lint, _) = settings.split_once("disallowed-methods").expect("the methods that panic");
    for line in lint.lines().filter(|line| !line.starts_with('#')) {
        for word in ["Duration", "Instant", "Timestamp", "Span", "Zoned", "SystemTime", "\"*\""] {
            assert!(!line.contains(word), "clippy.toml excepts times: {line}");
        }
    }
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs")
}

/// The lines of code without the tests at the end of the file.
fn product_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    product.lines().enumerate().map(|(number, line)| (number + 1, line.split("//").next().unwrap_or_default()))
}

#[test]
fn forbidden_operations_are_found_in_code_but_not_in_comments_or_tests() {
    let text = "// spawn(x)\n#[cfg(test)]\nmod other;\nlet a = spawn(x); // why\n#[cfg(test)]\nmod tests {\nspawn(y)";
    let code: Vec<_> = product_code(text).filter(|(_, code)| code.contains("spawn(")).collect();
    assert_eq!(code, [(4, "let a = spawn(x); ")]);
}
