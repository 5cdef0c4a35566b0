//! The serving certificate of the webhook server. Either generated at start from a throw-away CA, or the files of
//! cert-manager, which are read again when they change. Private keys are never stored.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context as _;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, crypto};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::callers::Callers;
use crate::output::Hinted;

const AUTHORITY: &str = "kubefleet-webhooks";
const VALID_YEARS: i16 = 10;
const CERTIFICATE_FILE: &str = "tls.crt";
const KEY_FILE: &str = "tls.key";

/// The TLS configuration of the server, and the CA that its clients must trust.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) authority_pem: String,
    pub(super) tls: Arc<ServerConfig>,
}

/// The DNS names of a Service in webhook configurations, by reference and by URL.
pub(super) fn names(service: &str, namespace: &str) -> [String; 2] {
    [format!("{service}.{namespace}.svc"), format!("{service}.{namespace}.svc.cluster.local")]
}

/// A new CA and a certificate for these names.
pub(super) fn generate(names: &[String], callers: &Callers, now: Timestamp) -> anyhow::Result<Own> {
    let (authority_key, key) = (KeyPair::generate()?, KeyPair::generate()?);
    let mut authority = params(AUTHORITY, now, Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let authority_pem = authority.self_signed(&authority_key)?.pem();
    let common_name = names.first().map_or(AUTHORITY, String::as_str);
    let mut server = params(common_name, now, names.to_vec())?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = server.signed_by(&key, &Issuer::new(authority, &authority_key))?;
    let private = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
    let provider = provider();
    let certified = CertifiedKey::from_der(vec![certificate.der().clone()], private, &provider)?;
    let resolver = Arc::new(rustls::sign::SingleCertAndKey::from(certified));
    Ok(Own { authority_pem, tls: server_config(provider, callers, resolver)? })
}

fn params(common_name: &str, now: Timestamp, names: Vec<String>) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    // Valid from last year on, because clocks may differ.
    let year = now.to_zoned(TimeZone::UTC).year();
    params.not_before = date_time_ymd(i32::from(year - 1), 1, 1);
    params.not_after = date_time_ymd(i32::from(year + VALID_YEARS), 1, 1);
    Ok(params)
}

/// TLS with the files of a directory. They must exist now and may change later.
pub(super) fn from_files(directory: &Path, callers: &Callers) -> anyhow::Result<Arc<ServerConfig>> {
    let files = Files { directory: directory.to_owned(), provider: provider(), kept: Mutex::new(None) };
    files.look().map_err(|error| Hinted {
        what: format!("no certificate found in {}: {error:#}", directory.display()),
        hint: format!(
            "mount the secret that cert-manager keeps there ({CERTIFICATE_FILE} and {KEY_FILE}), or leave \
             --use-cert-manager out"
        ),
    })?;
    server_config(provider(), callers, Arc::new(files))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(crypto::ring::default_provider())
}

fn server_config(
    provider: Arc<CryptoProvider>,
    callers: &Callers,
    resolver: Arc<dyn ResolvesServerCert>,
) -> anyhow::Result<Arc<ServerConfig>> {
    let verifier = callers.verifier(&provider)?;
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_client_cert_verifier(verifier).with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A certificate in files, checked for changes at every handshake.
#[derive(Debug)]
struct Files {
    directory: PathBuf,
    provider: Arc<CryptoProvider>,
    kept: Mutex<Option<(Stamp, Arc<CertifiedKey>)>>,
}

/// Modification times of the two files.
type Stamp = [SystemTime; 2];

impl Files {
    fn look(&self) -> anyhow::Result<Arc<CertifiedKey>> {
        let path = |name: &str| self.directory.join(name);
        let written = |name: &str| {
            let read = std::fs::metadata(path(name)).and_then(|metadata| metadata.modified());
            read.with_context(|| name.to_owned())
        };
        let stamp = [written(CERTIFICATE_FILE)?, written(KEY_FILE)?];
        let mut kept = self.kept.lock();
        if let Some((of, key)) = &*kept
            && *of == stamp
        {
            return Ok(key.clone());
        }
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(path(CERTIFICATE_FILE)).and_then(Iterator::collect);
        let chain = chain.context(CERTIFICATE_FILE)?;
        let private = PrivateKeyDer::from_pem_file(path(KEY_FILE)).context(KEY_FILE)?;
        let key = Arc::new(CertifiedKey::from_der(chain, private, &self.provider).context("key and certificate")?);
        *kept = Some((stamp, key.clone()));
        Ok(key)
    }
}

impl ResolvesServerCert for Files {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.look().map_or_else(
            |error| {
                // The files are replaced one after the other: use the old pair until the new pair matches.
                tracing::warn!(directory = %self.directory.display(), %error, "cannot read the certificate");
                self.kept.lock().as_ref().map(|(_, key)| key.clone())
            },
            Some,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-06-01T00:00:00Z".parse().unwrap()
    }

    fn write_pair(directory: &Path, name: &str, written: SystemTime) {
        let key = KeyPair::generate().unwrap();
        let certificate = params(name, now(), vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
        for (file, text) in [(CERTIFICATE_FILE, certificate.pem()), (KEY_FILE, key.serialize_pem())] {
            std::fs::write(directory.join(file), text).unwrap();
            std::fs::File::options().write(true).open(directory.join(file)).unwrap().set_modified(written).unwrap();
        }
    }

    #[test]
    fn changed_files_are_reloaded_and_the_old_pair_is_kept_while_they_are_invalid() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files { directory: directory.path().to_owned(), provider: provider(), kept: Mutex::new(None) };
        let (first_day, second_day) = (SystemTime::UNIX_EPOCH, now().into());
        write_pair(directory.path(), "a.test", first_day);
        let first = files.look().unwrap();
        assert!(Arc::ptr_eq(&first, &files.look().unwrap()), "nothing changed, nothing is read");
        write_pair(directory.path(), "b.test", second_day);
        let second = files.look().unwrap();
        assert_ne!(first.cert, second.cert);
        std::fs::write(directory.path().join(KEY_FILE), "nonsense").unwrap();
        assert!(files.look().is_err());
        assert!(Arc::ptr_eq(&second, &files.kept.lock().as_ref().unwrap().1));
    }

    #[test]
    fn missing_files_are_reported_with_a_hint() {
        let directory = tempfile::tempdir().unwrap();
        let refused = from_files(directory.path(), &Callers::default()).unwrap_err();
        assert!(refused.to_string().contains("tls.crt"), "{refused}");
        assert!(refused.downcast_ref::<Hinted>().unwrap().hint.contains("--use-cert-manager"));
        write_pair(directory.path(), "a.test", SystemTime::UNIX_EPOCH);
        from_files(directory.path(), &Callers::default()).unwrap();
    }

    #[test]
    fn a_service_has_two_dns_names() {
        let names = names("fleetwebhook", "fleet-system");
        assert_eq!(names, ["fleetwebhook.fleet-system.svc", "fleetwebhook.fleet-system.svc.cluster.local"]);
        let own = generate(&names, &Callers::default(), now()).unwrap();
        assert!(own.authority_pem.starts_with("-----BEGIN CERTIFICATE-----"));
        assert!(!format!("{own:?}").contains("PRIVATE KEY"));
        assert!(generate(&["no name é".to_owned()], &Callers::default(), now()).is_err());
    }
}
