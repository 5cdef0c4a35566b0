//! `cargo xtask bench apiserver`: speed and memory of the embedded API server, compared with the real one. Measures only
//! in a release build.

mod client;
mod measure;
mod report;
mod serve;
mod usage;

use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use apiserver::{Embedded, Options, ROOT_CLUSTER, User};
use clap::{Args, Subcommand};
use xtask::console;

use self::client::Place;
use self::measure::{Figures, measure};
use self::report::Column;
use self::serve::Served;
use crate::RealCluster;
use crate::http::Endpoint;

/// Measures and prints figures
#[derive(Debug, Args)]
pub struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Apiserver(Apiserver),
    #[command(hide = true)]
    Serve(serve::Serve),
}

/// Writes, lists, watches and memory of the embedded API server, of kube-apiserver with etcd, and their ratios
#[derive(Debug, Args)]
struct Apiserver {
    /// Skip kube-apiserver and etcd
    #[arg(long)]
    without_real: bool,
    /// Measure only the servers whose name contains this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

impl Bench {
    pub async fn execute(self) -> Result<()> {
        match self.what {
            What::Serve(serve) => serve.execute().await,
            What::Apiserver(_) if cfg!(debug_assertions) => bail!("figures need a release build: cargo xtask bench"),
            What::Apiserver(apiserver) => apiserver.execute().await,
        }
    }
}

const IN_PROCESS_MEMORY: &str = "in process, memory";
const IN_PROCESS_DURABLE: &str = "in process, durable";
const HTTPS_MEMORY: &str = "HTTPS, memory";
const HTTPS_DURABLE: &str = "HTTPS, durable";
const REAL: &str = "kube-apiserver + etcd without sync";
const REAL_SYNCED: &str = "kube-apiserver + etcd";
/// Pairs with the same durability.
const PAIRS: [(&str, &str); 2] = [(HTTPS_MEMORY, REAL), (HTTPS_DURABLE, REAL_SYNCED)];

impl Apiserver {
    async fn execute(self) -> Result<()> {
        let started = Instant::now();
        let mut columns = Vec::new();
        for name in [IN_PROCESS_MEMORY, IN_PROCESS_DURABLE, HTTPS_MEMORY, HTTPS_DURABLE, REAL, REAL_SYNCED] {
            if !name.contains(&self.only) || (self.without_real && [REAL, REAL_SYNCED].contains(&name)) {
                continue;
            }
            console::progress(format!("measuring: {name}"));
            let figures = match name {
                IN_PROCESS_MEMORY => in_process(false).await,
                IN_PROCESS_DURABLE => in_process(true).await,
                HTTPS_MEMORY => over_https(false).await,
                HTTPS_DURABLE => over_https(true).await,
                _ => real(name == REAL_SYNCED).await,
            };
            columns.push(Column { name, figures: figures.with_context(|| format!("measure {name}"))? });
        }
        console::line(report::machine());
        console::line(report::table(&columns));
        console::line(report::ratios(&columns, &PAIRS));
        console::progress(format!("measured in {} s", started.elapsed().as_secs()));
        Ok(())
    }
}

fn admin() -> User {
    User::authenticated("kubernetes-admin", ["system:masters".to_owned()])
}

async fn in_process(durable: bool) -> Result<Figures> {
    let directory = tempfile::tempdir().context("create a directory")?;
    let data_dir = durable.then(|| directory.path().to_owned());
    let server = Embedded::start(Options { data_dir, ..Options::default() }).await?;
    let figures = measure(&Place::Local(server.service(ROOT_CLUSTER, admin())), || None).await;
    server.close().await;
    figures
}

async fn over_https(durable: bool) -> Result<Figures> {
    let directory = tempfile::tempdir().context("create a directory")?;
    let served = Served::start(durable.then_some(directory.path())).await?;
    let place =
        Place::Http { endpoint: Endpoint::new(&served.url, Some(&served.ca_pem))?, token: served.token.clone() };
    measure(&place, || usage::of_process(served.process_id)).await
}

async fn real(synced: bool) -> Result<Figures> {
    let cluster = RealCluster::start(&crate::Options { synced, ..crate::Options::default() }).await?;
    let place =
        Place::Http { endpoint: Endpoint::new(&cluster.url, Some(&cluster.ca_pem))?, token: cluster.token.clone() };
    measure(&place, || usage::of_descendants(&["kube-apiserver", "etcd"])).await
}
