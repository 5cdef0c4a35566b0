//! The controller of MemberClusters; `fleet_core::membership::hub` plans.
//!
//! While an object of a member cannot be read, nothing is done for that member: an unreadable object must not be
//! taken for a missing one.
//!
//! | file | what |
//! |---|---|
//! | `triggers` | maps events to members |
//! | `observe` | a member and its objects, from the caches |
//! | `execute` | turns a plan into API writes and events |

mod execute;
mod observe;
mod triggers;

use std::collections::BTreeMap;
use std::time::Duration;

use fleet_api::kinds::{MemberCluster, Work};
use fleet_api::names::{ClusterName, MemberNamespace, MemberRoleBindingName, MemberRoleName};
use fleet_api::well_known::metrics;
use fleet_core::membership::Counter;
use fleet_core::membership::hub::{Leaving, MemberOutcome, Settings, plan};
use fleet_runtime::{Actions, Cache, Controller, CounterName, Counters, PlanInput, Runtime, Triggers};
use jiff::SignedDuration;
use parking_lot::Mutex;

use crate::caches::{Caches, MemberResources};
use crate::names;
use crate::options::HubOptions;
use triggers::{member_with, on_member, on_work};

/// Starts the controller and returns the counters of joins and leaves.
pub(crate) fn start(runtime: &mut Runtime, options: &HubOptions, caches: &Caches) -> Counters {
    let counters = Counters::new([Counter::Joined, Counter::Left].map(counter_name));
    let membership = Membership {
        members: caches.members.clone(),
        member_resources: caches.member_resources.clone(),
        works: caches.works.clone(),
        settings: Settings {
            networking_agents: options.networking_agents,
            force_delete_after: signed(options.force_delete_wait),
        },
        counters: counters.clone(),
        uncounted: Mutex::default(),
    };
    let own = &caches.member_resources;
    let (members, namespaces) = (caches.members.clone(), own.namespaces.clone());
    let triggers = Triggers::new()
        .on(&caches.members, on_member)
        .on(&own.namespaces, |event| MemberNamespace::cluster_of(event.key().name()))
        .on(&own.roles, |event| member_with(&event.key(), |cluster| MemberRoleName(cluster).to_string()))
        .on(&own.role_bindings, |event| member_with(&event.key(), |cluster| MemberRoleBindingName(cluster).to_string()))
        .on(&own.internal_member_clusters, |event| member_with(&event.key(), |cluster| cluster.to_string()))
        .on(&caches.works, move |event| on_work(&members, &namespaces, event));
    runtime.controller(membership, triggers, options.member_workers());
    counters
}

fn counter_name(counter: Counter) -> CounterName {
    let help = match counter {
        Counter::Joined => "Members that have joined",
        Counter::Left => "Members that have left",
    };
    CounterName { name: counter.name(), help, label: (metrics::RESULT_LABEL, metrics::RESULT_SUCCESS) }
}

pub(crate) fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

struct Membership {
    members: Cache<MemberCluster>,
    member_resources: MemberResources,
    works: Cache<Work>,
    settings: Settings,
    counters: Counters,
    /// Counters to increment when the writes of the current plan have succeeded.
    uncounted: Mutex<BTreeMap<ClusterName, Counter>>,
}

impl Controller for Membership {
    const NAME: &'static str = names::MEMBERSHIP;
    type Key = ClusterName;
    type Facts = ();

    fn plan(&self, key: &ClusterName, _: Option<()>, input: PlanInput) -> Actions {
        self.uncounted.lock().remove(key);
        let observation = match self.observe(key) {
            Ok(Some(observation)) => observation,
            Ok(None) => return self.release_abandoned_namespace(key),
            Err(unreadable) => return Actions { note: Some(unreadable.to_string()), ..Actions::none() },
        };
        let plan = plan(&observation.facts(key, self.settings), input.now);
        if let MemberOutcome::Leaving(Leaving::AwaitingNamespace { since, stuck: true }) = plan.report.outcome {
            tracing::error!(member = %key, %since, "namespace of a leaving member does not terminate");
        }
        self.execute(key, &observation, plan)
    }

    fn on_committed(&self, key: &ClusterName) {
        if let Some(counter) = self.uncounted.lock().remove(key) {
            self.counters.count(counter.name());
        }
    }
}
