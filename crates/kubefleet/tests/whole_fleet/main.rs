//! Hub agent and three member agents as processes on four real kube-apiservers with controller managers and one etcd, with
//! RBAC and exactly the permissions of the charts. The parts share one fleet, because its start takes longer than they do.
//! Ignored by default: an empty cache means building Kubernetes first.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../shared/admin.rs"]
#[allow(dead_code, reason = "shared with tests that ask for more")]
mod admin;
mod admission;
#[path = "../shared/agent.rs"]
#[allow(dead_code, reason = "shared with tests that ask for more")]
mod agent;
mod agentless;
#[path = "../shared/chart.rs"]
#[allow(dead_code, reason = "shared with tests that ask for more")]
mod chart;
mod coming_back;
mod costs;
mod crashing;
mod drifting;
mod examples;
mod fleet;
mod guides;
mod kubelet;
#[path = "../shared/member_access.rs"]
mod member_access;
#[path = "../shared/objects.rs"]
mod objects;
mod servers;
mod settling;
mod user;

use std::time::{Duration, Instant};

use examples::{CLUSTER_SCOPED, NAMESPACED};
use fleet::Fleet;

/// Snapshots are created without delay, and runs are stuck sooner than by default. Webhooks are enabled, and workloads are allowed
/// on the hub to test that their Pods are not placed. Leader election is enabled to test its permissions, with a short lease.
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
    let timing = Timing::begin();
    let address = format!("--webhook-bind-address={}:9443", servers::webhook_host());
    let flags = [&FLAGS[..], &[&address]].concat();
    let mut fleet = Fleet::start(&flags).await;
    timing.log("the fleet has started");
    admission::the_api_server_calls_the_webhooks(&fleet).await;
    timing.log("admission was checked");
    costs::last_07_costs_follow_nodes_and_the_price_file(&fleet).await;
    timing.log("costs were reported");
    admission::audit_06_a_compromised_member_has_only_the_permissions_of_the_table(&fleet).await;
    timing.log("a compromised member was limited to the table");
    admission::audit_19_the_hub_agent_writes_only_namespaces_of_members(&fleet).await;
    timing.log("the hub agent was limited to namespaces of members");
    tokio::join!(guides::worked_example(&fleet, &CLUSTER_SCOPED), guides::worked_example(&fleet, &NAMESPACED));
    timing.log("the worked examples are done");
    agentless::last_01_last_05_a_member_without_an_agent_can_be_removed(&fleet).await;
    timing.log("a member without an agent was removed");
    settling::last_02_untrackable_resources_are_kept_for_the_unavailable_period(&fleet).await;
    timing.log("a custom resource was kept for its period");
    drifting::drift_is_seen_and_not_overwritten(&fleet).await;
    timing.log("drift was reported");
    crashing::a_rollout_survives_a_crash_of_the_hub_agent(&mut fleet, &flags).await;
    timing.log("the hub agent crashed and restarted");
    drifting::a_leaving_member_keeps_its_objects_and_catches_up_after_rejoining(&fleet).await;
    timing.log("a member left, rejoined and left again");
    coming_back::the_hub_agent_restarts_although_its_webhooks_are_registered(&mut fleet, &flags).await;
    timing.log("the hub agent restarted with registered webhooks");
    agentless::last_01_a_member_comes_back_after_its_predecessor_was_removed_without_a_hub_agent(&mut fleet, &flags)
        .await;
    timing.log("a member joined under the name of a removed one");
    fleet.end().await;
}

/// Logs the duration of the parts.
struct Timing(Instant);

impl Timing {
    fn begin() -> Self {
        Self(Instant::now())
    }

    #[allow(clippy::print_stderr, reason = "shown only when asked for or when the test fails")]
    fn log(&self, what: &str) {
        let since = Duration::from_secs(self.0.elapsed().as_secs());
        eprintln!("{since:?}: {what}");
    }
}
