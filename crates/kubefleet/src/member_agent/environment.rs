//! The connection to the hub from the environment variables of the Go agent. Missing and contradictory values are rejected
//! before anything connects. Values are never logged.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use http::{HeaderName, HeaderValue};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::output::Hinted;

/// Attempts to find the token file, and the delay between them: a side-car writes the file.
const TOKEN_LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

const BOTH_AUTHORITIES: &str =
    "environment variables CA_BUNDLE and HUB_CERTIFICATE_AUTHORITY should not be set at same time";

/// Source of environment variables; replaced in tests.
pub(super) struct Environment<'a>(pub(super) &'a dyn Fn(&str) -> Option<OsString>);

impl Environment<'_> {
    /// The variable as text; `None` if it is not set.
    fn get(&self, name: &str) -> anyhow::Result<Option<String>> {
        let value = (self.0)(name).map(OsString::into_string).transpose();
        value.map_err(|_| anyhow::anyhow!("the environment variable {name} is not text"))
    }

    fn required(&self, name: &str, hint: &str) -> anyhow::Result<String> {
        self.get(name)?.filter(|text| !text.is_empty()).ok_or_else(|| {
            Hinted { what: format!("the environment variable {name} is not set"), hint: hint.to_owned() }.into()
        })
    }

    /// An unset variable is valid, an empty one is an error.
    fn not_empty(&self, name: &str) -> anyhow::Result<Option<String>> {
        let value = self.get(name)?;
        anyhow::ensure!(value.as_deref() != Some(""), "the environment variable {name} is set but empty");
        Ok(value)
    }

    /// `MEMBER_CLUSTER_NAME`.
    pub(super) fn member(&self) -> anyhow::Result<String> {
        self.required("MEMBER_CLUSTER_NAME", "set it to the name of this cluster's MemberCluster on the hub")
    }

    /// The token file for the hub; waits until it exists.
    pub(super) async fn token_file(&self) -> anyhow::Result<PathBuf> {
        let hint = "set CONFIG_PATH to the file with the token for the hub, or use certificates with --use-ca-auth";
        let path = PathBuf::from(self.required("CONFIG_PATH", hint)?);
        for look in 1..=TOKEN_LOOKS {
            if path.is_file() {
                return Ok(path);
            }
            if look < TOKEN_LOOKS {
                tokio::time::sleep(BETWEEN_LOOKS).await;
            }
        }
        anyhow::bail!("the file {}, named by CONFIG_PATH, does not exist", path.display())
    }

    /// The connection to the hub, without credentials.
    pub(super) fn hub(&self, tls_insecure: bool) -> anyhow::Result<kube::Config> {
        let url =
            self.required("HUB_SERVER_URL", "set it to the address of the hub's API server, or use --hub-kubeconfig")?;
        let url: http::Uri = url.parse().with_context(|| format!("HUB_SERVER_URL is not a valid address: {url}"))?;
        let mut config = kube::Config::new(url);
        config.proxy_url = self.proxy(config.cluster_url.host().unwrap_or_default())?;
        config.headers = self.headers()?;
        if tls_insecure {
            tracing::warn!("TLS verification of the hub is disabled");
            config.accept_invalid_certs = true;
            return Ok(config);
        }
        match (self.not_empty("CA_BUNDLE")?, self.not_empty("HUB_CERTIFICATE_AUTHORITY")?) {
            (Some(_), Some(_)) => anyhow::bail!(BOTH_AUTHORITIES),
            (Some(path), None) => config.root_cert = Some(authorities(&read(&path, "CA_BUNDLE")?, "CA_BUNDLE")?),
            (None, Some(text)) => {
                let pem = base64(&text).context("HUB_CERTIFICATE_AUTHORITY is not base64")?;
                config.root_cert = Some(authorities(&pem, "HUB_CERTIFICATE_AUTHORITY")?);
            }
            (None, None) => {}
        }
        Ok(config)
    }

    /// The client certificate for the hub.
    pub(super) fn identity(&self) -> anyhow::Result<(String, String)> {
        let hint = "--use-ca-auth needs both IDENTITY_KEY and IDENTITY_CERT, paths of PEM files";
        let key = self.required("IDENTITY_KEY", hint)?;
        let certificate = self.required("IDENTITY_CERT", hint)?;
        for (name, path) in [("IDENTITY_KEY", &key), ("IDENTITY_CERT", &certificate)] {
            read(path, name)?;
        }
        Ok((key, certificate))
    }

    /// `HUB_KUBE_HEADER`: HTTP headers, one per line.
    fn headers(&self) -> anyhow::Result<Vec<(HeaderName, HeaderValue)>> {
        let block = self.get("HUB_KUBE_HEADER")?.unwrap_or_default();
        block.lines().filter(|line| !line.trim().is_empty()).map(header).collect()
    }

    /// The proxy for a host, from `HTTPS_PROXY` and `NO_PROXY`.
    fn proxy(&self, host: &str) -> anyhow::Result<Option<http::Uri>> {
        let either = |upper: &str, lower: &str| anyhow::Ok(self.get(upper)?.or(self.get(lower)?).unwrap_or_default());
        let (proxy, exempt) = (either("HTTPS_PROXY", "https_proxy")?, either("NO_PROXY", "no_proxy")?);
        if proxy.is_empty() || exempt.split(',').map(str::trim).any(|pattern| is_exempt(pattern, host)) {
            return Ok(None);
        }
        let with_scheme = if proxy.contains("://") { proxy.clone() } else { format!("http://{proxy}") };
        with_scheme.parse().map(Some).with_context(|| format!("HTTPS_PROXY is not a valid address: {proxy}"))
    }
}

