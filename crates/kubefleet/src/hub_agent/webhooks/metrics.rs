//! Metrics of the webhook server: requests, latency, denials, and lookups at the API server. Names and labels match the
//! dashboards of the Go agent.

use std::time::Duration;

use hyper::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Results of lookups at the API server.
const OK: &str = "ok";
const REFUSED: &str = "refused";
const FAILED: &str = "failed";

/// Latency buckets in seconds, from a cached answer to a busy API server. The webhook timeout is 1 s for the guard rail and 5 s
/// for the others.
const SECONDS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];

/// Clones share the counters.
#[derive(Debug, Clone)]
pub(super) struct Reviews {
    requests: Family<Answered, Counter>,
    seconds: Family<At, Histogram, fn() -> Histogram>,
    refusals: Family<At, Counter>,
}

/// The path of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct At {
    webhook: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    webhook: String,
    code: u16,
}

/// Lookups at the API server and their results. Clones count together.
#[derive(Debug, Clone)]
pub(super) struct Lookups(Family<Asked, Counter>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    kind: String,
    outcome: &'static str,
}

impl Lookups {
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let lookups = Self(Family::default());
        registry.register(
            "kubefleet_webhook_lookups",
            "Lookups of admission checks at the API server",
            lookups.0.clone(),
        );
        lookups
    }

    /// A missing object counts as success.
    pub(super) fn made(&self, kind: &str, error: Option<&kube::Error>) {
        let outcome = match error {
            None => OK,
            Some(kube::Error::Api(status)) if status.code == 404 => OK,
            Some(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => REFUSED,
            Some(_) => FAILED,
        };
        self.0.get_or_create(&Asked { kind: kind.to_owned(), outcome }).inc();
    }
}

impl Reviews {
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let reviews = Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            refusals: Family::default(),
        };
        let (requests, seconds) = (reviews.requests.clone(), reviews.seconds.clone());
        registry.register("controller_runtime_webhook_requests", "Admission requests by HTTP code", requests);
        registry.register("controller_runtime_webhook_latency_seconds", "Latency of admission requests", seconds);
        registry.register("kubefleet_webhook_refusals", "Denied admission requests", reviews.refusals.clone());
        reviews
    }

    pub(super) fn answered(&self, path: &str, code: StatusCode, took: Duration) {
        let webhook = path.to_owned();
        self.seconds.get_or_create(&At { webhook: webhook.clone() }).observe(took.as_secs_f64());
        self.requests.get_or_create(&Answered { webhook, code: code.as_u16() }).inc();
    }

    pub(super) fn refused(&self, path: &str) {
        self.refusals.get_or_create(&At { webhook: path.to_owned() }).inc();
    }
}
