//! Certificates and keys of a real control plane: a CA, a serving certificate for loopback, an administrator's client
//! certificate and the service account key pair. Generated at every start.

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use std::path::{Path, PathBuf};

/// What the components read, as files in the control plane's directory.
#[derive(Debug)]
pub(super) struct Pki {
    pub(super) ca_pem: String,
    pub(super) ca: PathBuf,
    pub(super) serving_certificate: PathBuf,
    pub(super) serving_key: PathBuf,
    pub(super) admin_certificate: PathBuf,
    pub(super) admin_key: PathBuf,
    pub(super) service_account_public: PathBuf,
    pub(super) service_account_private: PathBuf,
}

/// Makes everything below `directory`.
pub(super) fn create(directory: &Path) -> Result<Pki> {
    let write = |name: &str, content: &str| -> Result<PathBuf> {
        let path = directory.join(name);
        std::fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    };
    let (ca_pem, issuer) = authority()?;
    let (serving, serving_key) = issue(&issuer, "kube-apiserver", None, ExtendedKeyUsagePurpose::ServerAuth)?;
    let (admin, admin_key) =
        issue(&issuer, "kubernetes-admin", Some("system:masters"), ExtendedKeyUsagePurpose::ClientAuth)?;
    let service_account = KeyPair::generate().context("make the service-account key")?;
    Ok(Pki {
        ca: write("ca.crt", &ca_pem)?,
        ca_pem,
        serving_certificate: write("serving.crt", &serving)?,
        serving_key: write("serving.key", &serving_key)?,
        admin_certificate: write("admin.crt", &admin)?,
        admin_key: write("admin.key", &admin_key)?,
        service_account_public: write("service-account.pub", &service_account.public_key_pem())?,
        service_account_private: write("service-account.key", &service_account.serialize_pem())?,
    })
}

fn authority() -> Result<(String, Issuer<'static, KeyPair>)> {
    let key = KeyPair::generate().context("make the CA key")?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "kubefleet-test-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let certificate = params.self_signed(&key).context("sign the CA")?;
    Ok((certificate.pem(), Issuer::new(params, key)))
}

fn issue(
    issuer: &Issuer<'_, KeyPair>,
    common_name: &str,
    organization: Option<&str>,
    usage: ExtendedKeyUsagePurpose,
) -> Result<(String, String)> {
    let key = KeyPair::generate().with_context(|| format!("make the key of {common_name}"))?;
    let names = ["127.0.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
    let mut params = CertificateParams::new(names).context("name the certificate")?;
    params.distinguished_name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.extended_key_usages = vec![usage];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let certificate = params.signed_by(&key, issuer).with_context(|| format!("sign {common_name}"))?;
    Ok((certificate.pem(), key.serialize_pem()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_the_key_or_certificate_of_its_name() {
        let directory = tempfile::tempdir().expect("temp dir");
        let pki = create(directory.path()).expect("pki");
        let starts = |path: &Path, label: &str| {
            let text = std::fs::read_to_string(path).expect("read");
            assert!(text.starts_with(&format!("-----BEGIN {label}-----")), "{}: {text}", path.display());
        };
        for certificate in [&pki.ca, &pki.serving_certificate, &pki.admin_certificate] {
            starts(certificate, "CERTIFICATE");
        }
        for key in [&pki.serving_key, &pki.admin_key, &pki.service_account_private] {
            starts(key, "PRIVATE KEY");
        }
        starts(&pki.service_account_public, "PUBLIC KEY");
    }
}
