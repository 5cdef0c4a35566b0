//! A kube client for a real server, for tests.

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};

/// A client for the current context of this kubeconfig.
pub async fn client(kubeconfig: &str) -> Result<kube::Client> {
    let file = Kubeconfig::from_yaml(kubeconfig).context("read the kubeconfig")?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(file, &options).await.context("understand the kubeconfig")?;
    kube::Client::try_from(config).context("make a client")
}
