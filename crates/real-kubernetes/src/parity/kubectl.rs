//! Runs a kubectl command of a case until it ends, or until it has printed enough lines.

use anyhow::{Context as _, Result};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

/// What a command printed, and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Printed {
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// `None` for a command that was ended.
    pub(super) exit_code: Option<i32>,
}

/// When to stop an endless command, and what to run meanwhile.
#[derive(Debug)]
pub(super) struct Follow {
    /// The command is ended after this many lines.
    pub(super) lines: usize,
    /// Runs once the first command has printed so many lines.
    pub(super) meanwhile: Option<(usize, Command)>,
}

/// Gives the command its input and waits for its end.
pub(super) async fn finish(command: Command, input: &str) -> Result<Printed> {
    let child = start(command, input).await?;
    let output = child.wait_with_output().await.context("wait for kubectl")?;
    Ok(Printed {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        exit_code: Some(output.status.code().unwrap_or(-1)),
    })
}

/// Reads the command's lines as they come, and ends it after the last one that is wanted.
pub(super) async fn follow(command: Command, mut follow: Follow) -> Result<Printed> {
    let mut child = start(command, "").await?;
    let mut lines = BufReader::new(child.stdout.take().context("kubectl's output")?).lines();
    let mut stdout = String::new();
    let mut seen = 0;
    while seen < follow.lines {
        if let Some((_, meanwhile)) = follow.meanwhile.take_if(|(after, _)| *after == seen) {
            let done = finish(meanwhile, "").await?;
            anyhow::ensure!(done.exit_code == Some(0), "meanwhile: {}{}", done.stdout, done.stderr);
        }
        let Some(line) = lines.next_line().await.context("read kubectl's output")? else { break };
        stdout.push_str(&line);
        stdout.push('\n');
        seen += 1;
    }
    if seen < follow.lines {
        let mut stderr = String::new();
        child.stderr.take().context("kubectl's errors")?.read_to_string(&mut stderr).await.context("read errors")?;
        let exit_code = child.wait().await.context("wait for kubectl")?.code();
        return Ok(Printed { stdout, stderr, exit_code: Some(exit_code.unwrap_or(-1)) });
    }
    child.kill().await.context("end kubectl")?;
    Ok(Printed { stdout, stderr: String::new(), exit_code: None })
}

async fn start(mut command: Command, input: &str) -> Result<Child> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("start kubectl")?;
    if let Some(mut stdin) = child.stdin.take() {
        // kubectl may end without reading its input.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    Ok(child)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).kill_on_drop(true);
        command
    }

    #[tokio::test]
    async fn a_command_reads_its_input_and_ends() {
        let printed = finish(shell("cat; echo bad >&2; exit 3"), "in\n").await.expect("runs");
        assert_eq!(printed, Printed { stdout: "in\n".into(), stderr: "bad\n".into(), exit_code: Some(3) });
    }

    #[tokio::test]
    async fn an_endless_command_ends_after_the_requested_lines() {
        let directory = tempfile::tempdir().expect("a directory");
        let pipe = directory.path().join("pipe").display().to_string();
        // `exec` replaces the shell, so that the kill leaves no process.
        let endless = shell(&format!("mkfifo {pipe}; echo one; cat {pipe}; exec cat {pipe}"));
        let meanwhile = Some((1, shell(&format!("echo two > {pipe}"))));
        let printed = follow(endless, Follow { lines: 2, meanwhile }).await.expect("runs");
        assert_eq!(printed, Printed { stdout: "one\ntwo\n".into(), stderr: String::new(), exit_code: None });
    }

    #[tokio::test]
    async fn a_command_that_ends_too_early_says_why() {
        let printed = follow(shell("echo no >&2; exit 1"), Follow { lines: 2, meanwhile: None }).await.expect("runs");
        assert_eq!(printed, Printed { stdout: String::new(), stderr: "no\n".into(), exit_code: Some(1) });
    }
}
