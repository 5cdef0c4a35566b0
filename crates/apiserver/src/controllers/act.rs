//! The writes of controllers.
//!
//! Deletions go through the API, so that finalizers and admission apply. Edits of single fields go directly to the store,
//! conditional on the revision that they are based on.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::registry::{ResourceInfo, StorageKey};
use crate::rest::request::{Request, Verb};
use crate::rest::write_released;
use crate::server::Cluster;
use crate::store::{Action, Change, Encoded, Entry, Expect, Guard, Index, StoreError};

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptResult {
    Done,
    /// The object is not what it was; its change is on the way to the controllers.
    Stale,
    Failed,
}

/// Deletes an object if it is still the one that was looked at.
pub(super) async fn delete(cluster: &Arc<Cluster>, info: &ResourceInfo, entry: &Entry, policy: &str) -> AttemptResult {
    let (namespace, name) = entry.namespace_and_name();
    let version = info.versions.iter().find(|v| v.served).map_or("", |v| v.name.as_str());
    let mut request = Request::system(Verb::Delete, &info.group, version, &info.plural);
    request.namespace = Some(namespace.to_owned()).filter(|n| !n.is_empty());
    request.name = Some(name.to_owned());
    let preconditions = json!({"uid": &*entry.index.uid, "resourceVersion": entry.revision.to_string()});
    request.body = Bytes::from(json!({"propagationPolicy": policy, "preconditions": preconditions}).to_string());
    match Box::pin(cluster.handle(request)).await.status {
        200..300 => AttemptResult::Done,
        404 | 409 => AttemptResult::Stale,
        _ => AttemptResult::Failed,
    }
}

/// Creates an object through the API; one that exists already is fine.
pub(super) async fn create(cluster: &Arc<Cluster>, plural: &str, namespace: &str, object: &Value) -> AttemptResult {
    let mut request = Request::system(Verb::Create, "", "v1", plural);
    request.namespace = Some(namespace.to_owned());
    request.body = Bytes::from(object.to_string());
    match Box::pin(cluster.handle(request)).await.status {
        200..300 => AttemptResult::Done,
        403 | 404 | 409 => AttemptResult::Stale,
        _ => AttemptResult::Failed,
    }
}

/// Edits an object, unless it was changed since it was read. Removes it if the edit removes the last finalizer of a deleting object.
pub(super) async fn edit(
    cluster: &Cluster,
    resource: &StorageKey,
    entry: &Entry,
    guards: &[Guard],
    edit: impl FnOnce(&mut Value),
) -> AttemptResult {
    let before = entry.parse();
    let mut object = before.clone();
    edit(&mut object);
    if object == before {
        return AttemptResult::Done;
    }
    let spec_finalizers = cluster.registry().find_storage(resource).is_some_and(|i| i.behaviour.spec_finalizers);
    let action = if write_released(&object, spec_finalizers) {
        Action::Delete
    } else {
        Action::Put { body: Encoded::new(&object), index: Index::of(&object), shape: entry.shape }
    };
    let expect = Expect::Revision(entry.revision);
    let change = Change { resource: resource.clone(), key: entry.key.clone(), expect, action };
    match cluster.store().commit(vec![change], guards).await {
        Ok(_) => AttemptResult::Done,
        Err(StoreError::LogFailed(_)) => AttemptResult::Failed,
        Err(_) => AttemptResult::Stale,
    }
}

/// Removes a finalizer from the metadata of an object.
pub(super) fn remove_finalizer(object: &mut Value, name: &str) {
    let metadata = crate::rest::meta::metadata(object);
    if let Some(list) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
        list.retain(|f| f != name);
        if list.is_empty() {
            metadata.remove("finalizers");
        }
    }
}
