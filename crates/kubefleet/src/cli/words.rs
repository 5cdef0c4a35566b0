//! States in words, with their tone and sign, the same in every view.
//!
//! Decides wording. Never decides a state.

use fleet_core::overview::{ClusterState, GateState, PlacementState};
use fleet_core::updaterun::{ClusterStep, Outcome, StageStep};

use super::output::Tone;

/// A state as it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: &'static str,
    pub(crate) tone: Tone,
    /// One character that says the same.
    pub(crate) sign: char,
}

const fn word(text: &'static str, tone: Tone, sign: char) -> Word {
    Word { text, tone, sign }
}

const DONE: char = '✓';
const BUSY: char = '●';
const WAITS: char = '◐';
const NOT_YET: char = '○';
const WRONG: char = '✗';
const PAUSED: char = '‖';

pub(crate) fn of_run(state: Outcome) -> Word {
    match state {
        Outcome::Releasing => word("being deleted", Tone::Faint, PAUSED),
        Outcome::Retrying => word("initializing", Tone::Busy, BUSY),
        Outcome::InitializationFailed => word("could not start", Tone::Bad, WRONG),
        Outcome::Idle => word("not started", Tone::Waiting, NOT_YET),
        Outcome::Progressing => word("progressing", Tone::Busy, BUSY),
        Outcome::Waiting => word("waiting", Tone::Waiting, WAITS),
        Outcome::Stuck => word("stuck", Tone::Bad, WRONG),
        Outcome::Stopping => word("stopping", Tone::Waiting, WAITS),
        Outcome::Stopped => word("stopped", Tone::Waiting, PAUSED),
        Outcome::Failed => word("failed", Tone::Bad, WRONG),
        Outcome::Succeeded => word("succeeded", Tone::Good, DONE),
    }
}

pub(crate) fn of_stage(state: StageStep) -> Word {
    match state {
        StageStep::NotReached => word("not reached", Tone::Faint, NOT_YET),
        StageStep::AwaitingStart => word("waiting to start", Tone::Waiting, WAITS),
        StageStep::Updating => word("updating", Tone::Busy, BUSY),
        StageStep::AwaitingEnd => word("waiting to end", Tone::Waiting, WAITS),
        StageStep::Stopping => word("stopping", Tone::Waiting, WAITS),
        StageStep::Stopped => word("stopped", Tone::Waiting, PAUSED),
        StageStep::Skipped => word("skipped", Tone::Faint, DONE),
        StageStep::Succeeded => word("succeeded", Tone::Good, DONE),
        StageStep::Failed => word("failed", Tone::Bad, WRONG),
    }
}

pub(crate) fn of_step(state: &ClusterStep, stuck: bool) -> Word {
    match state {
        ClusterStep::Pending => word("pending", Tone::Faint, NOT_YET),
        ClusterStep::Updating if stuck => word("stuck", Tone::Bad, WRONG),
        ClusterStep::Updating => word("updating", Tone::Busy, BUSY),
        ClusterStep::Succeeded => word("succeeded", Tone::Good, DONE),
        ClusterStep::Failed => word("failed", Tone::Bad, WRONG),
    }
}

pub(crate) fn of_gate(state: GateState) -> Word {
    match state {
        GateState::NotReached => word("not reached", Tone::Faint, NOT_YET),
        GateState::Closed => word("waiting", Tone::Waiting, WAITS),
        GateState::Open => word("passed", Tone::Good, DONE),
    }
}

pub(crate) fn of_placement(state: PlacementState) -> Word {
    match state {
        PlacementState::Deleting => word("being deleted", Tone::Faint, PAUSED),
        PlacementState::Scheduling => word("scheduling", Tone::Busy, BUSY),
        PlacementState::NotScheduled => word("not scheduled", Tone::Bad, WRONG),
        PlacementState::UpToRuns => word("up to runs", Tone::Waiting, WAITS),
        PlacementState::RollingOut => word("rolling out", Tone::Busy, BUSY),
        PlacementState::Failing => word("failing", Tone::Bad, WRONG),
        PlacementState::Available => word("available", Tone::Good, DONE),
    }
}

pub(crate) fn of_cluster(state: ClusterState) -> Word {
    match state {
        ClusterState::Pending => word("pending", Tone::Faint, NOT_YET),
        ClusterState::Updating => word("updating", Tone::Busy, BUSY),
        ClusterState::Failing => word("failing", Tone::Bad, WRONG),
        ClusterState::Available => word("available", Tone::Good, DONE),
        ClusterState::Leaving => word("leaving", Tone::Waiting, WAITS),
    }
}
