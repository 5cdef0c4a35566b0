//! The flags of the hub agent: names, defaults and bounds of the Go agent, except that nothing is installed by default. Flags
//! without effect and rejected combinations are listed here too.

use std::path::PathBuf;
use std::time::Duration;

use fleet_api::admission;
use fleet_api::admission::policies::PolicyConfig;
use fleet_api::admission::webhooks::Connection;
use fleet_api::well_known::{leases, namespaces};
use fleet_core::placement::{ApiList, Apis, Propagation, SnapshotIntervals};
use fleet_hub::HubOptions;
use fleet_hub::options::{
    DEFAULT_CONCURRENT_PLACEMENTS, DEFAULT_FLEET_SIZE, DEFAULT_FORCE_DELETE_WAIT, DEFAULT_STUCK_AFTER,
};
use fleet_runtime::{Election, Retry};
use jiff::SignedDuration;

use crate::agent::connect::{Limit, limit};
use crate::agent::election::election;
use crate::agent::flags::rows::{
    DAY, NO_PROFILES, SECOND, between, count, flag, no_effect, only, option, rate, rate_or_off, unsupported,
};
use crate::agent::flags::{Flag, Flags, Problem, Shape, shown};

/// The settings from the flags.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) hub: HubOptions,
    /// `None` without leader election.
    pub(super) election: Option<Election>,
    /// `None` without a rate limit.
    pub(super) limit: Option<Limit>,
    pub(super) retry: Retry,
    pub(super) probes: String,
    pub(super) metrics: String,
    pub(super) admission: Admission,
    /// `--enable-guard-rail` was given without `--enable-webhook`.
    guard_rail_has_no_effect: bool,
}

/// Admission checks beyond the validation of the CustomResourceDefinitions.
#[derive(Debug, Clone, Default)]
pub(super) struct Admission {
    /// `None` if webhooks are disabled.
    pub(super) webhooks: Option<Webhooks>,
    /// `None` if policies are not managed.
    pub(super) policies: Option<PolicyConfig>,
}

/// Settings of the webhook server.
#[derive(Debug, Clone)]
pub(super) struct Webhooks {
    pub(super) checks: admission::Settings,
    pub(super) address: String,
    /// The Service of the webhooks, and its namespace.
    pub(super) service: String,
    pub(super) namespace: String,
    pub(super) connection: Connection,
    /// Directory of cert-manager's files; `None` if the agent generates its certificate.
    pub(super) certificates: Option<PathBuf>,
    /// CA certificates of the API servers' client certificates; `None` if no certificate is required.
    pub(super) client_ca: Option<PathBuf>,
    /// The bearer token of the API servers; `None` if no token is accepted.
    pub(super) client_token: Option<PathBuf>,
}

/// Environment variables of the pod.
#[derive(Debug, Clone, Default)]
pub(super) struct Environment {
    pub(super) pod_namespace: Option<String>,
}

impl Environment {
    pub(super) fn of_process() -> Self {
        Self { pod_namespace: std::env::var(POD_NAMESPACE).ok().filter(|name| !name.is_empty()) }
    }
}

const POD_NAMESPACE: &str = "POD_NAMESPACE";
const EACH_FOR_ITSELF: &str = "each failed key has its own backoff";
const LEASE_IS_FREE: &str = "lease requests are not rate limited";

