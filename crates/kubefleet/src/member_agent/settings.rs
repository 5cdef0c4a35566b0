//! The flags of the member agent: names, defaults and bounds of the Go agent, flags without effect, and rejected combinations.
//! Environment variables are in `environment`.

use std::path::PathBuf;
use std::str::FromStr;

use fleet_api::well_known::leases;
use fleet_core::apply::availability::Tracking;
use fleet_core::apply::budget;
use fleet_core::apply::finalize::STUCK_AFTER;
use fleet_core::apply::policy::{BadEntry, KindPattern, List, NamespacePattern, Policy, ProtectedObject};
use fleet_core::apply::priority::PriorityDecay;
use fleet_core::apply::requeue::RequeueBackoff;
use fleet_member::{ApplierOptions, CostOptions, Properties, ProviderOptions};
use fleet_runtime::Election;
use fleet_runtime::leader::{LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD};
use jiff::SignedDuration;

use crate::agent::connect::{Limit, limit};
use crate::agent::election::election;
use crate::agent::flags::rows::{
    DAY, NO_PROFILES, SECOND, between, count, flag, no_effect, number, option, rate, unsupported,
};
use crate::agent::flags::{Flag, Flags, Problem, Refusal, Shape, shown};

/// The settings from the flags.
#[derive(Debug)]
pub(super) struct Settings {
    /// Kubeconfig of the member; `None` for `KUBECONFIG` or the pod.
    pub(super) kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the hub; `None` for the environment variables.
    pub(super) hub_kubeconfig: Option<PathBuf>,
    /// Directory with one kubeconfig per member; `None` for a single member.
    pub(super) members: Option<PathBuf>,
    pub(super) use_ca_auth: bool,
    pub(super) tls_insecure: bool,
    pub(super) properties: Properties,
    pub(super) applier: ApplierOptions,
    /// `None` without leader election.
    pub(super) election: Option<Election>,
    pub(super) hub_limit: Option<Limit>,
    pub(super) member_limit: Option<Limit>,
    pub(super) hub_addresses: Addresses,
    pub(super) addresses: Addresses,
}

/// Addresses of probes and metrics. The Go agent has two managers and so two of each; here both serve the same content.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) probes: String,
    pub(super) metrics: String,
}

const NO_CLOUD: &str = "prices come from --price-file, not from the cloud";
const PACE: &str = "work-applier-requeue-rate-limiter-";

