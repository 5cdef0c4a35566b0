//! A hub on a real kube-apiserver, and members whose agents run in this process as service accounts of the hub. They have the
//! rights that the hub agent gives them, and say yes to every Work.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use apiserver::auth::User;
use apiserver::embedded::{Embedded, Options as ServerOptions};
use fleet_api::kinds::all_crds;
use fleet_api::types::Subject;
use fleet_sim::agents::{Surroundings, member_agent};
use fleet_sim::member::SimulatedMember;
use fleet_sim::setup::all_joined;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use xtask::real::{Access, Options, RealCluster, Server, kubeconfig};

use crate::objects::collection;

pub(crate) const PLACEMENT: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
const RIGHTS: &str = include_str!("../../../../config/rbac/hub-agent.yaml");
const NAMESPACE: &str = "fleet-system";
const AGENT: &str = "kubefleet-hub-agent";
/// A rollout over three members takes seconds; a machine that is busy with building may need minutes.
const PATIENCE: Duration = Duration::from_mins(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) struct Fleet {
    cluster: RealCluster,
    admin: kube::Client,
    directory: tempfile::TempDir,
}

/// Agents of members at work.
pub(crate) struct Members {
    tasks: JoinSet<()>,
    stop: watch::Sender<bool>,
    _own: Embedded,
}

impl Members {
    pub(crate) async fn stop(mut self) {
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

impl Fleet {
    /// A hub with our kinds and the agent's rights.
    pub(crate) async fn start() -> Self {
        let cluster = RealCluster::start(&Options::default()).await.expect("a real control plane starts");
        let admin = client(&cluster, &cluster.token).await;
        let fleet = Self { cluster, admin, directory: tempfile::tempdir().unwrap() };
        for object in fleet_api::yaml::documents(RIGHTS).unwrap() {
            fleet.create(object).await;
        }
        for crd in all_crds() {
            fleet.create(crd.object).await;
        }
        fleet
    }

    /// A kubeconfig of the agent's service account.
    pub(crate) async fn agent_kubeconfig(&self) -> PathBuf {
        let path = self.directory.path().join("agent.kubeconfig");
        std::fs::write(&path, text(&self.cluster, &self.token(AGENT).await)).unwrap();
        path
    }

    /// Tells the hub of these members, starts their agents and waits until all have joined.
    pub(crate) async fn join(&self, names: &[&str]) -> Members {
        let own = Embedded::start(ServerOptions::default()).await.unwrap();
        let (stop, _) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for name in names {
            let member = SimulatedMember::new(name).unwrap();
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": name, "namespace": NAMESPACE}});
            self.create(account).await;
            let mut object = member.member_cluster();
            object.spec.identity = Subject {
                kind: "ServiceAccount".to_owned(),
                api_group: String::new(),
                name: (*name).to_owned(),
                namespace: NAMESPACE.to_owned(),
            };
            self.create(serde_json::to_value(&object).unwrap()).await;
            let hub = client(&self.cluster, &self.token(name).await).await;
            let admin = User::authenticated("admin", ["system:masters".to_owned()]);
            let its_own = kube::Client::new(own.service(name, admin), "default");
            let agent = member_agent(hub, its_own, &member, &Surroundings::real()).unwrap();
            let mut stopped = stop.subscribe();
            tasks.spawn(agent.run(async move { drop(stopped.wait_for(|stop| *stop).await) }));
        }
        let joined = tokio::time::timeout(PATIENCE, all_joined(&self.admin, names, |_| {})).await;
        joined.expect("all members join in time").unwrap();
        Members { tasks, stop, _own: own }
    }

    pub(crate) async fn change_settings(&self, version: &str) {
        let path = "/api/v1/namespaces/shop/configmaps/settings";
        self.request("PATCH", path, "application/merge-patch+json", json!({"data": {"version": version}}))
            .await
            .unwrap();
    }

    pub(crate) async fn placement(&self, name: &str) -> Value {
        self.get(&format!("{PLACEMENT}/clusterresourceplacements/{name}")).await.unwrap()
    }

    /// The members that have a Work with this version of the settings, by name.
    pub(crate) async fn members_with(&self, version: &str) -> Vec<String> {
        let list = self.get(&format!("{PLACEMENT}/works")).await.unwrap();
        let has = |work: &Value| {
            let manifests = work["spec"]["workload"]["manifests"].as_array().cloned().unwrap_or_default();
            let deployed = manifests.iter().any(|one| one["kind"] == "Deployment");
            deployed && manifests.iter().any(|one| one["kind"] == "ConfigMap" && one["data"]["version"] == version)
        };
        let namespace = |work: &Value| work["metadata"]["namespace"].as_str().unwrap().to_owned();
        let works = list["items"].as_array().unwrap();
        let mut names: Vec<String> = works.iter().filter(|work| has(work)).map(namespace).collect();
        names.sort();
        names.iter().map(|name| name.trim_start_matches("fleet-member-").to_owned()).collect()
    }

    pub(crate) async fn names(&self, path: &str) -> Vec<String> {
        let list = self.get(path).await.unwrap();
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        list["items"].as_array().unwrap().iter().map(name).collect()
    }

    /// Waits until something is so.
    pub(crate) async fn until<F: Future<Output = bool>>(&self, what: &str, is_so: impl Fn() -> F) {
        let begun = Instant::now();
        while !is_so().await {
            if begun.elapsed() > PATIENCE {
                let placement = self.get(&format!("{PLACEMENT}/clusterresourceplacements/web")).await;
                panic!("never: {what}; the placement is {placement:#?}");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    pub(crate) async fn create(&self, object: Value) {
        let path = collection(&object);
        let created = self.request("POST", &path, "application/json", object).await;
        assert!(created.is_ok(), "{path}: {created:?}");
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.request("DELETE", path, "application/json", json!({})).await.unwrap();
    }

    async fn get(&self, path: &str) -> kube::Result<Value> {
        self.admin.request(http::Request::get(path).body(Vec::new()).unwrap()).await
    }

    async fn request(&self, method: &str, path: &str, format: &str, body: Value) -> kube::Result<Value> {
        let request = http::Request::builder().method(method).uri(path).header("content-type", format);
        self.admin.request(request.body(body.to_string().into_bytes()).unwrap()).await
    }

    /// A token of a service account of the fleet's namespace.
    async fn token(&self, account: &str) -> String {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600}});
        let answer = self.request("POST", &path, "application/json", body).await.unwrap();
        answer["status"]["token"].as_str().unwrap().to_owned()
    }
}

fn text(cluster: &RealCluster, token: &str) -> String {
    let server = Server { url: cluster.url.clone(), token: token.to_owned(), context: "hub".to_owned() };
    kubeconfig(&Access { servers: &[server], namespace: None }, &cluster.ca_pem)
}

async fn client(cluster: &RealCluster, token: &str) -> kube::Client {
    let file = Kubeconfig::from_yaml(&text(cluster, token)).unwrap();
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}
