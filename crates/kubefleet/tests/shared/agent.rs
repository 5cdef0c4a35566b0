//! A running agent process: logs, probes, exit. It is killed if a test ends early.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Generous, for busy machines.
const TIMEOUT: Duration = Duration::from_mins(3);
/// Polling interval.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(crate) struct Agent {
    child: Child,
    log: Arc<Mutex<String>>,
    lines: watch::Receiver<usize>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The binary without environment variables that affect the connection.
pub(crate) fn command(verb: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubefleet"));
    command.arg(verb).args(arguments).env_remove("KUBECONFIG").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A hub agent on free ports.
pub(crate) fn hub_agent(flags: &[&str]) -> Command {
    let ports = ["--health-probe-bind-address=127.0.0.1:0", "--metrics-bind-address", "127.0.0.1:0"];
    let mut command = command("hub-agent", &[&ports[..], flags].concat());
    // As in a pod.
    command.env("POD_NAMESPACE", "fleet-system");
    command
}

impl Agent {
    /// On free ports, which are in the log.
    pub(crate) fn start(kubeconfig: &Path, flags: &[&str]) -> Self {
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        Self::spawn(hub_agent(&[&[kubeconfig.as_str()], flags].concat()))
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the binary starts");
        let errors = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::new(Mutex::new(String::new()));
        let (count, lines) = watch::channel(0);
        let kept = log.clone();
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                let mut kept = kept.lock().unwrap();
                kept.push_str(&line);
                kept.push('\n');
                drop(kept);
                count.send_modify(|count| *count += 1);
            }
        });
        Self { child, log, lines }
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits for a log line with this text; returns the first one.
    pub(crate) async fn logged(&mut self, text: &str) -> String {
        let log = self.log.clone();
        let found = move || log.lock().unwrap().lines().find(|line| line.contains(text)).map(str::to_owned);
        let waited = tokio::time::timeout(TIMEOUT, async {
            loop {
                if let Some(line) = found() {
                    return line;
                }
                assert!(self.lines.changed().await.is_ok(), "ended without {text:?}:\n{}", self.log());
            }
        });
        waited.await.unwrap_or_else(|_| panic!("never logged {text:?}:\n{}", self.log()))
    }

    pub(crate) async fn address_of(&mut self, flag: &str) -> SocketAddr {
        let line = self.logged(&format!("flag=\"{flag}\"")).await;
        let address = line.split("address=").nth(1).unwrap_or_else(|| panic!("no address in {line}"));
        address.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// The log, also after this value is dropped.
    pub(crate) fn shared_log(&self) -> Arc<Mutex<String>> {
        self.log.clone()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The response at the address of a flag.
    pub(crate) async fn get_at(&mut self, flag: &str, path: &str) -> (u16, String) {
        get(self.address_of(flag).await, path).await
    }

    pub(crate) async fn get_probe(&mut self, path: &str) -> (u16, String) {
        get(self.address_of("health-probe-bind-address").await, path).await
    }

    pub(crate) async fn get_metrics(&mut self, path: &str) -> (u16, String) {
        get(self.address_of("metrics-bind-address").await, path).await
    }

    /// Waits until `/metrics` contains all of these.
    pub(crate) async fn shows(&mut self, wanted: &[&str]) {
        let address = self.address_of("metrics-bind-address").await;
        let begun = Instant::now();
        loop {
            let (_, shown) = get(address, "/metrics").await;
            if wanted.iter().all(|one| shown.contains(one)) {
                return;
            }
            assert!(begun.elapsed() < TIMEOUT, "{wanted:?} is never in\n{shown}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits for this status of `/readyz`; returns the body.
    pub(crate) async fn ready_when(&mut self, wanted: impl Fn(u16, &str) -> bool) -> String {
        let address = self.address_of("health-probe-bind-address").await;
        let begun = Instant::now();
        loop {
            let (code, text) = get(address, "/readyz").await;
            if wanted(code, &text) {
                return text;
            }
            assert!(begun.elapsed() < TIMEOUT, "{code} {text}\n{}", self.log());
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Sends SIGTERM; returns duration, exit status and log.
    pub(crate) async fn terminate(mut self) -> (Duration, ExitStatus, String) {
        let id = self.child.id().to_string();
        let asked = Instant::now();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(asked.elapsed() < TIMEOUT, "it does not end:\n{}", self.log());
            tokio::time::sleep(LOOK_EVERY).await;
        };
        let took = asked.elapsed();
        // The reader may need a moment for the last lines.
        while self.lines.changed().await.is_ok() {}
        (took, status, self.log())
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A plain HTTP request; returns status and body.
pub(crate) async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The output of a start that fails with this code.
pub(crate) fn refused(code: i32, mut command: Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.is_empty(), "errors are no output");
    String::from_utf8(output.stderr).unwrap()
}
