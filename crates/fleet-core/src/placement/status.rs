//! The status of a placement: the Scheduled condition, the sums over the picked clusters, and the texts for staged
//! runs.

use fleet_api::conditions::per_cluster::{RolloutStep, Tally};
use fleet_api::conditions::placement::{PlacementRolloutStarted, PlacementScheduled};
use fleet_api::conditions::{ConditionState, ConditionStatus, Finding, put, remove};
use fleet_api::names::Index;
use fleet_api::types::{
    ClusterDecision, PerClusterPlacementStatus, PlacementStatus, PlacementType, ResourceIdentifier,
};
use jiff::Timestamp;

use super::entries::{ALL_STEPS, Entry, EntryContext, Measure, picked, unfilled};
use super::groups::Groups;
use super::observed::{BindingFacts, Observed, PlacementFacts};
use super::policy_snapshots::PolicyInForce;
use super::progress::PlacementProgress;
use super::report::{External, Fault, PlacementOutcome, Progress};

/// The input of a status.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    pub observed: &'a Observed<'a>,
    pub policy: &'a PolicyInForce<'a>,
    /// Master and index of the latest snapshot; `None` if staged runs roll out.
    pub latest: Option<(&'a str, Index)>,
    /// The selected objects, or those in the latest snapshot.
    pub identifiers: Vec<ResourceIdentifier>,
    pub groups: &'a Groups<'a>,
    pub now: Timestamp,
}

/// A status and the outcome that follows from it.
#[derive(Debug)]
pub(super) struct Summary {
    pub status: PlacementStatus,
    pub outcome: PlacementOutcome,
    pub clusters: Vec<(String, Progress)>,
}

