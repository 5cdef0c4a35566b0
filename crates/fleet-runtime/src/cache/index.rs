//! The indexes of a cache. A query goes through the handle that `Cache::index` returns, so that no index can be queried that does
//! not exist.

use std::borrow::Borrow;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::sync::Arc;

use super::{Cache, Cached};
use crate::key::ObjectKey;

/// The values by which an object is found.
pub(super) type IndexValues<K> = Arc<dyn Fn(&K) -> Vec<String> + Send + Sync>;

/// Finds the objects of a cache by values of the type `V`, which are compared as they print. Clones are the same index.
pub struct CacheIndex<K, V> {
    cache: Cache<K>,
    /// Its place among the indexes of the cache.
    place: usize,
    value: PhantomData<fn(V)>,
}

impl<K, V> Clone for CacheIndex<K, V> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), place: self.place, value: PhantomData }
    }
}

impl<K, V> fmt::Debug for CacheIndex<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheIndex").field("cache", &self.cache).field("place", &self.place).finish_non_exhaustive()
    }
}

impl<K: Cached, V> CacheIndex<K, V> {
    /// The objects with this value, ordered by key.
    pub fn get<Q: Display + ?Sized>(&self, value: &Q) -> Vec<Arc<K>>
    where
        V: Borrow<Q>,
    {
        self.cache.shared.store.read().by(self.place, &value.to_string())
    }

    /// The keys of the objects with this value, in order. Cheaper than `get` for packed kinds.
    pub fn keys<Q: Display + ?Sized>(&self, value: &Q) -> Vec<ObjectKey>
    where
        V: Borrow<Q>,
    {
        self.cache.shared.store.read().keys_by(self.place, &value.to_string())
    }

    /// The cache that this is an index of.
    pub fn cache(&self) -> &Cache<K> {
        &self.cache
    }
}

impl<K: Cached> Cache<K> {
    /// Adds an index: it finds an object by each value that `values` returns for it.
    #[must_use]
    pub fn index<V: Display, I: IntoIterator<Item = V>>(
        &self,
        values: impl Fn(&K) -> I + Send + Sync + 'static,
    ) -> CacheIndex<K, V> {
        let printed = move |object: &K| values(object).into_iter().map(|value| value.to_string()).collect::<Vec<_>>();
        let place = self.shared.store.write().add_index(Arc::new(printed));
        CacheIndex { cache: self.clone(), place, value: PhantomData }
    }
}
