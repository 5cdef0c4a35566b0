//! Authentication of the callers of the webhook server: none, a client certificate, or a bearer token. These are the
//! credentials that an API server takes from the kubeconfig of its admission configuration.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use apiserver::Secret;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use subtle::ConstantTimeEq as _;

use super::super::settings::Webhooks;
use crate::output::Hinted;

/// The credentials that callers must present. None by default.
#[derive(Debug, Default)]
pub(super) struct Callers {
    authorities: Option<Arc<RootCertStore>>,
    token: Option<Secret>,
}

impl Callers {
    /// Reads the files of the flags.
    pub(super) fn read(webhooks: &Webhooks) -> anyhow::Result<Self> {
        let authorities = webhooks.client_ca.as_deref().map(authorities).transpose()?;
        let token = webhooks.client_token.as_deref().map(token).transpose()?;
        Ok(Self { authorities: authorities.map(Arc::new), token })
    }

    /// Whether callers need no credentials.
    pub(super) fn allow_unauthenticated(&self) -> bool {
        self.authorities.is_none() && self.token.is_none()
    }

    /// Verifies client certificates in the TLS handshake. A certificate is required unless a token is accepted instead.
    pub(super) fn verifier(&self, provider: &Arc<CryptoProvider>) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
        let Some(authorities) = &self.authorities else { return Ok(WebPkiClientVerifier::no_client_auth()) };
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::clone(authorities), Arc::clone(provider));
        let builder = if self.token.is_some() { builder.allow_unauthenticated() } else { builder };
        builder.build().context("cannot verify client certificates")
    }

    /// Whether the caller is authenticated. `certificate`: the TLS handshake verified a client certificate.
    pub(super) fn permit(&self, certificate: bool, headers: &HeaderMap) -> bool {
        if self.allow_unauthenticated() || certificate {
            return true;
        }
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given =
            given.and_then(|value| value.split_once(' ')).filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer"));
        match (given, &self.token) {
            (Some((_, given)), Some(token)) => given.trim().as_bytes().ct_eq(token.expose().as_bytes()).into(),
            _ => false,
        }
    }
}

fn authorities(path: &Path) -> anyhow::Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    let read: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates = read.map_err(|error| unusable("webhook-client-ca-file", path, &error))?;
    for certificate in certificates {
        store.add(certificate).map_err(|error| unusable("webhook-client-ca-file", path, &error))?;
    }
    if store.is_empty() {
        return Err(unusable("webhook-client-ca-file", path, &"the file contains no certificate").into());
    }
    Ok(store)
}

fn token(path: &Path) -> anyhow::Result<Secret> {
    let text = std::fs::read_to_string(path).map_err(|error| unusable("webhook-client-token-file", path, &error))?;
    match text.trim() {
        "" => Err(unusable("webhook-client-token-file", path, &"the file is empty").into()),
        token => Ok(Secret::new(token)),
    }
}

fn unusable(flag: &str, path: &Path, why: &dyn std::fmt::Display) -> Hinted {
    Hinted {
        what: format!("--{flag}: cannot use {}: {why}", path.display()),
        hint: "it must match the credentials in the kubeconfig of the API server's admission configuration".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(authorization: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, authorization.parse().unwrap());
        headers
    }

    #[test]
    fn audit_11_only_callers_with_a_certificate_or_the_token_are_permitted() {
        let unauthenticated = Callers::default();
        assert!(unauthenticated.permit(false, &HeaderMap::new()));
        let with_token = Callers { token: Some(Secret::new("t0p")), ..Callers::default() };
        assert!(with_token.permit(false, &headers("Bearer t0p")));
        assert!(with_token.permit(true, &HeaderMap::new()), "a verified certificate is enough");
        for wrong in ["Bearer t0", "Bearer t0pp", "Basic t0p", "t0p", "Bearer "] {
            assert!(!with_token.permit(false, &headers(wrong)), "{wrong}");
        }
        assert!(!with_token.permit(false, &HeaderMap::new()));
        let with_certificates = Callers { authorities: Some(Arc::new(RootCertStore::empty())), token: None };
        assert!(with_certificates.permit(true, &HeaderMap::new()));
        assert!(!with_certificates.permit(false, &headers("Bearer t0p")));
    }

    #[test]
    fn audit_11_files_without_credentials_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for read in [|path: &Path| authorities(path).map(drop), |path: &Path| token(path).map(drop)] {
            assert!(read(&directory.path().join("none")).unwrap_err().downcast_ref::<Hinted>().is_some());
            std::fs::write(&path, "\n").unwrap();
            assert!(read(&path).unwrap_err().to_string().contains("cannot use"));
        }
        std::fs::write(&path, " t0p\n").unwrap();
        assert_eq!(token(&path).unwrap().expose(), "t0p");
    }
}
