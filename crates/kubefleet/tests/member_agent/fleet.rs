//! A hub and members as clusters of one API server in this process, over TLS. The token of a member has exactly the
//! permissions that a hub agent would grant.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use apiserver::{ContextEntry, Credentials, Embedded, Listening, Options, ROOT_CLUSTER, User, kubeconfig};
use base64::Engine as _;
use fleet_api::kinds::all_crds;
use fleet_core::membership::hub::MemberRole;
use serde_json::{Value, json};

use crate::agent::command;
use crate::objects::{FREE_PORTS, collection};

const RIGHTS: &str = include_str!("../../../../config/rbac/member-agent.yaml");
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const TIMEOUT: Duration = Duration::from_mins(3);
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(crate) struct Fleet {
    server: Embedded,
    listening: Listening,
    directory: tempfile::TempDir,
}

pub(crate) fn config_map(namespace: &str, name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name},
        "data": {"key": value}})
}

impl Fleet {
    pub(crate) async fn start(members: &[&str]) -> Self {
        let server = Embedded::start(Options::default()).await.unwrap();
        let listening = server.listen("127.0.0.1:0".parse().unwrap(), &[]).await.unwrap();
        let fleet = Self { server, listening, directory: tempfile::tempdir().unwrap() };
        fleet.install_kinds(ROOT_CLUSTER).await;
        for member in members {
            fleet.add(member).await;
        }
        fleet
    }

    /// Grants the permissions of a new member, and writes the files of its agent.
    async fn add(&self, member: &str) {
        let namespace = format!("fleet-member-{member}");
        let create = |path: String, object: Value| self.create(ROOT_CLUSTER, path, object);
        create("/api/v1/namespaces".to_owned(), json!({"metadata": {"name": namespace}})).await;
        let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
        let rules = json!(MemberRole::rules());
        create(format!("{rbac}/roles"), json!({"metadata": {"name": "agent"}, "rules": rules})).await;
        let subject = json!({"kind": "User", "name": member, "apiGroup": "rbac.authorization.k8s.io"});
        let role = json!({"kind": "Role", "name": "agent", "apiGroup": "rbac.authorization.k8s.io"});
        create(
            format!("{rbac}/rolebindings"),
            json!({"metadata": {"name": "agent"}, "subjects": [subject], "roleRef": role}),
        )
        .await;
        let internal_member_clusters =
            format!("/apis/cluster.kubernetes-fleet.io/v1beta1/namespaces/{namespace}/internalmemberclusters");
        create(
            internal_member_clusters,
            json!({"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "InternalMemberCluster",
                "metadata": {"name": member}, "spec": {"state": "Join", "heartbeatPeriodSeconds": 60}}),
        )
        .await;
        self.install_kinds(member).await;
        let token = self.server.issue_token(ROOT_CLUSTER, User::authenticated(member, []));
        // As from `kubectl create token`.
        std::fs::write(self.path(&format!("{member}.token")), format!("{}\n", token.expose())).unwrap();
        std::fs::write(self.path(member), self.own_kubeconfig(member).await).unwrap();
    }

    /// A kubeconfig for the agent's own cluster, with the permissions of `config/rbac`.
    async fn own_kubeconfig(&self, member: &str) -> String {
        for object in fleet_api::yaml::documents(RIGHTS).unwrap() {
            self.create(member, collection(&object), object).await;
        }
        let groups = ["system:serviceaccounts", "system:serviceaccounts:fleet-system"].map(str::to_owned);
        let agent = User::authenticated("system:serviceaccount:fleet-system:kubefleet-member-agent", groups);
        let entry = ContextEntry {
            name: member.to_owned(),
            server: self.server.url(self.address(), member),
            namespace: None,
            credentials: Credentials::Token(self.server.issue_token(member, agent)),
        };
        kubeconfig(self.server.authority().ca_pem(), &[entry]).expose().to_owned()
    }

    fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    pub(crate) fn token(&self, member: &str) -> String {
        std::fs::read_to_string(self.path(&format!("{member}.token"))).unwrap().trim().to_owned()
    }

    fn agent(&self, flags: &[&str]) -> Command {
        let mut command = command("member-agent", &FREE_PORTS);
        let authority = base64::engine::general_purpose::STANDARD.encode(self.server.authority().ca_pem());
        for variable in ["CA_BUNDLE", "IDENTITY_KEY", "IDENTITY_CERT", "HTTPS_PROXY", "https_proxy"] {
            command.env_remove(variable);
        }
        command
            .args(flags)
            .env("HUB_SERVER_URL", self.server.url(self.address(), ROOT_CLUSTER))
            .env("HUB_CERTIFICATE_AUTHORITY", authority);
        command
    }

