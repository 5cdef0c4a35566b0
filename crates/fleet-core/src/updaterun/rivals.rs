//! Other runs of the same placement, where they are in each other's way.
//!
//! Whoever moves a binding last has it, and a run that finds one taken that it has started ends. So a run's own record of
//! what it has started must be stored before another one takes it over: a process that died in between would otherwise
//! take the binding back and end the run that it belongs to now. Decides whether a binding may be taken over yet. Never
//! decides who wins.

use fleet_api::conditions::binding::BindingRolloutStarted;
use fleet_api::conditions::update_run::ClusterUpdateStarted;
use fleet_api::conditions::{decode, decode_ignoring_generation};
use fleet_api::types::ClusterUpdatingStatus;
use jiff::{SignedDuration, Timestamp};

use super::changes::HELD_AT_MOST;
use super::observed::{BindingFacts, RivalFacts};
use super::pass::Pass;

/// A status has whole seconds.
const ROUNDING: SignedDuration = SignedDuration::from_secs(1);

/// A run that has moved a binding, which its stored status does not say yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnrecordedMover<'a> {
    pub run: &'a str,
    /// A status is held back no longer than this: whatever else keeps the other run from storing it does not keep this
    /// one. Not known before the work generator has seen the move.
    pub until: Option<Timestamp>,
}

pub(super) fn unrecorded_mover<'a>(pass: &Pass<'a>, binding: &BindingFacts<'_>) -> Option<UnrecordedMover<'a>> {
    let note = binding.note.as_ref().filter(|note| note.generation == binding.generation)?;
    let mover = pass.observed.rivals.iter().find(|rival| note.is_of(rival.name, rival.uid))?;
    if has_recorded(mover, binding.cluster) {
        return None;
    }
    let started = decode::<BindingRolloutStarted>(binding.conditions, binding.generation).current();
    let later = |since: Timestamp| since.checked_add(HELD_AT_MOST + ROUNDING).unwrap_or(Timestamp::MAX);
    let until = started.map(|condition| later(condition.last_transition_time.instant()));
    let is_over = until.is_some_and(|until| pass.pen.now >= until);
    (!is_over).then_some(UnrecordedMover { run: mover.name, until })
}

fn has_recorded(rival: &RivalFacts<'_>, cluster: &str) -> bool {
    let clusters = rival.status.into_iter().flat_map(|status| &status.stages_status).flat_map(|stage| &stage.clusters);
    let is_started =
        |entry: &ClusterUpdatingStatus| decode_ignoring_generation::<ClusterUpdateStarted>(&entry.conditions).is_true();
    clusters.filter(|entry| entry.cluster_name == cluster).any(is_started)
}
