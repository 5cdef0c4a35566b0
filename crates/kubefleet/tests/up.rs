//! `kubefleet up` as a user runs it: the real binary, its port, its kubeconfig, Ctrl-C.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use fleet_api::conditions::ConditionStatus;
use fleet_api::kinds::{ClusterResourcePlacement, MemberCluster};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node};
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;

/// A start takes about a second, or longer on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(2);

/// A running `kubefleet up`. It is killed if a test ends early.
struct Up {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubefleet"));
    command.arg("up").args(arguments).current_dir(directory).stdout(Stdio::piped()).stderr(Stdio::piped());
    at_home(&mut command, directory);
    command
}

impl Up {
    fn start(directory: &Path, arguments: &[&str]) -> Self {
        let mut child = command(directory, arguments).spawn().expect("the binary starts");
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, lines }
    }

    /// Waits for `ready`; returns the output before it.
    fn wait_for_ready(&mut self) -> String {
        let mut before = String::new();
        while let Ok(line) = self.lines.recv_timeout(TIMEOUT) {
            if line == "ready" {
                return before;
            }
            before.push_str(&line);
            before.push('\n');
        }
        let _ = self.child.kill();
        let mut errors = String::new();
        let _ = self.child.stderr.take().unwrap().read_to_string(&mut errors);
        panic!("never ready; standard error: {errors}; output: {before}");
    }

    /// Ctrl-C.
    fn interrupt(mut self) -> ExitStatus {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let (sender, ended) = mpsc::channel();
        let mut child = std::mem::replace(&mut self.child, Command::new("true").spawn().unwrap());
        std::thread::spawn(move || sender.send(child.wait().unwrap()));
        ended.recv_timeout(TIMEOUT).expect("it ends after Ctrl-C")
    }
}

/// The user's own kubeconfig.
fn at_home(command: &mut Command, directory: &Path) {
    command.env("HOME", directory).env_remove("KUBECONFIG");
}

async fn client(directory: &Path, context: &str) -> kube::Client {
    let file = Kubeconfig::read_from(directory.join("kubefleet.kubeconfig")).expect("a kubeconfig");
    let options = KubeConfigOptions { context: Some(context.to_owned()), ..KubeConfigOptions::default() };
    let config = kube::Config::from_custom_kubeconfig(file, &options).await.expect("a known context");
    kube::Client::try_from(config).expect("a client")
}

#[tokio::test]
async fn a_fleet_starts_joins_serves_kubectl_and_ends_on_ctrl_c() {
    let directory = tempfile::tempdir().unwrap();
    let mut up = Up::start(directory.path(), &["--listen", "127.0.0.1:0"]);
    let next = up.wait_for_ready();
    assert!(next.contains("\n  kubectl --context hub get memberclusters --show-labels\n"), "{next}");

    let hub = client(directory.path(), "hub").await;
    let members: Api<MemberCluster> = Api::all(hub.clone());
    let labels: Vec<String> = members
        .list(&ListParams::default())
        .await
        .expect("the hub answers over TLS")
        .items
        .into_iter()
        .map(|member| {
            let labels = member.metadata.labels.unwrap_or_default();
            let own = labels.iter().filter(|(key, _)| !key.contains('/')).map(|(key, value)| format!("{key}={value}"));
            format!("{} {}", member.metadata.name.unwrap_or_default(), own.collect::<Vec<_>>().join(","))
        })
        .collect();
    let expected =
        ["member1 environment=canary,order=2", "member2 environment=staging", "member3 environment=canary,order=1"];
    assert_eq!(labels, expected);

    let nodes: Api<Node> = Api::all(client(directory.path(), "member2").await);
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 3, "a member has its own API server");
    let namespaces: Api<Namespace> = Api::all(hub.clone());
    assert!(namespaces.get("fleet-member-member1").await.is_ok());
    assert_eq!(place_a_namespace(hub, "shop").await, 3, "clusters");

    let begun = Instant::now();
    assert!(up.interrupt().success(), "Ctrl-C is no failure");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// Places a namespace on all members and waits until it is available; returns the number of clusters.
