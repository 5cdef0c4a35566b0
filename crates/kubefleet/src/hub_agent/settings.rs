//! The hub agent's flags, and what they come to.
//!
//! Decides names, defaults and bounds (those of the Go agent), which flags mean nothing here, and which combinations are
//! refused. Never reads anything but the command line and the machine's name.

use std::path::PathBuf;
use std::time::Duration;

use fleet_api::well_known::leases;
use fleet_core::placement::{ApiList, Apis, Propagation, SnapshotPace};
use fleet_hub::HubOptions;
use fleet_runtime::{Election, Retry};
use jiff::SignedDuration;

use crate::agent::connect::{Limit, limit};
use crate::agent::election::election;
use crate::agent::flags::rows::{DAY, NO_PROFILES, SECOND, acts, between, count, idle, only, rate, rate_or_off};
use crate::agent::flags::{Flag, Flags, Problem, Refusal, Shape};

/// What the flags come to.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) hub: HubOptions,
    /// Absent where this process is the only one.
    pub(super) election: Option<Election>,
    /// Absent where requests are not limited.
    pub(super) limit: Option<Limit>,
    pub(super) retry: Retry,
    pub(super) probes: String,
    pub(super) metrics: String,
}

const NO_WEBHOOKS: &str = "this agent serves no admission webhooks";
const NO_POLICIES: &str = "this agent manages no admission policies";
const EACH_FOR_ITSELF: &str = "what failed waits by itself, not in line with what else failed";
const LEASE_IS_FREE: &str = "requests for the lease are never held back";

pub(super) const FLAGS: &[Flag] = &[
    acts("kubeconfig", "", Shape::Text, "Path of a kubeconfig; without it KUBECONFIG, then the pod's service account"),
    acts("leader-elect", "false", Shape::Bool, "Act only while holding a lease, so that several replicas can run"),
    acts("leader-lease-duration", "60s", between(SECOND, DAY), "How long a silent leader keeps the lease"),
    acts(
        "leader-renew-deadline",
        "45s",
        between(SECOND, DAY),
        "How long a leader tries to renew before it stops acting",
    ),
    acts("leader-retry-period", "5s", between(SECOND, DAY), "How often the lease is renewed and looked at"),
    acts("leader-election-namespace", "fleet-system", Shape::Text, "Namespace of the lease"),
    idle("leader-election-qps", "250", rate_or_off(10.0, 1000.0), LEASE_IS_FREE),
    idle("leader-election-burst", "1000", count(10, 2000), LEASE_IS_FREE),
    acts("health-probe-bind-address", ":8081", Shape::Text, "Where /healthz and /readyz are served; 0 turns them off"),
    acts("metrics-bind-address", ":8080", Shape::Text, "Where /metrics is served; 0 turns it off"),
    only("enable-pprof", "false", Shape::Bool, NO_PROFILES),
    idle("pprof-port", "6065", count(1, 65_535), NO_PROFILES),
    acts("hub-api-qps", "250", rate(10.0, 10_000.0), "Requests a second to the API server; negative for no limit"),
    acts("hub-api-burst", "1000", count(10, 20_000), "Requests at once to the API server after a rest"),
    idle(
        "resync-period",
        "6h",
        between(Duration::from_hours(1), Duration::from_hours(12)),
        "nothing is repeated by time",
    ),
    only("enable-webhook", "false", Shape::Bool, NO_WEBHOOKS),
    idle("webhook-client-connection-type", "url", Shape::Text, NO_WEBHOOKS),
    idle("webhook-service-name", "fleetwebhook", Shape::Text, NO_WEBHOOKS),
    only("enable-guard-rail", "false", Shape::Bool, NO_WEBHOOKS),
    idle("whitelisted-users", "", Shape::Text, NO_WEBHOOKS),
    only("deny-modify-member-cluster-labels", "false", Shape::Bool, NO_WEBHOOKS),
    acts("enable-workload", "false", Shape::Bool, "Workloads run on the hub; its volume claims are then not placed"),
    only("enable-pdbs", "true", Shape::Bool, NO_WEBHOOKS),
    only("use-cert-manager", "false", Shape::Bool, NO_WEBHOOKS),
    only("enable-admission-policy-manager", "false", Shape::Bool, NO_POLICIES),
    idle("admission-policy-manager-config", "", Shape::Text, NO_POLICIES),
    only("enable-v1beta1-apis", "true", Shape::Bool, "there is no other version"),
    acts("enable-cluster-inventory-apis", "true", Shape::Bool, "Keep a ClusterProfile for every member"),
    acts("enable-staged-update-run-apis", "true", Shape::Bool, "Carry out staged update runs"),
    acts(
        "stuck-after",
        "5m",
        between(SECOND, Duration::from_hours(24)),
        "How long a cluster of a staged update run may take before the run says that it is stuck",
    ),
    acts(
        "tolerate-strategy-changes",
        "false",
        Shape::Bool,
        "Staged update runs go on when their strategy is deleted, or edited into something invalid",
    ),
    acts("enable-eviction-apis", "true", Shape::Bool, "Carry out evictions of ClusterResourcePlacements"),
    acts("enable-resource-placement", "true", Shape::Bool, "Serve ResourcePlacements"),
    acts("networking-agents-enabled", "false", Shape::Bool, "Wait for the networking agents of members that leave"),
    acts(
        "cluster-unhealthy-threshold",
        "60s",
        between(Duration::from_secs(30), Duration::from_hours(1)),
        "How old a heartbeat may be before a ClusterProfile says that the control plane is not healthy",
    ),
    acts(
        "force-delete-wait-time",
        "15m",
        between(Duration::from_secs(30), Duration::from_hours(1)),
        "How long a leaving member's agent has to take back what it applied",
    ),
    idle("work-pending-grace-period", "15s", Shape::Text, "nothing depends on it, in the Go agent neither"),
    acts("skipped-propagating-apis", "", Shape::Text, "Kinds that stay on the hub: GROUP[/VERSION[/KIND,...]];..."),
    acts("allowed-propagating-apis", "", Shape::Text, "The only kinds that are placed; excludes the flag before"),
    acts("skipped-propagating-namespaces", "", Shape::Text, "Namespaces that stay on the hub: NAME;..."),
    idle("concurrent-resource-change-syncs", "20", count(1, 100), "changes of resources need no workers of their own"),
    acts("max-fleet-size", "100", count(30, 200), "Members that the hub is meant for; sizes pools of workers"),
    acts("max-concurrent-cluster-placement", "100", count(10, 200), "Placements that change together; sizes pools"),
    acts(
        "rate-limiter-base-delay",
        "5ms",
        between(Duration::from_millis(1), Duration::from_millis(200)),
        "How long what failed waits before it is tried again; twice as long each time",
    ),
    acts("rate-limiter-max-delay", "60s", between(SECOND, Duration::from_mins(5)), "How long it waits at most"),
    idle("rate-limiter-qps", "10", count(1, 1000), EACH_FOR_ITSELF),
    idle("rate-limiter-bucket-size", "100", count(1, 10_000), EACH_FOR_ITSELF),
    acts(
        "resource-snapshot-creation-minimum-interval",
        "30s",
        between(Duration::ZERO, Duration::from_mins(5)),
        "Shortest time between two snapshots of a placement",
    ),
    acts(
        "resource-changes-collection-duration",
        "15s",
        between(Duration::ZERO, Duration::from_mins(1)),
        "How long changes are collected before a snapshot",
    ),
];

