//! How often, how fast and with what outcome the webhook server is asked.
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
