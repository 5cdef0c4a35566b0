//! The RBAC authorizer: Roles, ClusterRoles and their bindings, indexed by subject.
//!
//! The store calls it for every change of an RBAC object, inside the write path. A check reads only the bindings of the
//! user and its groups.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::{self, Write as _};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use k8s_values::Selector;
use serde_json::Value;

use super::rule::{Attributes, PolicyRule};
use super::user::{User, service_account_name};
use crate::error::ApiError;

pub(crate) const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// The four kinds that the index follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RbacKind {
    Role,
    ClusterRole,
    RoleBinding,
    ClusterRoleBinding,
}

impl RbacKind {
    pub(crate) fn from_resource(group: &str, resource: &str) -> Option<Self> {
        if group != RBAC_GROUP {
            return None;
        }
        match resource {
            "roles" => Some(Self::Role),
            "clusterroles" => Some(Self::ClusterRole),
            "rolebindings" => Some(Self::RoleBinding),
            "clusterrolebindings" => Some(Self::ClusterRoleBinding),
            _ => None,
        }
    }

    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::Role => "roles",
            Self::ClusterRole => "clusterroles",
            Self::RoleBinding => "rolebindings",
            Self::ClusterRoleBinding => "clusterrolebindings",
        }
    }
}

/// The answer to one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// With the reason that access reviews print; empty for `system:masters`.
    Allowed(String),
    /// With what could not be resolved on the way, or empty.
    NoOpinion(String),
}

impl Decision {
    pub(crate) fn is_allowed(&self) -> bool {
        matches!(self, Decision::Allowed(_))
    }
}

/// The role of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RoleRef {
    pub(crate) kind: String,
    pub(crate) name: String,
}

impl RoleRef {
    pub(crate) fn from_binding(binding: &Value) -> Self {
        Self { kind: text(binding, "/roleRef/kind").to_owned(), name: text(binding, "/roleRef/name").to_owned() }
    }
}

/// A binding's subject reduced to what a user is matched by; a service account is matched by its user name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    User(String),
    Group(String),
}

#[derive(Debug)]
struct Bound {
    role: RoleRef,
    /// The subject as access reviews print it.
    subject: String,
}

/// Bindings of one scope: subject → binding name → what it grants.
#[derive(Debug, Default)]
struct Bindings {
    by_subject: HashMap<Subject, BTreeMap<String, Bound>>,
    subjects_of: HashMap<String, Vec<Subject>>,
}

impl Bindings {
    fn set(&mut self, namespace: &str, binding: &Value) {
        let name = text(binding, "/metadata/name").to_owned();
        self.remove(&name);
        let role = RoleRef::from_binding(binding);
        let empty = Vec::new();
        let subjects = binding.get("subjects").and_then(Value::as_array).unwrap_or(&empty);
        let mut keys = Vec::new();
        for value in subjects {
            let Some((key, printed)) = subject(value, namespace) else { continue };
            let bound = Bound { role: role.clone(), subject: printed };
            self.by_subject.entry(key.clone()).or_default().entry(name.clone()).or_insert(bound);
            keys.push(key);
        }
        self.subjects_of.insert(name, keys);
    }

    fn remove(&mut self, name: &str) {
        for key in self.subjects_of.remove(name).unwrap_or_default() {
            if let Some(bindings) = self.by_subject.get_mut(&key) {
                bindings.remove(name);
                if bindings.is_empty() {
                    self.by_subject.remove(&key);
                }
            }
        }
    }

    /// The bindings of a user, each once, in order of their names.
    fn of(&self, user: &User) -> BTreeMap<&str, &Bound> {
        let groups = user.groups.iter().map(|group| Subject::Group(group.clone()));
        let mut out = BTreeMap::new();
        for key in std::iter::once(Subject::User(user.name.clone())).chain(groups) {
            for (name, bound) in self.by_subject.get(&key).into_iter().flatten() {
                out.entry(name.as_str()).or_insert(bound);
            }
        }
        out
    }
}

