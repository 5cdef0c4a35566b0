//! What is on the hub at this moment, as far as one placement's selectors can see it.
//!
//! Decides what has to be read so that `fleet_core::placement` can select: the kinds that selectors name, and everything in
//! the namespaces that they take whole. What could not be read is marked, with why, so that nothing is taken for absent. The hub's own
//! options (kinds and namespaces that stay there) are not known here; the usual ones are assumed.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::names::{NamespaceName, PlacementKey};
use fleet_api::selector::Selector;
use fleet_api::types::{ResourceSelectorTerm, SelectionScope};
use fleet_core::placement::{GroupVersion, Inventory, Kind, LiveObject, Propagation};
use fleet_runtime::{DiscoveredKind, KindId, discover};
use serde_json::Value;

use super::connection::Hub;

/// Where objects were read from: all of a kind, or those of one namespace.
type Shelf = (KindId, Option<String>);

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Live {
    kinds: Vec<(Kind, DiscoveredKind)>,
    silent: Vec<GroupVersion>,
    /// `None` where reading failed.
    objects: BTreeMap<Shelf, Option<Vec<Value>>>,
    /// Why something could not be read; the first reason, if there are several.
    pub(crate) trouble: Option<anyhow::Error>,
}

impl Live {
    /// The kinds that the hub has, and nothing of what there is of them.
    pub(crate) async fn kinds(hub: &Hub) -> anyhow::Result<Self> {
        let found = discover(&hub.client).await.map_err(|error| hub.failed("ask which kinds there are", &error))?;
        let mut kinds: Vec<_> = found.kinds.into_iter().map(|one| (kind_of(&one), one)).collect();
        kinds.sort();
        kinds.dedup_by(|(one, _), (other, _)| one.is(&other.group, &other.version, &other.kind));
        let silent = found.silent.iter().map(|part| GroupVersion::new(&part.group, &part.version)).collect();
        Ok(Self { kinds, silent, ..Self::default() })
    }

    /// Everything that a placement's selectors may yield.
    pub(crate) async fn read(
        hub: &Hub,
        key: &PlacementKey,
        selectors: &[ResourceSelectorTerm],
        propagation: &Propagation,
    ) -> anyhow::Result<Self> {
        let mut live = Self::kinds(hub).await?;
        let own = key.namespace.as_ref().map(NamespaceName::as_str);
        let mut swept: BTreeSet<String> = BTreeSet::new();
        let mut chosen: BTreeSet<String> = own.map(str::to_owned).into_iter().collect();
        if own.is_none() && selectors.iter().any(ResourceSelectorTerm::is_namespace) {
            let namespaces = live.find("", "v1", "Namespace").cloned();
            live.shelve(hub, namespaces.into_iter().map(|(_, kind)| (kind.id, None)).collect()).await;
            for term in selectors.iter().filter(|term| term.is_namespace()) {
                let names = live.namespaces_of(term);
                match term.selection_scope() {
                    SelectionScope::NamespaceWithResources => swept.extend(names),
                    SelectionScope::NamespaceWithResourceSelectors => chosen.extend(names),
                    SelectionScope::NamespaceOnly => {}
                }
            }
        }
        let mut wanted: BTreeSet<Shelf> = BTreeSet::new();
        for term in selectors {
            let Some((kind, discovered)) = live.find(&term.group, &term.version, &term.kind) else { continue };
            if !kind.namespaced {
                wanted.insert((discovered.id.clone(), None));
            }
            let places = chosen.iter().filter(|_| kind.namespaced);
            wanted.extend(places.map(|namespace| (discovered.id.clone(), Some(namespace.clone()))));
        }
        for (kind, discovered) in live.sweepable().filter(|(kind, _)| propagation.sweeps_kind(kind)) {
            let places = swept.iter().filter(|namespace| !propagation.blocks_namespace(namespace));
            wanted.extend(places.map(|namespace| (discovered.id.clone(), Some(namespace.clone()))));
            debug_assert!(kind.namespaced);
        }
        wanted.retain(|shelf| !live.objects.contains_key(shelf));
        live.shelve(hub, wanted.into_iter().collect()).await;
        Ok(live)
    }

    /// Reads shelves side by side.
    async fn shelve(&mut self, hub: &Hub, shelves: Vec<Shelf>) {
        let reads = shelves.into_iter().map(|(id, namespace)| async move {
            let found = hub.list_kind::<Value>(&id, namespace.as_deref(), None).await;
            ((id, namespace), found)
        });
        for (shelf, found) in futures::future::join_all(reads).await {
            let found = found.map_err(|error| self.trouble.get_or_insert(error)).ok();
            self.objects.insert(shelf, found);
        }
    }

    fn find(&self, group: &str, version: &str, kind: &str) -> Option<&(Kind, DiscoveredKind)> {
        self.kinds.iter().find(|(one, _)| one.is(group, version, kind))
    }

    fn id(&self, kind: &Kind) -> Option<&KindId> {
        self.find(&kind.group, &kind.version, &kind.kind).map(|(_, discovered)| &discovered.id)
    }

    /// Kinds whose objects may come along with their namespace.
    fn sweepable(&self) -> impl Iterator<Item = &(Kind, DiscoveredKind)> {
        self.kinds.iter().filter(|(kind, discovered)| {
            kind.namespaced && kind.preferred && discovered.has_verb("list") && discovered.has_verb("watch")
        })
    }

    /// Names of the namespaces that a selector means. A selector that cannot be read means none; selection will say so.
    fn namespaces_of(&self, term: &ResourceSelectorTerm) -> Vec<String> {
        let all = self.find("", "v1", "Namespace").map(|(kind, _)| self.list(kind, None)).unwrap_or_default();
        let selector = term.label_selector.as_ref().and_then(|labels| Selector::new(Some(labels)).ok());
        let is_meant = |object: &LiveObject<'_>| match (&selector, term.name.as_str()) {
            (_, name) if !name.is_empty() => object.name() == name,
            (Some(selector), _) => selector.matches(&object.labels()),
            (None, _) => term.label_selector.is_none(),
        };
        all.into_iter().filter(is_meant).map(|object| object.name().to_owned()).collect()
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

impl Inventory for Live {
    fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Kind> {
        self.find(group, version, kind).map(|(kind, _)| kind)
    }

    fn namespaced_kinds(&self) -> Vec<&Kind> {
        self.sweepable().map(|(kind, _)| kind).collect()
    }

    fn silent(&self) -> Vec<GroupVersion> {
        self.silent.clone()
    }

    fn is_complete(&self, kind: &Kind) -> bool {
        let Some(id) = self.id(kind) else { return false };
        let mut shelves = self.objects.iter().filter(|((of, _), _)| of == id);
        shelves.all(|(_, found)| found.is_some())
    }

    fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<LiveObject<'_>> {
        let Some(id) = self.id(kind) else { return Vec::new() };
        let own = self.objects.iter().filter(|((of, place), _)| {
            of == id && (place.is_none() || namespace.is_none() || place.as_deref() == namespace)
        });
        let objects = own.flat_map(|(_, found)| found.iter().flatten()).map(LiveObject);
        objects.filter(|object| namespace.is_none_or(|namespace| object.namespace() == namespace)).collect()
    }

    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<LiveObject<'_>> {
        let place = Some(namespace).filter(|namespace| !namespace.is_empty());
        self.list(kind, place).into_iter().find(|object| object.name() == name)
    }
}
