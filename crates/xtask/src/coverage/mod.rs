//! `cargo xtask coverage DIR`: scenarios of a specification without a test. A test has the id of its scenario in its name (of
//! the function, or of the script under `tests/`).

mod id;
mod scenarios;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;

use crate::{console, workspace_root};
use id::Id;

/// Lists the scenarios in the specification files of a directory that no test of the workspace carries in its name
#[derive(Debug, Args)]
pub struct Coverage {
    /// Where the specification's Markdown files are
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Fail if a scenario is missing
    #[arg(long)]
    deny: bool,
    /// Scenarios that may be missing, as they are printed (`ur_04`); repeat or separate by commas
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    expect: Vec<String>,
}

impl Coverage {
    pub fn execute(&self) -> anyhow::Result<()> {
        let specifications = specifications(&self.directory)?;
        let mut names = Vec::new();
        collect_names(&workspace_root().join("crates"), &mut names)?;
        let carried: BTreeSet<Id> = names.iter().flat_map(|name| Id::carried_by(name)).collect();
        let gaps = gaps(&specifications, &carried);
        console::line(render(&gaps));
        let unexpected: Vec<String> = gaps
            .values()
            .flat_map(|file| &file.missing)
            .map(Id::to_string)
            .filter(|id| !self.expect.contains(id))
            .collect();
        if self.deny && !unexpected.is_empty() {
            bail!("{} scenarios without a test that were not expected: {}", unexpected.len(), unexpected.join(" "));
        }
        Ok(())
    }
}

/// The result for one file.
#[derive(Debug, Default)]
struct FileGaps {
    total: usize,
    missing: Vec<Id>,
}

/// The Markdown files of a directory with their texts.
fn specifications(directory: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md")
            && let Some(stem) = path.file_stem().and_then(|stem| stem.to_str())
        {
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            found.insert(stem.to_owned(), text);
        }
    }
    if found.is_empty() {
        bail!("{} has no Markdown files", directory.display());
    }
    Ok(found)
}

fn gaps(specifications: &BTreeMap<String, String>, carried: &BTreeSet<Id>) -> BTreeMap<String, FileGaps> {
    let of_file = |(stem, text): (&String, &String)| {
        let all = scenarios::scenarios(stem, text);
        let total = all.len();
        let missing = all.into_iter().filter(|id| !carried.contains(id)).collect();
        (stem.clone(), FileGaps { total, missing })
    };
    specifications.iter().map(of_file).filter(|(_, gaps)| gaps.total > 0).collect()
}

fn render(gaps: &BTreeMap<String, FileGaps>) -> String {
    let mut out = String::new();
    for (stem, FileGaps { total, missing }) in gaps {
        let _ = writeln!(out, "{stem}.md: {} of {total} scenarios have a test", total - missing.len());
        for line in missing.chunks(IDS_PER_LINE) {
            let ids: Vec<String> = line.iter().map(Id::to_string).collect();
            let _ = writeln!(out, "  {}", ids.join(" "));
        }
    }
    let total: usize = gaps.values().map(|file| file.total).sum();
    let missing: usize = gaps.values().map(|file| file.missing.len()).sum();
    let _ = write!(out, "all: {} of {total} scenarios have a test", total - missing);
    out
}

/// Fits a terminal of 120 columns with the longest ids.
const IDS_PER_LINE: usize = 8;

/// Names of test functions in Rust files, and of scripts below a directory `tests`.
fn collect_names(directory: &Path, names: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect_names(&path, names)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            names.extend(test_functions(&text));
        } else if path.components().any(|part| part.as_os_str() == "tests")
            && let Some(stem) = path.file_stem().and_then(|stem| stem.to_str())
        {
            names.push(stem.replace('-', "_").to_ascii_lowercase());
        }
    }
    Ok(())
}

/// Macros that make tests of the functions whose names they are given, a line each.
const LISTS: [&str; 2] = ["on_any_server!", "scenarios!"];

/// Functions behind an attribute whose name ends in `test`, or in a list of tests.
fn test_functions(text: &str) -> Vec<String> {
    let mut marked = false;
    let mut listed = false;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        listed = (listed && line != "}") || LISTS.iter().any(|list| line.starts_with(list));
        if let Some(name) = line.strip_suffix(',').filter(|_| listed) {
            found.push(name.to_owned());
        } else if let Some(attribute) = line.strip_prefix("#[") {
            let name = attribute.split(['(', ']']).next().unwrap_or_default();
            marked |= name.ends_with("test");
        } else if let Some(after) = function_name(line) {
            if marked {
                found.push(after.to_owned());
            }
            marked = false;
        }
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches("pub ").trim_start_matches("async ").strip_prefix("fn ")?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn only_names_of_tests_have_ids() {
        let text = "
            #[test]
            fn ur_04_a() {}
            fn ur_05_helper() {}
            #[tokio::test(start_paused = true)]
            #[allow(clippy::panic)]
            async fn pl_s1_b() { }
            #[cfg(test)]
            mod tests {";
        assert_eq!(test_functions(text), ["ur_04_a", "pl_s1_b"]);
        let text = "
            scenarios! {
                ur_40_a,
                ur_41_b,
            }
            async fn ur_42_helper() { call(
                ur_43,
            ) }";
        assert_eq!(test_functions(text), ["ur_40_a", "ur_41_b"]);
    }

    #[test]
    fn scenarios_without_a_test_are_listed_by_file() {
        let specifications = BTreeMap::from([
            ("scheduling".to_owned(), "# F. Acceptance scenarios\n| 1 | a |\n| 2 | b |\n| 3 | c |".to_owned()),
            ("troubleshooting".to_owned(), "### UR-04 x\n### UR-05 y".to_owned()),
            ("api".to_owned(), "# Kinds".to_owned()),
        ]);
        let carried = ["scheduling_01_02_x", "ur_05"].into_iter().flat_map(Id::carried_by).collect();
        expect![[r#"
            scheduling.md: 2 of 3 scenarios have a test
              scheduling_03
            troubleshooting.md: 1 of 2 scenarios have a test
              ur_04
            all: 3 of 5 scenarios have a test"#]]
        .assert_eq(&render(&gaps(&specifications, &carried)));
    }

    #[test]
    fn names_come_from_rust_files_and_from_scripts_of_tests() {
        let directory = tempfile::tempdir().unwrap();
        let scripts = directory.path().join("tests/scripts");
        fs::create_dir_all(&scripts).unwrap();
        fs::write(scripts.join("UR-04-missing-index.txt"), "").unwrap();
        fs::write(directory.path().join("UR-05.txt"), "").unwrap();
        fs::write(directory.path().join("lib.rs"), "#[test]\nfn ev_1_gone() {}\n").unwrap();
        let mut names = Vec::new();
        collect_names(directory.path(), &mut names).unwrap();
        names.sort();
        assert_eq!(names, ["ev_1_gone", "ur_04_missing_index"]);
    }

    #[test]
    fn a_directory_without_specifications_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        assert!(specifications(directory.path()).unwrap_err().to_string().ends_with("has no Markdown files"));
    }
}
