//! PickN: so many clusters, the best that fit.
//!
//! Decides whether clusters are missing, too many or as many as wanted. What was picked stays until fewer are wanted;
//! better clusters that come later displace nothing. Under spread constraints every pick changes what the next one is
//! worth, so they are made one after the other, each as a round of its own; otherwise one round picks all.

use std::collections::BTreeSet;

use fleet_api::conditions::policy_snapshot::PolicySnapshotScheduled;
use fleet_api::names::ClusterName;
use fleet_api::types::{BindingState, ClusterDecision};

use super::affinity::Preferred;
use super::bindings::{Booking, Bookkeeper, unschedule};
use super::decisions::{Findings, explanations, picked};
use super::filter::{Screening, screen};
use super::observed::BindingFacts;
use super::report::{Fault, Outcome, Rejection, Report, Verdict};
use super::score::{Race, Rest, Score, Standing};
use super::topology::Spread;
use super::{Cycle, Decided};

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

/// As many as wanted or more: gives up `surplus` clusters and whatever is left of older policies.
fn keep(cycle: &Cycle<'_>, wanted: usize, surplus: usize) -> Decided {
    let bindings = &cycle.bindings;
    let (given_up, scheduled, bound) = {
        let from_scheduled = surplus.min(bindings.scheduled.len());
        let (mut given_up, scheduled) = drop_worst(&bindings.scheduled, from_scheduled);
        let (more, bound) = drop_worst(&bindings.bound, surplus - from_scheduled);
        given_up.extend(more);
        (given_up, scheduled, bound)
    };
    let writes: Vec<_> = bindings.obsolete.iter().chain(&given_up).map(|binding| unschedule(binding)).collect();
    let mut selected: Vec<&ClusterDecision> = scheduled.iter().map(|binding| binding.decision).collect();
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
    let findings = Findings { scheduled: condition(selected.len(), wanted), selected, explained: None };
    Decided::with_status(cycle, writes, &findings, report)
}

type Split<'a> = (Vec<&'a BindingFacts<'a>>, Vec<&'a BindingFacts<'a>>);

/// The `count` worst of these bindings by the scores recorded in them, unscored ones first, and the others by name.
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

fn condition(found: usize, wanted: usize) -> PolicySnapshotScheduled {
    if found >= wanted {
        PolicySnapshotScheduled::Fulfilled { clusters: found }
    } else {
        PolicySnapshotScheduled::Unfulfilled { clusters: found }
    }
}

fn outcome(found: usize, wanted: usize) -> Report {
    Report::without_clusters(Outcome::Decided { found, wanted: Some(wanted) })
}

/// Fewer than wanted: picks the best of those that fit.
fn pick_more(cycle: &Cycle<'_>, wanted: usize) -> Result<Decided, Fault> {
    let screening = screen(cycle)?;
    let mut race = line_up(cycle, &screening)?;
    let mut bookkeeper = Bookkeeper::new(cycle.observed, cycle.policy, &cycle.bindings);
    let rounds = run(cycle, &mut race, &mut bookkeeper, wanted - cycle.bindings.present())?;
    let picks = rounds.earlier.iter().chain(&rounds.last).map(Booking::write);
    let left_over = bookkeeper.left_over();
    let standing = match rounds.end {
        End::Complete(standing) => standing,
        // The rounds before the fault count. Giving up comes first here, because a plan made after some of the picks
        // would stop before it.
        End::Stopped(fault) => return Ok(Decided::stopped_after(left_over.into_iter().chain(picks).collect(), fault)),
    };
    let writes = picks.chain(left_over).collect();
    let selected = in_status_order(cycle, &rounds.earlier, &rounds.last);
    let examined = Examined::new(screening, race, &standing);
    let name = |index: usize| cycle.fleet.clusters[index].name.as_str();
    let explained = explanations(
        &selected,
        examined.too_low.iter().map(|&(index, score)| (name(index), score)),
        examined.rejected.iter().map(|(index, rejection)| (name(*index), rejection)),
    );
    let report = Report { clusters: examined.verdicts(cycle, &rounds.scores), ..outcome(selected.len(), wanted) };
    let findings = Findings { scheduled: condition(selected.len(), wanted), selected, explained: Some(explained) };
    Ok(Decided::with_status(cycle, writes, &findings, report))
}

fn line_up<'a>(cycle: &Cycle<'a>, screening: &[Screening]) -> Result<Race<'a>, Fault> {
    let clusters = &cycle.fleet.clusters;
    let preferred = Preferred::new(cycle.policy.policy, clusters)?;
    let spread = Spread::new(cycle.policy.policy, clusters, &cycle.selected);
    // After the first of several rounds nothing carries an older policy any more. A plan that was cut short there must
    // go on in the same way.
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

/// What came of picking.
struct Rounds {
    /// Bindings of all rounds but the last, and of the last one.
    earlier: Vec<Booking>,
    last: Vec<Booking>,
    /// The clusters picked.
    scores: Vec<(usize, Score)>,
    end: End,
}

enum End {
    /// How the groups stood in the last round.
    Complete(Standing),
    /// A later round than the first failed.
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
            Ok(Round { standing, picks, booked }) => {
                let goes_on = missing > per_round && picks.len() == per_round;
                missing = missing.saturating_sub(booked.len());
                rounds.scores.extend(picks);
                if !goes_on || missing == 0 {
                    rounds.last = booked;
                    rounds.end = End::Complete(standing);
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
    standing: Standing,
    picks: Vec<(usize, Score)>,
    booked: Vec<Booking>,
}

fn round(
    cycle: &Cycle<'_>,
    race: &mut Race<'_>,
    bookkeeper: &mut Bookkeeper<'_>,
    count: usize,
) -> Result<Round, Fault> {
    let standing = race.standing()?;
    let picks: Vec<(usize, Score)> = std::iter::from_fn(|| race.take_best(&standing)).take(count).collect();
    let decided = picks.iter().map(|&(index, score)| {
        let cluster = &cycle.fleet.clusters[index].name;
        (cluster, picked(cluster.as_str(), Some(score)))
    });
    let booked = bookkeeper.book(decided.collect())?;
    Ok(Round { standing, picks, booked })
}

/// Decisions of the last round first, then all that are scheduled, then all that are bound.
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

/// What the last round says about the clusters that were not picked.
struct Examined {
    /// The best first.
    too_low: Vec<(usize, Score)>,
    /// By position. Clusters that were picked earlier may be among them.
    rejected: Vec<(usize, Rejection)>,
}

impl Examined {
    fn new(screening: Vec<Screening>, race: Race<'_>, standing: &Standing) -> Self {
        let Rest { too_low, turned_away: mut rejected } = race.rest(standing);
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
