//! Which Works the server understood and did not take.
//!
//! Decides how long a refusal stands: until the binding asks for something else, or for a while, because who refuses may
//! change their mind (a quota, a webhook) and nothing tells of that. Never decides what is done about it.

use std::collections::BTreeMap;
use std::time::Duration;

use fleet_runtime::{Error, ObjectKey};
use jiff::Timestamp;
use parking_lot::Mutex;

/// When what was refused is tried again. Long: the same request is nearly always refused again.
const TRY_AGAIN_AFTER: Duration = Duration::from_mins(5);

#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<BTreeMap<ObjectKey, Refusal>>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// What the binding asked for.
    generation: i64,
    /// The server's words.
    pub(super) answer: String,
    /// When it no longer counts.
    pub(super) until: Timestamp,
}

impl Refusals {
    pub(super) fn note(&self, binding: &ObjectKey, generation: i64, error: &Error, now: Timestamp) {
        let answer = error.answer();
        let until = now.checked_add(TRY_AGAIN_AFTER).unwrap_or(Timestamp::MAX);
        self.0.lock().insert(binding.clone(), Refusal { generation, answer, until });
    }

    /// The refusal that stands for what a binding asks for now.
    pub(super) fn of(&self, binding: &ObjectKey, generation: i64, now: Timestamp) -> Option<Refusal> {
        let mut all = self.0.lock();
        let found = all.get(binding)?;
        if found.generation == generation && now < found.until {
            return Some(found.clone());
        }
        all.remove(binding);
        None
    }

    pub(super) fn forget(&self, binding: &ObjectKey) {
        self.0.lock().remove(binding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_stands_for_one_generation_and_a_while() {
        let refusals = Refusals::default();
        let binding = ObjectKey::cluster("b");
        let now = Timestamp::UNIX_EPOCH;
        refusals.note(&binding, 3, &Error::Other("no".to_owned()), now);
        let found = refusals.of(&binding, 3, now).unwrap();
        assert_eq!(found.answer, "no");
        assert_eq!(refusals.of(&binding, 3, found.until), None, "its time is over");
        refusals.note(&binding, 3, &Error::Other("no".to_owned()), now);
        assert_eq!(refusals.of(&binding, 4, now), None, "something else is asked for");
        assert_eq!(refusals.of(&binding, 3, now), None, "and nobody comes back to it");
    }
}
