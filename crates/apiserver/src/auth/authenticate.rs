//! Authentication: bearer tokens, service-account tokens and client certificates. Never keep a token in clear.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::jwt::{Claims, LEGACY_ISSUER, ObjectRef, TokenError, TokenKey};
use super::secret::Secret;
use super::user::{User, split_service_account};

/// How many verified tokens are remembered; a cluster has far fewer live ones.
const MAX_REMEMBERED_TOKENS: usize = 4096;

/// The clock of the server; virtual in simulations.
pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The objects that a service-account token refers to, read from the store at every use.
pub(crate) trait TokenObjects: Send + Sync {
    /// The uid of a live object of `core/v1`; `namespace` is empty for nodes.
    fn uid(&self, resource: &str, namespace: &str, name: &str) -> Option<String>;
    /// The decoded `data.token` of a Secret.
    fn secret_token(&self, namespace: &str, name: &str) -> Option<Vec<u8>>;
}

/// An identity and the audiences that its token is meant for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authenticated {
    pub(crate) user: User,
    pub(crate) audiences: Vec<String>,
}

/// The issuer of service-account tokens.
#[derive(Debug, Clone)]
pub(crate) struct Issuer {
    pub(crate) url: String,
    pub(crate) audiences: Vec<String>,
}

impl Default for Issuer {
    fn default() -> Self {
        let url = "https://kubernetes.default.svc.cluster.local".to_owned();
        Self { audiences: vec![url.clone()], url }
    }
}

/// A token reduced to what it can be recognised by.
type Fingerprint = [u8; 32];

