//! Static facts of a kind: names, scope, versions, printed columns.

/// Whether objects of a kind are namespaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScopeKind {
    Cluster,
    Namespaced,
}

impl ScopeKind {
    /// As in a CustomResourceDefinition.
    pub fn as_str(self) -> &'static str {
        match self {
            ScopeKind::Cluster => "Cluster",
            ScopeKind::Namespaced => "Namespaced",
        }
    }
}

/// One served version of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    pub name: &'static str,
    /// Objects are stored in this version. Exactly one per kind.
    pub storage: bool,
    /// Paths that other versions have and this one lacks, as `spec.deleteOptions`.
    pub lacks: &'static [&'static str],
}

/// One column that `kubectl get` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub path: &'static str,
    pub type_: &'static str,
    /// 0: always shown; 1: only with `-o wide`.
    pub priority: i32,
}

/// A text column that is always shown.
pub(crate) const fn column(name: &'static str, path: &'static str) -> Column {
    Column { name, path, type_: "string", priority: 0 }
}

/// A text column that is shown with `-o wide`.
pub(crate) const fn wide(name: &'static str, path: &'static str) -> Column {
    Column { name, path, type_: "string", priority: 1 }
}

/// A column that shows an age.
pub(crate) const fn date(name: &'static str, path: &'static str) -> Column {
    Column { name, path, type_: "date", priority: 0 }
}

pub(crate) const AGE: Column = date("Age", ".metadata.creationTimestamp");

/// A validation rule of a CustomResourceDefinition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    pub rule: &'static str,
    pub message: &'static str,
}

/// Everything in a CustomResourceDefinition except the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindInfo {
    pub group: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub scope: ScopeKind,
    /// Served versions, in the order in which they are published.
    pub versions: &'static [Version],
    pub columns: &'static [Column],
    pub status_subresource: bool,
    /// Rules on the whole object.
    pub rules: &'static [Rule],
    /// Rules on the spec for this scope only.
    pub spec_rules: &'static [Rule],
    pub description: &'static str,
}

impl KindInfo {
    pub fn storage_version(&self) -> &'static str {
        self.versions.iter().find(|v| v.storage).map_or("", |v| v.name)
    }

    /// `group/version` of the storage version.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.storage_version())
    }

    /// Name of the CustomResourceDefinition.
    pub fn crd_name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    pub(crate) fn api_versions(&self) -> String {
        let all: Vec<String> = self.versions.iter().map(|v| format!("{}/{}", self.group, v.name)).collect();
        all.join(", ")
    }
}
