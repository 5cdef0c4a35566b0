//! Selects the resources of a placement, keeps its snapshots, and computes its status.
//!
//! A placement with a namespace is a ResourcePlacement; both scopes share the code. A plan wakes by time only while
//! changed content waits for its snapshot interval, or to retry a status copy.
//!
//! | file | step |
//! |---|---|
//! | `observed`, `inventory` | the facts |
//! | `propagation`, `select`, `order` | which objects are selected |
//! | `snapshot_content` | what of them goes into a snapshot |
//! | `policy_snapshots`, `resource_snapshots`, `groups`, `new_snapshot` | which snapshots should exist |
//! | `entries`, `status`, `status_copy`, `progress` | the status |
//! | `status_update` | whether the status has changed, and whether the write may be deferred |
//! | `changed_object` | which placements a changed object affects |
//! | `deletion` | deletion of a placement |
//! | `report` | the result of a plan as values |

mod changed_object;
mod deletion;
mod entries;
mod groups;
mod inventory;
mod new_snapshot;
mod observed;
mod order;
mod policy_snapshots;
mod progress;
mod propagation;
mod report;
mod resource_snapshots;
mod select;
mod snapshot_content;
mod status;
mod status_copy;
mod status_update;

#[cfg(test)]
mod tests;

use fleet_api::conditions::events::PlacementEvent;
use fleet_api::conditions::per_cluster::RolloutStep;
use fleet_api::conditions::placement::PlacementScheduled;
use fleet_api::conditions::{ConditionState, ConditionStatus, put};
use fleet_api::time::Time;
use fleet_api::types::{PlacementStatus, RolloutStrategyType};
use jiff::Timestamp;

pub use changed_object::ChangedObject;
pub use inventory::{GroupVersion, Inventory, Kind, LiveObject, Selected};
pub use new_snapshot::{NewPart, NewResourceSnapshot};
pub use observed::{
    BindingFacts, CopyFacts, MasterFacts, Observed, ParsedAnnotation, PartFacts, PlacementFacts, PolicySnapshotFacts,
    ResourceSnapshotFacts, SnapshotIntervals, owner_of,
};
pub use policy_snapshots::NewPolicySnapshot;
pub use progress::{Milestone, PlacementProgress};
pub use propagation::{ApiList, ApiListError, Apis, GroupVersionKind, Propagation};
pub use report::{Content, External, Fault, PlacementOutcome, Progress, Refusal, Report};
pub use resource_snapshots::{NoRunSnapshot, RunSnapshot, WantedSnapshot, snapshot_for_run};
pub use select::{InvalidSelector, SelectionError, select, undiscovered};
pub use snapshot_content::SelectedContent;
pub use status_copy::{StatusCopy, copied, copy_namespace};
pub use status_update::StatusUpdate;

use crate::plan::{self, ObjectWrite, Wake};
use groups::Groups;
use resource_snapshots::CurrentGroup;
use status::Subject;
use status_copy::Syncing;

pub type Plan = plan::Plan<Write, StatusUpdate, Report>;

/// One write to the placement or to an object that belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Adds our finalizer to the placement.
    AddPlacementFinalizer,
    /// Removes our finalizer from the placement.
    RemovePlacementFinalizer,
    CreatePolicySnapshot(NewPolicySnapshot),
    /// Marks a policy snapshot as latest and sets its annotations. Without a number, the number stays.
    RefreshPolicySnapshot {
        snapshot: String,
        placement_generation: i64,
        number_of_clusters: Option<i32>,
    },
    /// Removes the latest mark from a policy snapshot.
    RetirePolicySnapshot {
        snapshot: String,
    },
    DeletePolicySnapshot {
        snapshot: String,
    },
    CreateResourceSnapshot(NewResourceSnapshot),
    /// Adds the latest mark to a master, or removes it.
    MarkResourceSnapshot {
        snapshot: String,
        latest: bool,
    },
    /// Records on a master when other content was first seen.
    RecordContentChange {
        snapshot: String,
        seen: Time,
    },
    DeleteResourceSnapshot {
        snapshot: String,
    },
}

impl ObjectWrite for Write {
    fn object(&self) -> (&'static str, &str) {
        match self {
            Write::AddPlacementFinalizer | Write::RemovePlacementFinalizer => ("placement", ""),
            Write::CreatePolicySnapshot(new) => ("policy snapshot", &new.name),
            Write::RefreshPolicySnapshot { snapshot, .. }
            | Write::RetirePolicySnapshot { snapshot }
            | Write::DeletePolicySnapshot { snapshot } => ("policy snapshot", snapshot),
            Write::CreateResourceSnapshot(new) => ("resource snapshot", &new.name),
            Write::MarkResourceSnapshot { snapshot, .. }
            | Write::RecordContentChange { snapshot, .. }
            | Write::DeleteResourceSnapshot { snapshot } => ("resource snapshot", snapshot),
        }
    }