pub(super) const FLAGS: &[Flag] = &[
    flag(
        "kubeconfig",
        "",
        Shape::Text,
        "Path to the member's kubeconfig; defaults to KUBECONFIG, then the pod's service account",
    ),
    flag(
        "hub-kubeconfig",
        "",
        Shape::Text,
        "Path to the hub's kubeconfig, instead of HUB_SERVER_URL and the related variables",
    ),
    flag(
        "members-kubeconfigs",
        "",
        Shape::Text,
        "Directory with one kubeconfig per member, named MEMBER or MEMBER.kubeconfig, to serve many members; MEMBER.token \
         contains the token of that member for the hub",
    ),
    flag(
        "use-ca-auth",
        "false",
        Shape::Bool,
        "Use a client certificate (IDENTITY_KEY, IDENTITY_CERT) instead of a token for the hub",
    ),
    flag("tls-insecure", "false", Shape::Bool, "Do not verify the hub's certificate"),
    flag("hub-health-probe-bind-address", ":8081", Shape::Text, "Address for /healthz and /readyz; 0 disables them"),
    flag("hub-metrics-bind-address", ":8080", Shape::Text, "Address for /metrics; 0 disables it"),
    flag("hub-api-qps", "50", rate(10.0, 1000.0), "Requests per second to the hub; negative for no limit"),
    flag("hub-api-burst", "500", count(10, 2000), "Burst of requests to the hub"),
    flag("health-probe-bind-address", ":8091", Shape::Text, "Second address for /healthz and /readyz; 0 disables it"),
    flag("metrics-bind-address", ":8090", Shape::Text, "Second address for /metrics; 0 disables it"),
    flag("member-api-qps", "250", rate(10.0, 10_000.0), "Requests per second to the member; negative for no limit"),
    flag("member-api-burst", "1000", count(10, 20_000), "Burst of requests to the member"),
    unsupported("enable-pprof", "false", Shape::Bool, NO_PROFILES),
    no_effect("pprof-port", "6065", count(1, 65_535), NO_PROFILES),
    no_effect("hub-pprof-port", "6066", count(1, 65_535), NO_PROFILES),
    flag("leader-elect", "false", Shape::Bool, "Enable leader election on the member"),
    option(
        "leader-lease-duration",
        || shown(LEASE_DURATION),
        between(SECOND, DAY),
        "How long non-leaders wait before they take over the lease",
    ),
    option(
        "leader-renew-deadline",
        || shown(RENEW_DEADLINE),
        between(SECOND, DAY),
        "How long the leader retries to renew the lease before it gives up",
    ),
    option(
        "leader-retry-period",
        || shown(RETRY_PERIOD),
        between(SECOND, DAY),
        "Interval between attempts to acquire or renew the lease",
    ),
    flag("leader-election-namespace", "kube-system", Shape::Text, "Namespace of the lease on the member cluster"),
    option(
        "deletion-wait-time",
        || STUCK_AFTER.as_mins().to_string(),
        count(1, 60),
        "Minutes after which objects with other owners no longer block the deletion of an AppliedWork",
    ),
    flag(
        "enable-work-applier-priority-queue",
        "false",
        Shape::Bool,
        "Process changed Works that were healthy after others; older ones last",
    ),
    option(
        "work-applier-priority-linear-equation-coeff-a",
        || PriorityDecay::default().slope.to_string(),
        count(-100, -1),
        "Priority of a healthy Work: change per minute of its age",
    ),
    option(
        "work-applier-priority-linear-equation-coeff-b",
        || PriorityDecay::default().start.to_string(),
        count(1, 1000),
        "Priority of a healthy Work at age 0; capped at 100",
    ),
    option(
        "work-applier-requeue-rate-limiter-attempts-with-fixed-delay",
        || RequeueBackoff::default().attempts_with_fixed_delay.to_string(),
        count(1, 40),
        "Number of requeues of a Work with the fixed delay",
    ),
    option(
        "work-applier-requeue-rate-limiter-fixed-delay-seconds",
        || RequeueBackoff::default().fixed_seconds.to_string(),
        number(2.0, 300.0),
        "Fixed delay of the first requeues, in seconds",
    ),
    option(
        "work-applier-requeue-rate-limiter-exponential-base-for-slow-backoff",
        || RequeueBackoff::default().slow_base.to_string(),
        number(1.05, 2.0),
        "Growth factor of the delay in the slow backoff phase",
    ),
    option(
        "work-applier-requeue-rate-limiter-initial-slow-backoff-delay-seconds",
        || RequeueBackoff::default().initial_slow_seconds.to_string(),
        number(2.0, LONGEST_DELAY),
        "First delay of the slow backoff phase, in seconds",
    ),
    option(
        "work-applier-requeue-rate-limiter-max-slow-backoff-delay-seconds",
        || RequeueBackoff::default().longest_slow_seconds.to_string(),
        number(2.0, LONGEST_DELAY),
        "Longest delay of the slow backoff phase, in seconds",
    ),
    option(
        "work-applier-requeue-rate-limiter-exponential-base-for-fast-backoff",
        || RequeueBackoff::default().fast_base.to_string(),
        number(ABOVE_ONE, 2.0),
        "Growth factor of the delay in the fast backoff phase",
    ),
    option(
        "work-applier-requeue-rate-limiter-max-fast-backoff-delay-seconds",
        || RequeueBackoff::default().longest_seconds.to_string(),
        number(ABOVE_ZERO, LONGEST_DELAY),
        "Longest delay of the fast backoff phase, in seconds",
    ),
    option(
        "work-applier-requeue-rate-limiter-skip-to-fast-backoff-for-available-or-diff-reported-work-objs",
        || RequeueBackoff::default().skip_to_fast_when_settled.to_string(),
        Shape::Bool,
        "Skip the slow backoff phase once a Work is available or its diff is reported",
    ),
    option(
        "deletions-per-minute",
        || budget::Limit::default().objects.to_string(),
        count(1, 1_000_000),
        "Maximum number of placed objects that are deleted per minute",
    ),
    option(
        "deletions-per-minute-percent",
        || budget::Limit::default().percent.to_string(),
        count(1, 100),
        "The same limit in percent of all placed objects; the larger limit applies",
    ),
    flag(
        "allowed-namespaces",
        "",
        NAMESPACES,
        "Comma-separated namespaces that the hub may place objects in; NAME* matches a prefix, empty matches all",
    ),
    flag(
        "denied-namespaces",
        Policy::DENIED_NAMESPACES,
        NAMESPACES,
        "Comma-separated namespaces that the hub may not place objects in; overrides --allowed-namespaces",
    ),
    flag(
        "allowed-kinds",
        "",
        KINDS,
        "Comma-separated kinds that the hub may place, as KIND, KIND.GROUP or *.GROUP; empty matches all",
    ),
    flag("denied-kinds", "", KINDS, "Comma-separated kinds that the hub may not place; overrides --allowed-kinds"),
    flag(
        "protected-objects",
        Policy::PROTECTED_OBJECTS,
        Shape::Checked(checked::<ProtectedObject>),
        "Comma-separated objects that the hub may not place, as KIND/NAME or KIND/NAMESPACE/NAME; AppliedWorks and their CRD \
         are always protected",
    ),
    flag(
        "track-jobs-and-ingresses",
        "false",
        Shape::Bool,
        "Consider Jobs and Ingresses available only when they are complete",
    ),
    flag("property-provider", "none", Shape::Text, "Property provider: azure or none"),
    flag("region", "", Shape::Text, "Region of the prices; defaults to the region of the first node that has one"),
    no_effect("cloud-config", "/etc/kubernetes/provider/config.json", Shape::Text, NO_CLOUD),
    flag(
        "use-cost-properties-in-azure-provider",
        "true",
        Shape::Bool,
        "Report the cost per core and per gigabyte, computed from --price-file",
    ),
    flag("price-file", "", Shape::Text, "File with hourly machine prices by region and size, in YAML or JSON"),
    option(
        "use-available-res-properties-in-azure-provider",
        || ProviderOptions::default().available_resources.to_string(),
        Shape::Bool,
        "Report available resources, computed from all Pods",
    ),
    option(
        "enable-namespace-collection-in-property-provider",
        || ProviderOptions::default().namespaces.to_string(),
        Shape::Bool,
        "Report the namespaces of the member",
    ),
    no_effect("enable-v1beta1-apis", "true", Shape::Bool, "v1beta1 is the only version"),
];

