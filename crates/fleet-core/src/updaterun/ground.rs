//! What a run stands on: its placement, the scheduling policy, and the bindings that the policy led to.
//!
//! Decides, check by check in the order in which they are reported, whether a run may rest on these. Both the first
//! look at a run and every later one go through here. Never looks at stages.

use std::collections::BTreeMap;

use fleet_api::admission::defaults::fill_apply_strategy;
use fleet_api::conditions::decode;
use fleet_api::conditions::policy_snapshot::PolicySnapshotScheduled;
use fleet_api::conditions::run_fault::{ClusterCountProblem, RunFault};
use fleet_api::types::{ApplyStrategy, BindingState, PlacementPolicy, PlacementType, RolloutStrategyType};

use super::halt::Halt;
use super::numbers;
use super::observed::{BindingFacts, Observed, PolicySnapshotFacts};
use super::report::Cause;

/// The apply strategy of the placement, defaults filled in. A placement that is being deleted counts as gone.
pub(super) fn apply_strategy(observed: &Observed<'_>) -> Result<ApplyStrategy, RunFault> {
    let placement = observed.placement.filter(|placement| !placement.deleting).ok_or(RunFault::PlacementNotFound)?;
    let strategy_type = placement.spec.strategy_type();
    if strategy_type != RolloutStrategyType::External {
        return Err(RunFault::StrategyNotExternal { strategy_type: strategy_type.to_string() });
    }
    let given = placement.spec.strategy.as_ref().and_then(|strategy| strategy.apply_strategy.clone());
    let mut strategy = given.unwrap_or_default();
    fill_apply_strategy(&mut strategy);
    Ok(strategy)
}

/// The one policy snapshot that counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy<'a> {
    pub snapshot: &'a PolicySnapshotFacts<'a>,
    pub index: &'a str,
}

/// Old ones and no latest are a policy that is being changed at this moment: what it is changed to is known in the next.
pub(super) fn latest_policy<'a>(observed: &'a Observed<'a>) -> Result<Policy<'a>, Halt> {
    let latest: Vec<_> = observed.policy_snapshots.iter().filter(|snapshot| snapshot.latest).collect();
    let placement = || observed.run.key_of(&observed.run.spec.placement_name);
    match latest[..] {
        [] if !observed.policy_snapshots.is_empty() => Err(Halt::Unknown(Cause::FactsBehind)),
        [] => Err(RunFault::NoPolicySnapshot { placement: placement() }.into()),
        [snapshot] => match snapshot.index {
            Some(index) => Ok(Policy { snapshot, index }),
            None => Err(RunFault::NoPolicyIndex { snapshot: observed.run.key_of(snapshot.name) }.into()),
        },
        _ => Err(RunFault::SeveralPolicySnapshots { placement: placement(), found: latest.len() }.into()),
    }
}

impl Policy<'_> {
    /// How many clusters the policy asks for; `None` where it takes as many as there are.
    pub(super) fn cluster_count(&self, observed: &Observed<'_>) -> Result<Option<i64>, RunFault> {
        match self.snapshot.policy.map(PlacementPolicy::placement_type).unwrap_or_default() {
            PlacementType::PickAll => Ok(None),
            PlacementType::PickFixed => {
                let names = self.snapshot.policy.and_then(|policy| policy.cluster_names.as_deref());
                Ok(Some(names.map_or(0, <[_]>::len).try_into().unwrap_or(i64::MAX)))
            }
            PlacementType::PickN => match count(self.snapshot.number_of_clusters) {
                Ok(count) => Ok(Some(count)),
                Err(why) => Err(RunFault::NoClusterCount { why, snapshot: observed.run.key_of(self.snapshot.name) }),
            },
        }
    }

    pub(super) fn check_scheduled(&self) -> Result<(), RunFault> {
        let scheduled = decode::<PolicySnapshotScheduled>(self.snapshot.conditions, self.snapshot.generation);
        if scheduled.is_true() {
            return Ok(());
        }
        Err(RunFault::NotFullyScheduled { snapshot_name: self.snapshot.name.to_owned() })
    }
}

fn count(text: Option<&str>) -> Result<i64, ClusterCountProblem> {
    let value = text.ok_or(ClusterCountProblem::Missing)?;
    match numbers::integer(value) {
        Ok(count) if count >= 0 => Ok(count),
        read => Err(ClusterCountProblem::not_a_count(value, read.err())),
    }
}

/// The bindings of a run's placement, by what the run has to do with them.
#[derive(Debug)]
pub(super) struct Targets<'a> {
    /// By cluster: those that get the content.
    pub selected: BTreeMap<&'a str, &'a BindingFacts<'a>>,
    /// By cluster: those that are removed in the end.
    pub leaving: BTreeMap<&'a str, &'a BindingFacts<'a>>,
    /// How many bindings are selected; equals the clusters unless one has two.
    selected_count: usize,
}

impl<'a> Targets<'a> {
    /// Fails while the scheduler is still moving bindings to the latest policy.
    pub(super) fn of(observed: &'a Observed<'a>, policy: Policy<'_>) -> Result<Self, RunFault> {
        let mut bindings: Vec<_> = observed.bindings.iter().collect();
        bindings.sort_unstable_by_key(|binding| binding.name);
        let mut targets = Self { selected: BTreeMap::new(), leaving: BTreeMap::new(), selected_count: 0 };
        for binding in bindings {
            if *binding.state == BindingState::Unscheduled {
                targets.leaving.insert(binding.cluster, binding);
            } else if binding.policy_snapshot == policy.snapshot.name {
                targets.selected.insert(binding.cluster, binding);
                targets.selected_count += 1;
            } else {
                return Err(RunFault::BindingOfOldPolicy {
                    old_binding: observed.run.key_of(binding.name),
                    snapshot: observed.run.key_of(binding.policy_snapshot),
                    state: binding.state.to_string(),
                });
            }
        }
        Ok(targets)
    }

    pub(super) fn check_any(&self, observed: &Observed<'_>, policy: Policy<'_>) -> Result<(), RunFault> {
        if self.selected.is_empty() && self.leaving.is_empty() {
            return Err(RunFault::NoBindings { snapshot: observed.run.key_of(policy.snapshot.name) });
        }
        Ok(())
    }

    /// The number of clusters, which must be the wanted one where there is such.
    pub(super) fn check_count(&self, wanted: Option<i64>) -> Result<i64, RunFault> {
        let selected = i64::try_from(self.selected_count).unwrap_or(i64::MAX);
        match wanted {
            Some(observed) if observed != selected => {
                Err(RunFault::BindingCountDiffers { selected: self.selected_count, observed })
            }
            _ => Ok(selected),
        }
    }
}
