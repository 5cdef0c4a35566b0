//! Retired words: names that were replaced by the vocabulary of Kubernetes must not come back in identifiers, comments or
//! documentation.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Parts of identifiers and words of texts, in lower case. `retired_word` and `RetiredWord` contain `retired` and `word`.
const WORDS: &[&str] = &[
    "belongings",
    "chore",
    "chores",
    "converse",
    "farewell",
    "flights",
    "ledger",
    "ledgers",
    "leeway",
    "luck",
    "mailbox",
    "mailboxes",
    "meddler",
    "mended",
    "mending",
    "mends",
    "outlook",
    "performer",
    "performers",
    "relic",
    "relics",
    "shelf",
    "shelves",
    "skies",
    "sky",
    "sounding",
    "soundings",
    "spectator",
    "spectators",
    "storms",
    "teller",
    "tellers",
    "unnameable",
    "weather",
];

/// Names of types whose lower-case form is an ordinary word.
const TYPES: &[&str] =
    &["Hands", "Outcome", "Performer", "Picture", "Setback", "Shelf", "Sight", "Spectator", "Standing", "Telling"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Adds the sources and documents below a directory, without build results and this list.
fn add_files(directory: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a readable directory").flatten() {
        let path = entry.path();
        let name = entry.file_name().into_string().unwrap_or_default();
        if path.is_dir() && !path.is_symlink() {
            if name != "target" && !name.starts_with('.') {
                add_files(&path, out);
            }
        } else if [".rs", ".md", ".yaml", ".tpl"].iter().any(|ending| name.ends_with(ending))
            && !path.ends_with("xtask/tests/words.rs")
        {
            out.push(path);
        }
    }
}

/// The names and words of a text: maximal runs of letters, digits and underscores.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty())
}

/// The parts of a name in lower case: `RetiredWord_two` has `retired`, `word` and `two`.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut after_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && after_lower) {
            parts.push(String::new());
        }
        after_lower = c.is_lowercase();
        if c != '_' {
            parts.last_mut().expect("never empty").extend(c.to_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// How often each retired word occurs in a text.
fn count(text: &str, found: &mut BTreeMap<&'static str, usize>) {
    for name in names(text) {
        let parts = parts(name);
        let words = WORDS.iter().filter(|word| parts.iter().any(|part| part == *word));
        for word in words.chain(TYPES.iter().filter(|retired| **retired == name)) {
            *found.entry(*word).or_default() += 1;
        }
    }
}

#[test]
fn retired_words_do_not_come_back() {
    let mut files = Vec::new();
    for directory in ["crates", "docs", "charts", "examples"] {
        add_files(&root().join(directory), &mut files);
    }
    files.extend(["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root().join(name)));
    let (mut total, mut places) = (BTreeMap::new(), Vec::new());
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let mut found = BTreeMap::new();
        count(&text, &mut found);
        for (word, times) in found {
            *total.entry(word).or_insert(0) += times;
            places.push(format!("{}: {word} ({times})", path.display()));
        }
    }
    assert!(total.is_empty(), "{total:?}\n{}", places.join("\n"));
}

#[test]
fn words_are_found_in_identifiers_and_texts_but_not_within_other_words() {
    let (first, second) = (WORDS[0], TYPES[0]);
    let camel = format!("{}{}", first[..1].to_uppercase(), &first[1..]);
    let text = format!("a {first}. New{camel}Value, is_{first}_x, {first}ish; {second}, {}", second.to_lowercase());
    let mut found = BTreeMap::new();
    count(&text, &mut found);
    assert_eq!(found, BTreeMap::from([(first, 3), (second, 1)]));
}
