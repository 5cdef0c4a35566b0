//! The rules of `kubefleet doctor`: whether hub and members are installed in a way that can work. Unlike `diagnose`, which
//! explains runs and placements, these rules are about versions, CustomResourceDefinitions, permissions, webhooks, clocks, tokens
//! and limits. Every finding has a fix with a command.

mod facts;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use fleet_api::safe_text;
use fleet_api::well_known::labels;
use fleet_api::well_known::namespaces::FLEET_SYSTEM;
use jiff::SignedDuration;
use serde::Serialize;

pub use facts::{
    AgentFacts, DefinitionFact, DefinitionState, Denied, Facts, MemberFacts, ServerFacts, TokenFacts, WebhookFacts,
};

use crate::diagnose::{self, Fix, Inputs, ObservedObject, Severity, Step, Unread};

/// The minor versions of Kubernetes 1 that are supported: those of the tests on real API servers.
pub const SUPPORTED_MINORS: std::ops::RangeInclusive<u32> = 32..=35;
/// Clocks that differ by more than this are reported: heartbeats and leases are compared across machines.
const CLOCK_TOLERANCE_SECONDS: i64 = 10;
/// Tokens that expire within this time are reported. The kubelet and the side-car renew their tokens earlier.
const TOKEN_NOTICE: SignedDuration = SignedDuration::from_hours(24);
/// Agents whose minor versions differ by more than this are not tested together.
const VERSION_SKEW: u64 = 1;
/// Permissions that are listed in a finding.
const DENIED_SHOWN: usize = 3;

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    Versions,
    Definitions,
    Agent,
    Permissions,
    Webhooks,
    Clock,
    Heartbeat,
    Token,
    Limits,
}

/// A problem with its fix.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub check: Check,
    pub severity: Severity,
    /// `hub`, or `member NAME`.
    pub subject: String,
    pub title: String,
    pub explanation: String,
    pub fix: Fix,
}

/// The result of all checks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The hub and the members that were read, by subject.
    pub servers: BTreeMap<String, ServerFacts>,
    /// The worst first.
    pub findings: Vec<Finding>,
    /// What could not be checked.
    pub unchecked: Vec<Unread>,
}

/// Checks the facts.
pub fn examine(facts: &Facts) -> Report {
    let hub = Place { subject: "hub".to_owned(), facts: &facts.hub, cluster: None };
    let mut findings = hub.findings(facts);
    let mut servers = BTreeMap::from([(hub.subject.clone(), facts.hub.clone())]);
    let mut unchecked = facts.hub.unread.clone();
    for member in &facts.members {
        let name = member.object.metadata.name.clone().unwrap_or_default();
        let subject = format!("member {name}");
        let none = ServerFacts::default();
        let place =
            Place { subject: subject.clone(), facts: member.server.as_ref().unwrap_or(&none), cluster: Some(&name) };
        findings.extend(place.permissions_on_hub(&hub, &member.denied));
        findings.extend(place.heartbeat(facts, member));
        match &member.server {
            Some(server) => {
                findings.extend(place.findings(facts));
                findings.extend(place.skew(&facts.hub));
                unchecked.extend(server.unread.iter().cloned());
                servers.insert(subject, server.clone());
            }
            None => unchecked.push(Unread {
                what: subject,
                why: format!("the kubeconfig has no context named {}", safe_text::line(&name)),
            }),
        }
    }
    findings.sort_by(|one, other| {
        let key = |finding: &Finding| (finding.subject != "hub", finding.subject.clone(), finding.check);
        other.severity.cmp(&one.severity).then_with(|| key(one).cmp(&key(other)))
    });
    Report { servers, findings, unchecked }
}

/// An API server in the rules.
struct Place<'a> {
    subject: String,
    facts: &'a ServerFacts,
    /// The name of the member; `None` for the hub.
    cluster: Option<&'a str>,
}

