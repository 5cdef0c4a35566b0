//! Caches catalogs, so that clusters with the same kinds share one catalog and its documents.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Catalog;

/// Maximum number of cached catalogs. Clusters may serve different kinds, and each change of a definition creates another catalog.
const MAX_CACHED_CATALOGS: usize = 4;

/// The catalogs of a server's clusters, newest last.
#[derive(Debug)]
pub(crate) struct CatalogCache<K> {
    cached: Mutex<VecDeque<CachedCatalog<K>>>,
}

#[derive(Debug)]
struct CachedCatalog<K> {
    kinds: Vec<Arc<K>>,
    catalog: Arc<Catalog>,
}

impl<K> Default for CatalogCache<K> {
    fn default() -> Self {
        Self { cached: Mutex::default() }
    }
}

impl<K> CatalogCache<K> {
    /// The catalog of exactly these kinds, in this order.
    pub(crate) fn get_or_build(&self, kinds: Vec<Arc<K>>, build: impl FnOnce(&[Arc<K>]) -> Catalog) -> Arc<Catalog> {
        let is_same = |known: &[Arc<K>]| {
            known.len() == kinds.len() && known.iter().zip(&kinds).all(|(one, other)| Arc::ptr_eq(one, other))
        };
        if let Some(known) = self.cached.lock().iter().find(|known| is_same(&known.kinds)) {
            return known.catalog.clone();
        }
        // Built outside the lock: two clusters may build the same catalog, but none waits for another.
        let catalog = Arc::new(build(&kinds));
        let mut cached = self.cached.lock();
        if cached.len() >= MAX_CACHED_CATALOGS {
            cached.pop_front();
        }
        cached.push_back(CachedCatalog { kinds, catalog: catalog.clone() });
        catalog
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_kinds_share_a_catalog_and_others_do_not() {
        let cache = CatalogCache::<u32>::default();
        let (one, other) = (Arc::new(1), Arc::new(1));
        let of =
            |kinds: &[&Arc<u32>]| cache.get_or_build(kinds.iter().copied().cloned().collect(), |_| Catalog::default());
        let first = of(&[&one]);
        assert!(Arc::ptr_eq(&first, &of(&[&one])));
        assert!(!Arc::ptr_eq(&first, &of(&[&other])), "equal is not the same");
        assert!(!Arc::ptr_eq(&first, &of(&[&one, &other])));
        assert!(!Arc::ptr_eq(&first, &of(&[])));
    }

    #[test]
    fn the_oldest_catalogs_are_evicted() {
        let cache = CatalogCache::<usize>::default();
        let kinds: Vec<Arc<usize>> = (0..=MAX_CACHED_CATALOGS).map(Arc::new).collect();
        let cached: Vec<_> =
            kinds.iter().map(|kind| cache.get_or_build(vec![kind.clone()], |_| Catalog::default())).collect();
        let again = |number: usize| cache.get_or_build(vec![kinds[number].clone()], |_| Catalog::default());
        assert!(Arc::ptr_eq(&cached[MAX_CACHED_CATALOGS], &again(MAX_CACHED_CATALOGS)));
        assert!(!Arc::ptr_eq(&cached[0], &again(0)));
    }
}
