//! Why a look at a run ends before its work is done.

use fleet_api::conditions::run_fault::RunFault;

use super::report::{Blocker, Cause};

#[derive(Debug)]
pub(super) enum Halt {
    /// Ends the run, or has to be looked at again, as the fault itself says.
    Fault(RunFault),
    /// Something is not known yet.
    Unknown(Cause),
}

impl From<RunFault> for Halt {
    fn from(fault: RunFault) -> Self {
        Halt::Fault(fault)
    }
}

impl Halt {
    pub(super) fn blocker(&self) -> Blocker {
        match self {
            Halt::Fault(fault) => Blocker::of_fault(fault),
            Halt::Unknown(cause) => Blocker::about_run(cause.clone()),
        }
    }
}
