//! An API server in this process that agents reach over TLS, with exactly the permissions of `config/rbac`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use apiserver::{ContextEntry, Credentials, Embedded, Listening, Options, ROOT_CLUSTER, User, kubeconfig};
use fleet_api::kinds::all_crds;
use serde_json::{Value, json};

use crate::objects::collection;

const TIMEOUT: Duration = Duration::from_mins(3);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const RIGHTS: [&str; 2] = [
    include_str!("../../../../config/rbac/hub-agent.yaml"),
    include_str!("../../../../config/rbac/hub-agent-admission.yaml"),
];

pub(crate) const WITHOUT_SECRETS: &str = include_str!("../../../../config/rbac/hub-agent-without-secrets.yaml");

pub(crate) struct TestHub {
    server: Embedded,
    _listening: Listening,
    _directory: tempfile::TempDir,
    kubeconfig: PathBuf,
    token: String,
}

impl TestHub {
    /// A server with the permissions of the agent and without our CustomResourceDefinitions.
    pub(crate) async fn start() -> Self {
        let server = Embedded::start(Options::default()).await.unwrap();
        let listening = server.listen("127.0.0.1:0".parse().unwrap(), &[]).await.unwrap();
        let groups = ["system:serviceaccounts", "system:serviceaccounts:fleet-system"].map(str::to_owned);
        let agent = User::authenticated("system:serviceaccount:fleet-system:kubefleet-hub-agent", groups);
        let token = server.issue_token(ROOT_CLUSTER, agent);
        let directory = tempfile::tempdir().unwrap();
        let secret = token.expose().to_owned();
        let entry = ContextEntry {
            name: "hub".to_owned(),
            server: server.url(listening.address(), ROOT_CLUSTER),
            namespace: None,
            credentials: Credentials::Token(token),
        };
        let text = kubeconfig(server.authority().ca_pem(), &[entry]).expose().to_owned();
        let path = directory.path().join("kubeconfig");
        std::fs::write(&path, text).unwrap();
        let hub = Self { server, _listening: listening, _directory: directory, kubeconfig: path, token: secret };
        for object in RIGHTS.iter().flat_map(|file| fleet_api::yaml::documents(file).unwrap()) {
            hub.create(object).await;
        }
        hub
    }

    /// Removes the permission to read Secrets, as `hub-agent-without-secrets.yaml` does.
    pub(crate) async fn without_secrets(&self) {
        let role = fleet_api::yaml::documents(WITHOUT_SECRETS).unwrap().remove(0);
        let name = role["metadata"]["name"].as_str().unwrap();
        let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}");
        self.json_patch(&path, json!([{"op": "replace", "path": "/rules", "value": role["rules"]}])).await;
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub(crate) fn agent_token(&self) -> &str {
        &self.token
    }

    pub(crate) async fn install_kinds(&self) {
        for crd in all_crds() {
            self.create(crd.object).await;
        }
    }

    pub(crate) async fn add_member(&self, name: &str) {
        let identity = json!({"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"});
        self.create(json!({"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
            "metadata": {"name": name}, "spec": {"identity": identity}}))
            .await;
    }

    /// Waits until an object exists.
    pub(crate) async fn wait_for(&self, path: &str) -> Value {
        self.wait_until(path, |found| found.is_some()).await.unwrap()
    }

    /// Waits until an object matches; returns it.
    pub(crate) async fn wait_until(&self, path: &str, is_so: impl Fn(Option<&Value>) -> bool) -> Option<Value> {
        let begun = Instant::now();
        loop {
            let found = self.get(path).await;
            if is_so(found.as_ref()) {
                return found;
            }
            assert!(begun.elapsed() < TIMEOUT, "{path}: {found:?}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn get(&self, path: &str) -> Option<Value> {
        self.client().request(http::Request::get(path).body(Vec::new()).unwrap()).await.ok()
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.send(http::Request::delete(path), json!({})).await;
    }

    pub(crate) async fn json_patch(&self, path: &str, operations: Value) {
        self.send(http::Request::patch(path).header("content-type", "application/json-patch+json"), operations).await;
    }

    fn client(&self) -> kube::Client {
        let admin = User::authenticated("admin", ["system:masters".to_owned()]);
        kube::Client::new(self.server.service(ROOT_CLUSTER, admin), "default")
    }

    /// A client of the hub with the identity of this member.
    pub(crate) fn client_as(&self, member: &str) -> kube::Client {
        kube::Client::new(self.server.service(ROOT_CLUSTER, User::authenticated(member, [])), "default")
    }

    /// Creates a namespace unless it exists.
    pub(crate) async fn ensure_namespace(&self, name: &str) {
        if self.get(&format!("/api/v1/namespaces/{name}")).await.is_none() {
            self.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
        }
    }

    pub(crate) async fn create(&self, object: Value) {
        let path = collection(&object);
        self.send(http::Request::post(&path).header("content-type", "application/json"), object).await;
    }

    async fn send(&self, request: http::request::Builder, body: Value) {
        let request = request.body(body.to_string().into_bytes()).unwrap();
        let what = format!("{} {}", request.method(), request.uri());
        let done = self.client().request::<Value>(request).await;
        assert!(done.is_ok(), "{what}: {done:?}");
    }
}