async fn place_a_namespace(hub: kube::Client, name: &str) -> usize {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    Api::<Namespace>::all(hub.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    let selector = json!({"group": "", "version": "v1", "kind": "Namespace", "name": name});
    let placement = serde_json::from_value(json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": name}, "spec": {"resourceSelectors": [selector]},
    }));
    let placements: Api<ClusterResourcePlacement> = Api::all(hub);
    placements.create(&PostParams::default(), &placement.unwrap()).await.unwrap();
    let only = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut news = Box::pin(placements.watch(&only, "0").await.unwrap());
    let is_available = |placement: &ClusterResourcePlacement| {
        let mut conditions = placement.status.iter().flat_map(|status| &status.conditions);
        conditions.any(|one| one.type_ == "ClusterResourcePlacementAvailable" && one.status == ConditionStatus::True)
    };
    let becomes_available = async {
        while let Some(event) = news.next().await {
            if let WatchEvent::Added(placement) | WatchEvent::Modified(placement) = event.unwrap()
                && is_available(&placement)
            {
                return placement.status.map_or(0, |status| status.placement_statuses.len());
            }
        }
        panic!("the watch ended");
    };
    tokio::time::timeout(TIMEOUT, becomes_available).await.expect("the placement becomes available")
}

/// Requests `/version` over new connections from a thread until `done`; returns the latencies.
fn ask_for_the_version(directory: &Path, done: Arc<AtomicBool>) -> std::thread::JoinHandle<Vec<Duration>> {
    let directory = directory.to_owned();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut took = Vec::new();
        while !done.load(Ordering::SeqCst) {
            took.push(runtime.block_on(async {
                let hub = client(&directory, "hub").await;
                let begun = Instant::now();
                hub.apiserver_version().await.expect("the version is answered");
                begun.elapsed()
            }));
        }
        took
    })
}

#[tokio::test]
async fn last_09_the_version_is_answered_within_a_second_while_the_fleet_works() {
    let directory = tempfile::tempdir().unwrap();
    let mut up = Up::start(directory.path(), &["--listen", "127.0.0.1:0", "--in-memory", "--members", "100"]);
    up.wait_for_ready();
    let done = Arc::new(AtomicBool::new(false));
    let asking = ask_for_the_version(directory.path(), done.clone());
    let hub = client(directory.path(), "hub").await;
    let placed = futures::future::join_all(["a", "b", "c", "d", "e"].map(|name| place_a_namespace(hub.clone(), name)));
    assert_eq!(placed.await, [100; 5], "clusters");
    done.store(true, Ordering::SeqCst);
    let took = asking.join().unwrap();
    let slowest = took.iter().max().expect("the version was asked for");
    assert!(*slowest < Duration::from_secs(1), "{} answers, the slowest after {slowest:?}", took.len());
    assert!(up.interrupt().success());
}

#[tokio::test]
async fn a_data_directory_has_one_user_at_a_time_and_keeps_the_fleet() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--listen", "127.0.0.1:0", "--members", "1", "--data-dir", "data"];
    let mut up = Up::start(directory.path(), &arguments);
    up.wait_for_ready();
    let maps = |client| Api::<ConfigMap>::namespaced(client, "default");
    let metadata = ObjectMeta { name: Some("kept".to_owned()), ..ObjectMeta::default() };
    let object = ConfigMap { metadata, ..ConfigMap::default() };
    maps(client(directory.path(), "hub").await).create(&PostParams::default(), &object).await.unwrap();

    let second = refused(directory.path(), &arguments);
    assert!(second.contains("in use by process") && second.contains("\nhint: "), "{second}");

    assert!(up.interrupt().success());
    let mut again = Up::start(directory.path(), &arguments);
    again.wait_for_ready();
    assert!(maps(client(directory.path(), "hub").await).get("kept").await.is_ok());
    assert!(again.interrupt().success());
}

