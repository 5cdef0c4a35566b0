//! Owners of objects on the member, and whether an object may become or stay ours.
//!
//! An object is ours if an owner reference names our AppliedWork by kind, name and uid. Never lets an object be
//! written or deleted that is not ours.

use std::collections::BTreeSet;

use fleet_api::kinds::{AppliedWork, PLACEMENT_API_VERSION};
use fleet_api::well_known::{annotations, field_managers};
use serde_json::{Map, Value, json};

/// The AppliedWork that owns the objects of a Work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub name: String,
    pub uid: String,
}

impl Owner {
    /// `None` for an AppliedWork that is not stored yet: it has no uid.
    pub fn of(applied_work: &AppliedWork) -> Option<Self> {
        let (name, uid) = (applied_work.metadata.name.clone()?, applied_work.metadata.uid.clone()?);
        Some(Self { name, uid }).filter(|owner| !owner.uid.is_empty())
    }

    /// The owner reference to the AppliedWork.
    pub fn reference(&self) -> Value {
        json!({
            "apiVersion": PLACEMENT_API_VERSION, "kind": AppliedWork::INFO.kind, "name": self.name, "uid": self.uid, "blockOwnerDeletion": true,
        })
    }

    fn is_named_by(&self, reference: &Value) -> bool {
        is_applied_work(reference) && reference["name"] == *self.name && reference["uid"] == *self.uid
    }

    /// Whether an object has our owner reference.
    pub fn owns(&self, object: &Value) -> bool {
        owners(object).iter().any(|reference| self.is_named_by(reference))
    }
}

/// An object's owner references.
pub fn owners(object: &Value) -> &[Value] {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn is_applied_work(reference: &Value) -> bool {
    reference["kind"] == AppliedWork::INFO.kind && reference["apiVersion"] == PLACEMENT_API_VERSION
}

/// Why an object does not become ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TakeOverError {
    #[error(
        "the object is already owned by some other sources(s) and co-ownership is disallowed (existingOwnerRefs: {owners})"
    )]
    OwnedByOthers { owners: String },
    #[error("the object is already owned by another Fleet AppliedWork object")]
    OwnedByAnotherWork,
}

/// The Works whose AppliedWorks own an object and that are not among the known ones.
pub fn works_in_doubt(live: &Value, works: &BTreeSet<String>) -> BTreeSet<String> {
    let names =
        owners(live).iter().filter(|reference| is_applied_work(reference)).filter_map(|one| one["name"].as_str());
    names.filter(|name| !name.is_empty() && !works.contains(*name)).map(str::to_owned).collect()
}

/// The owners that an object keeps when it becomes ours: all except AppliedWorks whose Work no longer exists.
pub fn remaining_owners(
    live: &Value,
    owner: &Owner,
    is_there: impl Fn(&str) -> bool,
    co_ownership: bool,
) -> Result<Vec<Value>, TakeOverError> {
    let is_left_behind =
        |reference: &Value| is_applied_work(reference) && reference["name"].as_str().is_none_or(|name| !is_there(name));
    let remaining: Vec<Value> = owners(live).iter().filter(|reference| !is_left_behind(reference)).cloned().collect();
    if !remaining.is_empty() && !co_ownership {
        return Err(TakeOverError::OwnedByOthers { owners: Value::Array(remaining).to_string() });
    }
    if remaining.iter().any(|reference| is_applied_work(reference) && reference["uid"] != *owner.uid) {
        return Err(TakeOverError::OwnedByAnotherWork);
    }
    Ok(remaining)
}

/// The live object with other owners, otherwise unchanged. Its resourceVersion is the precondition.
pub fn with_owners(live: &Value, owners: Vec<Value>) -> Value {
    let mut object = live.clone();
    if let Some(fields) = object.as_object_mut() {
        let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let Some(metadata) = metadata.as_object_mut() {
            if owners.is_empty() {
                metadata.remove("ownerReferences");
            } else {
                metadata.insert("ownerReferences".to_owned(), Value::Array(owners));
            }
        }
    }
    object
}