    /// An agent of one member, configured by environment variables as in a pod.
    pub(crate) fn single(&self, member: &str, flags: &[&str]) -> Command {
        let mut command = self.agent(flags);
        command
            .env("MEMBER_CLUSTER_NAME", member)
            .env("CONFIG_PATH", self.path(&format!("{member}.token")))
            .env("KUBECONFIG", self.path(member));
        command
    }

    /// An agent of many members, each with its own token.
    pub(crate) fn many(&self, members: &[&str], flags: &[&str]) -> Command {
        let mut command = self.agent(flags);
        command.arg(format!("--members-kubeconfigs={}", self.directory.path().display()));
        command.env("CONFIG_PATH", self.path(&format!("{}.token", members[0])));
        command
    }

    /// Waits until they are served.
    pub(crate) async fn install_kinds(&self, cluster: &str) {
        // A member needs only AppliedWorks.
        let is_needed = |name: &str| cluster == ROOT_CLUSTER || name.contains("_appliedworks.");
        for crd in all_crds().into_iter().filter(|crd| is_needed(&crd.file_name())) {
            self.create(cluster, DEFINITIONS.to_owned(), crd.object).await;
        }
        let is_served = |definition: &Value| is_true(&definition["status"], "Established");
        self.until("the kinds are served", || async {
            self.read(cluster, DEFINITIONS).await.unwrap()["items"].as_array().unwrap().iter().all(is_served)
        })
        .await;
    }

    pub(crate) async fn forget_kinds_of(&self, cluster: &str) {
        let request = http::Request::delete(DEFINITIONS).body(Vec::new()).unwrap();
        let deleted = self.client(cluster).request::<Value>(request).await;
        assert!(deleted.is_ok(), "{deleted:?}");
        self.until("the kinds are gone", || async {
            self.read(cluster, DEFINITIONS)
                .await
                .is_some_and(|list| list["items"].as_array().is_some_and(Vec::is_empty))
        })
        .await;
    }

    pub(crate) async fn work(&self, member: &str, name: &str, manifests: &[Value]) {
        let path = format!("/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-{member}/works");
        let work = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "Work",
            "metadata": {"name": name}, "spec": {"workload": {"manifests": manifests}}});
        self.create(ROOT_CLUSTER, path, work).await;
    }

    pub(crate) async fn has_joined(&self, member: &str) -> bool {
        let path = format!(
            "/apis/cluster.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-{member}/internalmemberclusters/{member}"
        );
        let internal_member_cluster = self.read(ROOT_CLUSTER, &path).await.unwrap();
        internal_member_cluster["status"]["agentStatus"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|agent| is_true(agent, "Joined"))
    }

    pub(crate) async fn is_available(&self, member: &str, work: &str) -> bool {
        let path = format!("/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-{member}/works/{work}");
        is_true(&self.read(ROOT_CLUSTER, &path).await.unwrap()["status"], "Available")
    }

    pub(crate) async fn until<F: Future<Output = bool>>(&self, what: &str, look: impl Fn() -> F) {
        self.until_some(what, || async { look().await.then_some(()) }).await;
    }

    pub(crate) async fn until_some<T, F: Future<Output = Option<T>>>(&self, what: &str, look: impl Fn() -> F) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = look().await {
                return found;
            }
            assert!(begun.elapsed() < TIMEOUT, "never: {what}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The object at a path, if it exists.
    pub(crate) async fn read(&self, cluster: &str, path: &str) -> Option<Value> {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        self.client(cluster).request::<Value>(request).await.ok()
    }

    fn client(&self, cluster: &str) -> kube::Client {
        let admin = User::authenticated("admin", ["system:masters".to_owned()]);
        kube::Client::new(self.server.service(cluster, admin), "default")
    }

    async fn create(&self, cluster: &str, path: String, object: Value) {
        let body = object.to_string().into_bytes();
        let request = http::Request::post(&path).header("content-type", "application/json").body(body).unwrap();
        let created = self.client(cluster).request::<Value>(request).await;
        assert!(created.is_ok(), "{path}: {created:?}");
    }
}

fn is_true(status: &Value, condition: &str) -> bool {
    let conditions = status["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == condition && one["status"] == "True")
}
