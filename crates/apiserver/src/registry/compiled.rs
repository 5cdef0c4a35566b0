//! Caches compiled CustomResourceDefinitions, so that the clusters of a process, and servers that share the cache, also
//! share schemas and rules.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::definition::{is_established, resource_of};
use super::info::ResourceInfo;
use crate::field::FieldError;

/// Most definitions that are remembered. A large cluster has a few hundred; each change of one counts again.
const REMEMBERED_DEFINITIONS: usize = 1024;

/// Compiled definitions, by their text.
#[derive(Debug, Default)]
pub(crate) struct CompiledDefinitions {
    by_meaning: Mutex<HashMap<u64, (Value, Arc<ResourceInfo>)>>,
    /// The same by all bytes, so that a definition which many clusters hold is not even parsed again.
    by_bytes: Mutex<HashMap<Bytes, Definition>>,
}

/// A definition as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    pub(crate) info: Arc<ResourceInfo>,
    /// Its names were accepted once, so it is served.
    pub(crate) established: bool,
}

impl CompiledDefinitions {
    /// Reads a stored definition.
    pub(crate) fn read(&self, stored: &Bytes) -> Result<Definition, Vec<FieldError>> {
        if let Some(known) = self.by_bytes.lock().get(stored) {
            return Ok(known.clone());
        }
        let object = serde_json::from_slice(stored).unwrap_or_default();
        let read = Definition { info: self.resource_of(&object)?, established: is_established(&object) };
        remember(&mut self.by_bytes.lock(), stored.clone(), read.clone());
        Ok(read)
    }

    /// The resource that a definition describes.
    fn resource_of(&self, definition: &Value) -> Result<Arc<ResourceInfo>, Vec<FieldError>> {
        let read = what_is_read(definition);
        let mut hasher = DefaultHasher::new();
        read.to_string().hash(&mut hasher);
        let hash = hasher.finish();
        if let Some((_, known)) = self.by_meaning.lock().get(&hash).filter(|(text, _)| *text == read) {
            return Ok(known.clone());
        }
        let info = Arc::new(resource_of(definition)?);
        remember(&mut self.by_meaning.lock(), hash, (read, info.clone()));
        Ok(info)
    }
}

fn remember<K: Eq + std::hash::Hash, V>(known: &mut HashMap<K, V>, key: K, value: V) {
    if known.len() >= REMEMBERED_DEFINITIONS {
        // Clusters hold the definitions that they serve; others are compiled again on demand.
        known.clear();
    }
    known.insert(key, value);
}

/// The parts of a definition that its resource depends on.
fn what_is_read(definition: &Value) -> Value {
    let metadata = &definition["metadata"];
    json!({
        "name": metadata["name"],
        "deleting": metadata["deletionTimestamp"].is_string(),
        "spec": definition["spec"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(scope: &str) -> Value {
        json!({
            "metadata": {"name": "cars.example.com", "resourceVersion": "1"},
            "spec": {
                "group": "example.com", "scope": scope, "names": {"plural": "cars", "kind": "Car"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        })
    }

    #[test]
    fn equal_definitions_are_compiled_once() {
        let cache = CompiledDefinitions::default();
        let first = cache.resource_of(&definition("Cluster")).unwrap();
        let mut written_again = definition("Cluster");
        written_again["metadata"]["resourceVersion"] = "2".into();
        written_again["status"] = json!({"storedVersions": ["v1"]});
        assert!(Arc::ptr_eq(&first, &cache.resource_of(&written_again).unwrap()));
        assert!(cache.resource_of(&definition("Namespaced")).unwrap().namespaced);
        let mut going = definition("Cluster");
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_ne!(cache.resource_of(&going).unwrap().verbs, first.verbs);
    }

    #[test]
    fn equal_bytes_are_parsed_once() {
        let cache = CompiledDefinitions::default();
        let mut object = definition("Cluster");
        let fresh = cache.read(&object.to_string().into()).unwrap();
        object["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
        let served = cache.read(&object.to_string().into()).unwrap();
        assert_eq!((fresh.established, served.established), (false, true));
        assert!(Arc::ptr_eq(&fresh.info, &served.info));
        assert!(Arc::ptr_eq(&served.info, &cache.read(&object.to_string().into()).unwrap().info));
        assert_eq!(cache.by_bytes.lock().len(), 2);
    }

    #[test]
    fn the_number_of_cached_definitions_is_limited() {
        let cache = CompiledDefinitions::default();
        for number in 0..=REMEMBERED_DEFINITIONS {
            let mut one = definition("Cluster");
            one["metadata"]["name"] = format!("cars{number}.example.com").into();
            cache.resource_of(&one).unwrap();
        }
        assert_eq!(cache.by_meaning.lock().len(), 1);
    }
}