const NAMESPACES: Shape = Shape::Checked(checked::<NamespacePattern>);
const KINDS: Shape = Shape::Checked(checked::<KindPattern>);

/// Validates the entries of a list.
fn checked<T: FromStr<Err = BadEntry>>(text: &str) -> Result<(), String> {
    text.parse::<List<T>>().map(drop).map_err(|error| format!("cannot be used: {error}"))
}

/// One hour, in seconds.
const LONGEST_DELAY: f64 = 3600.0;
/// The delay must grow.
const ABOVE_ONE: f64 = 1.0 + f64::EPSILON;
const ABOVE_ZERO: f64 = f64::MIN_POSITIVE;

impl Settings {
    /// The settings. Values are within their bounds already.
    pub(super) fn of(flags: &Flags) -> Result<Self, Refusal> {
        let mut problems = Vec::new();
        let path = |name: &str| Some(flags.text(name)).filter(|path| !path.is_empty()).map(PathBuf::from);
        let settings = Self {
            kubeconfig: path("kubeconfig"),
            hub_kubeconfig: path("hub-kubeconfig"),
            members: path("members-kubeconfigs"),
            use_ca_auth: flags.is_on("use-ca-auth"),
            tls_insecure: flags.is_on("tls-insecure"),
            properties: properties(flags),
            applier: applier(flags, &mut problems),
            election: election(flags, leases::MEMBER, &mut problems),
            hub_limit: limit(flags, "hub-api", &mut problems),
            member_limit: limit(flags, "member-api", &mut problems),
            hub_addresses: addresses(flags, "hub-"),
            addresses: addresses(flags, ""),
        };
        if settings.members.is_some() && settings.kubeconfig.is_some() {
            problems.push(Problem::new("--members-kubeconfigs and --kubeconfig are mutually exclusive"));
        }
        if settings.members.is_some() && settings.election.is_some() {
            let what = "--members-kubeconfigs and --leader-elect are mutually exclusive: the lease is on one member";
            problems.push(Problem::new(what));
        }
        if problems.is_empty() { Ok(settings) } else { Err(Refusal::Problems(problems)) }
    }
}

