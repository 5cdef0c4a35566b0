//! The served kinds, and which of them are watched: those that a selector names, and all kinds that are placed with
//! their namespace if a placement selects whole namespaces.
//!
//! Uses counters, so that a change does not need a scan of all placements.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet_api::kinds::{Obj, Placement, Scope};
use fleet_api::types::{ResourceSelectorTerm, SelectionScope};
use fleet_core::placement::{GroupVersion, GroupVersionKind, Kind, Propagation};
use fleet_runtime::{Cache, Discovered, DiscoveredKind, Discovery, KindId, MetadataCaches, ObjectKey};
use parking_lot::Mutex;

/// All kinds, sorted by group, version and kind.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    all: Vec<(Kind, KindId)>,
    /// Kinds that are placed with their namespace unless they are blocked.
    namespaced: Vec<usize>,
    undiscovered: Vec<GroupVersion>,
}

impl Kinds {
    pub(super) fn new(discovered: &Discovered) -> Self {
        let kinds = &discovered.kinds;
        let mut all: Vec<_> = kinds.iter().map(|kind| (kind_of(kind), kind.id.clone())).collect();
        all.sort();
        all.dedup_by(|one, other| one.0.is(&other.0.group, &other.0.version, &other.0.kind));
        let watched: BTreeSet<&KindId> =
            kinds.iter().filter(|kind| can_be_watched(kind)).map(|kind| &kind.id).collect();
        let is_swept = |(kind, id): &(Kind, KindId)| kind.namespaced && kind.preferred && watched.contains(id);
        let namespaced = all.iter().enumerate().filter(|(_, one)| is_swept(one)).map(|(place, _)| place).collect();
        let undiscovered =
            discovered.undiscoverable.iter().map(|part| GroupVersion::new(&part.group, &part.version)).collect();
        Self { all, namespaced, undiscovered }
    }

    pub(super) fn find(&self, group: &str, version: &str, kind: &str) -> Option<&(Kind, KindId)> {
        let wanted = (group, version, kind);
        let place = self
            .all
            .binary_search_by(|(one, _)| (one.group.as_str(), one.version.as_str(), one.kind.as_str()).cmp(&wanted));
        place.ok().map(|place| &self.all[place])
    }

    pub(super) fn undiscovered(&self) -> &[GroupVersion] {
        &self.undiscovered
    }

    pub(super) fn namespaced(&self) -> impl Iterator<Item = &(Kind, KindId)> {
        self.namespaced.iter().map(|&place| &self.all[place])
    }
}

fn kind_of(discovered: &DiscoveredKind) -> Kind {
    let id = &discovered.id;
    Kind {
        group: id.group.to_string(),
        version: id.version.to_string(),
        kind: id.kind.to_string(),
        plural: id.plural.to_string(),
        namespaced: discovered.namespaced,
        preferred: discovered.preferred,
    }
}

fn can_be_watched(kind: &DiscoveredKind) -> bool {
    kind.has_verb("list") && kind.has_verb("watch")
}

/// Group, version and kind as in a selector.
type Named = (String, String, String);

/// Restricts watches to the kinds that placements need. Both scopes share it.
#[derive(Debug)]
pub(super) struct WatchedKinds {
    discovery: Discovery,
    metadata: MetadataCaches,
    propagation: Arc<Propagation>,
    needs: Mutex<Needs>,
}

/// The kinds that one placement needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Need {
    /// Kinds in its selectors.
    named: BTreeSet<Named>,
    /// Whether a selector selects whole namespaces.
    sweeps: bool,
}

impl Need {
    fn of(selectors: &[ResourceSelectorTerm]) -> Self {
        Self { named: selectors.iter().map(named).collect(), sweeps: selectors.iter().any(takes_content) }
    }
}

#[derive(Debug, Default)]
struct Needs {
    placements: BTreeMap<ObjectKey, Need>,
    /// The number of placements that name a kind.
    named: BTreeMap<Named, usize>,
    /// The number of placements that select whole namespaces.
    sweeps: usize,
    /// The discovery result from which `kinds` was computed.
    discovered: Option<Arc<Discovered>>,
    kinds: Arc<Kinds>,
}

