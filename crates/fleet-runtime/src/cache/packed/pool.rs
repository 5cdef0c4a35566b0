//! A reference-counted pool of strings that many objects share. A string enters the pool when it occurs for the second time.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

/// Shorter strings take no more space than an index.
const SHORTEST: usize = 4;
/// How many strings are remembered as seen once (128 KiB of hashes; a power of two). Cluster names recur after as many objects as
/// there are clusters, each with a few new strings: this is enough for some thousand clusters.
const REMEMBERED: usize = 16_384;

/// The strings, by index and by text.
#[derive(Debug, Default)]
pub(super) struct Pool {
    ids: HashMap<Arc<str>, u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Hashes of strings that were seen once; later ones overwrite earlier ones.
    seen_once: Vec<u64>,
    hasher: BuildHasherDefault<DefaultHasher>,
}

#[derive(Debug)]
struct Slot {
    text: Arc<str>,
    uses: usize,
}

impl Pool {
    /// The index of a string, with one more use. `None` if the string is too short or is seen for the first time.
    pub(super) fn take(&mut self, text: &str) -> Option<u32> {
        if text.len() < SHORTEST {
            return None;
        }
        if let Some(&id) = self.ids.get(text) {
            self.slots.get_mut(id as usize)?.uses += 1;
            return Some(id);
        }
        self.was_seen(text).then(|| self.add(text)).flatten()
    }

    pub(super) fn release(&mut self, id: u32) {
        let Some(slot) = self.slots.get_mut(id as usize) else { return };
        slot.uses = slot.uses.saturating_sub(1);
        if slot.uses == 0 {
            let text = std::mem::replace(&mut slot.text, Arc::from(""));
            self.ids.remove(&text);
            self.free.push(id);
        }
    }

    pub(super) fn text(&self, id: u32) -> Option<&str> {
        self.slots.get(id as usize).map(|slot| &*slot.text)
    }

    /// The number of strings in use.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    fn add(&mut self, text: &str) -> Option<u32> {
        let text: Arc<str> = text.into();
        let slot = Slot { text: text.clone(), uses: 1 };
        let id = if let Some(id) = self.free.pop() {
            *self.slots.get_mut(id as usize)? = slot;
            id
        } else {
            self.slots.push(slot);
            u32::try_from(self.slots.len() - 1).ok()?
        };
        self.ids.insert(text, id);
        Some(id)
    }

    fn was_seen(&mut self, text: &str) -> bool {
        if self.seen_once.is_empty() {
            self.seen_once = vec![0; REMEMBERED];
        }
        // A fixed hash: two runs of one simulation must share the same strings.
        let hash = self.hasher.hash_one(text);
        let place = usize::try_from(hash).unwrap_or_default() % REMEMBERED;
        self.seen_once.get_mut(place).is_some_and(|seen| std::mem::replace(seen, hash) == hash)
    }
}
