//! The status of the policy snapshot: the Scheduled condition, and a decision with its reason for each cluster.

use std::collections::BTreeSet;

use fleet_api::conditions::policy_snapshot::PolicySnapshotScheduled;
use fleet_api::conditions::{ConditionState, Reason, decode_ignoring_generation, put};
use fleet_api::types::{ClusterDecision, ClusterScore, SchedulingPolicySnapshotStatus};
use jiff::Timestamp;

use super::affinity::unusable_properties;
use super::eligibility::Ineligible;
use super::observed::{ClusterFacts, PolicyFacts};
use super::report::{Fault, Rejection};
use super::score::Score;
use super::{Cycle, Fleet};

/// Maximum number of decisions in a status; the schema allows no more.
const LISTED_DECISIONS: usize = 1000;
/// Maximum number of unpicked clusters that are explained.
const EXPLAINED_CLUSTERS: usize = 20;

/// The decision for a picked cluster; named clusters have no score.
pub(super) fn picked(cluster: &str, score: Option<Score>) -> ClusterDecision {
    let scores = score.map(|score| format!(" ({})", scores(score))).unwrap_or_default();
    ClusterDecision {
        cluster_name: cluster.to_owned(),
        selected: true,
        cluster_score: score.map(ClusterScore::from),
        reason: format!(
            "Successfully scheduled resources for placement in \"{cluster}\"{scores}: picked by scheduling policy"
        ),
    }
}

fn not_picked(cluster: &str, score: Score) -> ClusterDecision {
    ClusterDecision {
        cluster_name: cluster.to_owned(),
        selected: false,
        cluster_score: Some(score.into()),
        reason: format!("Cluster \"{cluster}\" does not score high enough ({})", scores(score)),
    }
}

fn rejected(cluster: &str, rejection: &Rejection) -> ClusterDecision {
    refused(cluster, format!("ClusterUnschedulable, {rejection}"))
}

/// A cluster that the policy names and that is not eligible.
pub(super) fn not_eligible(cluster: &str, why: Ineligible) -> ClusterDecision {
    refused(cluster, format!("Cluster \"{cluster}\" is not eligible for resource placement yet: {why}"))
}

/// A cluster that the policy names and that does not exist.
pub(super) fn not_found(cluster: &str) -> ClusterDecision {
    refused(cluster, format!("Specified cluster \"{cluster}\" is not found"))
}

fn refused(cluster: &str, reason: String) -> ClusterDecision {
    ClusterDecision { cluster_name: cluster.to_owned(), selected: false, cluster_score: None, reason }
}

fn scores(score: Score) -> String {
    format!("affinity score: {}, topology spread score: {}", score.affinity, score.topology_spread)
}

impl From<Score> for ClusterScore {
    fn from(score: Score) -> Self {
        Self { affinity_score: Some(score.affinity), topology_spread_score: Some(score.topology_spread) }
    }
}

/// Decisions on unselected clusters: first those that scored too low, the best first, then those that do not fit, by
/// name. A cluster that is selected after all is left out, but uses up one of the places of those that do not fit.
pub(super) fn explanations<'c>(
    selected: &[&ClusterDecision],
    scored_too_low: impl Iterator<Item = (&'c str, Score)>,
    do_not_fit: impl Iterator<Item = (&'c str, &'c Rejection)>,
) -> Vec<ClusterDecision> {
    let listed = selected.iter().take(LISTED_DECISIONS);
    let names: BTreeSet<&str> = listed.map(|decision| decision.cluster_name.as_str()).collect();
    let slots = LISTED_DECISIONS.saturating_sub(selected.len());
    let mut explained: Vec<ClusterDecision> = scored_too_low
        .filter(|(cluster, _)| !names.contains(cluster))
        .take(EXPLAINED_CLUSTERS.min(slots))
        .map(|(cluster, score)| not_picked(cluster, score))
        .collect();
    let (allowance, slots) = (EXPLAINED_CLUSTERS - explained.len(), slots - explained.len());
    let rest = do_not_fit.take(allowance).filter(|(cluster, _)| !names.contains(cluster)).take(slots);
    explained.extend(rest.map(|(cluster, rejection)| rejected(cluster, rejection)));
    explained
}

/// Maximum number of values that the condition names.
const NAMED_VALUES: usize = 3;

/// The Scheduled condition. It names reported values that the policy cannot use. It depends only on the number of
/// clusters, the policy and the fleet, so it stays the same although clusters are not examined in every plan.
pub(super) fn scheduled(cycle: &Cycle<'_>, found: usize, wanted: usize) -> PolicySnapshotScheduled {
    let of_cluster = |cluster: &&ClusterFacts<'_>| {
        let name = cluster.name.clone();
        let properties = unusable_properties(cycle.policy.policy, cluster).into_iter();
        properties.map(move |property| format!("property {property:?} of cluster {:?}", name.as_str()))
    };
    let mut named: Vec<String> = cycle.fleet.clusters.iter().flat_map(of_cluster).collect();
    let more = named.len().saturating_sub(NAMED_VALUES);
    named.truncate(NAMED_VALUES);
    let ignored = named.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() };
    match (found >= wanted, ignored.is_empty()) {
        (true, true) => PolicySnapshotScheduled::Fulfilled { clusters: found },
        (true, false) => PolicySnapshotScheduled::FulfilledIgnoring { clusters: found, ignored },
        (false, true) => PolicySnapshotScheduled::Unfulfilled { clusters: found },
        (false, false) => PolicySnapshotScheduled::UnfulfilledIgnoring { clusters: found, ignored },
    }
}

