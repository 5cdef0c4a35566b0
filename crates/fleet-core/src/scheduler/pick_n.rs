//! PickN: a number of clusters, the best that fit.
//!
//! Picked clusters stay until fewer are wanted; better clusters that appear later displace none. With topology spread
//! constraints every pick changes the scores of the next, so each pick is a round of its own; otherwise one round
//! picks all.

use std::collections::BTreeSet;

use fleet_api::names::ClusterName;
use fleet_api::types::{BindingState, ClusterDecision};

use super::affinity::Preferred;
use super::bindings::{Booking, Bookkeeper, unschedule};
use super::decisions::{Explained, Findings, explanations, picked, scheduled, status_before_picks};
use super::filter::{Screening, screen};
use super::observed::BindingFacts;
use super::report::{Fault, Rejection, Report, SchedulingOutcome, Verdict};
use super::score::{GroupScores, Race, Rest, Score};
use super::topology::Spread;
use super::{Cycle, Decided, Write};

pub(super) fn decide(cycle: &Cycle<'_>) -> Decided {
    let Some(wanted) = cycle.policy.number_of_clusters else {
        return Decided::stopped(Fault::NumberOfClusters { snapshot: cycle.policy.name.to_owned() });
    };
    let present = cycle.bindings.present();
    if wanted > present {
        pick_more(cycle, wanted).unwrap_or_else(Decided::stopped)
    } else {
        keep(cycle, wanted, present - wanted)
    }
}

/// As many as wanted or more: removes `surplus` clusters and the bindings of older policies.
fn keep(cycle: &Cycle<'_>, wanted: usize, surplus: usize) -> Decided {
    let bindings = &cycle.bindings;
    let (given_up, kept, bound) = {
        let from_scheduled = surplus.min(bindings.scheduled.len());
        let (mut given_up, kept) = drop_worst(&bindings.scheduled, from_scheduled);
        let (more, bound) = drop_worst(&bindings.bound, surplus - from_scheduled);
        given_up.extend(more);
        (given_up, kept, bound)
    };
    let writes: Vec<_> = bindings.obsolete.iter().chain(&given_up).map(|binding| unschedule(binding)).collect();
    let mut selected: Vec<&ClusterDecision> = kept.iter().map(|binding| binding.decision).collect();
    let of_bound = bound.iter().map(|binding| binding.decision);
    if writes.is_empty() {
        selected.splice(..0, of_bound);
    } else {
        selected.extend(of_bound);
    }
    let dropped: BTreeSet<&str> = given_up.iter().map(|binding| binding.cluster).collect();
    let present = cycle.fleet.clusters.iter().zip(&cycle.selected).filter(|(_, selected)| **selected);
    let verdict = |name: &ClusterName| if dropped.contains(name.as_str()) { Verdict::Dropped } else { Verdict::Kept };
    let clusters = present.map(|(cluster, _)| (cluster.name.clone(), verdict(&cluster.name))).collect();
    let report = Report { clusters, ..outcome(selected.len(), wanted) };
    let explained = Explained::AsBefore(&cycle.fleet);
    let findings = Findings { scheduled: scheduled(cycle, selected.len(), wanted), selected, explained };
    Decided::with_status(cycle, writes, &findings, report)
}

type Split<'a> = (Vec<&'a BindingFacts<'a>>, Vec<&'a BindingFacts<'a>>);

/// The `count` worst of these bindings by their recorded scores, unscored ones first, and the others by name.
fn drop_worst<'a>(bindings: &[&'a BindingFacts<'a>], count: usize) -> Split<'a> {
    let rank = |binding: &BindingFacts<'a>| {
        let recorded = binding.decision.cluster_score.map(|score| Score {
            topology_spread: score.topology_spread_score.unwrap_or_default(),
            affinity: score.affinity_score.unwrap_or_default(),
        });
        (recorded, binding.cluster, binding.name)
    };
    let mut worst_first = bindings.to_vec();
    worst_first.sort_unstable_by_key(|binding| rank(binding));
    let mut kept = worst_first.split_off(count);
    kept.sort_unstable_by_key(|binding| binding.name);
    (worst_first, kept)
}

