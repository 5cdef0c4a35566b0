//! Removes nondeterministic fields from objects: fields that may differ between two runs of one scenario although both
//! are correct.
//!
//! All other fields must be equal. Each exclusion states why the field is nondeterministic, and a test shows which
//! differences are still found.
//!
//! | file | fields |
//! |---|---|
//! | `identity` | times, uids, resourceVersions, random suffixes of names |
//! | `generations` | the number of writes of an object |
//! | `order` | the order of lists, and the first of several objects that a message names |
//! | `stale_fields` | status fields that no controller refreshes any more |
//! | `snapshot_counts` | the number of snapshots, if changes of content overlap |

mod generations;
mod identity;
mod order;
mod snapshot_counts;
mod stale_fields;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

pub(super) use snapshot_counts::remove_snapshot_counts;
pub use stale_fields::{CLIENT_SIDE_APPLY, FORGED_CONDITION, FORGED_REASON};

/// Which differences a scenario allows, and what happened while it ran.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tolerance {
    /// Whether changes of content overlap, so that the number of snapshots is nondeterministic.
    pub overlapping_changes: bool,
    /// Members that left at some time.
    pub left_members: BTreeSet<String>,
    /// Runs that existed while a member left.
    pub runs_with_leaves: BTreeSet<String>,
    /// Runs that were stopped or resumed while they updated clusters.
    pub interrupted_runs: BTreeSet<String>,
    /// Whether the hub's server is restored from a backup in the run with faults.
    pub hub_is_restored: bool,
    /// The last apply strategy of each Work, by member.
    pub strategies: BTreeMap<String, Strategies>,
}

/// Types of apply strategies by the name of the Work.
pub type Strategies = BTreeMap<String, String>;

/// Removes nondeterministic fields from an object of the hub.
pub(super) fn normalize(object: &mut Value, tolerance: &Tolerance) {
    order::remove_names_of_first(object, tolerance);
    order::sort_lists(object);
    generations::normalize(object, tolerance);
    stale_fields::remove_outdated_conditions_of_bindings(object);
    stale_fields::remove_previous_binding_state(object, &tolerance.left_members);
    stale_fields::remove_stop_of_resumed_stages(object, &tolerance.interrupted_runs);
    stale_fields::remove_forged_conditions(object);
    stale_fields::remove_usable_properties_condition(object);
    identity::mask(object);
}

/// Removes nondeterministic fields from an object of a member, including the status that the member's controllers
/// write.
pub(super) fn normalize_on_member(object: &mut Value, strategies: &Strategies, tolerance: &Tolerance) {
    stale_fields::remove_status_of_controllers(object);
    stale_fields::remove_recorded_deletions(object);
    stale_fields::remove_outdated_last_applied(object, strategies);
    generations::normalize_on_member(object, tolerance);
    identity::mask(object);
}

/// Calls `change` for every JSON object in a value, parents first.
fn each_object(value: &mut Value, change: &mut dyn FnMut(&mut serde_json::Map<String, Value>)) {
    match value {
        Value::Object(map) => {
            change(map);
            map.values_mut().for_each(|inner| each_object(inner, change));
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| each_object(inner, change)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of an object that is compared.
    pub(super) fn compared(mut object: Value) -> String {
        normalize(&mut object, &Tolerance::default());
        object.to_string()
    }

    pub(super) fn compared_with(mut object: Value, tolerance: &Tolerance) -> String {
        normalize(&mut object, tolerance);
        object.to_string()
    }

    pub(super) fn compared_on_member(mut object: Value, strategies: &Strategies, tolerance: &Tolerance) -> String {
        normalize_on_member(&mut object, strategies, tolerance);
        object.to_string()
    }
}
