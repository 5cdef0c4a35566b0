//! What a member cluster accepts from its hub. Only the administrators of the member set this policy.
//!
//! The hub cannot change the policy, so it also protects the member from a compromised hub. Objects that are already
//! placed are not affected.

use std::fmt;
use std::str::FromStr;

use fleet_api::kinds::AppliedWork;
use fleet_api::types::WorkResourceIdentifier;

use super::decode::{Manifest, Refusal};

/// Namespaces, kinds and single objects that a hub may write. A denial takes precedence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Empty means all. Applies to objects in a namespace, and to Namespaces themselves.
    pub allowed_namespaces: List<NamespacePattern>,
    pub denied_namespaces: List<NamespacePattern>,
    /// Empty means all.
    pub allowed_kinds: List<KindPattern>,
    pub denied_kinds: List<KindPattern>,
    /// Objects that the agent itself depends on.
    pub protected_objects: List<ProtectedObject>,
}

impl Policy {
    /// Namespaces that are denied by default: the cluster's own, and the one in which agents run.
    pub const DENIED_NAMESPACES: &'static str = "kube-system,fleet-system";
    /// Objects that are protected by default: the agent's RBAC objects, under the names in the chart and
    /// `config/rbac`.
    pub const PROTECTED_OBJECTS: &'static str = "ClusterRole/member-agent-role,ClusterRoleBinding/member-agent-cluster-admin-binding,\
         ClusterRole/kubefleet-member-agent,ClusterRoleBinding/kubefleet-member-agent";

    /// Accepts everything except AppliedWorks and their definition, which record ownership.
    pub fn open() -> Self {
        Self {
            allowed_namespaces: List::default(),
            denied_namespaces: List::default(),
            allowed_kinds: List::default(),
            denied_kinds: List::default(),
            protected_objects: List::default(),
        }
    }

    /// Why an object is denied; `None` if it is accepted.
    pub fn denial(&self, object: &WorkResourceIdentifier) -> Option<Denial> {
        if is_record(object) || self.protected_objects.any(|protected| protected.is(object)) {
            return Some(Denial::Protected { kind: object.kind.clone(), name: object.name.clone() });
        }
        let denied = self.denied_kinds.any(|pattern| pattern.covers(object));
        let allowed = self.allowed_kinds.is_empty() || self.allowed_kinds.any(|pattern| pattern.covers(object));
        if denied || !allowed {
            let kind = KindPattern { kind: object.kind.clone(), group: object.group.clone() };
            return Some(Denial::Kind { kind: kind.to_string() });
        }
        let namespace = namespace_of(object)?;
        let denied = self.denied_namespaces.any(|pattern| pattern.covers(namespace));
        let allowed =
            self.allowed_namespaces.is_empty() || self.allowed_namespaces.any(|pattern| pattern.covers(namespace));
        (denied || !allowed).then(|| Denial::Namespace { namespace: namespace.to_owned() })
    }

    /// Marks denied manifests as refused.
    pub fn review(&self, manifests: &mut [Manifest<'_>]) {
        for manifest in manifests.iter_mut().filter(|manifest| manifest.verdict.is_ok()) {
            if let Some(denial) = self.denial(&manifest.identifier) {
                manifest.verdict = Err(Refusal::Denied(denial));
            }
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            denied_namespaces: Self::DENIED_NAMESPACES.parse().unwrap_or_default(),
            protected_objects: Self::PROTECTED_OBJECTS.parse().unwrap_or_default(),
            ..Self::open()
        }
    }
}

/// Why the policy denies an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    #[error("the policy of the member cluster does not allow the namespace {namespace}")]
    Namespace { namespace: String },
    #[error("the policy of the member cluster does not allow the kind {kind}")]
    Kind { kind: String },
    #[error("the policy of the member cluster protects {kind} {name}, on which its member agent depends")]
    Protected { kind: String, name: String },
}

/// The namespace that an object is in, or that it is.
fn namespace_of(object: &WorkResourceIdentifier) -> Option<&str> {
    if object.group.is_empty() && object.kind == "Namespace" {
        return Some(&object.name);
    }
    Some(object.namespace.as_str()).filter(|namespace| !namespace.is_empty())
}

/// Whether an object is an AppliedWork or the definition of AppliedWorks.
fn is_record(object: &WorkResourceIdentifier) -> bool {
    let info = AppliedWork::INFO;
    let is_definition = || {
        object.kind == "CustomResourceDefinition"
            && object.name.split_once('.').is_some_and(|(plural, group)| plural == info.plural && group == info.group)
    };
    (object.group == info.group && object.kind == info.kind) || is_definition()
}

