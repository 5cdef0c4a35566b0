//! A user at a terminal, who runs the commands of the guides and reads the output of kubectl.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::servers::{Servers, TIMEOUT};

/// Delay before a command is repeated.
const RETRY_DELAY: Duration = Duration::from_millis(300);

pub(crate) struct User {
    path: OsString,
    kubeconfig: PathBuf,
    cache: PathBuf,
}

impl User {
    /// With an own kubeconfig, so that users do not change each other's context.
    pub(crate) fn at(servers: &Servers, name: &str) -> Self {
        let mut path = servers.kubectl().parent().unwrap().as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let kubeconfig = servers.user_kubeconfig(name);
        Self { path, cache: kubeconfig.with_extension("cache"), kubeconfig }
    }

    /// Runs a command that must succeed; returns its output.
    pub(crate) async fn types(&self, line: &str) -> String {
        self.runs(line, String::new()).await.unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    pub(crate) async fn applies(&self, object: &Value) {
        let line = "kubectl apply -f -";
        self.runs(line, object.to_string()).await.unwrap_or_else(|error| panic!("{object:#}: {error}"));
    }

    /// The error of kubectl for a rejected object, without its usual prefix. Uses dry run and retries, because new webhooks take effect
    /// with a delay.
    pub(crate) async fn is_refused(&self, object: &Value) -> String {
        let begun = Instant::now();
        let said = loop {
            match self.runs("kubectl create --dry-run=server -f -", object.to_string()).await {
                Err(said) => break said,
                Ok(_) => assert!(begun.elapsed() < TIMEOUT, "it is never refused: {object:#}"),
            }
            tokio::time::sleep(RETRY_DELAY).await;
        };
        said.trim().trim_start_matches("Error from server (Forbidden): error when creating \"STDIN\": ").to_owned()
    }

    /// Runs a command that must fail; returns its error.
    pub(crate) async fn fails(&self, line: &str) -> String {
        self.runs(line, String::new()).await.expect_err(line).trim().to_owned()
    }

    /// Repeats a command until it prints this table, without the age column. A dash is an empty cell.
    pub(crate) async fn sees_table(&self, line: &str, wanted: &[&str]) {
        self.sees(line, table, |shown| shown == wanted, &wanted.join("\n")).await;
    }

    /// Repeats a command until its table has this row.
    pub(crate) async fn sees_row(&self, line: &str, wanted: &str) {
        self.sees(line, table, |shown| shown.iter().any(|row| row == wanted), wanted).await;
    }

    /// Repeats a command until it prints these consecutive lines, ignoring indentation and times.
    pub(crate) async fn reads(&self, line: &str, wanted: &str) {
        let lines: Vec<&str> = wanted.lines().collect();
        let has = |shown: &[String]| shown.windows(lines.len()).any(|window| window == lines);
        self.sees(line, timeless, has, wanted).await;
    }

    async fn sees(
        &self,
        line: &str,
        read: impl Fn(&str) -> Vec<String>,
        is_so: impl Fn(&[String]) -> bool,
        wanted: &str,
    ) {
        let begun = Instant::now();
        loop {
            // kubectl fails while the object does not exist.
            let shown = match self.runs(line, String::new()).await {
                Ok(text) => read(&text),
                Err(text) => vec![text],
            };
            if is_so(&shown) {
                return;
            }
            assert!(begun.elapsed() < TIMEOUT, "$ {line}\nnever shows\n{wanted}\nbut\n{}", shown.join("\n"));
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    async fn runs(&self, line: &str, input: String) -> Result<String, String> {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).env("PATH", &self.path).env("KUBECONFIG", &self.kubeconfig);
        shell.env("KUBECACHEDIR", &self.cache).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = move || {
            let mut child = shell.spawn().unwrap();
            // Fits into the pipe buffer.
            child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        };
        let output = tokio::task::spawn_blocking(run).await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }
}

/// Rows of a table, cells separated by a space, without the age column.
fn table(text: &str) -> Vec<String> {
    let Some(header) = text.lines().next() else { return Vec::new() };
    let begins = |(place, letter): (usize, char)| {
        letter != ' ' && (place == 0 || header.as_bytes().get(place - 1) == Some(&b' '))
    };
    let columns: Vec<usize> = header.char_indices().filter(|one| begins(*one)).map(|(place, _)| place).collect();
    let row = |line: &str| {
        let cell = |bounds: &[usize]| line.get(bounds[0]..bounds[1].min(line.len())).unwrap_or_default().trim();
        let cells = columns.windows(2).map(cell).map(|text| if text.is_empty() { "-" } else { text });
        cells.collect::<Vec<_>>().join(" ")
    };
    text.lines().map(row).collect()
}

/// Lines without indentation, alignment and times.
fn timeless(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let is_time =
        |line: &String| line.starts_with("Last Transition Time:") || line.starts_with("- lastTransitionTime:");
    lines.filter(|line| !is_time(line)).collect()
}

#[test]
fn empty_cells_are_compared_and_ages_are_not() {
    let text = "NAME   READY   DONE   AGE\na              yes    4s\nlong   no             10m\n";
    assert_eq!(table(text), ["NAME READY DONE", "a - yes", "long no -"]);
    assert!(table("").is_empty());
}
