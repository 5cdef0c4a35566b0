//! Service-account tokens as signed JWTs (ES256): claims and signatures. `authenticate` checks that the account still
//! exists.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::secret::Secret;

/// Issuer of the tokens in Secrets of type `kubernetes.io/service-account-token`.
pub(crate) const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
/// Tokens are a few hundred bytes; more is not ours and not worth decoding.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TokenError {
    #[error("the signing key cannot be read")]
    Key,
    #[error("signing failed")]
    Signing,
    #[error("not a service account token")]
    NotOurs,
    #[error("signature is invalid")]
    Signature,
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotYetValid,
    #[error("token audiences {0:?} is invalid for the target audiences {1:?}")]
    Audience(Vec<String>, Vec<String>),
    #[error("service account {0:?} has been deleted or recreated")]
    AccountGone(String),
    #[error("the object that the token is bound to has been deleted or recreated")]
    BoundObjectGone,
}

/// Name and uid of an object that a token is bound to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ObjectRef {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
}

/// The private claims of a bound token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BoundTo {
    #[serde(default)]
    pub(crate) namespace: String,
    #[serde(default)]
    pub(crate) serviceaccount: ObjectRef,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<ObjectRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<ObjectRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<ObjectRef>,
}

/// All claims that this server signs or reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    pub(crate) iss: String,
    pub(crate) sub: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) aud: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exp: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) iat: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) nbf: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) jti: Option<String>,
    #[serde(rename = "kubernetes.io", default, skip_serializing_if = "Option::is_none")]
    pub(crate) kubernetes: Option<BoundTo>,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace", default, skip_serializing_if = "Option::is_none")]
    pub(crate) legacy_namespace: Option<String>,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name", default, skip_serializing_if = "Option::is_none")]
    pub(crate) legacy_secret: Option<String>,
    #[serde(
        rename = "kubernetes.io/serviceaccount/service-account.name",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) legacy_account: Option<String>,
    #[serde(
        rename = "kubernetes.io/serviceaccount/service-account.uid",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) legacy_uid: Option<String>,
}

impl Claims {
    /// Refuses a token outside its time.
    pub(crate) fn check_time(&self, now: Timestamp) -> Result<(), TokenError> {
        let now = now.as_second();
        match (self.exp, self.nbf) {
            (Some(expiry), _) if now >= expiry => Err(TokenError::Expired),
            (_, Some(start)) if now < start => Err(TokenError::NotYetValid),
            _ => Ok(()),
        }
    }
}

/// The key pair that signs and verifies service-account tokens.
pub(crate) struct TokenKey {
    pair: EcdsaKeyPair,
    pkcs8: Vec<u8>,
    key_id: String,
    random: SystemRandom,
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKey").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

impl TokenKey {
    pub(crate) fn generate() -> Result<Self, TokenError> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .map_err(|_| TokenError::Key)?;
        Self::from_pkcs8(document.as_ref())
    }