/// Entries of a flag, separated by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<T>(Vec<T>);

impl<T> List<T> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn any(&self, holds: impl Fn(&T) -> bool) -> bool {
        self.0.iter().any(holds)
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: FromStr<Err = BadEntry>> FromStr for List<T> {
    type Err = BadEntry;

    fn from_str(text: &str) -> Result<Self, BadEntry> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        entries.map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

/// Why an entry of a list is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEntry {
    #[error("{0:?} is not a namespace: write a name, or the beginning of names followed by *")]
    Namespace(String),
    #[error("{0:?} is not a kind: write KIND, KIND.GROUP or *.GROUP")]
    Kind(String),
    #[error("{0:?} is not an object: write KIND/NAME or KIND/NAMESPACE/NAME")]
    Object(String),
}

/// A name, or with `*` at its end a prefix of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespacePattern {
    text: String,
    is_prefix: bool,
}

impl NamespacePattern {
    fn covers(&self, namespace: &str) -> bool {
        if self.is_prefix { namespace.starts_with(&self.text) } else { namespace == self.text }
    }
}

impl FromStr for NamespacePattern {
    type Err = BadEntry;

    fn from_str(text: &str) -> Result<Self, BadEntry> {
        let (name, is_prefix) = text.strip_suffix('*').map_or((text, false), |prefix| (prefix, true));
        let is_fine = name.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-');
        if !is_fine {
            return Err(BadEntry::Namespace(text.to_owned()));
        }
        Ok(Self { text: name.to_owned(), is_prefix })
    }
}

/// A kind of a group, or with `*` as its kind all kinds of the group. The core group has no name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindPattern {
    kind: String,
    group: String,
}

impl KindPattern {
    fn covers(&self, object: &WorkResourceIdentifier) -> bool {
        (self.kind == "*" || self.kind == object.kind) && self.group == object.group
    }
}

impl fmt::Display for KindPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, group } = self;
        if group.is_empty() { f.write_str(kind) } else { write!(f, "{kind}.{group}") }
    }
}

impl FromStr for KindPattern {
    type Err = BadEntry;

    fn from_str(text: &str) -> Result<Self, BadEntry> {
        let (kind, group) = text.split_once('.').unwrap_or((text, ""));
        let is_kind = kind.chars().next().is_some_and(char::is_uppercase) && kind.chars().all(char::is_alphanumeric);
        let is_group = group.split('.').all(|part| !part.is_empty()) || group.is_empty();
        if !(is_kind || kind == "*") || !is_group || text.ends_with('.') || text.contains(['/', ' ']) {
            return Err(BadEntry::Kind(text.to_owned()));
        }
        Ok(Self { kind: kind.to_owned(), group: group.to_owned() })
    }
}

/// One object, whatever the group of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedObject {
    kind: String,
    namespace: String,
    name: String,
}

impl ProtectedObject {
    fn is(&self, object: &WorkResourceIdentifier) -> bool {
        (&self.kind, &self.namespace, &self.name) == (&object.kind, &object.namespace, &object.name)
    }
}

impl FromStr for ProtectedObject {
    type Err = BadEntry;

