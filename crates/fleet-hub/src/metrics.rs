//! Metrics of the placement controllers and the scheduler under the names that dashboards for the Go agents use.
//!
//! All controllers also have the metrics of `fleet-runtime`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fleet_runtime::{PlanResult, Progress, ReconcileObserver, ReconcileResult, ReconcileSummary};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::names;
use crate::options::HubOptions;

/// From a reconcile without work to one that waits for a busy server, in seconds.
const RECONCILE_SECONDS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
];
/// In milliseconds.
const CYCLE_MILLISECONDS: [f64; 8] = [10.0, 50.0, 100.0, 500.0, 1000.0, 5000.0, 10_000.0, 50_000.0];

/// Counts reconciles. Clones share the counters.
#[derive(Clone)]
pub struct HubMetrics(Arc<Families>);

struct Families {
    reconciles: Family<Looked, Counter>,
    errors: Family<Of, Counter>,
    seconds: Family<Of, Histogram, fn() -> Histogram>,
    most_at_once: Family<Of, Gauge>,
    active: Family<Of, Gauge>,
    cycles: Family<Cycle, Histogram, fn() -> Histogram>,
    cycling: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    controller: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Looked {
    controller: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Cycle {
    is_failed: &'static str,
    needs_requeue: &'static str,
}

/// The counterpart of a controller in the Go agent's metrics.
enum Known {
    Placement(Of),
    Scheduler,
    No,
}

impl Known {
    fn of(controller: &str) -> Self {
        match controller {
            names::CLUSTER_PLACEMENT => Self::Placement(CLUSTER),
            names::NAMESPACED_PLACEMENT => Self::Placement(NAMESPACED),
            names::CLUSTER_SCHEDULER | names::NAMESPACED_SCHEDULER => Self::Scheduler,
            _ => Self::No,
        }
    }
}

const CLUSTER: Of = Of { controller: "cluster-resource-placement-controller-v1beta1" };
const NAMESPACED: Of = Of { controller: "resource-placement-controller" };

impl fmt::Debug for HubMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HubMetrics")
    }
}

impl HubMetrics {
    pub(crate) fn new(options: &HubOptions) -> Self {
        let families = Families {
            reconciles: Family::default(),
            errors: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(RECONCILE_SECONDS)),
            most_at_once: Family::default(),
            active: Family::default(),
            cycles: Family::new_with_constructor(|| Histogram::new(CYCLE_MILLISECONDS)),
            cycling: Gauge::default(),
        };
        let workers = i64::try_from(options.placement_workers()).unwrap_or(i64::MAX);
        for controller in [Some(CLUSTER), options.resource_placements.then_some(NAMESPACED)].into_iter().flatten() {
            families.most_at_once.get_or_create(&controller).set(workers);
            families.active.get_or_create(&controller).set(0);
        }
        Self(Arc::new(families))
    }

    /// Registers the metrics.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let all = &self.0;
        registry.register("fleet_workload_reconcile", "Looks at placements by result", all.reconciles.clone());
        registry.register("fleet_workload_reconcile_errors", "Looks at placements that failed", all.errors.clone());
        registry.register("fleet_workload_reconcile_time_seconds", "Time of one look", all.seconds.clone());
        registry.register(
            "fleet_workload_max_concurrent_reconciles",
            "Placements that may be reconciled at the same time",
            all.most_at_once.clone(),
        );
        registry.register("fleet_workload_active_workers", "Placements that are being reconciled", all.active.clone());
        registry.register("scheduling_cycle_duration_milliseconds", "Time of one pass", all.cycles.clone());
        registry.register("scheduling_active_workers", "Placements that are being scheduled", all.cycling.clone());
    }
}

impl ReconcileObserver for HubMetrics {
    fn started(&self, controller: &'static str) {
        match Known::of(controller) {
            Known::Placement(of) => drop(self.0.active.get_or_create(&of).inc()),
            Known::Scheduler => drop(self.0.cycling.inc()),
            Known::No => {}
        }
    }

    fn finished(&self, controller: &'static str, summary: &ReconcileSummary, took: Duration) {
        match Known::of(controller) {
            Known::Placement(of) => {
                self.0.active.get_or_create(&of).dec();
                self.looked(of, summary, took);
            }
            Known::Scheduler => {
                self.0.cycling.dec();
                if let Some(cycle) = Cycle::of(summary) {
                    self.0.cycles.get_or_create(&cycle).observe(took.as_secs_f64() * 1000.0);
                }
            }
            Known::No => {}
        }
    }
}

impl HubMetrics {
    fn looked(&self, of: Of, summary: &ReconcileSummary, took: Duration) {
        // As in the Go agent, conflicts and invalid objects count as errors.
        let result = match summary.result {
            ReconcileResult::Cancelled => return,
            ReconcileResult::Succeeded if summary.is_requeued => "requeue_after",
            ReconcileResult::Succeeded => "success",
            ReconcileResult::Blocked
            | ReconcileResult::Failed
            | ReconcileResult::Conflict
            | ReconcileResult::Panicked => "error",
        };
        self.0.reconciles.get_or_create(&Looked { controller: of.controller, result }).inc();
        self.0.seconds.get_or_create(&of).observe(took.as_secs_f64());
        if result == "error" {
            self.0.errors.get_or_create(&of).inc();
        }
    }
}

