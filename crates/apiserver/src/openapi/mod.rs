//! The OpenAPI documents: `/openapi/v3` with one document per group version, and `/openapi/v2`.
//!
//! A document is built on first use and again when its kinds change, without blocking discovery.

pub(crate) mod binary;
pub(crate) mod document;
pub(crate) mod operations;
pub(crate) mod render;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::discovery::{ApiResource, Catalog, join};

/// A built document and the hash that names its content.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub(crate) hash: String,
    pub(crate) body: Bytes,
}

/// Built documents of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    built: Mutex<HashMap<String, Document>>,
}

impl Documents {
    /// The document of a group version; `None` if it is not served.
    pub(crate) fn v3(&self, catalog: &Catalog, group: &str, version: &str) -> Option<Document> {
        let resources = catalog.resources(group, version)?;
        let hash = content_hash(resources.iter().map(Arc::as_ref));
        let build = || Bytes::from(document::v3(group, version, resources).to_string());
        Some(self.cached(join(group, version), hash, build))
    }

    /// The single document of all kinds in the older format.
    pub(crate) fn v2(&self, catalog: &Catalog) -> Document {
        let build = || Bytes::from(document::v2(catalog).to_string());
        self.cached("v2".to_owned(), hash_of_all(catalog), build)
    }

    /// The same document as protocol buffers. It is large and seldom asked for, so it is not kept.
    pub(crate) fn v2_binary(catalog: &Catalog) -> Document {
        Document { hash: hash_of_all(catalog), body: Bytes::from(binary::document(&document::v2(catalog))) }
    }

    fn cached(&self, key: String, hash: String, build: impl FnOnce() -> Bytes) -> Document {
        if let Some(found) = self.built.lock().unwrap_or_else(PoisonError::into_inner).get(&key)
            && found.hash == hash
        {
            return found.clone();
        }
        // Built outside the lock: two clients may build the same document, none waits for another's.
        let document = Document { hash, body: build() };
        self.built.lock().unwrap_or_else(PoisonError::into_inner).insert(key, document.clone());
        document
    }

    /// Forgets documents of group versions that are no longer served.
    pub(crate) fn retain(&self, catalog: &Catalog) {
        let served: Vec<String> = catalog.group_versions().map(|(group, version)| join(group, version)).collect();
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        built.retain(|key, _| key == "v2" || served.contains(key));
    }
}

/// `/openapi/v3`: where the documents are. Needs no document to be built.
pub(crate) fn index(catalog: &Catalog) -> Value {
    let mut paths = Map::new();
    for (group, version) in catalog.group_versions() {
        let path = document_path(group, version);
        let resources = catalog.resources(group, version).unwrap_or_default();
        let hash = content_hash(resources.iter().map(Arc::as_ref));
        let entry = json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")});
        paths.insert(path, entry);
    }
    json!({"paths": paths})
}

fn document_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn hash_of_all(catalog: &Catalog) -> String {
    let all = catalog.groups.iter().flat_map(|group| &group.versions).flat_map(|(_, resources)| resources);
    content_hash(all.map(Arc::as_ref))
}

/// Names the content of a document without building it: everything that a document is made of goes in.
fn content_hash<'a>(resources: impl Iterator<Item = &'a ApiResource>) -> String {
    let mut hash = Sha256::new();
    hash.update(env!("CARGO_PKG_VERSION"));
    for resource in resources {
        let ApiResource { group, version, kind, plural, verbs, subresources, shape, namespaced, .. } = resource;
        hash.update(format!("{group}|{version}|{kind}|{plural}|{verbs:?}|{subresources:?}|{shape}|{namespaced}\n"));
    }
    hash.finalize().iter().take(16).fold(String::new(), |out, byte| out + &format!("{byte:02X}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::catalog::tests::{resource, sample};

    #[test]
    fn the_index_names_every_group_version_with_a_hash() {
        let index = index(&sample());
        let paths: Vec<&String> = index["paths"].as_object().unwrap().keys().collect();
        assert_eq!(paths, ["api/v1", "apis/apps/v1", "apis/example.com/v1", "apis/example.com/v1beta1"]);
        let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
        assert!(url.starts_with("/openapi/v3/apis/apps/v1?hash="), "{url}");
    }

    #[test]
    fn a_document_is_built_once_and_again_when_its_kinds_change() {
        let documents = Documents::default();
        let first = documents.v3(&sample(), "apps", "v1").unwrap();
        let again = documents.v3(&sample(), "apps", "v1").unwrap();
        assert_eq!(first.body.as_ptr(), again.body.as_ptr());
        let changed = ApiResource { shape: 7, ..resource("apps", "v1", "Deployment") };
        let catalog = Catalog::new(vec![Arc::new(changed)]);
        assert_ne!(documents.v3(&catalog, "apps", "v1").unwrap().hash, first.hash);
        assert!(documents.v3(&catalog, "example.com", "v1").is_none());
        documents.retain(&Catalog::default());
        assert!(documents.built.lock().unwrap().is_empty());
    }
}
