//! The hub agent's flags, and what they come to.
//!
//! Decides names, defaults and bounds (those of the Go agent, but that nothing is installed unless it is asked for), which
//! flags mean nothing here, and which combinations are refused. Never reads anything but the command line, a file that it
//! names, and what the pod is told of itself.

use std::path::PathBuf;
use std::time::Duration;

use fleet_api::admission;
use fleet_api::admission::policies::PolicyConfig;
use fleet_api::admission::webhooks::Connection;
use fleet_api::well_known::leases;
use fleet_core::placement::{ApiList, Apis, Propagation, SnapshotPace};
use fleet_hub::HubOptions;
use fleet_runtime::{Election, Retry};
use jiff::SignedDuration;

use crate::agent::connect::{Limit, limit};
use crate::agent::election::election;
use crate::agent::flags::rows::{
    DAY, NO_PROFILES, SECOND, acts, between, count, idle, lacking, only, rate, rate_or_off,
};
use crate::agent::flags::{Flag, Flags, Problem, Shape};

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
    pub(super) admission: Admission,
}

/// What is refused on the hub beyond what the definitions of our kinds say.
#[derive(Debug, Clone, Default)]
pub(super) struct Admission {
    /// Absent where no webhooks are served.
    pub(super) webhooks: Option<Webhooks>,
    /// Absent where no policies are kept.
    pub(super) policies: Option<PolicyConfig>,
}

/// How webhooks are served.
#[derive(Debug, Clone)]
pub(super) struct Webhooks {
    pub(super) checks: admission::Settings,
    pub(super) address: String,
    /// The Service in front of this agent, and its namespace.
    pub(super) service: String,
    pub(super) namespace: String,
    pub(super) connection: Connection,
    /// Where cert-manager's files are; absent where the agent makes its own certificate.
    pub(super) certificates: Option<PathBuf>,
}

/// What the pod is told of itself.
#[derive(Debug, Clone, Default)]
pub(super) struct Surroundings {
    pub(super) pod_namespace: Option<String>,
}

impl Surroundings {
    pub(super) fn of_this_process() -> Self {
        Self { pod_namespace: std::env::var(POD_NAMESPACE).ok().filter(|name| !name.is_empty()) }
    }
}

const POD_NAMESPACE: &str = "POD_NAMESPACE";
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
    lacking("enable-pprof", "false", Shape::Bool, NO_PROFILES),
    idle("pprof-port", "6065", count(1, 65_535), NO_PROFILES),
    acts("hub-api-qps", "250", rate(10.0, 10_000.0), "Requests a second to the API server; negative for no limit"),
    acts("hub-api-burst", "1000", count(10, 20_000), "Requests at once to the API server after a rest"),
    idle(
        "resync-period",
        "6h",
        between(Duration::from_hours(1), Duration::from_hours(12)),
        "nothing is repeated by time",
    ),
    acts(
        "enable-webhook",
        "false",
        Shape::Bool,
        "Serve admission webhooks and keep their configurations; needs POD_NAMESPACE",
    ),
    acts(
        "webhook-client-connection-type",
        "url",
        Shape::Checked(is_connection),
        "How the API server reaches webhooks: url or service",
    ),
    acts("webhook-service-name", "fleetwebhook", Shape::Text, "The Service in front of this agent's webhooks"),
    acts("webhook-bind-address", ":9443", Shape::Text, "Where webhooks are served; the Service's port is 9443"),
    acts(
        "webhook-cert-dir",
        "/tmp/k8s-webhook-server/serving-certs",
        Shape::Text,
        "Where tls.crt and tls.key are that cert-manager keeps",
    ),
    acts(
        "enable-guard-rail",
        "false",
        Shape::Bool,
        "Let only administrators and service accounts touch the fleet's own",
    ),
    acts("whitelisted-users", "", Shape::Text, "Who else is an administrator for the guard rail: USER,..."),
    acts(
        "deny-modify-member-cluster-labels",
        "false",
        Shape::Bool,
        "Let nobody but system:masters change labels of platform-managed members",
    ),
    acts("enable-workload", "false", Shape::Bool, "Pods may run on the hub; its volume claims are then not placed"),
    acts("enable-pdbs", "true", Shape::Bool, "PodDisruptionBudgets may be created on the hub"),
    acts(
        "use-cert-manager",
        "false",
        Shape::Bool,
        "cert-manager keeps the webhooks' certificate; needs --enable-workload",
    ),
    acts("enable-admission-policy-manager", "false", Shape::Bool, "Keep validating admission policies on the hub"),
    acts("admission-policy-manager-config", "", Shape::Text, "File that says which policies, instead of all of them"),
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
        "How old a heartbeat may be before a ClusterProfile says that the control plane is not healthy; without the flag, at \
         least two of the member's heartbeat periods",
    ),
    acts(
        "force-delete-wait-time",
        "15m",
        between(Duration::from_secs(30), Duration::from_hours(1)),
        "How long a leaving member's agent has to take back what it applied",
    ),
    idle("work-pending-grace-period", "15s", Shape::Text, "nothing depends on it, in the Go agent neither"),
    acts(
        "skipped-propagating-apis",
        "",
        Shape::Checked(is_api_list),
        "Kinds that stay on the hub: GROUP[/VERSION[/KIND,...]];...",
    ),
    acts(
        "allowed-propagating-apis",
        "",
        Shape::Checked(is_api_list),
        "The only kinds that are placed; excludes the flag before",
    ),
    acts("skipped-propagating-namespaces", "", Shape::Text, "Namespaces that stay on the hub: NAME,... or NAME;..."),
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
    /// What a command line comes to, or how its flags contradict each other; every value is within its bounds already.
    pub(super) fn of(flags: &Flags, surroundings: &Surroundings) -> Result<Self, Vec<Problem>> {
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
                unhealthy_after: flags
                    .is_given("cluster-unhealthy-threshold")
                    .then(|| flags.duration("cluster-unhealthy-threshold")),
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
            admission: Admission {
                webhooks: webhooks(flags, surroundings, &mut problems),
                policies: policies(flags, &mut problems),
            },
        };
        limit(flags, "leader-election", &mut problems);
        if settings.retry.first >= settings.retry.longest {
            problems.push(Problem::new("--rate-limiter-base-delay must be shorter than --rate-limiter-max-delay"));
        }
        if flags.integer("rate-limiter-qps") > flags.integer("rate-limiter-bucket-size") {
            problems.push(Problem::new("--rate-limiter-qps must not exceed --rate-limiter-bucket-size"));
        }
        if problems.is_empty() { Ok(settings) } else { Err(problems) }
    }

    /// What is possible and hardly meant.
    pub(super) fn doubt(&self) -> Option<&'static str> {
        let of_its_own = self.admission.webhooks.as_ref().is_some_and(|webhooks| webhooks.certificates.is_none());
        (of_its_own && self.election.is_some()).then_some(
            "only the replica that leads has the certificate that the API server trusts: run one replica, replaced by the \
             strategy Recreate, or several with --use-cert-manager",
        )
    }
}

