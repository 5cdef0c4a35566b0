//! The whole server in one value. `Embedded` serves requests in process (`service`, for `kube::Client::new`) and
//! optionally over TLS on a socket (`listen`).

mod backend;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
#[cfg(feature = "tls")]
use std::io;
use std::net::SocketAddr;
#[cfg(feature = "durable")]
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use crate::auth::{Secret, User};
#[cfg(feature = "tls")]
use crate::http::kubeconfig::{ContextEntry, Credentials, kubeconfig};
#[cfg(feature = "tls")]
use crate::http::tls::TlsError;
use crate::http::{self, Clusters, Edge, Limits, LocalService};
#[cfg(feature = "tls")]
use crate::http::{Authority, Listening};
use crate::server::access::{NoEscalation, Reviews, TokenRequests};
use crate::server::pods::PodAdmission;
use crate::server::{Builder, Cluster, Server, StartError, Template, builtins};
#[cfg(feature = "durable")]
use crate::store::file_log;
use backend::ClusterBackend;

/// The cluster that requests without `/clusters/<name>/` go to.
pub const ROOT_CLUSTER: &str = "root";

/// Reviews that are answered and never stored.
const REVIEWS: &[(&str, &str)] = &[
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
];

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    #[error(transparent)]
    Storage(#[from] StartError),
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[cfg(feature = "tls")]
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
}

/// The options of a server.
#[derive(Debug, Default)]
pub struct Options {
    /// The data directory; in memory if `None`.
    #[cfg(feature = "durable")]
    pub data_dir: Option<PathBuf>,
    pub limits: Limits,
}

/// An API server in this process.
#[derive(Debug, Clone)]
pub struct Embedded {
    server: Arc<Server>,
    #[cfg(feature = "tls")]
    authority: Arc<Authority>,
    clusters: Arc<EdgeClusters>,
    edge: Edge,
}

impl Embedded {
    /// Starts a server with all built-in kinds on the current runtime.
    pub async fn start(options: Options) -> Result<Self, EmbeddedError> {
        Self::with(Builder::default(), options).await
    }

    /// As `start`, for a builder that was given a clock, a seed or admission steps before.
    pub async fn with(builder: Builder, options: Options) -> Result<Self, EmbeddedError> {
        #[cfg(feature = "durable")]
        let builder = match &options.data_dir {
            Some(path) => {
                file_log::prepare_directory(path).map_err(StartError::Storage)?;
                builder.data_dir(path)
            }
            None => builder,
        };
        #[cfg(feature = "tls")]
        let (builder, authority) = {
            let authority = Arc::new(authority(&options)?);
            (builder.token_key(authority.token_key().clone()).token_signer(authority.clone()), authority)
        };
        let mut builder = builder
            .kinds(builtins::resources())
            .admission(Arc::new(PodAdmission))
            .admission(Arc::new(NoEscalation))
            .synthetic("", "serviceaccounts", Some("token"), Arc::new(TokenRequests));
        for (group, resource) in REVIEWS {
            builder = builder.synthetic(group, resource, None, Arc::new(Reviews));
        }
        let server = builder.build().await?;
        let clusters = Arc::new(EdgeClusters { server: OnceLock::new(), open: Mutex::default() });
        let _ = clusters.server.set(Arc::downgrade(&server));
        server.cluster(ROOT_CLUSTER);
        let edge = Edge::new(clusters.clone(), options.limits);
        Ok(Self {
            server,
            #[cfg(feature = "tls")]
            authority,
            clusters,
            edge,
        })
    }

    /// Ends all watches and the work of all clusters. The data directory is free once the last handle is dropped:
    /// clones of this value, services, clusters.
    pub async fn close(&self) {
        self.edge.stop();
        self.server.close().await;
        self.clusters.open.lock().clear();
    }

    /// A snapshot of all clusters, from which other servers can start.
    pub fn template(&self) -> Template {
        self.server.template()
    }

