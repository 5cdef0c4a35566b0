//! Reads and writes conditions in an object's list.

use jiff::Timestamp;

use super::{Condition, ConditionState, ConditionStatus, Finding, Reason};
use crate::time::Time;

/// The state of one condition type in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded<'a, R> {
    Absent,
    /// Of another generation of the object: says nothing about the current one.
    Stale(&'a Condition),
    Known(R, &'a Condition),
    /// Current, but with a reason that this release does not know or that a user chose.
    Unrecognised(&'a Condition),
}

impl<'a, R: Reason> Decoded<'a, R> {
    /// The condition, if it belongs to the current generation.
    pub fn current(&self) -> Option<&'a Condition> {
        match *self {
            Self::Known(_, condition) | Self::Unrecognised(condition) => Some(condition),
            Self::Absent | Self::Stale(_) => None,
        }
    }

    /// The condition, whether current or not.
    pub fn any(&self) -> Option<&'a Condition> {
        match *self {
            Self::Known(_, condition) | Self::Unrecognised(condition) | Self::Stale(condition) => Some(condition),
            Self::Absent => None,
        }
    }

    /// The reason, if the condition is current and the reason known.
    pub fn reason(&self) -> Option<R> {
        match *self {
            Self::Known(reason, _) => Some(reason),
            Self::Absent | Self::Stale(_) | Self::Unrecognised(_) => None,
        }
    }

    /// The status for the current generation: absent and stale conditions are Unknown.
    pub fn status(&self) -> ConditionStatus {
        self.current().map_or(ConditionStatus::Unknown, |condition| condition.status)
    }

    pub fn is_true(&self) -> bool {
        self.status() == ConditionStatus::True
    }

    pub fn is_false(&self) -> bool {
        self.status() == ConditionStatus::False
    }
}

/// The state of `T` in `conditions` for the object's `generation`.
pub fn decode<T: ConditionState<Scope = ()>>(conditions: &[Condition], generation: i64) -> Decoded<'_, T::Reason> {
    decode_in::<T>((), conditions, generation)
}

/// As `decode`, for types whose name depends on the scope.
pub fn decode_in<T: ConditionState>(
    scope: T::Scope,
    conditions: &[Condition],
    generation: i64,
) -> Decoded<'_, T::Reason> {
    match find(conditions, T::type_word(scope)) {
        Some(condition) if condition.observed_generation != generation => Decoded::Stale(condition),
        found => meaning_of(found),
    }
}

/// As `decode`, if the generation is not that of the object with the condition, as in a Work's manifests (generation
/// of the live object), or if a verdict stays valid afterwards. Never returns `Stale`.
pub fn decode_ignoring_generation<T: ConditionState<Scope = ()>>(conditions: &[Condition]) -> Decoded<'_, T::Reason> {
    meaning_of(find(conditions, T::type_word(())))
}

/// Writes a finding into the list: replaces one of the same type, or appends. The transition time changes only with
/// the status, because timed waits count from it. Returns whether anything changed.
pub fn put(conditions: &mut Vec<Condition>, finding: Finding, now: Timestamp) -> bool {
    let old = conditions.iter_mut().find(|condition| condition.type_ == finding.type_);
    let last_transition_time = match &old {
        Some(old) if old.status == finding.status => old.last_transition_time,
        _ => Time::new(now),
    };
    let new = Condition {
        type_: finding.type_.into_owned(),
        status: finding.status,
        observed_generation: finding.observed_generation,
        last_transition_time,
        reason: finding.reason.into_owned(),
        message: finding.message,
    };
    match old {
        Some(old) if *old == new => false,
        Some(old) => {
            *old = new;
            true
        }
        None => {
            conditions.push(new);
            true
        }
    }
}

/// Removes all conditions of this type. Returns whether there was one.
pub fn remove(conditions: &mut Vec<Condition>, type_word: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_word);
    conditions.len() != before
}

pub(super) fn find<'a>(conditions: &'a [Condition], type_word: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_word)
}

fn meaning_of<R: Reason>(found: Option<&Condition>) -> Decoded<'_, R> {
    let Some(condition) = found else { return Decoded::Absent };
    match R::recognise(condition.status, &condition.reason) {
        Some(reason) => Decoded::Known(reason, condition),
        None => Decoded::Unrecognised(condition),
    }
}
