//! Known differences between two servers. An entry must never hide a request that the real server rejects and ours accepts.

/// In which way ours differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// Ours refuses what the real server accepts.
    Stricter,
    /// Both decide alike; the words or the shape differ.
    Wording,
}

/// One known difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// `area/name` of the case.
    pub(super) case: &'static str,
    /// Name of the step, or `*` for every step of the case.
    pub(super) step: &'static str,
    pub(super) reason: &'static str,
    pub(super) direction: Direction,
}

/// How two answers of one step compare: `None` where no status was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accepted {
    pub(super) real: Option<bool>,
    pub(super) ours: Option<bool>,
}

impl Known {
    /// Whether this entry excuses a difference in the step. Nothing excuses accepting what the real server refuses.
    pub(super) fn excuses(&self, case: &str, step: &str, accepted: Accepted) -> bool {
        let named = self.case == case && (self.step == "*" || self.step == step);
        let too_lenient = accepted.real == Some(false) && accepted.ours == Some(true);
        let same_decision = accepted.real == accepted.ours;
        named && !too_lenient && (self.direction != Direction::Wording || same_decision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: Known = Known { case: "a/b", step: "one", reason: "", direction: Direction::Stricter };

    #[test]
    fn an_entry_excuses_only_its_own_step() {
        let stricter = Accepted { real: Some(true), ours: Some(false) };
        assert!(ENTRY.excuses("a/b", "one", stricter));
        assert!(!ENTRY.excuses("a/b", "two", stricter));
        assert!(!ENTRY.excuses("a/c", "one", stricter));
        assert!(Known { step: "*", ..ENTRY }.excuses("a/b", "two", stricter));
    }

    #[test]
    fn nothing_excuses_accepting_what_the_real_server_refuses() {
        let lenient = Accepted { real: Some(false), ours: Some(true) };
        for direction in [Direction::Stricter, Direction::Wording] {
            assert!(!Known { direction, ..ENTRY }.excuses("a/b", "one", lenient));
        }
    }

    #[test]
    fn a_difference_of_wording_needs_the_same_decision() {
        let wording = Known { direction: Direction::Wording, ..ENTRY };
        assert!(wording.excuses("a/b", "one", Accepted { real: Some(false), ours: Some(false) }));
        assert!(!wording.excuses("a/b", "one", Accepted { real: Some(true), ours: Some(false) }));
    }
}
