//! Tests of the hub agent's command line.

use super::*;
use crate::agent::flags::Refusal;
use crate::agent::logging;

fn settings(line: &str) -> Result<Settings, String> {
    settings_in(line, &Environment::default())
}

fn in_a_pod() -> Environment {
    Environment { pod_namespace: Some("fleet-system".to_owned()) }
}

fn flags(line: &str) -> Result<Flags, Refusal> {
    let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    Flags::parse(&[FLAGS, logging::FLAGS], &arguments)
}

fn settings_in(line: &str, surroundings: &Environment) -> Result<Settings, String> {
    let settings = flags(line).and_then(|flags| Settings::of(&flags, surroundings).map_err(Refusal::Problems));
    settings.map_err(|refusal| refusal.describe())
}

#[test]
fn without_flags_the_options_have_their_defaults() {
    let settings = settings("").unwrap();
    assert_eq!(format!("{:?}", settings.hub), format!("{:?}", HubOptions::default()));
    assert_eq!(settings.limit, Some(Limit { rate: 250.0, burst: 1000.0 }));
    assert_eq!((settings.election, settings.kubeconfig), (None, None));
    assert_eq!((settings.probes, settings.metrics), (":8081".to_owned(), ":8080".to_owned()));
    let Admission { webhooks, policies } = settings.admission;
    assert!(webhooks.is_none() && policies.is_none(), "nothing is installed unless it is asked for");
}

#[test]
fn values_of_the_chart_are_the_defaults_of_their_flags() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/hub-agent/values.yaml");
    let values = fleet_api::yaml::documents(&std::fs::read_to_string(path).unwrap()).unwrap().remove(0);
    // All others differ on purpose: the chart enables webhooks and logs more, as that of KubeFleet does.
    let line = [
        ("forceDeleteWaitTime", "force-delete-wait-time"),
        ("resourceSnapshotCreationMinimumInterval", "resource-snapshot-creation-minimum-interval"),
        ("resourceChangesCollectionDuration", "resource-changes-collection-duration"),
        ("placeSecrets", "place-secrets"),
        ("enableWorkload", "enable-workload"),
        ("enableClusterInventoryAPI", "enable-cluster-inventory-apis"),
        ("enableStagedUpdateRunAPIs", "enable-staged-update-run-apis"),
        ("enableEvictionAPIs", "enable-eviction-apis"),
        ("hubAPIQPS", "hub-api-qps"),
        ("hubAPIBurst", "hub-api-burst"),
        ("MaxConcurrentClusterPlacement", "max-concurrent-cluster-placement"),
        ("ConcurrentResourceChangeSyncs", "concurrent-resource-change-syncs"),
        ("MaxFleetSizeSupported", "max-fleet-size"),
        ("enableAdmissionPolicyManager", "enable-admission-policy-manager"),
    ]
    .map(|(value, flag)| {
        assert!(!values[value].is_null(), "{value}");
        format!("--{flag}={}", values[value].to_string().trim_matches('"'))
    })
    .join(" ");
    let (chart, default) = (settings(&line).unwrap(), settings("").unwrap());
    assert_eq!(format!("{:?}", chart.hub), format!("{:?}", default.hub));
    assert_eq!(
        (chart.limit, chart.admission.policies.is_some()),
        (default.limit, default.admission.policies.is_some())
    );
}

/// The flags of the chart with its default values.
const CHART: &str = "--leader-elect=true --enable-webhook=true --webhook-service-name=fleetwebhook --enable-guard-rail=true \
     --enable-workload=false --use-cert-manager=false --whitelisted-users=system:serviceaccount:fleet-system:hub-agent-sa \
     --webhook-client-connection-type=service --v=5 -add_dir_header --enable-v1beta1-apis=true \
     --enable-cluster-inventory-apis=true --enable-staged-update-run-apis=true --enable-eviction-apis=true \
     --enable-pprof=true --pprof-port=6065 --max-concurrent-cluster-placement=100 \
     --concurrent-resource-change-syncs=20 --log_file_max_size= --max-fleet-size=100 --hub-api-qps=250 \
     --hub-api-burst=1000 --force-delete-wait-time=15m0s --cluster-unhealthy-threshold=3m0s \
     --resource-snapshot-creation-minimum-interval=30s --resource-changes-collection-duration=15s \
     --enable-admission-policy-manager=false";