pub(super) const FLAGS: &[Flag] = &[
    flag("kubeconfig", "", Shape::Text, "Path to a kubeconfig; defaults to KUBECONFIG, then the pod's service account"),
    flag("leader-elect", "false", Shape::Bool, "Enable leader election, so that several replicas can run"),
    flag(
        "leader-lease-duration",
        "60s",
        between(SECOND, DAY),
        "How long non-leaders wait before they take over the lease",
    ),
    flag(
        "leader-renew-deadline",
        "45s",
        between(SECOND, DAY),
        "How long the leader retries to renew the lease before it gives up",
    ),
    flag("leader-retry-period", "5s", between(SECOND, DAY), "Interval between attempts to acquire or renew the lease"),
    option("leader-election-namespace", || namespaces::FLEET_SYSTEM.to_owned(), Shape::Text, "Namespace of the lease"),
    no_effect("leader-election-qps", "250", rate_or_off(10.0, 1000.0), LEASE_IS_FREE),
    no_effect("leader-election-burst", "1000", count(10, 2000), LEASE_IS_FREE),
    flag("health-probe-bind-address", ":8081", Shape::Text, "Address for /healthz and /readyz; 0 disables them"),
    flag("metrics-bind-address", ":8080", Shape::Text, "Address for /metrics; 0 disables it"),
    unsupported("enable-pprof", "false", Shape::Bool, NO_PROFILES),
    no_effect("pprof-port", "6065", count(1, 65_535), NO_PROFILES),
    flag("hub-api-qps", "250", rate(10.0, 10_000.0), "Requests per second to the API server; negative for no limit"),
    flag("hub-api-burst", "1000", count(10, 20_000), "Burst of requests to the API server"),
    no_effect(
        "resync-period",
        "6h",
        between(Duration::from_hours(1), Duration::from_hours(12)),
        "there is no periodic resync",
    ),
    flag(
        "enable-webhook",
        "false",
        Shape::Bool,
        "Serve admission webhooks and manage their configurations; requires POD_NAMESPACE",
    ),
    flag(
        "webhook-client-connection-type",
        "url",
        Shape::Checked(is_connection),
        "How the API server connects to the webhooks: url or service",
    ),
    flag("webhook-service-name", "fleetwebhook", Shape::Text, "Name of the Service of the webhooks"),
    flag(
        "webhook-bind-address",
        ":9443",
        Shape::Text,
        "Address of the webhook server; the port of the Service is 9443",
    ),
    flag(
        "webhook-cert-dir",
        "/tmp/k8s-webhook-server/serving-certs",
        Shape::Text,
        "Directory with tls.crt and tls.key from cert-manager",
    ),
    flag(
        "webhook-client-ca-file",
        "",
        Shape::Text,
        "File with the CA certificates for client certificates of the API server; empty requires none",
    ),
    flag(
        "webhook-client-token-file",
        "",
        Shape::Text,
        "File with the bearer token that the API server must send; with both flags, either credential is accepted",
    ),
    flag(
        "enable-guard-rail",
        "false",
        Shape::Bool,
        "Allow only administrators and service accounts to change the resources of the fleet",
    ),
    flag("whitelisted-users", "", Shape::Text, "Further users that the guard rail treats as administrators: USER,..."),
    flag(
        "deny-modify-member-cluster-labels",
        "false",
        Shape::Bool,
        "Allow only system:masters to change labels of platform-managed members",
    ),
    flag("enable-workload", "false", Shape::Bool, "Allow Pods on the hub; PersistentVolumeClaims are then not placed"),
    flag("enable-pdbs", "true", Shape::Bool, "Allow PodDisruptionBudgets on the hub"),
    flag(
        "use-cert-manager",
        "false",
        Shape::Bool,
        "Use a webhook certificate from cert-manager; requires --enable-workload",
    ),
    flag("enable-admission-policy-manager", "false", Shape::Bool, "Manage ValidatingAdmissionPolicies on the hub"),
    flag("admission-policy-manager-config", "", Shape::Text, "File that selects the policies; defaults to all"),
    only("enable-v1beta1-apis", "true", Shape::Bool, "v1beta1 is the only version"),
    option(
        "enable-cluster-inventory-apis",
        || HubOptions::default().cluster_inventory.to_string(),
        Shape::Bool,
        "Maintain a ClusterProfile for every member",
    ),
    option(
        "enable-staged-update-run-apis",
        || HubOptions::default().staged_runs.to_string(),
        Shape::Bool,
        "Run the controllers of staged update runs",
    ),
    option(
        "stuck-after",
        || shown(DEFAULT_STUCK_AFTER),
        between(SECOND, Duration::from_hours(24)),
        "How long a cluster of a staged update run may take before the run reports that it is stuck",
    ),
    option(
        "tolerate-strategy-changes",
        || HubOptions::default().tolerate_strategy_changes.to_string(),
        Shape::Bool,
        "Continue staged update runs when their strategy is deleted or becomes invalid",
    ),
    option(
        "enable-eviction-apis",
        || HubOptions::default().evictions.to_string(),
        Shape::Bool,
        "Run the eviction controller",
    ),
    option(
        "enable-resource-placement",
        || HubOptions::default().resource_placements.to_string(),
        Shape::Bool,
        "Run the controllers of ResourcePlacements",
    ),
    option(
        "networking-agents-enabled",
        || HubOptions::default().networking_agents.to_string(),
        Shape::Bool,
        "Wait for the networking agents when a member leaves",
    ),
    flag(
        "cluster-unhealthy-threshold",
        "60s",
        between(Duration::from_secs(30), Duration::from_hours(1)),
        "Age of a heartbeat after which a ClusterProfile reports an unhealthy control plane; defaults to at least two of the \
         member's heartbeat periods",
    ),
    option(
        "force-delete-wait-time",
        || shown(DEFAULT_FORCE_DELETE_WAIT),
        between(Duration::from_secs(30), Duration::from_hours(1)),
        "How long to wait for the agent of a leaving member before the member is deleted anyway",
    ),
    no_effect("work-pending-grace-period", "15s", Shape::Text, "not used, as in the Go agent"),
    flag(
        "skipped-propagating-apis",
        "",
        Shape::Checked(is_api_list),
        "Kinds that are never placed: GROUP[/VERSION[/KIND,...]];...",
    ),
    flag(
        "allowed-propagating-apis",
        "",
        Shape::Checked(is_api_list),
        "The only kinds that are placed; mutually exclusive with --skipped-propagating-apis",
    ),
    flag(
        "place-secrets",
        "true",
        Shape::Bool,
        "Allow placing Secrets; if false, the agent needs no permission to read them, and placements that select them are rejected",
    ),
    flag("skipped-propagating-namespaces", "", Shape::Text, "Namespaces that are never placed: NAME,... or NAME;..."),
    no_effect("concurrent-resource-change-syncs", "20", count(1, 100), "resource changes need no workers of their own"),
    option(
        "max-fleet-size",
        || DEFAULT_FLEET_SIZE.to_string(),
        count(30, 200),
        "Expected number of members; sizes the worker pools",
    ),
    option(
        "max-concurrent-cluster-placement",
        || DEFAULT_CONCURRENT_PLACEMENTS.to_string(),
        count(10, 200),
        "Expected number of placements that change at the same time; sizes the worker pools",
    ),
    flag(
        "rate-limiter-base-delay",
        "5ms",
        between(Duration::from_millis(1), Duration::from_millis(200)),
        "First delay before a failed reconcile is retried; doubles with each failure",
    ),
    flag(
        "rate-limiter-max-delay",
        "60s",
        between(SECOND, Duration::from_mins(5)),
        "Longest delay before a failed reconcile is retried",
    ),
    no_effect("rate-limiter-qps", "10", count(1, 1000), EACH_FOR_ITSELF),
    no_effect("rate-limiter-bucket-size", "100", count(1, 10_000), EACH_FOR_ITSELF),
    option(
        "resource-snapshot-creation-minimum-interval",
        || shown(SnapshotIntervals::default().minimum_interval.unsigned_abs()),
        between(Duration::ZERO, Duration::from_mins(5)),
        "Minimum time between two snapshots of a placement",
    ),
    option(
        "resource-changes-collection-duration",
        || shown(SnapshotIntervals::default().collection.unsigned_abs()),
        between(Duration::ZERO, Duration::from_mins(1)),
        "How long to collect changes before a snapshot is created",
    ),
];

