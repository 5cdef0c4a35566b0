//! The type of plans that all planners return, and the rules that hold for every plan.

use std::collections::BTreeMap;
use std::time::Duration;

pub use fleet_api::wake::Wake;

#[cfg(test)]
pub(crate) mod testing;

/// The writes of one reconcile, executed in order, then the status. The process may stop after any of them; planning
/// again from the then observed state must lead to the same result.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Plan<Write, Status, Report> {
    pub writes: Vec<Write>,
    /// The new status; `None` if it does not change.
    pub status: Option<Status>,
    pub wake: Wake,
    /// What was decided, and what the plan waits for.
    pub report: Report,
}

impl<Write, Status, Report> Plan<Write, Status, Report> {
    /// A plan that changes nothing.
    pub fn nothing(report: Report) -> Self {
        Self { writes: Vec::new(), status: None, wake: Wake::OnChange, report }
    }

    /// Whether executing it would change nothing.
    pub fn is_idle(&self) -> bool {
        self.writes.is_empty() && self.status.is_none()
    }
}

/// A status to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusWrite<Status> {
    pub status: Status,
    /// How long the write may be deferred, because further changes will follow without outside help. Until the write, plans start
    /// from the deferred status, and the deadline of the first deferral counts. `None` if somebody waits for it.
    pub defer: Option<Duration>,
}

/// The properties of a write that `lint` needs.
pub trait ObjectWrite {
    /// Kind and name of the object, unique within the plan.
    fn object(&self) -> (&'static str, &str);

    fn is_deletion(&self) -> bool;

    /// Whether it removes our finalizer from the reconciled object. No write may follow.
    fn removes_finalizer(&self) -> bool {
        false
    }
}

/// Violations of the rules for plans: each object is written once, unless the second write deletes it, and no write
/// follows the removal of the finalizer. Empty for a valid plan.
pub fn lint<Write: ObjectWrite, Status, Report>(plan: &Plan<Write, Status, Report>) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut written: BTreeMap<(&str, &str), bool> = BTreeMap::new();
    let mut finalizer_removed = false;
    for write in &plan.writes {
        let (kind, name) = write.object();
        if finalizer_removed {
            complaints.push(format!("{kind} {name} is written after the finalizer was removed"));
        }
        finalizer_removed |= write.removes_finalizer();
        match written.insert((kind, name), write.is_deletion()) {
            Some(true) => complaints.push(format!("{kind} {name} is written after its deletion")),
            Some(false) if !write.is_deletion() => complaints.push(format!("{kind} {name} is written twice")),
            Some(false) | None => {}
        }
    }
    if finalizer_removed && plan.status.is_some() {
        complaints.push("a status is written after the finalizer was removed".to_owned());
    }
    complaints
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use jiff::Timestamp;

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

        fn removes_finalizer(&self) -> bool {
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
    fn nothing_is_written_after_the_finalizer_was_removed() {
        check(
            vec![Step::Release, Step::Write("a")],
            Some(()),
            expect![[r"
                Thing a is written after the finalizer was removed
                a status is written after the finalizer was removed"]],
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
