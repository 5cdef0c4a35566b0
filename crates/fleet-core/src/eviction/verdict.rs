//! The result of an eviction, from the conditions of its status.

use fleet_api::conditions::eviction::{EvictionExecuted, EvictionValid};
use fleet_api::conditions::{Condition, ConditionState, Decoded, decode, decode_ignoring_generation};
use fleet_api::kinds::ClusterResourcePlacementEviction;

/// Result of an eviction. All variants except `Pending` are final.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Pending,
    /// There is nothing to evict: the placement is missing or being deleted, or has no binding to the cluster.
    NothingToEvict {
        message: String,
    },
    /// Invalid for another reason.
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
            if is_nothing_to_evict(&message) {
                Verdict::NothingToEvict { message }
            } else {
                Verdict::Invalid { message }
            }
        }
        _ => Verdict::Pending,
    }
}

/// All rejections have the same reason; only the messages differ.
fn is_nothing_to_evict(message: &str) -> bool {
    [EvictionValid::PlacementNotFound, EvictionValid::PlacementDeleting, EvictionValid::NoBinding]
        .iter()
        .any(|state| state.message() == message)
}
