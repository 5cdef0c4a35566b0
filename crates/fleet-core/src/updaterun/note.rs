//! The note that a run leaves on a binding together with the content: who moved it, and which generation that gave.
//!
//! Decides its form and what `RolloutStarted` says of it. It goes with the write that moves the binding, so it costs nothing,
//! and survives a crash before the run could write its own status. Once somebody else has touched the binding, the note
//! speaks of a generation that is past, and a run has to renew it. Never decides whether a binding is moved.

use std::fmt;

use fleet_api::conditions::binding::BindingRolloutStarted;

/// `<index in the run's spec>/<run>/<generation of the binding>`; the index is empty where the run names none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub snapshot_index: String,
    pub run: String,
    /// The generation of the binding that the run has brought about.
    pub generation: i64,
}

impl Note {
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, generation) = text.rsplit_once('/')?;
        let (snapshot_index, run) = rest.split_once('/')?;
        let generation = generation.parse().ok()?;
        (!run.is_empty()).then(|| Self { snapshot_index: snapshot_index.to_owned(), run: run.to_owned(), generation })
    }

    /// What the binding says once the rollout has started.
    pub fn rollout_started(&self) -> BindingRolloutStarted {
        BindingRolloutStarted::StartedByRun { snapshot_index: self.snapshot_index.clone(), run: self.run.clone() }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.snapshot_index, self.run, self.generation)
    }
}

#[cfg(test)]
mod tests {
    use fleet_api::conditions::ConditionState;

    use super::*;

    #[test]
    fn a_note_is_read_back_and_says_who_started_the_rollout() {
        for (snapshot_index, text) in [("1", "1/run-a/2"), ("", "/run-a/2")] {
            let note = Note { snapshot_index: snapshot_index.to_owned(), run: "run-a".to_owned(), generation: 2 };
            assert_eq!(note.to_string(), text);
            assert_eq!(Note::parse(text), Some(note.clone()));
            let tail = format!(", resourceSnapshotIndex: {snapshot_index}, updateRun: run-a");
            assert!(note.rollout_started().message().ends_with(&tail));
        }
        for text in ["run-a", "1/run-a", "1//2", "1/run-a/x"] {
            assert_eq!(Note::parse(text), None, "{text}");
        }
    }
}
