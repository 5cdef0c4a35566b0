//! The connection to the hub, chosen as kubectl does: `--kubeconfig`, else `KUBECONFIG`, else `~/.kube/config`, else the
//! service account of the pod; `--context`, else the current context. `-n` selects namespaced kinds instead of cluster-scoped
//! ones. Common errors are explained with a hint.

use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fleet_core::diagnose::explain_refusal;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::rights::MissingRight;
use crate::agent::connect;
use crate::nearest::{alternatives, nearest};
use crate::output::Hinted;

/// Name in access logs and managed fields.
pub(crate) const AGENT: &str = "kubectl-fleet";
/// Timeout of a connection.
const LONGEST_CONNECT: Duration = Duration::from_secs(10);
/// Set in every pod.
const IN_A_POD: &str = "KUBERNETES_SERVICE_HOST";
/// Maximum number of contexts in a hint.
const CONTEXTS_SHOWN: usize = 5;

/// Flags of every command, as in kubectl.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct HubFlags {
    /// Namespace of the placement and its runs; omit it for cluster-scoped ones
    #[arg(short, long, value_name = "NAMESPACE", help_heading = "Hub")]
    pub(crate) namespace: Option<String>,
    /// Context of the hub in the kubeconfig; defaults to the current context
    #[arg(
        long,
        value_name = "NAME",
        visible_alias = "hub-cluster-context",
        alias = "hubClusterContext",
        help_heading = "Hub"
    )]
    pub(crate) context: Option<String>,
    /// Path to the kubeconfig; defaults to KUBECONFIG, then ~/.kube/config
    #[arg(long, value_name = "FILE", help_heading = "Hub")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

/// A hub with its client; for `join` and `leave` also a member.
pub(crate) struct Hub {
    pub(crate) client: kube::Client,
    /// `None` for cluster-scoped kinds.
    pub(crate) namespace: Option<String>,
    /// What messages call it: `hub`, or `member`.
    pub(crate) role: &'static str,
    /// The address, for messages.
    pub(crate) server: String,
    /// The context of the kubeconfig; `None` in a pod.
    pub(crate) context: Option<String>,
    /// The kubeconfig, which may have contexts of members.
    kubeconfig: Option<Kubeconfig>,
}

/// How another program can connect to a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) url: String,
    /// The CA in PEM; `None` if the certificate is checked with the CAs of the system.
    pub(crate) authority: Option<Vec<u8>>,
    /// Whether the kubeconfig checks the certificate.
    pub(crate) is_verified: bool,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("server", &self.server).field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl HubFlags {
    /// Creates the client; sends no request.
    pub(crate) async fn connect(&self) -> anyhow::Result<Hub> {
        self.connect_as("hub").await
    }

    /// The same for a cluster that messages call `role`.
    pub(crate) async fn connect_as(&self, role: &'static str) -> anyhow::Result<Hub> {
        let kubeconfig = self.read()?;
        let (config, context) = match &kubeconfig {
            Some(file) => {
                let context = known_context(file, self.context.as_deref())?;
                (config_of(file, Some(&context)).await?, Some(context))
            }
            None => (kube::Config::incluster().context("cannot use the pod's service account")?, None),
        };
        let server = address(&config.cluster_url);
        Ok(Hub { client: client_of(config)?, namespace: self.namespace.clone(), role, server, context, kubeconfig })
    }

    /// Names of the contexts.
    pub(crate) fn contexts(&self) -> anyhow::Result<Vec<String>> {
        let contexts = self.read()?.map(|file| file.contexts).unwrap_or_default();
        Ok(contexts.into_iter().map(|context| context.name).collect())
    }

    /// `None` without a kubeconfig in a pod.
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
    /// The same connection for the kinds of a namespace, or for cluster-scoped kinds.
    pub(crate) fn in_namespace(&self, namespace: Option<&str>) -> Self {
        Self {
            client: self.client.clone(),
            namespace: namespace.map(str::to_owned),
            role: self.role,
            server: self.server.clone(),
            context: self.context.clone(),
            kubeconfig: self.kubeconfig.clone(),
        }
    }

    /// A client of a member, if the kubeconfig has a context with its name.
    pub(crate) async fn member(&self, cluster: &str) -> anyhow::Result<Option<kube::Client>> {
        let Some(file) = &self.kubeconfig else { return Ok(None) };
        if !file.contexts.iter().any(|context| context.name == cluster) {
            return Ok(None);
        }
        client_of(config_of(file, Some(cluster)).await?).map(Some)
    }

    /// The address and the CA in the kubeconfig.
    pub(crate) fn endpoint(&self) -> anyhow::Result<Endpoint> {
        let (Some(file), Some(context)) = (&self.kubeconfig, &self.context) else {
            return Err(Hinted {
                what: format!("the address of the {} for other clusters is unknown in a pod", self.role),
                hint: "use a kubeconfig with --kubeconfig or KUBECONFIG".to_owned(),
            }
            .into());
        };
        let context = file.contexts.iter().find(|one| one.name == *context).and_then(|one| one.context.as_ref());
        let name = context.map(|context| context.cluster.as_str()).unwrap_or_default();
        let named = file.clusters.iter().find(|one| one.name == name).and_then(|one| one.cluster.as_ref());
        let cluster = named.with_context(|| format!("the kubeconfig has no cluster {name:?}"))?;
        let authority = match (&cluster.certificate_authority_data, &cluster.certificate_authority) {
            (Some(data), _) => Some(BASE64.decode(data).context("certificate-authority-data is not base64")?),
            (None, Some(path)) => {
                Some(std::fs::read(path).with_context(|| format!("cannot read the CA {path} of the kubeconfig"))?)
            }
            (None, None) => None,
        };
        Ok(Endpoint {
            url: cluster.server.clone().unwrap_or_default(),
            authority,
            is_verified: !cluster.insecure_skip_tls_verify.unwrap_or(false),
        })
    }

    /// The error for a failed request; `doing` completes "cannot …".
    pub(crate) fn failed(&self, doing: impl fmt::Display, error: &kube::Error) -> anyhow::Error {
        let Hinted { what, hint } = explain((self.role, &self.server), &doing.to_string(), error);
        if hint.is_empty() { anyhow::anyhow!(what) } else { Hinted { what, hint }.into() }
    }
}

