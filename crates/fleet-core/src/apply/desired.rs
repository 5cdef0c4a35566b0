//! The request that changes the live object to match its manifest: creation, three-way merge or server-side apply.

use fleet_api::types::{ApplyStrategy, ApplyStrategyType, WhenToApply};
use fleet_api::well_known::field_managers;
use serde_json::{Map, Value, json};

use super::last_applied::{self, LastApplied};
use super::manifest_hash;
use super::merge::{self, MergeFailure, Patch};
use super::ownership::{Owner, owners};
use super::sanitize::sanitized;

/// How the object is written.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    Create(Value),
    Patch(Patch),
    /// Server-side apply.
    Apply {
        body: Value,
        force: bool,
    },
    /// The live object already matches.
    Nothing,
}

/// The request that leads from the live object to the manifest. An object without a difference is not written.
pub fn operation(
    manifest: &Value,
    live: Option<&Value>,
    strategy: &ApplyStrategy,
    owner: &Owner,
) -> Result<Operation, MergeFailure> {
    let mut wanted = sanitized(manifest);
    manifest_hash::stamp(&mut wanted, manifest_hash::of_manifest(manifest));
    set_metadata(&mut wanted, "ownerReferences", json!([owner.reference()]));
    let merges_here = strategy.strategy_type() == ApplyStrategyType::ClientSideApply
        && last_applied::store(&mut wanted) == LastApplied::Stored;
    let Some(live) = live else { return Ok(Operation::Create(wanted)) };
    let locked = strategy.when_to_apply() == WhenToApply::IfNotDrifted;
    let version = live.pointer("/metadata/resourceVersion").filter(|_| locked);
    if merges_here {
        return merged(wanted, live, owner, version);
    }
    if let Some(version) = version {
        set_metadata(&mut wanted, "resourceVersion", version.clone());
    }
    // As in a patch, the uid makes the request fail for another object of the same name.
    if let Some(uid) = live.pointer("/metadata/uid") {
        set_metadata(&mut wanted, "uid", uid.clone());
    }
    let asked = strategy.strategy_type() == ApplyStrategyType::ServerSideApply && strategy.force();
    Ok(Operation::Apply { body: wanted, force: asked || is_managed_by_us_alone(live) })
}

fn merged(mut wanted: Value, live: &Value, owner: &Owner, version: Option<&Value>) -> Result<Operation, MergeFailure> {
    // Other owners stay, also where lists are replaced as a whole. Whether they are allowed was checked before.
    let all = owners(live).iter().map(|reference| {
        let is_ours = reference["uid"] == *owner.uid;
        if is_ours { owner.reference() } else { reference.clone() }
    });
    let all: Vec<Value> = all.collect();
    set_metadata(&mut wanted, "ownerReferences", Value::Array(all));
    let patch = merge::three_way(&last_applied::of_live(live), &wanted, live)?;
    if patch.is_empty() {
        return Ok(Operation::Nothing);
    }
    let uid = live.pointer("/metadata/uid").and_then(Value::as_str);
    Ok(Operation::Patch(patch.meant_for(uid, version.and_then(Value::as_str))))
}

/// The field manager of fields that existed before the first server-side apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Whether a conflict could only be with ourselves: our creation and our applies have different field managers.
fn is_managed_by_us_alone(live: &Value) -> bool {
    let managers = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    let ours = |entry: &Value| {
        let manager = entry["manager"].as_str().unwrap_or_default();
        manager == field_managers::WORK_APPLIER || manager == BEFORE_FIRST_APPLY
    };
    managers.is_none_or(|managers| managers.iter().all(ours))
}

fn set_metadata(object: &mut Value, field: &str, value: Value) {
    let Some(fields) = object.as_object_mut() else { return };
    let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert(field.to_owned(), value);
    }
}
