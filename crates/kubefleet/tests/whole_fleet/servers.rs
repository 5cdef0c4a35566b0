//! Four real API servers: a hub and members, each with the CustomResourceDefinitions, service account and permissions of its
//! chart.

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use real_kubernetes::{Access, Options, RealCluster, Server, client, kubeconfig};
use serde_json::{Value, json};

use crate::admin::NAMESPACE;
pub(crate) use crate::admin::{Admin, TIMEOUT, condition, until};
use crate::agent::command;
use crate::chart;
use crate::objects::{FREE_PORTS, collection};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const MEMBER_CLUSTERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
const NAMESPACES: &str = "/api/v1/namespaces";
/// The service accounts of the charts.
const HUB_AGENT: &str = "hub-agent-sa";
const MEMBER_AGENT: &str = "member-agent-sa";
/// Chart values for the flags of these tests.
const HUB_VALUES: &str = "enableAdmissionPolicyManager: true";

pub(crate) struct Servers {
    cluster: RealCluster,
    directory: tempfile::TempDir,
    /// The hub first, then the members in order.
    admins: Vec<Admin>,
    members: Vec<String>,
}

/// Address of the webhook server. Its port is fixed, so every test run uses its own loopback address.
pub(crate) fn webhook_host() -> String {
    let [_, a, b, c] = std::process::id().to_be_bytes();
    format!("127.{a}.{b}.{c}")
}

impl Servers {
    pub(crate) async fn start(members: &[&str]) -> Self {
        let options =
            Options { count: members.len() + 1, controller_manager: true, workloads: true, ..Options::default() };
        let cluster = RealCluster::start(&options).await.expect("real control planes start");
        let mut admins = Vec::new();
        for server in &cluster.servers {
            admins.push(Admin(client(&text(&cluster, server, &cluster.token)).await.unwrap()));
        }
        let members = members.iter().map(|&member| member.to_owned()).collect();
        let servers = Self { cluster, directory: tempfile::tempdir().unwrap(), admins, members };
        for (place, admin) in servers.admins.iter().enumerate() {
            let namespace = json!({"metadata": {"name": NAMESPACE}});
            admin.create(NAMESPACES, namespace).await;
            let (chart, values) = if place == 0 { ("hub-agent", HUB_VALUES) } else { ("member-agent", "") };
            let installed = chart::rendered(chart, values).expect(chart);
            // The agents run as local processes.
            for mut object in installed.into_iter().filter(|one| one["kind"] != "Deployment") {
                if object["kind"] == "Service" {
                    // There is no pod network: the Service leads to the agent's process.
                    object["spec"] =
                        json!({"type": "ExternalName", "externalName": webhook_host(), "ports": [{"port": 9443}]});
                }
                admin.create(&collection(&object), object).await;
            }
        }
        let is_served = |definition: &Value| condition(&definition["status"], "Established") == Some("True".to_owned());
        for admin in &servers.admins {
            until("the kinds are served", || async {
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

    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn kubectl(&self) -> &Path {
        &self.cluster.kubectl_path
    }

    /// A kubeconfig of an administrator: the current context `hub`, and one per member.
    pub(crate) fn user_kubeconfig(&self, user: &str) -> PathBuf {
        let names = ["hub"].into_iter().chain(self.members.iter().map(String::as_str));
        let known = names.zip(&self.cluster.servers);
        let servers: Vec<Server> =
            known.map(|(name, server)| Server { context: name.to_owned(), ..server.clone() }).collect();
        let text = kubeconfig(&Access { servers: &servers, namespace: None }, &self.cluster.ca_pem);
        self.file(&format!("{user}.kubeconfig"), &text)
    }

    pub(crate) async fn hub_agent_kubeconfig(&self) -> PathBuf {
        let token = self.hub().token(HUB_AGENT).await;
        self.file("hub-agent.kubeconfig", &text(&self.cluster, &self.cluster.servers[0], &token))
    }

    /// A client of the hub with the token of this member's agent.
    pub(crate) async fn hub_as(&self, member: &str) -> kube::Client {
        let token = self.hub().token(member).await;
        client(&text(&self.cluster, &self.cluster.servers[0], &token)).await.unwrap()
    }

    /// A client of the hub with the token of the hub agent.
    pub(crate) async fn hub_as_agent(&self) -> kube::Client {
        let token = self.hub().token(HUB_AGENT).await;
        client(&text(&self.cluster, &self.cluster.servers[0], &token)).await.unwrap()
    }

    /// Creates the service account of the member's agent, and its MemberCluster.
    pub(crate) async fn invite(&self, member: &str) {
        let accounts = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
        self.hub().create(&accounts, json!({"metadata": {"name": member}})).await;
        self.admit(member).await;
    }

    /// Creates the MemberCluster of a member whose service account exists.
    pub(crate) async fn admit(&self, member: &str) {
        let identity = json!({"kind": "ServiceAccount", "name": member, "namespace": NAMESPACE});
        let object = json!({"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
            "metadata": {"name": member}, "spec": {"identity": identity, "heartbeatPeriodSeconds": 5}});
        self.hub().create(MEMBER_CLUSTERS, object).await;
    }

    /// Starts the member agent as its pod does.
    pub(crate) async fn member_agent(&self, member: &str) -> Command {
        let token = self.file(&format!("{member}.token"), &self.hub().token(member).await);
        let server = &self.cluster.servers[self.index(member)];
        let own = text(&self.cluster, server, &self.member(member).token(MEMBER_AGENT).await);
        let own = self.file(&format!("{member}.kubeconfig"), &own);
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
        let found = self.hub().get(&format!("{MEMBER_CLUSTERS}/{member}")).await.unwrap_or_default();
        condition(&found["status"], "Joined") == Some("True".to_owned())
    }
}

fn text(cluster: &RealCluster, server: &Server, token: &str) -> String {
    let server = Server { url: server.url.clone(), token: token.to_owned(), context: "it".to_owned() };
    kubeconfig(&Access { servers: &[server], namespace: None }, &cluster.ca_pem)
}