async fn config_of(file: &Kubeconfig, context: Option<&str>) -> anyhow::Result<kube::Config> {
    let name = known_context(file, context)?;
    let options = KubeConfigOptions { context: Some(name.clone()), ..KubeConfigOptions::default() };
    let config = kube::Config::from_custom_kubeconfig(file.clone(), &options).await;
    let mut config = config.map_err(|error| Hinted {
        what: format!("cannot use the context {name:?} of the kubeconfig: {}", first_line(&error.to_string())),
        hint: "choose another context with --context, or fix this one".to_owned(),
    })?;
    config.connect_timeout = Some(LONGEST_CONNECT);
    Ok(config)
}

fn client_of(config: kube::Config) -> anyhow::Result<kube::Client> {
    connect::client(config, AGENT, None)
}

/// The chosen context; fails if the kubeconfig does not have it.
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
        return "the file has no contexts; specify another with --kubeconfig or KUBECONFIG".to_owned();
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
            "specify one with --kubeconfig or KUBECONFIG; `kubefleet up` starts a test fleet and writes one",
        ),
        KubeconfigError::FindPath => (
            "no kubeconfig found".to_owned(),
            "specify one with --kubeconfig or KUBECONFIG; `kubefleet up` starts a test fleet and writes one",
        ),
        KubeconfigError::Parse(error) => (
            format!(
                "the kubeconfig {file} is invalid: {}",
                first_line(&error.to_string()).trim_start_matches("error: ")
            ),
            "fix it, or specify another with --kubeconfig or KUBECONFIG",
        ),
        other => (
            format!("cannot use the kubeconfig {file}: {}", first_line(&other.to_string())),
            "fix it, or specify another with --kubeconfig or KUBECONFIG",
        ),
    };
    Hinted { what, hint: hint.to_owned() }.into()
}

/// Explains a failed request in one line with a hint, which may be empty.
fn explain((role, server): (&str, &str), doing: &str, error: &kube::Error) -> Hinted {
    use kube::Error as E;
    let (what, hint) = match error {
        E::Api(status) => return explain_status((role, server), doing, status),
        E::Service(_) | E::HyperError(_) | E::ReadEvents(_) => (
            format!("cannot connect to the {role} {server}: {}", innermost(error)),
            "check that it is running, or choose another with --context or --kubeconfig",
        ),
        E::Auth(_) => (
            format!("cannot log in to the {role} {server}: {}", innermost(error)),
            "check the credentials of the context, or choose another with --context",
        ),
        _ => (format!("cannot {doing}: {}", first_line(&innermost(error))), ""),
    };
    Hinted { what, hint: hint.to_owned() }
}

