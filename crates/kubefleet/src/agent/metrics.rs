//! `/metrics` in Prometheus' text format, with build, memory and start time of the process. prometheus-client writes
//! OpenMetrics, where the type of a counter is listed without `_total`; this module rewrites the descriptions to the names of
//! the samples.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use hyper::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::serving::{Answer, Page};

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Page size of `/proc` in bytes, on the supported machines.
const PAGE_BYTES: i64 = 4096;

/// A registry with the build information.
pub(crate) fn registry() -> Registry {
    let mut registry = Registry::default();
    let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("kubefleet_build", "Build information", build);
    registry.register_collector(Box::new(Process { started: jiff::Timestamp::now().as_second() }));
    registry
}

/// `/metrics`.
pub(crate) fn page(registry: Registry) -> Page {
    Arc::new(move |path, _| {
        (path == "/metrics").then(|| match text(&registry) {
            Ok(body) => Answer { status: StatusCode::OK, content_type: CONTENT_TYPE, body },
            Err(error) => Answer::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        })
    })
}

fn text(registry: &Registry) -> Result<String, fmt::Error> {
    let mut encoded = String::new();
    prometheus_client::encoding::text::encode(&mut encoded, registry)?;
    Ok(renamed(&encoded))
}

/// Renames descriptions to the names of their samples.
fn renamed(encoded: &str) -> String {
    let samples: BTreeSet<&str> = encoded
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let mut out = String::with_capacity(encoded.len());
    // The members of one process have the same metrics with different labels; each metric is described once.
    let mut described = BTreeSet::new();
    for line in encoded.lines().filter(|line| *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        let line = match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(what @ ("HELP" | "TYPE")), Some(name), Some(rest)) => {
                let suffix = ["_total", "_info"]
                    .into_iter()
                    .find(|suffix| !samples.contains(name) && samples.contains(format!("{name}{suffix}").as_str()));
                if !described.insert((what, name)) {
                    continue;
                }
                let rest = if rest == "info" { "gauge" } else { rest };
                format!("# {what} {name}{} {rest}", suffix.unwrap_or_default())
            }
            (Some("#"), Some("UNIT"), ..) => continue,
            _ => line.to_owned(),
        };
        out.push_str(&line);
        out.push('\n');
    }
    out
}

/// The process metrics of Prometheus' client libraries that dashboards use.
#[derive(Debug)]
struct Process {
    started: i64,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut gauge = |name, help, value| {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
        };
        gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds", self.started)?;
        match resident_bytes() {
            Some(bytes) => gauge("process_resident_memory_bytes", "Resident memory size in bytes", bytes),
            None => Ok(()),
        }
    }
}

fn resident_bytes() -> Option<i64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split_whitespace().nth(1)?.parse::<i64>().ok()? * PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    #[test]
    fn every_sample_is_described_under_its_own_name() {
        let mut registry = registry();
        let counter = Counter::<u64>::default();
        counter.inc();
        registry.register("fleet_workload_reconcile", "Reconciles", counter);
        let text = text(&registry).unwrap();
        let described =
            "# HELP fleet_workload_reconcile_total Reconciles.\n# TYPE fleet_workload_reconcile_total counter\n";
        assert!(text.contains(&format!("{described}fleet_workload_reconcile_total 1\n")), "{text}");
        assert!(text.contains("# TYPE kubefleet_build_info gauge\nkubefleet_build_info{version=\""), "{text}");
        assert!(text.contains("# TYPE process_resident_memory_bytes gauge\n") && !text.contains("EOF"), "{text}");
    }
}