fn outcome(found: usize, wanted: usize) -> Report {
    Report::without_clusters(SchedulingOutcome::Decided { found, wanted: Some(wanted) })
}

/// Fewer than wanted: picks the best of those that fit.
fn pick_more(cycle: &Cycle<'_>, wanted: usize) -> Result<Decided, Fault> {
    let screening = screen(cycle)?;
    let mut race = line_up(cycle, &screening)?;
    let mut bookkeeper = Bookkeeper::new(cycle.observed, cycle.policy, &cycle.bindings);
    let rounds = run(cycle, &mut race, &mut bookkeeper, wanted - cycle.bindings.present())?;
    let picks = rounds.earlier.iter().chain(&rounds.last).map(Booking::write);
    let left_over = bookkeeper.left_over();
    let group_scores = match rounds.end {
        End::Complete(group_scores) => group_scores,
        // The rounds before the fault count. Removals come first here, because a plan made after some of the picks
        // would stop before them.
        End::Stopped(fault) => return Ok(Decided::stopped_after(left_over.into_iter().chain(picks).collect(), fault)),
    };
    let selected = in_status_order(cycle, &rounds.earlier, &rounds.last);
    let examined = Examined::new(screening, race, &group_scores);
    let name = |index: usize| cycle.fleet.clusters[index].name.as_str();
    let explained = explanations(
        &selected,
        examined.too_low.iter().map(|&(index, score)| (name(index), score)),
        examined.rejected.iter().map(|(index, rejection)| (name(*index), rejection)),
    );
    let report = Report { clusters: examined.verdicts(cycle, &rounds.scores), ..outcome(selected.len(), wanted) };
    let explained = Explained::Anew(explained);
    let findings = Findings { scheduled: scheduled(cycle, selected.len(), wanted), selected, explained };
    let picks: Vec<_> = picks.collect();
    let first = (!picks.is_empty()).then(|| status_before_picks(cycle.policy, &findings)).flatten();
    let writes = first.map(Write::Explain).into_iter().chain(picks).chain(left_over).collect();
    Ok(Decided::with_status(cycle, writes, &findings, report))
}

fn line_up<'a>(cycle: &Cycle<'a>, screening: &[Screening]) -> Result<Race<'a>, Fault> {
    let clusters = &cycle.fleet.clusters;
    let preferred = Preferred::new(cycle.policy.policy, clusters)?;
    let spread = Spread::new(cycle.policy.policy, clusters, &cycle.selected);
    // After the first of several rounds no binding has an older policy any more. A plan that was interrupted there
    // must continue in the same way.
    let first_round = spread.is_unconstrained() || cycle.bindings.present() == 0;
    let mut carries_older_policy = vec![false; clusters.len()];
    for binding in cycle.bindings.obsolete.iter().filter(|_| first_round) {
        if let Some(index) = cycle.fleet.find(binding.cluster) {
            carries_older_policy[index] = true;
        }
    }
    let mut race = Race::new(spread);
    for (index, cluster) in clusters.iter().enumerate().filter(|(index, _)| screening[*index] == Screening::Fits) {
        race.enter(index, preferred.score(index, cluster), carries_older_policy[index]);
    }
    race.line_up();
    Ok(race)
}

/// The result of picking.
struct Rounds {
    /// Bindings of all rounds except the last.
    earlier: Vec<Booking>,
    last: Vec<Booking>,
    /// The picked clusters.
    scores: Vec<(usize, Score)>,
    end: End,
}

enum End {
    /// The scores of the groups in the last round.
    Complete(GroupScores),
    /// A round after the first failed.
    Stopped(Fault),
}

