//! A map that only grows, so that references to its values stay valid while more are inserted.
//!
//! Selection borrows objects from an inventory that loads them on demand.

use std::cell::OnceCell;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};

/// A tree by the bits of the keys' hashes; each node has one entry.
#[derive(Debug)]
pub(super) struct AppendOnlyMap<K, V> {
    root: Slot<K, V>,
}

type Slot<K, V> = OnceCell<Box<Node<K, V>>>;

#[derive(Debug)]
struct Node<K, V> {
    key: K,
    value: V,
    below: [Slot<K, V>; 4],
}

impl<K, V> Default for AppendOnlyMap<K, V> {
    fn default() -> Self {
        Self { root: OnceCell::new() }
    }
}

impl<K: Hash + Eq, V> AppendOnlyMap<K, V> {
    /// The value of a key; inserted if it is missing. `make` must not use this map.
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

    /// The keys, in no particular order.
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
    fn references_stay_valid_while_more_is_inserted() {
        let map = AppendOnlyMap::default();
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
