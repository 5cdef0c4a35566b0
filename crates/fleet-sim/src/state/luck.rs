//! What of an object is luck: in what two worlds that were asked for the same may differ.
//!
//! Decides what is taken out of an object, or replaced by a word, before two worlds are compared. What remains must be equal.
//! Each exclusion says why it is luck and what would still be noticed, and has a test for both. Never reads a server.
//!
//! | file | luck |
//! |---|---|
//! | `identity` | instants, uids, revisions, random suffixes of names |
//! | `generations` | how many writes it took to get an object where it is |
//! | `order` | who of several comes first |
//! | `relics` | what was so when somebody last looked, and nobody looks again |
//! | `counts` | how many versions of content there were, in a hurried story |
//! | `storms` | what only an agent that dies may say |

mod counts;
mod generations;
mod identity;
mod order;
mod relics;
mod storms;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

pub(super) use counts::without_counts;
pub use relics::CLIENT_SIDE_APPLY;
pub(super) use storms::excuse;

/// What a story leaves to luck, and what was told while it went on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leeway {
    /// Whether content changes so quickly that it is luck how many versions of it there are.
    pub hurried: bool,
    /// Who left the fleet at some time.
    pub left: BTreeSet<String>,
    /// Runs during whose life somebody left.
    pub left_behind: BTreeSet<String>,
    /// Runs that were stopped or resumed on their way.
    pub hasty_runs: BTreeSet<String>,
    /// How a Work was last to be applied, by member and name.
    pub strategies: BTreeMap<String, Strategies>,
}

/// Types of apply strategies, by the names of Works.
pub type Strategies = BTreeMap<String, String>;

/// Takes everything out of an object on the hub that is luck.
pub(super) fn normalise(object: &mut Value, leeway: &Leeway) {
    relics::forget_old_explanations(object, &leeway.left);
    order::forget_who_came_first(object, leeway);
    order::sort_clusters(object);
    generations::judge(object, leeway);
    relics::forget_what_was_so_before_it_was_unbound(object);
    relics::forget_that_it_was_given_up(object, &leeway.left);
    identity::forget(object);
}

/// The same for an object on a member: what the member's own controllers say of it is luck too.
pub(super) fn normalise_on_member(object: &mut Value, told: &Strategies, leeway: &Leeway) {
    relics::forget_what_controllers_say(object);
    relics::forget_relic_of_client_side_apply(object, told);
    generations::forget_on_member(object, leeway);
    identity::forget(object);
}

/// Goes through a value and all that is in it, from the outside.
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

    /// An object as it is compared.
    pub(super) fn compared(mut object: Value) -> String {
        normalise(&mut object, &Leeway::default());
        object.to_string()
    }

    pub(super) fn compared_with(mut object: Value, leeway: &Leeway) -> String {
        normalise(&mut object, leeway);
        object.to_string()
    }

    pub(super) fn compared_on_member(mut object: Value, told: &Strategies, leeway: &Leeway) -> String {
        normalise_on_member(&mut object, told, leeway);
        object.to_string()
    }
}