impl WatchedKinds {
    pub(super) fn new(discovery: Discovery, metadata: MetadataCaches, propagation: Arc<Propagation>) -> Self {
        Self { discovery, metadata, propagation, needs: Mutex::default() }
    }

    /// The currently served kinds.
    pub(super) fn kinds(&self) -> Arc<Kinds> {
        self.needs.lock().kinds(&self.discovery)
    }

    /// A placement was created, changed or deleted. Uses the cached object, because events may arrive out of order.
    pub(super) fn update<S: Scope>(&self, placements: &Cache<Obj<Placement, S>>, key: &ObjectKey) {
        let mut needs = self.needs.lock();
        let now = placements.get(key).map(|placement| Need::of(&placement.spec.resource_selectors));
        if needs.set(key, now) {
            self.watch(&mut needs);
        }
    }

    /// The served kinds may have changed.
    pub(super) fn refresh(&self) {
        self.watch(&mut self.needs.lock());
    }

    fn watch(&self, needs: &mut Needs) {
        let kinds = needs.kinds(&self.discovery);
        self.metadata.set_kinds(&needs.wanted(&kinds, &self.propagation));
    }
}

impl Needs {
    fn kinds(&mut self, discovery: &Discovery) -> Arc<Kinds> {
        let discovered = discovery.discovered();
        if !self.discovered.as_ref().is_some_and(|before| Arc::ptr_eq(before, &discovered)) {
            self.kinds = Arc::new(Kinds::new(&discovered));
            self.discovered = Some(discovered);
        }
        self.kinds.clone()
    }

    /// Returns whether the needs have changed.
    fn set(&mut self, placement: &ObjectKey, need: Option<Need>) -> bool {
        if self.placements.get(placement) == need.as_ref() {
            return false;
        }
        if let Some(before) = self.placements.remove(placement) {
            self.sweeps -= usize::from(before.sweeps);
            for kind in before.named {
                if let Entry::Occupied(mut count) = self.named.entry(kind) {
                    *count.get_mut() -= 1;
                    if *count.get() == 0 {
                        count.remove();
                    }
                }
            }
        }
        if let Some(need) = need {
            self.sweeps += usize::from(need.sweeps);
            for kind in &need.named {
                *self.named.entry(kind.clone()).or_default() += 1;
            }
            self.placements.insert(placement.clone(), need);
        }
        true
    }

    fn wanted(&self, kinds: &Kinds, propagation: &Propagation) -> BTreeSet<KindId> {
        let mut wanted = BTreeSet::new();
        for (group, version, kind) in self.named.keys() {
            let blocked = propagation.blocks_kind(GroupVersionKind { group, version, kind });
            wanted.extend(kinds.find(group, version, kind).filter(|_| !blocked).map(|(_, id)| id.clone()));
        }
        if self.sweeps > 0 {
            let swept = kinds.namespaced().filter(|(kind, _)| propagation.sweeps_kind(kind));
            wanted.extend(swept.map(|(_, id)| id.clone()));
        }
        if wanted.is_empty() {
            return wanted;
        }
        // The selection can depend on the namespace of an object, and for Endpoints on their Service.
        wanted.extend(kinds.find("", "v1", "Namespace").map(|(_, id)| id.clone()));
        if wanted.iter().any(|id| id.group.is_empty() && &*id.kind == "Endpoints") {
            wanted.extend(kinds.find("", "v1", "Service").map(|(_, id)| id.clone()));
        }
        wanted
    }
}

fn named(term: &ResourceSelectorTerm) -> Named {
    (term.group.clone(), term.version.clone(), term.kind.clone())
}

