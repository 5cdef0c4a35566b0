//! Converts identifiers, requests and errors between `fleet_core::apply` and the runtime.

use fleet_api::types::WorkResourceIdentifier;
use fleet_api::well_known::field_managers;
use fleet_core::apply::decode::{Kinds, Served};
use fleet_core::apply::desired::Operation;
use fleet_core::apply::merge::PatchType;
use fleet_core::apply::process::{ApiFailure, Request};
use fleet_runtime::{Discovery, Error, KindId, ObjectKey, PatchFormat, Write};
use serde_json::{Value, json};

/// Where an object is found on the member.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) kind: KindId,
    pub(super) key: ObjectKey,
}

impl Place {
    /// `None` if the identifier has no resource or no name.
    pub(super) fn of(identifier: &WorkResourceIdentifier) -> Option<Self> {
        let WorkResourceIdentifier { group, version, kind, resource, namespace, name, .. } = identifier;
        let known = !resource.is_empty() && !name.is_empty();
        known.then(|| Self {
            kind: KindId::new(group, version, kind, resource),
            key: ObjectKey::new(Some(namespace), name),
        })
    }

    /// The same for a record that may have been made when the kind was not served. `None` if it is not served now; an
    /// error if that is unknown, because then the object may exist.
    pub(super) fn found_by(identifier: &WorkResourceIdentifier, discovery: &Discovery) -> Result<Option<Self>, Error> {
        let WorkResourceIdentifier { group, version, kind, namespace, name, .. } = identifier;
        if let Some(found) = discovery.find(group, version, kind) {
            let place = || Self { kind: found.id, key: ObjectKey::new(Some(namespace), name) };
            return Ok((!name.is_empty()).then(place));
        }
        if !discovery.is_undiscoverable(group, version) {
            return Ok(None);
        }
        let unknown =
            || Error::Other(format!("{kind} {name} may exist: {group}/{version} does not list its kinds now"));
        Self::of(identifier).map(Some).ok_or_else(unknown)
    }

    pub(super) fn write_of(&self, request: Request) -> Write {
        let (kind, key) = (self.kind.clone(), self.key.clone());
        let ours = field_managers::WORK_APPLIER;
        let apply = |force| PatchFormat::Apply { manager: ours.to_owned(), force };
        match request {
            Request::DryRun(body) => Write::patch_raw(kind, key, apply(true), body).dry_run(),
            // Uses the agent's default field manager, because the change is not part of the manifest.
            Request::Replace(body) => Write::replace_raw(kind, body),
            Request::Write(Operation::Create(body)) => Write::create_raw(kind, body).managed_by(ours),
            Request::Write(Operation::Patch(patch)) => {
                let format = match patch.patch_type {
                    PatchType::Strategic => PatchFormat::Strategic,
                    PatchType::JsonMerge => PatchFormat::Merge,
                };
                Write::patch_raw(kind, key, format, Value::Object(patch.body)).managed_by(ours)
            }
            Request::Write(Operation::Apply { body, force }) => Write::patch_raw(kind, key, apply(force), body),
            Request::Write(Operation::Nothing) => {
                Write::patch_raw(kind, key, PatchFormat::Merge, json!({})).managed_by(ours)
            }
        }
    }
}

/// The kinds that the member serves.
pub(super) struct ServedKinds<'a>(pub(super) &'a Discovery);

impl Kinds for ServedKinds<'_> {
    fn served(&self, group: &str, version: &str, kind: &str) -> Option<Served> {
        let found = self.0.find(group, version, kind)?;
        Some(Served { resource: found.id.plural.to_string(), namespaced: found.namespaced })
    }
}

/// The answer of the server, or the error of the connection.
pub(super) fn failure_of(error: &Error) -> ApiFailure {
    match error.status() {
        Some(status) => ApiFailure { code: Some(status.code), message: status.message.clone() },
        None => ApiFailure { code: None, message: error.with_causes() },
    }
}
