//! Which hub is meant, and as whom it is spoken to.
//!
//! Decides it as kubectl does: `--kubeconfig`, else `KUBECONFIG`, else `~/.kube/config`, else the pod's service account;
//! there `--context`, else the current one. With `-n` namespaced kinds are meant, without it the cluster-scoped ones.
//! What usually goes wrong is told in a line with a hint. Never asks the hub anything by itself.

use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use fleet_core::diagnose::explain_refusal;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::rights::MissingRight;
use crate::agent::connect;
use crate::nearest::{alternatives, nearest};
use crate::output::Hinted;

/// How we introduce ourselves, in access logs and managed fields.
pub(crate) const AGENT: &str = "kubectl-fleet";
/// A hub that does not even take a connection in this time is not there, and somebody is waiting.
const LONGEST_CONNECT: Duration = Duration::from_secs(10);
/// Set in every pod.
const IN_A_POD: &str = "KUBERNETES_SERVICE_HOST";
/// Contexts that are listed in a hint; more are no help.
const CONTEXTS_SHOWN: usize = 5;

/// Flags that every verb takes, named as kubectl names them.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct HubFlags {
    /// Namespace of placement and runs; without it, cluster-scoped ones are meant
    #[arg(short, long, value_name = "NAMESPACE", help_heading = "Hub")]
    pub(crate) namespace: Option<String>,
    /// Context of the hub in the kubeconfig; without it, the current one
    #[arg(
        long,
        value_name = "NAME",
        visible_alias = "hub-cluster-context",
        alias = "hubClusterContext",
        help_heading = "Hub"
    )]
    pub(crate) context: Option<String>,
    /// The kubeconfig; without it, what KUBECONFIG names, or ~/.kube/config
    #[arg(long, value_name = "FILE", help_heading = "Hub")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

/// A hub that can be spoken to.
pub(crate) struct Hub {
    pub(crate) client: kube::Client,
    /// `None` where cluster-scoped kinds are meant.
    pub(crate) namespace: Option<String>,
    /// Where it is, for people.
    pub(crate) server: String,
    /// Where other clusters of the fleet may be found.
    kubeconfig: Option<Kubeconfig>,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("server", &self.server).field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl HubFlags {
    /// Finds the hub; nothing is asked of it yet.
    pub(crate) async fn connect(&self) -> anyhow::Result<Hub> {
        let kubeconfig = self.read()?;
        let config = match &kubeconfig {
            Some(file) => config_of(file, self.context.as_deref()).await?,
            None => kube::Config::incluster().context("the pod's service account cannot be used")?,
        };
        let server = address(&config.cluster_url);
        Ok(Hub { client: client_of(config)?, namespace: self.namespace.clone(), server, kubeconfig })
    }

    /// Names of the contexts that can be chosen.
    pub(crate) fn contexts(&self) -> anyhow::Result<Vec<String>> {
        let contexts = self.read()?.map(|file| file.contexts).unwrap_or_default();
        Ok(contexts.into_iter().map(|context| context.name).collect())
    }

    /// `None` where there is no kubeconfig but we are in a pod.
    fn read(&self) -> anyhow::Result<Option<Kubeconfig>> {
        if let Some(path) = &self.kubeconfig {
            return Kubeconfig::read_from(path).map(Some).map_err(|error| unreadable(&error, Some(path)));
        }
        match Kubeconfig::read() {
            Ok(file) => Ok(Some(file)),
            Err(KubeconfigError::FindPath | KubeconfigError::ReadConfig(..)) if is_in_a_pod() => Ok(None),
            Err(error) => Err(unreadable(&error, None)),
        }
    }
}

fn is_in_a_pod() -> bool {
    std::env::var_os(IN_A_POD).is_some() && std::env::var_os("KUBECONFIG").is_none()
}

impl Hub {
    /// A client of a member, if the kubeconfig has a context of its name.
    pub(crate) async fn member(&self, cluster: &str) -> anyhow::Result<Option<kube::Client>> {
        let Some(file) = &self.kubeconfig else { return Ok(None) };
        if !file.contexts.iter().any(|context| context.name == cluster) {
            return Ok(None);
        }
        client_of(config_of(file, Some(cluster)).await?).map(Some)
    }

