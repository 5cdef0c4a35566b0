//! The test programs of the workspace: built together, run in parallel, each printed with its own summary. The result of a
//! program depends on the programs and files of its package and on the files that all packages share.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::RANDOM_CASES;
use super::freshness::{Passed, Seen};
use super::seeds::Seed;
use crate::{cargo, console};

/// The packages whose tests read sources, documents and cases of others.
const READ_ALL_SOURCES: &[&str] = &["xtask", "real-kubernetes"];

/// The programs that run longest, in this order. They start first, so that no processor waits for them at the end.
const LONGEST: &[&str] = &[
    "kubefleet src/lib.rs",
    "fleet-core src/lib.rs",
    "kubefleet tests/up.rs",
    "fleet-hub tests/hub.rs",
    "fleet-sim tests/trials.rs",
    "apiserver src/lib.rs",
    "kubefleet tests/transcripts/main.rs",
];

/// One program with tests.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Program {
    /// Package and target, for messages.
    name: String,
    package: String,
    executable: PathBuf,
    directory: PathBuf,
}

/// Everything that was built: test programs, and all programs by package.
#[derive(Debug, Default)]
struct Built {
    tests: Vec<Program>,
    executables: BTreeMap<String, Vec<PathBuf>>,
}

/// Builds all test programs and runs those that are new or have changed since they passed.
pub(super) fn run_all(root: &Path, seed: &Seed, passed: &mut Passed) -> anyhow::Result<()> {
    let built = build(root)?;
    let mut stale = Vec::new();
    for program in &built.tests {
        let seen = inputs(root, program, &built)?;
        if passed.holds(&program.name, &seen) {
            let closing = passed.closing_line(&program.name);
            console::line(format_args!("   {}: unchanged since it passed: {closing}", program.name));
        } else {
            stale.push((program, seen));
        }
    }
    stale.sort_by_key(|(program, _)| LONGEST.iter().position(|name| *name == program.name).unwrap_or(LONGEST.len()));
    let (mut failed, mut ended) = (Vec::new(), 0_usize);
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    in_parallel(
        &stale,
        at_once,
        |(program, _)| {
            console::progress(format_args!("   starting {}", program.name));
            (Instant::now(), start(program, seed))
        },
        |index, (started, output)| {
            let (program, seen) = &stale[index];
            let output = output.with_context(|| format!("cannot start {}", program.executable.display()))?;
            show(program, &output);
            ended += 1;
            let seconds = started.elapsed().as_secs();
            console::line(format_args!("   {ended} of {} programs: {} took {seconds} s", stale.len(), program.name));
            match closing_line(&output.stdout) {
                Some(closing) if output.status.success() => passed.note(&program.name, seen, Some(closing))?,
                _ => failed.push(format!("{} ({})", program.name, output.status)),
            }
            Ok(())
        },
    )?;
    if failed.is_empty() {
        return Ok(());
    }
    bail!("{}", failed.join(", "))
}

fn build(root: &Path) -> anyhow::Result<Built> {
    console::line("   building all test programs; a first build takes several minutes");
    let arguments = ["test", "--workspace", "--locked", "--no-run", "--message-format", "json-render-diagnostics"];
    let output =
        cargo::command(&arguments).current_dir(root).stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("the tests do not build ({})", output.status);
    }
    let text = String::from_utf8(output.stdout).context("cargo printed something that is not text")?;
    let built = built(&text);
    if built.tests.is_empty() {
        bail!("cargo named no test program");
    }
    Ok(built)
}

/// Parses the messages of cargo, one JSON object per line.
fn built(messages: &str) -> Built {
    let mut built = Built::default();
    for line in messages.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        let (Some(executable), Some(manifest)) = (message["executable"].as_str(), message["manifest_path"].as_str())
        else {
            continue;
        };
        let directory = Path::new(manifest).parent().unwrap_or(Path::new("")).to_owned();
        let package = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        built.executables.entry(package.clone()).or_default().push(executable.into());
        if message["profile"]["test"] == true {
            let source = Path::new(message["target"]["src_path"].as_str().unwrap_or_default());
            let target = source.strip_prefix(&directory).unwrap_or(source).display();
            built.tests.push(Program {
                name: format!("{package} {target}"),
                package,
                executable: executable.into(),
                directory,
            });
        }
    }
    built.tests.sort_by(|a, b| a.name.cmp(&b.name));
    built
}