impl Cycle {
    /// `None` for a reconcile without a finished scheduling cycle.
    fn of(summary: &ReconcileSummary) -> Option<Self> {
        if summary.plan_result == PlanResult::Skipped {
            return None;
        }
        match summary.result {
            ReconcileResult::Cancelled => None,
            ReconcileResult::Succeeded => Some(Self { is_failed: "false", needs_requeue: "false" }),
            // Only a change of the invalid object can help, and that enqueues the placement again.
            ReconcileResult::Blocked => Some(Self { is_failed: "true", needs_requeue: "false" }),
            ReconcileResult::Failed | ReconcileResult::Conflict | ReconcileResult::Panicked => {
                Some(Self { is_failed: "true", needs_requeue: "true" })
            }
        }
    }
}

/// Reports a metric only while this process is the leader.
#[derive(Debug)]
pub(crate) struct WhileLeading<C> {
    pub(crate) progress: Progress,
    pub(crate) shown: C,
}

impl<C: Collector> Collector for WhileLeading<C> {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        if self.progress.is_leading() { self.shown.encode(encoder) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_and_the_scheduler_have_the_metric_names_of_the_go_agents() {
        let metrics = HubMetrics::new(&HubOptions::default());
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        for (controller, result, plan_result, is_requeued) in [
            (names::CLUSTER_PLACEMENT, ReconcileResult::Succeeded, PlanResult::Decided, false),
            (names::CLUSTER_PLACEMENT, ReconcileResult::Succeeded, PlanResult::Decided, true),
            (names::CLUSTER_PLACEMENT, ReconcileResult::Failed, PlanResult::Decided, false),
            (names::CLUSTER_PLACEMENT, ReconcileResult::Conflict, PlanResult::Decided, true),
            (names::CLUSTER_PLACEMENT, ReconcileResult::Blocked, PlanResult::Blocked(String::new()), false),
            (names::CLUSTER_PLACEMENT, ReconcileResult::Cancelled, PlanResult::Decided, false),
            (names::CLUSTER_SCHEDULER, ReconcileResult::Succeeded, PlanResult::Decided, false),
            (names::CLUSTER_SCHEDULER, ReconcileResult::Succeeded, PlanResult::Skipped, false),
            (names::CLUSTER_SCHEDULER, ReconcileResult::Cancelled, PlanResult::Decided, false),
            (names::CLUSTER_SCHEDULER, ReconcileResult::Blocked, PlanResult::Blocked(String::new()), false),
            (names::CLUSTER_SCHEDULER, ReconcileResult::Failed, PlanResult::Decided, false),
            (names::NAMESPACED_SCHEDULER, ReconcileResult::Conflict, PlanResult::Decided, false),
            (names::MEMBERSHIP, ReconcileResult::Succeeded, PlanResult::Decided, false),
        ] {
            metrics.started(controller);
            metrics.finished(
                controller,
                &ReconcileSummary { result, plan_result, is_requeued },
                Duration::from_millis(20),
            );
        }
        metrics.started(names::NAMESPACED_PLACEMENT);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"fleet_workload_reconcile_total{controller="cluster-resource-placement-controller-v1beta1",result="success"} 1"#,
            r#"fleet_workload_reconcile_total{controller="cluster-resource-placement-controller-v1beta1",result="requeue_after"} 1"#,
            r#"fleet_workload_reconcile_total{controller="cluster-resource-placement-controller-v1beta1",result="error"} 3"#,
            r#"fleet_workload_reconcile_errors_total{controller="cluster-resource-placement-controller-v1beta1"} 3"#,
            r#"fleet_workload_reconcile_time_seconds_bucket{le="0.025",controller="cluster-resource-placement-controller-v1beta1"} 5"#,
            r#"fleet_workload_max_concurrent_reconciles{controller="resource-placement-controller"} 10"#,
            r#"fleet_workload_active_workers{controller="resource-placement-controller"} 1"#,
            r#"fleet_workload_active_workers{controller="cluster-resource-placement-controller-v1beta1"} 0"#,
            r#"scheduling_cycle_duration_milliseconds_bucket{le="50.0",is_failed="false",needs_requeue="false"} 1"#,
            r#"scheduling_cycle_duration_milliseconds_bucket{le="50.0",is_failed="true",needs_requeue="false"} 1"#,
            r#"scheduling_cycle_duration_milliseconds_bucket{le="50.0",is_failed="true",needs_requeue="true"} 2"#,
            "scheduling_active_workers 0",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains(names::MEMBERSHIP));
    }
}
