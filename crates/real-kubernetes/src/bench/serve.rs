//! The embedded server in its own process, so that its memory and CPU time can be measured. It prints its address on standard
//! output and ends when its standard input is closed.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result};
use apiserver::{Embedded, Options, ROOT_CLUSTER};
use clap::Args;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use xtask::console;

/// Serves until standard input is closed
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Where objects are kept; in memory without it
    #[arg(long)]
    data_dir: Option<PathBuf>,
}

impl Serve {
    pub(super) async fn execute(self) -> Result<()> {
        let server = Embedded::start(Options { data_dir: self.data_dir, ..Options::default() }).await?;
        let listening = server.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &[]).await?;
        let token = server.issue_token(ROOT_CLUSTER, super::admin());
        let url = server.url(listening.address(), ROOT_CLUSTER);
        console::line(json!({"url": url, "token": token.expose(), "ca": server.authority().ca_pem()}));
        let closed = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
        closed.await.context("wait for the end")?.context("wait for the end")?;
        listening.shutdown().await;
        Ok(())
    }
}

/// A server that is stopped on drop.
pub(super) struct Served {
    pub(super) url: String,
    pub(super) token: String,
    pub(super) ca_pem: String,
    pub(super) process_id: u32,
    _process: Child,
}

impl Served {
    pub(super) async fn start(data_dir: Option<&Path>) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe().context("find this program")?);
        command.args(["bench", "serve"]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        if let Some(directory) = data_dir {
            command.arg("--data-dir").arg(directory);
        }
        let mut process = command.spawn().context("start the server")?;
        let output = process.stdout.take().context("the server's output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).await.context("read where the server is")?;
        let said: Value = serde_json::from_str(&line).with_context(|| format!("the server said {line:?}"))?;
        let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
        let process_id = process.id().context("the server ended")?;
        Ok(Self { url: text("url"), token: text("token"), ca_pem: text("ca"), process_id, _process: process })
    }
}
