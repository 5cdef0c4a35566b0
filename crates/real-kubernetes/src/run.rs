//! `cargo xtask real-apiserver`: builds the components, or runs them until a termination signal.

use crate::signals::StopRequest;
use crate::{Options, RealCluster, build};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Instant;
use xtask::console;

/// Build, cache and start real kube-apiserver, kube-controller-manager, kubectl, etcd and helm on loopback.
#[derive(Debug, Args)]
pub struct RealApiserver {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Build what the cache does not have and print where the programs are (the default).
    Build,
    /// Start etcd and kube-apiserver, print `ready`, and stop all on Ctrl-C or SIGTERM.
    Run(Run),
}

#[derive(Debug, Args)]
struct Run {
    /// Also write the kubeconfig to this file.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Also run kube-controller-manager: namespaces, garbage collection, service accounts.
    #[arg(long)]
    controller_manager: bool,
    /// How many API servers to start on one etcd.
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: usize,
}

impl RealApiserver {
    pub async fn execute(self) -> Result<()> {
        match self.action.unwrap_or(Action::Build) {
            Action::Build => {
                let binaries = tokio::task::spawn_blocking(build::ensure).await.context("build")??;
                for (name, path) in binaries.each() {
                    console::line(format!("{name}\t{}", path.display()));
                }
                Ok(())
            }
            Action::Run(run) => run.execute().await,
        }
    }
}

impl Run {
    async fn execute(self) -> Result<()> {
        let mut stop = StopRequest::listen()?;
        let started = Instant::now();
        let options = Options { count: self.count, controller_manager: self.controller_manager, ..Options::default() };
        let mut cluster = tokio::select! {
            cluster = RealCluster::start(&options) => cluster?,
            () = stop.received() => return Ok(()),
        };
        if let Some(path) = &self.kubeconfig {
            std::fs::copy(&cluster.kubeconfig_path, path).with_context(|| format!("write {}", path.display()))?;
        }
        let kubeconfig = self.kubeconfig.as_deref().unwrap_or(&cluster.kubeconfig_path);
        console::line(format!("kubectl     {}", cluster.kubectl_path.display()));
        console::line(format!("kubeconfig  {}", kubeconfig.display()));
        for server in &cluster.servers {
            console::line(format!("{:<11} {}", server.context, server.url));
        }
        console::line(format!("ready after {:.1} s", started.elapsed().as_secs_f64()));
        tokio::select! {
            () = stop.received() => {}
            died = watch_processes(&mut cluster) => return died,
        }
        console::progress("stopping");
        Ok(())
    }
}

/// Completes when a component has ended.
async fn watch_processes(cluster: &mut RealCluster) -> Result<()> {
    let mut tick = tokio::time::interval(std::time::Duration::from_secs(1));
    loop {
        tick.tick().await;
        cluster.check_alive()?;
    }
}
