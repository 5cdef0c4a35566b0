//! Computes the selection of a placement, and reads content only if it may have changed.
//!
//! It remembers a hash and a fingerprint of the selected versions for each placement, and no content. Read content
//! may be newer than the cached metadata, so selection is repeated until all selected objects were read. A staged run
//! needs the content at its start, so for it the lists behind the selection are read from the server as well: watches
//! may lag.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use fleet_api::kinds::{Obj, Placement, Scope};
use fleet_api::names::PlacementKey;
use fleet_api::types::RolloutStrategyType;
use fleet_core::placement::{Selected, SelectedContent, SelectionError, select, undiscovered};
use fleet_runtime::{Error, KindId, Listed, ObjectKey, Reader};
use parking_lot::Mutex;

use super::ClusterView;
use super::inventory::{CachedInventory, Contents, Reference, Unread};
use super::token_secrets::is_secret;

/// Maximum number of repeated selections. More means that the hub changes too fast: retry later.
const MOST_ROUNDS: usize = 8;
/// Up to this number, objects of one kind and namespace are read one by one; more are read by a list.
const MOST_SINGLE_READS: usize = 3;

/// The facts for one plan that are not in caches.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// The placement that the selection belongs to: uid and generation.
    pub(crate) of: Option<(Option<String>, i64)>,
    pub(crate) selection: Option<Result<SelectedContent, SelectionError>>,
}

/// Hashes of the content that placements select, by the versions of the objects.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<BTreeMap<PlacementKey, Remembered>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Remembered {
    /// Fingerprint of the selected objects and their versions.
    versions: u64,
    /// `None` if staged runs create the snapshots, so that no hash is needed.
    hash: Option<String>,
}

impl Memory {
    pub(super) fn forget(&self, key: &PlacementKey) {
        self.0.lock().remove(key);
    }

    fn recall(&self, key: &PlacementKey, versions: u64) -> Option<Remembered> {
        self.0.lock().get(key).filter(|remembered| remembered.versions == versions).cloned()
    }

    fn note(&self, key: &PlacementKey, versions: u64, hash: Option<String>) {
        self.0.lock().insert(key.clone(), Remembered { versions, hash });
    }
}

/// What a caller needs of the selection.
#[derive(Debug, Clone, Copy)]
enum Need<'m> {
    /// The selected objects; the hash is not needed.
    Names(&'m Memory),
    /// The hash, and the content if the hash is not remembered.
    Hash(&'m Memory),
    /// The content as the server has it, ignoring memory and caches.
    Content,
}

impl<'m> Need<'m> {
    fn memory(self) -> Option<&'m Memory> {
        match self {
            Need::Names(memory) | Need::Hash(memory) => Some(memory),
            Need::Content => None,
        }
    }
}

/// The current selection of a placement.
pub(super) async fn observe_selection<S: Scope>(
    view: &ClusterView,
    memory: &Memory,
    key: &PlacementKey,
    placement: &Obj<Placement, S>,
    reader: &Reader,
) -> Result<Facts, Error> {
    let need = match placement.spec.strategy_type() {
        RolloutStrategyType::External => Need::Names(memory),
        RolloutStrategyType::RollingUpdate => Need::Hash(memory),
    };
    select_and_read(view, need, key, placement, reader).await
}

/// The selection of a placement with its content, for the snapshot of a staged run.
pub(crate) async fn select_content<S: Scope>(
    view: &ClusterView,
    key: &PlacementKey,
    placement: &Obj<Placement, S>,
    reader: &Reader,
) -> Result<Facts, Error> {
    select_and_read(view, Need::Content, key, placement, reader).await
}

