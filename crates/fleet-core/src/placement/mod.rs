//! What a placement selects, what of it is frozen, and how far it got.
//!
//! Decides from the placement, what is on the hub, its snapshots and its bindings: which snapshots to make, mark or take
//! away, and what the status says. One code for both scopes: a placement with a namespace is a ResourcePlacement. A plan
//! wakes by time only while changed content waits for its turn. Never picks a cluster and never rolls anything out.
//!
//! | file | step |
//! |---|---|
//! | `observed`, `inventory` | the facts |
//! | `propagation`, `select`, `order` | which objects are selected |
//! | `capture` | what of them is frozen |
//! | `policy_snapshots`, `resource_snapshots`, `groups`, `new_snapshot` | which snapshots there shall be |
//! | `entries`, `status`, `status_copy`, `standing` | what the status says |
//! | `telling` | whether that is news, and whether the news may wait |
//! | `concern` | whose plan a changed object may change |
//! | `deletion` | what happens in the end |
//! | `report` | what was found out, as values |

mod capture;
mod concern;
mod deletion;
mod entries;
mod groups;
mod inventory;
mod new_snapshot;
mod observed;
mod order;
mod policy_snapshots;
mod propagation;
mod report;
mod resource_snapshots;
mod select;
mod standing;
mod status;
mod status_copy;
mod telling;

#[cfg(test)]
mod tests;

use fleet_api::conditions::events::PlacementEvent;
use fleet_api::conditions::per_cluster::RolloutStep;
use fleet_api::conditions::placement::PlacementScheduled;
use fleet_api::conditions::{ConditionState, ConditionStatus, put};
use fleet_api::time::Time;
use fleet_api::types::{PlacementStatus, RolloutStrategyType};
use jiff::Timestamp;

pub use capture::Captured;
pub use concern::Changed;
pub use inventory::{GroupVersion, Inventory, Kind, LiveObject, Selected};
pub use new_snapshot::{NewPart, NewResourceSnapshot};
pub use observed::{
    BindingFacts, CopyFacts, MasterFacts, Noted, Observed, PartFacts, PlacementFacts, PolicySnapshotFacts,
    ResourceSnapshotFacts, SnapshotPace, owner_of,
};
pub use policy_snapshots::NewPolicySnapshot;
pub use propagation::{ApiList, ApiListError, Apis, GroupVersionKind, Propagation};
pub use report::{Content, External, Fault, Outcome, Progress, Refusal, Report};
pub use resource_snapshots::{NoRunSnapshot, RunSnapshot, WantedSnapshot, snapshot_for_run};
pub use select::{InvalidSelector, SelectionError, select, unheard};
pub use standing::{Milestone, Standing};
pub use status_copy::{StatusCopy, copied, copy_namespace};
pub use telling::Telling;

use crate::plan::{self, ObjectWrite, Wake};
use groups::Groups;
use resource_snapshots::Kept;
use status::Subject;
use status_copy::Syncing;

pub type Plan = plan::Plan<Write, Telling, Report>;

/// One write to the placement or to something that belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Adds our finalizer to the placement.
    HoldPlacement,
    /// Takes our finalizer from the placement.
    ReleasePlacement,
    CreatePolicySnapshot(NewPolicySnapshot),
    /// Marks a policy snapshot as the latest and notes what it now stands for. A number that is not given stays.
    RefreshPolicySnapshot {
        snapshot: String,
        placement_generation: i64,
        number_of_clusters: Option<i32>,
    },
    /// Takes the mark of the latest from a policy snapshot.
    RetirePolicySnapshot {
        snapshot: String,
    },
    DeletePolicySnapshot {
        snapshot: String,
    },
    CreateResourceSnapshot(NewResourceSnapshot),
    /// Gives the mark of the latest to a master, or takes it.
    MarkResourceSnapshot {
        snapshot: String,
        latest: bool,
    },
    /// Notes on a master when other content was first seen.
    NoteChange {
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
            Write::HoldPlacement | Write::ReleasePlacement => ("placement", ""),
            Write::CreatePolicySnapshot(new) => ("policy snapshot", &new.name),
            Write::RefreshPolicySnapshot { snapshot, .. }
            | Write::RetirePolicySnapshot { snapshot }
            | Write::DeletePolicySnapshot { snapshot } => ("policy snapshot", snapshot),
            Write::CreateResourceSnapshot(new) => ("resource snapshot", &new.name),
            Write::MarkResourceSnapshot { snapshot, .. }
            | Write::NoteChange { snapshot, .. }
            | Write::DeleteResourceSnapshot { snapshot } => ("resource snapshot", snapshot),
        }
    }

    fn is_deletion(&self) -> bool {
        matches!(self, Write::DeletePolicySnapshot { .. } | Write::DeleteResourceSnapshot { .. })
    }

    fn lets_subject_go(&self) -> bool {
        matches!(self, Write::ReleasePlacement)
    }
}

/// What to do so that what the placement selects is frozen and its status tells the truth.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let plan = if observed.placement.deleting { deletion::plan(observed) } else { keep_up(observed, now) };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

