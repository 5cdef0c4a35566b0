//! Four real API servers: a hub with our kinds and the hub agent's rights, and members that know the ledger's kind.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use fleet_api::kinds::all_crds;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use xtask::real::{Access, Options, RealCluster, Server, kubeconfig};

use crate::agent::command;
use crate::objects::{FREE_PORTS, collection};

const RIGHTS: &str = include_str!("../../../../config/rbac/hub-agent.yaml");
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAMESPACE: &str = "fleet-system";
const HUB_AGENT: &str = "kubefleet-hub-agent";
/// What takes seconds may take minutes on a machine that is busy with building.
const PATIENCE: Duration = Duration::from_mins(5);
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(crate) struct Servers {
    cluster: RealCluster,
    directory: tempfile::TempDir,
    /// The hub first, then the members in order.
    admins: Vec<Admin>,
    members: Vec<String>,
}

/// Somebody who may do everything on one server.
pub(crate) struct Admin(kube::Client);

impl Servers {
    pub(crate) async fn start(members: &[&str]) -> Self {
        let options = Options { count: members.len() + 1, controller_manager: true, ..Options::default() };
        let cluster = RealCluster::start(&options).await.expect("real control planes start");
        let mut admins = Vec::new();
        for server in &cluster.servers {
            admins.push(Admin(client(&text(&cluster, server, &cluster.token)).await));
        }
        let members = members.iter().map(|&member| member.to_owned()).collect();
        let servers = Self { cluster, directory: tempfile::tempdir().unwrap(), admins, members };
        for object in fleet_api::yaml::documents(RIGHTS).unwrap() {
            servers.hub().create(&collection(&object), object).await;
        }
        for crd in all_crds() {
            let is_ledger = crd.file_name().contains("_appliedworks.");
            let knowing = if is_ledger { &servers.admins[..] } else { &servers.admins[..1] };
            for admin in knowing {
                admin.create(DEFINITIONS, crd.object.clone()).await;
            }
        }
        let is_served = |definition: &Value| condition(&definition["status"], "Established") == Some("True".to_owned());
        for admin in &servers.admins {
            servers
                .until("the kinds are served", || async {
                    admin.get(DEFINITIONS).await.unwrap()["items"].as_array().unwrap().iter().all(is_served)
                })
                .await;
        }
        servers
    }

    pub(crate) fn hub(&self) -> &Admin {
        &self.admins[0]
    }

    fn index(&self, member: &str) -> usize {
        self.members.iter().position(|name| name == member).unwrap() + 1
    }

    pub(crate) fn member(&self, member: &str) -> &Admin {
        &self.admins[self.index(member)]
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) async fn hub_agent_kubeconfig(&self) -> PathBuf {
        let token = self.token(HUB_AGENT).await;
        self.file("hub-agent.kubeconfig", &text(&self.cluster, &self.cluster.servers[0], &token))
    }

    /// What an administrator of the hub does: an account for the member's agent, and its MemberCluster.
    pub(crate) async fn invite(&self, member: &str) {
        let accounts = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
        self.hub().create(&accounts, json!({"metadata": {"name": member}})).await;
        let identity = json!({"kind": "ServiceAccount", "name": member, "namespace": NAMESPACE});
        let object = json!({"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
            "metadata": {"name": member}, "spec": {"identity": identity, "heartbeatPeriodSeconds": 5}});
        self.hub().create("/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters", object).await;
    }

    /// The member's agent as its pod starts it.
    pub(crate) async fn member_agent(&self, member: &str) -> Command {
        let token = self.file(&format!("{member}.token"), &self.token(member).await);
        let server = &self.cluster.servers[self.index(member)];
        let own = self.file(&format!("{member}.kubeconfig"), &text(&self.cluster, server, &self.cluster.token));
        let mut command = command("member-agent", &FREE_PORTS);
        for variable in ["CA_BUNDLE", "HTTPS_PROXY", "https_proxy"] {
            command.env_remove(variable);
        }
        let authority = base64::engine::general_purpose::STANDARD.encode(&self.cluster.ca_pem);
        command
            .env("HUB_SERVER_URL", &self.cluster.url)
            .env("HUB_CERTIFICATE_AUTHORITY", authority)
            .env("MEMBER_CLUSTER_NAME", member)
            .env("CONFIG_PATH", token)
            .env("KUBECONFIG", own);
        command
    }

    pub(crate) async fn has_joined(&self, member: &str) -> bool {
        let path = format!("/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters/{member}");
        let found = self.hub().get(&path).await.unwrap_or_default();
        condition(&found["status"], "Joined") == Some("True".to_owned())
    }

    pub(crate) async fn until<F: Future<Output = bool>>(&self, what: &str, is_so: impl Fn() -> F) {
        let begun = Instant::now();
        while !is_so().await {
            if begun.elapsed() > PATIENCE {
                let path = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements/web";
                panic!("never: {what}; the placement is {:#}", self.hub().get(path).await.unwrap_or_default());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// A token of a service account of the fleet's namespace on the hub.
    async fn token(&self, account: &str) -> String {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600}});
        let answer = self.hub().create(&path, body).await;
        answer["status"]["token"].as_str().unwrap().to_owned()
    }
}

impl Admin {
    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        self.0.request(http::Request::get(path).body(Vec::new()).unwrap()).await.ok()
    }

    pub(crate) async fn create(&self, path: &str, object: Value) -> Value {
        self.request("POST", path, "application/json", object).await
    }

    pub(crate) async fn merge(&self, path: &str, change: Value) {
        self.request("PATCH", path, "application/merge-patch+json", change).await;
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.request("DELETE", path, "application/json", json!({})).await;
    }

    async fn request(&self, method: &str, path: &str, format: &str, body: Value) -> Value {
        let request = http::Request::builder().method(method).uri(path).header("content-type", format);
        let answer = self.0.request::<Value>(request.body(body.to_string().into_bytes()).unwrap()).await;
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }
}

fn text(cluster: &RealCluster, server: &Server, token: &str) -> String {
    let server = Server { url: server.url.clone(), token: token.to_owned(), context: "it".to_owned() };
    kubeconfig(&Access { servers: &[server], namespace: None }, &cluster.ca_pem)
}

async fn client(kubeconfig: &str) -> kube::Client {
    let file = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// The status of a condition.
pub(crate) fn condition(status: &Value, type_: &str) -> Option<String> {
    let found = status["conditions"].as_array()?.iter().find(|one| one["type"] == type_)?;
    Some(found["status"].as_str()?.to_owned())
}