/// Why an object may not be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OwnershipError {
    #[error("manifest is set to have owner references but co-ownership is disallowed")]
    ManifestHasOwners,
    #[error("an AppliedWork object is unexpectedly added as an owner in the manifest object")]
    ManifestNamesALedger,
    #[error("object is co-owned by multiple objects but co-ownership has been disallowed")]
    CoOwned,
    #[error("object is not owned by the expected AppliedWork object")]
    NotOurs,
    #[error("object is already owned by another AppliedWork object")]
    OwnedByAnotherWork,
}

/// The check before every apply. `live` is `None` for an object that does not exist yet.
pub fn may_apply(
    manifest: &Value,
    live: Option<&Value>,
    owner: &Owner,
    co_ownership: bool,
) -> Result<(), OwnershipError> {
    if !owners(manifest).is_empty() && !co_ownership {
        return Err(OwnershipError::ManifestHasOwners);
    }
    if owners(manifest).iter().any(is_applied_work) {
        return Err(OwnershipError::ManifestNamesALedger);
    }
    let Some(live) = live else { return Ok(()) };
    if owners(live).len() > 1 && !co_ownership {
        return Err(OwnershipError::CoOwned);
    }
    if !owner.owns(live) {
        return Err(OwnershipError::NotOurs);
    }
    if owners(live).iter().any(|reference| is_applied_work(reference) && !owner.is_named_by(reference)) {
        return Err(OwnershipError::OwnedByAnotherWork);
    }
    Ok(())
}

/// What happens to an object that its Work no longer contains.
#[derive(Debug, Clone, PartialEq)]
pub enum Removal {
    /// It is not ours, or is already being deleted.
    Leave,
    /// It has other owners, or we have written nothing into it but our owner reference: only that is removed.
    RemoveOwner { object: Value },
    /// It has no other owner.
    Delete { uid: String },
}

/// Deletes an object only if it has no other owner and was applied by us.
pub fn removal(live: &Value, owner: &Owner) -> Removal {
    if is_deleting(live) || !owner.owns(live) {
        return Removal::Leave;
    }
    let others: Vec<Value> = owners(live).iter().filter(|reference| !owner.is_named_by(reference)).cloned().collect();
    if !others.is_empty() || !was_applied(live) {
        return Removal::RemoveOwner { object: with_owners(live, others) };
    }
    uid_of(live).map_or(Removal::Leave, |uid| Removal::Delete { uid })
}

/// The uid of an object that the garbage collector deletes with our AppliedWork, because it has no other owner.
pub fn uid_if_garbage_collected(live: &Value, owner: &Owner) -> Option<String> {
    let ours_alone = owner.owns(live) && owners(live).iter().all(|reference| owner.is_named_by(reference));
    uid_of(live).filter(|_| ours_alone && !is_deleting(live))
}

/// Whether an object shows signs of an apply of ours: creations, patches and server-side applies all leave the hash
/// and their field manager. An object that was taken over and then only compared has neither.
fn was_applied(live: &Value) -> bool {
    let texts = live.pointer("/metadata/annotations").and_then(Value::as_object);
    let signed = [annotations::SPEC_HASH, annotations::LAST_APPLIED];
    let managers = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    texts.is_some_and(|texts| signed.iter().any(|sign| texts.contains_key(*sign)))
        || managers.into_iter().flatten().any(|entry| entry["manager"] == field_managers::WORK_APPLIER)
}

/// Whether an object is being deleted.
pub fn is_deleting(live: &Value) -> bool {
    live.pointer("/metadata/deletionTimestamp").is_some_and(|stamp| !stamp.is_null())
}

/// An object without a uid cannot be identified exactly, and is not deleted.
fn uid_of(live: &Value) -> Option<String> {
    live.pointer("/metadata/uid").and_then(Value::as_str).filter(|uid| !uid.is_empty()).map(str::to_owned)
}

/// The live object changed so that it no longer blocks the deletion of our AppliedWork, if another owner keeps it.
pub fn unblocked(live: &Value, owner: &Owner) -> Option<Value> {
    if owners(live).len() < 2 || !owner.owns(live) {
        return None;
    }
    let mut references = owners(live).to_vec();
    let ours = references.iter_mut().find(|reference| owner.is_named_by(reference))?;
    if ours["blockOwnerDeletion"] == false {
        return None;
    }
    ours["blockOwnerDeletion"] = json!(false);
    Some(with_owners(live, references))
}
