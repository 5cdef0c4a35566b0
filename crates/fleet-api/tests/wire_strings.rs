//! Wire strings are spelled in `fleet-api` and nowhere else: no other crate's product source has a literal with one of our API
//! groups, label keys, annotation keys or finalizers, or with a condition type or reason.
//!
//! Not searched for conditions are `fleet-sim`, `fleet-fuzz`, `real-kubernetes` and `xtask`: they check the agents from outside
//! and play Kubernetes' own controllers, whose conditions partly have the same names. `apiserver` and `k8s-values` know no fleets, and
//! `fleet-testkit` is only for tests.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fleet_api::well_known::{DOMAIN, annotations};

const NOT_SEARCHED: &[&str] = &["apiserver", "fleet-testkit", "k8s-values"];
const CHECKED_FROM_OUTSIDE: &[&str] = &["fleet-fuzz", "fleet-sim", "real-kubernetes", "xtask"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
}

/// A string literal and its line.
#[derive(Debug, PartialEq, Eq)]
struct Literal {
    line: usize,
    text: String,
}

/// What a source contains besides comments.
#[derive(Debug, Default)]
struct Source {
    literals: Vec<Literal>,
    /// Modules in files of their own that exist only for tests.
    test_modules: BTreeSet<String>,
}

/// Reads a source without its comments and its test modules.
fn parse(text: &str) -> Source {
    let (mut source, mut code, mut rest) = (Source::default(), String::new(), text);
    let mut depth = 0_usize;
    // The depth of braces outside of a test module that is being skipped.
    let mut skipped_from: Option<usize> = None;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
            continue;
        }
        if rest.starts_with("/*") {
            rest = rest.split_once("*/").map_or("", |(_, after)| after);
            continue;
        }
        if let Some((literal, after)) = literal(rest, code.chars().last()) {
            if skipped_from.is_none() {
                let line = text[..text.len() - rest.len()].matches('\n').count() + 1;
                source.literals.push(Literal { line, text: literal.to_owned() });
            }
            (code, rest) = (code + "\"\"", after);
            continue;
        }
        if let Some(after) = after_character(rest) {
            rest = after;
            continue;
        }
        match c {
            '{' => {
                if skipped_from.is_none() && test_module(&code).is_some() {
                    skipped_from = Some(depth);
                }
                depth += 1;
            }
            '}' => {
                depth -= 1;
                skipped_from = skipped_from.filter(|outside| *outside != depth);
            }
            ';' => source.test_modules.extend(test_module(&code)),
            _ => {}
        }
        code.push(c);
        rest = &rest[c.len_utf8()..];
    }
    source
}

/// The literal at the beginning of `rest`, without quotes, and what follows it. `before` is the character before it.
fn literal(rest: &str, before: Option<char>) -> Option<(&str, &str)> {
    let is_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let raw = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r')).filter(|_| !is_word);
    if let Some(raw) = raw {
        let body = raw.trim_start_matches('#');
        let end = format!("\"{}", "#".repeat(raw.len() - body.len()));
        if let Some(body) = body.strip_prefix('"') {
            return body.split_once(&end);
        }
    }
    let body = rest.strip_prefix('"')?;
    let mut is_escaped = false;
    let end = body.find(|c| {
        let ends = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    })?;
    Some((&body[..end], &body[end + 1..]))
}

/// What follows the character literal at the beginning of `rest`; a lifetime is none.
fn after_character(rest: &str) -> Option<&str> {
    let body = rest.strip_prefix('\'')?;
    if let Some(escaped) = body.strip_prefix('\\') {
        return escaped[1..].split_once('\'').map(|(_, after)| after);
    }
    let mut characters = body.chars();
    characters.next()?;
    characters.as_str().strip_prefix('\'')
}

/// The name of the module that `code` has just declared for tests only.
fn test_module(code: &str) -> Option<String> {
    let declaration = code.rsplit([';', '}', '{']).next()?.trim();
    let declaration = declaration.strip_prefix("#[cfg(test)]")?;
    let words: Vec<&str> = declaration.split_whitespace().collect();
    let [.., "mod", name] = words[..] else { return None };
    Some(name.to_owned())
}

/// The product sources below a directory. `tests` has the modules that exist only for tests, without extension.
fn add_sources(directory: &Path, tests: &mut BTreeSet<PathBuf>, out: &mut Vec<(PathBuf, Source)>) {
    let entries: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    let is_source = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    let sources: Vec<(PathBuf, Source)> =
        entries.iter().filter(is_source).map(|path| (path.clone(), parse(&read(path)))).collect();
    for (path, source) in &sources {
        // A module of `b/mod.rs` is in this directory, one of `b.rs` in `b`.
        let below = path.with_extension("");
        tests.extend(source.test_modules.iter().flat_map(|name| [directory.join(name), below.join(name)]));
    }
    out.extend(sources.into_iter().filter(|(path, _)| !tests.contains(&path.with_extension(""))));
    for path in entries.iter().filter(|path| path.is_dir()) {
        if !tests.contains(path) {
            add_sources(path, tests, out);
        }
    }
}

