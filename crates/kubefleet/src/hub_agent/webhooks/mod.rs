//! Admission on any API server: a webhook server, and the objects that register it. The server answers before it is
//! registered. The checks are in `fleet_api::admission`.
//!
//! | file | what |
//! |---|---|
//! | `wire` | AdmissionReview in, AdmissionReview out |
//! | `lookup`, `kinds` | lookups of the checks on the hub |
//! | `server` | HTTPS |
//! | `certificate` | its serving certificate |
//! | `callers` | authentication of callers |
//! | `metrics` | requests, latency, denials |
//! | `reconciler` | webhook configurations and policies on the hub |

mod callers;
mod certificate;
mod kinds;
mod lookup;
mod metrics;
mod reconciler;
mod server;
mod wire;

use std::sync::Arc;

use anyhow::Context as _;
use fleet_api::admission::webhooks::CaBundle;
use fleet_hub::Hub;
use fleet_runtime::Runtime;
use prometheus_client::registry::Registry;
use rustls::ServerConfig;
use tokio::net::TcpListener;

pub(super) use reconciler::OWNERSHIP;
#[cfg(feature = "fuzzing")]
pub(crate) use wire::answered;

use super::settings::{Admission, Webhooks};
use crate::agent::connect::{self, Limit};
use crate::agent::health::Checks;
use crate::agent::serving;
use callers::Callers;
use lookup::Sources;
use metrics::{Lookups, Reviews};

/// Rate limit of lookups. Callers of the webhook server can cause lookups, so they have their own limit and do not slow down the
/// controllers. It allows a little more than users and pipelines write.
const LOOKUPS: Limit = Limit { rate: 50.0, burst: 200.0 };

/// A webhook server that is ready to serve.
pub(super) struct Server {
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    callers: Callers,
    sources: Sources,
    reviews: Reviews,
}

/// Opens the address of the webhook server and adds the controller that registers it. `None` if webhooks are disabled. The client
/// must have no rate limit.
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
        let listener = listener.context("--enable-webhook requires --webhook-bind-address")?;
        let callers = Callers::read(webhooks)?;
        let (bundle, tls) = identity(webhooks, &callers, runtime)?;
        ca = bundle;
        let sources = Sources {
            client: connect::limited(client.clone(), Some(LOOKUPS)),
            hub: hub.clone(),
            settings: webhooks.checks.clone(),
            lookups: Lookups::registered(registry),
        };
        checks.put("webhook-server", || Ok(()));
        server = Some(Server { listener, tls, callers, sources, reviews: Reviews::registered(registry) });
    }
    if admission.webhooks.is_some() || admission.policies.is_some() {
        let by_cert_manager = ca == CaBundle::CertManager;
        let trust = reconciler::start(runtime, admission, ca, &hub.caches.member_resources.namespaces);
        let progress = runtime.progress();
        match &server {
            Some(_) if by_cert_manager => checks.put("cert-manager-ca-injection", move || trust.check()),
            // Only the self-signed certificate of the leader is registered.
            Some(_) => checks.put("webhook-trust", move || if progress.is_leading() { trust.check() } else { Ok(()) }),
            None => {}
        }
    }
    Ok(server)
}

fn identity(
    webhooks: &Webhooks,
    callers: &Callers,
    runtime: &Runtime,
) -> anyhow::Result<(CaBundle, Arc<ServerConfig>)> {
    if let Some(directory) = &webhooks.certificates {
        return Ok((CaBundle::CertManager, certificate::from_files(directory, callers)?));
    }
    let names = certificate::names(&webhooks.service, &webhooks.namespace);
    let own = certificate::generate(&names, callers, runtime.clock().now());
    let own = own.context("cannot create a certificate for the webhook server")?;
    Ok((CaBundle::Own(own.authority_pem.into_bytes()), own.tls))
}

/// Serves while it is polled.
pub(super) async fn serve(server: Option<Server>) {
    match server {
        Some(Server { listener, tls, callers, sources, reviews }) => {
            server::serve(listener, tls, callers, sources, reviews).await;
        }
        None => std::future::pending().await,
    }
}
