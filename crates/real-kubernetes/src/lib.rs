//! Real Kubernetes control planes on loopback, for tests: builds the components once, starts etcd and any number of API
//! servers, and stops everything on drop. Listens only on 127.0.0.1. `parity` and `bench` compare them with the embedded API
//! server.

// Arithmetic on times can panic; `clippy.toml` lists the types for which it is allowed.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod bench;
mod client;
mod components;
mod http;
mod kubeconfig;
pub mod parity;
mod pki;
pub mod pods;
mod process;
pub mod run;
mod signals;

use crate::http::Endpoint;
use anyhow::{Context, Result, bail};
use build::Binaries;
use components::Plane;
use process::Process;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use xtask::console;

pub use client::client;
pub use kubeconfig::{Access, kubeconfig};
pub use xtask::real::{build, versions};

/// How long a component may take to become ready: a loaded two-core machine needs about 30 s for two API servers.
const READY_WITHIN: Duration = Duration::from_mins(3);
/// Polling interval of readiness.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Attempts to start, because another process may take a free port before it is used.
const START_ATTEMPTS: usize = 3;

/// What to start.
#[derive(Debug, Clone)]
pub struct Options {
    /// API servers that share one etcd, each with its own key prefix.
    pub count: usize,
    /// Also run kube-controller-manager (namespaces, garbage collection, service accounts) beside each API server.
    pub controller_manager: bool,
    /// Also run the controllers of Deployments and Jobs. Pods stay pending: there is no scheduler and no kubelet.
    pub workloads: bool,
    /// etcd syncs every write to disk before it answers. Tests do without.
    pub synced: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { count: 1, controller_manager: false, workloads: false, synced: false }
    }
}

/// One running API server and how to reach it.
#[derive(Debug, Clone)]
pub struct Server {
    pub url: String,
    pub token: String,
    pub context: String,
}

/// Running real control planes. Dropping the value kills all processes and removes their files.
#[derive(Debug)]
pub struct RealCluster {
    /// The first server's address.
    pub url: String,
    /// CA of all servers.
    pub ca_pem: String,
    /// Bearer token of an administrator, valid on all servers.
    pub token: String,
    /// One context per server, named `real-0`, `real-1`, …; the first is current.
    pub kubeconfig_path: PathBuf,
    pub kubectl_path: PathBuf,
    pub helm_path: PathBuf,
    /// Client certificate of an administrator (`kubernetes-admin` in `system:masters`) and its key.
    pub admin_certificate_path: PathBuf,
    pub admin_key_path: PathBuf,
    /// All servers in order; the first is the one named above.
    pub servers: Vec<Server>,
    // Fields drop in order: API clients before API servers before etcd, the directory last.
    processes: Vec<Process>,
    _directory: tempfile::TempDir,
}

impl RealCluster {
    /// Builds the components if needed, starts them and waits until every server says that it is ready.
    pub async fn start(options: &Options) -> Result<Self> {
        if options.count == 0 {
            bail!("at least one API server must be started");
        }
        let binaries = tokio::task::spawn_blocking(build::ensure).await.context("build the real components")??;
        let mut attempt = 1;
        loop {
            match Self::start_once(&binaries, options).await {
                Err(error) if attempt < START_ATTEMPTS && format!("{error:#}").contains("address already in use") => {
                    console::progress("a port was taken meanwhile; starting again");
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn start_once(binaries: &Binaries, options: &Options) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("kubefleet-real-").tempdir().context("create a directory")?;
        let plane = Plane::create(directory.path())?;
        let mut cluster = Self {
            url: String::new(),
            ca_pem: plane.pki.ca_pem.clone(),
            token: plane.token.clone(),
            kubeconfig_path: directory.path().join("kubeconfig"),
            kubectl_path: binaries.kubectl.clone(),
            helm_path: binaries.helm.clone(),
            admin_certificate_path: plane.pki.admin_certificate.clone(),
            admin_key_path: plane.pki.admin_key.clone(),
            servers: Vec::new(),
            processes: Vec::new(),
            _directory: directory,
        };
        cluster.launch("etcd", &binaries.etcd, &plane.etcd_arguments(options.synced), &plane)?;
        cluster.wait_ready(&Endpoint::new(&plane.etcd_url(), None)?, "/health", None).await?;
        for index in 0..options.count {
            let port = components::free_port()?;
            let name = format!("kube-apiserver-{index}");
            cluster.launch(&name, &binaries.kube_apiserver, &plane.apiserver_arguments(index, port), &plane)?;
            cluster.servers.push(Server {
                url: format!("https://127.0.0.1:{port}"),
                token: plane.token.clone(),
                context: format!("real-{index}"),
            });
        }
        cluster.url = cluster.servers[0].url.clone();
        cluster.write_kubeconfig(&cluster.kubeconfig_path.clone(), &plane)?;
        for server in cluster.servers.clone() {
            let endpoint = Endpoint::new(&server.url, Some(&cluster.ca_pem))?;
            cluster.wait_ready(&endpoint, "/readyz", Some(&server.token)).await?;
        }
        if options.controller_manager {
            cluster.start_controller_managers(binaries, &plane, options.workloads).await?;
        }
        Ok(cluster)
    }

    async fn start_controller_managers(&mut self, binaries: &Binaries, plane: &Plane, workloads: bool) -> Result<()> {
        let mut health = Vec::new();
        for (index, server) in self.servers.clone().iter().enumerate() {
            let port = components::free_port()?;
            let access = Access { servers: std::slice::from_ref(server), namespace: None };
            let config = plane.directory.join(format!("controller-manager-{index}.kubeconfig"));
            std::fs::write(&config, kubeconfig(&access, &self.ca_pem)).context("write a kubeconfig")?;
            let name = format!("kube-controller-manager-{index}");
            let arguments = plane.controller_manager_arguments(&config, port, workloads);
            self.launch(&name, &binaries.kube_controller_manager, &arguments, plane)?;
            health.push(Endpoint::new(&format!("https://127.0.0.1:{port}"), Some(&self.ca_pem))?);
        }
        for endpoint in health {
            self.wait_ready(&endpoint, "/healthz", None).await?;
        }
        Ok(())
    }

    fn launch(&mut self, name: &str, program: &Path, arguments: &[String], plane: &Plane) -> Result<()> {
        let process = Process::start(name, program, arguments, &plane.directory)?;
        self.processes.insert(0, process);
        Ok(())
    }

    fn write_kubeconfig(&self, path: &Path, plane: &Plane) -> Result<()> {
        let text = kubeconfig(&Access { servers: &self.servers, namespace: None }, &plane.pki.ca_pem);
        std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
    }

    /// Waits for a 200 of `path`; fails with the log if a process has ended.
    async fn wait_ready(&mut self, endpoint: &Endpoint, path: &str, token: Option<&str>) -> Result<()> {
        let started = Instant::now();
        loop {
            self.check_alive()?;
            if components::is_ready(endpoint, path, token).await {
                return Ok(());
            }
            if started.elapsed() > READY_WITHIN {
                let log = self.processes.first().map(Process::last_lines).unwrap_or_default();
                bail!("{}{path} was not ready within {} s\n{log}", endpoint.url(), READY_WITHIN.as_secs());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// An error, with the end of its log, for the first process that is no longer running.
    pub fn check_alive(&mut self) -> Result<()> {
        for process in &mut self.processes {
            if let Some(status) = process.ended()? {
                bail!("{} ended ({status})\n{}", process.name(), process.last_lines());
            }
        }
        Ok(())
    }
}
