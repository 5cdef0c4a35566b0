//! Removes the fields of the hub from selected objects, and computes the hash of the content.
//!
//! Never changes anything else of a user's manifest.

use std::collections::BTreeSet;

use fleet_api::hashes::resource_hash;
use fleet_api::kinds::PLACEMENT_GROUP;
use fleet_api::types::{EmbeddedObject, ResourceIdentifier};
use fleet_api::well_known::limits::RESOURCE_SNAPSHOT_BYTES;
use k8s_values::go;
use serde_json::{Map, Value, json};

use super::inventory::{GroupVersion, Kind, Selected};
use super::report::Fault;

/// The selected content of a placement at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectedContent {
    /// In the order of snapshots. `None` if the content has not changed since the hash was computed, so that it was
    /// not read.
    pub resources: Option<Vec<EmbeddedObject>>,
    pub identifiers: Vec<ResourceIdentifier>,
    /// The hash of all resources.
    pub hash: String,
    /// How many of the resources are envelopes.
    pub envelopes: usize,
    /// Undiscovered group versions that may have more objects to select.
    pub undiscovered: Vec<GroupVersion>,
}

impl SelectedContent {
    /// Copies and cleans each object. They must already be in order.
    pub fn of(selected: &[Selected<'_>]) -> Self {
        let resources: Vec<_> = selected.iter().map(clean).collect();
        let hash = resource_hash(&resources);
        let envelopes = selected.iter().filter(|one| is_envelope(one.kind)).count();
        let identifiers = identifiers(selected);
        Self { resources: Some(resources), identifiers, hash, envelopes, undiscovered: Vec::new() }
    }

    /// Unchanged content with a known hash; only the metadata of the objects is available. A plan that needs the
    /// content stops with [`Fault::ContentNotRead`].
    pub fn unchanged(selected: &[Selected<'_>], hash: String) -> Self {
        let envelopes = selected.iter().filter(|one| is_envelope(one.kind)).count();
        Self { resources: None, identifiers: identifiers(selected), hash, envelopes, undiscovered: Vec::new() }
    }

    /// Adds the group versions that could not be discovered.
    #[must_use]
    pub fn with_undiscovered(self, undiscovered: Vec<GroupVersion>) -> Self {
        Self { undiscovered, ..self }
    }

    /// The undiscovered group version that may be the reason why a previously selected object is missing.
    pub fn may_have_lost<'r>(&self, before: impl IntoIterator<Item = &'r ResourceIdentifier>) -> Option<&GroupVersion> {
        if self.undiscovered.is_empty() {
            return None;
        }
        let there: BTreeSet<&ResourceIdentifier> = self.identifiers.iter().collect();
        let mut lost = before.into_iter().filter(|one| !there.contains(one));
        lost.find_map(|one| self.undiscovered.iter().find(|part| part.group == one.group))
    }

    /// The resources in portions of at most [`RESOURCE_SNAPSHOT_BYTES`], in order. A larger resource is a portion of
    /// its own. There is at least one portion, possibly empty.
    pub fn portions(&self) -> Result<Vec<&[EmbeddedObject]>, Fault> {
        let resources = self.resources.as_deref().ok_or(Fault::ContentNotRead)?;
        Ok(split(resources, RESOURCE_SNAPSHOT_BYTES))
    }
}

fn identifiers(selected: &[Selected<'_>]) -> Vec<ResourceIdentifier> {
    selected.iter().map(Selected::identifier).collect()
}

/// Consecutive portions of at most `limit` bytes each, unless a single resource is larger.
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

/// The counted size of a resource: its JSON and a line break.
pub(super) fn stored_bytes(resource: &EmbeddedObject) -> usize {
    go::json_bytes(resource).len() + 1
}

fn is_envelope(kind: &Kind) -> bool {
    kind.group == PLACEMENT_GROUP && matches!(kind.kind.as_str(), "ClusterResourceEnvelope" | "ResourceEnvelope")
}

/// Metadata that servers and controllers of the hub write.
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

/// Annotations of tools on the hub.
const HUB_ANNOTATIONS: &[&str] =
    &["kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision"];

fn clean(one: &Selected<'_>) -> EmbeddedObject {
    let mut object = one.object.0.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        // Items of a list do not have them.
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

/// Labels by which the hub's job controller finds its pods.
const JOB_LABELS: &[&str] = &["controller-uid", "batch.kubernetes.io/controller-uid"];

/// A selector that the user wrote stays.
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
