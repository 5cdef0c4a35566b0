//! A shell with a real kubectl (from `KUBECTL`), beside a `kubefleet up`.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Timeout of a command.
const TIMEOUT: Duration = Duration::from_mins(3);
/// Marks the end of the output of a command.
const MARK: &str = "--- that was it:";

/// A process that is killed on drop.
pub(crate) struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn lines(from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    lines
}

/// One shell for the whole page, so that exported variables persist.
pub(crate) struct Shell {
    input: ChildStdin,
    output: mpsc::Receiver<String>,
    _process: Ended,
}

impl Shell {
    pub(crate) fn start(directory: &Path, path: &str) -> Self {
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc"]).current_dir(directory).env("PATH", path).env("HOME", directory);
        bash.env_remove("KUBECONFIG").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = bash.spawn().expect("a shell");
        let input = process.stdin.take().unwrap();
        let output = lines(process.stdout.take().unwrap());
        let mut shell = Self { input, output, _process: Ended(process) };
        shell.types("exec 2>&1");
        shell
    }

    /// Output and exit code of a command.
    pub(crate) fn types(&mut self, command: &str) -> (Vec<String>, String) {
        write!(self.input, "{command}\nprintf '\\n%s %s\\n' '{MARK}' $?\n").unwrap();
        let mut seen: Vec<String> = Vec::new();
        loop {
            let line = self.output.recv_timeout(TIMEOUT).unwrap_or_else(|_| panic!("{command} did not end: {seen:#?}"));
            if let Some(code) = line.strip_prefix(MARK) {
                while seen.last().is_some_and(|last| last.trim().is_empty()) {
                    seen.pop();
                }
                return (seen, code.trim().to_owned());
            }
            seen.push(line);
        }
    }
}

pub(crate) fn start_up(directory: &Path) -> Ended {
    let mut up = Command::new(env!("CARGO_BIN_EXE_kubefleet"));
    up.args(["up", "--listen", "127.0.0.1:0"]).current_dir(directory).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = Ended(up.spawn().unwrap());
    let output = lines(process.0.stdout.take().unwrap());
    while output.recv_timeout(TIMEOUT).expect("it gets ready") != "ready" {}
    process
}

/// A clone of the repository, and a PATH with the programs of the guides.
pub(crate) fn workplace(directory: &Path) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let kubectl: PathBuf = std::env::var_os("KUBECTL").expect("KUBECTL names a kubectl").into();
    let ours = Path::new(env!("CARGO_BIN_EXE_kubefleet"));
    let programs = directory.join("bin");
    std::fs::create_dir(&programs).unwrap();
    let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, directory.join(name)).unwrap();
    link(&root.join("examples"), "examples");
    link(&kubectl.canonicalize().unwrap(), "bin/kubectl");
    link(ours, "bin/kubefleet");
    link(ours, "bin/kubectl-fleet");
    format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default())
}
