//! What the policy snapshot's status says: the condition, and a decision with its reason per cluster.
//!
//! Decides texts, order and limits of the decisions, and whether there is anything new to write. Never decides about a
//! cluster.

use std::collections::BTreeSet;

use fleet_api::conditions::policy_snapshot::PolicySnapshotScheduled;
use fleet_api::conditions::{ConditionState, Reason, decode_ignoring_generation, put};
use fleet_api::types::{ClusterDecision, ClusterScore, SchedulingPolicySnapshotStatus};
use jiff::Timestamp;

use super::eligibility::Ineligible;
use super::observed::PolicyFacts;
use super::report::{Fault, Rejection};
use super::score::Score;

/// Most decisions that a status lists; the schema allows no more.
const LISTED_DECISIONS: usize = 1000;
/// Most clusters that are explained though not picked: enough to see why, few enough to read.
const EXPLAINED_CLUSTERS: usize = 20;

/// The decision to place on a cluster; named clusters have no score.
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

/// A cluster that the policy names and that can take nothing now.
pub(super) fn not_eligible(cluster: &str, why: Ineligible) -> ClusterDecision {
    refused(cluster, format!("Cluster \"{cluster}\" is not eligible for resource placement yet: {why}"))
}

/// A cluster that the policy names and the fleet does not have.
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

/// Decisions on clusters that are not selected: first those that scored too low, the best first, then those that do not
/// fit, by name. A cluster that is selected all the same is left out, but takes up its place among those that do not fit.
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

/// What is to be said about a policy.
#[derive(Debug)]
pub(super) struct Findings<'d> {
    pub scheduled: PolicySnapshotScheduled,
    pub selected: Vec<&'d ClusterDecision>,
    /// `None` where no cluster was examined: what the status explains may stay while nothing else changes.
    pub explained: Option<Vec<ClusterDecision>>,
}

/// The new status, unless the present one says it all.
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
    let listed = findings.selected.iter().copied().take(LISTED_DECISIONS);
    let explained = findings.explained.iter().flatten();
    let target_clusters = listed.chain(explained).cloned().collect();
    Ok(Some(SchedulingPolicySnapshotStatus { observed_crp_generation: generation, conditions, target_clusters }))
}

/// Whether a status has these findings. It does not matter in which order decisions stand, which thousand of more are
/// listed, or how long ago the last sign of a lost cluster was: that would be new each time.
fn says(status: &SchedulingPolicySnapshotStatus, findings: &Findings<'_>, generation: i64) -> bool {
    let decoded = decode_ignoring_generation::<PolicySnapshotScheduled>(&status.conditions);
    let same_condition = decoded.any().is_some_and(|condition| {
        let reason = findings.scheduled.reason();
        condition.status == reason.status()
            && condition.reason == reason.word()
            && condition.observed_generation >= generation
    });
    let (selected, explained): (Vec<_>, Vec<_>) = status.target_clusters.iter().partition(|one| one.selected);
    let wanted = sorted(findings.selected.iter().copied());
    let same_selected = selected.len() == wanted.len().min(LISTED_DECISIONS)
        && if wanted.len() <= LISTED_DECISIONS {
            keys(&sorted(selected.iter().copied())) == keys(&wanted)
        } else {
            selected.iter().all(|one| wanted.binary_search_by(|other| key(other).cmp(&key(one))).is_ok())
        };
    let same_explained =
        findings.explained.as_ref().is_none_or(|wanted| keys(&sorted(explained)) == keys(&sorted(wanted)));
    same_condition && same_selected && same_explained
}

type Key<'d> = (&'d str, bool, Option<ClusterScore>, &'d str);

fn key(decision: &ClusterDecision) -> Key<'_> {
    (&decision.cluster_name, decision.selected, decision.cluster_score, without_age(&decision.reason))
}

/// A reason up to the point where it says how long ago something was.
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
