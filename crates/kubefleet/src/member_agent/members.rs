//! The members that one process serves, and their clients: one member as in the Go agent, or one per kubeconfig in a
//! directory. All members share the connection to the hub, except those with their own token.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fleet_member::{MemberOptions, Properties};
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::environment::Environment;
use super::settings::Settings;
use crate::agent::connect;
use crate::agent::token_file::with_token_from;
use crate::output::Hinted;

/// Name in managed fields, events and access logs.
pub(super) const COMPONENT: &str = "fleet-member-agent";

/// Optional suffix of kubeconfig file names.
const ENDINGS: &[&str] = &["", ".kubeconfig", ".yaml", ".yml", ".conf"];
/// Suffix of token files of members.
const TOKEN_ENDING: &str = ".token";

/// A member with its two clients.
pub(super) struct Connected {
    pub(super) hub: kube::Client,
    pub(super) member: kube::Client,
    pub(super) options: MemberOptions,
}

/// The members that this process serves, sorted by name.
pub(super) async fn connect(settings: &Settings, environment: &Environment<'_>) -> anyhow::Result<Vec<Connected>> {
    let hub = Hub::of(settings, environment).await?;
    let Some(directory) = &settings.members else {
        let shared = hub.client(None, settings)?;
        let name = environment.member()?;
        let config = connect::config(settings.kubeconfig.as_deref()).await.context("cannot connect to the member")?;
        return Ok(vec![connected(&name, shared, config, settings)?]);
    };
    let shared = hub.client(None, settings)?;
    let mut members = Vec::new();
    for Found { name, kubeconfig, token } in found_in(directory)? {
        let hub = match token {
            Some(token) => hub.client(Some(&token), settings)?,
            None => connect::limited(shared.clone(), settings.hub_limit),
        };
        let config = connect::config(Some(&kubeconfig)).await?;
        members.push(connected(&name, hub, config, settings)?);
    }
    Ok(members)
}

fn connected(name: &str, hub: kube::Client, config: kube::Config, settings: &Settings) -> anyhow::Result<Connected> {
    let options = MemberOptions::new(name).with_context(|| format!("{name:?} is not a valid member name"))?;
    let options =
        options.with_properties(with_cluster_ca(&settings.properties, &config)).with_applier(settings.applier.clone());
    let member = connect::client(config, COMPONENT, settings.member_limit)?;
    Ok(Connected { hub, member, options })
}

/// Sets the CA of the member's API server, which property providers report.
fn with_cluster_ca(properties: &Properties, config: &kube::Config) -> Properties {
    let mut properties = properties.clone();
    if let Properties::Provider(provider) = &mut properties {
        let certificates = config.root_cert.iter().flatten().map(|der| pem(der));
        provider.certificate_authority = Some(certificates.collect::<String>()).filter(|text| !text.is_empty());
    }
    properties
}

/// Columns of base64 in a PEM file.
const PEM_COLUMNS: usize = 64;

fn pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines = text.as_bytes().chunks(PEM_COLUMNS).map(|line| String::from_utf8_lossy(line).into_owned());
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.collect::<Vec<_>>().join("\n"))
}

/// The connection to the hub.
struct Hub {
    config: kube::Config,
    /// The shared token file; `None` if the kubeconfig has credentials.
    token: Option<PathBuf>,
}

impl Hub {
    async fn of(settings: &Settings, environment: &Environment<'_>) -> anyhow::Result<Self> {
        if let Some(path) = &settings.hub_kubeconfig {
            let file = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the hub's kubeconfig {}", path.display()))?;
            let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
            let config = config.with_context(|| format!("cannot use the hub's kubeconfig {}", path.display()))?;
            return Ok(Self { config, token: None });
        }
        let mut config = environment.hub(settings.tls_insecure)?;
        if settings.use_ca_auth {
            let (key, certificate) = environment.identity()?;
            config.auth_info.client_key = Some(key);
            config.auth_info.client_certificate = Some(certificate);
            return Ok(Self { config, token: None });
        }
        Ok(Self { config, token: Some(environment.token_file().await?) })
    }

    /// A client with the token of the member, or with the shared credentials.
    fn client(&self, token: Option<&Path>, settings: &Settings) -> anyhow::Result<kube::Client> {
        let mut config = self.config.clone();
        if token.is_some() {
            config.auth_info = kube::config::AuthInfo::default();
        }
        let client = connect::client(config, COMPONENT, None).context("cannot connect to the hub")?;
        let client = match token.or(self.token.as_deref()) {
            Some(file) => with_token_from(client, file.to_owned()),
            None => client,
        };
        // Each member of a directory has its own rate limit.
        let limit = settings.hub_limit.filter(|_| token.is_some() || settings.members.is_none());
        Ok(connect::limited(client, limit))
    }
}

/// A member in a directory.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    name: String,
    kubeconfig: PathBuf,
    token: Option<PathBuf>,
}

/// The kubeconfigs of a directory by member name. Skips hidden files, tokens and directories.
fn found_in(directory: &Path) -> anyhow::Result<Vec<Found>> {
    let shown = directory.display();
    let entries = std::fs::read_dir(directory).with_context(|| format!("cannot read the directory {shown}"))?;
    let mut found: Vec<Found> = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read the directory {shown}"))?.path();
        let Some(file) = path.file_name().and_then(|name| name.to_str()).filter(|_| path.is_file()) else { continue };
        if file.starts_with('.') || file.ends_with(TOKEN_ENDING) {
            continue;
        }
        let name = ENDINGS.iter().rev().find_map(|ending| file.strip_suffix(ending)).unwrap_or(file).to_owned();
        let token = Some(directory.join(format!("{name}{TOKEN_ENDING}"))).filter(|token| token.is_file());
        found.push(Found { name, kubeconfig: path, token });
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    if let Some(twice) = found.windows(2).find(|pair| pair[0].name == pair[1].name) {
        anyhow::bail!("two kubeconfigs for the member {} in {shown}", twice[0].name);
    }
    if found.is_empty() {
        let hint = "the directory needs one kubeconfig per member, named after the member".to_owned();
        return Err(Hinted { what: format!("no kubeconfig found in {shown}"), hint }.into());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_named_after_their_kubeconfigs() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        assert!(found_in(directory.path()).unwrap_err().to_string().starts_with("no kubeconfig found in "));
        for name in ["b.kubeconfig", "a", "a.token", "c.yaml", ".hidden", "z.token"] {
            std::fs::write(path(name), "").unwrap();
        }
        std::fs::create_dir(path("d")).unwrap();
        let member = |name: &str, file: &str, token: Option<&str>| Found {
            name: name.to_owned(),
            kubeconfig: path(file),
            token: token.map(path),
        };
        let expected =
            vec![member("a", "a", Some("a.token")), member("b", "b.kubeconfig", None), member("c", "c.yaml", None)];
        assert_eq!(found_in(directory.path()).unwrap(), expected);
        std::fs::write(path("c.conf"), "").unwrap();
        let refused = found_in(directory.path()).unwrap_err().to_string();
        assert!(refused.starts_with("two kubeconfigs for the member c in "), "{refused}");
        assert!(found_in(&path("nowhere")).is_err());
    }

    #[test]
    fn a_ca_is_encoded_as_pem() {
        let text = pem(&[0; 60]);
        assert!(
            text.starts_with("-----BEGIN CERTIFICATE-----\nAAAA") && text.lines().all(|line| line.len() <= 64),
            "{text}"
        );
    }
}