fn is_connection(text: &str) -> Result<(), String> {
    Connection::read(text).map(|_| ()).ok_or_else(|| "is neither url nor service".to_owned())
}

fn is_api_list(text: &str) -> Result<(), String> {
    ApiList::parse(text).map(|_| ()).map_err(|error| format!("is no list of APIs: {error}"))
}

fn webhooks(flags: &Flags, surroundings: &Surroundings, problems: &mut Vec<Problem>) -> Option<Webhooks> {
    let text = |name: &str| flags.text(name).to_owned();
    let by_cert_manager = flags.is_on("use-cert-manager");
    if by_cert_manager && !flags.is_on("enable-workload") {
        let what = "--use-cert-manager needs --enable-workload: cert-manager itself runs on the hub";
        problems.push(Problem::new(what));
    }
    if !flags.is_on("enable-webhook") {
        if flags.is_on("enable-guard-rail") {
            problems.push(Problem::new("--enable-guard-rail needs --enable-webhook"));
        }
        return None;
    }
    if text("webhook-service-name").is_empty() {
        problems.push(Problem::new("--webhook-service-name must not be empty with --enable-webhook"));
    }
    if surroundings.pod_namespace.is_none() {
        problems.push(Problem {
            what: format!("--enable-webhook needs the environment variable {POD_NAMESPACE}"),
            hint: Some("set it to the namespace of the webhooks' Service, usually fleet-system".to_owned()),
        });
    }
    Some(Webhooks {
        checks: admission::Settings {
            enable_webhook: true,
            enable_guard_rail: flags.is_on("enable-guard-rail"),
            whitelisted_users: list(flags.text("whitelisted-users"), &[',']).collect(),
            deny_modify_member_cluster_labels: flags.is_on("deny-modify-member-cluster-labels"),
            enable_workload: flags.is_on("enable-workload"),
            enable_pdbs: flags.is_on("enable-pdbs"),
            networking_agents_enabled: flags.is_on("networking-agents-enabled"),
        },
        address: text("webhook-bind-address"),
        service: text("webhook-service-name"),
        namespace: surroundings.pod_namespace.clone().unwrap_or_default(),
        connection: Connection::read(flags.text("webhook-client-connection-type")).unwrap_or(Connection::Url),
        certificates: by_cert_manager.then(|| PathBuf::from(flags.text("webhook-cert-dir"))),
    })
}

fn policies(flags: &Flags, problems: &mut Vec<Problem>) -> Option<PolicyConfig> {
    if !flags.is_on("enable-admission-policy-manager") {
        return None;
    }
    let path = flags.text("admission-policy-manager-config");
    if path.is_empty() {
        return Some(PolicyConfig::standard());
    }
    let read = std::fs::read_to_string(path).map_err(|error| error.to_string());
    let config = read.and_then(|text| PolicyConfig::read(&text).map_err(|error| error.to_string()));
    let told =
        |error: String| problems.push(Problem::new(format!("--admission-policy-manager-config={path}: {error}")));
    config.map_err(told).ok()
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// The entries of a list, without blanks around them.
fn list(text: &str, separators: &[char]) -> impl Iterator<Item = String> {
    text.split(separators).map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned)
}

fn propagation(flags: &Flags, problems: &mut Vec<Problem>) -> Propagation {
    let apis = |name: &str| ApiList::parse(flags.text(name)).unwrap_or_default();
    let is_given = |name: &str| !flags.text(name).trim().is_empty();
    if is_given("skipped-propagating-apis") && is_given("allowed-propagating-apis") {
        let what = "--skipped-propagating-apis and --allowed-propagating-apis exclude each other";
        problems.push(Problem::new(what));
    }
    Propagation {
        apis: if is_given("allowed-propagating-apis") {
            Apis::Only(apis("allowed-propagating-apis"))
        } else {
            Apis::AllBut(apis("skipped-propagating-apis"))
        },
        // The Go agent's help says commas, and its code wants the other.
        skipped_namespaces: list(flags.text("skipped-propagating-namespaces"), &[';', ',']).collect(),
        workloads_on_hub: flags.is_on("enable-workload"),
    }
}

#[cfg(test)]
mod tests;
