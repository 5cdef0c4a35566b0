//! Catalogs that were made before: clusters that serve the same kinds share one, and the documents that were made of it.
//!
//! Decides by the kinds themselves, which clusters share too, whether two lists of them are the same. Never decides which
//! kinds exist.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Catalog;

/// Catalogs that are remembered. A fleet has a hub and members; each change of a definition makes another.
const REMEMBERED_CATALOGS: usize = 4;

/// The catalogs of a server's clusters, newest last.
#[derive(Debug)]
pub struct Shelf<K> {
    made: Mutex<VecDeque<Made<K>>>,
}

#[derive(Debug)]
struct Made<K> {
    of: Vec<Arc<K>>,
    catalog: Arc<Catalog>,
}

impl<K> Default for Shelf<K> {
    fn default() -> Self {
        Self { made: Mutex::default() }
    }
}

impl<K> Shelf<K> {
    /// The catalog of exactly these kinds, in this order.
    pub fn of(&self, kinds: Vec<Arc<K>>, make: impl FnOnce(&[Arc<K>]) -> Catalog) -> Arc<Catalog> {
        let is_same = |known: &[Arc<K>]| {
            known.len() == kinds.len() && known.iter().zip(&kinds).all(|(one, other)| Arc::ptr_eq(one, other))
        };
        if let Some(known) = self.made.lock().iter().find(|known| is_same(&known.of)) {
            return known.catalog.clone();
        }
        // Made outside the lock: two clusters may make the same one, none waits for another's.
        let catalog = Arc::new(make(&kinds));
        let mut made = self.made.lock();
        if made.len() >= REMEMBERED_CATALOGS {
            made.pop_front();
        }
        made.push_back(Made { of: kinds, catalog: catalog.clone() });
        catalog
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_kinds_share_a_catalog_and_others_do_not() {
        let shelf = Shelf::<u32>::default();
        let (one, other) = (Arc::new(1), Arc::new(1));
        let of = |kinds: &[&Arc<u32>]| shelf.of(kinds.iter().copied().cloned().collect(), |_| Catalog::default());
        let first = of(&[&one]);
        assert!(Arc::ptr_eq(&first, &of(&[&one])));
        assert!(!Arc::ptr_eq(&first, &of(&[&other])), "equal is not the same");
        assert!(!Arc::ptr_eq(&first, &of(&[&one, &other])));
        assert!(!Arc::ptr_eq(&first, &of(&[])));
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let shelf = Shelf::<usize>::default();
        let kinds: Vec<Arc<usize>> = (0..=REMEMBERED_CATALOGS).map(Arc::new).collect();
        let made: Vec<_> = kinds.iter().map(|kind| shelf.of(vec![kind.clone()], |_| Catalog::default())).collect();
        let again = |number: usize| shelf.of(vec![kinds[number].clone()], |_| Catalog::default());
        assert!(Arc::ptr_eq(&made[REMEMBERED_CATALOGS], &again(REMEMBERED_CATALOGS)));
        assert!(!Arc::ptr_eq(&made[0], &again(0)));
    }
}