    fn from_str(text: &str) -> Result<Self, BadEntry> {
        let parts: Vec<&str> = text.split('/').collect();
        let (kind, namespace, name) = match parts[..] {
            [kind, name] => (kind, "", name),
            [kind, namespace, name] if !namespace.is_empty() => (kind, namespace, name),
            _ => return Err(BadEntry::Object(text.to_owned())),
        };
        if kind.is_empty() || name.is_empty() {
            return Err(BadEntry::Object(text.to_owned()));
        }
        Ok(Self { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why an object, written as `KIND.GROUP namespace/name`, is denied.
    fn denial(policy: &Policy, text: &str) -> Option<String> {
        let (kind, object) = text.split_once(' ').unwrap();
        let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
        let (namespace, name) = object.split_once('/').unwrap();
        let texts = [group, kind, namespace, name].map(str::to_owned);
        let [group, kind, namespace, name] = texts;
        let object =
            WorkResourceIdentifier { group, kind, namespace, name, version: "v1".into(), ..Default::default() };
        policy.denial(&object).map(|denial| denial.to_string())
    }

    #[test]
    fn audit_19_by_default_the_clusters_own_namespaces_and_the_agents_rights_are_denied() {
        let default = Policy::default();
        let namespace =
            |name: &str| Some(format!("the policy of the member cluster does not allow the namespace {name}"));
        let protected = |what: &str| {
            Some(format!("the policy of the member cluster protects {what}, on which its member agent depends"))
        };
        assert_eq!(denial(&default, "ConfigMap kube-system/cm"), namespace("kube-system"));
        assert_eq!(denial(&default, "ServiceAccount fleet-system/member-agent-sa"), namespace("fleet-system"));
        assert_eq!(denial(&default, "Namespace /kube-system"), namespace("kube-system"));
        assert_eq!(
            denial(&default, "ClusterRole.rbac.authorization.k8s.io /member-agent-role"),
            protected("ClusterRole member-agent-role")
        );
        for object in [
            "ClusterRoleBinding.rbac.authorization.k8s.io /member-agent-cluster-admin-binding",
            "ClusterRole.rbac.authorization.k8s.io /kubefleet-member-agent",
            "ClusterRoleBinding.rbac.authorization.k8s.io /kubefleet-member-agent",
        ] {
            assert!(denial(&default, object).is_some(), "{object}");
        }
        for object in [
            "ConfigMap app/cm",
            "Namespace /app",
            "Deployment.apps default/web",
            "ClusterRole.rbac.authorization.k8s.io /reader",
            "Namespace.example.com /kube-system",
            "CustomResourceDefinition.apiextensions.k8s.io /widgets.example.com",
        ] {
            assert_eq!(denial(&default, object), None, "{object}");
        }
    }

    #[test]
    fn audit_19_applied_works_are_never_accepted() {
        for object in [
            "AppliedWork.placement.kubernetes-fleet.io /w",
            "CustomResourceDefinition.apiextensions.k8s.io /appliedworks.placement.kubernetes-fleet.io",
        ] {
            assert!(denial(&Policy::open(), object).is_some(), "{object}");
        }
    }

    #[test]
    fn audit_19_a_denial_outweighs_a_permission() {
        let policy = Policy {
            allowed_namespaces: "team-*, shop".parse().unwrap(),
            denied_namespaces: "team-secret".parse().unwrap(),
            allowed_kinds: "Namespace,ConfigMap,*.apps,ClusterRole.rbac.authorization.k8s.io".parse().unwrap(),
            denied_kinds: "DaemonSet.apps".parse().unwrap(),
            protected_objects: "ConfigMap/shop/own,ClusterRole/own".parse().unwrap(),
        };
        for object in [
            "ConfigMap team-a/cm",
            "ConfigMap shop/cm",
            "Namespace /team-b",
            "Deployment.apps shop/web",
            "ClusterRole.rbac.authorization.k8s.io /any",
            "ConfigMap team-a/own",
        ] {
            assert_eq!(denial(&policy, object), None, "{object}");
        }
        let kind = |kind: &str| Some(format!("the policy of the member cluster does not allow the kind {kind}"));
        assert_eq!(denial(&policy, "DaemonSet.apps shop/agent"), kind("DaemonSet.apps"));
        assert_eq!(denial(&policy, "Secret shop/s"), kind("Secret"));
        assert_eq!(denial(&policy, "ConfigMap.example.com shop/cm"), kind("ConfigMap.example.com"));
        for object in [
            "ConfigMap team-secret/cm",
            "ConfigMap other/cm",
            "ConfigMap shopping/cm",
            "Namespace /team-secret",
            "ConfigMap shop/own",
            "ClusterRole.rbac.authorization.k8s.io /own",
        ] {
            assert!(denial(&policy, object).is_some(), "{object}");
        }
    }

    #[test]
    fn meaningless_policy_entries_are_refused() {
        let bad = |result: Result<(), BadEntry>| result.unwrap_err().to_string();
        assert_eq!(
            bad("a,Kube".parse::<List<NamespacePattern>>().map(drop)),
            "\"Kube\" is not a namespace: write a name, or the beginning of names followed by *"
        );
        assert!("a*b".parse::<List<NamespacePattern>>().is_err());
        for text in ["configmaps", "Deployment.", ".apps", "a/b", "Dep loyment", "Deployment..apps"] {
            assert!(text.parse::<List<KindPattern>>().is_err(), "{text}");
        }
        for text in ["ClusterRole", "ClusterRole/", "/x", "A/b/c/d", "A//c"] {
            assert!(text.parse::<List<ProtectedObject>>().is_err(), "{text}");
        }
        assert!("".parse::<List<KindPattern>>().unwrap().is_empty());
        assert_eq!("*.apps".parse::<KindPattern>().unwrap().to_string(), "*.apps");
    }
}
