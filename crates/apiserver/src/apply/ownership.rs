//! How a write changes field owners: which fields managers lose, which fields an apply removes, and which conflicts it
//! has.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Reset;
use super::fieldset::FieldSet;
use super::managed::{Entry, Managed, Manager};
use super::merge::merge;
use super::remove::{Emptied, fitted, remove_fields, with_parents};
use super::typed::{Comparison, compare, fields_of};
use super::types::Type;

/// The fields on which an applier disagrees with others, by the identity of the other.
pub(super) type Conflicts<'a> = BTreeMap<String, FieldSet<'a>>;

/// Fits the stored sets to a schema that has since made something atomic.
pub(super) fn fit_to_schema<'a>(ty: Type<'a>, managed: &mut Managed<'a>) {
    for entry in managed.entries.values_mut() {
        if let Some(set) = fitted(ty, entry.set()) {
            entry.replace_set(set);
        }
    }
}

/// The comparison of two objects without the fields that this endpoint never changes.
pub(super) fn relevant_changes<'a>(ty: Type<'a>, old: &'a Value, new: &'a Value, reset: &Reset) -> Comparison<'a> {
    let all = compare(ty, old, new);
    Comparison {
        removed: reset.filter(all.removed),
        modified: reset.filter(all.modified),
        added: reset.filter(all.added),
    }
}

/// Takes from every other manager what the write has set or removed.
pub(super) fn disown<'a>(managed: &mut Managed<'a>, changes: &Comparison<'a>, writer: Option<&str>) {
    if changes.is_empty() {
        managed.drop_empty();
        return;
    }
    let gone = changes.written().union(&changes.removed);
    for (identity, entry) in &mut managed.entries {
        if writer != Some(identity) {
            entry.replace_set(entry.set().difference(&gone));
        }
    }
    managed.drop_empty();
}

/// The fields that others own and the write would change.
pub(super) fn conflicts<'a>(managed: &Managed<'a>, changes: &Comparison<'a>, writer: &str) -> Conflicts<'a> {
    let written = changes.written();
    let mut out = Conflicts::new();
    if written.is_empty() {
        return out;
    }
    for (identity, entry) in &managed.entries {
        let contested = entry.set().intersection(&written);
        if identity != writer && !contested.is_empty() {
            out.insert(identity.clone(), contested);
        }
    }
    out
}

/// The live object with the configuration laid over it, and without what this applier applied before, does not apply
/// now, and that have no other owner.
pub(super) fn merged_object<'a>(
    ty: Type<'a>,
    live: &'a Value,
    applied: &'a Value,
    set: &FieldSet<'a>,
    managed: &Managed<'a>,
    writer: &Manager<'a>,
) -> Value {
    let mut merged = merge(ty, live, applied);
    let identity = writer.identity();
    if let Some(last) = managed.entries.get(&identity).map(Entry::set)
        && !last.difference(set).is_empty()
    {
        let others = managed.entries.iter().filter(|(other, _)| **other != identity);
        let owned = others.fold(set.clone(), |owned, (_, entry)| owned.union(entry.set()));
        let gone = fields_to_prune(ty, &merged, last, &owned);
        remove_fields(ty, &mut merged, &gone, Emptied::Stays);
        // What was emptied and is applied as empty or null is that at once, so that applying again changes nothing.
        merged = merge(ty, &merged, applied);
    }
    merged
}

/// Fields of `merged` that only the last configuration of the applier held.
fn fields_to_prune<'m>(
    ty: Type<'m>,
    merged: &'m Value,
    last: &FieldSet<'m>,
    owned: &FieldSet<'m>,
) -> FieldSet<'static> {
    let last = with_parents(ty, last);
    let present = with_parents(ty, &fields_of(ty, merged));
    let without = |gone: &FieldSet<'_>| {
        let mut rest = merged.clone();
        remove_fields(ty, &mut rest, gone, Emptied::Null);
        rest
    };
    // Taking all of the last configuration away shows which fields stay for their own sake, …
    let bare = without(&last);
    let unrelated = with_parents(ty, &fields_of(ty, &bare));
    // … those and the owned ones are put back with everything that holds them, …
    let keep = unrelated.union(&with_parents(ty, owned));
    let kept = without(&present.difference(&keep));
    let kept = with_parents(ty, &fields_of(ty, &kept));
    // … and of the rest only what this applier had applied may go.
    present.difference(&kept).intersection(&last).into_owned()
}
