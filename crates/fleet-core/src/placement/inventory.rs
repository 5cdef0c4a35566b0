//! The objects on the hub from which selectors choose. The caller answers from a cache.

use std::collections::BTreeMap;
use std::fmt;

use fleet_api::types::ResourceIdentifier;
use serde_json::Value;

/// A served kind in one version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub namespaced: bool,
    /// Whether this is the preferred version of the server. Only that version is watched, and only its scope is
    /// known: another one counts as namespaced.
    pub preferred: bool,
}

impl Kind {
    pub fn is(&self, group: &str, version: &str, kind: &str) -> bool {
        self.group == group && self.version == version && self.kind == kind
    }

    /// `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Whether it is known to be cluster-scoped.
    pub(super) fn is_cluster_scoped(&self) -> bool {
        self.preferred && !self.namespaced
    }
}

/// The resource of a kind as messages name it.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.plural)
    }
}

/// A group and version of the hub's API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupVersion {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
}

impl GroupVersion {
    pub fn new(group: &str, version: &str) -> Self {
        Self { group: group.to_owned(), version: version.to_owned() }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.group.is_empty() { "" } else { "/" };
        write!(f, "{}{slash}{}", self.group, self.version)
    }
}

/// What selectors choose from. Answers must not change while one plan is made.
pub trait Inventory: fmt::Debug {
    /// A kind that the server serves.
    fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Kind>;

    /// The namespaced kinds that are watched, in any order.
    fn namespaced_kinds(&self) -> Vec<&Kind>;

    /// Group versions that exist but could not be discovered. Their kinds may exist although they are not found.
    fn undiscovered(&self) -> Vec<GroupVersion>;

    /// Whether the cache of the kind is synced. Before that, a missing object proves nothing.
    fn is_complete(&self, kind: &Kind) -> bool;

    /// All objects of a kind, of one namespace if one is given, in any order.
    fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<LiveObject<'_>>;

    /// One object; cluster-scoped ones have an empty namespace.
    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<LiveObject<'_>>;
}

/// An object on the hub.
#[derive(Debug, Clone, Copy)]
pub struct LiveObject<'a>(pub &'a Value);

impl<'a> LiveObject<'a> {
    fn metadata(self, field: &str) -> Option<&'a Value> {
        self.0.get("metadata")?.get(field).filter(|value| !value.is_null())
    }

    pub fn name(self) -> &'a str {
        self.metadata("name").and_then(Value::as_str).unwrap_or_default()
    }

    /// Empty for cluster-scoped objects.
    pub fn namespace(self) -> &'a str {
        self.metadata("namespace").and_then(Value::as_str).unwrap_or_default()
    }

    pub fn is_deleting(self) -> bool {
        self.metadata("deletionTimestamp").is_some()
    }

    pub fn is_owned(self) -> bool {
        self.metadata("ownerReferences").and_then(Value::as_array).is_some_and(|owners| !owners.is_empty())
    }

    pub fn labels(self) -> BTreeMap<String, String> {
        let labels = self.metadata("labels").and_then(Value::as_object).into_iter().flatten();
        labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    }
}

/// A selected object with its kind, because items of a list do not repeat the kind.
#[derive(Debug, Clone, Copy)]
pub struct Selected<'a> {
    pub kind: &'a Kind,
    pub object: LiveObject<'a>,
}

impl Selected<'_> {
    pub fn identifier(&self) -> ResourceIdentifier {
        ResourceIdentifier {
            group: self.kind.group.clone(),
            version: self.kind.version.clone(),
            kind: self.kind.kind.clone(),
            name: self.object.name().to_owned(),
            namespace: self.object.namespace().to_owned(),
            envelope: None,
        }
    }
}
