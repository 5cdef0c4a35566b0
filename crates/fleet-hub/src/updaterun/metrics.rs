//! Prometheus metrics of staged runs, under the names that dashboards for the Go agents know. A deleted run leaves no
//! series.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fleet_api::names::GatePosition;
use fleet_api::types::{UpdateRunState, UpdateRunStatus};
use fleet_api::well_known::label_values;
use fleet_core::updaterun::{ApprovalLatency, status_series};
use fleet_runtime::ObjectKey;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// From one minute to one day, in seconds.
const APPROVAL_SECONDS: [f64; 9] = [60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 21_600.0, 43_200.0, 86_400.0];
/// From a single fast cluster to a large stage, one cluster after the other, in seconds.
const STAGE_SECONDS: [f64; 8] = [15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];

type Labels = Vec<(&'static str, String)>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// Metrics of staged runs. Clones count together.
#[derive(Clone)]
pub struct RunMetrics(Arc<Families>);

struct Families {
    last_status: Family<Labels, Gauge<f64, AtomicU64>>,
    approvals: Histograms,
    stages: Histograms,
    /// The series of each run, removed together with the run.
    made: Mutex<BTreeMap<ObjectKey, Series>>,
}

#[derive(Default)]
struct Series {
    last_status: BTreeSet<Labels>,
    approvals: BTreeSet<Labels>,
    stages: BTreeSet<Labels>,
}

impl Default for RunMetrics {
    fn default() -> Self {
        Self(Arc::new(Families {
            last_status: Family::default(),
            approvals: Family::new_with_constructor(|| Histogram::new(APPROVAL_SECONDS)),
            stages: Family::new_with_constructor(|| Histogram::new(STAGE_SECONDS)),
            made: Mutex::default(),
        }))
    }
}

impl fmt::Debug for RunMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunMetrics").field("runs", &self.0.made.lock().len()).finish()
    }
}

impl RunMetrics {
    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        let all = &self.0;
        registry.register(
            "fleet_workload_update_run_status_last_timestamp_seconds",
            "When a staged update run was last seen in this state",
            all.last_status.clone(),
        );
        registry.register(
            "fleet_workload_update_run_approval_request_latency_seconds",
            "From an approval request to its acceptance",
            all.approvals.clone(),
        );
        registry.register(
            "fleet_workload_update_run_stage_cluster_updating_duration_seconds",
            "From the start of a stage until all of its clusters are updated",
            all.stages.clone(),
        );
    }

    /// Sets the status gauge of a run.
    pub(super) fn set_status(&self, run: &ObjectKey, state: UpdateRunState, status: &UpdateRunStatus, now: Timestamp) {
        let Some(series) = status_series(status) else { return };
        let mut labels = of_run(run);
        labels.extend([
            ("state", state.to_string()),
            ("condition", series.condition),
            ("status", series.status.to_string()),
            ("reason", series.reason),
            ("failureType", series.failure_type.word().to_owned()),
        ]);
        self.0.last_status.get_or_create(&labels).set(seconds(now.duration_since(Timestamp::UNIX_EPOCH)));
        self.0.made.lock().entry(run.clone()).or_default().last_status.insert(labels);
    }

    /// Adds approval latencies and stage durations to the histograms.
    pub(super) fn record(&self, run: &ObjectKey, measured: &Measurements) {
        let mut made = self.0.made.lock();
        for approval in &measured.approvals {
            let mut labels = of_run(run);
            let task = match approval.position {
                GatePosition::Before => label_values::BEFORE_STAGE,
                GatePosition::After => label_values::AFTER_STAGE,
            };
            labels.push(("taskType", task.to_owned()));
            self.0.approvals.get_or_create(&labels).observe(seconds(approval.latency));
            made.entry(run.clone()).or_default().approvals.insert(labels);
        }
        for duration in &measured.stages {
            let labels = of_run(run);
            self.0.stages.get_or_create(&labels).observe(seconds(*duration));
            made.entry(run.clone()).or_default().stages.insert(labels);
        }
    }

    /// Removes the series of a deleted run.
    pub(super) fn forget(&self, run: &ObjectKey) {
        let Some(series) = self.0.made.lock().remove(run) else { return };
        remove(&self.0.last_status, &series.last_status);
        remove(&self.0.approvals, &series.approvals);
        remove(&self.0.stages, &series.stages);
    }
}

/// Values that a plan adds to the histograms once its writes have succeeded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Measurements {
    pub(super) approvals: Vec<ApprovalLatency>,
    pub(super) stages: Vec<SignedDuration>,
}

fn remove<M, C: MetricConstructor<M>>(family: &Family<Labels, M, C>, all: &BTreeSet<Labels>) {
    for labels in all {
        family.remove(labels);
    }
}

fn of_run(run: &ObjectKey) -> Labels {
    vec![("namespace", run.namespace().unwrap_or_default().to_owned()), ("name", run.name().to_owned())]
}

fn seconds(duration: SignedDuration) -> f64 {
    duration.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    fn shown(metrics: &RunMetrics) -> String {
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn series_have_the_names_of_the_go_agents_and_end_with_their_run() {
        let (metrics, run) = (RunMetrics::default(), ObjectKey::namespaced("shop", "run-1"));
        let status: UpdateRunStatus = serde_json::from_value(serde_json::json!({"conditions": [{
            "type": "Initialized", "status": "True", "reason": "UpdateRunInitializedSuccessfully", "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]}))
        .unwrap();
        metrics.set_status(&run, UpdateRunState::Run, &status, Timestamp::from_second(7).unwrap());
        let approval = ApprovalLatency { position: GatePosition::After, latency: SignedDuration::from_secs(90) };
        metrics.record(&run, &Measurements { approvals: vec![approval], stages: vec![SignedDuration::from_secs(20)] });
        let text = shown(&metrics);
        let expected = [
            r#"fleet_workload_update_run_status_last_timestamp_seconds{namespace="shop",name="run-1",state="Run",condition="Initialized",status="True",reason="UpdateRunInitializedSuccessfully",failureType="none"} 7.0"#,
            r#"fleet_workload_update_run_approval_request_latency_seconds_bucket{le="300.0",namespace="shop",name="run-1",taskType="afterStage"} 1"#,
            r#"fleet_workload_update_run_stage_cluster_updating_duration_seconds_sum{namespace="shop",name="run-1"} 20.0"#,
        ];
        for line in expected {
            assert!(text.contains(line), "{line}\n{text}");
        }
        metrics.forget(&run);
        assert!(!shown(&metrics).contains("run-1"));
    }
}
