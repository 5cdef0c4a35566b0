//! The user of a request, and the user and group names that Kubernetes reserves.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Members may do anything, whatever RBAC says.
pub(crate) const MASTERS: &str = "system:masters";
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
pub(crate) const ANONYMOUS: &str = "system:anonymous";
pub(crate) const ALL_SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// An identity: name, optional uid, groups, and free attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user that has proved who it is; `system:authenticated` is added once.
    pub fn authenticated(name: impl Into<String>, groups: impl IntoIterator<Item = String>) -> Self {
        let mut groups: Vec<String> = groups.into_iter().collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { name: name.into(), groups, ..Self::default() }
    }

    /// The identity of the server's own controllers.
    pub(crate) fn system() -> Self {
        Self::authenticated("system:apiserver", [MASTERS.to_owned()])
    }

    /// Nobody in particular.
    pub(crate) fn anonymous() -> Self {
        Self { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Self::default() }
    }

    /// The identity of a service account.
    pub(crate) fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        let mut groups = service_account_groups(namespace);
        groups.push(AUTHENTICATED.to_owned());
        Self { name: service_account_name(namespace, name), uid: uid.to_owned(), groups, extra: BTreeMap::new() }
    }

    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    /// The `UserInfo` object that reviews answer with; empty parts are left out.
    pub(crate) fn to_user_info(&self) -> Value {
        let mut out = Map::new();
        for (key, text) in [("username", &self.name), ("uid", &self.uid)] {
            if !text.is_empty() {
                out.insert(key.to_owned(), json!(text));
            }
        }
        if !self.groups.is_empty() {
            out.insert("groups".to_owned(), json!(self.groups));
        }
        if !self.extra.is_empty() {
            out.insert("extra".to_owned(), json!(self.extra));
        }
        Value::Object(out)
    }
}

pub(crate) fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// The groups of every service account of a namespace.
pub(crate) fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![ALL_SERVICE_ACCOUNTS.to_owned(), format!("{ALL_SERVICE_ACCOUNTS}:{namespace}")]
}

/// Namespace and name, if the user name is that of a service account.
pub(crate) fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    let valid = !namespace.is_empty() && !name.is_empty() && !name.contains(':');
    valid.then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_account_username_has_namespace_and_name() {
        assert_eq!(split_service_account(&service_account_name("ns", "sa")), Some(("ns", "sa")));
        for other in ["jane", "system:serviceaccount:ns", "system:serviceaccount::x", "system:serviceaccount:a:b:c"] {
            assert_eq!(split_service_account(other), None, "{other}");
        }
    }

    #[test]
    fn authenticated_is_added_once() {
        let user = User::authenticated("jane", ["dev".to_owned(), AUTHENTICATED.to_owned()]);
        assert_eq!(user.groups, ["dev", AUTHENTICATED]);
        assert_eq!(User::service_account("n", "s", "u").groups.len(), 3);
        assert!(User::anonymous().is_anonymous());
    }

    #[test]
    fn user_info_omits_empty_fields() {
        assert_eq!(
            User::anonymous().to_user_info().to_string(),
            r#"{"groups":["system:unauthenticated"],"username":"system:anonymous"}"#
        );
    }
}
