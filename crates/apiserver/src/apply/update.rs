//! Field owners after a create, an update or a patch other than apply. Never refuses a write: unreadable entries are
//! replaced by those of the live object.

use std::borrow::Cow;

use serde_json::Value;

use super::limits::UNKNOWN_MANAGER;
use super::managed::{Managed, Manager, Operation};
use super::meta::{managed_fields, metadata_text, never_owned, put_managed_fields, take_managed_fields};
use super::ownership::{disown, fit_to_schema, relevant_changes};
use super::types::Type;
use super::validate::validate_stored;
use super::{Target, Writer};

/// Gives `new` its managedFields: those it brings, or those of `live`, with the writer as owner of what it changed.
///
/// A client may set managedFields by hand on the main resource; `[]` or `[{}]` ends the tracking of the object until it
/// is applied. `live` is `None` on create.
pub(crate) fn track_update(target: &Target<'_>, live: Option<&Value>, new: &mut Value, writer: &Writer<'_>) {
    let given = take_managed_fields(new);
    let managed = starting_point(live, given.as_ref(), writer.subresource);
    // An object that is not tracked stays so until its first apply.
    let existed = live.is_some_and(|live| !metadata_text(live, "uid").is_empty());
    if managed.entries.is_empty() && existed {
        return;
    }
    // Nobody can own fields of an object that its schema cannot read. Built-in kinds have been read already.
    let fits = |object: &Value| validate_stored(Type::root(target.schema), object).is_ok();
    if target.blank.is_none() && !(fits(new) && live.is_none_or(|live| fits(&without_owners(live)))) {
        return;
    }
    let nothing = Value::Object(serde_json::Map::new());
    let before = live.or(target.blank).unwrap_or(&nothing);
    let list = updated(target, managed, before, new, writer).to_value();
    put_managed_fields(new, list);
}

fn without_owners(object: &Value) -> Value {
    let mut object = object.clone();
    take_managed_fields(&mut object);
    object
}

/// The owners after `after` was written over `before`.
pub(super) fn updated<'a>(
    target: &Target<'a>,
    mut managed: Managed<'a>,
    before: &'a Value,
    after: &'a Value,
    writer: &Writer<'a>,
) -> Managed<'a> {
    let ty = Type::root(target.schema);
    fit_to_schema(ty, &mut managed);
    let changes = relevant_changes(ty, before, after, target.reset);
    disown(&mut managed, &changes, None);
    let set = changes.written().difference(never_owned());
    if !set.is_empty() {
        managed.add(manager_of(writer, Operation::Update), set, writer.now);
    }
    managed.cap_updaters();
    managed
}

pub(super) fn manager_of<'a>(writer: &Writer<'a>, operation: Operation) -> Manager<'a> {
    let name = if writer.manager.is_empty() { UNKNOWN_MANAGER } else { writer.manager };
    Manager {
        name: Cow::Borrowed(name),
        operation,
        api_version: Cow::Borrowed(writer.api_version),
        subresource: Cow::Borrowed(writer.subresource),
    }
}

/// The entries to go on from.
fn starting_point<'a>(live: Option<&'a Value>, given: Option<&'a Value>, subresource: &str) -> Managed<'a> {
    let stored = live.and_then(managed_fields);
    // Clients that know nothing of managedFields drop them, and subresources never take them from the request.
    if subresource.is_empty() {
        if given.is_some_and(is_reset) {
            return Managed::default();
        }
        if let Ok(managed) = Managed::read(given, given == stored)
            && !managed.entries.is_empty()
        {
            return managed;
        }
    }
    Managed::read(stored, true).unwrap_or_default()
}

/// Whether a list says "forget the owners".
fn is_reset(list: &Value) -> bool {
    match list.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(entry)]) => entry.values().all(|value| value.is_null() || value == ""),
        _ => false,
    }
}
