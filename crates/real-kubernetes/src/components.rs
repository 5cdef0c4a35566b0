//! The flags and readiness checks of the real components.

use super::pki::{self, Pki};
use crate::http::Endpoint;
use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A component that accepts the connection but never answers counts as not ready after this time.
const PROBE_WITHIN: Duration = Duration::from_secs(5);

/// Controllers that act on any object, whatever runs on nodes.
const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller,serviceaccount-controller,\
                           serviceaccount-token-controller,clusterrole-aggregation-controller,\
                           root-ca-certificate-publisher-controller";
/// Controllers that make pods. Off unless asked for: there are no nodes, and a Deployment that changes by itself would make
/// no two transcripts alike.
const WORKLOAD_CONTROLLERS: &str = "deployment-controller,replicaset-controller,job-controller";

/// What all components of one start share.
#[derive(Debug)]
pub(super) struct Plane {
    pub(super) directory: PathBuf,
    pub(super) pki: Pki,
    pub(super) token: String,
    token_file: PathBuf,
    etcd_port: u16,
    etcd_peer_port: u16,
}

impl Plane {
    pub(super) fn create(directory: &Path) -> Result<Self> {
        let token = uuid::Uuid::new_v4().to_string();
        let token_file = directory.join("tokens.csv");
        std::fs::write(&token_file, format!("{token},kubernetes-admin,kubernetes-admin,\"system:masters\"\n"))
            .context("write the token file")?;
        Ok(Self {
            directory: directory.to_owned(),
            pki: pki::create(directory)?,
            token,
            token_file,
            etcd_port: free_port()?,
            etcd_peer_port: free_port()?,
        })
    }

    pub(super) fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port)
    }

    pub(super) fn etcd_arguments(&self, synced: bool) -> Vec<String> {
        let (client, peer) = (self.etcd_url(), format!("http://127.0.0.1:{}", self.etcd_peer_port));
        vec![
            format!("--unsafe-no-fsync={}", !synced),
            "--log-level=warn".to_owned(),
            format!("--data-dir={}", self.directory.join("etcd").display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
        ]
    }

    pub(super) fn apiserver_arguments(&self, index: usize, port: u16) -> Vec<String> {
        let file = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
        vec![
            format!("--etcd-servers={}", self.etcd_url()),
            format!("--etcd-prefix=/registry-{index}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            // There is no node to route to, and loopback would be refused as an endpoint.
            "--endpoint-reconciler-type=none".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
            "--allow-privileged=true".to_owned(),
            file("service-account-key-file", &self.pki.service_account_public),
            file("service-account-signing-key-file", &self.pki.service_account_private),
            file("client-ca-file", &self.pki.ca),
            file("tls-cert-file", &self.pki.serving_certificate),
            file("tls-private-key-file", &self.pki.serving_key),
            file("token-auth-file", &self.token_file),
        ]
    }

    pub(super) fn controller_manager_arguments(&self, kubeconfig: &Path, port: u16, workloads: bool) -> Vec<String> {
        let also = if workloads { format!(",{WORKLOAD_CONTROLLERS}") } else { String::new() };
        let file = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
        vec![
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--controllers={CONTROLLERS}{also}"),
            "--leader-elect=false".to_owned(),
            "--use-service-account-credentials=false".to_owned(),
            "--concurrent-namespace-syncs=20".to_owned(),
            file("kubeconfig", kubeconfig),
            file("authentication-kubeconfig", kubeconfig),
            file("authorization-kubeconfig", kubeconfig),
            file("root-ca-file", &self.pki.ca),
            file("service-account-private-key-file", &self.pki.service_account_private),
            file("tls-cert-file", &self.pki.serving_certificate),
            file("tls-private-key-file", &self.pki.serving_key),
        ]
    }
}

/// A free loopback port.
pub(super) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("find a free port")?;
    Ok(listener.local_addr().context("read the free port")?.port())
}

/// Whether `path` answers 200 now.
pub(super) async fn is_ready(endpoint: &Endpoint, path: &str, token: Option<&str>) -> bool {
    let mut request = Request::get(path);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let Ok(request) = request.body(Full::new(Bytes::new())) else { return false };
    matches!(tokio::time::timeout(PROBE_WITHIN, endpoint.send(request)).await, Ok(Ok(answer)) if answer.status() == 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_listens_beyond_loopback() {
        let directory = tempfile::tempdir().expect("temp dir");
        let plane = Plane::create(directory.path()).expect("plane");
        let all = [
            plane.etcd_arguments(false),
            plane.apiserver_arguments(0, 1),
            plane.controller_manager_arguments(Path::new("/k"), 2, true),
        ]
        .concat();
        for flag in all.iter().filter(|flag| flag.contains("listen") || flag.contains("bind")) {
            assert!(flag.contains("127.0.0.1"), "{flag}");
        }
        assert_eq!(all.iter().filter(|flag| *flag == "--bind-address=127.0.0.1").count(), 2);
    }

    #[test]
    fn servers_on_one_etcd_have_their_own_prefix() {
        let directory = tempfile::tempdir().expect("temp dir");
        let plane = Plane::create(directory.path()).expect("plane");
        let prefix = |index| plane.apiserver_arguments(index, 1).into_iter().find(|f| f.starts_with("--etcd-prefix"));
        assert_eq!(prefix(0).as_deref(), Some("--etcd-prefix=/registry-0"));
        assert_ne!(prefix(0), prefix(1));
    }
}
