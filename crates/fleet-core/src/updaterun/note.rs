//! The note that a run leaves on a binding together with the content: who moved it.
//!
//! Decides its form and what `RolloutStarted` says of it. It goes with the write that moves the binding, so it costs nothing,
//! and survives a crash before the run could write its own status. Never decides whether a binding is moved.

use std::fmt;

use fleet_api::conditions::binding::BindingRolloutStarted;

/// `<index in the run's spec>/<run>`; the index is empty where the run names none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub snapshot_index: String,
    pub run: String,
}

impl Note {
    pub fn parse(text: &str) -> Option<Self> {
        let (snapshot_index, run) = text.split_once('/')?;
        (!run.is_empty()).then(|| Self { snapshot_index: snapshot_index.to_owned(), run: run.to_owned() })
    }

    /// What the binding says once the rollout has started.
    pub fn rollout_started(&self) -> BindingRolloutStarted {
        BindingRolloutStarted::StartedByRun { snapshot_index: self.snapshot_index.clone(), run: self.run.clone() }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.snapshot_index, self.run)
    }
}

#[cfg(test)]
mod tests {
    use fleet_api::conditions::ConditionState;

    use super::*;

    #[test]
    fn a_note_is_read_back_and_says_who_started_the_rollout() {
        for (snapshot_index, text) in [("1", "1/run-a"), ("", "/run-a")] {
            let note = Note { snapshot_index: snapshot_index.to_owned(), run: "run-a".to_owned() };
            assert_eq!(note.to_string(), text);
            assert_eq!(Note::parse(text), Some(note.clone()));
            let tail = format!(", resourceSnapshotIndex: {snapshot_index}, updateRun: run-a");
            assert!(note.rollout_started().message().ends_with(&tail));
        }
        assert_eq!((Note::parse("run-a"), Note::parse("1/")), (None, None));
    }
}
