//! Which Secrets are tokens of service accounts.
//!
//! Those are never placed, and nothing in their metadata says what they are. Their type never changes, so a Secret whose
//! content was read once is known by its uid from then on.

use std::collections::BTreeSet;

use fleet_runtime::KindId;
use parking_lot::Mutex;
use serde_json::Value;

const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";

#[derive(Debug, Default)]
pub(super) struct Tokens(Mutex<BTreeSet<String>>);

impl Tokens {
    /// Takes note of what an object is that was read.
    pub(super) fn learn(&self, kind: &KindId, object: &Value) {
        if is_secret(kind)
            && object["type"] == TOKEN_TYPE
            && let Some(uid) = object["metadata"]["uid"].as_str()
        {
            self.0.lock().insert(uid.to_owned());
        }
    }

    /// An object is gone for good.
    pub(super) fn forget(&self, kind: &KindId, uid: Option<&str>) {
        if let Some(uid) = uid.filter(|_| is_secret(kind)) {
            self.0.lock().remove(uid);
        }
    }

    /// The type of a Secret, as far as it matters.
    pub(super) fn type_of(&self, kind: &KindId, uid: Option<&str>) -> Option<&'static str> {
        (is_secret(kind) && self.0.lock().contains(uid?)).then_some(TOKEN_TYPE)
    }
}

/// Whether selection depends on more than the metadata of objects of this kind.
pub(super) fn is_secret(kind: &KindId) -> bool {
    kind.group.is_empty() && &*kind.kind == "Secret"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_is_known_until_it_is_gone() {
        let (secret, other) =
            (KindId::new("", "v1", "Secret", "secrets"), KindId::new("x.io", "v1", "Secret", "secrets"));
        let tokens = Tokens::default();
        for (kind, uid, type_) in [(&secret, "a", TOKEN_TYPE), (&secret, "b", "Opaque"), (&other, "c", TOKEN_TYPE)] {
            tokens.learn(kind, &json!({"metadata": {"uid": uid}, "type": type_}));
        }
        let known = |uid| tokens.type_of(&secret, Some(uid));
        assert_eq!((known("a"), known("b"), known("c")), (Some(TOKEN_TYPE), None, None));
        tokens.forget(&secret, Some("a"));
        assert_eq!((known("a"), tokens.type_of(&secret, None)), (None, None));
    }
}
