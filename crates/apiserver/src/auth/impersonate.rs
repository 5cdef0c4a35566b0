//! Impersonation: the `Impersonate-*` headers, checked with RBAC (verb `impersonate`).

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::rbac::Rbac;
use super::rule::{Attributes, Target};
use super::user::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User, service_account_groups, split_service_account};
use crate::error::ApiError;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// The identity that the request asks for; `None` if it asks for none.
pub(crate) fn impersonated(rbac: &Rbac, asking: &User, headers: &HeaderMap) -> Result<Option<User>, ApiError> {
    let Some(wanted) = Wanted::from_headers(headers)? else { return Ok(None) };
    wanted.check(rbac, asking)?;
    Ok(Some(wanted.into_user()))
}

struct Wanted {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl Wanted {
    fn from_headers(headers: &HeaderMap) -> Result<Option<Self>, ApiError> {
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in headers {
            if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
                let key = percent_decode_str(key).decode_utf8().map_or_else(|_| key.to_owned(), Into::into);
                extra.entry(key).or_default().push(text(value));
            }
        }
        let groups: Vec<String> = headers.get_all(GROUP).iter().map(text).collect();
        let wanted = Self { name: first(USER), uid: first(UID), groups, extra };
        if !wanted.name.is_empty() {
            return Ok(Some(wanted));
        }
        if wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty() {
            return Ok(None);
        }
        Err(ApiError::internal("groups, uid or extra requested without impersonating a user"))
    }

    fn check(&self, rbac: &Rbac, asking: &User) -> Result<(), ApiError> {
        let require = |group, resource, subresource, namespace, name| {
            let target = Target::Resource { group, resource, subresource, namespace, name };
            rbac.require(&Attributes { user: asking, verb: "impersonate", target })
        };
        match split_service_account(&self.name) {
            Some((namespace, name)) => require("", "serviceaccounts", "", namespace, name)?,
            None => require("", "users", "", "", &self.name)?,
        }
        self.groups.iter().try_for_each(|group| require("", "groups", "", "", group))?;
        for (key, values) in &self.extra {
            values.iter().try_for_each(|value| require(AUTHENTICATION, "userextras", key, "", value))?;
        }
        if self.uid.is_empty() { Ok(()) } else { require(AUTHENTICATION, "uids", "", "", &self.uid) }
    }

    fn into_user(self) -> User {
        let mut groups = self.groups;
        if groups.is_empty()
            && let Some((namespace, _)) = split_service_account(&self.name)
        {
            groups = service_account_groups(namespace);
        }
        let implied = if self.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        let has = |groups: &[String], wanted: &str| groups.iter().any(|group| group == wanted);
        if !has(&groups, implied) && !has(&groups, UNAUTHENTICATED) {
            groups.push(implied.to_owned());
        }
        User { name: self.name, uid: self.uid, groups, extra: self.extra }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::rbac::RbacKind;
    use http::{HeaderName, HeaderValue};
    use serde_json::json;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn ask(pairs: &[(&'static str, &'static str)]) -> Result<Option<User>, ApiError> {
        let rbac = Rbac::default();
        rbac.set(RbacKind::ClusterRole, &json!({"metadata": {"name": "r"}, "rules": [
            {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["joe", "system:anonymous"]},
            {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["serviceaccounts", "groups"]},
            {"verbs": ["impersonate"], "apiGroups": ["authentication.k8s.io"], "resources": ["userextras/scopes", "uids"]}]}));
        rbac.set(
            RbacKind::ClusterRoleBinding,
            &json!({"metadata": {"name": "b"},
            "subjects": [{"kind": "User", "name": "jane"}], "roleRef": {"kind": "ClusterRole", "name": "r"}}),
        );
        impersonated(&rbac, &User::authenticated("jane", []), &headers(pairs))
    }

    #[test]
    fn without_headers_there_is_no_impersonation() {
        assert_eq!(ask(&[("accept", "*/*")]), Ok(None));
    }

    #[test]
    fn groups_follow_from_the_kind_of_user() {
        let groups = |pairs| ask(pairs).unwrap().unwrap().groups.join(" ");
        assert_eq!(groups(&[("impersonate-user", "joe")]), "system:authenticated");
        assert_eq!(groups(&[("impersonate-user", "joe"), ("impersonate-group", "a")]), "a system:authenticated");
        assert_eq!(groups(&[("impersonate-user", "system:anonymous")]), "system:unauthenticated");
        assert_eq!(
            groups(&[("impersonate-user", "system:serviceaccount:ns:sa")]),
            "system:serviceaccounts system:serviceaccounts:ns system:authenticated"
        );
    }

    #[test]
    fn extras_and_uid_are_impersonated_if_allowed() {
        let user = ask(&[("impersonate-user", "joe"), ("impersonate-uid", "7"), ("impersonate-extra-scopes", "x")]);
        let user = user.unwrap().unwrap();
        assert_eq!((user.uid.as_str(), user.extra["scopes"].join(",")), ("7", "x".to_owned()));
        assert_eq!(
            ask(&[("impersonate-user", "joe"), ("impersonate-extra-acme.com%2fdept", "x")]).unwrap_err().code(),
            403
        );
    }

    #[test]
    fn impersonation_without_permission_is_refused_with_the_resource() {
        let refused = ask(&[("impersonate-user", "root")]).unwrap_err();
        assert_eq!(
            refused.message,
            r#"users "root" is forbidden: User "jane" cannot impersonate resource "users" in API group "" at the cluster scope"#
        );
        assert_eq!(ask(&[("impersonate-group", "system:masters")]).unwrap_err().code(), 500);
    }
}
