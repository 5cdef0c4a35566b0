//! The vocabulary that all decisions share: a plan, when to look again, and what every plan must keep to.
//!
//! Decides the shape of plans and the rules that hold whatever a plan is about. Never decides what is in one.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// When to plan again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Only when one of the observed facts changes.
    OnChange,
    /// At this instant too, because a fact changes by the mere passing of time.
    At(Timestamp),
}

impl Wake {
    /// Whichever of the two comes first.
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        match (self, other) {
            (Wake::At(one), Wake::At(another)) => Wake::At(one.min(another)),
            (Wake::At(instant), Wake::OnChange) | (Wake::OnChange, Wake::At(instant)) => Wake::At(instant),
            (Wake::OnChange, Wake::OnChange) => Wake::OnChange,
        }
    }
}

/// What is to be done. Writes are carried out in order, then the status is written; after any of them the process may
/// stop, and planning again from what is then observed leads to the same end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Plan<Write, Status, Report> {
    pub writes: Vec<Write>,
    /// The new status; `None` where the one that is there says it already.
    pub status: Option<Status>,
    pub wake: Wake,
    /// What was decided about each thing and what is waited for.
    pub report: Report,
}

impl<Write, Status, Report> Plan<Write, Status, Report> {
    /// A plan that leaves everything as it is.
    pub fn nothing(report: Report) -> Self {
        Self { writes: Vec::new(), status: None, wake: Wake::OnChange, report }
    }

    /// Whether carrying it out would change nothing.
    pub fn is_idle(&self) -> bool {
        self.writes.is_empty() && self.status.is_none()
    }
}

/// What `lint` must know of a write.
pub trait ObjectWrite {
    /// Kind and name of the object, as far as they tell it from others in the same plan.
    fn object(&self) -> (&'static str, &str);

    fn is_deletion(&self) -> bool;

    /// Whether it lets the plan's own subject go, after which nothing more may be done on its behalf.
    fn lets_subject_go(&self) -> bool {
        false
    }
}

/// What is wrong with a plan, whoever made it: an object is written once, unless the second write deletes it, and
/// nothing comes after the subject was let go. Empty for a sound plan.
pub fn lint<Write: ObjectWrite, Status, Report>(plan: &Plan<Write, Status, Report>) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut written: BTreeMap<(&str, &str), bool> = BTreeMap::new();
    let mut subject_gone = false;
    for write in &plan.writes {
        let (kind, name) = write.object();
        if subject_gone {
            complaints.push(format!("{kind} {name} is written after the subject was let go"));
        }
        subject_gone |= write.lets_subject_go();
        match written.insert((kind, name), write.is_deletion()) {
            Some(true) => complaints.push(format!("{kind} {name} is written after its deletion")),
            Some(false) if !write.is_deletion() => complaints.push(format!("{kind} {name} is written twice")),
            Some(false) | None => {}
        }
    }
    if subject_gone && plan.status.is_some() {
        complaints.push("a status is written after the subject was let go".to_owned());
    }
    complaints
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    enum Step {
        Write(&'static str),
        Delete(&'static str),
        Release,
    }

    impl ObjectWrite for Step {
        fn object(&self) -> (&'static str, &str) {
            match self {
                Step::Write(name) | Step::Delete(name) => ("Thing", name),
                Step::Release => ("Subject", "s"),
            }
        }

        fn is_deletion(&self) -> bool {
            matches!(self, Step::Delete(_))
        }

        fn lets_subject_go(&self) -> bool {
            matches!(self, Step::Release)
        }
    }

    fn check(writes: Vec<Step>, status: Option<()>, expected: Expect) {
        let plan = Plan { writes, status, ..Plan::nothing(()) };
        expected.assert_eq(&lint(&plan).join("\n"));
    }

    #[test]
    fn an_object_is_written_once_and_deleted_at_most_after_that() {
        check(vec![Step::Write("a"), Step::Write("b"), Step::Delete("a"), Step::Release], None, expect![""]);
        check(vec![Step::Write("a"), Step::Write("a")], Some(()), expect!["Thing a is written twice"]);
        check(vec![Step::Delete("a"), Step::Write("a")], None, expect!["Thing a is written after its deletion"]);
        check(vec![Step::Delete("a"), Step::Delete("a")], None, expect!["Thing a is written after its deletion"]);
    }

    #[test]
    fn nothing_comes_after_letting_the_subject_go() {
        check(
            vec![Step::Release, Step::Write("a")],
            Some(()),
            expect![[r"
                Thing a is written after the subject was let go
                a status is written after the subject was let go"]],
        );
    }

    #[test]
    fn the_earlier_wake_wins() {
        let (one, two) = (Wake::At(Timestamp::UNIX_EPOCH), Wake::At(Timestamp::MAX));
        assert_eq!(one.earlier(two), one);
        assert_eq!(two.earlier(one), one);
        assert_eq!(two.earlier(Wake::OnChange), two);
        assert_eq!(Wake::OnChange.earlier(two), two);
        assert_eq!(Wake::OnChange.earlier(Wake::OnChange), Wake::OnChange);
    }

    #[test]
    fn a_plan_with_a_status_is_not_idle() {
        let idle: Plan<Step, (), ()> = Plan::nothing(());
        assert!(idle.is_idle());
        assert!(!Plan { status: Some(()), ..idle }.is_idle());
    }
}
