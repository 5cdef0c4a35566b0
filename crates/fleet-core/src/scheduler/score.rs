//! Which of several clusters is better, and in what order they are taken.
//!
//! Decides the order: spread first, then preferences, then who carries the placement under an older policy, then the name,
//! the last of the alphabet winning. Never decides who may take part.

use super::report::{Fault, Rejection};
use super::topology::{Spread, Violation};

/// What a cluster is worth. Greater is better; the order of the fields is the order of comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score {
    pub topology_spread: i32,
    pub affinity: i32,
}

/// A cluster that may be picked, apart from the spread. The derived order is that of rank within a group, because
/// positions in the fleet are those of the sorted names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    affinity: i32,
    carries_older_policy: bool,
    cluster: usize,
}

/// Clusters waiting to be picked, the best one first.
#[derive(Debug)]
pub(super) struct Race<'p> {
    spread: Spread<'p>,
    /// Per group of the spread.
    groups: Vec<Group>,
}

#[derive(Debug, Default)]
struct Group {
    /// In ascending rank.
    candidates: Vec<Candidate>,
    /// Clusters that cannot be scored, and why the first of them cannot. It matters once the group is scored at all.
    unscorable: Vec<usize>,
    fault: Option<Fault>,
}

/// What the spread says about each group for the next pick.
pub(super) type Standing = Vec<Result<i32, Violation>>;

/// Those that were not picked, by position in the fleet.
#[derive(Debug)]
pub(super) struct Rest {
    /// The best first.
    pub(super) too_low: Vec<(usize, Score)>,
    /// In no particular order.
    pub(super) turned_away: Vec<(usize, Rejection)>,
}

impl<'p> Race<'p> {
    pub(super) fn new(spread: Spread<'p>) -> Self {
        let groups = (0..spread.group_count()).map(|_| Group::default()).collect();
        Self { spread, groups }
    }

    pub(super) fn spread(&self) -> &Spread<'p> {
        &self.spread
    }

    pub(super) fn enter(&mut self, cluster: usize, affinity: Result<i32, Fault>, carries_older_policy: bool) {
        let group = &mut self.groups[self.spread.group_of(cluster)];
        match affinity {
            Ok(affinity) => group.candidates.push(Candidate { affinity, carries_older_policy, cluster }),
            Err(fault) => {
                group.unscorable.push(cluster);
                group.fault.get_or_insert(fault);
            }
        }
    }

    pub(super) fn line_up(&mut self) {
        for group in &mut self.groups {
            group.candidates.sort_unstable();
        }
    }

    /// From here on it counts for nothing to carry the placement under an older policy.
    pub(super) fn forget_older_policy(&mut self) {
        for group in &mut self.groups {
            if group.candidates.iter().any(|candidate| candidate.carries_older_policy) {
                group.candidates.iter_mut().for_each(|candidate| candidate.carries_older_policy = false);
                group.candidates.sort_unstable();
            }
        }
    }

    /// How the groups stand before the next pick.
    pub(super) fn standing(&self) -> Result<Standing, Fault> {
        let judge = |(index, group): (usize, &Group)| {
            let score = self.spread.score(index);
            match &group.fault {
                Some(fault) if score.is_ok() => Err(fault.clone()),
                _ => Ok(score),
            }
        };
        self.groups.iter().enumerate().map(judge).collect()
    }

    /// Takes out the best cluster.
    pub(super) fn take_best(&mut self, standing: &Standing) -> Option<(usize, Score)> {
        let front = |(index, group): (usize, &Group)| {
            let topology_spread = standing[index].ok()?;
            group.candidates.last().map(|candidate| (topology_spread, *candidate, index))
        };
        let (topology_spread, candidate, group) = self.groups.iter().enumerate().filter_map(front).max()?;
        self.groups[group].candidates.pop();
        self.spread.place(group);
        Some((candidate.cluster, Score { topology_spread, affinity: candidate.affinity }))
    }

    /// Those that are left: scored too low, or turned away by the spread.
    pub(super) fn rest(self, standing: &Standing) -> Rest {
        let mut scored = Vec::new();
        let mut turned_away = Vec::new();
        for (group, verdict) in self.groups.into_iter().zip(standing) {
            match *verdict {
                Ok(score) => scored.extend(group.candidates.into_iter().map(|candidate| (score, candidate))),
                Err(violation) => {
                    let rejection = self.spread.rejection(violation);
                    let clusters = group.candidates.into_iter().map(|candidate| candidate.cluster);
                    let clusters = clusters.chain(group.unscorable);
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
