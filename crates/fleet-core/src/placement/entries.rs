//! The per-cluster entries of a placement's status: one for each picked cluster, from its binding, and one for each
//! unfilled slot.
//!
//! An entry has the conditions of all steps up to the first that is not True.

use fleet_api::conditions::binding::BindingRolloutStarted;
use fleet_api::conditions::per_cluster::{ClusterScheduled, RolloutStep};
use fleet_api::conditions::{Condition, ConditionState, ConditionStatus, decode, put, remove};
use fleet_api::names::Index;
use fleet_api::types::{ClusterDecision, PerClusterPlacementStatus, PlacementStatus};
use jiff::Timestamp;

use super::observed::BindingFacts;
use super::report::Progress;

/// All steps that an entry can have.
pub(super) const ALL_STEPS: &[RolloutStep] = &[
    RolloutStep::RolloutStarted,
    RolloutStep::Overridden,
    RolloutStep::WorkSynchronized,
    RolloutStep::Applied,
    RolloutStep::Available,
    RolloutStep::DiffReported,
];

/// What all entries of one status have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryContext<'a> {
    pub previous: Option<&'a PlacementStatus>,
    /// Generation of the placement.
    pub generation: i64,
    /// The expected steps, in order.
    pub steps: &'a [RolloutStep],
    pub now: Timestamp,
}

/// The content that a cluster is compared with.
#[derive(Debug, Clone, Copy)]
pub(super) enum Measure<'a> {
    /// The latest snapshot: its master and index.
    Latest { master: &'a str, index: Index },
    /// The snapshot in the binding; its index, if that snapshot exists.
    OwnBinding { index: Option<Index> },
}

/// An entry and the steps in it.
#[derive(Debug)]
pub(super) struct Entry {
    pub status: PerClusterPlacementStatus,
    /// The steps of the entry, with their status.
    pub reached: Vec<(RolloutStep, ConditionStatus)>,
    pub progress: Progress,
}

impl Entry {
    fn says(&mut self, context: &EntryContext<'_>, step: RolloutStep, binding: Option<&Condition>) -> ConditionStatus {
        let finding = match binding {
            Some(condition) => step.copied(condition, context.generation),
            None => step.undecided(context.generation),
        };
        let status = finding.status();
        put(&mut self.status.conditions, finding, context.now);
        self.reached.push((step, status));
        status
    }
}

/// The entry of a picked cluster.
pub(super) fn picked(
    context: &EntryContext<'_>,
    decision: &ClusterDecision,
    binding: Option<&BindingFacts<'_>>,
    measure: Measure<'_>,
) -> Entry {
    let before = context
        .previous
        .and_then(|status| status.placement_statuses.iter().find(|entry| entry.cluster_name == decision.cluster_name));
    let status = PerClusterPlacementStatus {
        cluster_name: decision.cluster_name.clone(),
        conditions: before.map(|entry| entry.conditions.clone()).unwrap_or_default(),
        ..PerClusterPlacementStatus::default()
    };
    let mut entry = Entry { status, reached: Vec::new(), progress: Progress::Arrived };
    let scheduled = ClusterScheduled::Scheduled { decision: decision.reason.clone() };
    put(&mut entry.status.conditions, scheduled.finding(context.generation), context.now);
    match binding {
        None => {
            entry.says(context, RolloutStep::RolloutStarted, None);
            entry.progress = Progress::AwaitingBinding;
        }
        Some(binding) => measured(&mut entry, context, binding, measure),
    }
    for step in ALL_STEPS {
        if !entry.reached.iter().any(|(reached, _)| reached == step) {
            remove(&mut entry.status.conditions, step.type_word());
        }
    }
    entry
}

fn measured(entry: &mut Entry, context: &EntryContext<'_>, binding: &BindingFacts<'_>, measure: Measure<'_>) {
    match measure {
        Measure::Latest { master, index } => {
            entry.status.observed_resource_index = index.to_string();
            if binding.resource_snapshot != master {
                return elsewhere(entry, context, binding);
            }
        }
        Measure::OwnBinding { index } => {
            entry.status.observed_resource_index = index.map(|index| index.to_string()).unwrap_or_default();
        }
    }
    walk(entry, context, binding);
}

/// The cluster has other content than the latest.
fn elsewhere(entry: &mut Entry, context: &EntryContext<'_>, binding: &BindingFacts<'_>) {
    if decode::<BindingRolloutStarted>(binding.conditions(), binding.generation).is_false() {
        let finding = BindingRolloutStarted::Blocked.finding(context.generation);
        entry.reached.push((RolloutStep::RolloutStarted, finding.status()));
        put(&mut entry.status.conditions, finding, context.now);
        entry.progress = Progress::HeldBack;
    } else {
        entry.says(context, RolloutStep::RolloutStarted, None);
        entry.progress = Progress::AwaitingRollout;
    }
}

/// Copies the conditions of the binding, up to the first step that is not True.
fn walk(entry: &mut Entry, context: &EntryContext<'_>, binding: &BindingFacts<'_>) {
    for &step in context.steps {
        let decided = step
            .current(binding.conditions(), binding.generation)
            .filter(|condition| condition.status != ConditionStatus::Unknown);
        match entry.says(context, step, decided) {
            ConditionStatus::Unknown => {
                entry.progress = Progress::Undecided(step);
                return;
            }
            status => {
                copy_findings(&mut entry.status, binding, step, status == ConditionStatus::True);
                if status == ConditionStatus::False {
                    entry.progress = Progress::Failed(step);
                    return;
                }
            }
        }
    }
}

/// Copies the details of a decided step.
fn copy_findings(entry: &mut PerClusterPlacementStatus, binding: &BindingFacts<'_>, step: RolloutStep, holds: bool) {
    let Some(status) = binding.status else { return };
    match step {
        RolloutStep::RolloutStarted if holds => {
            entry.applicable_resource_overrides = binding.overrides.to_vec();
            entry.applicable_cluster_resource_overrides = binding.cluster_overrides.to_vec();
        }
        RolloutStep::Applied | RolloutStep::Available => {
            if !holds {
                entry.failed_placements.clone_from(&status.failed_placements);
                entry.diffed_placements.clone_from(&status.diffed_placements);
            }
            entry.drifted_placements.clone_from(&status.drifted_placements);
        }
        RolloutStep::DiffReported if holds => entry.diffed_placements.clone_from(&status.diffed_placements),
        _ => {}
    }
}

/// The entries of unfilled slots, one for each of these decisions. They have no name, so each continues the entry at
/// the same position.
pub(super) fn unfilled<'d>(
    context: &EntryContext<'_>,
    decisions: impl Iterator<Item = &'d ClusterDecision>,
) -> Vec<PerClusterPlacementStatus> {
    let before = context.previous.into_iter().flat_map(|status| &status.placement_statuses);
    let mut before = before.filter(|entry| entry.cluster_name.is_empty());
    let entry = |decision: &ClusterDecision| {
        let mut conditions = before.next().map(|entry| entry.conditions.clone()).unwrap_or_default();
        let failed = ClusterScheduled::Failed { decision: decision.reason.clone() };
        put(&mut conditions, failed.finding(context.generation), context.now);
        PerClusterPlacementStatus { conditions, ..PerClusterPlacementStatus::default() }
    };
    decisions.map(entry).collect()
}