/// The content of a new status.
#[derive(Debug)]
pub(super) struct Findings<'d> {
    pub scheduled: PolicySnapshotScheduled,
    pub selected: Vec<&'d ClusterDecision>,
    pub explained: Explained<'d>,
}

/// Why clusters are not selected.
#[derive(Debug)]
pub(super) enum Explained<'d> {
    /// Computed by this plan.
    Anew(Vec<ClusterDecision>),
    /// No cluster was examined. Stored explanations stay while the same clusters are selected and the explained ones
    /// exist.
    AsBefore(&'d Fleet<'d>),
}

impl Explained<'_> {
    /// The explanations: new ones, or those in `before` if they belong to the same selection.
    fn entries<'s>(&'s self, before: &'s [ClusterDecision], same_selected: bool) -> Vec<&'s ClusterDecision> {
        match self {
            Self::Anew(explained) => explained.iter().collect(),
            Self::AsBefore(fleet) if same_selected => {
                before.iter().filter(|one| !one.selected && fleet.find(&one.cluster_name).is_some()).collect()
            }
            Self::AsBefore(_) => Vec::new(),
        }
    }
}

/// The new status, unless the stored one is equivalent.
pub(super) fn status(
    policy: &PolicyFacts<'_>,
    findings: &Findings<'_>,
    now: Timestamp,
) -> Result<Option<SchedulingPolicySnapshotStatus>, Fault> {
    let generation =
        policy.placement_generation.ok_or_else(|| Fault::PlacementGeneration { snapshot: policy.name.to_owned() })?;
    let old = policy.status;
    if old.is_some_and(|old| old.observed_crp_generation == generation && says(old, findings, policy.generation)) {
        return Ok(None);
    }
    let mut conditions = old.map(|old| old.conditions.clone()).unwrap_or_default();
    put(&mut conditions, findings.scheduled.finding(policy.generation), now);
    let target_clusters = findings.decisions(old);
    Ok(Some(SchedulingPolicySnapshotStatus { observed_crp_generation: generation, conditions, target_clusters }))
}

/// The stored status with the new decisions only. It is written before the bindings of picked clusters: a scheduler
/// that stops between the last binding and the status does not examine other clusters again, and finds the
/// explanations there. `None` if there is nothing to explain or it is stored already.
pub(super) fn status_before_picks(
    policy: &PolicyFacts<'_>,
    findings: &Findings<'_>,
) -> Option<SchedulingPolicySnapshotStatus> {
    let old = policy.status.filter(|_| policy.placement_generation.is_some());
    let target_clusters = findings.decisions(old);
    let explains = target_clusters.iter().any(|one| !one.selected);
    let is_there = old.is_some_and(|old| keys(&sorted(&old.target_clusters)) == keys(&sorted(&target_clusters)));
    (policy.placement_generation.is_some() && explains && !is_there)
        .then(|| SchedulingPolicySnapshotStatus { target_clusters, ..old.cloned().unwrap_or_default() })
}

impl Findings<'_> {
    fn decisions(&self, old: Option<&SchedulingPolicySnapshotStatus>) -> Vec<ClusterDecision> {
        let before = old.map(|old| old.target_clusters.as_slice()).unwrap_or_default();
        let listed = self.selected.iter().copied().take(LISTED_DECISIONS);
        let explained = self.explained.entries(before, self.selects_the_same(before));
        listed.chain(explained).cloned().collect()
    }

    fn selects_the_same(&self, before: &[ClusterDecision]) -> bool {
        let selected: Vec<_> = before.iter().filter(|one| one.selected).collect();
        let wanted = sorted(self.selected.iter().copied());
        selected.len() == wanted.len().min(LISTED_DECISIONS)
            && if wanted.len() <= LISTED_DECISIONS {
                keys(&sorted(selected.iter().copied())) == keys(&wanted)
            } else {
                selected.iter().all(|one| wanted.binary_search_by(|other| key(other).cmp(&key(one))).is_ok())
            }
    }
}

/// Whether a status has these findings. The order of decisions, the choice of the listed thousand, and the age of a
/// lost heartbeat do not count, because they would differ each time.
fn says(status: &SchedulingPolicySnapshotStatus, findings: &Findings<'_>, generation: i64) -> bool {
    let decoded = decode_ignoring_generation::<PolicySnapshotScheduled>(&status.conditions);
    let same_condition = decoded.any().is_some_and(|condition| {
        let reason = findings.scheduled.reason();
        condition.status == reason.status()
            && condition.reason == reason.word()
            && condition.observed_generation >= generation
            && condition.message == findings.scheduled.message()
    });
    let same_selected = findings.selects_the_same(&status.target_clusters);
    let explained = sorted(status.target_clusters.iter().filter(|one| !one.selected));
    let wanted = findings.explained.entries(&status.target_clusters, same_selected);
    same_condition && same_selected && keys(&explained) == keys(&sorted(wanted))
}

type Key<'d> = (&'d str, bool, Option<ClusterScore>, &'d str);

fn key(decision: &ClusterDecision) -> Key<'_> {
    (&decision.cluster_name, decision.selected, decision.cluster_score, without_age(&decision.reason))
}

/// A reason without the part about the age.
fn without_age(reason: &str) -> &str {
    reason.split_once(Ineligible::AGE_OPENS).map_or(reason, |(before, _)| before)
}

fn keys<'d>(decisions: &[&'d ClusterDecision]) -> Vec<Key<'d>> {
    decisions.iter().map(|decision| key(decision)).collect()
}

fn sorted<'d>(decisions: impl IntoIterator<Item = &'d ClusterDecision>) -> Vec<&'d ClusterDecision> {
    let mut all: Vec<_> = decisions.into_iter().collect();
    all.sort_unstable_by(|one, another| key(one).cmp(&key(another)));
    all
}
