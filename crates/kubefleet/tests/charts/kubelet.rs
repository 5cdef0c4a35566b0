//! A stand-in for kubelet and network for the pods of our charts: containers run as local processes with the token of their
//! service account, and the webhook Service leads to them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use real_kubernetes::{Access, Server, kubeconfig, pods};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::admin::{Admin, NAMESPACE};
use crate::agent::Agent;
use crate::chart::{Container, containers};
use crate::objects::FREE_PORTS;

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The logs of all containers, including ended ones. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Logs(Arc<Mutex<Vec<Arc<Mutex<String>>>>>);

impl Logs {
    fn add(&self, process: &Agent) {
        self.0.lock().unwrap().push(process.shared_log());
    }

    pub(crate) fn so_far(&self) -> String {
        self.0.lock().unwrap().iter().map(|log| log.lock().unwrap().clone()).collect()
    }
}

pub(crate) struct Kubelet {
    pub(crate) admin: Admin,
    pub(crate) server: Server,
    pub(crate) ca_pem: String,
    pub(crate) directory: PathBuf,
    pub(crate) logs: Logs,
    /// By uid.
    pub(crate) pods: BTreeMap<String, Vec<Running>>,
}

pub(crate) struct Running {
    container: Container,
    volumes: PathBuf,
    kubeconfig: PathBuf,
    process: Agent,
}

/// Address of the webhook server. Its port is fixed, so every test run uses its own loopback address.
fn webhook_host() -> String {
    let [_, a, b, c] = std::process::id().to_be_bytes();
    format!("127.{a}.{b}.{c}")
}

impl Kubelet {
    /// Runs pods while it is polled.
    pub(crate) async fn run(mut self) {
        loop {
            self.look().await;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn look(&mut self) {
        let found = self.admin.list(&format!("/api/v1/namespaces/{NAMESPACE}/pods")).await;
        let uid = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap().to_owned();
        let gone: Vec<String> =
            self.pods.keys().filter(|known| !found.iter().any(|pod| uid(pod) == **known)).cloned().collect();
        for known in gone {
            self.end(&known).await;
        }
        for pod in &found {
            let name = pod["metadata"]["name"].as_str().unwrap();
            let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}");
            if !pod["metadata"]["deletionTimestamp"].is_null() {
                self.end(&uid(pod)).await;
                self.admin.try_delete(&format!("{path}?gracePeriodSeconds=0")).await;
                continue;
            }
            if !self.pods.contains_key(&uid(pod)) {
                let running = self.start(pod).await;
                self.pods.insert(uid(pod), running);
            }
            let running = self.pods.get_mut(&uid(pod)).unwrap();
            for one in running.iter_mut() {
                one.keep_up(&self.logs);
            }
            if !pods::is_ready(pod) && all_ready(running).await {
                let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                self.admin.try_merge(&format!("{path}/status"), pods::running(pod, &now)).await;
            }
        }
    }

    async fn start(&self, pod: &Value) -> Vec<Running> {
        let account = pod["spec"]["serviceAccountName"].as_str().unwrap();
        let token = self.admin.token(account).await;
        let server = Server { token, ..self.server.clone() };
        let directory = self.directory.join(pod["metadata"]["uid"].as_str().unwrap());
        for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
            std::fs::create_dir_all(directory.join(volume["name"].as_str().unwrap())).unwrap();
        }
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("kubeconfig");
        std::fs::write(&file, kubeconfig(&Access { servers: &[server], namespace: None }, &self.ca_pem)).unwrap();
        if account == "hub-agent-sa" {
            let service = format!("/api/v1/namespaces/{NAMESPACE}/services/fleetwebhook");
            let leads_here = json!({"spec": {"type": "ExternalName", "externalName": webhook_host()}});
            self.admin.merge(&service, leads_here).await;
        }
        let started = |container: Container| Running::start(container, directory.clone(), file.clone(), &self.logs);
        containers(pod).into_iter().map(started).collect()
    }

    async fn end(&mut self, uid: &str) {
        for running in self.pods.remove(uid).into_iter().flatten() {
            let (_, status, log) = running.process.terminate().await;
            assert!(status.success(), "it does not end well:\n{log}");
        }
    }
}

impl Running {
    fn start(container: Container, volumes: PathBuf, kubeconfig: PathBuf, logs: &Logs) -> Self {
        let mut command = container.command(&volumes);
        // Pods have the environment of the API server and their own loopback address.
        command.env("KUBECONFIG", &kubeconfig);
        match container.image.as_str() {
            "hub-agent" => {
                command.args(["--health-probe-bind-address=127.0.0.1:0", "--metrics-bind-address=127.0.0.1:0"]);
                command.arg(format!("--webhook-bind-address={}:9443", webhook_host()));
            }
            "member-agent" => {
                command.args(FREE_PORTS);
            }
            _ => {}
        }
        let process = Agent::spawn(command);
        logs.add(&process);
        Self { container, volumes, kubeconfig, process }
    }

    /// Restarts ended containers.
    fn keep_up(&mut self, logs: &Logs) {
        if self.process.has_ended() {
            *self = Self::start(self.container.clone(), self.volumes.clone(), self.kubeconfig.clone(), logs);
        }
    }

    async fn is_ready(&self) -> bool {
        let Some(path) = &self.container.ready_at else { return true };
        let flag = if self.container.image == "member-agent" {
            "hub-health-probe-bind-address"
        } else {
            "health-probe-bind-address"
        };
        let log = self.process.log();
        let line = log.lines().find(|line| line.contains(&format!("flag=\"{flag}\"")));
        let address = line.and_then(|line| line.split("address=").nth(1)?.split_whitespace().next()?.parse().ok());
        match address {
            Some(address) => answers(address, path).await.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 ")),
            None => false,
        }
    }
}

async fn all_ready(running: &[Running]) -> bool {
    for one in running {
        if !one.is_ready().await {
            return false;
        }
    }
    true
}

async fn answers(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
