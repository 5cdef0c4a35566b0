//! The member's agent: what runs beside a member's API server and speaks to the hub.
//!
//! Decides what of the hub is followed: the member's own namespace and nothing else. Never decides what is done: that is
//! `fleet-core`. Never spawns, reads a clock or holds a client: that is `fleet-runtime`.
//!
//! | file | what |
//! |---|---|
//! | `options` | what the agent's flags and environment set |
//! | `membership` | the shell of `fleet_core::membership::agent` |
//! | `applier/` | the shell of `fleet_core::apply`: Works become objects on the member |
//! | `provider` | what property providers are shown, and what they tell |
//! | `asking` | starting and asking a provider, with deadlines |
//! | `look` | asking the member's API server how its cluster is |
//! | `ownership` | which controller writes which field |

mod applier;
mod asking;
mod look;
mod membership;
mod options;
mod ownership;
mod provider;

pub use applier::Processed;
pub use options::{ApplierOptions, MemberOptions, Properties, ProviderOptions};
pub use ownership::ownership;
pub use provider::{Pending, PropertyProvider, Seen, Wants};

use applier::Switch;
use fleet_api::kinds::{InternalMemberCluster, Work};
use fleet_runtime::{Cache, Counters, Kind, Runtime, Side};
use prometheus_client::registry::Registry;
use tokio::sync::watch;

/// What is installed: handles for the work applier, probes, tests and simulations.
#[derive(Debug, Clone)]
pub struct Member {
    pub caches: Caches,
    /// Whether Works are to be applied: true from joining until leaving. Works of a member that has not joined, or that
    /// leaves, are left alone.
    pub applying: watch::Receiver<bool>,
    /// How often this member has joined and left.
    pub joins: Counters,
    /// How often Works were processed.
    pub processed: Processed,
}

impl Member {
    /// Lets a registry show what is counted; under the member's name where one process serves many.
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

/// What the agent holds of the hub: its own namespace.
#[derive(Debug, Clone)]
pub struct Caches {
    pub mailboxes: Cache<InternalMemberCluster>,
    /// With manifests: the member is who reads them.
    pub works: Cache<Work>,
}

/// Adds the agent's caches and controllers to a runtime whose main server is the hub. `member` is the member's own.
pub fn install(runtime: &mut Runtime, member: Side, options: &MemberOptions) -> Member {
    let namespace = options.namespace.as_str();
    let caches = Caches {
        mailboxes: runtime.cache(Kind::new().in_namespace(namespace)),
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