impl Place<'_> {
    fn findings(&self, facts: &Facts) -> Vec<Finding> {
        let mut found = Vec::new();
        found.extend(self.kubernetes_version());
        found.extend(self.definitions());
        found.extend(self.agent());
        found.extend(self.program(&facts.program));
        found.extend(self.permissions(self, &self.facts.denied, self.reinstall()));
        found.extend(self.webhooks());
        found.extend(self.clock());
        found.extend(self.token(facts));
        found.extend(self.rejected_requests());
        found.extend(self.large_requests());
        found
    }

    fn finding(&self, check: Check, severity: Severity, title: String, explanation: &str, fix: Fix) -> Finding {
        Finding {
            check,
            severity,
            subject: safe_text::line(&self.subject).into_owned(),
            title: safe_text::line(&title).into_owned(),
            explanation: explanation.to_owned(),
            fix,
        }
    }

    /// A kubectl command on this cluster.
    fn kubectl(&self, what: &str, words: &[&str]) -> Step {
        let context = self.facts.context.iter().flat_map(|context| ["--context", context.as_str()]);
        step(what, &["kubectl"].into_iter().chain(context).chain(words.iter().copied()).collect::<Vec<_>>())
    }

    /// The command that installs the agent with everything it needs.
    fn reinstall(&self) -> Fix {
        let context = self.facts.context.as_deref().unwrap_or_default();
        let by_helm = matches!(self.facts.agent, Some(AgentFacts::Installed { by_helm: true, .. }));
        let (agent, command) = match self.cluster {
            None => ("hub-agent", vec!["kubefleet", "install", "hub", "--context", context]),
            Some(cluster) => ("member-agent", vec!["kubefleet", "join", cluster, "--context", context]),
        };
        let chart = format!("charts/{agent}");
        let helm = ["helm", "upgrade", agent, &chart, "--kube-context", context, "-n", FLEET_SYSTEM, "--reuse-values"];
        let words = if by_helm { &helm[..] } else { &command };
        fix("install the agent again, with its CustomResourceDefinitions and permissions", vec![step("", words)])
    }

    fn kubernetes_version(&self) -> Option<Finding> {
        let version = self.facts.kubernetes.as_deref()?;
        let (major, minor) = release(version)?;
        if major == 1 && u32::try_from(minor).is_ok_and(|minor| SUPPORTED_MINORS.contains(&minor)) {
            return None;
        }
        let (first, last) = (SUPPORTED_MINORS.start(), SUPPORTED_MINORS.end());
        let title = format!("Kubernetes {version} is not one of the tested versions, 1.{first} to 1.{last}");
        let look = self.kubectl("see the versions", &["version"]);
        let fix = fix("upgrade the cluster, or use a release of KubeFleet that is tested with it", vec![look]);
        let because = "Agents may use fields that this version does not have, or meet behaviour that no test has seen.";
        Some(self.finding(Check::Versions, Severity::Warning, title, because, fix))
    }

    fn definitions(&self) -> Vec<Finding> {
        let of_state = |state: DefinitionState| -> Vec<&str> {
            self.facts.definitions.iter().filter(|one| one.state == state).map(|one| one.name.as_str()).collect()
        };
        let mut found = Vec::new();
        for (state, severity, what, because) in [
            (
                DefinitionState::Missing,
                Severity::Error,
                "are not installed",
                "The agent waits until all its kinds are served.",
            ),
            (
                DefinitionState::NotServed,
                Severity::Error,
                "are installed, but the API server does not serve them",
                "The condition Established of the CustomResourceDefinition says why.",
            ),
            (
                DefinitionState::Different,
                Severity::Warning,
                "are those of another release",
                "Fields that they do not have are dropped when objects are written.",
            ),
        ] {
            let names = of_state(state);
            if let [first, rest @ ..] = &names[..] {
                let others = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
                let title = format!("CustomResourceDefinitions {what}: {first}{others}");
                found.push(self.finding(Check::Definitions, severity, title, because, self.reinstall()));
            }
        }
        found
    }

    fn agent(&self) -> Option<Finding> {
        let (name, because) = match self.cluster {
            None => ("hub agent", "Without it nothing is scheduled or rolled out, and webhooks may reject changes."),
            Some(_) => ("member agent", "Without it nothing that is placed here is applied."),
        };
        match self.facts.agent.as_ref()? {
            AgentFacts::Missing => {
                let title = format!("the {name} is not installed in namespace {FLEET_SYSTEM}");
                Some(self.finding(Check::Agent, Severity::Error, title, because, self.reinstall()))
            }
            AgentFacts::Installed { wanted, available, .. } if available < wanted => {
                let title = format!("{available} of {wanted} pods of the {name} are available");
                let fix = fix("find out why the pods do not run", vec![self.describe_pods(), self.logs()]);
                let severity = if *available == 0 { Severity::Error } else { Severity::Warning };
                Some(self.finding(Check::Agent, severity, title, because, fix))
            }
            AgentFacts::Installed { .. } => None,
        }
    }

    fn agent_name(&self) -> &'static str {
        if self.cluster.is_some() { "member-agent" } else { "hub-agent" }
    }

    fn describe_pods(&self) -> Step {
        let label = format!("{}={}", labels::APP_NAME, self.agent_name());
        self.kubectl("see the state of the pods", &["-n", FLEET_SYSTEM, "describe", "pods", "-l", &label])
    }

    fn logs(&self) -> Step {
        let deployment = format!("deployment/{}", self.agent_name());
        self.kubectl("see the log of the agent", &["-n", FLEET_SYSTEM, "logs", &deployment, "--tail=50"])
    }

    fn version(&self) -> Option<&str> {
        match self.facts.agent.as_ref()? {
            AgentFacts::Installed { version, .. } => Some(version),
            AgentFacts::Missing => None,
        }
    }

    /// Whether this program fits the agent.
    fn program(&self, program: &str) -> Option<Finding> {
        let version = self.version()?;
        if !differs(version, program) {
            return None;
        }
        let title = format!("the agent has version {version}, this program {program}");
        let because = "The program explains states and prints objects of its own release.";
        let fix = fix("use the program of the agent's release, or upgrade the agent", self.reinstall().steps);
        Some(self.finding(Check::Versions, Severity::Warning, title, because, fix))
    }

    /// Whether the agent of a member fits that of the hub.
    fn skew(&self, hub: &ServerFacts) -> Option<Finding> {
        let Some(AgentFacts::Installed { version: of_hub, .. }) = &hub.agent else { return None };
        let version = self.version()?;
        if !differs(version, of_hub) {
            return None;
        }
        let title = format!("the member agent has version {version}, the hub agent {of_hub}");
        let because = "Agents are tested together if their minor versions differ by one at most.";
        Some(self.finding(Check::Versions, Severity::Warning, title, because, self.reinstall()))
    }

    /// What the identity of the member may not do on the hub.
    fn permissions_on_hub(&self, hub: &Place<'_>, denied: &[Denied]) -> Option<Finding> {
        let what = "restart the hub agent: it grants the member its permissions";
        self.permissions(hub, denied, fix(what, vec![hub.restart()]))
    }

    /// What an agent may not do on the server of `place`.
    fn permissions(&self, place: &Place<'_>, denied: &[Denied], mut fix: Fix) -> Option<Finding> {
        let first = denied.first()?;
        let describe = |one: &Denied| {
            let place = one.namespace.as_ref().map(|namespace| format!(" in {namespace}")).unwrap_or_default();
            format!("{} {}{place}", one.verb, one.resource)
        };
        let mut shown: Vec<String> = denied.iter().take(DENIED_SHOWN).map(describe).collect();
        if denied.len() > DENIED_SHOWN {
            shown.push(format!("{} more", denied.len() - DENIED_SHOWN));
        }
        let title = format!("{} may not: {}", first.user, shown.join(", "));
        let because = "The agent logs every refused request, and what depends on it does not happen.";
        let namespace = first.namespace.iter().flat_map(|namespace| ["-n", namespace.as_str()]);
        let words = ["auth", "can-i", &first.verb, &first.resource, "--as", &first.user];
        fix.steps.push(place.kubectl("check a permission", &words.into_iter().chain(namespace).collect::<Vec<_>>()));
        Some(self.finding(Check::Permissions, Severity::Error, title, because, fix))
    }

    fn restart(&self) -> Step {
        let deployment = format!("deployment/{}", self.agent_name());
        self.kubectl("restart the agent", &["-n", FLEET_SYSTEM, "rollout", "restart", &deployment])
    }

    fn webhooks(&self) -> Option<Finding> {
        let webhooks = self.facts.webhooks.as_ref()?;
        let restart = |what: &str| fix(what, vec![self.restart(), self.logs()]);
        if let Some(failure) = &webhooks.failure {
            let untrusted = failure.contains("x509") || failure.contains("certificate");
            let (title, what) = if untrusted {
                ("the API server does not trust the certificate of the webhooks", "let the agent write its CA again")
            } else {
                ("the API server cannot reach the webhooks", "restart the agent that serves them")
            };
            let title = format!("{title}: {failure}");
            let because = "Until then the API server rejects all changes of placements, members and overrides.";
            return Some(self.finding(Check::Webhooks, Severity::Error, title, because, restart(what)));
        }
        let (names, what) = match (&webhooks.missing[..], &webhooks.without_ca[..]) {
            ([], []) => return None,
            ([], names) => (names, "have no CA"),
            (names, _) => (names, "do not exist"),
        };
        let title = format!("webhook configurations {what}: {}", names.join(", "));
        let because = "The agent is started with --enable-webhook and writes them when it starts.";
        Some(self.finding(Check::Webhooks, Severity::Warning, title, because, restart("restart the agent")))
    }

    fn clock(&self) -> Option<Finding> {
        let offset = self.facts.clock_offset_seconds?;
        (offset.abs() > CLOCK_TOLERANCE_SECONDS).then_some(())?;
        let direction = if offset > 0 { "ahead of" } else { "behind" };
        let title = format!("the clock of the API server is {} s {direction} that of this machine", offset.abs());
        let because = "Heartbeats, leases, tokens and timed waits are compared across machines.";
        let look = self.kubectl("see its time in the header Date", &["get", "--raw", "/version", "-v=8"]);
        let fix = fix("synchronize the clocks of the control plane and of this machine with NTP", vec![look]);
        Some(self.finding(Check::Clock, Severity::Warning, title, because, fix))
    }

    /// Whether the member has joined, is healthy and sends heartbeats: the rules of `diagnose`.
    fn heartbeat(&self, facts: &Facts, member: &MemberFacts) -> Option<Finding> {
        let mut inputs = Inputs::empty(facts.now);
        inputs.members = vec![ObservedObject::from(member.object.clone())];
        let found = diagnose::cluster(&inputs, self.cluster.unwrap_or_default(), &[]).cause?;
        let context = self.facts.context.as_deref().or(self.cluster);
        let server = ServerFacts { context: context.map(str::to_owned), ..ServerFacts::default() };
        let place = Place { subject: self.subject.clone(), facts: &server, cluster: self.cluster };
        let fix = fix("find out what the agent of the member does", vec![place.logs(), place.describe_pods()]);
        Some(self.finding(Check::Heartbeat, found.severity, found.title, &found.explanation, fix))
    }

    fn token(&self, facts: &Facts) -> Option<Finding> {
        let expires = self.facts.token?.expires?;
        let left = expires.duration_since(facts.now);
        (left < TOKEN_NOTICE).then_some(())?;
        let (severity, title) = if left.is_positive() {
            (Severity::Warning, format!("the token for the hub expires at {expires}"))
        } else {
            (Severity::Error, format!("the token for the hub expired at {expires}"))
        };
        let because = "The agent cannot connect to the hub with an expired token.";
        let cluster = self.cluster.unwrap_or_default();
        let context = self.facts.context.as_deref().unwrap_or_default();
        let words = ["kubefleet", "join", cluster, "--context", context];
        let fix = fix("store a new token; the agent needs no restart", vec![step("", &words)]);
        Some(self.finding(Check::Token, severity, title, because, fix))
    }

    fn rejected_requests(&self) -> Option<Finding> {
        let rejected = self.facts.rejected_requests.filter(|count| *count > 0)?;
        let title = format!("the API server has rejected {rejected} requests of service accounts: too many at once");
        let because =
            "Priority and fairness gives all service accounts one share of the API server; the agents wait in it.";
        let mut apply = self.kubectl("give the agents a larger share", &["apply", "-f", "-"]);
        if !apply.command.is_empty() {
            apply.command.push_str(FLOW_SCHEMA);
        }
        let fix = fix("let the agents use the priority level workload-high", vec![apply]);
        Some(self.finding(Check::Limits, Severity::Warning, title, because, fix))
    }

    fn large_requests(&self) -> Option<Finding> {
        let refused = self.facts.large_request_refused.as_ref()?;
        let title = format!("a request as large as a resource snapshot is refused: {refused}");
        let because =
            "Snapshots and Works have up to 800 KiB. kube-apiserver accepts them; a proxy in front of it may not.";
        let look = self.kubectl("see the address that is used", &["config", "view", "--minify"]);
        let fix = fix("let proxies in front of the API server accept bodies of 3 MiB", vec![look]);
        Some(self.finding(Check::Limits, Severity::Error, title, because, fix))
    }
}