/// Whether a selector selects the content of a namespace. A namespaced placement refuses such a selector; then it
/// only costs watches.
fn takes_content(term: &ResourceSelectorTerm) -> bool {
    term.is_namespace() && term.selection_scope() == SelectionScope::NamespaceWithResources
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn discovered(text: &str) -> DiscoveredKind {
        let mut words = text.split_whitespace();
        let mut next = || words.next().unwrap();
        let (group, version, kind) = (next().trim_matches('-'), next(), next());
        let plural = format!("{}s", kind.to_lowercase());
        let rest: Vec<&str> = text.split_whitespace().skip(3).collect();
        DiscoveredKind {
            id: KindId::new(group, version, kind, &plural),
            namespaced: rest.contains(&"namespaced"),
            verbs: if rest.contains(&"unwatchable") { vec![] } else { vec!["list".to_owned(), "watch".to_owned()] },
            preferred: !rest.contains(&"old"),
        }
    }

    const SERVER: &str = "- v1 Namespace
        - v1 ConfigMap namespaced
        - v1 Pod namespaced
        - v1 Endpoints namespaced
        - v1 Service namespaced
        - v1 Binding namespaced unwatchable
        apps v1 Deployment namespaced
        apps v1beta1 Deployment namespaced old
        rbac.authorization.k8s.io v1 ClusterRole";

    fn server() -> Kinds {
        let kinds = SERVER.lines().map(str::trim).map(discovered).collect();
        Kinds::new(&Discovered { kinds, ..Discovered::default() })
    }

    fn term(text: &str) -> ResourceSelectorTerm {
        let (kind, scope) = text.split_once(' ').unwrap_or((text, "NamespaceWithResources"));
        let parts: Vec<&str> = kind.split('/').collect();
        let [group, version, kind] = parts[..] else { panic!("{text}") };
        let value = json!({"group": group, "version": version, "kind": kind, "selectionScope": scope});
        serde_json::from_value(value).unwrap()
    }

    fn check(terms: &[&str], expected: Expect) {
        let kinds = server();
        let mut needs = Needs::default();
        let terms: Vec<_> = terms.iter().map(|text| term(text)).collect();
        let (one, other) = (ObjectKey::cluster("one"), ObjectKey::cluster("other"));
        for placement in [&one, &other] {
            needs.set(placement, Some(Need::of(&terms)));
        }
        assert!(!needs.set(&other, Some(Need::of(&terms))), "nothing new");
        needs.set(&other, None);
        let wanted = needs.wanted(&kinds, &Propagation::default());
        let text: Vec<_> = wanted.iter().map(|id| format!("{}/{}", id.api_version(), id.kind)).collect();
        expected.assert_eq(&text.join(" "));
        needs.set(&one, Some(Need::default()));
        assert!(needs.named.is_empty() && needs.sweeps == 0);
    }

    #[test]
    fn only_selectable_kinds_are_watched() {
        check(&[], expect![[""]]);
        check(
            &["rbac.authorization.k8s.io/v1/ClusterRole"],
            expect!["v1/Namespace rbac.authorization.k8s.io/v1/ClusterRole"],
        );
        check(&["/v1/Namespace NamespaceOnly"], expect!["v1/Namespace"]);
        check(&["/v1/Pod", "no/v1/Such"], expect![[""]]);
        check(&["apps/v1beta1/Deployment"], expect!["v1/Namespace apps/v1beta1/Deployment"]);
        check(&["/v1/Endpoints"], expect!["v1/Endpoints v1/Namespace v1/Service"]);
    }

    #[test]
    fn whole_namespaces_need_all_kinds_that_come_along() {
        check(&["/v1/Namespace"], expect!["v1/ConfigMap v1/Endpoints v1/Namespace v1/Service apps/v1/Deployment"]);
    }

    #[test]
    fn kinds_are_found_by_group_version_and_kind() {
        let kinds = server();
        let found = kinds.find("apps", "v1beta1", "Deployment").map(|(kind, _)| (kind.preferred, kind.namespaced));
        assert_eq!(found, Some((false, true)));
        assert!(kinds.find("apps", "v2", "Deployment").is_none());
        assert_eq!(kinds.namespaced().count(), 5);
    }
}
