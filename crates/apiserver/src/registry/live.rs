//! The table of resources that requests are resolved against, and its changes at run time.
//!
//! A changed or removed custom resource retires its old description, which ends the watches that were opened under it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::info::{ResourceInfo, StorageKey, Version, split_api_version};
use crate::store::notifier::{Notifier, Subscription};

/// The resources that every cluster of a process has.
#[derive(Debug, Default)]
pub(crate) struct BuiltIns {
    by_name: BTreeMap<StorageKey, Arc<ResourceInfo>>,
    by_kind: BTreeMap<StorageKey, Arc<ResourceInfo>>,
    /// In table order, which is the order of discovery.
    ordered: Vec<Arc<ResourceInfo>>,
}

impl BuiltIns {
    /// A later entry with the same group and plural replaces an earlier one in look-ups.
    pub(crate) fn new(infos: impl IntoIterator<Item = ResourceInfo>) -> Self {
        let mut out = Self::default();
        for info in infos {
            let info = Arc::new(info);
            out.by_name.insert(StorageKey::new(&info.group, &info.plural), info.clone());
            out.by_kind.insert(StorageKey::new(&info.group, &info.kind), info.clone());
            out.ordered.push(info);
        }
        out
    }
}

/// A resource as one request sees it.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    pub(crate) info: Arc<ResourceInfo>,
    version: usize,
    /// Notified when this description is replaced or removed; `None` for built-ins.
    pub(crate) retired: Option<Subscription>,
}

impl Served {
    pub(crate) fn version(&self) -> &Version {
        &self.info.versions[self.version]
    }

    pub(crate) fn api_version(&self) -> String {
        self.info.api_version(&self.version().name)
    }

    /// Whether objects of this version look as they are stored.
    pub(crate) fn is_storage_version(&self) -> bool {
        let version = self.version();
        let here = (self.info.group.as_str(), version.name.as_str());
        version.conversion.is_none() && split_api_version(&self.info.storage.api_version) == here
    }
}

/// All resources of one cluster.
#[derive(Debug)]
pub(crate) struct Registry {
    built_in: Arc<BuiltIns>,
    custom: RwLock<Custom>,
}

#[derive(Debug, Default)]
struct Custom {
    generation: u64,
    by_name: BTreeMap<StorageKey, Slot>,
}

#[derive(Debug)]
struct Slot {
    info: Arc<ResourceInfo>,
    retired: Notifier,
}

impl Registry {
    pub(crate) fn new(built_in: Arc<BuiltIns>) -> Self {
        Self { built_in, custom: RwLock::default() }
    }

    /// The resource behind `group/version/resource`, if that version of it is served.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Served> {
        let key = StorageKey::new(group, plural);
        let (info, retired) = if let Some(info) = self.built_in.by_name.get(&key) {
            (info.clone(), None)
        } else {
            let custom = self.custom.read();
            let slot = custom.by_name.get(&key)?;
            (slot.info.clone(), Some(slot.retired.subscribe()))
        };
        let version = info.versions.iter().position(|v| v.served && v.name == version)?;
        Some(Served { info, version, retired })
    }

    pub(crate) fn find_kind(&self, group: &str, kind: &str) -> Option<Arc<ResourceInfo>> {
        let built_in = self.built_in.by_kind.get(&StorageKey::new(group, kind)).cloned();
        built_in.or_else(|| {
            let custom = self.custom.read();
            custom.by_name.values().find(|s| s.info.group == group && s.info.kind == kind).map(|s| s.info.clone())
        })
    }

    /// The resource that owns a storage key (not one that borrows it).
    pub(crate) fn find_storage(&self, key: &StorageKey) -> Option<Arc<ResourceInfo>> {
        let built_in = self.built_in.by_name.get(key).cloned();
        built_in.or_else(|| self.custom.read().by_name.get(key).map(|slot| slot.info.clone()))
    }

    /// Every resource: built-in ones in table order, then custom ones by name.
    pub(crate) fn all(&self) -> Vec<Arc<ResourceInfo>> {
        let custom = self.custom.read();
        self.built_in.ordered.iter().cloned().chain(custom.by_name.values().map(|s| s.info.clone())).collect()
    }

    pub(crate) fn is_built_in(&self, group: &str, plural: &str) -> bool {
        self.built_in.by_name.contains_key(&StorageKey::new(group, plural))
    }

    /// Counts the changes of the table, so that documents derived from it can be cached.
    pub(crate) fn generation(&self) -> u64 {
        self.custom.read().generation
    }

    /// Adds a custom resource or replaces it.
    pub(crate) fn install(&self, info: impl Into<Arc<ResourceInfo>>) {
        let info = info.into();
        let key = StorageKey::new(&info.group, &info.plural);
        let mut custom = self.custom.write();
        custom.generation += 1;
        let slot = Slot { info, retired: Notifier::default() };
        if let Some(old) = custom.by_name.insert(key, slot) {
            old.retired.notify();
        }
    }

    /// Removes a custom resource; true if it was there.
    pub(crate) fn remove(&self, group: &str, plural: &str) -> bool {
        let mut custom = self.custom.write();
        let removed = custom.by_name.remove(&StorageKey::new(group, plural));
        if let Some(old) = &removed {
            custom.generation += 1;
            old.retired.notify();
        }
        removed.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Origin;
    use crate::schema::Node;

    fn custom(kind: &str, plural: &str, versions: &[(&str, bool)]) -> ResourceInfo {
        let mut info =
            ResourceInfo::built_in("example.com", Version::new(versions[0].0, Node::default()), kind, plural);
        info.origin = Origin::Custom { definition: format!("{plural}.example.com") };
        info.versions = versions
            .iter()
            .map(|(name, served)| Version { served: *served, ..Version::new(name, Node::default()) })
            .collect();
        info
    }

    #[test]
    fn only_served_versions_are_found() {
        let registry = Registry::new(Arc::default());
        registry.install(custom("Car", "cars", &[("v1", true), ("v1alpha1", false)]));
        assert!(registry.find("example.com", "v1", "cars").is_some());
        assert!(registry.find("example.com", "v1alpha1", "cars").is_none());
        assert!(registry.find("", "v1", "cars").is_none());
        assert!(registry.find_kind("example.com", "Car").is_some());
    }

    #[test]
    fn replacing_and_removing_retire_the_old_description() {
        let registry = Registry::new(Arc::default());
        registry.install(custom("Car", "cars", &[("v1", true)]));
        let first = registry.find("example.com", "v1", "cars").unwrap();
        registry.install(custom("Car", "cars", &[("v1", true)]));
        assert!(first.retired.unwrap().is_notified());
        let second = registry.find("example.com", "v1", "cars").unwrap();
        assert!(registry.remove("example.com", "cars") && !registry.remove("example.com", "cars"));
        assert!(second.retired.unwrap().is_notified());
        assert_eq!(registry.generation(), 3);
    }

    #[test]
    fn built_ins_come_first_and_are_never_retired() {
        let table = [ResourceInfo::built_in("", Version::new("v1", Node::default()), "Pod", "pods")];
        let registry = Registry::new(Arc::new(BuiltIns::new(table)));
        registry.install(custom("Car", "cars", &[("v1", true)]));
        let names: Vec<String> = registry.all().iter().map(|i| i.plural.clone()).collect();
        assert_eq!(names, ["pods", "cars"]);
        assert!(registry.find("", "v1", "pods").unwrap().retired.is_none());
        assert!(registry.is_built_in("", "pods") && !registry.is_built_in("example.com", "cars"));
    }
}