#[derive(Debug)]
struct ClusterRole {
    labels: BTreeMap<String, String>,
    selectors: Option<Vec<Selector>>,
    rules: Arc<[PolicyRule]>,
}

#[derive(Debug, Default)]
struct Index {
    cluster_roles: HashMap<String, ClusterRole>,
    roles: HashMap<(String, String), Arc<[PolicyRule]>>,
    cluster_bindings: Bindings,
    bindings: HashMap<String, Bindings>,
    /// Set when a ClusterRole changed: the rules of aggregating roles are then gathered again before the next check.
    aggregation_stale: bool,
}

/// The authorizer. Cheap to ask from many threads at once.
#[derive(Debug, Default)]
pub(crate) struct Rbac {
    index: RwLock<Index>,
}

impl Rbac {
    /// Applies a change of any object: `None` means that it was deleted. Ignores objects of other kinds.
    #[cfg(test)]
    pub(crate) fn observe(&self, group: &str, resource: &str, namespace: &str, name: &str, object: Option<&Value>) {
        match (RbacKind::from_resource(group, resource), object) {
            (Some(kind), Some(object)) => self.set(kind, object),
            (Some(kind), None) => self.remove(kind, namespace, name),
            (None, _) => {}
        }
    }

    /// Applies a created or changed object.
    pub(crate) fn set(&self, kind: RbacKind, object: &Value) {
        let namespace = text(object, "/metadata/namespace");
        let name = text(object, "/metadata/name");
        let mut index = self.write();
        match kind {
            RbacKind::Role => {
                index.roles.insert((namespace.to_owned(), name.to_owned()), rules_of(object));
            }
            RbacKind::ClusterRole => {
                index.cluster_roles.insert(name.to_owned(), ClusterRole::from_value(object));
                index.aggregation_stale = true;
            }
            RbacKind::RoleBinding => index.bindings.entry(namespace.to_owned()).or_default().set(namespace, object),
            RbacKind::ClusterRoleBinding => index.cluster_bindings.set("", object),
        }
    }

    /// Forgets a deleted object.
    pub(crate) fn remove(&self, kind: RbacKind, namespace: &str, name: &str) {
        let mut index = self.write();
        match kind {
            RbacKind::Role => {
                index.roles.remove(&(namespace.to_owned(), name.to_owned()));
            }
            RbacKind::ClusterRole => {
                index.cluster_roles.remove(name);
                index.aggregation_stale = true;
            }
            RbacKind::RoleBinding => {
                if let Some(bindings) = index.bindings.get_mut(namespace) {
                    bindings.remove(name);
                    if bindings.subjects_of.is_empty() {
                        index.bindings.remove(namespace);
                    }
                }
            }
            RbacKind::ClusterRoleBinding => index.cluster_bindings.remove(name),
        }
    }

    pub(crate) fn authorize(&self, asked: &Attributes<'_>) -> Decision {
        if asked.user.is_master() {
            return Decision::Allowed(String::new());
        }
        let mut allowed = None;
        let mut failures: Vec<String> = Vec::new();
        self.read().visit(asked.user, asked.namespace(), &mut |source, rules| match rules {
            Ok(rules) if rules.iter().any(|rule| rule.allows(asked)) => {
                allowed = Some(format!("RBAC: allowed by {source}"));
                false
            }
            Ok(_) => true,
            Err(failure) => {
                if !failures.contains(&failure) {
                    failures.push(failure);
                }
                true
            }
        });
        match (allowed, failures.as_slice()) {
            (Some(reason), _) => Decision::Allowed(reason),
            (None, []) => Decision::NoOpinion(String::new()),
            (None, [one]) => Decision::NoOpinion(format!("RBAC: {one}")),
            (None, many) => Decision::NoOpinion(format!("RBAC: [{}]", many.join(", "))),
        }
    }

    /// Refuses with the text and shape that Kubernetes has for it, unless allowed.
    pub(crate) fn require(&self, asked: &Attributes<'_>) -> Result<(), ApiError> {
        match self.authorize(asked) {
            Decision::Allowed(_) => Ok(()),
            Decision::NoOpinion(reason) => Err(forbidden(asked, &reason)),
        }
    }

