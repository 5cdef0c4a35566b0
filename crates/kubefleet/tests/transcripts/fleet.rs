//! A fleet for one script: a hub and simulated members in this process, and the real binary to talk to them.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apiserver::{ContextEntry, Credentials, Embedded, Listening, Options, ROOT_CLUSTER, User, kubeconfig};
use fleet_api::yaml;
use fleet_runtime::{DiscoveredKind, TaskPanicked, discover};
use fleet_sim::agents::{AgentEnvironment, hub_agent, hub_identity, immediate_hub_options, member_agent};
use fleet_sim::member::{SimulatedMember, identity};
use fleet_sim::setup::{add_member, add_nodes, all_joined, prepare_hub, set_up_member};
use fleet_sim::workloads::{Behaviours, Workloads};
use futures::StreamExt as _;
use kube::core::WatchEvent;
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::script::Object;
use crate::seen::normalised;

/// Generous, for busy machines.
const TIMEOUT: Duration = Duration::from_mins(2);
/// Labels of the first members, as `kubefleet up` gives them.
const LABELS: [&[(&str, &str)]; 3] = [
    &[("environment", "canary"), ("order", "2")],
    &[("environment", "staging")],
    &[("environment", "canary"), ("order", "1")],
];

/// A kubeconfig of an unreachable hub: nothing listens on port 1.
const GONE: &str = "
apiVersion: v1
kind: Config
current-context: gone
contexts: [{name: gone, context: {cluster: gone, user: gone}}]
clusters: [{name: gone, cluster: {server: \"https://127.0.0.1:1\"}}]
users: [{name: gone, user: {token: x}}]
";

pub(crate) struct Fleet {
    directory: TempDir,
    admin: kube::Client,
    kinds: Vec<DiscoveredKind>,
    server: Embedded,
    /// Stopped on drop.
    _listening: Listening,
    agents: Mutex<JoinSet<Result<(), TaskPanicked>>>,
    _workloads: Vec<Workloads>,
}

/// A cluster that is no member yet.
fn outsider(name: &str) -> SimulatedMember {
    SimulatedMember::new(name).unwrap().applying()
}

fn administrator() -> User {
    User::authenticated("kubernetes-admin", ["system:masters".to_owned()])
}

impl Fleet {
    pub(crate) async fn start(members: u16) -> Self {
        Self::start_with(members, &[]).await
    }

    /// Also with clusters that are no members, on which pods run.
    pub(crate) async fn start_with(members: u16, clusters: &[String]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Embedded::start(Options::default()).await.unwrap();
        let listening = server.listen("127.0.0.1:0".parse().unwrap(), &[]).await.unwrap();
        let admin = kube::Client::new(server.service(ROOT_CLUSTER, administrator()), "default");
        prepare_hub(&admin).await.unwrap();
        let mut agents = JoinSet::new();
        let mut workloads = Vec::new();
        let client = kube::Client::new(server.service(ROOT_CLUSTER, hub_identity()), "default");
        let hub = hub_agent(client, &immediate_hub_options(), &AgentEnvironment::real()).unwrap();
        agents.spawn(hub.run(std::future::pending()));
        let behaviours = Arc::new(Behaviours::default());
        let mut names = Vec::new();
        for number in 1..=usize::from(members) {
            let labels = LABELS.get(number - 1).copied().unwrap_or_default();
            let member = SimulatedMember::new(&format!("member{number}")).unwrap().labelled(labels).applying();
            let own = kube::Client::new(server.service(member.name.as_str(), administrator()), "default");
            set_up_member(&own, &member).await.unwrap();
            workloads.push(Workloads::start(&server.cluster(member.name.as_str()), behaviours.clone()));
            add_member(&admin, &member).await.unwrap();
            let client = kube::Client::new(server.service(ROOT_CLUSTER, identity(&member.name)), "default");
            let agent = member_agent(client, own, &member, &AgentEnvironment::real()).unwrap();
            agents.spawn(agent.run(std::future::pending()));
            names.push(member.name.to_string());
        }
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        tokio::time::timeout(TIMEOUT, all_joined(&admin, &names, |_| {})).await.unwrap().unwrap();
        for name in clusters.iter().map(String::as_str) {
            workloads.push(Workloads::start(&server.cluster(name), behaviours.clone()));
            let own = kube::Client::new(server.service(name, administrator()), "default");
            set_up_member(&own, &outsider(name)).await.unwrap();
            names.push(name);
        }
        if !clusters.is_empty() {
            workloads.push(Workloads::start(&server.cluster(ROOT_CLUSTER), behaviours.clone()));
            add_nodes(&admin, &outsider("hub")).await.unwrap();
        }
        std::fs::write(directory.path().join("config"), config(&server, &listening, &names)).unwrap();
        std::fs::write(directory.path().join("broken"), "clusters: [\n").unwrap();
        std::fs::write(directory.path().join("gone"), GONE).unwrap();
        for name in ["kubefleet", "kubectl-fleet"] {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubefleet"), directory.path().join(name)).unwrap();
        }
        let kinds = discover(&admin).await.unwrap().kinds;
        let agents = Mutex::new(agents);
        Self { directory, admin, kinds, server, _listening: listening, agents, _workloads: workloads }
    }

    /// A client of an administrator of a cluster.
    pub(crate) fn client(&self, cluster: &str) -> kube::Client {
        kube::Client::new(self.server.service(cluster, administrator()), "default")
    }

    /// Starts the agent of a cluster with the identity that `join` creates.
    pub(crate) fn start_agent(&self, name: &str) {
        let account = format!("system:serviceaccount:fleet-system:{name}");
        let groups = ["system:serviceaccounts", "system:serviceaccounts:fleet-system"].map(str::to_owned);
        let identity = User::authenticated(&account, groups);
        let client = kube::Client::new(self.server.service(ROOT_CLUSTER, identity), "default");
        let agent = member_agent(client, self.client(name), &outsider(name), &AgentEnvironment::real()).unwrap();
        self.agents.lock().unwrap().spawn(agent.run(std::future::pending()));
    }

    /// Runs a command in its own directory with a clean environment.
    pub(crate) async fn run(&self, line: &str) -> String {
        let words = shlex::split(line).unwrap();
        let (program, arguments): (PathBuf, &[String]) = match &words[..] {
            [first, rest @ ..] if first == "kubefleet" => (env!("CARGO_BIN_EXE_kubefleet").into(), rest),
            [first, second, rest @ ..] if first == "kubectl" && second == "fleet" => {
                (self.directory.path().join("kubectl-fleet"), rest)
            }
            _ => panic!("{line:?} is none of our commands"),
        };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.directory.path()).stdin(Stdio::null()).env_clear();
        command.env("KUBECONFIG", "config").env("COLUMNS", "120").env("HOME", self.directory.path());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let mut seen = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        if !output.status.success() {
            writeln!(seen, "[exit {}]", output.status.code().unwrap()).unwrap();
        }
        normalised(&seen, self.directory.path())
    }

    /// A command of a shell for a terminal.
    pub(crate) fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        self.at_home(command.args(["-c", line]));
        command
    }

    /// Runs a command with the kubeconfig and our programs in the PATH.
    pub(crate) fn at_home(&self, command: &mut Command) {
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.directory.path().display())).env_remove("NO_COLOR");
        command.env("KUBECONFIG", "config").current_dir(self.directory.path());
    }

    /// The content of a file in the working directory.
    pub(crate) fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap()
    }

    pub(crate) async fn apply(&self, text: &str) {
        for document in yaml::documents(text).unwrap() {
            let (version, kind) = (document["apiVersion"].as_str().unwrap(), document["kind"].as_str().unwrap());
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            let is =
                |one: &&DiscoveredKind| *one.id.group == *group && *one.id.version == *version && *one.id.kind == *kind;
            let found = self.kinds.iter().find(is).unwrap_or_else(|| panic!("no kind {kind}"));
            let (metadata, id) = (&document["metadata"], &found.id);
            let path = id.object_path(metadata["namespace"].as_str(), metadata["name"].as_str().unwrap(), None);
            let path = format!("{path}?fieldManager=script&force=true");
            self.send("application/apply-patch+yaml", &path, &document).await;
        }
    }

    pub(crate) async fn patch(&self, object: &Object, change: &str) {
        let change: Value = serde_json::from_str(change).unwrap_or_else(|error| panic!("{change}: {error}"));
        self.send("application/merge-patch+json", &self.path(object), &change).await;
    }

    async fn send(&self, format: &str, path: &str, body: &Value) {
        let request = http::Request::patch(path).header("content-type", format);
        let request = request.body(body.to_string().into_bytes()).unwrap();
        self.admin.request::<Value>(request).await.unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    fn kind(&self, kind: &str) -> &DiscoveredKind {
        let found = self.kinds.iter().find(|one| one.preferred && *one.id.kind == *kind);
        found.unwrap_or_else(|| panic!("no kind {kind}"))
    }

    fn path(&self, object: &Object) -> String {
        self.kind(&object.kind).id.object_path(object.namespace.as_deref(), &object.name, None)
    }

    /// Watches an object until a condition has this status or reason, or a field this value.
    pub(crate) async fn wait(&self, object: &Object, (type_, word): &(String, String)) {
        let path = self.kind(&object.kind).id.collection_path(object.namespace.as_deref());
        let is_there = |seen: &Value| {
            let conditions = seen["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let says = |one: &Value| one["type"] == **type_ && (one["status"] == **word || one["reason"] == **word);
            let has = seen.pointer(type_).is_some_and(|value| *value == **word);
            seen["metadata"]["name"] == *object.name && (has || conditions.iter().any(says))
        };
        let follow = async {
            let mut last = Value::Null;
            loop {
                let request = http::Request::get(format!("{path}?watch=true")).body(Vec::new()).unwrap();
                let mut events = std::pin::pin!(self.admin.request_events::<Value>(request).await.unwrap());
                while let Some(Ok(event)) = events.next().await {
                    if let WatchEvent::Added(seen) | WatchEvent::Modified(seen) = event {
                        if is_there(&seen) {
                            return;
                        }
                        last = if seen["metadata"]["name"] == *object.name { seen } else { last };
                    }
                }
                assert!(!last.is_null(), "{object} was never seen");
            }
        };
        let waited = tokio::time::timeout(TIMEOUT, follow).await;
        assert!(waited.is_ok(), "{object} never had {type_}={word}");
    }
}

/// Contexts `hub` and one per member, and those of users without permissions; a script may grant some to `viewer`.
fn config(server: &Embedded, listening: &Listening, members: &[&str]) -> String {
    let address = listening.address();
    let entry = |name: &str, cluster: &str, user: User| ContextEntry {
        name: name.to_owned(),
        server: server.url(address, cluster),
        namespace: None,
        credentials: Credentials::Token(server.issue_token(cluster, user)),
    };
    let user = |name: &str| entry(name, ROOT_CLUSTER, User::authenticated(name, []));
    let mut contexts = vec![entry("hub", ROOT_CLUSTER, administrator()), user("jo"), user("viewer")];
    contexts.extend(members.iter().map(|name| entry(name, name, administrator())));
    kubeconfig(server.authority().ca_pem(), &contexts).expose().to_owned()
}
