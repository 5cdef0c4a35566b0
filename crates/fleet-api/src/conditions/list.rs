//! Reading and writing conditions in an object's list.
//!
//! Decides whether a condition is current and what it means, and how a new finding enters a list. Never decides what
//! was found.

use jiff::Timestamp;

use super::{Condition, ConditionState, ConditionStatus, Finding, Reason};
use crate::time::Time;

/// What a list says about one condition type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded<'a, R> {
    Absent,
    /// Found on another generation of the object: says nothing about this one.
    Stale(&'a Condition),
    Known(R, &'a Condition),
    /// Current, but with a reason that this release does not know or that a user was free to choose.
    Unrecognised(&'a Condition),
}

impl<'a, R: Reason> Decoded<'a, R> {
    /// The condition, if it is about the current generation.
    pub fn current(&self) -> Option<&'a Condition> {
        match *self {
            Self::Known(_, condition) | Self::Unrecognised(condition) => Some(condition),
            Self::Absent | Self::Stale(_) => None,
        }
    }

    /// The condition, be it current or not.
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

    /// The status for the current generation: absent and stale conditions decide nothing.
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

/// What `conditions` say about `T` for the object's `generation`.
pub fn decode<T: ConditionState<Scope = ()>>(conditions: &[Condition], generation: i64) -> Decoded<'_, T::Reason> {
    decode_in::<T>((), conditions, generation)
}

/// As `decode`, for types whose spelling depends on the scope.
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

/// As `decode`, where the generation means something else than the object that carries the condition, as in a Work's
/// manifests (generation of the live object), or where a verdict stands whatever comes after it. Never gives `Stale`.
pub fn decode_ignoring_generation<T: ConditionState<Scope = ()>>(conditions: &[Condition]) -> Decoded<'_, T::Reason> {
    meaning_of(find(conditions, T::type_word(())))
}

/// Writes a finding into the list, in the place of an older one of its type or else at the end. The transition time
/// moves only when the status changes: timed waits are counted from it. Says whether anything changed.
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

/// Takes every condition of this type out of the list. Says whether there was one.
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
