//! The metrics of the server, with the names and labels of kube-apiserver, in the OpenMetrics text format.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::server::tasks::TaskState;

/// The media type of `/metrics`.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Upper bounds of the duration histogram, in seconds.
const BUCKETS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];
/// Maximum number of label sets: enough for every resource and code, but bounded against a client that invents names.
const MAX_SERIES: usize = 10_000;

/// The labels of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    pub(crate) verb: Verb,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
}

/// The verb of a request in RBAC; its label is the one of kube-apiserver.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Verb(pub(crate) String);

impl EncodeLabelValue for Verb {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        match self.0.as_str() {
            "create" => "POST".encode(encoder),
            "update" => "PUT".encode(encoder),
            other => other.to_uppercase().encode(encoder),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnsweredLabels {
    #[prometheus(flatten)]
    request: RequestLabels,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabel {
    resource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TaskLabel {
    task: &'static str,
}

/// Sizes of the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StorageFigures {
    /// Objects by resource (`deployments.apps`).
    pub(crate) objects: BTreeMap<String, u64>,
    pub(crate) bytes: u64,
    /// Objects that recovery could not read and wrote to files of the data directory.
    pub(crate) set_aside: u64,
}

/// The metrics of one server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<AnsweredLabels, Counter>,
    durations: Family<RequestLabels, Histogram, fn() -> Histogram>,
    watches: Family<RequestLabels, Gauge>,
    /// Label sets that have a series.
    known: Mutex<BTreeSet<RequestLabels>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let requests = Family::default();
        registry.register("apiserver_request", "Requests by verb, resource and HTTP code", requests.clone());
        let durations = Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> Histogram);
        let help = "Time to answer, in seconds; watches are not counted";
        registry.register("apiserver_request_duration_seconds", help, durations.clone());
        let watches = Family::default();
        registry.register("apiserver_longrunning_requests", "Open watches by resource", watches.clone());
        Self { registry, requests, durations, watches, known: Mutex::default() }
    }
}

impl Metrics {
    pub(crate) fn finished(&self, labels: &RequestLabels, code: u16, took: Duration) {
        if self.is_counted(labels) {
            self.requests.get_or_create(&AnsweredLabels { request: labels.clone(), code }).inc();
            self.durations.get_or_create(labels).observe(took.as_secs_f64());
        }
    }

    pub(crate) fn watch_started(&self, labels: &RequestLabels) {
        if self.is_counted(labels) {
            self.watches.get_or_create(labels).inc();
        }
    }

    pub(crate) fn watch_ended(&self, labels: &RequestLabels) {
        if self.is_counted(labels) {
            self.watches.get_or_create(labels).dec();
        }
    }

    /// Whether the labels have a series, or may get one.
    fn is_counted(&self, labels: &RequestLabels) -> bool {
        let mut known = self.known.lock();
        known.contains(labels) || (known.len() < MAX_SERIES && known.insert(labels.clone()))
    }

    /// The text of `/metrics`.
    pub(crate) fn print(&self, storage: &StorageFigures, tasks: &[TaskState]) -> Result<String, fmt::Error> {
        let mut out = String::new();
        encode_registry(&mut out, &self.registry)?;
        encode_registry(&mut out, &of_storage(storage))?;
        encode_registry(&mut out, &of_tasks(tasks))?;
        encode_eof(&mut out)?;
        Ok(out)
    }
}

fn of_storage(storage: &StorageFigures) -> Registry {
    let mut registry = Registry::default();
    let objects = Family::<ResourceLabel, Gauge<u64, AtomicU64>>::default();
    for (resource, count) in &storage.objects {
        objects.get_or_create(&ResourceLabel { resource: resource.clone() }).set(*count);
    }
    registry.register("apiserver_storage_objects", "Stored objects by resource", objects);
    let bytes = Gauge::<u64, AtomicU64>::default();
    bytes.set(storage.bytes);
    registry.register("apiserver_storage_size_bytes", "Bytes held by the store", bytes);
    let set_aside = Gauge::<u64, AtomicU64>::default();
    set_aside.set(storage.set_aside);
    let help = "Objects that could not be read at the start and are in files of the data directory";
    registry.register("apiserver_storage_set_aside_objects", help, set_aside);
    registry
}