    pub(crate) fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, TokenError> {
        let random = SystemRandom::new();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random).map_err(|_| TokenError::Key)?;
        let key_id = URL_SAFE_NO_PAD.encode(Sha256::digest(pair.public_key().as_ref()));
        Ok(Self { pair, pkcs8: pkcs8.to_vec(), key_id, random })
    }

    /// The private key, for a data directory.
    pub(crate) fn to_pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    pub(crate) fn sign(&self, claims: &Claims) -> Result<Secret, TokenError> {
        let header = serde_json::json!({"alg": "ES256", "kid": self.key_id}).to_string();
        let payload = serde_json::to_string(claims).map_err(|_| TokenError::Signing)?;
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
        let signature = self.pair.sign(&self.random, signed.as_bytes()).map_err(|_| TokenError::Signing)?;
        Ok(Secret::new(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))))
    }

    /// The token of a service-account-token Secret. It never expires; it dies with the Secret or the account.
    pub(crate) fn sign_secret_token(
        &self,
        namespace: &str,
        account: &ObjectRef,
        secret: &str,
    ) -> Result<Secret, TokenError> {
        self.sign(&Claims {
            iss: LEGACY_ISSUER.to_owned(),
            sub: super::user::service_account_name(namespace, &account.name),
            legacy_namespace: Some(namespace.to_owned()),
            legacy_secret: Some(secret.to_owned()),
            legacy_account: Some(account.name.clone()),
            legacy_uid: Some(account.uid.clone()),
            ..Claims::default()
        })
    }

    /// The claims of a token that this key has signed. Time, audience and objects are the caller's to check.
    pub(crate) fn verify(&self, token: &str) -> Result<Claims, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::NotOurs);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::NotOurs)?;
        let (header, payload) = signed.split_once('.').ok_or(TokenError::NotOurs)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::NotOurs);
        let header: serde_json::Value = serde_json::from_slice(&decode(header)?).map_err(|_| TokenError::NotOurs)?;
        if header["alg"] != "ES256" || header.get("kid").is_some_and(|id| *id != self.key_id.as_str()) {
            return Err(TokenError::NotOurs);
        }
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref())
            .verify(signed.as_bytes(), &decode(signature)?)
            .map_err(|_| TokenError::Signature)?;
        serde_json::from_slice(&decode(payload)?).map_err(|_| TokenError::NotOurs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        Claims {
            iss: "https://server".to_owned(),
            sub: "system:serviceaccount:ns:sa".to_owned(),
            aud: vec!["a".to_owned()],
            exp: Some(200),
            nbf: Some(100),
            kubernetes: Some(BoundTo {
                namespace: "ns".to_owned(),
                serviceaccount: ObjectRef { name: "sa".to_owned(), uid: "u".to_owned() },
                ..BoundTo::default()
            }),
            ..Claims::default()
        }
    }

    #[test]
    fn a_signed_token_verifies_also_after_the_key_was_stored() {
        let key = TokenKey::generate().unwrap();
        let token = key.sign(&claims()).unwrap();
        let again = TokenKey::from_pkcs8(key.to_pkcs8()).unwrap();
        assert_eq!(again.verify(token.expose()), Ok(claims()));
        assert_eq!(TokenKey::from_pkcs8(b"junk").unwrap_err(), TokenError::Key);
    }

    #[test]
    fn any_changed_byte_makes_a_token_worthless() {
        let key = TokenKey::generate().unwrap();
        let token = key.sign(&claims()).unwrap();
        let bytes = token.expose().as_bytes();
        for position in 0..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[position] = if changed[position] == b'A' { b'B' } else { b'A' };
            assert!(key.verify(std::str::from_utf8(&changed).unwrap()).is_err(), "byte {position}");
        }
    }

    #[test]
    fn other_keys_and_algorithms_are_refused() {
        let key = TokenKey::generate().unwrap();
        let foreign = TokenKey::generate().unwrap().sign(&claims()).unwrap();
        assert_eq!(key.verify(foreign.expose()), Err(TokenError::NotOurs));
        let payload = URL_SAFE_NO_PAD.encode(serde_json::to_string(&claims()).unwrap());
        let unsigned = format!("{}.{payload}.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#));
        assert_eq!(key.verify(&unsigned), Err(TokenError::NotOurs));
        for junk in ["", "x", "a.b.c", &"x".repeat(MAX_TOKEN_BYTES + 1)] {
            assert!(key.verify(junk).is_err());
        }
    }

    #[test]
    fn a_token_is_valid_from_its_start_to_its_expiry() {
        let at = |second| claims().check_time(Timestamp::from_second(second).unwrap());
        assert_eq!(at(99), Err(TokenError::NotYetValid));
        assert_eq!(at(100), Ok(()));
        assert_eq!(at(199), Ok(()));
        assert_eq!(at(200), Err(TokenError::Expired));
    }

    #[test]
    fn a_secret_token_names_account_and_secret() {
        let key = TokenKey::generate().unwrap();
        let account = ObjectRef { name: "sa".to_owned(), uid: "u".to_owned() };
        let claims = key.verify(key.sign_secret_token("ns", &account, "s").unwrap().expose()).unwrap();
        assert_eq!(claims.sub, "system:serviceaccount:ns:sa");
        assert_eq!(claims.legacy_secret.as_deref(), Some("s"));
        assert_eq!(claims.exp, None);
    }
}
