//! PATCH with server-side apply: the resulting object, its field owners, and the errors of apply itself.

use serde_json::Value;

use super::conflict::conflict_error;
use super::last_applied::{keep_in_step, unexplained};
use super::limits::{BEFORE_FIRST_APPLY, KUBECTL};
use super::managed::{Entry, Managed, Operation};
use super::meta::{
    managed_fields, metadata_text, never_owned, put_managed_fields, take_managed_fields, validate_manager_name,
};
use super::ownership::{Conflicts, conflicts, disown, fit_to_schema, merged_object, relevant_changes};
use super::typed::fields_of;
use super::types::Type;
use super::update::{manager_of, updated};
use super::validate::{validate, validate_stored};
use super::{Target, Writer, element};
use crate::error::ApiError;
use crate::field::FieldError;

/// The live object (`None`: there is none yet) after the configuration was applied, with its managedFields.
///
/// `force` takes fields from other managers instead of refusing. When nothing changes the result equals `live`.
pub(crate) fn apply(
    target: &Target<'_>,
    live: Option<&Value>,
    applied: &Value,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, ApiError> {
    check_request(target, applied, writer)?;
    check_live(target, live, writer)?;
    let nothing = Value::Object(serde_json::Map::new());
    let blank = target.blank.unwrap_or(&nothing);
    let base = Base { live: live.unwrap_or(blank), exists: live.is_some(), blank };
    let mut object = match attempt(target, &base, applied, writer, force)? {
        PatchResult::Done(object) => object,
        PatchResult::Contested { conflicts, error } => {
            if writer.manager != KUBECTL {
                return Err(error);
            }
            let ty = Type::root(target.schema);
            match unexplained(ty, base.live, writer.api_version, &conflicts) {
                None => return Err(error),
                Some(rest) => retried(target, &base, applied, writer, &rest)?,
            }
        }
    };
    if writer.manager == KUBECTL {
        keep_in_step(&mut object, applied);
    }
    Ok(object)
}

/// The object that is applied to.
struct Base<'a> {
    live: &'a Value,
    exists: bool,
    blank: &'a Value,
}

enum PatchResult {
    Done(Value),
    Contested { conflicts: Conflicts<'static>, error: ApiError },
}

/// A second attempt by kubectl: by force if its own client-side past explains all conflicts, else it names the rest.
fn retried(
    target: &Target<'_>,
    base: &Base<'_>,
    applied: &Value,
    writer: &Writer<'_>,
    rest: &Conflicts<'_>,
) -> Result<Value, ApiError> {
    if !rest.is_empty() {
        return Err(conflict_error(rest, &owners_before(target, base, writer)?));
    }
    match attempt(target, base, applied, writer, true)? {
        PatchResult::Done(object) => Ok(object),
        PatchResult::Contested { error, .. } => Err(error),
    }
}

fn check_request(target: &Target<'_>, applied: &Value, writer: &Writer<'_>) -> Result<(), ApiError> {
    let mut findings = validate_manager_name(writer.manager, "fieldManager");
    if writer.manager.is_empty() {
        findings.push(FieldError::required("fieldManager", "is required for apply patch"));
    }
    if !findings.is_empty() {
        return Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", &findings));
    }
    let text = |name: &str| applied.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("apiVersion") != writer.api_version || text("kind") != target.kind {
        return Err(ApiError::bad_request(format!(
            "invalid object type: {}",
            printed_kind(text("apiVersion"), text("kind"))
        )));
    }
    if managed_fields(applied).is_some_and(Value::is_array) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    validate(Type::root(target.schema), applied).map_err(|why| {
        let (namespace, name) = (metadata_text(applied, "namespace"), metadata_text(applied, "name"));
        let kind = printed_kind(text("apiVersion"), text("kind"));
        ApiError::unclassified(format!("failed to create typed patch object ({namespace}/{name}; {kind}): {why}"))
    })
}

/// An object that was stored before its schema changed may not fit that any more; nothing can be applied to it then.
/// Built-in kinds do not change.
fn check_live(target: &Target<'_>, live: Option<&Value>, writer: &Writer<'_>) -> Result<(), ApiError> {
    let Some(live) = live.filter(|_| target.blank.is_none()) else { return Ok(()) };
    let mut tracked = live.clone();
    take_managed_fields(&mut tracked);
    validate_stored(Type::root(target.schema), &tracked).map_err(|why| {
        let (namespace, name) = (metadata_text(live, "namespace"), metadata_text(live, "name"));
        let kind = printed_kind(writer.api_version, target.kind);
        ApiError::unclassified(format!("failed to create typed live object ({namespace}/{name}; {kind}): {why}"))
    })
}

/// Group, version and kind as Go prints them: the core group leaves its slash behind.
fn printed_kind(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

/// The field owners of the live object. If they were never tracked, a placeholder for past writers owns everything.
fn owners_before<'a>(target: &Target<'a>, base: &Base<'a>, writer: &Writer<'a>) -> Result<Managed<'a>, ApiError> {
    let managed = Managed::read(managed_fields(base.live), true)
        .map_err(|why| ApiError::unclassified(format!("failed to decode managed fields: {why}")))?;
    if !managed.entries.is_empty() || !base.exists {
        return Ok(managed);
    }
    let past = Writer { manager: BEFORE_FIRST_APPLY, ..*writer };
    Ok(updated(target, managed, base.blank, base.live, &past))
}

fn attempt(
    target: &Target<'_>,
    base: &Base<'_>,
    applied: &Value,
    writer: &Writer<'_>,
    force: bool,
) -> Result<PatchResult, ApiError> {
    let ty = Type::root(target.schema);
    let mut managed = owners_before(target, base, writer)?;
    fit_to_schema(ty, &mut managed);
    let own_manager = manager_of(writer, Operation::Apply);
    let identity = own_manager.identity();
    let set = target.reset.filter(fields_of(ty, applied));
    let mut merged = merged_object(ty, base.live, applied, &set, &managed, &own_manager);

    let changes = relevant_changes(ty, base.live, &merged, target.reset);
    let contested = conflicts(&managed, &changes, &identity);
    if !force && !contested.is_empty() {
        let error = conflict_error(&contested, &managed);
        let conflicts = contested.into_iter().map(|(identity, set)| (identity, set.into_owned())).collect();
        return Ok(PatchResult::Contested { conflicts, error });
    }
    disown(&mut managed, &changes, Some(&identity));
    let unchanged = base.exists && element::equal(base.live, &merged);
    let own = set.difference(never_owned());
    let known = managed.entries.remove(&identity);
    if !own.is_empty() {
        let last_time = known.as_ref().and_then(|entry| entry.time);
        let mut entry = known.unwrap_or_else(|| Entry::new(own_manager.clone(), own.clone(), None));
        entry.manager = own_manager;
        entry.time = if unchanged { last_time } else { Some(writer.now) };
        entry.replace_set(own);
        managed.entries.insert(identity, entry);
    }
    let list = managed.to_value();
    drop(managed);
    if unchanged {
        merged.clone_from(base.live);
    }
    take_managed_fields(&mut merged);
    put_managed_fields(&mut merged, list);
    Ok(PatchResult::Done(merged))
}
