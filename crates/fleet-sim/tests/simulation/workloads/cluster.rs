//! A simulated cluster under test.

use std::sync::Arc;
use std::time::Duration;

use apiserver::{Builder, Embedded, Options, User};
use fleet_runtime::Clock;
use fleet_sim::workloads::{Behaviours, Workloads};
use jiff::Timestamp;
use serde_json::{Value, json};

const NAME: &str = "member";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// A cluster with nodes and a namespace `test`, on a runtime with paused time.
pub(crate) struct TestCluster {
    server: Embedded,
    client: kube::Client,
    workloads: Option<Workloads>,
}

impl TestCluster {
    pub(crate) async fn new(nodes: usize) -> Self {
        Self::behaving(nodes, json!([{"jitter": "0s"}])).await
    }

    pub(crate) async fn behaving(nodes: usize, behaviours: Value) -> Self {
        let clock = Clock::starting_at(Timestamp::from_second(1_800_000_000).unwrap());
        let builder = Builder::default().clock(Arc::new(move || clock.now())).seed(1);
        let server = Embedded::with(builder, Options::default()).await.unwrap();
        let admin = User::authenticated("admin", ["system:masters".to_owned()]);
        let client = kube::Client::new(server.service(NAME, admin), "test");
        let behaviours = Arc::new(Behaviours::parse(behaviours).unwrap());
        let workloads = Some(Workloads::start(&server.cluster(NAME), behaviours));
        let cluster = Self { server, client, workloads };
        for number in 1..=nodes {
            cluster.add_node(&format!("node{number}")).await;
        }
        cluster.create("/api/v1/namespaces", json!({"metadata": {"name": "test"}})).await;
        cluster.pass(1).await;
        cluster
    }

    pub(crate) fn client(&self) -> &kube::Client {
        &self.client
    }

    pub(crate) async fn add_node(&self, name: &str) {
        self.create("/api/v1/nodes", json!({"metadata": {"name": name, "labels": {"zone": name}}})).await;
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        self.patch(&format!("/api/v1/nodes/{name}/status"), ready).await;
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Restarts the simulation of the cluster, as after a restart of the process.
    pub(crate) fn restart(&mut self) {
        self.workloads = None;
        let behaviours = Arc::new(Behaviours::parse(json!([{"jitter": "0s"}])).unwrap());
        self.workloads = Some(Workloads::start(&self.server.cluster(NAME), behaviours));
    }

    async fn send(&self, method: &str, path: &str, format: &str, body: Value) -> Value {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = http::Request::builder().method(method).uri(path).header("content-type", format);
        self.client
            .request(request.body(body).unwrap())
            .await
            .unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    pub(crate) async fn create(&self, path: &str, object: Value) -> Value {
        self.send("POST", path, "application/json", object).await
    }

    pub(crate) async fn patch(&self, path: &str, patch: Value) -> Value {
        self.send("PATCH", path, "application/merge-patch+json", patch).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Value {
        self.send("DELETE", path, "application/json", Value::Null).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.send("GET", path, "application/json", Value::Null).await
    }

    pub(crate) async fn items(&self, path: &str) -> Vec<Value> {
        self.get(path).await["items"].as_array().unwrap().clone()
    }

    /// These columns of `kubectl get`, one line per object, without random names.
    pub(crate) async fn table(&self, path: &str, columns: &[&str]) -> String {
        let request = http::Request::get(path).header("accept", TABLE).body(Vec::new()).unwrap();
        let table: Value = self.client.request(request).await.unwrap();
        let names: Vec<&str> =
            table["columnDefinitions"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        let at: Vec<usize> = columns.iter().map(|one| names.iter().position(|name| name == one).unwrap()).collect();
        let row = |row: &Value| {
            let cell = |index: &usize| match &row["cells"][*index] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            at.iter().map(cell).collect::<Vec<_>>().join(" ")
        };
        table["rows"].as_array().unwrap().iter().map(row).collect::<Vec<_>>().join("\n")
    }

    /// The pods of the namespace as `kubectl get pods` shows them, sorted, without their names.
    pub(crate) async fn pods(&self) -> String {
        let table = self.table("/api/v1/namespaces/test/pods", &["Ready", "Status", "Restarts"]).await;
        let mut lines: Vec<&str> = table.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    }

    pub(crate) async fn deployments(&self) -> String {
        let columns = ["Name", "Ready", "Up-to-date", "Available"];
        self.table("/apis/apps/v1/namespaces/test/deployments", &columns).await
    }

    /// Type, reason and message of the Events about objects of a kind, without duplicates.
    pub(crate) async fn events(&self, kind: &str) -> Vec<String> {
        let all = self.items("/api/v1/namespaces/test/events").await;
        let about = all.iter().filter(|event| event["involvedObject"]["kind"] == kind);
        let line = |event: &Value| {
            ["type", "reason", "message"].map(|field| event[field].as_str().unwrap_or_default().to_owned()).join(" ")
        };
        about.map(line).collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    }
}

/// A Deployment `web`.
pub(crate) fn deployment(replicas: u32, image: &str) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(image)},
    })
}

pub(crate) fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    })
}

pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/test/deployments";