impl Settings {
    /// What a command line comes to; every value is within its bounds already.
    pub(super) fn of(flags: &Flags) -> Result<Self, Refusal> {
        let mut problems = Vec::new();
        let settings = Self {
            kubeconfig: Some(flags.text("kubeconfig")).filter(|path| !path.is_empty()).map(PathBuf::from),
            hub: HubOptions {
                snapshot_pace: SnapshotPace {
                    minimum_interval: signed(flags.duration("resource-snapshot-creation-minimum-interval")),
                    collection: signed(flags.duration("resource-changes-collection-duration")),
                },
                propagation: propagation(flags, &mut problems),
                force_delete_wait: flags.duration("force-delete-wait-time"),
                unhealthy_after: flags.duration("cluster-unhealthy-threshold"),
                cluster_inventory: flags.is_on("enable-cluster-inventory-apis"),
                resource_placements: flags.is_on("enable-resource-placement"),
                evictions: flags.is_on("enable-eviction-apis"),
                staged_runs: flags.is_on("enable-staged-update-run-apis"),
                stuck_after: flags.duration("stuck-after"),
                tolerate_strategy_changes: flags.is_on("tolerate-strategy-changes"),
                networking_agents: flags.is_on("networking-agents-enabled"),
                fleet_size: flags.count("max-fleet-size"),
                concurrent_placements: flags.count("max-concurrent-cluster-placement"),
                ..HubOptions::default()
            },
            election: election(flags, leases::HUB, &mut problems),
            limit: limit(flags, "hub-api", &mut problems),
            retry: Retry {
                first: flags.duration("rate-limiter-base-delay"),
                longest: flags.duration("rate-limiter-max-delay"),
            },
            probes: flags.text("health-probe-bind-address").to_owned(),
            metrics: flags.text("metrics-bind-address").to_owned(),
        };
        limit(flags, "leader-election", &mut problems);
        if settings.retry.first >= settings.retry.longest {
            problems.push(Problem::new("--rate-limiter-base-delay must be shorter than --rate-limiter-max-delay"));
        }
        if flags.integer("rate-limiter-qps") > flags.integer("rate-limiter-bucket-size") {
            problems.push(Problem::new("--rate-limiter-qps must not exceed --rate-limiter-bucket-size"));
        }
        if problems.is_empty() { Ok(settings) } else { Err(Refusal::Problems(problems)) }
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

fn propagation(flags: &Flags, problems: &mut Vec<Problem>) -> Propagation {
    let mut list = |name: &str| {
        let parsed = ApiList::parse(flags.text(name));
        parsed.map_err(|error| problems.push(Problem::new(format!("--{name}: {error}")))).unwrap_or_default()
    };
    let (skipped, allowed) = (list("skipped-propagating-apis"), list("allowed-propagating-apis"));
    let both = !flags.text("skipped-propagating-apis").is_empty() && !flags.text("allowed-propagating-apis").is_empty();
    if both {
        let what = "--skipped-propagating-apis and --allowed-propagating-apis exclude each other";
        problems.push(Problem::new(what));
    }
    let only_allowed = !flags.text("allowed-propagating-apis").is_empty();
    let namespaces = flags.text("skipped-propagating-namespaces").split(';').map(str::trim);
    Propagation {
        apis: if only_allowed { Apis::Only(allowed) } else { Apis::AllBut(skipped) },
        skipped_namespaces: namespaces.filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        workloads_on_hub: flags.is_on("enable-workload"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::logging;

    fn settings(line: &str) -> Result<Settings, String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let flags = Flags::parse(&[FLAGS, logging::FLAGS], &arguments);
        flags.and_then(|flags| Settings::of(&flags)).map_err(|refusal| refusal.told())
    }

    #[test]
    fn without_flags_everything_is_as_the_options_default_to() {
        let settings = settings("").unwrap();
        assert_eq!(format!("{:?}", settings.hub), format!("{:?}", HubOptions::default()));
        assert_eq!(settings.limit, Some(Limit { rate: 250.0, burst: 1000.0 }));
        assert_eq!((settings.election, settings.kubeconfig), (None, None));
        assert_eq!((settings.probes, settings.metrics), (":8081".to_owned(), ":8080".to_owned()));
    }

    #[test]
    fn a_command_line_of_the_chart_is_understood() {
        let settings = settings(
            "--leader-elect=true --enable-webhook=false --enable-guard-rail=false --force-delete-wait-time=15m0s \
             --cluster-unhealthy-threshold=3m0s -add_dir_header --v=2 --hub-api-qps=-1 --hub-api-burst=1000 \
             --skipped-propagating-namespaces=a;b --enable-resource-placement=false --max-fleet-size=200",
        )
        .unwrap();
        let election = settings.election.unwrap();
        assert_eq!((election.namespace.as_str(), election.name.as_str()), ("fleet-system", leases::HUB));
        assert_eq!(election.timing.lease, Duration::from_mins(1));
        assert_eq!(settings.limit, None);
        assert!(!settings.hub.resource_placements && settings.hub.fleet_size == 200);
        assert_eq!(settings.hub.propagation.skipped_namespaces.len(), 2);
    }

    #[test]
    fn two_processes_are_never_the_same_candidate() {
        let identity = || settings("-leader-elect").unwrap().election.unwrap().identity;
        assert_ne!(identity(), identity());
    }

    #[test]
    fn values_that_do_not_fit_together_are_refused() {
        let refused = |line| settings(line).unwrap_err();
        assert_eq!(refused("--hub-api-qps=2000"), "--hub-api-burst (1000) must not be below --hub-api-qps (2000)");
        assert_eq!(
            refused("--leader-renew-deadline=60s"),
            "--leader-lease-duration (1m) must be longer than --leader-renew-deadline (1m), and that longer than 1.2 times \
             --leader-retry-period (5s)"
        );
        assert_eq!(
            refused("--skipped-propagating-apis=apps --allowed-propagating-apis=a/b/c/d"),
            "--allowed-propagating-apis: \"a/b/c/d\" names no API; it is GROUP, GROUP/VERSION, GROUP/VERSION/KIND[,KIND…] \
             or v1/KIND[,KIND…]\n--skipped-propagating-apis and --allowed-propagating-apis exclude each other"
        );
        assert_eq!(
            refused("--rate-limiter-base-delay=200ms --rate-limiter-max-delay=1s --rate-limiter-qps=200"),
            "--rate-limiter-qps must not exceed --rate-limiter-bucket-size"
        );
        assert_eq!(refused("--resync-period=1m"), "--resync-period=1m is not between 1h and 12h");
        assert_eq!(
            refused("--enable-webhook=true"),
            "--enable-webhook=true is not possible: this agent serves no admission webhooks"
        );
    }
}
