//! The first look at a run: is everything there, who is updated when, and with what.
//!
//! Decides step by step; what a step finds out is recorded at once, so that a failure shows how far it came. A failure is for
//! good, but for what is merely not known yet. Never moves a binding.

use fleet_api::conditions::run_fault::{RunFailure, RunFault};
use fleet_api::conditions::update_run::UpdateRunInitialized;

use super::content;
use super::ground::{self, Targets};
use super::halt::Halt;
use super::pass::Pass;
use super::{stages, task_rules};

/// Fills the status; what the run then stands on is returned.
pub(super) fn initialize<'a>(pass: &mut Pass<'a>) -> Result<Targets<'a>, Halt> {
    let targets = record(pass);
    match &targets {
        Ok(_) => pass.say(&UpdateRunInitialized::Initialized),
        Err(Halt::Fault(fault)) if fault.is_terminal() && pass.observed.settled => {
            let cause = RunFailure::from(fault.clone());
            pass.say(&UpdateRunInitialized::Failed { cause });
        }
        Err(_) => {}
    }
    targets
}

/// Shown while the number of clusters is not known yet.
const NOT_COUNTED: i64 = -1;

fn record<'a>(pass: &mut Pass<'a>) -> Result<Targets<'a>, Halt> {
    let observed = pass.observed;
    let status = &mut pass.status;
    status.apply_strategy = Some(ground::apply_strategy(observed)?);

    let policy = ground::latest_policy(observed)?;
    policy.index.clone_into(&mut status.policy_snapshot_index_used);
    let wanted = policy.cluster_count(observed)?;
    status.policy_observed_cluster_count = nonzero(wanted.unwrap_or(NOT_COUNTED));
    policy.check_scheduled()?;

    let targets = Targets::of(observed, policy)?;
    targets.check_any(observed, policy)?;
    status.policy_observed_cluster_count = nonzero(targets.check_count(wanted)?);

    let key = observed.run.key_of(&observed.run.spec.staged_update_strategy_name);
    let strategy = observed.strategy.ok_or(RunFault::StrategyNotFound { strategy: key })?;
    let mut copy = task_rules::recorded(strategy);
    status.staged_update_strategy_snapshot = Some(copy.clone());
    let computed = stages::compute(observed, strategy, &targets)?;
    task_rules::drop_waits_of_approvals(&mut copy);
    status.staged_update_strategy_snapshot = Some(copy);
    status.stages_status = computed;
    stages::check_all_placed(&status.stages_status, &targets)?;
    status.deletion_stage_status = Some(stages::delete_stage(&targets));

    content::choose(pass)?;
    Ok(targets)
}

/// Zero is left out on the wire.
fn nonzero(count: i64) -> Option<i64> {
    Some(count).filter(|count| *count != 0)
}