    /// The cluster of this name, created on the first call.
    pub fn cluster(&self, name: &str) -> Arc<Cluster> {
        self.server.cluster(name)
    }

    /// A service for clients in the same process that act as this user.
    pub fn service(&self, cluster: &str, user: User) -> LocalService {
        self.server.cluster(cluster);
        LocalService::new(self.edge.clone()).in_cluster(cluster).for_user(user)
    }

    /// A new token by which its holder is this user, in one cluster.
    pub fn issue_token(&self, cluster: &str, user: User) -> Secret {
        let token = Secret::new(format!("{}.{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple()));
        self.server.cluster(cluster).authenticator().add_token(&token, user);
        token
    }

    /// The certificate authority, which also signs tokens of service accounts.
    #[cfg(feature = "tls")]
    pub fn authority(&self) -> &Arc<Authority> {
        &self.authority
    }

    /// A service for clients in the same process that bring their own credentials, and name the cluster in the path.
    pub fn open_service(&self) -> LocalService {
        LocalService::new(self.edge.clone())
    }

    /// Serves HTTPS on this address until the result is shut down or dropped. `hosts` are further names of the server.
    #[cfg(feature = "tls")]
    pub async fn listen(&self, address: SocketAddr, hosts: &[String]) -> Result<Listening, EmbeddedError> {
        let tls = self.authority.server_config(hosts, jiff::Timestamp::now())?;
        let listening = http::listen(self.edge.clone(), tls, address).await;
        listening.map_err(|source| EmbeddedError::Listen { address, source })
    }

    /// A kubeconfig with one context per cluster, each an administrator's.
    #[cfg(feature = "tls")]
    pub fn admin_kubeconfig(&self, address: SocketAddr, clusters: &[&str]) -> Secret {
        let admin = || User::authenticated("kubernetes-admin", ["system:masters".to_owned()]);
        let contexts: Vec<ContextEntry> = clusters
            .iter()
            .map(|name| ContextEntry {
                name: (*name).to_owned(),
                server: self.url(address, name),
                namespace: None,
                credentials: Credentials::Token(self.issue_token(name, admin())),
            })
            .collect();
        kubeconfig(self.authority.ca_pem(), &contexts)
    }

    /// Where a cluster is found behind a listener.
    pub fn url(&self, address: SocketAddr, cluster: &str) -> String {
        if cluster == ROOT_CLUSTER {
            format!("https://{address}")
        } else {
            format!("https://{address}/clusters/{cluster}")
        }
    }
}

/// The authority in the data directory, or one that lives as long as the process.
#[cfg(feature = "tls")]
fn authority(options: &Options) -> Result<Authority, TlsError> {
    let now = jiff::Timestamp::now();
    #[cfg(feature = "durable")]
    if let Some(path) = &options.data_dir {
        return Authority::load_or_generate(&path.join("pki"), now);
    }
    let _ = options;
    Authority::generate(now)
}

/// The clusters as the edge finds them. Only those that exist are found: a request never makes one.
struct EdgeClusters {
    server: OnceLock<Weak<Server>>,
    open: Mutex<BTreeMap<String, Arc<http::ClusterEdge>>>,
}

impl std::fmt::Debug for EdgeClusters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EdgeClusters({} open)", self.open.lock().len())
    }
}

impl Clusters for Arc<EdgeClusters> {
    fn cluster(&self, name: Option<&str>) -> Option<Arc<http::ClusterEdge>> {
        let name = name.unwrap_or(ROOT_CLUSTER);
        if let Some(found) = self.open.lock().get(name) {
            return Some(found.clone());
        }
        let cluster = self.server.get()?.upgrade()?.existing(name)?;
        let (authenticator, rbac) = (cluster.authenticator().clone(), cluster.rbac().clone());
        let edge = Arc::new(http::ClusterEdge::new(Arc::new(ClusterBackend(cluster)), authenticator, rbac));
        Some(self.open.lock().entry(name.to_owned()).or_insert(edge).clone())
    }
}
