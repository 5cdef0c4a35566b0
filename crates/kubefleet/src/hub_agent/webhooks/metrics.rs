//! How often, how fast and with what outcome the webhook server is asked, and what it asks itself.
//!
//! Decides names and labels: those that dashboards for the Go agent know, and one that says what users were refused. Never
//! decides an answer.

use std::time::Duration;

use hyper::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Outcomes of questions that checks ask the API server.
const OK: &str = "ok";
const REFUSED: &str = "refused";
const FAILED: &str = "failed";

/// From an answer out of memory to one that waited for a busy server, in seconds. The guard rail has one, the others have five.
const SECONDS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];

/// Clones count together.
#[derive(Debug, Clone)]
pub(super) struct Reviews {
    requests: Family<Answered, Counter>,
    seconds: Family<At, Histogram, fn() -> Histogram>,
    refusals: Family<At, Counter>,
}

/// A path at which something is served.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct At {
    webhook: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    webhook: String,
    code: u16,
}

/// What checks asked the API server, and whether it let them. Clones count together.
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
        registry.register("kubefleet_webhook_lookups", "What checks asked the API server", lookups.0.clone());
        lookups
    }

    /// That something is not there is an answer, too.
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
        registry.register("controller_runtime_webhook_latency_seconds", "Time of one answer", seconds);
        registry.register("kubefleet_webhook_refusals", "What users were refused", reviews.refusals.clone());
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