/// All ways of proving an identity to one server.
pub(crate) struct Authenticator {
    tokens: RwLock<HashMap<Fingerprint, User>>,
    /// Mixed into fingerprints, so that they mean nothing outside this process.
    salt: [u8; 16],
    key: Arc<TokenKey>,
    issuer: Issuer,
    objects: Arc<dyn TokenObjects>,
    clock: Clock,
    verified: Mutex<HashMap<Fingerprint, Arc<Claims>>>,
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("key", &self.key).field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl Authenticator {
    pub(crate) fn new(key: Arc<TokenKey>, issuer: Issuer, objects: Arc<dyn TokenObjects>, clock: Clock) -> Self {
        Self {
            tokens: RwLock::default(),
            salt: *uuid::Uuid::new_v4().as_bytes(),
            key,
            issuer,
            objects,
            clock,
            verified: Mutex::default(),
        }
    }

    /// Adds a token of `user`.
    pub(crate) fn add_token(&self, token: &Secret, user: User) {
        let fingerprint = self.fingerprint(token.expose());
        self.tokens.write().unwrap_or_else(PoisonError::into_inner).insert(fingerprint, user);
    }

    pub(crate) fn issuer(&self) -> &Issuer {
        &self.issuer
    }

    pub(crate) fn key(&self) -> &TokenKey {
        &self.key
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// The identity behind a bearer token that was meant for one of `audiences` (for the server itself, if empty).
    pub(crate) fn token(&self, token: &str, audiences: &[String]) -> Result<Authenticated, TokenError> {
        let fingerprint = self.fingerprint(token);
        let wanted = if audiences.is_empty() { &self.issuer.audiences } else { audiences };
        if let Some(user) = self.static_user(&fingerprint) {
            return Ok(Authenticated { user, audiences: wanted.to_vec() });
        }
        let claims = self.verified_claims(fingerprint, token)?;
        if claims.iss == LEGACY_ISSUER {
            let user = self.legacy_account(&claims, token)?;
            let known: Vec<String> = intersection(&self.issuer.audiences, wanted);
            let mismatch = || TokenError::Audience(self.issuer.audiences.clone(), wanted.to_vec());
            return if known.is_empty() { Err(mismatch()) } else { Ok(Authenticated { user, audiences: known }) };
        }
        if claims.iss != self.issuer.url {
            return Err(TokenError::NotOurs);
        }
        claims.check_time((self.clock)())?;
        let known = intersection(&claims.aud, wanted);
        if known.is_empty() {
            return Err(TokenError::Audience(claims.aud.clone(), wanted.to_vec()));
        }
        Ok(Authenticated { user: self.bound_account(&claims)?, audiences: known })
    }

    fn static_user(&self, fingerprint: &Fingerprint) -> Option<User> {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let (known, user) = tokens.get_key_value(fingerprint)?;
        bool::from(known.ct_eq(fingerprint)).then(|| user.clone())
    }

    /// Signatures are checked once per token; what may change later (time, objects) is checked at every use.
    fn verified_claims(&self, fingerprint: Fingerprint, token: &str) -> Result<Arc<Claims>, TokenError> {
        if let Some(claims) = self.verified.lock().unwrap_or_else(PoisonError::into_inner).get(&fingerprint) {
            return Ok(Arc::clone(claims));
        }
        let claims = Arc::new(self.key.verify(token)?);
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if verified.len() >= MAX_REMEMBERED_TOKENS {
            verified.clear();
        }
        verified.insert(fingerprint, Arc::clone(&claims));
        Ok(claims)
    }

    fn legacy_account(&self, claims: &Claims, token: &str) -> Result<User, TokenError> {
        let (Some(namespace), Some(account), Some(uid), Some(secret)) =
            (&claims.legacy_namespace, &claims.legacy_account, &claims.legacy_uid, &claims.legacy_secret)
        else {
            return Err(TokenError::NotOurs);
        };
        let stored = self.objects.secret_token(namespace, secret).ok_or(TokenError::BoundObjectGone)?;
        if !bool::from(stored.as_slice().ct_eq(token.as_bytes())) {
            return Err(TokenError::BoundObjectGone);
        }
        self.live("serviceaccounts", namespace, &ObjectRef { name: account.clone(), uid: uid.clone() })
            .map_err(|_| TokenError::AccountGone(format!("{namespace}/{account}")))?;
        Ok(User::service_account(namespace, account, uid))
    }

    fn bound_account(&self, claims: &Claims) -> Result<User, TokenError> {
        let bound = claims.kubernetes.as_ref().ok_or(TokenError::NotOurs)?;
        let account = &bound.serviceaccount;
        if split_service_account(&claims.sub) != Some((&bound.namespace, &account.name)) {
            return Err(TokenError::NotOurs);
        }
        self.live("serviceaccounts", &bound.namespace, account)
            .map_err(|_| TokenError::AccountGone(format!("{}/{}", bound.namespace, account.name)))?;
        let mut user = User::service_account(&bound.namespace, &account.name, &account.uid);
        let mut note = |key: &str, value: &str| {
            user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
        };
        if let Some(id) = &claims.jti {
            note("credential-id", &format!("JTI={id}"));
        }
        if let Some(pod) = &bound.pod {
            self.live("pods", &bound.namespace, pod)?;
            note("pod-name", &pod.name);
            note("pod-uid", &pod.uid);
        }
        if let Some(secret) = &bound.secret {
            self.live("secrets", &bound.namespace, secret)?;
        }
        if let Some(node) = &bound.node {
            // A node beside a pod is information; alone it is what the token is bound to.
            if bound.pod.is_none() {
                self.live("nodes", "", node)?;
            }
            note("node-name", &node.name);
            note("node-uid", &node.uid);
        }
        Ok(user)
    }

    fn live(&self, resource: &str, namespace: &str, wanted: &ObjectRef) -> Result<(), TokenError> {
        let uid = self.objects.uid(resource, namespace, &wanted.name);
        if uid.as_deref() == Some(wanted.uid.as_str()) { Ok(()) } else { Err(TokenError::BoundObjectGone) }
    }

    fn fingerprint(&self, token: &str) -> Fingerprint {
        let mut hash = Sha256::new();
        hash.update(self.salt);
        hash.update(token.as_bytes());
        hash.finalize().into()
    }
}

fn intersection(some: &[String], others: &[String]) -> Vec<String> {
    some.iter().filter(|item| others.contains(item)).cloned().collect()
}

#[cfg(test)]
#[path = "authenticate_tests.rs"]
mod tests;
