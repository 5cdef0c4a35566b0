//! What came of an eviction, read from its status.
//!
//! Decides what the conditions mean to whoever waits for them, be it a controller, a drain or a person. Never decides what
//! comes of one.

use fleet_api::conditions::eviction::{EvictionExecuted, EvictionValid};
use fleet_api::conditions::{Condition, ConditionState, Decoded, decode, decode_ignoring_generation};
use fleet_api::kinds::ClusterResourcePlacementEviction;

/// How far an eviction got. All but the first are final.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Pending,
    /// There is nothing to take off the cluster: no placement, one that is being deleted anyway, or none of its bindings.
    NothingThere {
        message: String,
    },
    /// It makes no sense for another reason.
    Invalid {
        message: String,
    },
    Blocked {
        message: String,
    },
    Executed {
        message: String,
    },
}

pub fn verdict(eviction: &ClusterResourcePlacementEviction) -> Verdict {
    let conditions = eviction.status.as_ref().map_or(&[][..], |status| &status.conditions);
    of(conditions, eviction.generation())
}

pub(super) fn of(conditions: &[Condition], generation: i64) -> Verdict {
    let executed = decode_ignoring_generation::<EvictionExecuted>(conditions);
    if let Some(condition) = executed.any() {
        let message = condition.message.clone();
        return if executed.is_true() { Verdict::Executed { message } } else { Verdict::Blocked { message } };
    }
    match decode::<EvictionValid>(conditions, generation) {
        decoded @ (Decoded::Known(_, condition) | Decoded::Unrecognised(condition)) if decoded.is_false() => {
            let message = condition.message.clone();
            if says_nothing_is_there(&message) {
                Verdict::NothingThere { message }
            } else {
                Verdict::Invalid { message }
            }
        }
        _ => Verdict::Pending,
    }
}

/// All refusals have one reason; only their messages differ.
fn says_nothing_is_there(message: &str) -> bool {
    [EvictionValid::PlacementNotFound, EvictionValid::PlacementDeleting, EvictionValid::NoBinding]
        .iter()
        .any(|state| state.message() == message)
}
