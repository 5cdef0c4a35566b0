//! Strings that many objects share, each held once and counted.
//!
//! Decides which strings are worth it: those that were met before not long ago. Never holds a string that nobody uses.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

/// A string of this length takes no more room than its number.
const SHORTEST: usize = 4;
/// How many strings are remembered as "met once". A power of two; 128 KiB. Cluster names come back after as many objects
/// as there are clusters, with a handful of fresh strings each: this remembers them up to some thousand clusters.
const REMEMBERED: usize = 16_384;

/// The strings, by number and by text.
#[derive(Debug, Default)]
pub(super) struct Pool {
    ids: HashMap<Arc<str>, u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Hashes of strings that were met once; a later one takes the place of an earlier one.
    met: Vec<u64>,
    hasher: BuildHasherDefault<DefaultHasher>,
}

#[derive(Debug)]
struct Slot {
    text: Arc<str>,
    uses: usize,
}

impl Pool {
    /// The number of a string, with one more use; `None` for a string that is not worth it (yet).
    pub(super) fn take(&mut self, text: &str) -> Option<u32> {
        if text.len() < SHORTEST {
            return None;
        }
        if let Some(&id) = self.ids.get(text) {
            self.slots.get_mut(id as usize)?.uses += 1;
            return Some(id);
        }
        self.met_before(text).then(|| self.add(text)).flatten()
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

    /// Strings that are in use.
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

    fn met_before(&mut self, text: &str) -> bool {
        if self.met.is_empty() {
            self.met = vec![0; REMEMBERED];
        }
        // The same in every process: what is shared must not differ between two runs of one simulation.
        let hash = self.hasher.hash_one(text);
        let place = usize::try_from(hash).unwrap_or_default() % REMEMBERED;
        self.met.get_mut(place).is_some_and(|met| std::mem::replace(met, hash) == hash)
    }
}