/// A domain matches its subdomains; `*` matches everything.
fn is_exempt(pattern: &str, host: &str) -> bool {
    let domain = pattern.trim_start_matches('.');
    pattern == "*"
        || (!domain.is_empty()
            && (host.eq_ignore_ascii_case(domain)
                || host.to_ascii_lowercase().ends_with(&format!(".{}", domain.to_ascii_lowercase()))))
}

fn header(line: &str) -> anyhow::Result<(HeaderName, HeaderValue)> {
    let wrong = || format!("HUB_KUBE_HEADER has an invalid header: {line:?}");
    let (name, value) = line.split_once(':').with_context(wrong)?;
    let name = name.trim().parse().with_context(wrong)?;
    let mut value: HeaderValue = value.trim().parse().with_context(wrong)?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn read(path: &str, variable: &str) -> anyhow::Result<Vec<u8>> {
    std::fs::read(Path::new(path)).with_context(|| format!("cannot read {path}, named by {variable}"))
}

fn authorities(pem: &[u8], variable: &str) -> anyhow::Result<Vec<Vec<u8>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.with_context(|| format!("{variable} contains an invalid certificate"))?;
    anyhow::ensure!(!found.is_empty(), "{variable} contains no certificate");
    Ok(found.into_iter().map(|certificate| certificate.to_vec()).collect())
}

