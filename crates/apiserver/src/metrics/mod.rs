//! The metrics of the server, in the Prometheus text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::server::tasks::TaskState;

/// Upper bounds of the duration histogram, in seconds.
const BUCKETS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];
/// Maximum number of label sets: enough for every resource and code, but bounded against a client that invents names.
const MAX_SERIES: usize = 10_000;

/// The labels of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestLabels {
    pub verb: String,
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
}

impl RequestLabels {
    fn print(&self) -> String {
        let Self { verb, group, version, resource, subresource } = self;
        let verb = printed_verb(verb);
        let pairs = [
            ("verb", &verb),
            ("group", group),
            ("version", version),
            ("resource", resource),
            ("subresource", subresource),
        ];
        pairs.map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).join(",")
    }
}

/// The verb as kube-apiserver labels it.
fn printed_verb(verb: &str) -> String {
    match verb {
        "create" => "POST".to_owned(),
        "update" => "PUT".to_owned(),
        other => other.to_uppercase(),
    }
}

/// The counters for one set of labels.
#[derive(Debug, Default)]
struct Series {
    by_code: BTreeMap<u16, u64>,
    durations: Histogram,
}

#[derive(Debug, Default)]
struct Histogram {
    counts: [u64; BUCKETS.len()],
    total: u64,
    sum_seconds: f64,
}

#[derive(Debug, Default)]
struct Counters {
    requests: BTreeMap<RequestLabels, Series>,
    watches: BTreeMap<RequestLabels, i64>,
}

/// Sizes of the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StorageFigures {
    /// Objects by resource (`deployments.apps`).
    pub objects: BTreeMap<String, u64>,
    pub bytes: u64,
    /// Objects that recovery could not read and wrote to files of the data directory.
    pub set_aside: u64,
}

/// The counters of one server.
#[derive(Debug, Default)]
pub struct Metrics {
    counters: Mutex<Counters>,
}

impl Metrics {
    pub fn finished(&self, labels: &RequestLabels, code: u16, took: Duration) {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        // Most requests have known labels: do not copy those.
        if !counters.requests.contains_key(labels) {
            if counters.requests.len() >= MAX_SERIES {
                return;
            }
            counters.requests.insert(labels.clone(), Series::default());
        }
        let Some(series) = counters.requests.get_mut(labels) else { return };
        *series.by_code.entry(code).or_default() += 1;
        let seconds = took.as_secs_f64();
        let histogram = &mut series.durations;
        for (count, bound) in histogram.counts.iter_mut().zip(BUCKETS) {
            *count += u64::from(seconds <= bound);
        }
        histogram.total += 1;
        histogram.sum_seconds += seconds;
    }

    pub fn watch_started(&self, labels: &RequestLabels) {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        *counters.watches.entry(labels.clone()).or_default() += 1;
    }

    pub fn watch_ended(&self, labels: &RequestLabels) {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counters.watches.get_mut(labels) {
            *count -= 1;
            if *count <= 0 {
                counters.watches.remove(labels);
            }
        }
    }

    /// The text of `/metrics`.
    pub fn print(&self, storage: &StorageFigures, tasks: &[TaskState]) -> String {
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        heading(&mut out, "apiserver_request_total", "counter", "Requests by verb, resource and HTTP code.");
        for (labels, series) in &counters.requests {
            for (code, count) in &series.by_code {
                line(&mut out, "apiserver_request_total", &format!("{},code=\"{code}\"", labels.print()), count);
            }
        }
        let name = "apiserver_request_duration_seconds";
        heading(&mut out, name, "histogram", "Time to answer, in seconds; watches are not counted.");
        for (labels, series) in &counters.requests {
            print_histogram(&mut out, name, &labels.print(), &series.durations);
        }
        heading(&mut out, "apiserver_longrunning_requests", "gauge", "Open watches by resource.");
        for (labels, count) in &counters.watches {
            line(&mut out, "apiserver_longrunning_requests", &labels.print(), count);
        }
        heading(&mut out, "apiserver_storage_objects", "gauge", "Stored objects by resource.");
        for (resource, count) in &storage.objects {
            line(&mut out, "apiserver_storage_objects", &format!("resource=\"{}\"", escaped(resource)), count);
        }
        heading(&mut out, "apiserver_storage_size_bytes", "gauge", "Bytes held by the store.");
        line(&mut out, "apiserver_storage_size_bytes", "", &storage.bytes);
        let name = "apiserver_storage_set_aside_objects";
        heading(
            &mut out,
            name,
            "gauge",
            "Objects that could not be read at the start and are in files of the data directory.",
        );
        line(&mut out, name, "", &storage.set_aside);
        print_tasks(&mut out, tasks);
        out
    }
}

