//! The member agent's flags, and what they come to.
//!
//! Decides names, defaults and bounds (those of the Go agent), which flags mean nothing here, and which combinations are
//! refused. Never reads anything but the command line; the environment is the affair of `environment`.

use std::path::PathBuf;

use fleet_api::well_known::leases;
use fleet_core::apply::availability::Tracking;
use fleet_core::apply::budget;
use fleet_core::apply::priority::Decline;
use fleet_core::apply::requeue::Pace;
use fleet_member::{ApplierOptions, Properties, ProviderOptions};
use fleet_runtime::Election;
use jiff::SignedDuration;

use crate::agent::connect::{Limit, limit};
use crate::agent::election::election;
use crate::agent::flags::rows::{DAY, NO_PROFILES, SECOND, acts, between, count, idle, lacking, number, rate};
use crate::agent::flags::{Flag, Flags, Problem, Refusal, Shape};

/// What the flags come to.
#[derive(Debug)]
pub(super) struct Settings {
    /// The member's; absent where the environment or the pod says.
    pub(super) kubeconfig: Option<PathBuf>,
    /// The hub's; absent where the environment says.
    pub(super) hub_kubeconfig: Option<PathBuf>,
    /// One kubeconfig a member; absent where this agent serves one.
    pub(super) members: Option<PathBuf>,
    pub(super) use_ca_auth: bool,
    pub(super) tls_insecure: bool,
    pub(super) properties: Properties,
    pub(super) applier: ApplierOptions,
    /// Absent where this process is the only one.
    pub(super) election: Option<Election>,
    pub(super) hub_limit: Option<Limit>,
    pub(super) member_limit: Option<Limit>,
    pub(super) hub_addresses: Addresses,
    pub(super) addresses: Addresses,
}

/// Where probes and metrics are served. The Go agent has two managers, hence two of each; both tell the same here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) probes: String,
    pub(super) metrics: String,
}

const NO_PRICES: &str = "no cloud is asked for prices, so no costs are told";
const PACE: &str = "work-applier-requeue-rate-limiter-";