fn of_tasks(tasks: &[TaskState]) -> Registry {
    let mut registry = Registry::default();
    let (healthy, restarts) = (Family::<TaskLabel, Gauge>::default(), Family::<TaskLabel, Counter>::default());
    for task in tasks {
        let label = TaskLabel { task: task.name };
        healthy.get_or_create(&label).set(i64::from(task.healthy));
        restarts.get_or_create(&label).inner().store(task.restarts, Ordering::Relaxed);
    }
    let help = "Whether a background task works: 0 from a panic until it has completed a round";
    registry.register("apiserver_task_healthy", help, healthy);
    registry.register("apiserver_task_restarts", "Restarts of a background task after a panic", restarts);
    registry
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(verb: &str) -> RequestLabels {
        RequestLabels {
            verb: Verb(verb.into()),
            version: "v1".into(),
            resource: "pods".into(),
            ..RequestLabels::default()
        }
    }

    #[test]
    fn requests_are_counted_by_code_and_timed() {
        let metrics = Metrics::default();
        metrics.finished(&pods("get"), 200, Duration::from_millis(2));
        metrics.finished(&pods("get"), 200, Duration::from_millis(2));
        metrics.finished(&pods("get"), 404, Duration::from_secs(100));
        let text = metrics.print(&StorageFigures::default(), &[]).unwrap();
        let labels = r#"verb="GET",group="",version="v1",resource="pods",subresource="""#;
        for expected in [
            format!("apiserver_request_total{{{labels},code=\"200\"}} 2"),
            format!("apiserver_request_total{{{labels},code=\"404\"}} 1"),
            format!("apiserver_request_duration_seconds_bucket{{le=\"0.001\",{labels}}} 0"),
            format!("apiserver_request_duration_seconds_bucket{{le=\"0.005\",{labels}}} 2"),
            format!("apiserver_request_duration_seconds_bucket{{le=\"+Inf\",{labels}}} 3"),
            format!("apiserver_request_duration_seconds_count{{{labels}}} 3"),
        ] {
            assert!(text.lines().any(|line| line == expected), "{expected}\n{text}");
        }
    }

    #[test]
    fn verbs_are_labelled_as_in_kube_apiserver() {
        let verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
        for (verb, label) in
            verbs.into_iter().zip(["GET", "LIST", "WATCH", "POST", "PUT", "PATCH", "DELETE", "DELETECOLLECTION"])
        {
            let metrics = Metrics::default();
            metrics.finished(&pods(verb), 200, Duration::ZERO);
            let text = metrics.print(&StorageFigures::default(), &[]).unwrap();
            assert!(text.contains(&format!("apiserver_request_total{{verb=\"{label}\",")), "{text}");
        }
    }

    #[test]
    fn watches_count_up_and_down() {
        let metrics = Metrics::default();
        let open = |metrics: &Metrics| {
            let text = metrics.print(&StorageFigures::default(), &[]).unwrap();
            let line = text.lines().find(|line| line.starts_with("apiserver_longrunning_requests{verb=\"WATCH\""));
            line.and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
        };
        metrics.watch_started(&pods("watch"));
        assert_eq!(open(&metrics).as_deref(), Some("1"));
        metrics.watch_ended(&pods("watch"));
        assert_eq!(open(&metrics).as_deref(), Some("0"));
    }

    #[test]
    fn storage_figures_are_printed() {
        let figures = StorageFigures { objects: BTreeMap::from([("pods".to_owned(), 3)]), bytes: 4096, set_aside: 2 };
        let text = Metrics::default().print(&figures, &[]).unwrap();
        assert!(text.contains("apiserver_storage_objects{resource=\"pods\"} 3\n"));
        assert!(text.contains("apiserver_storage_size_bytes 4096\n"));
    }

    #[test]
    fn invented_names_do_not_grow_the_metrics() {
        let metrics = Metrics::default();
        for index in 0..MAX_SERIES + 5 {
            metrics.finished(&RequestLabels { resource: format!("r{index}"), ..pods("get") }, 404, Duration::ZERO);
        }
        assert_eq!(metrics.known.lock().len(), MAX_SERIES);
    }
}
