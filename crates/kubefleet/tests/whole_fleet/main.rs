//! Hub agent and three member agents as processes on four real kube-apiservers with their controller managers and one etcd,
//! RBAC on, every agent with just the rights of its chart, which are those of `config/rbac`, and those that it is granted on the
//! hub. The chapters share the fleet, because its start takes longer than they do: what the hub agent's webhooks refuse and fill in,
//! the guides' worked examples in both scopes, drift, the death of the hub agent, a member that leaves and comes back, and what the
//! hub takes while there is no agent. Ignored by default: an empty cache means building Kubernetes first.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../shared/admin.rs"]
#[allow(dead_code, reason = "shared with tests that ask for more")]
mod admin;
mod admission;
#[path = "../shared/agent.rs"]
#[allow(dead_code, reason = "shared with tests that ask for more")]
mod agent;
#[path = "../shared/chart.rs"]
#[allow(dead_code, reason = "shared with tests that ask for more")]
mod chart;
mod coming_back;
mod crashing;
mod drifting;
mod examples;
mod fleet;
mod guides;
mod kubelet;
#[path = "../shared/objects.rs"]
mod objects;
mod person;
mod servers;

use std::time::{Duration, Instant};

use examples::{CLUSTER_SCOPED, NAMESPACED};
use fleet::Fleet;

/// Changes are taken up at once. A run is stuck sooner than by default, but not before a person could have typed a command.
/// The hub's API server asks this agent before it stores something; workloads may run there, so that their pods can be seen not to
/// be placed. A lease is held, so that its rights are needed, but not for so long that its end takes a minute.
const FLAGS: [&str; 12] = [
    "--leader-elect",
    "--leader-lease-duration=15s",
    "--leader-renew-deadline=10s",
    "--leader-retry-period=2s",
    "--resource-snapshot-creation-minimum-interval=0s",
    "--resource-changes-collection-duration=0s",
    "--stuck-after=15s",
    "--enable-webhook",
    "--webhook-client-connection-type=service",
    "--enable-guard-rail",
    ENABLE_WORKLOAD,
    "--enable-pdbs=false",
];

const ENABLE_WORKLOAD: &str = "--enable-workload";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds Kubernetes from source when the cache is empty"]
async fn admission_the_guides_examples_drift_a_crash_and_a_leave_on_real_servers() {
    let told = Told::begin();
    let address = format!("--webhook-bind-address={}:9443", servers::webhook_host());
    let flags = [&FLAGS[..], &[&address]].concat();
    let mut fleet = Fleet::start(&flags).await;
    told.of("the fleet is together");
    admission::the_api_server_asks_before_it_stores(&fleet).await;
    told.of("admission was asked for");
    tokio::join!(guides::worked_example(&fleet, &CLUSTER_SCOPED), guides::worked_example(&fleet, &NAMESPACED));
    told.of("the worked examples are through");
    drifting::drift_is_seen_and_not_overwritten(&fleet).await;
    told.of("drift was seen");
    crashing::a_rollout_survives_the_death_of_the_hub_agent(&mut fleet, &flags).await;
    told.of("the hub agent died and came back");
    drifting::who_leaves_keeps_what_it_has_and_takes_up_what_changed_when_it_is_back(&fleet).await;
    told.of("a member has left, come back and left again");
    coming_back::a_lost_agent_is_not_needed_for_its_own_return(&mut fleet, &flags).await;
    told.of("the hub agent came back to a hub that asks for it");
    fleet.end().await;
}

/// Where the time goes, for who looks at the output.
struct Told(Instant);

impl Told {
    fn begin() -> Self {
        Self(Instant::now())
    }

    #[allow(clippy::print_stderr, reason = "shown only when asked for or when the test fails")]
    fn of(&self, what: &str) {
        let since = Duration::from_secs(self.0.elapsed().as_secs());
        eprintln!("{since:?}: {what}");
    }
}