#[test]
fn the_command_line_of_the_chart_is_parsed() {
    let settings = settings_in(CHART, &in_a_pod()).unwrap();
    let webhooks = settings.admission.webhooks.unwrap();
    assert_eq!((webhooks.connection, webhooks.certificates), (Connection::Service, None));
    assert_eq!(webhooks.checks.whitelisted_users, ["system:serviceaccount:fleet-system:hub-agent-sa"]);
    assert!(webhooks.checks.enable_guard_rail && webhooks.checks.enable_pdbs && !webhooks.checks.enable_workload);
    let election = settings.election.unwrap();
    assert_eq!((election.namespace.as_str(), election.name.as_str()), ("fleet-system", leases::HUB));
    assert_eq!(election.timing.lease, Duration::from_mins(1));
    assert_eq!(settings.limit, Some(Limit { rate: 250.0, burst: 1000.0 }));
    assert_eq!((settings.hub.fleet_size, settings.hub.concurrent_placements), (100, 100));
    assert_eq!(settings.hub.unhealthy_after, Some(Duration::from_mins(3)));
    let flags = flags(CHART).unwrap();
    let unsupported: Vec<&str> = flags.unsupported.iter().map(|(name, _)| *name).collect();
    assert_eq!(unsupported, ["enable-pprof"], "accepted with a warning");
}

#[test]
fn lists_accept_commas_semicolons_and_spaces() {
    let arguments =
        ["--skipped-propagating-namespaces= a; b ,c,;", "--whitelisted-users= ann , bob", "--enable-webhook"];
    let flags = Flags::parse(&[FLAGS, logging::FLAGS], &arguments.map(str::to_owned)).unwrap();
    let settings = Settings::of(&flags, &in_a_pod()).unwrap();
    let skipped: Vec<String> = settings.hub.propagation.skipped_namespaces.into_iter().collect();
    assert_eq!(skipped, ["a", "b", "c"]);
    assert_eq!(settings.admission.webhooks.unwrap().checks.whitelisted_users, ["ann", "bob"]);
    let blank = ["--allowed-propagating-apis= ".to_owned()];
    let flags = Flags::parse(&[FLAGS, logging::FLAGS], &blank).unwrap();
    let apis = Settings::of(&flags, &in_a_pod()).unwrap().hub.propagation.apis;
    assert!(matches!(apis, Apis::AllBut(_)), "nothing is not everything that is allowed");
}

#[test]
fn a_self_signed_certificate_with_leader_election_is_a_warning() {
    let warning = |line| settings_in(line, &in_a_pod()).unwrap().warnings();
    assert!(warning("--enable-webhook --leader-elect")[0].contains("Recreate"));
    assert!(warning("--enable-webhook").is_empty());
    assert!(warning("--leader-elect").is_empty());
    assert!(warning("--enable-webhook --leader-elect --use-cert-manager --enable-workload").is_empty());
}

#[test]
fn two_processes_are_never_the_same_candidate() {
    let identity = || settings("-leader-elect").unwrap().election.unwrap().identity;
    assert_ne!(identity(), identity());
}

#[test]
fn contradictory_values_are_rejected() {
    let refused = |line| settings(line).unwrap_err();
    assert_eq!(refused("--hub-api-qps=2000"), "--hub-api-burst (1000) must not be below --hub-api-qps (2000)");
    assert_eq!(
        refused("--leader-renew-deadline=60s"),
        "--leader-lease-duration (1m) must be longer than --leader-renew-deadline (1m), and that longer than 1.2 times \
         --leader-retry-period (5s)"
    );
    assert_eq!(
        refused("--skipped-propagating-apis=apps --allowed-propagating-apis=v1/Secret"),
        "--skipped-propagating-apis and --allowed-propagating-apis are mutually exclusive"
    );
    assert_eq!(
        refused("--allowed-propagating-apis=a/b/c/d"),
        "--allowed-propagating-apis=a/b/c/d is not a list of APIs: \"a/b/c/d\" names no API; it is GROUP, GROUP/VERSION, \
         GROUP/VERSION/KIND[,KIND…] or v1/KIND[,KIND…]"
    );
    assert_eq!(
        refused("--rate-limiter-base-delay=200ms --rate-limiter-max-delay=1s --rate-limiter-qps=200"),
        "--rate-limiter-qps must not exceed --rate-limiter-bucket-size"
    );
    assert_eq!(refused("--resync-period=1m"), "--resync-period=1m is not between 1h and 12h");
}

#[test]
fn last_06_a_guard_rail_without_webhooks_is_a_warning() {
    let settings = settings("--enable-guard-rail=true").unwrap();
    assert!(settings.admission.webhooks.is_none());
    let warning = "--enable-guard-rail has no effect without --enable-webhook";
    assert_eq!(settings.warnings(), [warning]);
}

#[test]
fn webhooks_without_a_reachable_server_are_rejected() {
    let refused = |line| settings_in(line, &in_a_pod()).unwrap_err();
    assert_eq!(
        settings("--enable-webhook").unwrap_err(),
        "--enable-webhook requires the environment variable POD_NAMESPACE"
    );
    assert_eq!(
        refused("--enable-webhook --webhook-client-connection-type=mail"),
        "--webhook-client-connection-type=mail must be url or service"
    );
    assert_eq!(
        refused("--enable-webhook --webhook-service-name="),
        "--webhook-service-name must not be empty with --enable-webhook"
    );
    assert_eq!(
        refused("--use-cert-manager --enable-webhook"),
        "--use-cert-manager requires --enable-workload: cert-manager itself runs on the hub"
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
