//! Finds out what a placement's selectors yield, reading content only where something may have changed.
//!
//! Decides what has to be read: nothing if the selected objects have the versions that they had when their hash was
//! taken. Of a placement it remembers a fingerprint of these versions and the hash, never content. What was read may be
//! newer than the metadata at hand, so selection is made again with it, until everything that is selected was read. A
//! staged run freezes what is there when it begins, so for it the lists that selection goes through are read as well:
//! watches may be a moment behind the run's own.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use fleet_api::kinds::{Obj, Placement, Scope};
use fleet_api::names::PlacementKey;
use fleet_api::types::RolloutStrategyType;
use fleet_core::placement::{Captured, Selected, SelectionError, select, unheard};
use fleet_runtime::{Error, KindId, ObjectKey, Reader};
use parking_lot::Mutex;

use super::World;
use super::inventory::{Contents, Live, Reference, Unread};
use super::tokens::is_secret;

/// How often selection is made again because what was read has changed it. More is a hub in turmoil: try again later.
const MOST_ROUNDS: usize = 8;
/// So many objects of one kind and namespace are read one by one; more of them by a list.
const MOST_SINGLE_READS: usize = 3;

/// What was found out for one plan.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// The placement that the selection was made for: uid and generation.
    pub(crate) of: Option<(Option<String>, i64)>,
    pub(crate) selection: Option<Result<Captured, SelectionError>>,
}

/// Hashes of what placements select, by the versions that they were taken of.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<BTreeMap<PlacementKey, Remembered>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Remembered {
    /// Of the selected objects and their versions.
    versions: u64,
    /// `None` where staged runs take the content and nobody needs its hash.
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

/// What is to be found out about what a placement selects.
#[derive(Debug, Clone, Copy)]
enum Need<'m> {
    /// Which objects it is: staged runs take the content, and nobody needs its hash.
    Names(&'m Memory),
    /// The hash, and the content where the hash is not remembered.
    Hash(&'m Memory),
    /// The content as the server has it, whatever is remembered or cached.
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

/// The selection of a placement as it is now.
pub(super) async fn find_out<S: Scope>(
    world: &World,
    memory: &Memory,
    key: &PlacementKey,
    placement: &Obj<Placement, S>,
    reader: &Reader,
) -> Result<Facts, Error> {
    let need = match placement.spec.strategy_type() {
        RolloutStrategyType::External => Need::Names(memory),
        RolloutStrategyType::RollingUpdate => Need::Hash(memory),
    };
    select_and_read(world, need, key, placement, reader).await
}

/// The selection of a placement with its content, for a staged run to freeze.
pub(crate) async fn capture<S: Scope>(
    world: &World,
    key: &PlacementKey,
    placement: &Obj<Placement, S>,
    reader: &Reader,
) -> Result<Facts, Error> {
    select_and_read(world, Need::Content, key, placement, reader).await
}

async fn select_and_read<S: Scope>(
    world: &World,
    need: Need<'_>,
    key: &PlacementKey,
    placement: &Obj<Placement, S>,
    reader: &Reader,
) -> Result<Facts, Error> {
    let mut contents = Contents::default();
    for _ in 0..MOST_ROUNDS {
        match look(world, need, key, placement, &contents) {
            Look::Found(selection) => {
                let of = Some((placement.metadata.uid.clone(), placement.generation()));
                return Ok(Facts { of, selection: Some(selection) });
            }
            Look::Confirm(unread) => confirm(world, unread, reader, &mut contents).await?,
            Look::Read(batches) => {
                for batch in batches {
                    batch.read(world, reader, &mut contents).await?;
                }
            }
        }
    }
    Err(Error::Other("what the placement selects changes faster than it can be read".to_owned()))
}

enum Look {
    Found(Result<Captured, SelectionError>),
    /// What was found is from caches that may be behind.
    Confirm(Unread),
    Read(Vec<Batch>),
}

fn look<S: Scope>(
    world: &World,
    need: Need<'_>,
    key: &PlacementKey,
    placement: &Obj<Placement, S>,
    contents: &Contents,
) -> Look {
    let inventory = world.inventory(Some(contents));
    let selected = select(key, &placement.spec.resource_selectors, &inventory, &world.propagation);
    let unread = if matches!(need, Need::Content) { inventory.unread() } else { Unread::default() };
    let selected = match selected {
        // Until all objects of a kind are known nothing is to be confirmed.
        Err(error @ (SelectionError::Incomplete { .. } | SelectionError::Silent { .. })) => {
            return Look::Found(Err(error));
        }
        _ if !unread.is_empty() => return Look::Confirm(unread),
        Ok(selected) => selected,
        Err(error) => return Look::Found(Err(error)),
    };
    let unheard = unheard(key, &placement.spec.resource_selectors, &inventory, &world.propagation);
    let versions = versions_of(&selected);
    let names_suffice = matches!(need, Need::Names(_));
    if contents.is_empty()
        && let Some(Remembered { hash, .. }) = need.memory().and_then(|memory| memory.recall(key, versions))
        && (names_suffice || hash.is_some())
    {
        let captured = Captured::unchanged(&selected, hash.unwrap_or_default());
        return Look::Found(Ok(captured.without_hearing(unheard)));
    }
    let batches = batches(world, &inventory, &selected, |reference| {
        !contents.has(reference) && (!names_suffice || is_secret(&reference.0))
    });
    if !batches.is_empty() {
        return Look::Read(batches);
    }
    let captured = if names_suffice { Captured::unchanged(&selected, String::new()) } else { Captured::of(&selected) };
    if let Some(memory) = need.memory() {
        memory.note(key, versions, (!names_suffice).then(|| captured.hash.clone()));
    }
    Look::Found(Ok(captured.without_hearing(unheard)))
}

/// A fingerprint of which objects these are and which versions they have.
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

/// Objects of one kind and namespace that are to be read.
struct Batch {
    kind: KindId,
    namespace: Option<String>,
    names: Vec<ObjectKey>,
    /// Whether they are most of what is there, so that a list brings little else.
    by_list: bool,
}

fn batches(
    world: &World,
    inventory: &Live<'_>,
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
            Some(namespace) => world.metadata.in_namespace(&kind, namespace).len(),
            None => world.metadata.cache(&kind).map_or(0, |cache| cache.len()),
        };
        let by_list = names.len() > MOST_SINGLE_READS && names.len() * 2 >= there;
        Batch { kind, namespace, names, by_list }
    };
    needed.into_iter().map(batch).collect()
}