    /// What to say when the hub did not do what was asked; `doing` completes "cannot …".
    pub(crate) fn failed(&self, doing: impl fmt::Display, error: &kube::Error) -> anyhow::Error {
        let Hinted { what, hint } = explain(&self.server, &doing.to_string(), error);
        if hint.is_empty() { anyhow::anyhow!(what) } else { Hinted { what, hint }.into() }
    }
}

async fn config_of(file: &Kubeconfig, context: Option<&str>) -> anyhow::Result<kube::Config> {
    let name = known_context(file, context)?;
    let options = KubeConfigOptions { context: Some(name.clone()), ..KubeConfigOptions::default() };
    let config = kube::Config::from_custom_kubeconfig(file.clone(), &options).await;
    let mut config = config.map_err(|error| Hinted {
        what: format!("the context {name:?} of the kubeconfig cannot be used: {}", first_line(&error.to_string())),
        hint: "choose another context with --context, or mend this one".to_owned(),
    })?;
    config.connect_timeout = Some(LONGEST_CONNECT);
    Ok(config)
}

fn client_of(config: kube::Config) -> anyhow::Result<kube::Client> {
    connect::client(config, AGENT, None)
}

/// The context that is meant, which the kubeconfig must have.
fn known_context(file: &Kubeconfig, wanted: Option<&str>) -> Result<String, Hinted> {
    let known: Vec<&str> = file.contexts.iter().map(|context| context.name.as_str()).collect();
    let current = file.current_context.as_deref().filter(|name| !name.is_empty());
    let Some(name) = wanted.or(current) else {
        let what = "the kubeconfig has no current context".to_owned();
        return Err(Hinted { what, hint: choice(&known) });
    };
    if known.contains(&name) {
        return Ok(name.to_owned());
    }
    let hint = match nearest(name, known.iter().copied())[..] {
        [] => choice(&known),
        ref near => format!("did you mean --context {}?", alternatives(near)),
    };
    Err(Hinted { what: format!("the kubeconfig has no context {name:?}"), hint })
}

fn choice(known: &[&str]) -> String {
    if known.is_empty() {
        return "it has no contexts at all; name another file with --kubeconfig or KUBECONFIG".to_owned();
    }
    let shown = known.len().min(CONTEXTS_SHOWN);
    let more = if known.len() > shown { ", …" } else { "" };
    format!("choose one with --context: {}{more}", known[..shown].join(", "))
}

fn unreadable(error: &KubeconfigError, given: Option<&Path>) -> anyhow::Error {
    let file = match (error, given) {
        (_, Some(path)) => path.display().to_string(),
        (KubeconfigError::ReadConfig(_, path), None) => path.display().to_string(),
        _ => std::env::var("KUBECONFIG").unwrap_or_else(|_| "~/.kube/config".to_owned()),
    };
    let (what, hint) = match error {
        KubeconfigError::ReadConfig(source, _) => (
            format!("cannot read the kubeconfig {file}: {source}"),
            "name one with --kubeconfig or KUBECONFIG; `kubefleet up` writes one for a fleet to try",
        ),
        KubeconfigError::FindPath => (
            "there is no kubeconfig".to_owned(),
            "name one with --kubeconfig or KUBECONFIG; `kubefleet up` writes one for a fleet to try",
        ),
        KubeconfigError::Parse(error) => (
            format!(
                "the kubeconfig {file} is broken: {}",
                first_line(&error.to_string()).trim_start_matches("error: ")
            ),
            "mend it, or name another with --kubeconfig or KUBECONFIG",
        ),
        other => (
            format!("the kubeconfig {file} cannot be used: {}", first_line(&other.to_string())),
            "mend it, or name another with --kubeconfig or KUBECONFIG",
        ),
    };
    Hinted { what, hint: hint.to_owned() }.into()
}

/// What went wrong with a request, in one line, and what to try; the hint may be empty.
fn explain(server: &str, doing: &str, error: &kube::Error) -> Hinted {
    use kube::Error as E;
    let (what, hint) = match error {
        E::Api(status) => return explain_status(server, doing, status),
        E::Service(_) | E::HyperError(_) | E::ReadEvents(_) => (
            format!("the hub {server} cannot be reached: {}", innermost(error)),
            "is it running? --context and --kubeconfig choose another",
        ),
        E::Auth(_) => (
            format!("cannot log in to the hub {server}: {}", innermost(error)),
            "see to the credentials of the context, or choose another with --context",
        ),
        _ => (format!("cannot {doing}: {}", first_line(&innermost(error))), ""),
    };
    Hinted { what, hint: hint.to_owned() }
}

fn explain_status(server: &str, doing: &str, status: &kube::core::Status) -> Hinted {
    let message = first_line(&status.message);
    let names_an_object = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
    let (what, hint) = match status.code {
        401 => (
            format!("the hub {server} does not accept your credentials"),
            "see to the user of the context, or choose another with --context",
        ),
        403 => return forbidden(doing, message),
        404 if !names_an_object => (
            format!("cannot {doing}: the cluster {server} does not serve this kind, so it is no hub"),
            "choose the hub's context with --context, or make it one: kubefleet crds | kubectl apply --server-side -f -",
        ),
        _ => return Hinted { what: format!("cannot {doing}: {message}"), hint: remedy(&status.message) },
    };
    Hinted { what, hint: hint.to_owned() }
}

/// What the guides say about a refusal; nothing if they do not know it.
fn remedy(refusal: &str) -> String {
    let Some(finding) = explain_refusal(refusal) else { return String::new() };
    let what = finding.fixes.first().map(|fix| format!("{}. ", fix.what)).unwrap_or_default();
    format!("{what}{}", finding.explanation)
}

/// Which right is missing, and how to find out who has it.
fn forbidden(doing: &str, message: &str) -> Hinted {
    match MissingRight::read(message) {
        Some(right) => Hinted {
            what: format!("you may not {doing}: {}", right.told()),
            hint: format!("ask for that right (`{}` tests it), or choose another user with --context", right.test()),
        },
        None => Hinted {
            what: format!("you may not {doing}: {message}"),
            hint: "`kubectl auth can-i --list` shows what you may do; --context chooses another user".to_owned(),
        },
    }
}

/// The cause behind all causes: the rest says "error" in other words.
pub(crate) fn innermost(error: &dyn StdError) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim()
}