    fn is_deletion(&self) -> bool {
        matches!(self, Write::DeletePolicySnapshot { .. } | Write::DeleteResourceSnapshot { .. })
    }

    fn removes_finalizer(&self) -> bool {
        matches!(self, Write::RemovePlacementFinalizer)
    }
}

/// Keeps the snapshots of the selected content and the status up to date.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let plan = if observed.placement.deleting { deletion::plan(observed) } else { plan_existing(observed, now) };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

fn plan_existing(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing(Report::of(PlacementOutcome::AwaitingScheduler));
    plan.writes.extend((!observed.placement.has_finalizer).then_some(Write::AddPlacementFinalizer));
    if let Some(refusal) = status_copy::check(&observed.placement) {
        plan.status = StatusUpdate::of(&observed.placement, refused(observed, &refusal, now), None);
        plan.report.outcome = PlacementOutcome::Refused(refusal);
        return plan;
    }
    match &*observed.selected_content() {
        Ok(selected_content) => {
            if let Err(fault) = snapshot_and_summarize(observed, selected_content, now, &mut plan) {
                plan.report.outcome = PlacementOutcome::Stopped(fault);
            }
        }
        Err(SelectionError::Incomplete { resource }) => {
            plan.report.outcome = PlacementOutcome::AwaitingSync { resource: resource.clone() };
        }
        Err(SelectionError::Undiscovered { part }) => {
            let has_snapshot = !observed.resource_snapshots.is_empty();
            plan.report.events.extend(has_snapshot.then(|| PlacementEvent::ContentUnknown { part: part.to_string() }));
            plan.report.outcome = PlacementOutcome::AwaitingDiscovery { part: part.clone() };
        }
        Err(SelectionError::User(invalid)) => {
            let refusal = Refusal::Selectors(invalid.clone());
            set_status(&mut plan, observed, refused(observed, &refusal, now), now);
            plan.report.outcome = PlacementOutcome::Refused(refusal);
        }
    }
    plan
}

/// The current status with the reason why the placement is not acted on.
fn refused(observed: &Observed<'_>, refusal: &Refusal, now: Timestamp) -> PlacementStatus {
    let placement = &observed.placement;
    let scheduled = match refusal.clone() {
        Refusal::Selectors(invalid) => PlacementScheduled::InvalidSelectors { error: invalid.with_class() },
        Refusal::NamespaceChanged { chosen, original } => PlacementScheduled::NamespaceChanged { chosen, original },
        Refusal::NoNamespaceSelected => PlacementScheduled::NoNamespaceSelected,
    };
    let mut status = placement.status.cloned().unwrap_or_default();
    put(&mut status.conditions, scheduled.finding_in(placement.scope(), placement.generation), now);
    status
}

/// Sets the status of the plan, and its copy if one is wanted.
fn set_status(plan: &mut Plan, observed: &Observed<'_>, mut status: PlacementStatus, now: Timestamp) {
    let Syncing { copy, wake } = status_copy::sync(observed, &mut status, now);
    plan.wake = plan.wake.earlier(wake);
    plan.status = StatusUpdate::of(&observed.placement, status, copy);
}

fn snapshot_and_summarize(
    observed: &Observed<'_>,
    selected_content: &SelectedContent,
    now: Timestamp,
    plan: &mut Plan,
) -> Result<(), Fault> {
    let placement = &observed.placement;
    let (writes, policy) = policy_snapshots::plan(placement, &observed.policy_snapshots)?;
    plan.writes.extend(writes);
    let groups = Groups::new(&observed.resource_snapshots)?;
    let mut kept = match placement.spec.strategy_type() {
        RolloutStrategyType::External => None,
        RolloutStrategyType::RollingUpdate => {
            Some(resource_snapshots::plan(placement, &groups, selected_content, observed.snapshot_intervals, now)?)
        }
    };
    plan.report.content = content(kept.as_ref());
    let identifiers = match kept {
        Some(CurrentGroup { ref identifiers, .. }) => identifiers.clone(),
        None => selected_content.identifiers.clone(),
    };
    if let Some(kept) = &mut kept {
        plan.writes.append(&mut kept.writes);
        plan.wake = kept.delayed_until.map_or(Wake::OnChange, Wake::At);
    }
    let latest = kept.as_ref().map(|kept| (kept.master.as_str(), kept.index));
    let summary = status::summarize(Subject { observed, policy: &policy, latest, identifiers, groups: &groups, now })?;
    plan.report.outcome = summary.outcome;
    plan.report.clusters = summary.clusters;
    plan.report.events = events(placement, &summary.status);
    set_status(plan, observed, summary.status, now);
    Ok(())
}

