//! Which Works a binding needs, and their manifests: one Work per snapshot, even an empty one, and one per envelope.
//! Only overrides change the bytes of a manifest.

use std::collections::BTreeSet;

use fleet_api::names::{Index, PlacementKey, SnapshotPart, WorkName};
use fleet_api::types::{EmbeddedObject, EnvelopeType};
use k8s_values::go;
use k8s_values::validation;
use serde_json::Value;

use super::observed::{Observed, WorkFacts};
use super::report::SyncError;
use crate::envelope::{Envelope, reference};
use crate::overrides::{Pinned, Scopes, Target};
use crate::placement::{PartFacts, ResourceSnapshotFacts};

/// The snapshots that a binding names, in order.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub index: Index,
    parts: Vec<(SnapshotPart, &'a ResourceSnapshotFacts<'a>)>,
}

impl<'a> Group<'a> {
    /// `None` if the master snapshot is missing.
    pub(super) fn find(observed: &'a Observed<'a>) -> Result<Option<Self>, SyncError> {
        let named = observed.snapshots.iter().find(|one| one.name == observed.binding.resource_snapshot);
        let Some(master) = named else { return Ok(None) };
        let malformed = || SyncError::MalformedSnapshot { snapshot: master.name.to_owned() };
        let PartFacts::Master(facts) = &master.part else { return Err(malformed()) };
        let (index, wanted) = master.index.zip(facts.snapshots).ok_or_else(malformed)?;
        let mut parts = vec![(SnapshotPart::Master, master)];
        for snapshot in observed.snapshots.iter().filter(|one| one.index == Some(index)) {
            if let PartFacts::Sub(subindex) = snapshot.part {
                let malformed = || SyncError::MalformedSnapshot { snapshot: snapshot.name.to_owned() };
                parts.push((SnapshotPart::Sub(subindex.ok_or_else(malformed)?), snapshot));
            }
        }
        parts.sort_unstable_by_key(|(part, _)| *part);
        if parts.len() < wanted {
            return Err(SyncError::IncompleteGroup { found: parts.len(), wanted });
        }
        Ok(Some(Self { index, parts }))
    }

    /// The Works that are needed, in order.
    pub(super) fn needed_works(&self, observed: &'a Observed<'a>) -> Result<Vec<NeededWork<'a>>, SyncError> {
        let mut needed_works = Vec::new();
        for &(part, snapshot) in &self.parts {
            let name = WorkName::of_snapshot(observed.placement, part).to_string();
            needed_works.push(NeededWork { name, snapshot, envelope: None });
            for envelope in snapshot.resources.iter().filter_map(Envelope::of) {
                let name = envelope_work_name(observed, part, &envelope)?;
                needed_works.push(NeededWork { name, snapshot, envelope: Some(envelope) });
            }
        }
        // Two sources for one Work would overwrite each other: an envelope selected in two versions, or a Work with
        // wrong labels.
        let mut names = BTreeSet::new();
        if let Some(needed) = needed_works.iter().find(|needed| !names.insert(needed.name.as_str())) {
            return Err(SyncError::RepeatedWork { work: needed.name.clone() });
        }
        Ok(needed_works)
    }
}

/// The Work of an envelope is found by its labels and keeps its name, even if the envelope moves to another snapshot.
fn envelope_work_name(
    observed: &Observed<'_>,
    part: SnapshotPart,
    envelope: &Envelope<'_>,
) -> Result<String, SyncError> {
    for (what, text) in [("name", envelope.name), ("namespace", envelope.namespace)] {
        if !validation::label_value(text).is_empty() {
            return Err(EnvelopeError::NoLabel { envelope: envelope.to_string(), what, text: text.to_owned() }.into());
        }
    }
    let identifier = envelope.identifier();
    let is_of_it =
        |work: &&WorkFacts<'_>| work.binding == observed.binding.name && work.envelope.as_ref() == Some(&identifier);
    let mut found: Vec<&str> = observed.works.iter().filter(is_of_it).map(|work| work.name).collect();
    found.sort_unstable();
    match found[..] {
        [] => Ok(new_envelope_work_name(observed.placement, part, envelope)),
        [one] => Ok(one.to_owned()),
        _ => Err(SyncError::DuplicateEnvelopeWorks {
            envelope: envelope.to_string(),
            works: found.into_iter().map(str::to_owned).collect(),
        }),
    }
}

fn new_envelope_work_name(placement: &PlacementKey, part: SnapshotPart, envelope: &Envelope<'_>) -> String {
    WorkName::of_envelope(placement, part, envelope.kind, envelope.namespace, envelope.name).to_string()
}

