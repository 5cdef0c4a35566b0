//! Admission on any API server: a webhook server, and the objects that make the API server ask it.
//!
//! Decides in which order things are there: the server answers before anything points to it. What is allowed is decided by
//! `fleet_api::admission`.
//!
//! | file | what |
//! |---|---|
//! | `wire` | AdmissionReview in, AdmissionReview out |
//! | `world` | what checks ask about the hub |
//! | `server` | HTTPS |
//! | `certificate` | whose certificate it shows |
//! | `metrics` | how often it is asked, and what it refuses |
//! | `keeper` | the configurations and policies on the hub |

mod certificate;
mod keeper;
mod metrics;
mod server;
mod wire;
mod world;

use std::sync::Arc;

use anyhow::Context as _;
use fleet_api::admission::webhooks::CaBundle;
use fleet_hub::Hub;
use fleet_runtime::Runtime;
use prometheus_client::registry::Registry;
use rustls::ServerConfig;
use tokio::net::TcpListener;

pub(super) use keeper::OWNERSHIP;

use super::settings::{Admission, Webhooks};
use crate::agent::health::Checks;
use crate::agent::serving;
use metrics::Reviews;
use world::Sources;

/// A webhook server that is about to answer.
pub(super) struct Server {
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    sources: Sources,
    reviews: Reviews,
}

/// Opens the server's address and lets the controllers of this runtime keep what points to it. `None` where nothing is served.
pub(super) async fn prepare(
    admission: &Admission,
    client: &kube::Client,
    runtime: &mut Runtime,
    hub: &Hub,
    checks: &Checks,
    registry: &mut Registry,
) -> anyhow::Result<Option<Server>> {
    let mut ca = CaBundle::CertManager;
    let mut server = None;
    if let Some(webhooks) = &admission.webhooks {
        let listener = serving::listen("webhook-bind-address", &webhooks.address).await?;
        let listener = listener.context("--webhook-bind-address turns off what --enable-webhook turns on")?;
        let (bundle, tls) = identity(webhooks, runtime)?;
        ca = bundle;
        let sources = Sources { client: client.clone(), hub: hub.clone(), settings: webhooks.checks.clone() };
        checks.put("webhook-server", || Ok(()));
        server = Some(Server { listener, tls, sources, reviews: Reviews::registered(registry) });
    }
    if admission.webhooks.is_some() || admission.policies.is_some() {
        let by_cert_manager = ca == CaBundle::CertManager && server.is_some();
        let injection = keeper::start(runtime, admission, ca, &hub.caches.belongings.namespaces);
        if by_cert_manager {
            checks.put("cert-manager-ca-injection", move || injection.check());
        }
    }
    Ok(server)
}

fn identity(webhooks: &Webhooks, runtime: &Runtime) -> anyhow::Result<(CaBundle, Arc<ServerConfig>)> {
    if let Some(directory) = &webhooks.certificates {
        return Ok((CaBundle::CertManager, certificate::from_files(directory)?));
    }
    let names = certificate::names(&webhooks.service, &webhooks.namespace);
    let own = certificate::generate(&names, runtime.clock().now());
    let own = own.context("cannot make a certificate for the webhook server")?;
    Ok((CaBundle::Own(own.authority_pem.into_bytes()), own.tls))
}

/// Answers API servers for as long as it is polled.
pub(super) async fn serve(server: Option<Server>) {
    match server {
        Some(Server { listener, tls, sources, reviews }) => server::serve(listener, tls, sources, reviews).await,
        None => std::future::pending().await,
    }
}
