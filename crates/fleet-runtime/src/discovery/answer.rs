//! What follows from a server's answer about its kinds.
//!
//! Decides what is known after it: the kinds it names, those it named before where a part of it cannot answer now, and which
//! parts have never answered. That a kind is not named means only then that it is not there. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use kube::client::{APIGroupDiscovery, APIResourceDiscovery, APIVersionDiscovery};

use crate::kind::KindId;

/// A kind that the server has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiscoveredKind {
    pub id: KindId,
    pub namespaced: bool,
    /// `get`, `list`, `watch`, `create`, …
    pub verbs: Vec<String>,
    /// Whether this is the version that the server prefers, of those that have this kind.
    pub preferred: bool,
}

impl DiscoveredKind {
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|has| has == verb)
    }
}

/// A part of a server's API.
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

    /// Of an APIService, which is named `VERSION.GROUP`.
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

/// What is known of a server's kinds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Discovered {
    /// All kinds in all served versions, ordered.
    pub kinds: Vec<DiscoveredKind>,
    /// Parts that are there and have not said which kinds they have. Of those, what is not known may well exist.
    pub silent: BTreeSet<GroupVersion>,
}

/// What a complete answer shows.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// Versions by the names of the CustomResourceDefinitions that serve them.
    pub(super) definitions: BTreeMap<String, Vec<String>>,
    /// Names of APIServices.
    pub(super) services: Vec<String>,
}

/// What is known after an answer.
#[derive(Debug)]
pub(super) struct Learnt {
    pub(super) discovered: Discovered,
    /// Whether the answer shows all that there is. If not, another one may.
    pub(super) is_settled: bool,
}

/// The definitions, of these, whose kinds an answer does not name.
pub(super) fn missing<'n>(groups: &[APIGroupDiscovery], definitions: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let named: BTreeSet<String> = kinds_of(groups).into_iter().map(|kind| kind.id.to_string()).collect();
    definitions.filter(|name| !named.contains(*name)).collect()
}

/// All kinds that an answer names, in any order.
fn kinds_of(groups: &[APIGroupDiscovery]) -> Vec<DiscoveredKind> {
    parts(groups).flat_map(|(group, version)| kinds_of_version(group, version)).collect()
}

pub(super) fn learn(groups: &[APIGroupDiscovery], before: &Discovered, expected: &Expected) -> Learnt {
    let mut learning = Learning { before, named: Vec::new(), kept: Vec::new(), silent: BTreeSet::new() };
    let mut is_settled = true;
    let mut answered = BTreeSet::new();
    for (group, version) in parts(groups) {
        let part = GroupVersion::new(group, version_of(version));
        answered.insert(part.clone());
        // An aggregated API that its server cannot reach. What that has heard of it earlier it still tells.
        let is_stale = version.freshness.as_deref() == Some("Stale");
        is_settled &= !is_stale;
        if is_stale && version.resources.is_empty() {
            learning.keep_part(part);
        } else {
            learning.named.extend(kinds_of_version(group, version));
        }
    }
    for part in expected.services.iter().map(|name| GroupVersion::of_service(name)) {
        if !answered.contains(&part) {
            is_settled = false;
            learning.keep_part(part);
        }
    }
    let names: BTreeSet<String> = learning.named.iter().chain(&learning.kept).map(|kind| kind.id.to_string()).collect();
    for (name, versions) in expected.definitions.iter().filter(|(name, _)| !names.contains(*name)) {
        is_settled = false;
        learning.keep_definition(name, versions);
    }
    Learnt { discovered: learning.end(), is_settled }
}

struct Learning<'b> {
    before: &'b Discovered,
    /// In the order of the answer.
    named: Vec<DiscoveredKind>,
    kept: Vec<DiscoveredKind>,
    silent: BTreeSet<GroupVersion>,
}

impl Learning<'_> {
    /// The kinds that this part had, or else that nothing is known of it.
    fn keep_part(&mut self, part: GroupVersion) {
        let had = self.keep(|kind| kind.id.group == part.group && kind.id.version == part.version);
        if !had {
            self.silent.insert(part);
        }
    }

    /// The same for a definition that serves these versions.
    fn keep_definition(&mut self, name: &str, versions: &[String]) {
        if !self.keep(|kind| kind.id.to_string() == name) {
            let group = name.split_once('.').map_or("", |(_, group)| group);
            self.silent.extend(versions.iter().map(|version| GroupVersion::new(group, version)));
        }
    }

    /// Says whether there were any.
    fn keep(&mut self, is_meant: impl Fn(&DiscoveredKind) -> bool) -> bool {
        let known = self.kept.len();
        self.kept.extend(self.before.kinds.iter().filter(|kind| is_meant(kind)).cloned());
        self.kept.len() > known
    }

    fn end(self) -> Discovered {
        let Self { mut named, mut kept, silent, .. } = self;
        let name = |kind: &DiscoveredKind| (kind.id.group.clone(), kind.id.plural.clone());
        // What a version is preferred to does not change because that one cannot answer.
        let mut preferred: BTreeSet<_> = kept.iter().filter(|kind| kind.preferred).map(name).collect();
        for kind in &mut named {
            kind.preferred = preferred.insert(name(kind));
        }
        let mut kinds = named;
        kinds.append(&mut kept);
        kinds.sort();
        kinds.dedup();
        Discovered { kinds, silent }
    }
}

/// Group and version of each part, in the order of the answer: versions that the server prefers come first.
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
