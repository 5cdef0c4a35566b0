//! A child process with a log file that cannot outlive its parent. A small shell holds the read end of a pipe whose write end
//! is ours, and kills the program when the pipe closes.

use anyhow::{Context, Result};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

/// `$@` runs in the background; a watcher waits for end-of-file on our pipe and then kills it. The shell itself ends
/// with the program, so that a program that dies by itself is noticed.
const WRAPPER: &str = r#"exec 3<&0; "$@" 3<&- </dev/null & program=$!; (cat <&3 >/dev/null; kill -9 $program 2>/dev/null) & wait $program"#;
/// Lines of a log that are shown when a start fails: enough for Go's error after its flag dump.
const LAST_LINES: usize = 25;

/// A running program. Dropping it kills the program and waits for it.
#[derive(Debug)]
pub(super) struct Process {
    name: String,
    child: Child,
    lifeline: Option<ChildStdin>,
    log: PathBuf,
}

impl Process {
    /// Starts `program` with both its outputs in `<directory>/<name>.log`.
    pub(super) fn start(name: &str, program: &Path, arguments: &[String], directory: &Path) -> Result<Self> {
        let log = directory.join(format!("{name}.log"));
        let output = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let errors = output.try_clone().context("share the log file")?;
        let mut child = Command::new("sh")
            .args(["-c", WRAPPER, name])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            // Ctrl-C is sent to the whole process group; the parent decides the order of shutdown.
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {name}"))?;
        let lifeline = child.stdin.take();
        Ok(Self { name: name.to_owned(), child, lifeline, log })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// How the program ended, if it has.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().with_context(|| format!("look after {}", self.name))
    }

    /// The end of the log, for an error message.
    pub(super) fn last_lines(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(LAST_LINES);
        format!("last lines of {}:\n  {}", self.log.display(), lines[from..].join("\n  "))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn start(directory: &Path, script: &str) -> Process {
        let arguments = ["-c".to_owned(), script.to_owned()];
        Process::start("program", Path::new("/bin/sh"), &arguments, directory).expect("start")
    }

    #[test]
    fn dropping_a_program_kills_it() {
        let directory = tempfile::tempdir().expect("temp dir");
        let started = Instant::now();
        drop(start(directory.path(), "while :; do sleep 60; done"));
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_failed_program_is_detected_and_its_last_output_kept() {
        let directory = tempfile::tempdir().expect("temp dir");
        let mut process = start(directory.path(), "echo no such flag >&2; exit 3");
        let status = process.child.wait().expect("wait");
        assert_eq!(status.code(), Some(3));
        assert!(process.ended().expect("ended").is_some());
        assert!(process.last_lines().ends_with("no such flag"), "{}", process.last_lines());
    }
}