/// The steps that clusters of this placement go through.
pub(super) fn expected_steps(placement: &PlacementFacts<'_>) -> &'static [RolloutStep] {
    RolloutStep::expected(placement.spec.apply_strategy())
}

/// Whether all expected conditions of the placement are True.
pub(super) fn is_complete(placement: &PlacementFacts<'_>, status: &PlacementStatus) -> bool {
    PlacementProgress::in_status(placement.spec, placement.scope(), placement.generation, Some(status)).at.is_none()
}

/// Whether a step is True for the whole placement.
pub(super) fn is_true(placement: &PlacementFacts<'_>, status: &PlacementStatus, step: RolloutStep) -> bool {
    let word = step.placement_type_word(placement.scope());
    status.conditions.iter().any(|condition| {
        condition.type_ == word
            && condition.status == ConditionStatus::True
            && condition.observed_generation == placement.generation
    })
}

pub(super) fn summarize(subject: Subject<'_>) -> Result<Summary, Fault> {
    let mut status = subject.observed.placement.status.cloned().unwrap_or_default();
    status.observed_resource_index = subject.latest.map(|(_, index)| index.to_string()).unwrap_or_default();
    status.selected_resources.clone_from(&subject.identifiers);
    let verdict = subject.verdict();
    let scheduled = verdict.status();
    put(&mut status.conditions, verdict, subject.now);
    if scheduled == ConditionStatus::Unknown {
        status.placement_statuses.clear();
        return Ok(Summary { status, outcome: PlacementOutcome::AwaitingScheduler, clusters: Vec::new() });
    }
    let entries = subject.entries();
    let unfilled = subject.unfilled(entries.len())?;
    let clusters = entries.iter().map(|entry| (entry.status.cluster_name.clone(), entry.progress)).collect();
    let outcome = if entries.is_empty() {
        subject.forget_steps(&mut status, 0);
        PlacementOutcome::NoClusters { as_wanted: subject.wants_none() }
    } else if subject.latest.is_some() {
        subject.tally(&mut status, &entries)
    } else {
        subject.external(&mut status, &entries)
    };
    status.placement_statuses = entries.into_iter().map(|entry| entry.status).chain(unfilled).collect();
    let outcome = match outcome {
        PlacementOutcome::Complete if scheduled != ConditionStatus::True => PlacementOutcome::TooFewClusters,
        other => other,
    };
    Ok(Summary { status, outcome, clusters })
}

/// How many clusters the policy names or counts; `None` if it takes all that fit.
fn wanted(placement: &PlacementFacts<'_>) -> Option<i64> {
    let policy = placement.spec.policy.as_ref()?;
    match policy.placement_type() {
        PlacementType::PickAll => None,
        PlacementType::PickN => Some(policy.number_of_clusters.unwrap_or_default().into()),
        PlacementType::PickFixed => {
            let named = policy.cluster_names.as_ref().map_or(0, Vec::len);
            Some(i64::try_from(named).unwrap_or(i64::MAX))
        }
    }
}

/// How many of the wanted clusters were not found.
pub(super) fn missing(placement: &PlacementFacts<'_>, picked: usize) -> Result<usize, Fault> {
    let Some(wanted) = wanted(placement) else { return Ok(0) };
    let missing = wanted.saturating_sub(i64::try_from(picked).unwrap_or(i64::MAX));
    usize::try_from(missing).map_err(|_| Fault::MoreClustersThanWanted { picked, wanted })
}

impl Subject<'_> {
    fn placement(&self) -> &PlacementFacts<'_> {
        &self.observed.placement
    }

    fn verdict(&self) -> Finding {
        let (scope, generation) = (self.placement().scope(), self.placement().generation);
        match self.policy.verdict(self.placement()) {
            Some(condition) => Finding::copied::<PlacementScheduled>(scope, condition, generation),
            None => PlacementScheduled::Pending.finding_in(scope, generation),
        }
    }

    fn decisions(&self, selected: bool) -> impl Iterator<Item = &ClusterDecision> {
        self.policy.decisions(selected)
    }

    fn context(&self) -> EntryContext<'_> {
        EntryContext {
            previous: self.placement().status,
            generation: self.placement().generation,
            steps: expected_steps(self.placement()),
            now: self.now,
        }
    }

    fn entries(&self) -> Vec<Entry> {
        let context = self.context();
        let entry = |decision: &ClusterDecision| {
            let binding = self.binding(&decision.cluster_name);
            let measure = match self.latest {
                Some((master, index)) => Measure::Latest { master, index },
                None => Measure::OwnBinding { index: binding.and_then(|binding| self.index_of(binding)) },
            };
            picked(&context, decision, binding, measure)
        };
        self.decisions(true).map(entry).collect()
    }

    /// The binding of a cluster for the current policy; the first by name if there are several.
    fn binding(&self, cluster: &str) -> Option<&BindingFacts<'_>> {
        let bindings = self.observed.bindings.iter().filter(|binding| {
            binding.cluster == cluster && !binding.deleting && binding.policy_snapshot == self.policy.name
        });
        bindings.min_by_key(|binding| binding.name)
    }

    fn index_of(&self, binding: &BindingFacts<'_>) -> Option<Index> {
        let named = self.observed.resource_snapshots.iter().find(|one| one.name == binding.resource_snapshot);
        named.and_then(|snapshot| snapshot.index)
    }

    fn wants_none(&self) -> bool {
        wanted(self.placement()) == Some(0)
    }

    fn unfilled(&self, picked: usize) -> Result<Vec<PerClusterPlacementStatus>, Fault> {
        let missing = missing(self.placement(), picked)?;
        Ok(unfilled(&self.context(), self.decisions(false).take(missing)))
    }

    fn put(&self, status: &mut PlacementStatus, finding: Finding) {
        put(&mut status.conditions, finding, self.now);
    }

    /// Removes the conditions of steps after `said` expected ones, and of steps that are not expected.
    fn forget_steps(&self, status: &mut PlacementStatus, said: usize) {
        let said = expected_steps(self.placement()).get(..said).unwrap_or_default();
        for step in ALL_STEPS.iter().filter(|step| !said.contains(step)) {
            remove(&mut status.conditions, step.placement_type_word(self.placement().scope()));
        }
    }

    /// Sums up step by step. Undecided clusters take precedence over failed ones, because they may still fail.
    fn tally(&self, status: &mut PlacementStatus, entries: &[Entry]) -> PlacementOutcome {
        let (scope, generation) = (self.placement().scope(), self.placement().generation);
        let any_override = entries.iter().any(|entry| {
            !entry.status.applicable_resource_overrides.is_empty()
                || !entry.status.applicable_cluster_resource_overrides.is_empty()
        });
        let steps = expected_steps(self.placement());
        for (place, &step) in steps.iter().enumerate() {
            let count = |wanted| entries.iter().filter(|entry| entry.reached.contains(&(step, wanted))).count();
            let [unknown, failed, held] =
                [ConditionStatus::Unknown, ConditionStatus::False, ConditionStatus::True].map(count);
            let (decisive, clusters) = match (unknown, failed) {
                (0, 0) => (ConditionStatus::True, held),
                (0, failed) => (ConditionStatus::False, failed),
                (unknown, _) => (ConditionStatus::Unknown, unknown),
            };
            let tally = Tally { status: decisive, clusters, any_override };
            self.put(status, step.summed_up(scope, tally, generation));
            let outcome = match decisive {
                ConditionStatus::True => continue,
                ConditionStatus::False => PlacementOutcome::Failing { step, clusters },
                ConditionStatus::Unknown => PlacementOutcome::Undecided { step, clusters },
            };
            self.forget_steps(status, place + 1);
            return outcome;
        }
        self.forget_steps(status, steps.len());
        PlacementOutcome::Complete
    }

    /// With staged runs, the placement reports a snapshot only if all clusters have the same.
    fn external(&self, status: &mut PlacementStatus, entries: &[Entry]) -> PlacementOutcome {
        let indices = || entries.iter().map(|entry| entry.status.observed_resource_index.as_str());
        let first = indices().next().unwrap_or_default();
        if indices().any(|index| index != first) {
            return self.left_to_runs(status, External::DifferentSnapshots);
        }
        let Some(index) = Index::parse(first) else {
            return self.left_to_runs(status, External::NoSnapshot);
        };
        status.observed_resource_index = index.to_string();
        status.selected_resources = self.groups.identifiers(index);
        let undecided = entries
            .iter()
            .find(|entry| entry.reached.contains(&(RolloutStep::RolloutStarted, ConditionStatus::Unknown)));
        match undecided {
            Some(entry) => {
                let cluster = entry.status.cluster_name.clone();
                self.external_state(status, &External::ClusterUndecided { cluster: cluster.clone() });
                PlacementOutcome::LeftToRuns(External::ClusterUndecided { cluster })
            }
            None => self.tally(status, entries),
        }
    }

    fn left_to_runs(&self, status: &mut PlacementStatus, external: External) -> PlacementOutcome {
        status.observed_resource_index.clear();
        status.selected_resources.clear();
        self.external_state(status, &external);
        PlacementOutcome::LeftToRuns(external)
    }

    fn external_state(&self, status: &mut PlacementStatus, external: &External) {
        let (scope, generation) = (self.placement().scope(), self.placement().generation);
        let state = match external {
            External::DifferentSnapshots => PlacementRolloutStarted::DifferentSnapshots,
            External::NoSnapshot => PlacementRolloutStarted::NoSnapshot { scope },
            External::ClusterUndecided { cluster } => {
                PlacementRolloutStarted::ClusterUndecided { cluster: cluster.clone() }
            }
        };
        self.put(status, state.finding_in(scope, generation));
        self.forget_steps(status, 1);
    }
}