pub(super) const FLAGS: &[Flag] = &[
    acts(
        "kubeconfig",
        "",
        Shape::Text,
        "The member's kubeconfig; without it KUBECONFIG, then the pod's service account",
    ),
    acts("hub-kubeconfig", "", Shape::Text, "The hub's kubeconfig; without it HUB_SERVER_URL and its companions"),
    acts(
        "members-kubeconfigs",
        "",
        Shape::Text,
        "Directory with one kubeconfig a member, named MEMBER or MEMBER.kubeconfig: serves them all; MEMBER.token beside it \
         is that member's token for the hub",
    ),
    acts(
        "use-ca-auth",
        "false",
        Shape::Bool,
        "Certificates (IDENTITY_KEY, IDENTITY_CERT) instead of a token for the hub",
    ),
    acts("tls-insecure", "false", Shape::Bool, "Do not verify the hub's certificate"),
    acts(
        "hub-health-probe-bind-address",
        ":8081",
        Shape::Text,
        "Where /healthz and /readyz are served; 0 turns them off",
    ),
    acts("hub-metrics-bind-address", ":8080", Shape::Text, "Where /metrics is served; 0 turns it off"),
    acts("hub-api-qps", "50", rate(10.0, 1000.0), "Requests a second to the hub; negative means no limit"),
    acts("hub-api-burst", "500", count(10, 2000), "Requests to the hub at once"),
    acts(
        "health-probe-bind-address",
        ":8091",
        Shape::Text,
        "A second address for /healthz and /readyz; 0 turns it off",
    ),
    acts("metrics-bind-address", ":8090", Shape::Text, "A second address for /metrics; 0 turns it off"),
    acts("member-api-qps", "250", rate(10.0, 10_000.0), "Requests a second to the member; negative means no limit"),
    acts("member-api-burst", "1000", count(10, 20_000), "Requests to the member at once"),
    lacking("enable-pprof", "false", Shape::Bool, NO_PROFILES),
    idle("pprof-port", "6065", count(1, 65_535), NO_PROFILES),
    idle("hub-pprof-port", "6066", count(1, 65_535), NO_PROFILES),
    acts("leader-elect", "false", Shape::Bool, "Act only while holding a lease on the member"),
    acts("leader-lease-duration", "15s", between(SECOND, DAY), "How long a silent leader keeps the lease"),
    acts(
        "leader-renew-deadline",
        "10s",
        between(SECOND, DAY),
        "How long a leader tries to renew before it stops acting",
    ),
    acts("leader-retry-period", "2s", between(SECOND, DAY), "How often the lease is renewed and looked at"),
    acts("leader-election-namespace", "kube-system", Shape::Text, "Namespace of the lease, on the member"),
    acts("deletion-wait-time", "5", count(1, 60), "Minutes after which a deletion that does not end is helped"),
    acts(
        "enable-work-applier-priority-queue",
        "false",
        Shape::Bool,
        "Whether Works that were well are taken up after others when they change, the older the later",
    ),
    acts(
        "work-applier-priority-linear-equation-coeff-a",
        "-3",
        count(-100, -1),
        "By how much the priority of such a Work falls with every minute of its age",
    ),
    acts(
        "work-applier-priority-linear-equation-coeff-b",
        "100",
        count(1, 1000),
        "The priority of such a Work at age 0; more than 100 is 100",
    ),
    acts(
        "work-applier-requeue-rate-limiter-attempts-with-fixed-delay",
        "1",
        count(1, 40),
        "So many first looks at a Work come after the fixed delay",
    ),
    acts("work-applier-requeue-rate-limiter-fixed-delay-seconds", "5", number(2.0, 300.0), "The fixed delay"),
    acts(
        "work-applier-requeue-rate-limiter-exponential-base-for-slow-backoff",
        "1.2",
        number(1.05, 2.0),
        "By which the delay grows at first",
    ),
    acts(
        "work-applier-requeue-rate-limiter-initial-slow-backoff-delay-seconds",
        "2",
        number(2.0, LONGEST_DELAY),
        "The first delay after the fixed ones",
    ),
    acts(
        "work-applier-requeue-rate-limiter-max-slow-backoff-delay-seconds",
        "15",
        number(2.0, LONGEST_DELAY),
        "Up to which it grows slowly",
    ),
    acts(
        "work-applier-requeue-rate-limiter-exponential-base-for-fast-backoff",
        "1.5",
        number(ABOVE_ONE, 2.0),
        "By which it grows from there on",
    ),
    acts(
        "work-applier-requeue-rate-limiter-max-fast-backoff-delay-seconds",
        "900",
        number(ABOVE_ZERO, LONGEST_DELAY),
        "The longest delay of all",
    ),
    acts(
        "work-applier-requeue-rate-limiter-skip-to-fast-backoff-for-available-or-diff-reported-work-objs",
        "true",
        Shape::Bool,
        "Whether a Work that is available, or has told its differences, is looked at less often at once",
    ),
    acts("deletions-per-minute", "200", count(1, 1_000_000), "Placed objects that may be deleted within a minute"),
    acts(
        "deletions-per-minute-percent",
        "20",
        count(1, 100),
        "The same in percent of all that are placed; the larger counts",
    ),
    acts(
        "track-jobs-and-ingresses",
        "true",
        Shape::Bool,
        "Whether Jobs and Ingresses have to be complete to be available",
    ),
    acts("property-provider", "none", Shape::Text, "azure tells machine sizes and versions; anything else is none"),
    idle("region", "", Shape::Text, NO_PRICES),
    idle("cloud-config", "/etc/kubernetes/provider/config.json", Shape::Text, NO_PRICES),
    idle("use-cost-properties-in-azure-provider", "true", Shape::Bool, NO_PRICES),
    acts(
        "use-available-res-properties-in-azure-provider",
        "true",
        Shape::Bool,
        "Whether what is free is told, by all pods",
    ),
    acts("enable-namespace-collection-in-property-provider", "false", Shape::Bool, "Whether namespaces are told"),
    idle("enable-v1beta1-apis", "true", Shape::Bool, "there is no other version"),
];

