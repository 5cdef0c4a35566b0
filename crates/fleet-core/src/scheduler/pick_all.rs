//! PickAll: every cluster that fits. A picked cluster stays picked, whatever happens to it.

use fleet_api::types::ClusterDecision;

use super::bindings::{Booking, Bookkeeper};
use super::decisions::{Explained, Findings, explanations, picked, scheduled};
use super::filter::{Screening, screen};
use super::report::{Fault, Report, SchedulingOutcome, Verdict};
use super::score::Score;
use super::{Cycle, Decided};

pub(super) fn decide(cycle: &Cycle<'_>) -> Decided {
    plan(cycle).unwrap_or_else(Decided::stopped)
}

fn plan(cycle: &Cycle<'_>) -> Result<Decided, Fault> {
    let screening = screen(cycle)?;
    let fitting = cycle.fleet.clusters.iter().zip(&screening).filter(|(_, one)| **one == Screening::Fits);
    let picks = fitting.map(|(cluster, _)| (&cluster.name, picked(cluster.name.as_str(), Some(Score::default()))));
    let mut bookkeeper = Bookkeeper::new(cycle.observed, cycle.policy, &cycle.bindings);
    let booked = bookkeeper.book(picks.collect())?;
    let mut writes: Vec<_> = booked.iter().map(Booking::write).collect();
    writes.extend(bookkeeper.left_over());

    let kept = cycle.bindings.selected().map(|binding| binding.decision);
    let selected: Vec<&ClusterDecision> = booked.iter().map(Booking::decision).chain(kept).collect();
    let found = selected.len();
    let rejected = cycle.fleet.clusters.iter().zip(&screening).filter_map(|(cluster, one)| match one {
        Screening::Rejected(rejection) => Some((cluster.name.as_str(), rejection)),
        Screening::Fits | Screening::AlreadySelected => None,
    });
    let explained = explanations(&selected, std::iter::empty(), rejected);
    let findings =
        Findings { scheduled: scheduled(cycle, found, found), selected, explained: Explained::Anew(explained) };
    let report = Report { clusters: verdicts(cycle, screening), ..outcome(found) };
    Ok(Decided::with_status(cycle, writes, &findings, report))
}

fn outcome(found: usize) -> Report {
    Report::without_clusters(SchedulingOutcome::Decided { found, wanted: None })
}

fn verdicts(cycle: &Cycle<'_>, screening: Vec<Screening>) -> Vec<(fleet_api::names::ClusterName, Verdict)> {
    let clusters = cycle.fleet.clusters.iter().zip(&cycle.selected).zip(screening);
    clusters
        .map(|((cluster, selected), one)| {
            let verdict = match one {
                _ if *selected => Verdict::Kept,
                Screening::Fits | Screening::AlreadySelected => Verdict::Picked(Some(Score::default())),
                Screening::Rejected(rejection) => Verdict::Rejected(rejection),
            };
            (cluster.name.clone(), verdict)
        })
        .collect()
}
