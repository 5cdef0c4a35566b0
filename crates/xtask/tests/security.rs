//! The tests that SECURITY.md cites exist, and each item of the audit has a test.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Items of the audit are numbered from 1.
const AUDIT_ITEMS: u32 = 22;
/// Minimum number of words in the name of a test; names of fields and flags in the same tables have fewer.
const WORDS_OF_A_TEST: usize = 4;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Adds the names of all functions in the sources below a directory that are tests.
fn add_tests(directory: &Path, out: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).expect("a readable directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            add_tests(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a readable source file");
            out.extend(functions(&text).map(str::to_owned));
        }
    }
}

fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub(super) ")).unwrap_or(line);
        let name = line.strip_prefix("async fn ").or(line.strip_prefix("fn "))?;
        name.split(['(', '<']).next()
    })
}

/// Names of tests in backquotes; `…` at the end makes it a prefix.
fn cited(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| line.starts_with('|')).flat_map(|line| line.split('`').skip(1).step_by(2)).filter(
        |word| {
            let is_name = word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '…'));
            is_name && (word.ends_with('…') || word.split('_').count() >= WORDS_OF_A_TEST)
        },
    )
}

fn missing<'a>(text: &'a str, tests: &BTreeSet<String>) -> Vec<&'a str> {
    let is_there = |name: &&str| match name.strip_suffix('…') {
        Some(beginning) => tests.iter().any(|test| test.starts_with(beginning)),
        None => tests.contains(*name),
    };
    cited(text).filter(|name| !is_there(name)).collect()
}

fn tests() -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    add_tests(&root().join("crates"), &mut tests);
    tests
}

#[test]
fn every_test_that_the_threat_model_cites_exists() {
    let security = std::fs::read_to_string(root().join("SECURITY.md")).expect("SECURITY.md");
    assert!(cited(&security).count() > 30, "the tables have names of tests");
    assert_eq!(missing(&security, &tests()), Vec::<&str>::new(), "SECURITY.md cites tests that do not exist");
}

/// The rows of the tables in which no test is cited.
fn rows_without_test(text: &str) -> Vec<&str> {
    let rows =
        text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---") && !line.ends_with("| test |"));
    rows.filter(|row| {
        let column = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        cited(&format!("|{column}")).next().is_none()
    })
    .collect()
}

#[test]
fn audit_19_every_row_of_the_threat_model_cites_a_test() {
    let security = std::fs::read_to_string(root().join("SECURITY.md")).expect("SECURITY.md");
    assert_eq!(rows_without_test(&security), Vec::<&str>::new());
    let table =
        "| attack | result | test |\n|---|---|---|\n| a | `audit_01_a_b_c` | `none` |\n| b | c | `audit_01_a_b_c` |\n";
    assert_eq!(rows_without_test(table), ["| a | `audit_01_a_b_c` | `none` |"]);
}

#[test]
fn every_item_of_the_audit_has_a_test_with_its_number() {
    let tests = tests();
    let without: Vec<u32> = (1..=AUDIT_ITEMS)
        .filter(|item| !tests.iter().any(|test| test.contains(&format!("audit_{item:02}_"))))
        .collect();
    assert_eq!(without, Vec::<u32>::new());
}

#[test]
fn cited_tests_that_do_not_exist_are_found() {
    let tests = functions("    async fn audit_01_a_b_c() {\nfn x_y_z_w<T>(t: T) {\n// fn not_a_real_one()\n");
    let tests: BTreeSet<String> = tests.map(str::to_owned).collect();
    let table = "| a | `x_y_z_w`, `audit_01_…`, `audit_02_…`, `gone_since_last_year`, `fleet-system`, `works` |\n`not_in_a_table_at_all`";
    assert_eq!(missing(table, &tests), ["audit_02_…", "gone_since_last_year"]);
}