fn keep_up(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing(Report::of(Outcome::AwaitingScheduler));
    plan.writes.extend((!observed.placement.held).then_some(Write::HoldPlacement));
    if let Some(refusal) = status_copy::check(&observed.placement) {
        plan.status = Telling::of(&observed.placement, refused(observed, &refusal, now), None);
        plan.report.outcome = Outcome::Refused(refusal);
        return plan;
    }
    match &*observed.captured() {
        Ok(captured) => {
            if let Err(fault) = freeze_and_sum_up(observed, captured, now, &mut plan) {
                plan.report.outcome = Outcome::Stopped(fault);
            }
        }
        Err(SelectionError::Incomplete { resource }) => {
            plan.report.outcome = Outcome::AwaitingInventory { resource: resource.clone() };
        }
        Err(SelectionError::Silent { part }) => {
            let is_frozen = !observed.resource_snapshots.is_empty();
            plan.report.events.extend(is_frozen.then(|| PlacementEvent::ContentUnknown { part: part.to_string() }));
            plan.report.outcome = Outcome::AwaitingAnswer { part: part.clone() };
        }
        Err(SelectionError::User(invalid)) => {
            let refusal = Refusal::Selectors(invalid.clone());
            tell(&mut plan, observed, refused(observed, &refusal, now), now);
            plan.report.outcome = Outcome::Refused(refusal);
        }
    }
    plan
}

/// The status as it is, but for the reason why the placement is not acted on.
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

/// Tells a status, and its copy where one is kept.
fn tell(plan: &mut Plan, observed: &Observed<'_>, mut status: PlacementStatus, now: Timestamp) {
    let Syncing { copy, wake } = status_copy::sync(observed, &mut status, now);
    plan.wake = plan.wake.earlier(wake);
    plan.status = Telling::of(&observed.placement, status, copy);
}

fn freeze_and_sum_up(
    observed: &Observed<'_>,
    captured: &Captured,
    now: Timestamp,
    plan: &mut Plan,
) -> Result<(), Fault> {
    let placement = &observed.placement;
    let (writes, policy) = policy_snapshots::keep_up(placement, &observed.policy_snapshots)?;
    plan.writes.extend(writes);
    let groups = Groups::new(&observed.resource_snapshots)?;
    let mut kept = match placement.spec.strategy_type() {
        RolloutStrategyType::External => None,
        RolloutStrategyType::RollingUpdate => {
            Some(resource_snapshots::keep_up(placement, &groups, captured, observed.pace, now)?)
        }
    };
    plan.report.content = content(kept.as_ref());
    let identifiers = match kept {
        Some(Kept { ref identifiers, .. }) => identifiers.clone(),
        None => captured.identifiers.clone(),
    };
    if let Some(kept) = &mut kept {
        plan.writes.append(&mut kept.writes);
        plan.wake = kept.delayed_until.map_or(Wake::OnChange, Wake::At);
    }
    let latest = kept.as_ref().map(|kept| (kept.master.as_str(), kept.index));
    let summary = status::sum_up(Subject { observed, policy: &policy, latest, identifiers, groups: &groups, now })?;
    plan.report.outcome = summary.outcome;
    plan.report.clusters = summary.clusters;
    plan.report.events = events(placement, &summary.status);
    tell(plan, observed, summary.status, now);
    Ok(())
}

/// What stops every plan of a placement whatever it selects, if anything does. For those who ask why nothing happens and
/// have not read the content of its snapshots.
pub fn fault(
    placement: &PlacementFacts<'_>,
    policy_snapshots: &[PolicySnapshotFacts<'_>],
    resource_snapshots: &[ResourceSnapshotFacts<'_>],
) -> Option<Fault> {
    let look = || {
        let (_, policy) = policy_snapshots::keep_up(placement, policy_snapshots)?;
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

fn content(kept: Option<&Kept>) -> Content {
    match kept {
        None => Content::LeftToRuns,
        Some(Kept { index, delayed_until: None, .. }) => Content::UpToDate { index: *index },
        Some(Kept { index, delayed_until: Some(until), .. }) => Content::Delayed { index: *index, until: *until },
    }
}

/// What was not true of this generation before and is now.
fn events(placement: &PlacementFacts<'_>, after: &PlacementStatus) -> Vec<PlacementEvent> {
    let before = placement.status.cloned().unwrap_or_default();
    let became_true =
        |step: &RolloutStep| status::is_true(placement, after, *step) && !status::is_true(placement, &before, *step);
    let mut events: Vec<_> =
        status::expected_steps(placement).iter().copied().filter(became_true).map(event_of).collect();
    if status::is_complete(placement, after) && !status::is_complete(placement, &before) {
        events.push(PlacementEvent::RolloutCompleted);
    }
    events.extend(setback(placement, &before, after));
    events
}

/// What keeps a rollout from going on, if it was not said of this generation and this content before. That resources are not
/// available yet is no news: they have just been applied.
fn setback(
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
        // Before anything is rolled out there is nothing to be held back.
        RolloutStep::RolloutStarted => {
            (has_started(before) || has_started(after)).then_some(PlacementEvent::RolloutBlocked { said })
        }
        // Resources that are being applied are not applied either; only what failed is listed.
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