fn properties(flags: &Flags) -> Properties {
    if flags.text("property-provider") != "azure" {
        return Properties::BuiltIn;
    }
    Properties::Provider(ProviderOptions {
        available_resources: flags.is_on("use-available-res-properties-in-azure-provider"),
        namespaces: flags.is_on("enable-namespace-collection-in-property-provider"),
        certificate_authority: None,
        costs: flags.is_on("use-cost-properties-in-azure-provider").then(|| CostOptions {
            price_file: Some(flags.text("price-file")).filter(|path| !path.is_empty()).map(PathBuf::from),
            region: flags.text("region").to_owned(),
        }),
    })
}

fn applier(flags: &Flags, problems: &mut Vec<Problem>) -> ApplierOptions {
    let number = |name: &str| flags.number(&format!("{PACE}{name}"));
    let backoff = RequeueBackoff {
        attempts_with_fixed_delay: u32::try_from(flags.integer(&format!("{PACE}attempts-with-fixed-delay")))
            .unwrap_or(1),
        fixed_seconds: number("fixed-delay-seconds"),
        initial_slow_seconds: number("initial-slow-backoff-delay-seconds"),
        slow_base: number("exponential-base-for-slow-backoff"),
        longest_slow_seconds: number("max-slow-backoff-delay-seconds"),
        fast_base: number("exponential-base-for-fast-backoff"),
        longest_seconds: number("max-fast-backoff-delay-seconds"),
        skip_to_fast_when_settled: flags
            .is_on(&format!("{PACE}skip-to-fast-backoff-for-available-or-diff-reported-work-objs")),
    };
    let mut in_order = |lower: (&str, f64), upper: (&str, f64)| {
        if lower.1 > upper.1 {
            let what = format!("--{PACE}{} ({}) must not exceed --{PACE}{} ({})", lower.0, lower.1, upper.0, upper.1);
            problems.push(Problem::new(what));
        }
    };
    in_order(
        ("initial-slow-backoff-delay-seconds", backoff.initial_slow_seconds),
        ("max-slow-backoff-delay-seconds", backoff.longest_slow_seconds),
    );
    in_order(
        ("max-slow-backoff-delay-seconds", backoff.longest_slow_seconds),
        ("max-fast-backoff-delay-seconds", backoff.longest_seconds),
    );
    in_order(
        ("exponential-base-for-slow-backoff", backoff.slow_base),
        ("exponential-base-for-fast-backoff", backoff.fast_base),
    );
    let factor = |name: &str| {
        let name = format!("work-applier-priority-linear-equation-coeff-{name}");
        i32::try_from(flags.integer(&name)).unwrap_or_default()
    };
    let priority_decay = PriorityDecay { slope: factor("a"), start: factor("b") };
    ApplierOptions {
        requeue_backoff: backoff,
        priority_decay: flags.is_on("enable-work-applier-priority-queue").then_some(priority_decay),
        stuck_after: SignedDuration::from_mins(flags.integer("deletion-wait-time")),
        deletions: budget::Limit {
            objects: flags.count("deletions-per-minute"),
            percent: flags.count("deletions-per-minute-percent"),
        },
        tracking: if flags.is_on("track-jobs-and-ingresses") { Tracking::Extended } else { Tracking::Reference },
        policy: policy(flags),
        ..ApplierOptions::default()
    }
}

