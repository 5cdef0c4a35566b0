//! The ranking of clusters: by spread, then preferences, then an existing binding of an older policy, then the name
//! in reverse alphabetical order.

use std::collections::BTreeMap;

use super::report::{Fault, Rejection};
use super::topology::{Spread, Violation};

/// The score of a cluster. Greater is better; the order of the fields is the order of comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score {
    pub topology_spread: i32,
    pub affinity: i32,
}

/// A cluster that may be picked, without the spread. The derived order is the rank within a group, because the fleet
/// is sorted by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    affinity: i32,
    carries_older_policy: bool,
    cluster: usize,
}

/// The candidates, ranked.
#[derive(Debug)]
pub(super) struct Race<'p> {
    spread: Spread<'p>,
    /// Per group of the spread.
    groups: Vec<Group>,
    /// The best candidate of each group, side by side because all of them are compared for every pick.
    fronts: Vec<Option<Candidate>>,
    /// Why the first cluster of a group cannot be scored. It matters only when the group is scored.
    faults: BTreeMap<usize, Fault>,
    any_carries_older_policy: bool,
}

#[derive(Debug, Default)]
struct Group {
    /// In ascending rank, without the best.
    candidates: Vec<Candidate>,
    /// Clusters that cannot be scored.
    unscorable: Vec<usize>,
}

/// The spread score of each group for the next pick.
pub(super) type GroupScores = Vec<Result<i32, Violation>>;

/// The clusters that were not picked, by position in the fleet.
#[derive(Debug)]
pub(super) struct Rest {
    /// The best first.
    pub(super) too_low: Vec<(usize, Score)>,
    /// In no particular order.
    pub(super) turned_away: Vec<(usize, Rejection)>,
}

impl<'p> Race<'p> {
    pub(super) fn new(spread: Spread<'p>) -> Self {
        let groups: Vec<Group> = (0..spread.group_count()).map(|_| Group::default()).collect();
        let fronts = vec![None; groups.len()];
        Self { spread, groups, fronts, faults: BTreeMap::new(), any_carries_older_policy: false }
    }

    pub(super) fn spread(&self) -> &Spread<'p> {
        &self.spread
    }

    pub(super) fn enter(&mut self, cluster: usize, affinity: Result<i32, Fault>, carries_older_policy: bool) {
        let index = self.spread.group_of(cluster);
        let group = &mut self.groups[index];
        self.any_carries_older_policy |= carries_older_policy;
        match affinity {
            Ok(affinity) => group.candidates.push(Candidate { affinity, carries_older_policy, cluster }),
            Err(fault) => {
                group.unscorable.push(cluster);
                self.faults.entry(index).or_insert(fault);
            }
        }
    }

    pub(super) fn line_up(&mut self) {
        for (group, front) in self.groups.iter_mut().zip(&mut self.fronts) {
            group.candidates.extend(front.take());
            group.candidates.sort_unstable();
            *front = group.candidates.pop();
        }
    }

    /// From here on, an existing binding of an older policy does not count.
    pub(super) fn forget_older_policy(&mut self) {
        if !std::mem::take(&mut self.any_carries_older_policy) {
            return;
        }
        let behind = self.groups.iter_mut().flat_map(|group| &mut group.candidates);
        for candidate in behind.chain(self.fronts.iter_mut().flatten()) {
            candidate.carries_older_policy = false;
        }
        self.line_up();
    }

    /// The spread scores before the next pick.
    pub(super) fn group_scores(&self) -> Result<GroupScores, Fault> {
        let group_scores: GroupScores = (0..self.groups.len()).map(|group| self.spread.score(group)).collect();
        match self.faults.iter().find(|(group, _)| group_scores[**group].is_ok()) {
            Some((_, fault)) => Err(fault.clone()),
            None => Ok(group_scores),
        }
    }

    /// Removes and returns the best cluster.
    pub(super) fn take_best(&mut self, group_scores: &GroupScores) -> Option<(usize, Score)> {
        let fronts = self.fronts.iter().zip(group_scores).enumerate();
        let best = fronts.filter_map(|(group, (front, score))| Some((score.ok()?, (*front)?, group))).max();
        let (topology_spread, candidate, group) = best?;
        self.fronts[group] = self.groups[group].candidates.pop();
        self.spread.place(group);
        Some((candidate.cluster, Score { topology_spread, affinity: candidate.affinity }))
    }

    /// The remaining clusters: scored too low, or rejected by the spread.
    pub(super) fn rest(self, group_scores: &GroupScores) -> Rest {
        let mut scored = Vec::new();
        let mut turned_away = Vec::new();
        for ((group, front), verdict) in self.groups.into_iter().zip(self.fronts).zip(group_scores) {
            let candidates = group.candidates.into_iter().chain(front);
            match *verdict {
                Ok(score) => scored.extend(candidates.map(|candidate| (score, candidate))),
                Err(violation) => {
                    let rejection = self.spread.rejection(violation);
                    let clusters = candidates.map(|candidate| candidate.cluster).chain(group.unscorable);
                    turned_away.extend(clusters.map(|cluster| (cluster, rejection.clone())));
                }
            }
        }
        scored.sort_unstable_by(|one, another| another.cmp(one));
        let rank = |(topology_spread, candidate): (i32, Candidate)| {
            (candidate.cluster, Score { topology_spread, affinity: candidate.affinity })
        };
        Rest { too_low: scored.into_iter().map(rank).collect(), turned_away }
    }
}
