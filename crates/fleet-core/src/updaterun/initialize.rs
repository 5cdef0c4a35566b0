//! The first plan of a run: checks the prerequisites and records the stages, the resource snapshot and the overrides. A
//! failure is final, unless it only means that the observation is incomplete.

use fleet_api::conditions::run_fault::{RunFailure, RunFault};
use fleet_api::conditions::update_run::UpdateRunInitialized;
use fleet_api::names::Index;
use fleet_api::types::{ClusterUpdatingStatus, EmbeddedObject};

use super::context::{PlanContext, StepError};
use super::observed::Unmatched;
use super::prerequisites::{self, Targets};
use super::report::Cause;
use super::{Write, stages};
use crate::placement::{self, NoRunSnapshot, RunSnapshot, SelectionError, WantedSnapshot, snapshot_for_run};

/// Records everything in the status. Each step records its result at once, so that a failure shows how far it got.
pub(super) fn initialize<'a>(context: &mut PlanContext<'a>) -> Result<Targets<'a>, StepError> {
    let targets = record(context);
    match &targets {
        Ok(_) => context.set_condition(&UpdateRunInitialized::Initialized),
        Err(StepError::Fault(fault)) if fault.is_terminal() && context.observed.confirmed => {
            let cause = RunFailure::from(fault.clone());
            context.set_condition(&UpdateRunInitialized::Failed { cause });
        }
        Err(_) => {}
    }
    targets
}

/// Recorded while the number of clusters is unknown.
const NOT_COUNTED: i64 = -1;

fn record<'a>(context: &mut PlanContext<'a>) -> Result<Targets<'a>, StepError> {
    let observed = context.observed;
    let status = &mut context.status;
    status.apply_strategy = Some(prerequisites::apply_strategy(observed)?);

    let policy = prerequisites::latest_policy(observed)?;
    policy.index.clone_into(&mut status.policy_snapshot_index_used);
    let wanted = policy.cluster_count(observed)?;
    status.policy_observed_cluster_count = nonzero(wanted.unwrap_or(NOT_COUNTED));
    policy.check_scheduled()?;

    let targets = Targets::of(observed, policy)?;
    targets.check_any(observed, policy)?;
    status.policy_observed_cluster_count = nonzero(targets.check_count(wanted)?);

    let key = observed.run.key_of(&observed.run.spec.staged_update_strategy_name);
    let strategy = observed.strategy.ok_or(RunFault::StrategyNotFound { strategy: key })?;
    let mut copy = prerequisites::normalized(strategy);
    status.staged_update_strategy_snapshot = Some(copy.clone());
    let computed = stages::compute(observed, strategy, &targets)?;
    prerequisites::drop_approval_wait_times(&mut copy);
    status.staged_update_strategy_snapshot = Some(copy);
    status.stages_status = computed;
    stages::check_all_placed(&status.stages_status, &targets)?;
    status.deletion_stage_status = Some(stages::delete_stage(&targets));

    choose_content(context)?;
    Ok(targets)
}

/// Zero is omitted on the wire.
fn nonzero(count: i64) -> Option<i64> {
    Some(count).filter(|count| *count != 0)
}

/// Records the resource snapshot and the overrides of each cluster. Both are fixed for the whole run.
fn choose_content(context: &mut PlanContext<'_>) -> Result<(), StepError> {
    let content = context.observed.content.ok_or(StepError::Unknown(Cause::ObservationStale))?;
    let wanted = wanted_snapshot(context)?;
    let snapshot = snapshot_for_run(content, wanted).map_err(|none| selection_error(context, none))?;
    context.status.resource_snapshot_index_used = snapshot.index.to_string();
    let resources = resources_of(content, &snapshot);
    let result = record_overrides(context, &resources);
    context.writes.extend(snapshot.writes.into_iter().map(Write::Content));
    result
}

fn wanted_snapshot(context: &PlanContext<'_>) -> Result<WantedSnapshot, RunFault> {
    let run = &context.observed.run;
    let raw = run.spec.resource_snapshot_index();
    if raw.is_empty() {
        return Ok(WantedSnapshot::Current);
    }
    let invalid = || RunFault::InvalidSnapshotIndex { index: raw.to_owned() };
    let number = stages::integer(raw).ok().and_then(|number| u64::try_from(number).ok()).ok_or_else(invalid)?;
    // Snapshots are looked up by the unchanged text: `01` is a number, but never the index of a snapshot.
    let not_found = || RunFault::SnapshotNotFound { index: number, placement: run.key_of(&run.spec.placement_name) };
    Index::parse(raw).map(WantedSnapshot::Index).ok_or_else(not_found)
}

fn selection_error(context: &PlanContext<'_>, none: NoRunSnapshot) -> StepError {
    let placement = context.observed.run.key_of(&context.observed.run.spec.placement_name);
    match none {
        NoRunSnapshot::Missing { index } => RunFault::SnapshotNotFound { index: u64::from(index.0), placement }.into(),
        NoRunSnapshot::WithoutMaster { .. } => RunFault::NoMasterSnapshot { placement }.into(),
        NoRunSnapshot::Selection(SelectionError::User(invalid)) => {
            RunFault::ResourcesNotSelectable { error: invalid.to_string() }.into()
        }
        NoRunSnapshot::Selection(SelectionError::Incomplete { resource }) => {
            StepError::Unknown(Cause::ContentUnknown { resource })
        }
        NoRunSnapshot::Selection(SelectionError::Undiscovered { part }) => {
            StepError::Unknown(Cause::ContentUnknown { resource: part.to_string() })
        }
        NoRunSnapshot::Stopped(fault) => RunFault::RequestFailed { error: fault.to_string() }.into(),
    }
}

/// All resources of the chosen snapshot group, existing or about to be created.
fn resources_of<'r>(content: &placement::Observed<'r>, snapshot: &'r RunSnapshot) -> Vec<&'r EmbeddedObject> {
    let there = content.resource_snapshots.iter().filter(|one| one.index == Some(snapshot.index));
    let there = there.flat_map(|one| one.resources);
    let created = snapshot.writes.iter().filter_map(|write| match write {
        placement::Write::CreateResourceSnapshot(new) => Some(&new.resources),
        _ => None,
    });
    there.chain(created.flatten()).collect()
}

fn record_overrides(context: &mut PlanContext<'_>, resources: &[&EmbeddedObject]) -> Result<(), StepError> {
    let mut clusters: Vec<&mut ClusterUpdatingStatus> =
        context.status.stages_status.iter_mut().flat_map(|stage| &mut stage.clusters).collect();
    let names: Vec<&str> = clusters.iter().map(|cluster| cluster.cluster_name.as_str()).collect();
    let matched = context.observed.overrides.matching(resources, &names);
    let matched = matched.map_err(|unmatched| match unmatched {
        Unmatched::NotSnapshotted { name } => StepError::Unknown(Cause::OverrideNotSnapshotted { name }),
        Unmatched::Undiscovered { kind } => StepError::Unknown(Cause::ContentUnknown { resource: kind }),
        Unmatched::Invalid(error) => RunFault::OverridesNotFound { error }.into(),
    })?;
    for (cluster, mut matched) in clusters.iter_mut().zip(matched) {
        matched.cluster_overrides.sort_unstable();
        matched
            .overrides
            .sort_unstable_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        cluster.cluster_resource_override_snapshots = matched.cluster_overrides;
        cluster.resource_override_snapshots = matched.overrides;
    }
    Ok(())
}