    /// All rules that a user has in a namespace (cluster-wide ones included), and what could not be resolved.
    pub(crate) fn rules_for(&self, user: &User, namespace: &str) -> (Vec<PolicyRule>, Vec<String>) {
        let mut rules = Vec::new();
        let mut failures = Vec::new();
        self.read().visit(user, namespace, &mut |_, found| {
            match found {
                Ok(found) => rules.extend_from_slice(found),
                Err(failure) => failures.push(failure),
            }
            true
        });
        (rules, failures)
    }

    /// The rules behind a reference, or the reason why there are none.
    pub(crate) fn role_rules(&self, role: &RoleRef, namespace: &str) -> Result<Arc<[PolicyRule]>, String> {
        self.read().resolve(role, namespace)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, Index> {
        let guard = self.index.read().unwrap_or_else(PoisonError::into_inner);
        if !guard.aggregation_stale {
            return guard;
        }
        drop(guard);
        self.write().aggregate();
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer to a refused question.
pub(crate) fn forbidden(asked: &Attributes<'_>, reason: &str) -> ApiError {
    let mut why = asked.refusal();
    if !reason.is_empty() {
        let _ = write!(why, ": {reason}");
    }
    match asked.target {
        super::rule::Target::Path(_) => ApiError::forbidden("", "", "", &why),
        super::rule::Target::Resource { group, resource, name, .. } => ApiError::forbidden(group, resource, name, &why),
    }
}

/// The rules that an aggregating ClusterRole gathers from the roles that its selectors match, itself excepted.
///
/// `roles` gives name and object of every ClusterRole in name order. Rules that occur twice are kept once.
pub(crate) fn aggregated_rules<'a>(role: &Value, roles: impl IntoIterator<Item = &'a Value>) -> Vec<PolicyRule> {
    let own_name = text(role, "/metadata/name");
    let selectors = selectors_of(role).unwrap_or_default();
    let mut out: Vec<PolicyRule> = Vec::new();
    let mut known = HashSet::new();
    for candidate in roles {
        let labels = labels_of(candidate);
        if text(candidate, "/metadata/name") == own_name
            || !selectors.iter().any(|selector| selector.matches_by(|key| labels.get(key).copied()))
        {
            continue;
        }
        for rule in rules_of(candidate).iter() {
            if known.insert(rule.clone()) {
                out.push(rule.clone());
            }
        }
    }
    out
}

/// A binding through which a user has a role; printed only when a review asks for the reason.
struct Source<'a> {
    name: &'a str,
    namespace: &'a str,
    bound: &'a Bound,
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Source { name, namespace, bound: Bound { role, subject } } = self;
        if namespace.is_empty() {
            write!(f, "ClusterRoleBinding {name:?}")?;
        } else {
            write!(f, "RoleBinding {:?}", format!("{name}/{namespace}"))?;
        }
        write!(f, " of {} {:?} to {subject}", role.kind, role.name)
    }
}

type Visitor<'v> = dyn FnMut(&Source<'_>, Result<&[PolicyRule], String>) -> bool + 'v;

impl Index {
    /// Visits the bindings of the user until the callback stops: cluster-wide bindings first, then those of the namespace.
    fn visit(&self, user: &User, namespace: &str, visitor: &mut Visitor<'_>) {
        for (name, bound) in self.cluster_bindings.of(user) {
            if !self.visit_one(&Source { name, namespace: "", bound }, visitor) {
                return;
            }
        }
        let Some(bindings) = self.bindings.get(namespace).filter(|_| !namespace.is_empty()) else { return };
        for (name, bound) in bindings.of(user) {
            if !self.visit_one(&Source { name, namespace, bound }, visitor) {
                return;
            }
        }
    }

    fn visit_one(&self, source: &Source<'_>, visitor: &mut Visitor<'_>) -> bool {
        match self.resolve(&source.bound.role, source.namespace) {
            Ok(rules) => visitor(source, Ok(&rules)),
            Err(failure) => visitor(source, Err(failure)),
        }
    }