/// An hour: what is looked at less often might as well not be looked at.
const LONGEST_DELAY: f64 = 3600.0;
/// A base must make the delay grow.
const ABOVE_ONE: f64 = 1.0 + f64::EPSILON;
const ABOVE_ZERO: f64 = f64::MIN_POSITIVE;

impl Settings {
    /// What a command line comes to; every value is within its bounds already.
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
            problems.push(Problem::new("--members-kubeconfigs and --kubeconfig exclude each other"));
        }
        if settings.members.is_some() && settings.election.is_some() {
            let what = "--members-kubeconfigs and --leader-elect exclude each other: a lease lives on one member";
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
    })
}

fn applier(flags: &Flags, problems: &mut Vec<Problem>) -> ApplierOptions {
    let number = |name: &str| flags.number(&format!("{PACE}{name}"));
    let pace = Pace {
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
        ("initial-slow-backoff-delay-seconds", pace.initial_slow_seconds),
        ("max-slow-backoff-delay-seconds", pace.longest_slow_seconds),
    );
    in_order(
        ("max-slow-backoff-delay-seconds", pace.longest_slow_seconds),
        ("max-fast-backoff-delay-seconds", pace.longest_seconds),
    );
    in_order(
        ("exponential-base-for-slow-backoff", pace.slow_base),
        ("exponential-base-for-fast-backoff", pace.fast_base),
    );
    let factor = |name: &str| {
        let name = format!("work-applier-priority-linear-equation-coeff-{name}");
        i32::try_from(flags.integer(&name)).unwrap_or_default()
    };
    let decline = Decline { slope: factor("a"), start: factor("b") };
    ApplierOptions {
        pace,
        decline: flags.is_on("enable-work-applier-priority-queue").then_some(decline),
        stuck_after: SignedDuration::from_mins(flags.integer("deletion-wait-time")),
        deletions: budget::Limit {
            objects: flags.count("deletions-per-minute"),
            percent: flags.count("deletions-per-minute-percent"),
        },
        tracking: if flags.is_on("track-jobs-and-ingresses") { Tracking::Extended } else { Tracking::Reference },
        ..ApplierOptions::default()
    }
}

/// An empty address of probes is none, one of metrics the default of the Go library.
fn addresses(flags: &Flags, whose: &str) -> Addresses {
    let text = |name: &str| flags.text(&format!("{whose}{name}-bind-address")).to_owned();
    let metrics = text("metrics");
    Addresses { probes: text("health-probe"), metrics: if metrics.is_empty() { ":8080".to_owned() } else { metrics } }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
    fn a_command_line_of_the_chart_is_understood() {
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
        assert_eq!(provider, ProviderOptions { namespaces: true, ..ProviderOptions::default() });
        assert_eq!((settings.applier.pace.longest_seconds, settings.addresses.metrics.as_str()), (90.0, ":8080"));
        assert_eq!(settings.applier.stuck_after, SignedDuration::from_mins(7));
        assert_eq!(settings.applier.decline, Some(Decline { slope: -3, start: 100 }));
    }

    #[test]
    fn values_out_of_their_own_bounds_are_refused_by_the_parser() {
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
            ("--kube-config=x", "there is no flag --kube-config"),
        ] {
            assert_eq!(settings(line).unwrap_err(), why);
        }
        let base = "--work-applier-requeue-rate-limiter-exponential-base-for-fast-backoff=1";
        assert!(settings(base).unwrap_err().starts_with(&format!("{base} is not between 1")));
    }

    #[test]
    fn values_that_do_not_fit_together_are_refused() {
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
            "--members-kubeconfigs and --kubeconfig exclude each other\n--members-kubeconfigs and --leader-elect exclude \
             each other: a lease lives on one member"
        );
    }
}