fn explain_status((role, server): (&str, &str), doing: &str, status: &kube::core::Status) -> Hinted {
    let message = first_line(&status.message);
    let names_an_object = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
    let (what, hint) = match status.code {
        401 => (
            format!("the {role} {server} does not accept your credentials"),
            "check the user of the context, or choose another with --context",
        ),
        403 => return forbidden(doing, message),
        404 if !names_an_object => (
            format!("cannot {doing}: the cluster {server} does not serve this kind, so it is not a hub"),
            "choose the hub's context with --context, or install the CRDs: kubefleet crds | kubectl apply --server-side -f -",
        ),
        _ => return Hinted { what: format!("cannot {doing}: {message}"), hint: remedy(&status.message) },
    };
    Hinted { what, hint: hint.to_owned() }
}

/// The fix that `diagnose` knows for a rejection, or nothing.
fn remedy(refusal: &str) -> String {
    let Some(finding) = explain_refusal(refusal) else { return String::new() };
    let what = finding.fixes.first().map(|fix| format!("{}. ", fix.what)).unwrap_or_default();
    format!("{what}{}", finding.explanation)
}

/// Explains a missing permission.
fn forbidden(doing: &str, message: &str) -> Hinted {
    match MissingRight::read(message) {
        Some(right) => Hinted {
            what: format!("not allowed to {doing}: {}", right.describe()),
            hint: format!(
                "ask for that permission (`{}` checks it), or choose another user with --context",
                right.test()
            ),
        },
        None => Hinted {
            what: format!("not allowed to {doing}: {message}"),
            hint: "`kubectl auth can-i --list` shows your permissions; --context chooses another user".to_owned(),
        },
    }
}

/// The innermost cause, which is the most specific.
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

/// Removes user and password from an address.
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
    fn the_context_flag_precedes_the_current_context() {
        check(&["hub", "member1"], Some("hub"), Some("member1"), expect!["member1"]);
        check(&["hub", "member1"], Some("hub"), None, expect!["hub"]);
    }

    #[test]
    fn a_missing_context_is_reported_with_the_existing_ones() {
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
                r#"the kubeconfig has no context "gone" (the file has no contexts; specify another with --kubeconfig or KUBECONFIG)"#
            ]],
        );
    }

    fn refused(code: u16, message: &str) -> String {
        let status = kube::core::Status { code, message: message.to_owned(), ..kube::core::Status::default() };
        let Hinted { what, hint } =
            explain(("hub", "https://hub:6443"), "list runs", &kube::Error::Api(Box::new(status)));
        format!("{what}\n{hint}")
    }

    #[test]
    fn common_errors_are_explained_in_one_line_with_a_hint() {
        expect![[r"
            the hub https://hub:6443 does not accept your credentials
            check the user of the context, or choose another with --context"]]
        .assert_eq(&refused(401, "Unauthorized"));
        expect![[r#"
            not allowed to list runs: runs is forbidden: User "jo" cannot list
            `kubectl auth can-i --list` shows your permissions; --context chooses another user"#]]
        .assert_eq(&refused(403, "runs is forbidden: User \"jo\" cannot list\nmore"));
        assert!(refused(404, "the server could not find the requested resource").contains("so it is not a hub"));
        assert_eq!(refused(500, "etcd is tired"), "cannot list runs: etcd is tired\n");
        expect![[r#"
            cannot list runs: run "a" is invalid: spec: Invalid value: invalid state transition: cannot transition from Initialize to Stop
            leave it in state Initialize, or delete it. A run that was never started cannot be stopped."#]]
        .assert_eq(&refused(
            422,
            "run \"a\" is invalid: spec: Invalid value: invalid state transition: cannot transition from Initialize to Stop",
        ));
        let gone = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "Connection refused");
        let explained = explain(("hub", "https://hub:6443"), "list runs", &kube::Error::Service(Box::new(gone)));
        assert_eq!(explained.what, "cannot connect to the hub https://hub:6443: Connection refused");
    }

    #[test]
    fn an_address_is_shown_without_credentials() {
        assert_eq!(address(&"https://user:word@hub.example:6443/path".parse().unwrap()), "https://hub.example:6443");
    }
}