const FLOW_SCHEMA: &str = " <<'EOF'
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata:
  name: fleet-agents
spec:
  priorityLevelConfiguration:
    name: workload-high
  matchingPrecedence: 900
  distinguisherMethod:
    type: ByUser
  rules:
  - subjects:
    - kind: Group
      group:
        name: system:serviceaccounts:fleet-system
    resourceRules:
    - verbs: ['*']
      apiGroups: ['*']
      resources: ['*']
      namespaces: ['*']
      clusterScope: true
EOF";

fn fix(what: &str, steps: Vec<Step>) -> Fix {
    let fallback = |mut step: Step| {
        if step.what.is_empty() {
            what.clone_into(&mut step.what);
        }
        step
    };
    Fix { what: what.to_owned(), steps: steps.into_iter().map(fallback).collect() }
}

/// A step with a command. Words with hidden characters are not shown in commands.
fn step(what: &str, words: &[&str]) -> Step {
    let quoted: Option<Vec<String>> = words.iter().map(|word| safe_text::shell_word(word)).collect();
    Step {
        what: what.to_owned(),
        command: quoted.map(|words| words.join(" ")).unwrap_or_default(),
        action: None,
        fill_in: Vec::new(),
    }
}

/// Major and minor version of `v1.34.4-gke.1` or `0.1.0`.
fn release(version: &str) -> Option<(u64, u64)> {
    let mut numbers = version.trim_start_matches('v').split(['.', '-', '+']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Whether two versions are further apart than what is tested. Unknown tags are not compared.
fn differs(one: &str, other: &str) -> bool {
    match (release(one), release(other)) {
        (Some((major, minor)), Some((other_major, other_minor))) => {
            major != other_major || minor.abs_diff(other_minor) > VERSION_SKEW
        }
        _ => false,
    }
}
