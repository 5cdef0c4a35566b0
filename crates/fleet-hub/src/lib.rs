//! The controllers of the hub. Each has triggers, an observation, a plan from `fleet-core`, and its execution.
//!
//! Twin kinds share one controller, which is generic over the scope and started twice. Never spawns a task, reads a
//! clock or makes a request itself: the runtime does that.
//!
//! | file | what |
//! |---|---|
//! | `options` | options that the agent's flags set |
//! | `caches` | caches and indexes |
//! | `ownership` | which controller writes which field |
//! | `keys`, `meta` | placements of objects; labels, annotations, finalizers |
//! | `scheduler/` | controller of `fleet_core::scheduler` |
//! | `placement/` | controller of `fleet_core::placement` |
//! | `eviction/` | controller of `fleet_core::eviction` |
//! | `overrides` | controller of `fleet_core::overrides` |
//! | `rollout/` | controller of `fleet_core::rollout` |
//! | `workgen/` | controller of `fleet_core::workgen` |
//! | `report_back` | controller of `fleet_core::workgen::report_back` |
//! | `snapshot_content` | content of resource snapshots, shared by its readers |
//! | `updaterun/` | controller of `fleet_core::updaterun` |
//! | `metrics` | metrics under the names of the Go agents |
//! | `membership/` | controller of `fleet_core::membership::hub` |
//! | `cluster_profile` | controller of `fleet_core::membership::profile` |

// Arithmetic that can panic, above all on times: `clippy.toml` names the types for which it is fine.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod caches;
mod cluster_profile;
mod eviction;
pub mod keys;
mod membership;
mod meta;
mod metrics;
pub mod names;
pub mod options;
mod overrides;
mod ownership;
mod placement;
mod report_back;
mod rollout;
mod scheduler;
mod snapshot_content;
mod updaterun;
mod workgen;

pub use caches::{Caches, MemberResources, OverrideCaches, PlacementCaches, RunCaches};
pub use metrics::HubMetrics;
pub use options::HubOptions;
pub use ownership::ownership;
pub use updaterun::RunMetrics;

use fleet_api::kinds::ClusterResourcePlacementDisruptionBudget;
use fleet_api::names::PlacementKey;
use fleet_runtime::{ClusterId, Counters, Discovery, Enqueuer, KindId, MetadataCaches, ObjectKey, Progress, Runtime};

use prometheus_client::registry::Registry;

use eviction::EvictionMetrics;
use metrics::WhileLeading;
use placement::{ClusterView, PlacementStatusMetrics};

/// Handles of the installed controllers for probes, tests and simulations.
#[derive(Debug, Clone)]
pub struct Hub {
    pub caches: Caches,
    /// Metrics of placements and scheduling.
    pub metrics: HubMetrics,
    /// How many members have joined and left.
    pub joins: Counters,
    /// Metadata of the kinds that some placement may select.
    pub metadata: MetadataCaches,
    pub discovery: Discovery,
    pub cluster: PlacementEnqueuers,
    /// `None` if ResourcePlacements are disabled.
    pub namespaced: Option<PlacementEnqueuers>,
    /// Metrics of staged runs of both scopes.
    pub run_metrics: RunMetrics,
    status_metrics: PlacementStatusMetrics,
}

/// Enqueue a placement.
#[derive(Debug, Clone)]
pub struct PlacementEnqueuers {
    pub placement: Enqueuer<PlacementKey>,
    pub scheduler: Enqueuer<PlacementKey>,
    pub rollout: Enqueuer<PlacementKey>,
    /// By binding.
    pub work_generator: Enqueuer<ObjectKey>,
}

impl Hub {
    /// Whether the caches of all kinds that placements may select are synced.
    pub fn knows_inventory(&self) -> bool {
        self.discovery.is_known() && self.metadata.kinds().iter().all(|kind| self.metadata.is_complete(kind))
    }
}

impl Hub {
    /// Our kinds that are read without a watch; the server must serve them too.
    pub fn read_kinds(&self) -> Vec<KindId> {
        let budgets = KindId::of::<ClusterResourcePlacementDisruptionBudget>();
        self.caches.evictions.iter().map(|_| budgets.clone()).collect()
    }

    /// Registers the metrics of the controllers. The progress of objects is reported only by the leader, because
    /// standbys would be counted too.
    pub fn register(&self, registry: &mut Registry, progress: &Progress) {
        self.joins.register(registry);
        self.metrics.register(registry);
        self.run_metrics.register(registry);
        let status_metrics = WhileLeading { progress: progress.clone(), shown: self.status_metrics.clone() };
        registry.register_collector(Box::new(status_metrics));
        if let Some(evictions) = &self.caches.evictions {
            let completions =
                WhileLeading { progress: progress.clone(), shown: EvictionMetrics(evictions.cache().clone()) };
            registry.register_collector(Box::new(completions));
        }
    }
}

/// Adds all of the hub's caches and controllers to a runtime.
pub fn install(runtime: &mut Runtime, options: &HubOptions) -> Hub {
    let caches = Caches::new(runtime, options);
    let metrics = HubMetrics::new(options);
    runtime.metrics().set_observer(metrics.clone());
    let joins = membership::start(runtime, options, &caches);
    cluster_profile::start(runtime, options, &caches);
    if let Some(evictions) = &caches.evictions {
        eviction::start(runtime, evictions);
    }
    let (metadata, discovery) = (runtime.metadata(ClusterId::MAIN), runtime.discovery(ClusterId::MAIN));
    let view = ClusterView::new(metadata.clone(), discovery.clone(), options.propagation.clone());
    overrides::start(runtime, options, &caches.cluster_overrides);
    overrides::start(runtime, options, &caches.overrides);
    report_back::start(runtime, options, &caches, &caches.cluster, &view);
    if let Some(scope) = &caches.namespaced {
        report_back::start(runtime, options, &caches, scope, &view);
    }
    let (copies, status_metrics) = (Some(&caches.status_copies), PlacementStatusMetrics::default());
    let cluster = PlacementEnqueuers {
        placement: placement::start(runtime, options, &caches.cluster, copies, &view, &status_metrics),
        scheduler: scheduler::start(runtime, options, &caches, &caches.cluster),
        rollout: rollout::start(runtime, options, &caches, &caches.cluster, &view),
        work_generator: workgen::start(runtime, options, &caches, &caches.cluster, &view),
    };
    let namespaced = caches.namespaced.as_ref().map(|scope| PlacementEnqueuers {
        placement: placement::start(runtime, options, scope, None, &view, &status_metrics),
        scheduler: scheduler::start(runtime, options, &caches, scope),
        rollout: rollout::start(runtime, options, &caches, scope, &view),
        work_generator: workgen::start(runtime, options, &caches, scope, &view),
    });
    let run_metrics = RunMetrics::default();
    if let Some(runs) = &caches.cluster_runs {
        updaterun::start(runtime, options, &caches, &caches.cluster, runs, &view, &run_metrics);
    }
    if let (Some(scope), Some(runs)) = (&caches.namespaced, &caches.namespaced_runs) {
        updaterun::start(runtime, options, &caches, scope, runs, &view, &run_metrics);
    }
    Hub { caches, metrics, joins, metadata, discovery, cluster, namespaced, run_metrics, status_metrics }
}
