//! The server's certificate authority, server certificate and client certificates. A data directory keeps them, so that
//! clients stay valid over a restart.

use std::fs;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::auth::jwt::{TokenError, TokenKey};
use crate::auth::{Secret, User};
use crate::private;

const CA_NAME: &str = "kubernetes";
const CA_CERTIFICATE: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const TOKEN_KEY: &str = "service-account.key";
/// Certificates are for laptops and tests: long enough to be forgotten, short enough to end.
const VALID_YEARS: i16 = 10;
/// Names under which clients reach the server.
const NAMES: [&str; 5] =
    ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read or write {path}")]
    File { path: PathBuf, source: io::Error },
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
    #[error("cannot set up TLS")]
    Setup(#[from] rustls::Error),
    #[error("{what} is not valid PEM")]
    Pem { what: &'static str },
    #[error("cannot verify client certificates: {0}")]
    Verifier(String),
    #[error("{0:?} is not a host name")]
    HostName(String),
    #[error(transparent)]
    TokenKey(#[from] TokenError),
}

/// The keys of one server.
#[derive(Debug)]
pub struct Authority {
    ca_pem: String,
    ca_key: KeyPair,
    token_key: Arc<TokenKey>,
}

/// A client's certificate and key, both as PEM.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    pub certificate: String,
    pub key: Secret,
}

impl Authority {
    /// New keys that live as long as the process.
    pub fn generate(now: Timestamp) -> Result<Self, TlsError> {
        let ca_key = KeyPair::generate()?;
        let mut params = ca_params();
        set_validity(&mut params, now);
        let ca_pem = params.self_signed(&ca_key)?.pem();
        Ok(Self { ca_pem, ca_key, token_key: Arc::new(TokenKey::generate()?) })
    }

    /// The keys in a directory; made there on first use, readable by the owner only.
    pub(crate) fn load_or_generate(directory: &Path, now: Timestamp) -> Result<Self, TlsError> {
        let path = |name: &str| directory.join(name);
        if path(CA_KEY).exists() {
            let ca_key = KeyPair::from_pem(&read(&path(CA_KEY))?)?;
            let token_key = PrivateKeyDer::from_pem_slice(read(&path(TOKEN_KEY))?.as_bytes());
            let token_key = token_key.map_err(|_| TlsError::Pem { what: TOKEN_KEY })?;
            let token_key = Arc::new(TokenKey::from_pkcs8(token_key.secret_der())?);
            return Ok(Self { ca_pem: read(&path(CA_CERTIFICATE))?, ca_key, token_key });
        }
        let io = |source| TlsError::File { path: directory.to_owned(), source };
        private::create_directory(directory).and_then(|()| private::restrict_to_owner(directory)).map_err(io)?;
        let made = Self::generate(now)?;
        write_private(&path(TOKEN_KEY), &pem("PRIVATE KEY", made.token_key.to_pkcs8()))?;
        write_private(&path(CA_CERTIFICATE), &made.ca_pem)?;
        // Last, because its presence says that the others are complete.
        write_private(&path(CA_KEY), &made.ca_key.serialize_pem())?;
        Ok(made)
    }

    /// The certificate that clients trust.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    pub(crate) fn token_key(&self) -> &Arc<TokenKey> {
        &self.token_key
    }

    /// A client certificate for a user.
    pub fn client_certificate(&self, user: &User, now: Timestamp) -> Result<ClientCertificate, TlsError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user.name.as_str());
        // rcgen keeps one value per attribute, and one group is what an administrator's certificate needs.
        if let Some(group) = user.groups.iter().find(|group| *group != crate::auth::user::AUTHENTICATED) {
            params.distinguished_name.push(DnType::OrganizationName, group.as_str());
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        set_validity(&mut params, now);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer())?.pem();
        Ok(ClientCertificate { certificate, key: Secret::new(key.serialize_pem()) })
    }

    /// TLS for a listener that is reached under the usual names, loopback, and `hosts`.
    pub(crate) fn server_config(&self, hosts: &[String], now: Timestamp) -> Result<Arc<ServerConfig>, TlsError> {
        let key = KeyPair::generate()?;
        let certificate = self.server_certificate(&key, hosts, now)?;
        let ca = CertificateDer::from_pem_slice(self.ca_pem.as_bytes())
            .map_err(|_| TlsError::Pem { what: CA_CERTIFICATE })?;
        let mut roots = RootCertStore::empty();
        roots.add(ca.clone())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(|why| TlsError::Verifier(why.to_string()))?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(|_| TlsError::Pem { what: "server key" })?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate, ca], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn server_certificate(
        &self,
        key: &KeyPair,
        hosts: &[String],
        now: Timestamp,
    ) -> Result<CertificateDer<'static>, TlsError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.subject_alt_names = vec![
            SanType::IpAddress(IpAddr::from([127, 0, 0, 1])),
            SanType::IpAddress(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1_u16])),
        ];
        for host in NAMES.iter().copied().chain(hosts.iter().map(String::as_str)) {
            let name = match host.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(host.try_into().map_err(|_| TlsError::HostName(host.to_owned()))?),
            };
            params.subject_alt_names.push(name);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        set_validity(&mut params, now);
        Ok(params.signed_by(key, &self.issuer())?.der().clone())
    }

    fn issuer(&self) -> Issuer<'_, &KeyPair> {
        Issuer::new(ca_params(), &self.ca_key)
    }
}

fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, CA_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::CrlSign];
    params
}

/// From last year on, so that clocks a little behind agree, for about `VALID_YEARS`.
fn set_validity(params: &mut CertificateParams, now: Timestamp) {
    let year = now.to_zoned(TimeZone::UTC).year();
    params.not_before = date_time_ymd(i32::from(year - 1), 1, 1);
    params.not_after = date_time_ymd(i32::from(year + VALID_YEARS), 1, 1);
}

fn read(path: &Path) -> Result<String, TlsError> {
    fs::read_to_string(path).map_err(|source| TlsError::File { path: path.to_owned(), source })
}

fn write_private(path: &Path, text: &str) -> Result<(), TlsError> {
    let written = private::replace_private_file(path)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    written.map_err(|source| TlsError::File { path: path.to_owned(), source })
}

fn pem(label: &str, der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-06-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_directory_keeps_the_keys() {
        let directory = tempfile::tempdir().unwrap();
        let pki = directory.path().join("pki");
        let first = Authority::load_or_generate(&pki, now()).unwrap();
        let again = Authority::load_or_generate(&pki, now()).unwrap();
        assert_eq!(first.ca_pem(), again.ca_pem());
        assert_eq!(first.token_key().to_pkcs8(), again.token_key().to_pkcs8());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(pki.join(CA_KEY)).unwrap().permissions().mode() & 0o777, 0o600);
        }
        again.server_config(&["example.test".to_owned(), "10.0.0.1".to_owned()], now()).unwrap();
        assert!(again.server_config(&["bad name é".to_owned()], now()).is_err());
    }

    #[test]
    fn a_client_certificate_names_user_and_group() {
        let authority = Authority::generate(now()).unwrap();
        let jane = User::authenticated("jane", ["system:masters".to_owned()]);
        let made = authority.client_certificate(&jane, now()).unwrap();
        let der = CertificateDer::from_pem_slice(made.certificate.as_bytes()).unwrap();
        assert_eq!(super::super::subject::user_of_certificate(&der), Some(jane));
        assert!(!format!("{made:?}").contains("PRIVATE KEY"));
    }

    #[test]
    fn a_damaged_directory_is_an_error_not_a_new_authority() {
        let directory = tempfile::tempdir().unwrap();
        Authority::load_or_generate(directory.path(), now()).unwrap();
        fs::remove_file(directory.path().join(CA_CERTIFICATE)).unwrap();
        assert!(matches!(Authority::load_or_generate(directory.path(), now()), Err(TlsError::File { .. })));
    }
}
