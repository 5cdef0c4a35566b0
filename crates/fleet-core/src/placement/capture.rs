//! What of a selected object goes into a snapshot.
//!
//! Decides which fields belong to the hub and are left behind, and the hash of what remains. Never changes anything else
//! of a user's manifest, and never decides which objects are captured.

use std::collections::BTreeSet;

use fleet_api::go_json;
use fleet_api::hashes::resource_hash;
use fleet_api::kinds::PLACEMENT_GROUP;
use fleet_api::types::{EmbeddedObject, ResourceIdentifier};
use fleet_api::well_known::limits::RESOURCE_SNAPSHOT_BYTES;
use serde_json::{Map, Value, json};

use super::inventory::{GroupVersion, Kind, Selected};
use super::report::Fault;

/// The content of a placement at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Captured {
    /// In the order of snapshots. `None` where nothing has changed since the hash was taken, so that nothing was read.
    pub resources: Option<Vec<EmbeddedObject>>,
    pub identifiers: Vec<ResourceIdentifier>,
    /// Over all resources together.
    pub hash: String,
    /// How many of the resources are envelopes.
    pub envelopes: usize,
    /// Parts of the hub's API that may have more to select and did not say so.
    pub unheard: Vec<GroupVersion>,
}

impl Captured {
    /// Takes a clean copy of each object; they are in order already.
    pub fn of(selected: &[Selected<'_>]) -> Self {
        let resources: Vec<_> = selected.iter().map(clean).collect();
        let hash = resource_hash(&resources);
        let envelopes = selected.iter().filter(|one| is_envelope(one.kind)).count();
        let identifiers = identifiers(selected);
        Self { resources: Some(resources), identifiers, hash, envelopes, unheard: Vec::new() }
    }

    /// The same content as when this hash was taken; of the objects only the metadata is at hand. A plan that has to
    /// freeze it stops with [`Fault::ContentNotRead`].
    pub fn unchanged(selected: &[Selected<'_>], hash: String) -> Self {
        let envelopes = selected.iter().filter(|one| is_envelope(one.kind)).count();
        Self { resources: None, identifiers: identifiers(selected), hash, envelopes, unheard: Vec::new() }
    }

    /// The same, made while these parts of the API did not say which kinds they have.
    #[must_use]
    pub fn without_hearing(self, unheard: Vec<GroupVersion>) -> Self {
        Self { unheard, ..self }
    }

    /// The part of the API whose silence may be why something is not selected any more. Nobody deleted that; it could not be
    /// read.
    pub fn may_have_lost<'r>(&self, before: impl IntoIterator<Item = &'r ResourceIdentifier>) -> Option<&GroupVersion> {
        if self.unheard.is_empty() {
            return None;
        }
        let there: BTreeSet<&ResourceIdentifier> = self.identifiers.iter().collect();
        let mut lost = before.into_iter().filter(|one| !there.contains(one));
        lost.find_map(|one| self.unheard.iter().find(|part| part.group == one.group))
    }

    /// The resources in portions of at most [`RESOURCE_SNAPSHOT_BYTES`], in order; one that is larger by itself is a
    /// portion of its own. There is always one, be it empty.
    pub fn portions(&self) -> Result<Vec<&[EmbeddedObject]>, Fault> {
        let resources = self.resources.as_deref().ok_or(Fault::ContentNotRead)?;
        Ok(split(resources, RESOURCE_SNAPSHOT_BYTES))
    }
}

fn identifiers(selected: &[Selected<'_>]) -> Vec<ResourceIdentifier> {
    selected.iter().map(Selected::identifier).collect()
}

/// Consecutive portions of at most `limit` bytes each, as far as single resources allow.
pub(super) fn split(resources: &[EmbeddedObject], limit: usize) -> Vec<&[EmbeddedObject]> {
    let mut portions = Vec::new();
    let (mut start, mut bytes) = (0, 0_usize);
    for (place, resource) in resources.iter().enumerate() {
        let size = stored_bytes(resource);
        if place > start && bytes + size > limit {
            portions.push(&resources[start..place]);
            (start, bytes) = (place, 0);
        }
        bytes += size;
    }
    portions.push(&resources[start..]);
    portions
}

/// What a resource counts for: its JSON and the line break that ends it.
pub(super) fn stored_bytes(resource: &EmbeddedObject) -> usize {
    go_json::to_vec(resource).len() + 1
}

fn is_envelope(kind: &Kind) -> bool {
    kind.group == PLACEMENT_GROUP && matches!(kind.kind.as_str(), "ClusterResourceEnvelope" | "ResourceEnvelope")
}

/// Metadata that a server or the hub's own controllers wrote.
const HUB_METADATA: &[&str] = &[
    "resourceVersion",
    "generation",
    "uid",
    "selfLink",
    "deletionTimestamp",
    "managedFields",
    "creationTimestamp",
    "ownerReferences",
];

/// Annotations that tools on the hub wrote for themselves.
const HUB_ANNOTATIONS: &[&str] =
    &["kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision"];

fn clean(one: &Selected<'_>) -> EmbeddedObject {
    let mut object = one.object.0.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        // Items of a list come without them.
        fields.insert("apiVersion".to_owned(), json!(one.kind.api_version()));
        fields.insert("kind".to_owned(), json!(one.kind.kind));
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            clean_metadata(metadata);
        }
    }
    if one.kind.is("", "v1", "Service") {
        clean_service(&mut object);
    } else if one.kind.is("batch", "v1", "Job") {
        clean_job(&mut object);
    }
    EmbeddedObject(object)
}

fn clean_metadata(metadata: &mut Map<String, Value>) {
    metadata.retain(|field, _| !HUB_METADATA.contains(&field.as_str()));
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    annotations.retain(|key, _| !HUB_ANNOTATIONS.contains(&key.as_str()));
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// Addresses and ports that the hub's cluster assigned.
fn clean_service(service: &mut Value) {
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let is_headless = spec.get("clusterIP").is_none_or(|address| address == "None");
    if !is_headless {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    spec.remove("healthCheckNodePort");
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            port.remove("nodePort");
        }
    }
}

/// Labels by which the hub's job controller finds its own pods.
const JOB_LABELS: &[&str] = &["controller-uid", "batch.kubernetes.io/controller-uid"];

/// A selector that the user wrote stays as it is.
fn clean_job(job: &mut Value) {
    if job.pointer("/spec/manualSelector").and_then(Value::as_bool) == Some(true) {
        return;
    }
    for pointer in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
        if let Some(labels) = job.pointer_mut(pointer).and_then(Value::as_object_mut) {
            labels.retain(|key, _| !JOB_LABELS.contains(&key.as_str()));
        }
    }
    if let Some(metadata) = job.pointer_mut("/spec/template/metadata").and_then(Value::as_object_mut) {
        metadata.remove("creationTimestamp");
    }
}