    fn resolve(&self, role: &RoleRef, namespace: &str) -> Result<Arc<[PolicyRule]>, String> {
        let RoleRef { kind, name } = role;
        let found = match kind.as_str() {
            "Role" => self.roles.get(&(namespace.to_owned(), name.clone())).cloned(),
            "ClusterRole" => self.cluster_roles.get(name).map(|role| Arc::clone(&role.rules)),
            _ => return Err(format!("unsupported role reference kind: {kind:?}")),
        };
        found.ok_or_else(|| format!("{}.{RBAC_GROUP} {name:?} not found", kind.to_lowercase()))
    }

    fn aggregate(&mut self) {
        self.aggregation_stale = false;
        let aggregating: Vec<String> =
            self.cluster_roles.iter().filter(|(_, r)| r.selectors.is_some()).map(|(name, _)| name.clone()).collect();
        let gathered: Vec<(String, Arc<[PolicyRule]>)> = aggregating
            .into_iter()
            .map(|name| {
                let mut rules = Vec::new();
                self.gather(&name, &mut HashSet::new(), &mut rules);
                let mut known = HashSet::new();
                rules.retain(|rule| known.insert(*rule));
                let rules = rules.into_iter().cloned().collect();
                (name, rules)
            })
            .collect();
        for (name, rules) in gathered {
            if let Some(role) = self.cluster_roles.get_mut(&name) {
                role.rules = rules;
            }
        }
    }

    /// Collects rules through any depth of aggregation; a role met twice (a cycle) adds nothing the second time.
    fn gather<'a>(&'a self, name: &str, seen: &mut HashSet<String>, out: &mut Vec<&'a PolicyRule>) {
        let Some(role) = self.cluster_roles.get(name) else { return };
        if !seen.insert(name.to_owned()) {
            return;
        }
        let Some(selectors) = &role.selectors else {
            out.extend(role.rules.iter());
            return;
        };
        let mut matching: Vec<&String> = self
            .cluster_roles
            .iter()
            .filter(|(_, other)| selectors.iter().any(|selector| selector.matches(&other.labels)))
            .map(|(other, _)| other)
            .collect();
        matching.sort();
        for other in matching {
            self.gather(other, seen, out);
        }
    }
}

impl ClusterRole {
    fn from_value(object: &Value) -> Self {
        let labels = labels_of(object).into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        Self { labels, selectors: selectors_of(object), rules: rules_of(object) }
    }
}

/// The rules of a Role or ClusterRole object as stored.
pub(crate) fn rules_of(object: &Value) -> Arc<[PolicyRule]> {
    let rules = object.get("rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    rules.iter().map(PolicyRule::from_value).collect()
}

/// The selectors of an aggregating role; an invalid one matches nothing.
fn selectors_of(object: &Value) -> Option<Vec<Selector>> {
    let rule = object.get("aggregationRule").filter(|rule| !rule.is_null())?;
    let selectors = rule.get("clusterRoleSelectors").and_then(Value::as_array).into_iter().flatten();
    Some(selectors.filter_map(|selector| Selector::of_value(selector).ok()).collect())
}

fn labels_of(object: &Value) -> BTreeMap<&str, &str> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    labels.into_iter().flatten().filter_map(|(k, v)| Some((k.as_str(), v.as_str()?))).collect()
}

fn subject(value: &Value, binding_namespace: &str) -> Option<(Subject, String)> {
    let name = text(value, "/name");
    match text(value, "/kind") {
        "User" => Some((Subject::User(name.to_owned()), format!("User {name:?}"))),
        "Group" => Some((Subject::Group(name.to_owned()), format!("Group {name:?}"))),
        "ServiceAccount" => {
            let own = text(value, "/namespace");
            let namespace = if own.is_empty() { binding_namespace } else { own };
            if namespace.is_empty() {
                return None;
            }
            let full = format!("{name}/{namespace}");
            Some((Subject::User(service_account_name(namespace, name)), format!("ServiceAccount {full:?}")))
        }
        _ => None,
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
#[path = "rbac_tests.rs"]
mod tests;