async fn select_and_read<S: Scope>(
    view: &ClusterView,
    need: Need<'_>,
    key: &PlacementKey,
    placement: &Obj<Placement, S>,
    reader: &Reader,
) -> Result<Facts, Error> {
    let mut contents = Contents::default();
    for _ in 0..MOST_ROUNDS {
        match next_step(view, need, key, placement, &contents) {
            SelectionStep::Found(selection) => {
                let of = Some((placement.metadata.uid.clone(), placement.generation()));
                return Ok(Facts { of, selection: Some(selection) });
            }
            SelectionStep::Confirm(unread) => confirm(view, unread, reader, &mut contents).await?,
            SelectionStep::Read(batches) => {
                for batch in batches {
                    batch.read(view, reader, &mut contents).await?;
                }
            }
        }
    }
    Err(Error::Other("what the placement selects changes faster than it can be read".to_owned()))
}

enum SelectionStep {
    Found(Result<SelectedContent, SelectionError>),
    /// The selection is based on caches that may lag.
    Confirm(Unread),
    Read(Vec<Batch>),
}

fn next_step<S: Scope>(
    view: &ClusterView,
    need: Need<'_>,
    key: &PlacementKey,
    placement: &Obj<Placement, S>,
    contents: &Contents,
) -> SelectionStep {
    let inventory = view.inventory(Some(contents));
    let selected = select(key, &placement.spec.resource_selectors, &inventory, &view.propagation);
    let unread = if matches!(need, Need::Content) { inventory.unread() } else { Unread::default() };
    let selected = match selected {
        // An incomplete selection need not be confirmed.
        Err(error @ (SelectionError::Incomplete { .. } | SelectionError::Undiscovered { .. })) => {
            return SelectionStep::Found(Err(error));
        }
        _ if !unread.is_empty() => return SelectionStep::Confirm(unread),
        Ok(selected) => selected,
        Err(error) => return SelectionStep::Found(Err(error)),
    };
    let undiscovered = undiscovered(key, &placement.spec.resource_selectors, &inventory, &view.propagation);
    let versions = versions_of(&selected);
    let names_suffice = matches!(need, Need::Names(_));
    if contents.is_empty()
        && let Some(Remembered { hash, .. }) = need.memory().and_then(|memory| memory.recall(key, versions))
        && (names_suffice || hash.is_some())
    {
        let selected_content = SelectedContent::unchanged(&selected, hash.unwrap_or_default());
        return SelectionStep::Found(Ok(selected_content.with_undiscovered(undiscovered)));
    }
    let batches = batches(view, &inventory, &selected, |reference| {
        !contents.has(reference) && (!names_suffice || is_secret(&reference.0))
    });
    if !batches.is_empty() {
        return SelectionStep::Read(batches);
    }
    let selected_content = if names_suffice {
        SelectedContent::unchanged(&selected, String::new())
    } else {
        SelectedContent::of(&selected)
    };
    if let Some(memory) = need.memory() {
        memory.note(key, versions, (!names_suffice).then(|| selected_content.hash.clone()));
    }
    SelectionStep::Found(Ok(selected_content.with_undiscovered(undiscovered)))
}

/// A fingerprint of objects and their versions.
fn versions_of(selected: &[Selected<'_>]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for one in selected {
        let metadata = &one.object.0["metadata"];
        (&one.kind.group, &one.kind.version, &one.kind.kind).hash(&mut hasher);
        (one.object.namespace(), one.object.name()).hash(&mut hasher);
        (metadata["uid"].as_str(), metadata["resourceVersion"].as_str()).hash(&mut hasher);
    }
    hasher.finish()
}

/// Objects of one kind and namespace to read.
struct Batch {
    kind: KindId,
    namespace: Option<String>,
    names: Vec<ObjectKey>,
    /// Whether they are most of the existing objects, so that one list is cheaper.
    by_list: bool,
}