#[tokio::test]
async fn a_leaving_member_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = |members| ["--listen", "127.0.0.1:0", "--members", members, "--data-dir", "data"];
    let mut up = Up::start(directory.path(), &arguments("2"));
    up.wait_for_ready();
    let members: Api<MemberCluster> = Api::all(client(directory.path(), "hub").await);
    let patch = |finalizers: serde_json::Value| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let held = members.get("member2").await.unwrap().metadata.finalizers.unwrap_or_default();
    let foreign = [&held[..], &["example.com/other".to_owned()]].concat();
    members.patch("member2", &PatchParams::default(), &patch(json!(foreign))).await.unwrap();
    members.delete("member2", &DeleteParams::default()).await.unwrap();
    assert!(up.interrupt().success());

    // Once as an existing member of the hub, once as a requested one.
    for asked_for in ["1", "2"] {
        let mut again = Up::start(directory.path(), &arguments(asked_for));
        again.wait_for_ready();
        let members: Api<MemberCluster> = Api::all(client(directory.path(), "hub").await);
        assert!(members.get("member2").await.unwrap().metadata.deletion_timestamp.is_some());
        assert!(again.interrupt().success());
    }
}

/// The output of a failed start.
fn refused(directory: &Path, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = command(directory, arguments).output().unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(stdout.is_empty(), "errors are no output");
    String::from_utf8(stderr).unwrap()
}

#[test]
fn common_errors_are_explained_in_one_line_with_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = refused(directory.path(), &["--listen", &address]);
    assert!(text.starts_with(&format!("error: cannot listen on {address}: ")), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("\nhint: the port is in use, perhaps by another `kubefleet up`"), "{text}");

    let foreign = directory.path().join("config");
    std::fs::write(&foreign, "apiVersion: v1\nkind: Config\n").unwrap();
    let text = refused(directory.path(), &["--listen", "127.0.0.1:0", "--kubeconfig", "config"]);
    assert_eq!(
        text,
        "error: config exists and was not written by kubefleet up\nhint: choose another file with --kubeconfig FILE\n"
    );
    assert_eq!(std::fs::read_to_string(foreign).unwrap(), "apiVersion: v1\nkind: Config\n");

    std::fs::write(directory.path().join("file"), "").unwrap();
    let text = refused(directory.path(), &["--listen", "127.0.0.1:0", "--data-dir", "file"]);
    assert!(text.starts_with("error: ") && text.contains("\nhint: "), "{text}");
}

const FLEET: &str = "
members:
- name: west
  labels: {environment: staging}
  taints:
  - {key: maintenance, value: planned}
  properties: {example.com/region: west}
- name: east
  nodes: 1
behaviour:
- readyAfter: 1s
";

#[tokio::test]
async fn a_file_describes_the_fleet_and_the_hub_keeps_what_users_change() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("fleet.yaml"), FLEET).unwrap();
    let arguments = ["--listen", "127.0.0.1:0", "--fleet", "fleet.yaml", "--data-dir", "data"];
    let mut up = Up::start(directory.path(), &arguments);
    let next = up.wait_for_ready();
    assert!(next.contains("A hub and 2 simulated members, kept in data"), "{next}");
    assert!(next.contains("kubectl --context west get nodes"), "{next}");

    let members: Api<MemberCluster> = Api::all(client(directory.path(), "hub").await);
    let west = members.get("west").await.unwrap();
    assert_eq!(west.metadata.labels.unwrap()["environment"], "staging");
    assert_eq!(west.spec.taints[0].key, "maintenance");
    assert_eq!(west.status.unwrap().observed.properties["example.com/region"].value, "west");
    let nodes: Api<Node> = Api::all(client(directory.path(), "east").await);
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 1);
    let patch = Patch::Merge(json!({"metadata": {"labels": {"environment": "canary"}}}));
    members.patch("west", &PatchParams::default(), &patch).await.unwrap();
    assert!(up.interrupt().success());

    // Without the file: the hub has both members.
    let mut again = Up::start(directory.path(), &["--listen", "127.0.0.1:0", "--members", "0", "--data-dir", "data"]);
    again.wait_for_ready();
    let members: Api<MemberCluster> = Api::all(client(directory.path(), "hub").await);
    assert_eq!(members.get("west").await.unwrap().metadata.labels.unwrap()["environment"], "canary");
    assert!(again.interrupt().success());
}