fn run(
    cycle: &Cycle<'_>,
    race: &mut Race<'_>,
    bookkeeper: &mut Bookkeeper<'_>,
    mut missing: usize,
) -> Result<Rounds, Fault> {
    let per_round = if race.spread().is_unconstrained() { missing } else { 1 };
    let mut rounds =
        Rounds { earlier: Vec::new(), last: Vec::new(), scores: Vec::new(), end: End::Complete(Vec::new()) };
    loop {
        let first = rounds.scores.is_empty();
        match round(cycle, race, bookkeeper, per_round.min(missing)) {
            Ok(Round { group_scores, picks, booked }) => {
                let goes_on = missing > per_round && picks.len() == per_round;
                missing = missing.saturating_sub(booked.len());
                rounds.scores.extend(picks);
                if !goes_on || missing == 0 {
                    rounds.last = booked;
                    rounds.end = End::Complete(group_scores);
                    return Ok(rounds);
                }
                rounds.earlier.extend(booked);
            }
            Err(fault) if first => return Err(fault),
            Err(fault) => {
                rounds.end = End::Stopped(fault);
                return Ok(rounds);
            }
        }
        race.forget_older_policy();
    }
}

struct Round {
    group_scores: GroupScores,
    picks: Vec<(usize, Score)>,
    booked: Vec<Booking>,
}

fn round(
    cycle: &Cycle<'_>,
    race: &mut Race<'_>,
    bookkeeper: &mut Bookkeeper<'_>,
    count: usize,
) -> Result<Round, Fault> {
    let group_scores = race.group_scores()?;
    let picks: Vec<(usize, Score)> = std::iter::from_fn(|| race.take_best(&group_scores)).take(count).collect();
    let decided = picks.iter().map(|&(index, score)| {
        let cluster = &cycle.fleet.clusters[index].name;
        (cluster, picked(cluster.as_str(), Some(score)))
    });
    let booked = bookkeeper.book(decided.collect())?;
    Ok(Round { group_scores, picks, booked })
}

/// Decisions of the last round first, then all scheduled ones, then all bound ones.
fn in_status_order<'d>(cycle: &Cycle<'d>, earlier: &'d [Booking], last: &'d [Booking]) -> Vec<&'d ClusterDecision> {
    let in_state = |state: &BindingState, present: &[&BindingFacts<'d>]| {
        let booked = earlier.iter().filter(|booking| booking.state() == state);
        let booked = booked.map(|booking| (booking.binding(), booking.decision()));
        let mut all: Vec<(&str, &ClusterDecision)> =
            present.iter().map(|binding| (binding.name, binding.decision)).chain(booked).collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all.into_iter().map(|(_, decision)| decision)
    };
    let scheduled = in_state(&BindingState::Scheduled, &cycle.bindings.scheduled);
    let bound = in_state(&BindingState::Bound, &cycle.bindings.bound);
    last.iter().map(Booking::decision).chain(scheduled).chain(bound).collect()
}

/// The clusters that the last round did not pick.
struct Examined {
    /// The best first.
    too_low: Vec<(usize, Score)>,
    /// By position. Clusters that were picked earlier may be among them.
    rejected: Vec<(usize, Rejection)>,
}

impl Examined {
    fn new(screening: Vec<Screening>, race: Race<'_>, group_scores: &GroupScores) -> Self {
        let Rest { too_low, turned_away: mut rejected } = race.rest(group_scores);
        rejected.extend(screening.into_iter().enumerate().filter_map(|(index, one)| match one {
            Screening::Rejected(rejection) => Some((index, rejection)),
            Screening::Fits | Screening::AlreadySelected => None,
        }));
        rejected.sort_unstable_by_key(|(index, _)| *index);
        Self { too_low, rejected }
    }

    fn verdicts(self, cycle: &Cycle<'_>, picks: &[(usize, Score)]) -> Vec<(ClusterName, Verdict)> {
        let mut verdicts = vec![Verdict::Kept; cycle.fleet.clusters.len()];
        let picked = picks.iter().map(|&(index, score)| (index, Verdict::Picked(Some(score))));
        let too_low = self.too_low.into_iter().map(|(index, score)| (index, Verdict::NotPicked(score)));
        let rejected = self.rejected.into_iter().map(|(index, rejection)| (index, Verdict::Rejected(rejection)));
        for (index, verdict) in picked.chain(too_low).chain(rejected.filter(|(index, _)| !cycle.selected[*index])) {
            verdicts[index] = verdict;
        }
        cycle.fleet.clusters.iter().map(|cluster| cluster.name.clone()).zip(verdicts).collect()
    }
}
