//! The hub's controllers: which change wakes which key, what is observed, how a plan is carried out.
//!
//! Decides nothing about the fleet: that is `fleet-core`. Never spawns, reads a clock or calls a server itself: that is
//! `fleet-runtime`. Twin kinds have one controller that is generic over the scope and started twice.
//!
//! | file | what |
//! |---|---|
//! | `options` | what the agent's flags set |
//! | `caches` | which kinds are held, how, and by what they are found |
//! | `ownership` | which controller writes which field |
//! | `keys`, `meta` | from objects to the placements that they belong to; labels, annotations, finalizers |
//! | `scheduler/` | the shell of `fleet_core::scheduler` |
//! | `placement/` | the shell of `fleet_core::placement` |
//! | `eviction/` | the shell of `fleet_core::eviction` |
//! | `overrides` | the shell of `fleet_core::overrides` |
//! | `rollout/` | the shell of `fleet_core::rollout` |
//! | `workgen/` | the shell of `fleet_core::workgen` |
//! | `report_back` | the shell of `fleet_core::workgen::report_back` |
//! | `contents` | the content of snapshots, read once for all who need it |
//! | `updaterun/` | the shell of `fleet_core::updaterun` |
//! | `standing` | how far placements are, for dashboards |
//! | `metrics` | what the runtime tells, under the names that dashboards know |
//! | `membership` | the shell of `fleet_core::membership::hub` |
//! | `cluster_profile` | the shell of `fleet_core::membership::profile` |

mod caches;
mod cluster_profile;
mod contents;
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
mod standing;
mod updaterun;
mod workgen;

pub use caches::{Belongings, Caches, OverrideCaches, PlacementCaches, RunCaches, by, pin, works_at};
pub use metrics::HubMetrics;
pub use options::HubOptions;
pub use ownership::ownership;
pub use updaterun::RunMetrics;

use fleet_api::kinds::ClusterResourcePlacementDisruptionBudget;
use fleet_api::names::PlacementKey;
use fleet_runtime::{Counters, Discovery, KindId, Marks, MetadataCaches, ObjectKey, Progress, Runtime, Side};

use prometheus_client::registry::Registry;

use eviction::Completions;
use metrics::WhileLeading;
use placement::World;
use standing::Standings;

/// What is installed: handles for probes, tests and simulations.
#[derive(Debug, Clone)]
pub struct Hub {
    pub caches: Caches,
    /// How placements and scheduling go.
    pub metrics: HubMetrics,
    /// How many members have joined and left.
    pub joins: Counters,
    /// Metadata of the kinds that some placement may select.
    pub metadata: MetadataCaches,
    pub discovery: Discovery,
    pub cluster: PlacementMarks,
    /// Absent where ResourcePlacements are turned off.
    pub namespaced: Option<PlacementMarks>,
    /// Of staged runs of both scopes.
    pub run_metrics: RunMetrics,
    standings: Standings,
}

/// Ask for a look at a placement.
#[derive(Debug, Clone)]
pub struct PlacementMarks {
    pub placement: Marks<PlacementKey>,
    pub scheduler: Marks<PlacementKey>,
    pub rollout: Marks<PlacementKey>,
    /// By binding.
    pub work_generator: Marks<ObjectKey>,
}

impl Hub {
    /// Whether all objects are known that some placement may select.
    pub fn knows_inventory(&self) -> bool {
        self.discovery.is_known() && self.metadata.kinds().iter().all(|kind| self.metadata.is_complete(kind))
    }
}

impl Hub {
    /// Kinds of ours that are read without being followed; the server must know them too.
    pub fn read_kinds(&self) -> Vec<KindId> {
        let budgets = KindId::of::<ClusterResourcePlacementDisruptionBudget>();
        self.caches.evictions.iter().map(|_| budgets.clone()).collect()
    }

    /// Lets a registry show what the controllers keep under names of their own. How objects stand is told only by a process that
    /// acts: a standby knows it as well, and would be counted, too.
    pub fn register(&self, registry: &mut Registry, progress: &Progress) {
        self.joins.register(registry);
        self.metrics.register(registry);
        self.run_metrics.register(registry);
        let standings = WhileLeading { progress: progress.clone(), shown: self.standings.clone() };
        registry.register_collector(Box::new(standings));
        if let Some(evictions) = self.caches.evictions.clone() {
            let completions = WhileLeading { progress: progress.clone(), shown: Completions(evictions) };
            registry.register_collector(Box::new(completions));
        }
    }
}

/// Adds all of the hub's caches and controllers to a runtime.
pub fn install(runtime: &mut Runtime, options: &HubOptions) -> Hub {
    let caches = Caches::new(runtime, options);
    let metrics = HubMetrics::new(options);
    runtime.metrics().tell(metrics.clone());
    let joins = membership::start(runtime, options, &caches);
    cluster_profile::start(runtime, options, &caches);
    if let Some(evictions) = &caches.evictions {
        eviction::start(runtime, evictions);
    }
    let (metadata, discovery) = (runtime.metadata(Side::MAIN), runtime.discovery(Side::MAIN));
    let world = World::new(metadata.clone(), discovery.clone(), options.propagation.clone());
    overrides::start(runtime, options, &caches.cluster_overrides);
    overrides::start(runtime, options, &caches.overrides);
    report_back::start(runtime, options, &caches, &caches.cluster, &world);
    if let Some(scope) = &caches.namespaced {
        report_back::start(runtime, options, &caches, scope, &world);
    }
    let (copies, standings) = (Some(&caches.status_copies), Standings::default());
    let cluster = PlacementMarks {
        placement: placement::start(runtime, options, &caches.cluster, copies, &world, &standings),
        scheduler: scheduler::start(runtime, options, &caches, &caches.cluster),
        rollout: rollout::start(runtime, options, &caches, &caches.cluster, &world),
        work_generator: workgen::start(runtime, options, &caches, &caches.cluster, &world),
    };
    let namespaced = caches.namespaced.as_ref().map(|scope| PlacementMarks {
        placement: placement::start(runtime, options, scope, None, &world, &standings),
        scheduler: scheduler::start(runtime, options, &caches, scope),
        rollout: rollout::start(runtime, options, &caches, scope, &world),
        work_generator: workgen::start(runtime, options, &caches, scope, &world),
    });
    let run_metrics = RunMetrics::default();
    if let Some(runs) = &caches.cluster_runs {
        updaterun::start(runtime, options, &caches, &caches.cluster, runs, &world, &run_metrics);
    }
    if let (Some(scope), Some(runs)) = (&caches.namespaced, &caches.namespaced_runs) {
        updaterun::start(runtime, options, &caches, scope, runs, &world, &run_metrics);
    }
    Hub { caches, metrics, joins, metadata, discovery, cluster, namespaced, run_metrics, standings }
}