fn base64(text: &str) -> anyhow::Result<Vec<u8>> {
    use base64::Engine as _;
    Ok(base64::engine::general_purpose::STANDARD.decode(text.trim())?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const PEM: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    /// The result of `act` in an environment, or its error.
    fn with<T>(
        variables: &[(&str, &str)],
        act: impl FnOnce(&Environment<'_>) -> anyhow::Result<T>,
    ) -> Result<T, String> {
        let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
        let get = |name: &str| variables.get(name).map(OsString::from);
        act(&Environment(&get)).map_err(|error| format!("{error:#}"))
    }

    fn hub(variables: &[(&str, &str)]) -> Result<kube::Config, String> {
        let mut all = vec![("HUB_SERVER_URL", "https://hub.example:6443")];
        all.extend_from_slice(variables);
        with(&all, |environment| environment.hub(false))
    }

    fn encoded(text: &str) -> String {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(text)
    }

    #[test]
    fn applier_s74_what_is_missing_or_empty_is_named() {
        let missing = |name: &str| format!("the environment variable {name} is not set");
        assert_eq!(with(&[], |environment| environment.hub(false)).unwrap_err(), missing("HUB_SERVER_URL"));
        assert_eq!(
            with(&[("MEMBER_CLUSTER_NAME", "")], |environment| environment.member().map(drop)).unwrap_err(),
            missing("MEMBER_CLUSTER_NAME")
        );
        assert_eq!(
            with(&[("IDENTITY_CERT", "/c")], |environment| environment.identity().map(drop)).unwrap_err(),
            missing("IDENTITY_KEY")
        );
        assert_eq!(hub(&[("CA_BUNDLE", "")]).unwrap_err(), "the environment variable CA_BUNDLE is set but empty");
        assert_eq!(
            hub(&[("HUB_CERTIFICATE_AUTHORITY", "")]).unwrap_err(),
            "the environment variable HUB_CERTIFICATE_AUTHORITY is set but empty"
        );
    }

    #[test]
    fn applier_s74_two_authorities_are_one_too_many() {
        let authority = encoded(PEM);
        let both = [("CA_BUNDLE", "/ca.pem"), ("HUB_CERTIFICATE_AUTHORITY", authority.as_str())];
        assert_eq!(hub(&both).unwrap_err(), BOTH_AUTHORITIES);
    }

    #[test]
    fn authorities_are_read_from_text_and_from_files() {
        let config = hub(&[("HUB_CERTIFICATE_AUTHORITY", &encoded(PEM))]).unwrap();
        assert_eq!(config.root_cert, Some(vec![vec![0, 0, 0]]));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{PEM}{PEM}")).unwrap();
        let config = hub(&[("CA_BUNDLE", file.path().to_str().unwrap())]).unwrap();
        assert_eq!(config.root_cert.unwrap().len(), 2);
        assert_eq!(hub(&[]).unwrap().root_cert, None, "the system's");
        let refused = hub(&[("HUB_CERTIFICATE_AUTHORITY", "not base64!")]).unwrap_err();
        assert!(refused.starts_with("HUB_CERTIFICATE_AUTHORITY is not base64"), "{refused}");
        let refused = hub(&[("HUB_CERTIFICATE_AUTHORITY", &encoded("text"))]).unwrap_err();
        assert_eq!(refused, "HUB_CERTIFICATE_AUTHORITY contains no certificate");
        let refused = hub(&[("CA_BUNDLE", "/no/such/file")]).unwrap_err();
        assert!(refused.starts_with("cannot read /no/such/file, named by CA_BUNDLE"), "{refused}");
    }

    #[test]
    fn an_unverified_hub_needs_no_authority() {
        let variables = [("HUB_SERVER_URL", "https://hub"), ("CA_BUNDLE", "")];
        let config = with(&variables, |environment| environment.hub(true)).unwrap();
        assert!(config.accept_invalid_certs && config.root_cert.is_none());
    }

    #[test]
    fn headers_are_added_to_every_request() {
        let config = hub(&[("HUB_KUBE_HEADER", "X-Fleet: a: b\r\n\r\nx-other:c\n")]).unwrap();
        let headers: Vec<(String, &str)> =
            config.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap())).collect();
        assert_eq!(headers, [("x-fleet".to_owned(), "a: b"), ("x-other".to_owned(), "c")]);
        assert!(hub(&[("HUB_KUBE_HEADER", "no header")]).unwrap_err().contains("has an invalid header"));
    }

    #[test]
    fn a_proxy_is_used_unless_the_hub_is_exempt() {
        let proxy = |exempt: &str| {
            let config = hub(&[("https_proxy", "proxy.example:3128"), ("NO_PROXY", exempt)]).unwrap();
            config.proxy_url.map(|url| url.to_string())
        };
        assert_eq!(proxy("").as_deref(), Some("http://proxy.example:3128/"));
        assert_eq!(proxy("other.example, b.example").as_deref(), Some("http://proxy.example:3128/"));
        assert_eq!(proxy("ub.example").as_deref(), Some("http://proxy.example:3128/"));
        for exempt in ["*", "hub.example", ".example", "x, EXAMPLE"] {
            assert_eq!(proxy(exempt), None, "{exempt}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn applier_s74_a_token_file_must_be_there() {
        let get = |name: &str| (name == "CONFIG_PATH").then(|| OsString::from("/no/such/token"));
        let refused = Environment(&get).token_file().await.unwrap_err();
        assert_eq!(refused.to_string(), "the file /no/such/token, named by CONFIG_PATH, does not exist");
        let refused = Environment(&|_| None).token_file().await.unwrap_err();
        assert_eq!(refused.to_string(), "the environment variable CONFIG_PATH is not set");
        let file = tempfile::NamedTempFile::new().unwrap();
        let get = |_: &str| Some(file.path().as_os_str().to_owned());
        assert_eq!(Environment(&get).token_file().await.unwrap(), file.path());
    }
}
