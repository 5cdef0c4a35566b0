//! Tokens and certificates: only credentials that this server issued authenticate a user.

use std::sync::OnceLock;

use apiserver::internals::{Tokens, user_of_certificate};
use apiserver::{Authority, User};
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::Value;

use super::{field, parsed, text};

pub(super) const WORDS: &[&str] = &[
    "iss",
    "sub",
    "aud",
    "exp",
    "nbf",
    "iat",
    "kubernetes.io",
    "namespace",
    "serviceaccount",
    "uid",
    "kubernetes/serviceaccount",
    "https://kubernetes.default.svc.cluster.local",
    "system:serviceaccount:shop:web",
    "none",
    "HS256",
    "eyJhbGciOiJub25lIn0",
];

/// Names and groups of this many bytes must be readable.
const NAME_BYTES_MAX: usize = 1000;

fn tokens() -> Option<&'static Tokens> {
    static ONE: OnceLock<Option<Tokens>> = OnceLock::new();
    ONE.get_or_init(Tokens::generate).as_ref()
}

/// `claims` are signed, and `edits` then change bytes of the token; `token` is an unsigned text.
pub(super) fn token(input: &[u8]) {
    let (Some(input), Some(server)) = (parsed(input), tokens()) else { return };
    let foreign = server.user(text(&input, "token"));
    assert!(foreign.is_err(), "the token of {foreign:?} is not signed");
    let claims = field(&input, "claims");
    let Some(signed) = server.sign(claims.clone()) else { return };
    match server.user(signed.expose()) {
        Ok(found) => {
            assert!(found.name.starts_with("system:serviceaccount:"), "{claims} is {found:?}");
            assert!(!found.groups.iter().any(|group| group == "system:masters"), "{claims} is {found:?}");
        }
        Err(error) => assert!(!error.is_empty()),
    }
    let mut edited = signed.expose().as_bytes().to_vec();
    for edit in field(&input, "edits").as_array().into_iter().flatten() {
        let number =
            |place: usize| edit.get(place).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
        if let (Some(at), Some(byte)) = (number(0), number(1)) {
            let length = edited.len().max(1);
            edited[at % length] = u8::try_from(byte % 128).unwrap_or_default();
        }
    }
    if let Ok(edited) = String::from_utf8(edited)
        && edited != signed.expose()
    {
        assert!(!server.is_signed(&edited), "a changed token counts as signed: {edited}");
    }
}

/// The input is a certificate, and it is the name that another certificate is made for.
pub(super) fn certificate(input: &[u8]) {
    static AUTHORITY: OnceLock<Option<Authority>> = OnceLock::new();
    let _ = user_of_certificate(input);
    let authority = AUTHORITY.get_or_init(|| Authority::generate(Timestamp::UNIX_EPOCH).ok());
    let (Some(authority), Ok(name)) = (authority, std::str::from_utf8(input)) else { return };
    if name.is_empty() {
        return;
    }
    let (name, group) = name.split_once('\n').unwrap_or((name, "group"));
    let user = User::authenticated(name, [group.to_owned()]);
    let Ok(made) = authority.client_certificate(&user, Timestamp::UNIX_EPOCH) else { return };
    let Ok(der) = CertificateDer::from_pem_slice(made.certificate.as_bytes()) else { return };
    let found = user_of_certificate(&der).map(|user| (user.name, user.groups));
    // The certificate reader refuses very long names, and then there is no user.
    let is_read = !name.is_empty() && name.len() + group.len() <= NAME_BYTES_MAX;
    assert!(found.is_some() || !is_read, "the certificate of {name:?} has no user");
    let wanted = (user.name, user.groups);
    assert!(found.is_none() || found.as_ref() == Some(&wanted), "a certificate for {wanted:?} names {found:?}");
}
