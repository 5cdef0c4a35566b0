//! The property that a process may stop after any write of a plan, checked for one state of any planner.

use std::fmt::Debug;

use proptest::prelude::*;

/// A state that a planner plans for, and that executes its plans.
pub(crate) trait Replan: Clone {
    type Write: Debug;
    /// The part of the state that must not depend on where a plan was interrupted.
    type Place: PartialEq + Debug;

    fn writes(&self) -> Vec<Self::Write>;

    fn execute(&mut self, write: &Self::Write);

    /// Plans and executes the whole plan, with its status, as a restarted process does.
    fn reconcile(&mut self);

    fn place(&self) -> Self::Place;
}

/// Interrupts the plan of this state after each of its writes, and expects the next process to end where an uninterrupted one ends.
pub(crate) fn check_every_prefix(state: &impl Replan) -> Result<(), TestCaseError> {
    let mut end = state.clone();
    end.reconcile();
    let mut interrupted = state.clone();
    for write in &state.writes() {
        interrupted.execute(write);
        let mut resumed = interrupted.clone();
        resumed.reconcile();
        prop_assert_eq!(resumed.place(), end.place(), "after {:?}", write);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An item that moves from an old place to a new one, by two writes in this order.
    #[derive(Clone)]
    struct Relocation {
        order: [&'static str; 2],
        old: bool,
        new: bool,
    }

    impl Replan for Relocation {
        type Write = &'static str;
        type Place = (bool, bool);

        fn writes(&self) -> Vec<&'static str> {
            if self.old { self.order.to_vec() } else { Vec::new() }
        }

        fn execute(&mut self, write: &&'static str) {
            match *write {
                "put" => self.new = true,
                _ => self.old = false,
            }
        }

        fn reconcile(&mut self) {
            self.writes().iter().for_each(|write| self.execute(write));
        }

        fn place(&self) -> (bool, bool) {
            (self.old, self.new)
        }
    }

    #[test]
    fn only_a_safe_order_of_writes_passes_the_check() {
        assert!(check_every_prefix(&Relocation { order: ["put", "take"], old: true, new: false }).is_ok());
        assert!(check_every_prefix(&Relocation { order: ["take", "put"], old: true, new: false }).is_err());
    }
}