/// What no literal may contain, and what none may be.
struct Vocabulary {
    parts: BTreeSet<String>,
    words: BTreeSet<String>,
}

impl Vocabulary {
    fn new() -> Self {
        let api = crates().join("fleet-api/src");
        let well_known = parse(&read(api.join("well_known.rs"))).literals.into_iter().map(|literal| literal.text);
        let mut parts: BTreeSet<String> = well_known.filter(|text| text.contains('/') && text.contains('.')).collect();
        parts.extend([DOMAIN.to_owned(), annotations::PLATFORM_PREFIX.to_owned()]);
        // A line for the types of an object, then an indented line for each status with its reason.
        let table = read(api.join("conditions/table.txt"));
        let is_status = |word: &&str| ["True", "False", "Unknown"].contains(word);
        let mut words = BTreeSet::new();
        for line in table.lines() {
            match line.strip_prefix("  ") {
                Some(row) => {
                    let mut columns = row.split_whitespace();
                    if columns.next().as_ref().is_some_and(is_status) {
                        words.extend(columns.next().map(str::to_owned));
                    }
                }
                None => words.extend(
                    line.split_once(": ").into_iter().flat_map(|(_, types)| types.split(", ")).map(str::to_owned),
                ),
            }
        }
        words.retain(|word| word.starts_with(char::is_uppercase) && !word.contains(' '));
        assert!(words.contains("WorkSynchronized") && words.contains("OverriddenFailed"), "{words:?}");
        Self { parts, words }
    }

    fn contains(&self, literal: &Literal, with_conditions: bool) -> bool {
        self.parts.iter().any(|part| literal.text.contains(part))
            || (with_conditions && self.words.contains(&literal.text))
    }
}

#[test]
fn no_wire_string_is_spelled_outside_of_fleet_api() {
    let vocabulary = Vocabulary::new();
    let (mut found, mut searched) = (Vec::new(), 0);
    for entry in std::fs::read_dir(crates()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name == "fleet-api" || NOT_SEARCHED.contains(&name.as_str()) || !path.is_dir() {
            continue;
        }
        let with_conditions = !CHECKED_FROM_OUTSIDE.contains(&name.as_str());
        let mut sources = Vec::new();
        add_sources(&path.join("src"), &mut BTreeSet::new(), &mut sources);
        for (path, source) in sources {
            searched += source.literals.len();
            let literals = source.literals.iter().filter(|literal| vocabulary.contains(literal, with_conditions));
            found.extend(literals.map(|literal| format!("{}:{}: {}", path.display(), literal.line, literal.text)));
        }
    }
    assert!(searched > 5_000, "only {searched} literals were searched");
    assert!(found.is_empty(), "define these in fleet-api:\n{}", found.join("\n"));
}

#[test]
fn misplaced_wire_strings_are_found() {
    let sample = r##"
        //! A comment with "kubernetes-fleet.io/parent-CRP".
        const KEY: &str = "kubernetes-fleet.io/parent-CRP"; // "Applied"
        fn selector<'a>(name: &'a str, quote: char) -> String {
            assert_ne!(quote, '"');
            format!("kubectl get work -l app.kubernetes.io/name={name}") + r#""Applied" is a part of this"#
        }
        #[cfg(test)]
        mod tests {
            fn fixture() -> &'static str { if true { "Applied" } else { "fleet.azure.com" } }
        }
        /* "OverriddenFailed" */
        const CONDITIONS: [&str; 3] = ["WorkSynchronized", "work \"synchronized\"", "OverriddenFailed"];
        #[cfg(test)]
        pub(crate) mod fixture;
    "##;
    let (vocabulary, source) = (Vocabulary::new(), parse(sample));
    let found = |with_conditions| -> Vec<(usize, &str)> {
        let literals = source.literals.iter().filter(|literal| vocabulary.contains(literal, with_conditions));
        literals.map(|literal| (literal.line, literal.text.as_str())).collect()
    };
    let keys = [(3, "kubernetes-fleet.io/parent-CRP"), (6, "kubectl get work -l app.kubernetes.io/name={name}")];
    assert_eq!(found(false), keys);
    assert_eq!(found(true), [&keys[..], &[(13, "WorkSynchronized"), (13, "OverriddenFailed")]].concat());
    assert_eq!(source.test_modules, BTreeSet::from(["fixture".to_owned()]));
}
