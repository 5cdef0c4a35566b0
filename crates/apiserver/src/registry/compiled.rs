//! Definitions that were read before: what a CustomResourceDefinition means is worked out once for all who have it.
//!
//! Decides from the text of a definition alone, so that the clusters of a process, and servers that are given the same
//! shelf, share schemas and rules. Servers that begin with the same stored bytes do not even parse them again. Never decides
//! whether a definition is served.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::definition::resource_of;
use super::info::ResourceInfo;
use crate::field::FieldError;

/// Most definitions that are remembered. A large cluster has a few hundred; each change of one counts again.
const REMEMBERED_DEFINITIONS: usize = 1024;

/// What definitions mean.
#[derive(Debug, Default)]
pub struct CompiledDefinitions {
    by_text: Mutex<HashMap<u64, (Value, Arc<ResourceInfo>)>>,
    /// By the address of the stored bytes, which are held so that nothing else comes to be there.
    by_address: Mutex<HashMap<(usize, usize), (Bytes, Definition)>>,
}

/// A stored definition that was read.
#[derive(Debug, Clone)]
pub struct Definition {
    pub object: Arc<Value>,
    pub resource: Result<Arc<ResourceInfo>, Arc<Vec<FieldError>>>,
}

impl CompiledDefinitions {
    /// Reads a stored definition.
    pub fn read(&self, stored: &Bytes) -> Definition {
        let address = (stored.as_ptr() as usize, stored.len());
        if let Some((_, known)) = self.by_address.lock().get(&address) {
            return known.clone();
        }
        // Damaged bytes, which the log's checksums exclude, define nothing.
        let object: Value = serde_json::from_slice(stored).unwrap_or_default();
        let resource = self.resource_of(&object).map_err(Arc::new);
        let read = Definition { object: Arc::new(object), resource };
        let mut known = self.by_address.lock();
        if known.len() >= REMEMBERED_DEFINITIONS {
            known.clear();
        }
        known.insert(address, (stored.clone(), read.clone()));
        read
    }

    /// The resource that a definition describes.
    pub fn resource_of(&self, definition: &Value) -> Result<Arc<ResourceInfo>, Vec<FieldError>> {
        let read = what_is_read(definition);
        let mut hasher = DefaultHasher::new();
        read.to_string().hash(&mut hasher);
        let hash = hasher.finish();
        if let Some((_, known)) = self.by_text.lock().get(&hash).filter(|(text, _)| *text == read) {
            return Ok(known.clone());
        }
        let info = Arc::new(resource_of(definition)?);
        let mut known = self.by_text.lock();
        if known.len() >= REMEMBERED_DEFINITIONS {
            // Whoever still serves one holds it; the rest is worked out again when it is asked for.
            known.clear();
        }
        known.insert(hash, (read, info.clone()));
        Ok(info)
    }
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
    fn the_same_text_is_read_once_and_another_text_is_another_resource() {
        let shelf = CompiledDefinitions::default();
        let first = shelf.resource_of(&definition("Cluster")).unwrap();
        let mut written_again = definition("Cluster");
        written_again["metadata"]["resourceVersion"] = "2".into();
        written_again["status"] = json!({"storedVersions": ["v1"]});
        assert!(Arc::ptr_eq(&first, &shelf.resource_of(&written_again).unwrap()));
        assert!(shelf.resource_of(&definition("Namespaced")).unwrap().namespaced);
        let mut going = definition("Cluster");
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_ne!(shelf.resource_of(&going).unwrap().verbs, first.verbs);
    }

    #[test]
    fn the_same_bytes_are_parsed_once_and_other_bytes_are_read_anew() {
        let shelf = CompiledDefinitions::default();
        let stored = Bytes::from(definition("Cluster").to_string());
        let (first, second) = (shelf.read(&stored), shelf.read(&stored.clone()));
        assert!(Arc::ptr_eq(&first.object, &second.object));
        let copied = shelf.read(&Bytes::from(stored.to_vec()));
        assert!(!Arc::ptr_eq(&first.object, &copied.object) && first.object == copied.object);
        assert!(Arc::ptr_eq(&first.resource.unwrap(), &copied.resource.unwrap()));
        let other = Bytes::from(definition("Namespaced").to_string());
        assert!(shelf.read(&other).resource.unwrap().namespaced);
    }

    #[test]
    fn no_more_than_so_many_are_remembered() {
        let shelf = CompiledDefinitions::default();
        for number in 0..=REMEMBERED_DEFINITIONS {
            let mut one = definition("Cluster");
            one["metadata"]["name"] = format!("cars{number}.example.com").into();
            shelf.resource_of(&one).unwrap();
        }
        assert_eq!(shelf.by_text.lock().len(), 1);
    }
}
