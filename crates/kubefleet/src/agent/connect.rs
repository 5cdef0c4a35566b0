//! The connection of an agent to an API server: kubeconfig lookup, client identity and rate limit. The lookup order is that of
//! the Go agents: `--kubeconfig`, `KUBECONFIG`, the service account of the pod, `~/.kube/config`. Logs contain only the
//! address of a connection.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Context as _;
use http::HeaderValue;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::flags::{Flags, Problem};
pub(crate) use super::throttle::Limit;
use super::throttle::throttled;
use crate::output::Hinted;

/// Environment variable with the paths of kubeconfigs.
const KUBECONFIG: &str = "KUBECONFIG";
/// Set in every pod.
const IN_A_POD: &str = "KUBERNETES_SERVICE_HOST";

/// Where the connection settings come from.
#[derive(Debug, PartialEq, Eq)]
enum Source<'a> {
    File(&'a Path),
    /// The files that `KUBECONFIG` names.
    Environment,
    /// The service account of the pod that this process runs in.
    Pod,
    /// `~/.kube/config`.
    Home,
}

impl<'a> Source<'a> {
    fn of(kubeconfig: Option<&'a Path>, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
        match kubeconfig {
            Some(path) => Source::File(path),
            None if is_set(KUBECONFIG) => Source::Environment,
            None if is_set(IN_A_POD) => Source::Pod,
            None => Source::Home,
        }
    }
}

/// The connection settings: the current context of a kubeconfig, or the service account of the pod.
pub(crate) async fn config(kubeconfig: Option<&Path>) -> anyhow::Result<kube::Config> {
    let options = KubeConfigOptions::default();
    match Source::of(kubeconfig, |name| std::env::var_os(name)) {
        Source::File(path) => {
            let file = Kubeconfig::read_from(path);
            let file = file.with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
            let config = kube::Config::from_custom_kubeconfig(file, &options).await;
            config.with_context(|| format!("cannot use the kubeconfig {}", path.display()))
        }
        Source::Environment => {
            let file = Kubeconfig::from_env().context("cannot read the kubeconfig named by KUBECONFIG")?;
            let file = file.context("KUBECONFIG does not name a file")?;
            let config = kube::Config::from_custom_kubeconfig(file, &options).await;
            config.context("cannot use the kubeconfig named by KUBECONFIG")
        }
        Source::Pod => kube::Config::incluster().context("cannot use the pod's service account"),
        Source::Home => kube::Config::from_kubeconfig(&options).await.map_err(|error| {
            let hint = "name a kubeconfig with --kubeconfig or KUBECONFIG, or run in a pod with a service account";
            let what = format!("no API server to connect to: {error}");
            Hinted { what, hint: hint.to_owned() }.into()
        }),
    }
}

/// A client with the user agent `agent` and an optional rate limit.
pub(crate) fn client(mut config: kube::Config, agent: &str, limit: Option<Limit>) -> anyhow::Result<kube::Client> {
    let introduction = HeaderValue::from_str(&format!("{agent}/{}", env!("CARGO_PKG_VERSION")));
    config.headers.push((http::header::USER_AGENT, introduction.context("invalid user agent name")?));
    tracing::info!(server = address(&config.cluster_url), "connecting");
    let client =
        kube::Client::try_from(config).context("cannot use the certificates or credentials of the connection")?;
    Ok(limited(client, limit))
}

/// The rate limit of `--<whose>-qps` and `--<whose>-burst`.
pub(crate) fn limit(flags: &Flags, whose: &str, problems: &mut Vec<Problem>) -> Option<Limit> {
    let rate = flags.rate(&format!("{whose}-qps"))?;
    let burst = u32::try_from(flags.integer(&format!("{whose}-burst"))).map(f64::from).unwrap_or_default();
    if burst < rate {
        problems.push(Problem::new(format!("--{whose}-burst ({burst}) must not be below --{whose}-qps ({rate})")));
    }
    Some(Limit { rate, burst })
}

/// The same client with its own rate limit, if there is one.
pub(crate) fn limited(client: kube::Client, limit: Option<Limit>) -> kube::Client {
    match limit {
        Some(limit) => throttled(client, limit),
        None => client,
    }
}

/// Removes user and password from an address.
fn address(url: &http::Uri) -> String {
    let host = url.host().unwrap_or_default();
    url.port_u16().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_credentials() {
        assert_eq!(address(&"https://user:word@hub.example:6443/path".parse().unwrap()), "hub.example:6443");
        assert_eq!(address(&"https://hub.example".parse().unwrap()), "hub.example");
    }

    #[test]
    fn flags_precede_the_environment_and_the_environment_precedes_the_pod() {
        let source = |flag: Option<&'static str>, set: &[(&str, &str)]| {
            let variable = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into());
            Source::of(flag.map(Path::new), variable)
        };
        let (named, pod) = ((KUBECONFIG, "/a:/b"), (IN_A_POD, "10.0.0.1"));
        assert_eq!(source(Some("/x"), &[named, pod]), Source::File(Path::new("/x")));
        assert_eq!(source(None, &[named, pod]), Source::Environment);
        assert_eq!(source(None, &[(KUBECONFIG, ""), pod]), Source::Pod);
        assert_eq!(source(None, &[]), Source::Home);
    }

    #[tokio::test]
    async fn the_error_names_a_missing_kubeconfig() {
        let error = config(Some(Path::new("/no/such/file"))).await.unwrap_err();
        assert_eq!(error.to_string(), "cannot read the kubeconfig /no/such/file");
    }
}