fn print_tasks(out: &mut String, tasks: &[TaskState]) {
    let label = |task: &TaskState| format!("task=\"{}\"", escaped(task.name));
    let name = "apiserver_task_healthy";
    heading(out, name, "gauge", "Whether a background task works: 0 from a panic until it has completed a round.");
    for task in tasks {
        line(out, name, &label(task), &u8::from(task.healthy));
    }
    let name = "apiserver_task_restarts_total";
    heading(out, name, "counter", "Restarts of a background task after a panic.");
    for task in tasks {
        line(out, name, &label(task), &task.restarts);
    }
}

fn print_histogram(out: &mut String, name: &str, labels: &str, histogram: &Histogram) {
    let bucket = format!("{name}_bucket");
    for (count, bound) in histogram.counts.iter().zip(BUCKETS) {
        line(out, &bucket, &format!("{labels},le=\"{bound}\""), count);
    }
    line(out, &bucket, &format!("{labels},le=\"+Inf\""), &histogram.total);
    line(out, &format!("{name}_sum"), labels, &histogram.sum_seconds);
    line(out, &format!("{name}_count"), labels, &histogram.total);
}

fn heading(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(out: &mut String, name: &str, labels: &str, value: &impl std::fmt::Display) {
    let _ =
        if labels.is_empty() { writeln!(out, "{name} {value}") } else { writeln!(out, "{name}{{{labels}}} {value}") };
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(verb: &str) -> RequestLabels {
        RequestLabels { verb: verb.into(), version: "v1".into(), resource: "pods".into(), ..RequestLabels::default() }
    }

    #[test]
    fn requests_are_counted_by_code_and_timed() {
        let metrics = Metrics::default();
        metrics.finished(&pods("get"), 200, Duration::from_millis(2));
        metrics.finished(&pods("get"), 200, Duration::from_millis(2));
        metrics.finished(&pods("get"), 404, Duration::from_secs(100));
        let text = metrics.print(&StorageFigures::default(), &[]);
        let labels = r#"verb="GET",group="",version="v1",resource="pods",subresource="""#;
        for expected in [
            format!("apiserver_request_total{{{labels},code=\"200\"}} 2"),
            format!("apiserver_request_total{{{labels},code=\"404\"}} 1"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"0.001\"}} 0"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"0.005\"}} 2"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 3"),
            format!("apiserver_request_duration_seconds_count{{{labels}}} 3"),
        ] {
            assert!(text.lines().any(|line| line == expected), "{expected}\n{text}");
        }
    }

    #[test]
    fn verbs_are_labelled_as_in_kube_apiserver() {
        let verbs =
            ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"].map(printed_verb);
        assert_eq!(verbs, ["GET", "LIST", "WATCH", "POST", "PUT", "PATCH", "DELETE", "DELETECOLLECTION"]);
    }

    #[test]
    fn watches_count_up_and_down() {
        let metrics = Metrics::default();
        metrics.watch_started(&pods("watch"));
        assert!(
            metrics.print(&StorageFigures::default(), &[]).contains("apiserver_longrunning_requests{verb=\"WATCH\"")
        );
        metrics.watch_ended(&pods("watch"));
        assert!(!metrics.print(&StorageFigures::default(), &[]).contains("verb=\"WATCH\""));
    }

    #[test]
    fn storage_figures_are_printed() {
        let figures = StorageFigures { objects: BTreeMap::from([("pods".to_owned(), 3)]), bytes: 4096, set_aside: 2 };
        let text = Metrics::default().print(&figures, &[]);
        assert!(text.contains("apiserver_storage_objects{resource=\"pods\"} 3\n"));
        assert!(text.contains("apiserver_storage_size_bytes 4096\n"));
    }

    #[test]
    fn made_up_names_do_not_fill_the_memory() {
        let metrics = Metrics::default();
        for index in 0..MAX_SERIES + 5 {
            metrics.finished(&RequestLabels { resource: format!("r{index}"), ..pods("get") }, 404, Duration::ZERO);
        }
        assert_eq!(metrics.counters.lock().unwrap().requests.len(), MAX_SERIES);
    }
}
