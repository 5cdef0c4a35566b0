//! docs/TROUBLESHOOTING.md is up to date and has every id that rules report and sources cite.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;

use crate::diagnose::{placement, run, troubleshooting};

/// Directories whose files may cite ids. The page and its entries do not count.
const CITING: &[&str] = &["crates", "docs", "examples"];

fn known() -> BTreeSet<&'static str> {
    troubleshooting::entries().map(|entry| entry.id).collect()
}

#[test]
fn the_troubleshooting_page_is_rendered_from_its_entries() {
    expect_file!["../../../../../docs/TROUBLESHOOTING.md"].assert_eq(&troubleshooting::page());
    assert_eq!(known().len(), troubleshooting::entries().count(), "an id has two entries");
}

#[test]
fn every_rule_has_an_entry_in_the_troubleshooting_page() {
    let of_runs = run::RULES.iter().flat_map(|rule| rule.entries);
    let of_placements = placement::SCHEDULING.iter().chain(placement::ROLLOUT).flat_map(|rule| rule.entries);
    let missing: Vec<_> = of_runs.chain(of_placements).filter(|id| !known().contains(*id)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(troubleshooting::link("UR-01"), "docs/TROUBLESHOOTING.md#ur-01");
}

#[test]
fn every_id_that_sources_cite_has_an_entry_in_the_troubleshooting_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for directory in CITING {
        text_files(&root.join(directory), &mut files);
    }
    let mut cited = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        cited.extend(ids(&text).map(str::to_owned));
    }
    let known = known();
    let unknown: Vec<_> = cited.iter().filter(|id| !known.contains(id.as_str())).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let uncited: Vec<_> = known.iter().filter(|id| !cited.contains(**id)).collect();
    assert!(uncited.is_empty(), "{uncited:?}");
}

fn text_files(directory: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !path.ends_with("corpus") && !path.ends_with("diagnose/troubleshooting") {
                text_files(&path, out);
            }
        } else if !path.ends_with("docs/TROUBLESHOOTING.md") && ["rs", "md", "txt", "yaml"].contains(&extension) {
            out.push(path);
        }
    }
}

/// Words such as `UR-04`, `PL-S1` and `EV-3`.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_ascii_alphanumeric() && character != '-').filter(|word| {
        let Some((family, number)) = word.split_once('-') else { return false };
        let digits = |text: &str, length: usize| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
        match family {
            "UR" => digits(number, 2),
            "EV" => digits(number, 1),
            "PL" => number.starts_with(|letter: char| letter.is_ascii_uppercase()) && digits(&number[1..], 1),
            _ => false,
        }
    })
}

#[test]
fn ids_are_recognised_as_whole_words() {
    let found: Vec<&str> =
        ids("see UR-04, `PL-S1` (EV-3) and [UR-40 PL-V1]; not UR-4, PUR-04, UR-04-x or PL-1").collect();
    assert_eq!(found, ["UR-04", "PL-S1", "EV-3", "UR-40", "PL-V1"]);
}
