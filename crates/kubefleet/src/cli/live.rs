//! Reads the objects on the hub that the selectors of a placement can select: the named kinds, and everything in namespaces
//! that are selected as a whole. Kinds that could not be read are marked, so that no object is wrongly considered absent.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::names::{NamespaceName, PlacementKey};
use fleet_api::types::{ResourceSelectorTerm, SelectionScope};
use fleet_core::placement::{GroupVersion, Inventory, Kind, LiveObject, Propagation};
use fleet_runtime::{DiscoveredKind, KindId, discover};
use k8s_values::Selector;
use serde_json::Value;

use super::connection::Hub;

/// The scope of a list request: all objects of a kind, or those of one namespace.
type ListScope = (KindId, Option<String>);

/// The objects that were read.
#[derive(Debug, Default)]
pub(crate) struct Live {
    kinds: Vec<(Kind, DiscoveredKind)>,
    silent: Vec<GroupVersion>,
    /// `None` if the request failed.
    objects: BTreeMap<ListScope, Option<Vec<Value>>>,
    /// The first error.
    pub(crate) error: Option<anyhow::Error>,
}

impl Live {
    /// Discovers the kinds, without reading objects.
    pub(crate) async fn kinds(hub: &Hub) -> anyhow::Result<Self> {
        let found = discover(&hub.client).await.map_err(|error| hub.failed("discover the API resources", &error))?;
        let mut kinds: Vec<_> = found.kinds.into_iter().map(|one| (kind_of(&one), one)).collect();
        kinds.sort();
        kinds.dedup_by(|(one, _), (other, _)| one.is(&other.group, &other.version, &other.kind));
        let silent = found.undiscoverable.iter().map(|part| GroupVersion::new(&part.group, &part.version)).collect();
        Ok(Self { kinds, silent, ..Self::default() })
    }

    /// Reads everything that the selectors of a placement can select.
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
            live.list_all(hub, namespaces.into_iter().map(|(_, kind)| (kind.id, None)).collect()).await;
            for term in selectors.iter().filter(|term| term.is_namespace()) {
                let names = live.namespaces_of(term);
                match term.selection_scope() {
                    SelectionScope::NamespaceWithResources => swept.extend(names),
                    SelectionScope::NamespaceWithResourceSelectors => chosen.extend(names),
                    SelectionScope::NamespaceOnly => {}
                }
            }
        }
        let mut wanted: BTreeSet<ListScope> = BTreeSet::new();
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
        wanted.retain(|scope| !live.objects.contains_key(scope));
        live.list_all(hub, wanted.into_iter().collect()).await;
        Ok(live)
    }

    /// Sends list requests in parallel.
    async fn list_all(&mut self, hub: &Hub, scopes: Vec<ListScope>) {
        let reads = scopes.into_iter().map(|(id, namespace)| async move {
            let found = hub.list_kind::<Value>(&id, namespace.as_deref(), None).await;
            ((id, namespace), found)
        });
        for (scope, found) in futures::future::join_all(reads).await {
            let found = found.map_err(|error| self.error.get_or_insert(error)).ok();
            self.objects.insert(scope, found);
        }
    }

    fn find(&self, group: &str, version: &str, kind: &str) -> Option<&(Kind, DiscoveredKind)> {
        self.kinds.iter().find(|(one, _)| one.is(group, version, kind))
    }

    fn id(&self, kind: &Kind) -> Option<&KindId> {
        self.find(&kind.group, &kind.version, &kind.kind).map(|(_, discovered)| &discovered.id)
    }

    /// Kinds whose objects are selected with their namespace.
    fn sweepable(&self) -> impl Iterator<Item = &(Kind, DiscoveredKind)> {
        self.kinds.iter().filter(|(kind, discovered)| {
            kind.namespaced && kind.preferred && discovered.has_verb("list") && discovered.has_verb("watch")
        })
    }

    /// Names of the namespaces that a selector selects. An invalid selector selects none; selection reports it later.
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

    fn undiscovered(&self) -> Vec<GroupVersion> {
        self.silent.clone()
    }

    fn is_complete(&self, kind: &Kind) -> bool {
        let Some(id) = self.id(kind) else { return false };
        let mut scopes = self.objects.iter().filter(|((of, _), _)| of == id);
        scopes.all(|(_, found)| found.is_some())
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
