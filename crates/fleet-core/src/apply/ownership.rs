//! Whose an object on the member is, and whether it may become or stay ours.
//!
//! Decides from owner references, and from what an object bears of our applies. An object is ours when it names our
//! AppliedWork, by kind, name and uid; what is not ours is never written to and never deleted.

use std::collections::BTreeSet;

use fleet_api::kinds::AppliedWork;
use fleet_api::well_known::{annotations, field_managers};
use kube_names::{API_VERSION, KIND};
use serde_json::{Map, Value, json};

/// How owner references spell the AppliedWork kind.
mod kube_names {
    pub(super) const KIND: &str = "AppliedWork";
    pub(super) const API_VERSION: &str = "placement.kubernetes-fleet.io/v1beta1";
}

/// The AppliedWork that owns what a Work places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub name: String,
    pub uid: String,
}

impl Owner {
    /// `None` for one that no server has stored: it has no uid, and ownership without one would be nobody's.
    pub fn of(ledger: &AppliedWork) -> Option<Self> {
        let (name, uid) = (ledger.metadata.name.clone()?, ledger.metadata.uid.clone()?);
        Some(Self { name, uid }).filter(|owner| !owner.uid.is_empty())
    }

    /// The reference that makes an object ours.
    pub fn reference(&self) -> Value {
        json!({
            "apiVersion": API_VERSION, "kind": KIND, "name": self.name, "uid": self.uid, "blockOwnerDeletion": true,
        })
    }

    fn is_named_by(&self, reference: &Value) -> bool {
        is_ledger(reference) && reference["name"] == *self.name && reference["uid"] == *self.uid
    }

    /// Whether an object names us as an owner.
    pub fn owns(&self, object: &Value) -> bool {
        owners(object).iter().any(|reference| self.is_named_by(reference))
    }
}

/// An object's owner references.
pub fn owners(object: &Value) -> &[Value] {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn is_ledger(reference: &Value) -> bool {
    reference["kind"] == KIND && reference["apiVersion"] == API_VERSION
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

/// The Works whose AppliedWorks own an object, as far as they are not among those that are known to be there.
pub fn works_in_doubt(live: &Value, works: &BTreeSet<String>) -> BTreeSet<String> {
    let names = owners(live).iter().filter(|reference| is_ledger(reference)).filter_map(|one| one["name"].as_str());
    names.filter(|name| !name.is_empty() && !works.contains(*name)).map(str::to_owned).collect()
}

/// The owners that an object keeps when it becomes ours: all but AppliedWorks whose Work is no longer there.
pub fn remaining_owners(
    live: &Value,
    owner: &Owner,
    is_there: impl Fn(&str) -> bool,
    co_ownership: bool,
) -> Result<Vec<Value>, TakeOverError> {
    let is_left_behind =
        |reference: &Value| is_ledger(reference) && reference["name"].as_str().is_none_or(|name| !is_there(name));
    let remaining: Vec<Value> = owners(live).iter().filter(|reference| !is_left_behind(reference)).cloned().collect();
    if !remaining.is_empty() && !co_ownership {
        return Err(TakeOverError::OwnedByOthers { owners: Value::Array(remaining).to_string() });
    }
    if remaining.iter().any(|reference| is_ledger(reference) && reference["uid"] != *owner.uid) {
        return Err(TakeOverError::OwnedByAnotherWork);
    }
    Ok(remaining)
}

/// The live object with other owners, and nothing else changed. Its resourceVersion is the precondition.
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

/// Why an object may not be applied to.
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

/// What must hold before every apply. `live` is `None` for an object that is yet to be made.
pub fn may_apply(
    manifest: &Value,
    live: Option<&Value>,
    owner: &Owner,
    co_ownership: bool,
) -> Result<(), OwnershipError> {
    if !owners(manifest).is_empty() && !co_ownership {
        return Err(OwnershipError::ManifestHasOwners);
    }
    if owners(manifest).iter().any(is_ledger) {
        return Err(OwnershipError::ManifestNamesALedger);
    }
    let Some(live) = live else { return Ok(()) };
    if owners(live).len() > 1 && !co_ownership {
        return Err(OwnershipError::CoOwned);
    }
    if !owner.owns(live) {
        return Err(OwnershipError::NotOurs);
    }
    if owners(live).iter().any(|reference| is_ledger(reference) && !owner.is_named_by(reference)) {
        return Err(OwnershipError::OwnedByAnotherWork);
    }
    Ok(())
}

/// What becomes of an object that its Work no longer names.
#[derive(Debug, Clone, PartialEq)]
pub enum Removal {
    /// It is not ours, or goes already.
    Leave,
    /// Others own it too, or we have never written anything but ourselves as an owner into it: only our reference goes.
    LetGo { object: Value },
    /// Nobody else owns it.
    Delete { uid: String },
}

/// Decides whether an object that a Work no longer names is deleted: only if it is ours alone, and was applied by us.
pub fn removal(live: &Value, owner: &Owner) -> Removal {
    if is_going(live) || !owner.owns(live) {
        return Removal::Leave;
    }
    let others: Vec<Value> = owners(live).iter().filter(|reference| !owner.is_named_by(reference)).cloned().collect();
    if !others.is_empty() || !was_applied(live) {
        return Removal::LetGo { object: with_owners(live, others) };
    }
    uid_of(live).map_or(Removal::Leave, |uid| Removal::Delete { uid })
}

/// The uid of an object that the garbage collector deletes when our ledger goes: nobody else owns it.
pub fn falls_with_ledger(live: &Value, owner: &Owner) -> Option<String> {
    let ours_alone = owner.owns(live) && owners(live).iter().all(|reference| owner.is_named_by(reference));
    uid_of(live).filter(|_| ours_alone && !is_going(live))
}

/// Whether an object bears a sign of an apply of ours: creations, patches and server-side applies all leave the hash and
/// their manager's name. What was taken over and then only compared bears neither.
fn was_applied(live: &Value) -> bool {
    let texts = live.pointer("/metadata/annotations").and_then(Value::as_object);
    let signed = [annotations::SPEC_HASH, annotations::LAST_APPLIED];
    let managers = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    texts.is_some_and(|texts| signed.iter().any(|sign| texts.contains_key(*sign)))
        || managers.into_iter().flatten().any(|entry| entry["manager"] == field_managers::WORK_APPLIER)
}

fn is_going(live: &Value) -> bool {
    live.pointer("/metadata/deletionTimestamp").is_some_and(|stamp| !stamp.is_null())
}

/// What cannot be named exactly has none, and is not deleted.
fn uid_of(live: &Value) -> Option<String> {
    live.pointer("/metadata/uid").and_then(Value::as_str).filter(|uid| !uid.is_empty()).map(str::to_owned)
}

/// A live object that does not block the deletion of our AppliedWork any more, if it is one that another owner keeps.
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
