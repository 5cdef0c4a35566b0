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
    idle("enable-pprof", "false", Shape::Bool, NO_PROFILES),
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
    acts("webhook-client-connection-type", "url", Shape::Text, "How the API server reaches webhooks: url or service"),
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
    pub(super) fn of(flags: &Flags, surroundings: &Surroundings) -> Result<Self, Refusal> {
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
        if problems.is_empty() { Ok(settings) } else { Err(Refusal::Problems(problems)) }
    }
}

fn webhooks(flags: &Flags, surroundings: &Surroundings, problems: &mut Vec<Problem>) -> Option<Webhooks> {
    let text = |name: &str| flags.text(name).to_owned();
    let connection = Connection::read(&text("webhook-client-connection-type"));
    if connection.is_none() {
        let given = text("webhook-client-connection-type");
        problems.push(Problem::new(format!("--webhook-client-connection-type={given} is neither url nor service")));
    }
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
    let users = text("whitelisted-users");
    Some(Webhooks {
        checks: admission::Settings {
            enable_webhook: true,
            enable_guard_rail: flags.is_on("enable-guard-rail"),
            whitelisted_users: users
                .split(',')
                .map(str::trim)
                .filter(|user| !user.is_empty())
                .map(Into::into)
                .collect(),
            deny_modify_member_cluster_labels: flags.is_on("deny-modify-member-cluster-labels"),
            enable_workload: flags.is_on("enable-workload"),
            enable_pdbs: flags.is_on("enable-pdbs"),
            networking_agents_enabled: flags.is_on("networking-agents-enabled"),
        },
        address: text("webhook-bind-address"),
        service: text("webhook-service-name"),
        namespace: surroundings.pod_namespace.clone().unwrap_or_default(),
        connection: connection.unwrap_or(Connection::Url),
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
        settings_in(line, &Surroundings::default())
    }

    fn in_a_pod() -> Surroundings {
        Surroundings { pod_namespace: Some("fleet-system".to_owned()) }
    }

    fn settings_in(line: &str, surroundings: &Surroundings) -> Result<Settings, String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let flags = Flags::parse(&[FLAGS, logging::FLAGS], &arguments);
        flags.and_then(|flags| Settings::of(&flags, surroundings)).map_err(|refusal| refusal.told())
    }

    #[test]
    fn without_flags_everything_is_as_the_options_default_to() {
        let settings = settings("").unwrap();
        assert_eq!(format!("{:?}", settings.hub), format!("{:?}", HubOptions::default()));
        assert_eq!(settings.limit, Some(Limit { rate: 250.0, burst: 1000.0 }));
        assert_eq!((settings.election, settings.kubeconfig), (None, None));
        assert_eq!((settings.probes, settings.metrics), (":8081".to_owned(), ":8080".to_owned()));
        let Admission { webhooks, policies } = settings.admission;
        assert!(webhooks.is_none() && policies.is_none(), "nothing is installed unless it is asked for");
    }

    #[test]
    fn a_command_line_of_the_chart_is_understood() {
        let settings = settings_in(
            "--leader-elect=true --enable-webhook=true --webhook-service-name=fleetwebhook --enable-guard-rail=true \
             --whitelisted-users=system:serviceaccount:fleet-system:hub-agent-sa --webhook-client-connection-type=service \
             --enable-workload=false --use-cert-manager=false --force-delete-wait-time=15m0s \
             --cluster-unhealthy-threshold=3m0s -add_dir_header --v=2 --hub-api-qps=-1 --hub-api-burst=1000 \
             --skipped-propagating-namespaces=a;b --enable-resource-placement=false --max-fleet-size=200",
            &in_a_pod(),
        )
        .unwrap();
        let webhooks = settings.admission.webhooks.unwrap();
        assert_eq!((webhooks.connection, webhooks.certificates), (Connection::Service, None));
        assert_eq!(webhooks.checks.whitelisted_users, ["system:serviceaccount:fleet-system:hub-agent-sa"]);
        assert!(webhooks.checks.enable_guard_rail && webhooks.checks.enable_pdbs);
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
    }

    #[test]
    fn admission_is_refused_where_nobody_could_be_asked() {
        let refused = |line| settings_in(line, &in_a_pod()).unwrap_err();
        assert_eq!(
            settings("--enable-webhook").unwrap_err(),
            "--enable-webhook needs the environment variable POD_NAMESPACE"
        );
        assert_eq!(
            refused("--enable-webhook --webhook-client-connection-type=mail --webhook-service-name="),
            "--webhook-client-connection-type=mail is neither url nor service\n--webhook-service-name must not be empty with \
             --enable-webhook"
        );
        assert_eq!(refused("--enable-guard-rail"), "--enable-guard-rail needs --enable-webhook");
        assert_eq!(
            refused("--use-cert-manager --enable-webhook"),
            "--use-cert-manager needs --enable-workload: cert-manager itself runs on the hub"
        );
        let by_cert_manager =
            settings_in("--enable-webhook --enable-workload --use-cert-manager --webhook-cert-dir=certs", &in_a_pod());
        let certificates = by_cert_manager.unwrap().admission.webhooks.unwrap().certificates;
        assert_eq!(certificates, Some(PathBuf::from("certs")));
    }

    #[test]
    fn policies_are_the_standard_ones_or_those_of_a_file() {
        let standard = settings("--enable-admission-policy-manager").unwrap().admission.policies;
        assert_eq!(standard, Some(PolicyConfig::standard()));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("policies.yaml");
        let line = format!("--enable-admission-policy-manager --admission-policy-manager-config={}", file.display());
        assert!(settings(&line).unwrap_err().starts_with("--admission-policy-manager-config="));
        std::fs::write(&file, "{}").unwrap();
        assert_eq!(settings(&line).unwrap().admission.policies, Some(PolicyConfig::default()));
    }
}