/// A Work that the binding needs.
#[derive(Debug)]
pub(super) struct NeededWork<'a> {
    pub name: String,
    /// The snapshot with its content.
    snapshot: &'a ResourceSnapshotFacts<'a>,
    /// The envelope in that snapshot, if the Work is for one.
    pub envelope: Option<Envelope<'a>>,
}

impl NeededWork<'_> {
    /// The manifests of the Work for this cluster; `None` if the hub could not discover which overrides apply.
    pub(super) fn manifests(
        &self,
        pinned: &Pinned<'_>,
        target: &Target<'_>,
        scopes: &dyn Scopes,
    ) -> Result<Option<Vec<EmbeddedObject>>, SyncError> {
        let resources = match &self.envelope {
            Some(envelope) => open(envelope)?,
            None => self.plain_resources()?,
        };
        if resources.iter().any(|resource| pinned.awaits_discovery(resource.as_ref(), scopes)) {
            return Ok(None);
        }
        let overridden = resources.into_iter().map(|resource| pinned.apply(resource.as_ref(), target, scopes));
        overridden
            .filter_map(Result::transpose)
            .collect::<Result<_, _>>()
            .map(Some)
            .map_err(|why| SyncError::Override(Box::new(why)))
    }

    fn plain_resources(&self) -> Result<Vec<Resource<'_>>, SyncError> {
        let mut plain = Vec::new();
        for (place, resource) in self.snapshot.resources.iter().enumerate() {
            if resource.kind().is_empty() {
                return Err(SyncError::MalformedResource { snapshot: self.snapshot.name.to_owned(), place });
            }
            if Envelope::of(resource).is_none() {
                plain.push(Resource::Selected(resource));
            }
        }
        Ok(plain)
    }
}

/// A resource before overrides.
enum Resource<'a> {
    Selected(&'a EmbeddedObject),
    Unwrapped(EmbeddedObject),
}

impl AsRef<EmbeddedObject> for Resource<'_> {
    fn as_ref(&self) -> &EmbeddedObject {
        match self {
            Self::Selected(object) => object,
            Self::Unwrapped(object) => object,
        }
    }
}

/// Why an envelope cannot be opened. The texts equal those of the Go agents, including their errors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    #[error("a namespaced object {key} ({object}) has been wrapped in a cluster resource envelope {envelope}")]
    Namespaced { key: String, object: String, envelope: String },
    #[error("a cluster scope object {key} ({object}) has been wrapped in a resource envelope {envelope}")]
    ClusterScoped { key: String, object: String, envelope: String },
    #[error(
        "a namespaced object {key} ({object}) in has been wrapped in a resource envelope from another namespace ({envelope})"
    )]
    OtherNamespace { key: String, object: String, envelope: String },
    #[error("entry {key} of envelope {envelope} is no object of any kind")]
    Malformed { key: String, envelope: String },
    #[error("the {what} {text:?} of envelope {envelope} cannot be a label of its work")]
    NoLabel { envelope: String, what: &'static str, text: String },
}

/// The objects in the envelope, sorted by their JSON text in descending order.
fn open<'a>(envelope: &Envelope<'a>) -> Result<Vec<Resource<'a>>, EnvelopeError> {
    let mut entries = Vec::new();
    for (key, value) in envelope.entries() {
        let object = EmbeddedObject(value.clone());
        if let Some(error) = misplaced(envelope, key, &object) {
            return Err(error);
        }
        entries.push((go::json_bytes(value), object));
    }
    entries.sort_by(|one, another| another.0.cmp(&one.0));
    Ok(entries.into_iter().map(|(_, object)| Resource::Unwrapped(object)).collect())
}

/// Why an envelope cannot be opened; `None` if it can, or if the resource is not an envelope.
pub(crate) fn envelope_error(resource: &EmbeddedObject) -> Option<EnvelopeError> {
    open(&Envelope::of(resource)?).err()
}

fn misplaced(envelope: &Envelope<'_>, key: &str, object: &EmbeddedObject) -> Option<EnvelopeError> {
    let (key, text, wrapping) = (key.to_owned(), reference(object.namespace(), object.name()), envelope.to_string());
    if object.get("kind").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Some(EnvelopeError::Malformed { key, envelope: wrapping });
    }
    let own = object.namespace();
    match envelope.kind {
        EnvelopeType::ResourceEnvelope if own.is_empty() => {
            Some(EnvelopeError::ClusterScoped { key, object: text, envelope: wrapping })
        }
        EnvelopeType::ResourceEnvelope if own != envelope.namespace => {
            Some(EnvelopeError::OtherNamespace { key, object: text, envelope: wrapping })
        }
        EnvelopeType::ClusterResourceEnvelope if !own.is_empty() => {
            Some(EnvelopeError::Namespaced { key, object: text, envelope: wrapping })
        }
        _ => None,
    }
}
