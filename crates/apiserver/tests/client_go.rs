//! client-go's informers and dynamic client against the embedded server: ten thousand random writes, cut connections and
//! outages that outlast the history. In the end every informer holds what a fresh list shows.
//!
//! The Go program is in `client-go/`; its modules are pinned there. Needs Go and a module proxy: `cargo test --workspace
//! --test client_go -- --ignored --nocapture`.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use apiserver::{Builder, Embedded, HistoryLimits, Options, ROOT_CLUSTER, User};
use tokio::process::Command;

const WRITES: usize = 10_000;
/// So few changes are remembered that an outage of a few hundred writes outlasts them.
const HISTORY: HistoryLimits = HistoryLimits { events: 200, bytes: 1 << 24 };
/// Fetching and compiling the modules for the first time takes a minute or two.
const BUILT_WITHIN: Duration = Duration::from_mins(8);
/// The run takes half a minute; informers pause longer after each outage.
const DONE_WITHIN: Duration = Duration::from_mins(2);

/// Builds the program into `directory`.
async fn build(directory: &Path) -> PathBuf {
    let program = directory.join("client-go-check");
    let mut go = Command::new("go");
    go.args(["build", "-mod=readonly", "-o"]).arg(&program).arg(".");
    go.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client-go")).env("CGO_ENABLED", "0");
    let status = finished(go, BUILT_WITHIN).await;
    assert!(status.success(), "`go build` failed ({status}); its messages are above");
    program
}

/// The end of a program, which must come in time.
async fn finished(mut command: Command, within: Duration) -> ExitStatus {
    let mut child = command.stdin(Stdio::null()).kill_on_drop(true).spawn().expect("the program starts");
    let ended = tokio::time::timeout(within, child.wait()).await;
    ended.unwrap_or_else(|_| panic!("not finished within {} s", within.as_secs())).expect("the program ends")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Go and the modules of client-go"]
async fn last_10_client_go_stays_consistent_through_writes_disconnects_and_compactions() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = build(directory.path()).await;
    let server = Embedded::with(Builder::default().history(HISTORY), Options::default()).await.expect("a server");
    let listening = server.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &[]).await.expect("a listener");
    let ca = directory.path().join("ca.pem");
    std::fs::write(&ca, server.authority().ca_pem()).expect("the authority's certificate is written");
    let admin = User::authenticated("admin", ["system:masters".to_owned()]);
    let token = server.issue_token(ROOT_CLUSTER, admin);
    // Both ways in which informers get the present state: by a list, and by a watch that begins with it.
    for watch_list in ["false", "true"] {
        let mut check = Command::new(&program);
        check.arg("--server").arg(server.url(listening.address(), ROOT_CLUSTER)).arg("--ca").arg(&ca);
        check.args(["--writes", &WRITES.to_string(), "--history", &HISTORY.events.to_string()]);
        check.env("TOKEN", token.expose()).env("KUBE_FEATURE_WatchListClient", watch_list);
        let status = finished(check, DONE_WITHIN).await;
        assert!(status.success(), "the informers are inconsistent with WatchListClient={watch_list} ({status})");
    }
}