#[tokio::test]
async fn the_kubeconfig_of_the_user_is_changed_only_with_merge_and_restored() {
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join(".kube/config");
    let theirs = "apiVersion: v1\nkind: Config\nclusters: []\nusers: []\ncontexts:\n- name: work\n  context: {cluster: c, user: u}\ncurrent-context: work\n";
    std::fs::create_dir(own.parent().unwrap()).unwrap();
    std::fs::write(&own, theirs).unwrap();
    let contexts = || {
        let names = Kubeconfig::read_from(&own).unwrap();
        let all: Vec<String> = names.contexts.into_iter().map(|context| context.name).collect();
        (all.join(" "), names.current_context)
    };
    let arguments = ["--listen", "127.0.0.1:0", "--members", "1"];
    let mut up = Up::start(directory.path(), &arguments);
    up.wait_for_ready();
    assert!(up.interrupt().success());
    assert_eq!(std::fs::read_to_string(&own).unwrap(), theirs);

    let mut merging = Up::start(directory.path(), &[&arguments[..], &["--merge"]].concat());
    let next = merging.wait_for_ready();
    assert!(
        !next.contains("export KUBECONFIG")
            && next.contains("Until then, the contexts are in ")
            && next.contains(".kube/config."),
        "{next}"
    );
    assert_eq!(contexts(), ("work hub member1".to_owned(), Some("work".to_owned())));
    let options = KubeConfigOptions { context: Some("hub".to_owned()), ..KubeConfigOptions::default() };
    let config = kube::Config::from_custom_kubeconfig(Kubeconfig::read_from(&own).unwrap(), &options).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(kube::Client::try_from(config).unwrap());
    assert!(namespaces.get("fleet-system").await.is_ok(), "its entries work");
    assert!(merging.interrupt().success());
    assert_eq!(contexts(), ("work".to_owned(), Some("work".to_owned())));

    std::fs::write(&own, "contexts: {}\n").unwrap();
    let text = refused(directory.path(), &[&arguments[..], &["--merge"]].concat());
    assert!(text.contains("config is not a kubeconfig: `contexts` is not a list\nhint: fix it"), "{text}");
    assert_eq!(std::fs::read_to_string(&own).unwrap(), "contexts: {}\n");
}

#[test]
fn a_damaged_data_directory_is_reported_and_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--listen", "127.0.0.1:0", "--members", "1", "--data-dir", "data"];
    let mut up = Up::start(directory.path(), &arguments);
    up.wait_for_ready();
    assert!(up.interrupt().success());
    let log = largest_log(&directory.path().join("data"));
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let text = refused(directory.path(), &arguments);
    assert!(text.contains(" is damaged at byte 0, before its end\nhint: nothing was changed"), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
    assert_eq!(std::fs::read(&log).unwrap(), bytes);
}

fn largest_log(directory: &Path) -> std::path::PathBuf {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let logs = files.filter(|entry| entry.file_name().to_string_lossy().starts_with("log-"));
    logs.max_by_key(|entry| entry.metadata().unwrap().len()).expect("a log").path()
}

#[test]
fn an_invalid_fleet_file_is_reported_with_line_and_field() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("fleet.yaml"), "members:\n- name: west\n  nodes: many\n").unwrap();
    let text = refused(directory.path(), &["--fleet", "fleet.yaml"]);
    assert!(text.starts_with("error: fleet.yaml, line 3: nodes: "), "{text}");
    assert!(
        text.ends_with("\nhint: docs/SIMULATION.md describes the format; examples/fleets has examples\n"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 2, "{text}");
    let text = refused(directory.path(), &["--fleet", "nowhere.yaml"]);
    assert!(text.starts_with("error: cannot read nowhere.yaml: "), "{text}");
}
