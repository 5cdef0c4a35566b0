//! What each binding needs: nothing, the resources, newer ones, or to go.
//!
//! Decides from a binding's state, its neighbours on the same cluster and the wanted content. Never decides whether it gets
//! that now (see `pick`).

use std::collections::BTreeMap;

use fleet_api::admission::defaults::fill_apply_strategy;
use fleet_api::types::{ApplyStrategy, ApplyStrategyType, BindingState};
use jiff::Timestamp;

use super::health::{Health, health};
use super::limits::Limits;
use super::observed::{BindingFacts, ClusterOverrides, LatestSnapshot, Observed, Overrides};
use super::report::{ContentWait, Outdated, Wait};
use crate::overrides::Pins;

/// A binding with what it needs.
#[derive(Debug)]
pub(super) struct Case<'a> {
    pub binding: &'a BindingFacts<'a>,
    pub health: Health,
    pub need: Need<'a>,
    /// Its apply strategy is another one than the placement's. Nothing that it reported counts from then on.
    pub strategy_changed: bool,
    /// Whether it stays and its cluster is only compared, with the strategy that it has by the time anybody moves.
    pub reports_only: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Need<'a> {
    Nothing,
    /// On its way out already.
    Leaving,
    Foreign,
    /// To be deleted.
    Removal,
    /// To get the resources for the first time.
    First(Content<'a>),
    Update(Content<'a>, Outdated),
    /// Whatever it needs, it must wait for something that no limit decides.
    Held(Wait),
}

/// What a cluster shall have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content<'a> {
    pub snapshot: &'a str,
    pub overrides: Pins,
}

/// Why no cluster's content is known, if that is so.
pub(super) fn content_wait(observed: &Observed<'_>) -> Option<ContentWait> {
    match (observed.snapshot, &observed.overrides) {
        (LatestSnapshot::Missing, _) => Some(ContentWait::NoSnapshot),
        (LatestSnapshot::Several(snapshots), _) => Some(ContentWait::AmbiguousSnapshot { snapshots }),
        (LatestSnapshot::One(_), Overrides::Unsettled) => Some(ContentWait::OverridesUnsettled),
        (LatestSnapshot::One(_), Overrides::Matched(_)) => None,
    }
}

/// The apply strategy that every binding shall have.
pub(super) fn wanted_strategy(observed: &Observed<'_>) -> ApplyStrategy {
    let strategy = observed.placement.spec.strategy.as_ref();
    let mut wanted = strategy.and_then(|strategy| strategy.apply_strategy.clone()).unwrap_or_default();
    fill_apply_strategy(&mut wanted);
    wanted
}

/// `bindings` in the order in which they are served.
pub(super) fn classify<'a>(
    observed: &'a Observed<'a>,
    bindings: &[&'a BindingFacts<'a>],
    limits: &Limits,
    strategy: &ApplyStrategy,
    now: Timestamp,
) -> Vec<Case<'a>> {
    let neighbours = Neighbours::new(bindings);
    let case = |binding: &&'a BindingFacts<'a>| {
        let strategy_changed = lacks_strategy(binding, strategy);
        let health = if strategy_changed {
            Health::Unknown
        } else {
            health(binding.conditions, binding.generation, limits.settling, now)
        };
        let need = neighbours.wait(binding).map_or_else(|| need(observed, binding), Need::Held);
        // What a cluster gets for the first time comes with the strategy.
        let is_new = binding.spec.state == BindingState::Scheduled;
        let asked_for = Some(strategy).filter(|_| strategy_changed || is_new).or(binding.spec.apply_strategy.as_ref());
        let stays = !binding.deleting && binding.spec.state != BindingState::Unscheduled;
        let reports_only = stays && asked_for.is_some_and(|one| one.strategy_type() == ApplyStrategyType::ReportDiff);
        Case { binding, health, need, strategy_changed, reports_only }
    };
    bindings.iter().map(case).collect()
}

/// One that was never given resources gets the strategy together with them.
fn lacks_strategy(binding: &BindingFacts<'_>, wanted: &ApplyStrategy) -> bool {
    if binding.deleting || !matches!(binding.spec.state, BindingState::Bound | BindingState::Unscheduled) {
        return false;
    }
    let mut given = binding.spec.apply_strategy.clone().unwrap_or_default();
    fill_apply_strategy(&mut given);
    given != *wanted
}

fn need<'a>(observed: &'a Observed<'a>, binding: &BindingFacts<'_>) -> Need<'a> {
    match binding.spec.state {
        _ if binding.deleting => Need::Leaving,
        BindingState::Unscheduled => Need::Removal,
        BindingState::Other(_) => Need::Foreign,
        BindingState::Scheduled => match content(observed, binding) {
            Err(wait) => Need::Held(wait),
            // Given up and picked again, with what it was before forgotten in between.
            Ok(content) if binding.carries() => Need::Update(content, Outdated::Snapshot),
            Ok(content) => Need::First(content),
        },
        BindingState::Bound => match content(observed, binding) {
            Err(wait) => Need::Held(wait),
            Ok(content) if !binding.has(content.snapshot) => Need::Update(content, Outdated::Snapshot),
            Ok(content) if !binding.has_overrides(&content.overrides) => Need::Update(content, Outdated::Overrides),
            Ok(_) => Need::Nothing,
        },
    }
}

fn content<'a>(observed: &'a Observed<'a>, binding: &BindingFacts<'_>) -> Result<Content<'a>, Wait> {
    let (LatestSnapshot::One(snapshot), Overrides::Matched(matched)) = (observed.snapshot, &observed.overrides) else {
        return Err(Wait::Content(content_wait(observed).unwrap_or(ContentWait::NoSnapshot)));
    };
    let overrides = match matched.get(binding.cluster) {
        None => Pins::default(),
        Some(ClusterOverrides::ClusterGone) => return Err(Wait::ClusterGone),
        Some(ClusterOverrides::Pinned(pinned)) => pinned.clone(),
    };
    Ok(Content { snapshot, overrides })
}

/// Bindings by cluster: normally one each.
struct Neighbours<'a>(BTreeMap<&'a str, Vec<&'a BindingFacts<'a>>>);

impl<'a> Neighbours<'a> {
    fn new(bindings: &[&'a BindingFacts<'a>]) -> Self {
        let mut by_cluster: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for binding in bindings {
            by_cluster.entry(binding.cluster).or_default().push(*binding);
        }
        Self(by_cluster)
    }

    /// A cluster gets nothing new while what came through an older binding is still being taken off it, or while nobody can
    /// say which of two bindings counts. Other clusters go on.
    fn wait(&self, binding: &BindingFacts<'_>) -> Option<Wait> {
        if binding.deleting {
            return None;
        }
        let others = self.0.get(binding.cluster).into_iter().flatten().filter(|other| other.name != binding.name);
        let (older, rivals): (Vec<_>, Vec<_>) = others.partition(|other| other.deleting);
        let named = |other: &&&BindingFacts<'_>| other.name.to_owned();
        let rival = rivals.first().map(|other| Wait::RivalBinding { binding: named(other) });
        rival.or_else(|| older.first().map(|other| Wait::OlderBinding { binding: named(other) }))
    }
}
