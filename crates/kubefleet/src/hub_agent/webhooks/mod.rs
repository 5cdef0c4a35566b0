//! Admission on any API server: a webhook server, and the objects that make the API server ask it.
//!
//! Decides in which order things are there: the server answers before anything points to it. What is allowed is decided by
//! `fleet_api::admission`.
//!
//! | file | what |
//! |---|---|
//! | `wire` | AdmissionReview in, AdmissionReview out |
//! | `world`, `kinds` | what checks ask about the hub |
//! | `server` | HTTPS |
//! | `certificate` | whose certificate it shows |
//! | `metrics` | how often it is asked, and what it refuses |
//! | `keeper` | the configurations and policies on the hub |

mod certificate;
mod keeper;
mod kinds;
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
use crate::agent::connect::{self, Limit};
use crate::agent::health::Checks;
use crate::agent::serving;
use metrics::{Lookups, Reviews};
use world::Sources;

/// What checks may ask the API server, in requests. Whoever can reach the server can make it ask: that must not keep the
/// controllers from their work, so checks have a bucket of their own, for a little more than people and pipelines write.
const LOOKUPS: Limit = Limit { rate: 50.0, burst: 200.0 };

/// A webhook server that is about to answer.
pub(super) struct Server {
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    sources: Sources,
    reviews: Reviews,
}

/// Opens the server's address and lets the controllers of this runtime keep what points to it. `None` where nothing is served.
/// The client is one without a limit.
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
        let sources = Sources {
            client: connect::limited(client.clone(), Some(LOOKUPS)),
            hub: hub.clone(),
            settings: webhooks.checks.clone(),
            lookups: Lookups::registered(registry),
        };
        checks.put("webhook-server", || Ok(()));
        server = Some(Server { listener, tls, sources, reviews: Reviews::registered(registry) });
    }
    if admission.webhooks.is_some() || admission.policies.is_some() {
        let by_cert_manager = ca == CaBundle::CertManager;
        let trust = keeper::start(runtime, admission, ca, &hub.caches.belongings.namespaces);
        let progress = runtime.progress();
        match &server {
            Some(_) if by_cert_manager => checks.put("cert-manager-ca-injection", move || trust.check()),
            // Only one agent's own certificate can be trusted at a time: that of the one who leads.
            Some(_) => checks.put("webhook-trust", move || if progress.is_leading() { trust.check() } else { Ok(()) }),
            None => {}
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
