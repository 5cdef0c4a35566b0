//! Remembers which Secrets are service account tokens.
//!
//! Tokens are never placed, and their metadata does not show the type. The type is immutable, so a Secret that was
//! read once is known by its uid.

use std::collections::BTreeSet;

use fleet_runtime::KindId;
use parking_lot::Mutex;
use serde_json::Value;

const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";

#[derive(Debug, Default)]
pub(super) struct TokenSecrets(Mutex<BTreeSet<String>>);

impl TokenSecrets {
    /// Remembers the type of an object that was read.
    pub(super) fn learn(&self, kind: &KindId, object: &Value) {
        if is_secret(kind)
            && object["type"] == TOKEN_TYPE
            && let Some(uid) = object["metadata"]["uid"].as_str()
        {
            self.0.lock().insert(uid.to_owned());
        }
    }

    /// Forgets a deleted object.
    pub(super) fn forget(&self, kind: &KindId, uid: Option<&str>) {
        if let Some(uid) = uid.filter(|_| is_secret(kind)) {
            self.0.lock().remove(uid);
        }
    }

    /// The type of a Secret, if it is known to be a token.
    pub(super) fn type_of(&self, kind: &KindId, uid: Option<&str>) -> Option<&'static str> {
        (is_secret(kind) && self.0.lock().contains(uid?)).then_some(TOKEN_TYPE)
    }
}

/// Whether selection of this kind depends on more than metadata.
pub(super) fn is_secret(kind: &KindId) -> bool {
    kind.group.is_empty() && &*kind.kind == "Secret"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_secret_is_known_until_it_is_deleted() {
        let (secret, other) =
            (KindId::new("", "v1", "Secret", "secrets"), KindId::new("x.io", "v1", "Secret", "secrets"));
        let token_secrets = TokenSecrets::default();
        for (kind, uid, type_) in [(&secret, "a", TOKEN_TYPE), (&secret, "b", "Opaque"), (&other, "c", TOKEN_TYPE)] {
            token_secrets.learn(kind, &json!({"metadata": {"uid": uid}, "type": type_}));
        }
        let known = |uid| token_secrets.type_of(&secret, Some(uid));
        assert_eq!((known("a"), known("b"), known("c")), (Some(TOKEN_TYPE), None, None));
        token_secrets.forget(&secret, Some("a"));
        assert_eq!((known("a"), token_secrets.type_of(&secret, None)), (None, None));
    }
}