/// Invalid entries were rejected when the flags were parsed.
fn policy(flags: &Flags) -> Policy {
    fn list<T: FromStr<Err = BadEntry>>(flags: &Flags, name: &str) -> List<T> {
        flags.text(name).parse().unwrap_or_default()
    }
    Policy {
        allowed_namespaces: list(flags, "allowed-namespaces"),
        denied_namespaces: list(flags, "denied-namespaces"),
        allowed_kinds: list(flags, "allowed-kinds"),
        denied_kinds: list(flags, "denied-kinds"),
        protected_objects: list(flags, "protected-objects"),
    }
}

/// An empty probe address disables probes; an empty metrics address is the default of controller-runtime.
fn addresses(flags: &Flags, whose: &str) -> Addresses {
    let text = |name: &str| flags.text(&format!("{whose}{name}-bind-address")).to_owned();
    let metrics = text("metrics");
    Addresses { probes: text("health-probe"), metrics: if metrics.is_empty() { ":8080".to_owned() } else { metrics } }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::agent::logging;

    fn settings(line: &str) -> Result<Settings, String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let flags = Flags::parse(&[FLAGS, logging::FLAGS], &arguments);
        flags.and_then(|flags| Settings::of(&flags)).map_err(|refusal| refusal.describe())
    }

    #[test]
    fn without_flags_the_options_have_their_defaults() {
        let settings = settings("").unwrap();
        assert_eq!(settings.applier, ApplierOptions::default());
        assert!(matches!(settings.properties, Properties::BuiltIn));
        assert_eq!(settings.hub_limit, Some(Limit { rate: 50.0, burst: 500.0 }));
        assert_eq!(settings.member_limit, Some(Limit { rate: 250.0, burst: 1000.0 }));
        let addresses =
            |probes: &str, metrics: &str| Addresses { probes: probes.to_owned(), metrics: metrics.to_owned() };
        assert_eq!(settings.hub_addresses, addresses(":8081", ":8080"));
        assert_eq!(settings.addresses, addresses(":8091", ":8090"));
        assert_eq!((settings.election, settings.kubeconfig, settings.members), (None, None, None));
    }

    #[test]
    fn values_of_the_chart_are_the_defaults_of_their_flags() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/member-agent/values.yaml");
        // Values of the requeue backoff are comments that show the defaults.
        let text = std::fs::read_to_string(path).unwrap().replace("\n# workApplier", "\nworkApplier");
        let values = fleet_api::yaml::documents(&text).unwrap().remove(0);
        let line = [
            ("/policy/deniedNamespaces", "denied-namespaces"),
            ("/trackJobsAndIngresses", "track-jobs-and-ingresses"),
            ("/priorityQueue/enabled", "enable-work-applier-priority-queue"),
            ("/priorityQueue/priorityLinearEquationCoeffA", "work-applier-priority-linear-equation-coeff-a"),
            ("/priorityQueue/priorityLinearEquationCoeffB", "work-applier-priority-linear-equation-coeff-b"),
            ("/enableNamespaceCollectionInPropertyProvider", "enable-namespace-collection-in-property-provider"),
            ("/workApplierRequeueRateLimiterAttemptsWithFixedDelay", &format!("{PACE}attempts-with-fixed-delay")),
            ("/workApplierRequeueRateLimiterFixedDelaySeconds", &format!("{PACE}fixed-delay-seconds")),
            (
                "/workApplierRequeueRateLimiterExponentialBaseForSlowBackoff",
                &format!("{PACE}exponential-base-for-slow-backoff"),
            ),
            (
                "/workApplierRequeueRateLimiterInitialSlowBackoffDelaySeconds",
                &format!("{PACE}initial-slow-backoff-delay-seconds"),
            ),
            (
                "/workApplierRequeueRateLimiterMaxSlowBackoffDelaySeconds",
                &format!("{PACE}max-slow-backoff-delay-seconds"),
            ),
            (
                "/workApplierRequeueRateLimiterExponentialBaseForFastBackoff",
                &format!("{PACE}exponential-base-for-fast-backoff"),
            ),
            (
                "/workApplierRequeueRateLimiterMaxFastBackoffDelaySeconds",
                &format!("{PACE}max-fast-backoff-delay-seconds"),
            ),
            (
                "/workApplierRequeueRateLimiterSkipToFastBackoffForAvailableOrDiffReportedWorkObjs",
                &format!("{PACE}skip-to-fast-backoff-for-available-or-diff-reported-work-objs"),
            ),
        ]
        .map(|(value, flag)| {
            let text = match values.pointer(value).unwrap_or_else(|| panic!("{value}")) {
                Value::Array(entries) => entries.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
                other => other.to_string(),
            };
            format!("--{flag}={text}")
        })
        .join(" ");
        let (chart, default) = (settings(&line).unwrap(), settings("").unwrap());
        assert_eq!(chart.applier, default.applier);
        assert!(matches!(chart.properties, Properties::BuiltIn));
    }

    #[test]
    fn the_command_line_of_the_chart_is_parsed() {
        let settings = settings(
            "--leader-elect=true --v=5 -add_dir_header --tls-insecure=false --use-ca-auth=true --property-provider=azure \
             --region=eastus --cloud-config=/etc/kubernetes/provider/config.json --enable-pprof=true --pprof-port=6065 \
             --hub-pprof-port=6066 \
             --enable-namespace-collection-in-property-provider=true --enable-work-applier-priority-queue=true \
             --work-applier-priority-linear-equation-coeff-a=-3 --work-applier-priority-linear-equation-coeff-b=100 \
             --work-applier-requeue-rate-limiter-max-fast-backoff-delay-seconds=90 --metrics-bind-address= \
             --hub-health-probe-bind-address=0 --deletion-wait-time=7",
        )
        .unwrap();
        let election = settings.election.unwrap();
        assert_eq!((election.namespace.as_str(), election.name.as_str()), ("kube-system", leases::MEMBER));
        assert_eq!(election.timing.lease, Duration::from_secs(15));
        assert!(settings.use_ca_auth && !settings.tls_insecure);
        let Properties::Provider(provider) = settings.properties else { panic!("{:?}", settings.properties) };
        let costs = Some(CostOptions { price_file: None, region: "eastus".to_owned() });
        assert_eq!(provider, ProviderOptions { namespaces: true, costs, ..ProviderOptions::default() });
        assert_eq!(
            (settings.applier.requeue_backoff.longest_seconds, settings.addresses.metrics.as_str()),
            (90.0, ":8080")
        );
        assert_eq!(settings.applier.stuck_after, SignedDuration::from_mins(7));
        assert_eq!(settings.applier.priority_decay, Some(PriorityDecay { slope: -3, start: 100 }));
    }

    #[test]
    fn values_out_of_bounds_are_rejected_by_the_parser() {
        for (line, why) in [
            ("--hub-api-qps=5", "--hub-api-qps=5 is neither between 10 and 1000 nor negative (no limit)"),
            ("--hub-api-burst=3000", "--hub-api-burst=3000 is not between 10 and 2000"),
            ("--deletion-wait-time=61", "--deletion-wait-time=61 is not between 1 and 60"),
            (
                "--work-applier-priority-linear-equation-coeff-a=0",
                "--work-applier-priority-linear-equation-coeff-a=0 is not between -100 and -1",
            ),
            (
                "--work-applier-requeue-rate-limiter-fixed-delay-seconds=1",
                "--work-applier-requeue-rate-limiter-fixed-delay-seconds=1 is not between 2 and 300",
            ),
            ("--kube-config=x", "unknown flag --kube-config"),
        ] {
            assert_eq!(settings(line).unwrap_err(), why);
        }
        let base = "--work-applier-requeue-rate-limiter-exponential-base-for-fast-backoff=1";
        assert!(settings(base).unwrap_err().starts_with(&format!("{base} is not between 1")));
    }

    #[test]
    fn last_07_prices_come_from_a_file() {
        let costs = |line: &str| match settings(&format!("--property-provider=azure {line}")).unwrap().properties {
            Properties::Provider(provider) => provider.costs,
            other => panic!("{other:?}"),
        };
        let file =
            |path: &str, region: &str| Some(CostOptions { price_file: Some(path.into()), region: region.into() });
        assert_eq!(costs("--price-file=/p.yaml --region=east"), file("/p.yaml", "east"));
        assert_eq!(costs(""), Some(CostOptions::default()));
        assert_eq!(costs("--price-file=/p.yaml --use-cost-properties-in-azure-provider=false"), None);
    }

    #[test]
    fn last_08_jobs_and_ingresses_are_tracked_only_if_enabled() {
        let tracking = |line| settings(line).unwrap().applier.tracking;
        assert_eq!(tracking(""), Tracking::Reference);
        assert_eq!(tracking("--track-jobs-and-ingresses=true"), Tracking::Extended);
    }

    #[test]
    fn audit_19_the_policy_of_the_member_is_set_by_flags() {
        let policy = |line| settings(line).map(|settings| settings.applier.policy);
        assert_eq!(policy("").unwrap(), Policy::default());
        let line = "--allowed-namespaces=team-*,shop --denied-namespaces= --allowed-kinds=*.apps --denied-kinds=Secret \
                    --protected-objects=ServiceAccount/agents/mine";
        let expected = Policy {
            allowed_namespaces: "team-*,shop".parse().unwrap(),
            denied_namespaces: List::default(),
            allowed_kinds: "*.apps".parse().unwrap(),
            denied_kinds: "Secret".parse().unwrap(),
            protected_objects: "ServiceAccount/agents/mine".parse().unwrap(),
        };
        assert_eq!(policy(line).unwrap(), expected);
        let refused = policy("--denied-kinds=secrets").unwrap_err();
        assert!(refused.contains("\"secrets\" is not a kind: write KIND, KIND.GROUP or *.GROUP"), "{refused}");
        assert!(policy("--denied-namespaces=Kube").is_err() && policy("--protected-objects=x").is_err());
    }

    #[test]
    fn contradictory_values_are_rejected() {
        let refused = |line| settings(line).unwrap_err();
        assert_eq!(refused("--hub-api-qps=600"), "--hub-api-burst (500) must not be below --hub-api-qps (600)");
        assert_eq!(
            refused("--work-applier-requeue-rate-limiter-initial-slow-backoff-delay-seconds=20"),
            "--work-applier-requeue-rate-limiter-initial-slow-backoff-delay-seconds (20) must not exceed \
             --work-applier-requeue-rate-limiter-max-slow-backoff-delay-seconds (15)"
        );
        assert_eq!(
            refused("--work-applier-requeue-rate-limiter-exponential-base-for-slow-backoff=1.9"),
            "--work-applier-requeue-rate-limiter-exponential-base-for-slow-backoff (1.9) must not exceed \
             --work-applier-requeue-rate-limiter-exponential-base-for-fast-backoff (1.5)"
        );
        assert_eq!(
            refused("--members-kubeconfigs=/m --kubeconfig=/k --leader-elect"),
            "--members-kubeconfigs and --kubeconfig are mutually exclusive\n--members-kubeconfigs and --leader-elect are mutually \
             exclusive: the lease is on one member"
        );
    }
}