/// The fault that stops every plan of a placement, whatever it selects. For callers that have not read the content of
/// its snapshots.
pub fn fault(
    placement: &PlacementFacts<'_>,
    policy_snapshots: &[PolicySnapshotFacts<'_>],
    resource_snapshots: &[ResourceSnapshotFacts<'_>],
) -> Option<Fault> {
    let look = || {
        let (_, policy) = policy_snapshots::plan(placement, policy_snapshots)?;
        let groups = Groups::new(resource_snapshots)?;
        if placement.spec.strategy_type() == RolloutStrategyType::RollingUpdate {
            groups.latest()?;
        }
        match policy.verdict(placement) {
            Some(_) => status::missing(placement, policy.decisions(true).count()),
            None => Ok(0),
        }
    };
    look().err()
}

fn content(kept: Option<&CurrentGroup>) -> Content {
    match kept {
        None => Content::LeftToRuns,
        Some(CurrentGroup { index, delayed_until: None, .. }) => Content::UpToDate { index: *index },
        Some(CurrentGroup { index, delayed_until: Some(until), .. }) => {
            Content::Delayed { index: *index, until: *until }
        }
    }
}

/// Events for steps that became True in this generation.
fn events(placement: &PlacementFacts<'_>, after: &PlacementStatus) -> Vec<PlacementEvent> {
    let before = placement.status.cloned().unwrap_or_default();
    let became_true =
        |step: &RolloutStep| status::is_true(placement, after, *step) && !status::is_true(placement, &before, *step);
    let mut events: Vec<_> =
        status::expected_steps(placement).iter().copied().filter(became_true).map(event_of).collect();
    if status::is_complete(placement, after) && !status::is_complete(placement, &before) {
        events.push(PlacementEvent::RolloutCompleted);
    }
    events.extend(rollout_problem(placement, &before, after));
    events
}

/// The event for a problem that blocks the rollout, unless it was already reported for this generation and content.
/// Resources that are not available yet are no problem: they have just been applied.
fn rollout_problem(
    placement: &PlacementFacts<'_>,
    before: &PlacementStatus,
    after: &PlacementStatus,
) -> Option<PlacementEvent> {
    let scope = placement.scope();
    let said_false = |status: &PlacementStatus, step: RolloutStep| {
        let word = step.placement_type_word(scope);
        let found = status.conditions.iter().find(|one| one.type_ == word && one.status == ConditionStatus::False);
        found.filter(|one| one.observed_generation == placement.generation).map(|one| one.message.clone())
    };
    let steps =
        [RolloutStep::RolloutStarted, RolloutStep::Overridden, RolloutStep::WorkSynchronized, RolloutStep::Applied];
    let (step, said) = steps.into_iter().find_map(|step| Some((step, said_false(after, step)?)))?;
    let is_old = said_false(before, step).is_some() && before.observed_resource_index == after.observed_resource_index;
    let has_started = |status: &PlacementStatus| {
        let word = RolloutStep::RolloutStarted.type_word();
        let mut conditions = status.placement_statuses.iter().flat_map(|entry| &entry.conditions);
        conditions.any(|one| one.type_ == word && one.status == ConditionStatus::True)
    };
    let is_blamed =
        |status: &PlacementStatus| status.placement_statuses.iter().any(|entry| !entry.failed_placements.is_empty());
    match step {
        _ if is_old && (step != RolloutStep::Applied || is_blamed(before)) => None,
        // Before the rollout has started, nothing can be blocked.
        RolloutStep::RolloutStarted => {
            (has_started(before) || has_started(after)).then_some(PlacementEvent::RolloutBlocked { said })
        }
        // Resources that are being applied are not applied either; only failed ones are listed.
        RolloutStep::Applied => is_blamed(after).then_some(PlacementEvent::RolloutFailed { said }),
        _ => Some(PlacementEvent::RolloutFailed { said }),
    }
}

fn event_of(step: RolloutStep) -> PlacementEvent {
    match step {
        RolloutStep::RolloutStarted => PlacementEvent::RolloutStarted,
        RolloutStep::Overridden => PlacementEvent::Overridden,
        RolloutStep::WorkSynchronized => PlacementEvent::WorkSynchronized,
        RolloutStep::Applied => PlacementEvent::Applied,
        RolloutStep::Available => PlacementEvent::Available,
        RolloutStep::DiffReported => PlacementEvent::DiffReported,
    }
}