fn inputs(root: &Path, program: &Program, built: &Built) -> anyhow::Result<Seen> {
    let mut seen = Seen::default().file(&program.executable)?;
    seen = if READ_ALL_SOURCES.contains(&program.package.as_str()) {
        seen.workspace(root)?
    } else {
        seen.directories(std::slice::from_ref(&program.directory))?.shared(root)?
    };
    for executable in built.executables.get(&program.package).into_iter().flatten() {
        seen = seen.file(executable)?;
    }
    Ok(seen)
}

/// Runs a program in the directory that cargo would use.
fn start(program: &Program, seed: &Seed) -> std::io::Result<Output> {
    Command::new(&program.executable)
        .current_dir(&program.directory)
        .env("CARGO_MANIFEST_DIR", &program.directory)
        .env(RANDOM_CASES, seed.number.to_string())
        .stdin(Stdio::null())
        .output()
}

fn show(program: &Program, output: &Output) {
    console::line(format_args!("\n   output of {}", program.name));
    for (stream, bytes) in [(true, &output.stdout), (false, &output.stderr)] {
        // A closed pipe is not an error, as in `console`.
        let _ = if stream { std::io::stdout().write_all(bytes) } else { std::io::stderr().write_all(bytes) };
    }
}

/// The summary line of the test runner, if there is one.
fn closing_line(stdout: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(stdout).ok()?;
    text.lines().rev().find(|line| line.starts_with("test result:"))
}

/// Processes all items with some threads, and passes each result to a function in this thread.
fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    at_once: usize,
    work: impl Fn(&T) -> R + Sync,
    mut each: impl FnMut(usize, R) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let next = AtomicUsize::new(0);
    let (results, arriving) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            let (next, work, results) = (&next, &work, results.clone());
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    if results.send((index, work(item))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        for (index, result) in arriving {
            each(index, result)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn test_programs_are_read_from_the_output_of_cargo() {
        let messages = r#"
            not json
            {"reason":"compiler-artifact","manifest_path":"/w/crates/one/Cargo.toml","target":{"src_path":"/w/crates/one/src/main.rs"},"profile":{"test":false},"executable":"/t/one"}
            {"reason":"compiler-artifact","manifest_path":"/w/crates/one/Cargo.toml","target":{"src_path":"/w/crates/one/tests/up.rs"},"profile":{"test":true},"executable":"/t/up-1"}
            {"reason":"compiler-artifact","manifest_path":"/w/crates/one/Cargo.toml","target":{"src_path":"/w/crates/one/src/lib.rs"},"profile":{"test":false},"executable":null}
        "#;
        let built = built(messages);
        assert_eq!(
            built.tests,
            [Program {
                name: "one tests/up.rs".to_owned(),
                package: "one".to_owned(),
                executable: "/t/up-1".into(),
                directory: "/w/crates/one".into()
            }]
        );
        assert_eq!(built.executables["one"], [PathBuf::from("/t/one"), PathBuf::from("/t/up-1")]);
    }

    #[test]
    fn the_longest_programs_exist() {
        for name in LONGEST {
            let (package, source) = name.split_once(' ').unwrap();
            let path = crate::workspace_root().join("crates").join(package).join(source);
            assert!(path.is_file(), "{name}");
        }
    }

    #[test]
    fn the_summary_is_the_last_line_and_a_crashed_program_has_none() {
        assert_eq!(closing_line(b"test result: a\ntest result: b\n\n"), Some("test result: b"));
        assert_eq!(closing_line(b"running 3 tests\n"), None);
    }

    #[test]
    fn every_item_is_processed_once_and_an_error_stops_the_rest() {
        let items: Vec<usize> = (0..50).collect();
        let mut results = vec![None; items.len()];
        in_parallel(
            &items,
            4,
            |item| item * 2,
            |index, result| {
                results[index] = Some(result);
                Ok(())
            },
        )
        .unwrap();
        assert!(results.iter().enumerate().all(|(index, result)| *result == Some(index * 2)));
        let outcome = in_parallel(&items, 4, |item| *item, |_, _| bail!("no more"));
        assert_eq!(outcome.unwrap_err().to_string(), "no more");
    }
}
