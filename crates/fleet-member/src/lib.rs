//! The member agent. On the hub it watches only the member's own namespace.
//!
//! | file | what |
//! |---|---|
//! | `options` | flags and environment of the agent |
//! | `membership` | joins, sends heartbeats and leaves; `fleet_core::membership::agent` plans |
//! | `applier/` | applies Works to the member; `fleet_core::apply` decides |
//! | `provider` | the interface of property providers |
//! | `provider_client` | starts and calls a provider, with deadlines |
//! | `collect` | health probe and objects for properties |
//! | `ownership` | which controller writes which field |

// Arithmetic that can panic, above all on times: `clippy.toml` names the types for which it is fine.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod applier;
mod collect;
mod membership;
mod options;
mod ownership;
mod provider;
mod provider_client;

pub use applier::Processed;
pub use options::{ApplierOptions, CostOptions, MemberOptions, Properties, ProviderOptions};
pub use ownership::{APPLIER, ownership};
pub use provider::{Pending, PropertyProvider, ProviderInput, ProviderNeeds};

use applier::Switch;
use fleet_api::kinds::{InternalMemberCluster, Work};
use fleet_runtime::{Cache, ClusterId, Counters, Kind, Runtime};
use prometheus_client::registry::Registry;
use tokio::sync::watch;

/// Handles of the installed agent for probes, tests and simulations.
#[derive(Debug, Clone)]
pub struct Member {
    pub caches: Caches,
    /// Whether Works are applied: true from joining until leaving.
    pub applying: watch::Receiver<bool>,
    /// How often this member has joined and left.
    pub joins: Counters,
    /// How often Works were processed.
    pub processed: Processed,
}

impl Member {
    /// Registers the counters; under the member's name if one process serves many members.
    pub fn register(&self, registry: &mut Registry, name: Option<&str>) {
        let registry = match name {
            Some(name) => registry.sub_registry_with_label(("member".into(), name.to_owned().into())),
            None => registry,
        };
        self.joins.register(registry);
        self.processed.works.register(registry);
        self.processed.manifests.register(registry);
    }
}

/// The agent's caches of its namespace on the hub.
#[derive(Debug, Clone)]
pub struct Caches {
    pub internal_member_clusters: Cache<InternalMemberCluster>,
    /// With manifests, which the member reads.
    pub works: Cache<Work>,
}

/// Adds the agent's caches and controllers to a runtime whose main server is the hub. `member` is the member's own
/// server.
pub fn install(runtime: &mut Runtime, member: ClusterId, options: &MemberOptions) -> Member {
    let namespace = options.namespace.as_str();
    let caches = Caches {
        internal_member_clusters: runtime.cache(Kind::new().in_namespace(namespace)),
        works: runtime.cache(Kind::new().packed().in_namespace(namespace)),
    };
    let (applying, listener) = watch::channel(false);
    let processed = Processed::default();
    let applier = if options.applier.enabled {
        applier::start(runtime, member, options, &caches, applying, processed.clone())
    } else {
        Switch::idle(applying)
    };
    let joins = membership::start(runtime, member, options, &caches, applier);
    Member { caches, applying: listener, joins, processed }
}
