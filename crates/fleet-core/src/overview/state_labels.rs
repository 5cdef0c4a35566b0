//! Labels, tones and symbols of states, the same in every view.

use super::{ClusterState, GateState, PlacementState};
use crate::updaterun::{ClusterStep, RunOutcome, StageStep};

/// The meaning of a text, which determines its colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Good,
    /// Waiting for a user or an event.
    Waiting,
    /// In progress.
    Busy,
    Bad,
    /// Less important.
    Faint,
    Strong,
}

/// How a state is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateLabel {
    pub text: &'static str,
    pub tone: Tone,
    /// A symbol for the state.
    pub sign: char,
}

const fn label(text: &'static str, tone: Tone, sign: char) -> StateLabel {
    StateLabel { text, tone, sign }
}

const DONE: char = '✓';
const BUSY: char = '●';
const WAITS: char = '◐';
const NOT_YET: char = '○';
const WRONG: char = '✗';
const PAUSED: char = '‖';

pub fn of_run(state: RunOutcome) -> StateLabel {
    match state {
        RunOutcome::Releasing => label("being deleted", Tone::Faint, PAUSED),
        RunOutcome::Retrying => label("initializing", Tone::Busy, BUSY),
        RunOutcome::InitializationFailed => label("could not start", Tone::Bad, WRONG),
        RunOutcome::Idle => label("not started", Tone::Waiting, NOT_YET),
        RunOutcome::Progressing => label("progressing", Tone::Busy, BUSY),
        RunOutcome::Waiting => label("waiting", Tone::Waiting, WAITS),
        RunOutcome::Stuck => label("stuck", Tone::Bad, WRONG),
        RunOutcome::Stopping => label("stopping", Tone::Waiting, WAITS),
        RunOutcome::Stopped => label("stopped", Tone::Waiting, PAUSED),
        RunOutcome::Failed => label("failed", Tone::Bad, WRONG),
        RunOutcome::Succeeded => label("succeeded", Tone::Good, DONE),
    }
}

pub fn of_stage(state: StageStep) -> StateLabel {
    match state {
        StageStep::NotReached => label("not reached", Tone::Faint, NOT_YET),
        StageStep::AwaitingStart => label("waiting to start", Tone::Waiting, WAITS),
        StageStep::Updating => label("updating", Tone::Busy, BUSY),
        StageStep::AwaitingEnd => label("waiting to end", Tone::Waiting, WAITS),
        StageStep::Stopping => label("stopping", Tone::Waiting, WAITS),
        StageStep::Stopped => label("stopped", Tone::Waiting, PAUSED),
        StageStep::Skipped => label("skipped", Tone::Faint, DONE),
        StageStep::Succeeded => label("succeeded", Tone::Good, DONE),
        StageStep::Failed => label("failed", Tone::Bad, WRONG),
    }
}

pub fn of_step(state: &ClusterStep, stuck: bool) -> StateLabel {
    match state {
        ClusterStep::Pending => label("pending", Tone::Faint, NOT_YET),
        ClusterStep::Updating if stuck => label("stuck", Tone::Bad, WRONG),
        ClusterStep::Updating => label("updating", Tone::Busy, BUSY),
        ClusterStep::Succeeded => label("succeeded", Tone::Good, DONE),
        ClusterStep::Failed => label("failed", Tone::Bad, WRONG),
    }
}

pub fn of_gate(state: GateState) -> StateLabel {
    match state {
        GateState::NotReached => label("not reached", Tone::Faint, NOT_YET),
        GateState::Closed => label("waiting", Tone::Waiting, WAITS),
        GateState::Open => label("passed", Tone::Good, DONE),
    }
}

pub fn of_placement(state: PlacementState) -> StateLabel {
    match state {
        PlacementState::Deleting => label("being deleted", Tone::Faint, PAUSED),
        PlacementState::Scheduling => label("scheduling", Tone::Busy, BUSY),
        PlacementState::NotScheduled => label("not scheduled", Tone::Bad, WRONG),
        PlacementState::UpToRuns => label("up to runs", Tone::Waiting, WAITS),
        PlacementState::RollingOut => label("rolling out", Tone::Busy, BUSY),
        PlacementState::Failing => label("failing", Tone::Bad, WRONG),
        PlacementState::Available => label("available", Tone::Good, DONE),
    }
}

pub fn of_cluster(state: ClusterState) -> StateLabel {
    match state {
        ClusterState::Pending => label("pending", Tone::Faint, NOT_YET),
        ClusterState::Updating => label("updating", Tone::Busy, BUSY),
        ClusterState::Failing => label("failing", Tone::Bad, WRONG),
        ClusterState::Available => label("available", Tone::Good, DONE),
        ClusterState::Leaving => label("leaving", Tone::Waiting, WAITS),
    }
}
