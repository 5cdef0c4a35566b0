//! A map that only grows, so that what was put in can be lent out while more is put in.
//!
//! Selection borrows objects from an inventory that finds out only while it is asked which ones are needed.

use std::cell::OnceCell;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};

/// A tree by the bits of the keys' hashes; each node holds one entry.
#[derive(Debug)]
pub(super) struct Frozen<K, V> {
    root: Slot<K, V>,
}

type Slot<K, V> = OnceCell<Box<Node<K, V>>>;

#[derive(Debug)]
struct Node<K, V> {
    key: K,
    value: V,
    below: [Slot<K, V>; 4],
}

impl<K, V> Default for Frozen<K, V> {
    fn default() -> Self {
        Self { root: OnceCell::new() }
    }
}

impl<K: Hash + Eq, V> Frozen<K, V> {
    /// What stands under a key; made if nothing does. `make` must not come back here.
    pub(super) fn get(&self, key: K, make: impl FnOnce(&K) -> V) -> &V {
        let mut hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&key);
        let mut slot = &self.root;
        while let Some(node) = slot.get() {
            if node.key == key {
                return &node.value;
            }
            slot = &node.below[usize::from((hash & 3) as u8)];
            hash = hash.rotate_right(2);
        }
        let value = make(&key);
        &slot.get_or_init(|| Box::new(Node { key, value, below: Default::default() })).value
    }

    /// What something stands under by now, in an order that means nothing.
    pub(super) fn keys(&self) -> Vec<&K> {
        let mut keys = Vec::new();
        let mut slots = vec![&self.root];
        while let Some(slot) = slots.pop() {
            if let Some(node) = slot.get() {
                keys.push(&node.key);
                slots.extend(&node.below);
            }
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lent_stays_while_more_comes() {
        let map = Frozen::default();
        let lent: Vec<&String> = (0..1000).map(|key| map.get(key, |key| format!("first {key}"))).collect();
        for (key, value) in lent.into_iter().enumerate() {
            assert_eq!(value, &format!("first {key}"));
            assert_eq!(map.get(key, |_| "again".to_owned()), value);
        }
        let mut keys: Vec<usize> = map.keys().into_iter().copied().collect();
        keys.sort_unstable();
        assert_eq!(keys, (0..1000).collect::<Vec<_>>());
    }
}