fn batches(
    view: &ClusterView,
    inventory: &CachedInventory<'_>,
    selected: &[Selected<'_>],
    is_needed: impl Fn(&Reference) -> bool,
) -> Vec<Batch> {
    let mut needed: BTreeMap<(KindId, Option<String>), Vec<ObjectKey>> = BTreeMap::new();
    for one in selected {
        let Some(kind) = inventory.id(one.kind) else { continue };
        let reference = (kind.clone(), ObjectKey::new(Some(one.object.namespace()), one.object.name()));
        if is_needed(&reference) {
            let (kind, key) = reference;
            needed.entry((kind, key.namespace().map(str::to_owned))).or_default().push(key);
        }
    }
    let batch = |((kind, namespace), names): ((KindId, Option<String>), Vec<ObjectKey>)| {
        let there = match &namespace {
            Some(namespace) => view.metadata.in_namespace(&kind, namespace).len(),
            None => view.metadata.cache(&kind).map_or(0, |cache| cache.len()),
        };
        let by_list = names.len() > MOST_SINGLE_READS && names.len() * 2 >= there;
        Batch { kind, namespace, names, by_list }
    };
    needed.into_iter().map(batch).collect()
}

/// Reads the lists and objects behind the selection.
async fn confirm(view: &ClusterView, unread: Unread, reader: &Reader, contents: &mut Contents) -> Result<(), Error> {
    for range in unread.lists {
        let found = reader.list_metadata(&range.0, range.1.as_deref()).await?;
        contents.put_list(range, found);
    }
    for reference in unread.objects {
        read_one(view, reference, reader, contents).await?;
    }
    Ok(())
}

async fn read_one(
    view: &ClusterView,
    reference: Reference,
    reader: &Reader,
    contents: &mut Contents,
) -> Result<(), Error> {
    let found = reader.get(&reference.0, &reference.1).await?;
    if let Some(object) = &found {
        view.token_secrets.learn(&reference.0, object);
    }
    contents.put(reference, found);
    Ok(())
}

impl Batch {
    async fn read(self, view: &ClusterView, reader: &Reader, contents: &mut Contents) -> Result<(), Error> {
        if self.by_list {
            let Listed { objects, unreadable, .. } =
                reader.list_readable(&self.kind, self.namespace.as_deref()).await?;
            let is_ours = |error: &Error| matches!(error, Error::Unreadable { key, .. } if self.names.contains(key));
            // Unreadable objects that this placement does not select do not matter.
            if let Some(error) = unreadable.into_iter().find(is_ours) {
                return Err(error);
            }
            for object in objects {
                let Some(key) = ObjectKey::of_value(&object) else { continue };
                if self.names.contains(&key) {
                    view.token_secrets.learn(&self.kind, &object);
                    contents.put((self.kind.clone(), key), Some(object));
                }
            }
            for key in self.names {
                contents.put_gone_unless_there((self.kind.clone(), key));
            }
            return Ok(());
        }
        for key in self.names {
            read_one(view, (self.kind.clone(), key), reader, contents).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fleet_core::placement::{Kind, LiveObject};
    use serde_json::json;

    use super::*;

    #[test]
    fn fingerprints_distinguish_objects_and_versions() {
        let kind = Kind {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            plural: "configmaps".to_owned(),
            namespaced: true,
            preferred: true,
        };
        let print = |name: &str, uid: &str, version: &str| {
            let object = json!({"metadata": {"name": name, "namespace": "n", "uid": uid, "resourceVersion": version}});
            versions_of(&[Selected { kind: &kind, object: LiveObject(&object) }])
        };
        let same = print("a", "u", "1");
        assert_eq!(same, print("a", "u", "1"));
        for other in [print("b", "u", "1"), print("a", "v", "1"), print("a", "u", "2"), versions_of(&[])] {
            assert_ne!(same, other);
        }
    }

    #[test]
    fn a_hash_is_reused_for_the_versions_it_was_computed_from() {
        let memory = Memory::default();
        let key = PlacementKey::parse("shop/web").unwrap();
        memory.note(&key, 1, Some("h".to_owned()));
        assert_eq!(memory.recall(&key, 1).and_then(|known| known.hash).as_deref(), Some("h"));
        assert_eq!(memory.recall(&key, 2), None);
        memory.forget(&key);
        assert_eq!(memory.recall(&key, 1), None);
    }
}