impl Settings {
    /// The settings, or the contradictions between flags. Values are within their bounds already.
    pub(super) fn of(flags: &Flags, surroundings: &Environment) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let settings = Self {
            kubeconfig: Some(flags.text("kubeconfig")).filter(|path| !path.is_empty()).map(PathBuf::from),
            hub: HubOptions {
                snapshot_intervals: SnapshotIntervals {
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
            guard_rail_has_no_effect: flags.is_on("enable-guard-rail") && !flags.is_on("enable-webhook"),
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

    /// Warnings about valid but questionable settings.
    pub(super) fn warnings(&self) -> Vec<&'static str> {
        let of_its_own = self.admission.webhooks.as_ref().is_some_and(|webhooks| webhooks.certificates.is_none());
        let one_certificate = (of_its_own && self.election.is_some()).then_some(
            "the API server trusts only the certificate of the leader: run one replica, replaced by the \
             strategy Recreate, or several with --use-cert-manager",
        );
        let no_effect = "--enable-guard-rail has no effect without --enable-webhook";
        one_certificate.into_iter().chain(self.guard_rail_has_no_effect.then_some(no_effect)).collect()
    }
}

fn is_connection(text: &str) -> Result<(), String> {
    Connection::read(text).map(|_| ()).ok_or_else(|| "must be url or service".to_owned())
}

fn is_api_list(text: &str) -> Result<(), String> {
    ApiList::parse(text).map(|_| ()).map_err(|error| format!("is not a list of APIs: {error}"))
}

fn webhooks(flags: &Flags, surroundings: &Environment, problems: &mut Vec<Problem>) -> Option<Webhooks> {
    let text = |name: &str| flags.text(name).to_owned();
    let file = |name: &str| Some(flags.text(name)).filter(|path| !path.is_empty()).map(PathBuf::from);
    let by_cert_manager = flags.is_on("use-cert-manager");
    if by_cert_manager && !flags.is_on("enable-workload") {
        let what = "--use-cert-manager requires --enable-workload: cert-manager itself runs on the hub";
        problems.push(Problem::new(what));
    }
    if !flags.is_on("enable-webhook") {
        return None;
    }
    if text("webhook-service-name").is_empty() {
        problems.push(Problem::new("--webhook-service-name must not be empty with --enable-webhook"));
    }
    if surroundings.pod_namespace.is_none() {
        problems.push(Problem {
            what: format!("--enable-webhook requires the environment variable {POD_NAMESPACE}"),
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
        client_ca: file("webhook-client-ca-file"),
        client_token: file("webhook-client-token-file"),
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
    let problem =
        |error: String| problems.push(Problem::new(format!("--admission-policy-manager-config={path}: {error}")));
    config.map_err(problem).ok()
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// The trimmed entries of a list.
fn list(text: &str, separators: &[char]) -> impl Iterator<Item = String> {
    text.split(separators).map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned)
}

fn propagation(flags: &Flags, problems: &mut Vec<Problem>) -> Propagation {
    let apis = |name: &str| ApiList::parse(flags.text(name)).unwrap_or_default();
    let is_given = |name: &str| !flags.text(name).trim().is_empty();
    if is_given("skipped-propagating-apis") && is_given("allowed-propagating-apis") {
        let what = "--skipped-propagating-apis and --allowed-propagating-apis are mutually exclusive";
        problems.push(Problem::new(what));
    }
    Propagation {
        apis: if is_given("allowed-propagating-apis") {
            Apis::Only(apis("allowed-propagating-apis"))
        } else {
            Apis::AllBut(apis("skipped-propagating-apis"))
        },
        // The help of the Go agent says commas, but its code splits at semicolons.
        skipped_namespaces: list(flags.text("skipped-propagating-namespaces"), &[';', ',']).collect(),
        workloads_on_hub: flags.is_on("enable-workload"),
        secrets_stay: !flags.is_on("place-secrets"),
    }
}

#[cfg(test)]
mod tests;
