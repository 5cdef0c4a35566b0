//! Combines a discovery response with what was known before.
//!
//! Kinds of a group version that cannot answer now are kept. A missing kind counts as absent only if every part of the API
//! answered.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use kube::client::{APIGroupDiscovery, APIResourceDiscovery, APIVersionDiscovery};

use crate::kind::KindId;

/// A kind that the server serves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiscoveredKind {
    pub id: KindId,
    pub namespaced: bool,
    /// `get`, `list`, `watch`, `create`, …
    pub verbs: Vec<String>,
    /// Whether this is the server's preferred version of the kind.
    pub preferred: bool,
}

impl DiscoveredKind {
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|has| has == verb)
    }
}

/// A group and version of a server's API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupVersion {
    /// Empty for the core group.
    pub group: Arc<str>,
    pub version: Arc<str>,
}

impl GroupVersion {
    fn new(group: &str, version: &str) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// From the name of an APIService: `VERSION.GROUP`.
    fn of_service(name: &str) -> Self {
        let (version, group) = name.split_once('.').unwrap_or((name, ""));
        Self::new(group, version)
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.group.is_empty() { "" } else { "/" };
        write!(f, "{}{slash}{}", self.group, self.version)
    }
}

/// The kinds of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Discovered {
    /// All kinds in all served versions, ordered.
    pub kinds: Vec<DiscoveredKind>,
    /// Group versions that exist but have never listed their kinds. An unknown kind of these may exist.
    pub undiscoverable: BTreeSet<GroupVersion>,
}

/// What a complete response contains.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// Served versions by the name of the CustomResourceDefinition.
    pub(super) definitions: BTreeMap<String, Vec<String>>,
    /// Names of APIServices.
    pub(super) services: Vec<String>,
}

/// The state after a response.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) discovered: Discovered,
    /// Whether the response was complete. If not, discovery is repeated.
    pub(super) is_complete: bool,
}

/// The names of these definitions whose kinds a response does not contain.
pub(super) fn missing<'n>(groups: &[APIGroupDiscovery], definitions: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let named: BTreeSet<String> = kinds_of(groups).into_iter().map(|kind| kind.id.to_string()).collect();
    definitions.filter(|name| !named.contains(*name)).collect()
}

/// All kinds of a response, in any order.
fn kinds_of(groups: &[APIGroupDiscovery]) -> Vec<DiscoveredKind> {
    parts(groups).flat_map(|(group, version)| kinds_of_version(group, version)).collect()
}

pub(super) fn merge(groups: &[APIGroupDiscovery], before: &Discovered, expected: &Expected) -> Merged {
    let mut merging = Merging { before, named: Vec::new(), kept: Vec::new(), undiscoverable: BTreeSet::new() };
    let mut is_complete = true;
    let mut answered = BTreeSet::new();
    for (group, version) in parts(groups) {
        let part = GroupVersion::new(group, version_of(version));
        answered.insert(part.clone());
        // Stale: the server cannot reach an aggregated API. It may still list the kinds that it knew before.
        let is_stale = version.freshness.as_deref() == Some("Stale");
        is_complete &= !is_stale;
        if is_stale && version.resources.is_empty() {
            merging.keep_part(part);
        } else {
            merging.named.extend(kinds_of_version(group, version));
        }
    }
    for part in expected.services.iter().map(|name| GroupVersion::of_service(name)) {
        if !answered.contains(&part) {
            is_complete = false;
            merging.keep_part(part);
        }
    }
    let names: BTreeSet<String> = merging.named.iter().chain(&merging.kept).map(|kind| kind.id.to_string()).collect();
    for (name, versions) in expected.definitions.iter().filter(|(name, _)| !names.contains(*name)) {
        is_complete = false;
        merging.keep_definition(name, versions);
    }
    Merged { discovered: merging.end(), is_complete }
}

struct Merging<'b> {
    before: &'b Discovered,
    /// In the order of the response.
    named: Vec<DiscoveredKind>,
    kept: Vec<DiscoveredKind>,
    undiscoverable: BTreeSet<GroupVersion>,
}

impl Merging<'_> {
    /// Keeps the known kinds of a group version; without any, it is undiscoverable.
    fn keep_part(&mut self, part: GroupVersion) {
        let had = self.keep(|kind| kind.id.group == part.group && kind.id.version == part.version);
        if !had {
            self.undiscoverable.insert(part);
        }
    }

    /// As `keep_part`, for a definition that serves these versions.
    fn keep_definition(&mut self, name: &str, versions: &[String]) {
        if !self.keep(|kind| kind.id.to_string() == name) {
            let group = name.split_once('.').map_or("", |(_, group)| group);
            self.undiscoverable.extend(versions.iter().map(|version| GroupVersion::new(group, version)));
        }
    }

    /// Keeps the known kinds that match. Returns whether there were any.
    fn keep(&mut self, matches: impl Fn(&DiscoveredKind) -> bool) -> bool {
        let known = self.kept.len();
        self.kept.extend(self.before.kinds.iter().filter(|kind| matches(kind)).cloned());
        self.kept.len() > known
    }

    fn end(self) -> Discovered {
        let Self { mut named, mut kept, undiscoverable, .. } = self;
        let name = |kind: &DiscoveredKind| (kind.id.group.clone(), kind.id.plural.clone());
        // A kept kind stays preferred although its version cannot answer now.
        let mut preferred: BTreeSet<_> = kept.iter().filter(|kind| kind.preferred).map(name).collect();
        for kind in &mut named {
            kind.preferred = preferred.insert(name(kind));
        }
        let mut kinds = named;
        kinds.append(&mut kept);
        kinds.sort();
        kinds.dedup();
        Discovered { kinds, undiscoverable }
    }
}

/// Group and version of each part, in the order of the response: preferred versions come first.
fn parts(groups: &[APIGroupDiscovery]) -> impl Iterator<Item = (&str, &APIVersionDiscovery)> {
    groups.iter().flat_map(|group| {
        let name = group.metadata.as_ref().and_then(|metadata| metadata.name.as_deref()).unwrap_or_default();
        group.versions.iter().map(move |version| (name, version))
    })
}

fn version_of(discovered: &APIVersionDiscovery) -> &str {
    discovered.version.as_deref().unwrap_or_default()
}

fn kinds_of_version<'a>(
    group: &'a str,
    discovered: &'a APIVersionDiscovery,
) -> impl Iterator<Item = DiscoveredKind> + 'a {
    discovered.resources.iter().filter_map(move |resource: &APIResourceDiscovery| {
        let kind = resource.response_kind.as_ref()?.kind.as_deref()?;
        Some(DiscoveredKind {
            id: KindId::new(group, version_of(discovered), kind, resource.resource.as_deref()?),
            namespaced: resource.scope.as_deref() == Some("Namespaced"),
            verbs: resource.verbs.clone(),
            preferred: false,
        })
    })
}