/// Reads what selection went through.
async fn confirm(world: &World, unread: Unread, reader: &Reader, contents: &mut Contents) -> Result<(), Error> {
    for range in unread.lists {
        let found = reader.list_metadata(&range.0, range.1.as_deref()).await?;
        contents.put_list(range, found);
    }
    for reference in unread.objects {
        read_one(world, reference, reader, contents).await?;
    }
    Ok(())
}

async fn read_one(world: &World, reference: Reference, reader: &Reader, contents: &mut Contents) -> Result<(), Error> {
    let found = reader.get(&reference.0, &reference.1).await?;
    if let Some(object) = &found {
        world.tokens.learn(&reference.0, object);
    }
    contents.put(reference, found);
    Ok(())
}

impl Batch {
    async fn read(self, world: &World, reader: &Reader, contents: &mut Contents) -> Result<(), Error> {
        if self.by_list {
            for object in reader.list(&self.kind, self.namespace.as_deref(), None).await? {
                let Some(key) = ObjectKey::of_value(&object) else { continue };
                if self.names.contains(&key) {
                    world.tokens.learn(&self.kind, &object);
                    contents.put((self.kind.clone(), key), Some(object));
                }
            }
            for key in self.names {
                contents.put_gone_unless_there((self.kind.clone(), key));
            }
            return Ok(());
        }
        for key in self.names {
            read_one(world, (self.kind.clone(), key), reader, contents).await?;
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
    fn fingerprints_tell_objects_and_versions_apart() {
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
    fn a_hash_is_remembered_for_the_versions_it_was_taken_of() {
        let memory = Memory::default();
        let key = PlacementKey::parse("shop/web").unwrap();
        memory.note(&key, 1, Some("h".to_owned()));
        assert_eq!(memory.recall(&key, 1).and_then(|known| known.hash).as_deref(), Some("h"));
        assert_eq!(memory.recall(&key, 2), None);
        memory.forget(&key);
        assert_eq!(memory.recall(&key, 1), None);
    }
}
