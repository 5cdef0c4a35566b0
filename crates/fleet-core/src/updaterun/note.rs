//! The note that a run leaves on a binding together with the content: who moved it, and which generation that gave.
//!
//! Decides its form and what `RolloutStarted` says of it. It goes with the write that moves the binding, so it costs nothing,
//! and survives a crash before the run could write its own status. Once somebody else has touched the binding, the note
//! speaks of a generation that is past, and a run has to renew it. Never decides whether a binding is moved.

use std::fmt;

use fleet_api::conditions::binding::BindingRolloutStarted;

/// `<index in the run's spec>/<run>/<generation of the binding>/<uid of the run>`; the index is empty where the run names
/// none. Older notes end with the generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub snapshot_index: String,
    pub run: String,
    /// The generation of the binding that the run has brought about.
    pub generation: i64,
    /// Tells the run from an earlier one of its name.
    pub uid: Option<String>,
}

impl Note {
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let (snapshot_index, run) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let generation = parts.next()?.parse().ok()?;
        let uid = parts.next().map(str::to_owned);
        let is_whole = parts.next().is_none() && !run.is_empty() && uid.as_deref() != Some("");
        is_whole.then_some(Self { snapshot_index, run, generation, uid })
    }

    /// Whether the run of this name and uid left it. An older note is taken for that of whoever has the name.
    pub fn is_of(&self, name: &str, uid: Option<&str>) -> bool {
        let is_uid = |noted: &String| uid.is_none_or(|uid| noted == uid);
        self.run == name && self.uid.as_ref().is_none_or(is_uid)
    }

    /// What the binding says once the rollout has started.
    pub fn rollout_started(&self) -> BindingRolloutStarted {
        BindingRolloutStarted::StartedByRun { snapshot_index: self.snapshot_index.clone(), run: self.run.clone() }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.snapshot_index, self.run, self.generation)?;
        self.uid.as_ref().map_or(Ok(()), |uid| write!(f, "/{uid}"))
    }
}

#[cfg(test)]
mod tests {
    use fleet_api::conditions::ConditionState;

    use super::*;

    #[test]
    fn a_note_is_read_back_and_says_who_started_the_rollout() {
        for (snapshot_index, uid, text) in
            [("1", Some("u-1"), "1/run-a/2/u-1"), ("", Some("u-1"), "/run-a/2/u-1"), ("1", None, "1/run-a/2")]
        {
            let (run, uid) = ("run-a".to_owned(), uid.map(str::to_owned));
            let note = Note { snapshot_index: snapshot_index.to_owned(), run, generation: 2, uid };
            assert_eq!(note.to_string(), text);
            assert_eq!(Note::parse(text), Some(note.clone()));
            let tail = format!(", resourceSnapshotIndex: {snapshot_index}, updateRun: run-a");
            assert!(note.rollout_started().message().ends_with(&tail));
        }
        for text in ["run-a", "1/run-a", "1//2", "1/run-a/x", "1/run-a/2/", "1/run-a/2/u/v"] {
            assert_eq!(Note::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_note_is_of_the_run_that_left_it_and_not_of_its_namesake() {
        let note = |text| Note::parse(text).unwrap();
        assert!(note("1/run-a/2/u-1").is_of("run-a", Some("u-1")));
        assert!(!note("1/run-a/2/u-1").is_of("run-a", Some("u-2")), "deleted, and made again");
        assert!(!note("1/run-a/2/u-1").is_of("run-b", Some("u-1")));
        assert!(note("1/run-a/2").is_of("run-a", Some("u-2")), "older releases noted no uid");
    }
}