/// Without user and password, which some addresses have.
fn address(url: &http::Uri) -> String {
    let host = url.host().unwrap_or_default();
    let port = url.port_u16().map_or_else(String::new, |port| format!(":{port}"));
    format!("{}://{host}{port}", url.scheme_str().unwrap_or("https"))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn file(contexts: &[&str], current: Option<&str>) -> Kubeconfig {
        let context = |name: &&str| kube::config::NamedContext {
            name: (*name).to_owned(),
            ..kube::config::NamedContext::default()
        };
        Kubeconfig {
            contexts: contexts.iter().map(context).collect(),
            current_context: current.map(str::to_owned),
            ..Kubeconfig::default()
        }
    }

    fn check(contexts: &[&str], current: Option<&str>, wanted: Option<&str>, expected: Expect) {
        let said = match known_context(&file(contexts, current), wanted) {
            Ok(name) => name,
            Err(Hinted { what, hint }) => format!("{what} ({hint})"),
        };
        expected.assert_eq(&said);
    }

    #[test]
    fn the_given_context_counts_then_the_current_one() {
        check(&["hub", "member1"], Some("hub"), Some("member1"), expect!["member1"]);
        check(&["hub", "member1"], Some("hub"), None, expect!["hub"]);
    }

    #[test]
    fn a_context_that_is_not_there_is_answered_with_those_that_are() {
        let all = ["hub", "member1", "member2", "member3", "member4", "member5"];
        check(
            &all,
            Some("hub"),
            Some("huub"),
            expect![[r#"the kubeconfig has no context "huub" (did you mean --context hub?)"#]],
        );
        check(
            &all,
            None,
            Some("zzz"),
            expect![[
                r#"the kubeconfig has no context "zzz" (choose one with --context: hub, member1, member2, member3, member4, …)"#
            ]],
        );
        check(
            &all[..2],
            Some(""),
            None,
            expect!["the kubeconfig has no current context (choose one with --context: hub, member1)"],
        );
        check(
            &[],
            Some("gone"),
            None,
            expect![[
                r#"the kubeconfig has no context "gone" (it has no contexts at all; name another file with --kubeconfig or KUBECONFIG)"#
            ]],
        );
    }

    fn refused(code: u16, message: &str) -> String {
        let status = kube::core::Status { code, message: message.to_owned(), ..kube::core::Status::default() };
        let Hinted { what, hint } = explain("https://hub:6443", "list runs", &kube::Error::Api(Box::new(status)));
        format!("{what}\n{hint}")
    }

    #[test]
    fn what_usually_goes_wrong_is_told_in_a_line_with_a_hint() {
        expect![[r"
            the hub https://hub:6443 does not accept your credentials
            see to the user of the context, or choose another with --context"]]
        .assert_eq(&refused(401, "Unauthorized"));
        expect![[r#"
            you may not list runs: runs is forbidden: User "jo" cannot list
            `kubectl auth can-i --list` shows what you may do; --context chooses another user"#]]
        .assert_eq(&refused(403, "runs is forbidden: User \"jo\" cannot list\nmore"));
        assert!(refused(404, "the server could not find the requested resource").contains("so it is no hub"));
        assert_eq!(refused(500, "etcd is tired"), "cannot list runs: etcd is tired\n");
        expect![[r#"
            cannot list runs: run "a" is invalid: spec: Invalid value: invalid state transition: cannot transition from Initialize to Stop
            leave it in state Initialize, or delete it. A run that was never started cannot be stopped."#]]
        .assert_eq(&refused(
            422,
            "run \"a\" is invalid: spec: Invalid value: invalid state transition: cannot transition from Initialize to Stop",
        ));
        let gone = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "Connection refused");
        let told = explain("https://hub:6443", "list runs", &kube::Error::Service(Box::new(gone)));
        assert_eq!(told.what, "the hub https://hub:6443 cannot be reached: Connection refused");
    }

    #[test]
    fn an_address_is_told_without_what_is_secret_in_it() {
        assert_eq!(address(&"https://user:word@hub.example:6443/path".parse().unwrap()), "https://hub.example:6443");
    }
}
