//! What each binding needs: nothing, first content, an update, or removal. `pick` decides whether it gets that now.

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
    /// Its apply strategy differs from the placement's. After the change its conditions are outdated.
    pub strategy_changed: bool,
    /// Whether it stays and its strategy after this plan is ReportDiff.
    pub reports_only: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Need<'a> {
    Nothing,
    /// Being deleted.
    Deleting,
    UnknownState,
    /// To be deleted.
    Removal,
    /// Gets resources for the first time.
    First(Content<'a>),
    Update(Content<'a>, Outdated),
    /// Must wait for something other than the limits.
    Blocked(Wait),
}

/// The latest content of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content<'a> {
    pub snapshot: &'a str,
    pub overrides: Pins,
}

/// Why the latest content is unknown, if it is.
pub(super) fn content_wait(observed: &Observed<'_>) -> Option<ContentWait> {
    match (observed.snapshot, &observed.overrides) {
        (LatestSnapshot::Missing, _) => Some(ContentWait::NoSnapshot),
        (LatestSnapshot::Several(snapshots), _) => Some(ContentWait::AmbiguousSnapshot { snapshots }),
        (LatestSnapshot::One(_), Overrides::Unknown) => Some(ContentWait::OverridesUnknown),
        (LatestSnapshot::One(_), Overrides::Matched(_)) => None,
    }
}

/// The apply strategy for every binding.
pub(super) fn wanted_strategy(observed: &Observed<'_>) -> ApplyStrategy {
    let strategy = observed.placement.spec.strategy.as_ref();
    let mut wanted = strategy.and_then(|strategy| strategy.apply_strategy.clone()).unwrap_or_default();
    fill_apply_strategy(&mut wanted);
    wanted
}

/// `bindings` are sorted in the order in which they are served.
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
            health(binding.conditions, binding.generation, limits.unavailable_period, now)
        };
        let need = neighbours.wait(binding).map_or_else(|| need(observed, binding), Need::Blocked);
        // A new cluster gets the strategy together with its first content.
        let is_new = binding.spec.state == BindingState::Scheduled;
        let asked_for = Some(strategy).filter(|_| strategy_changed || is_new).or(binding.spec.apply_strategy.as_ref());
        let stays = !binding.deleting && binding.spec.state != BindingState::Unscheduled;
        let reports_only = stays && asked_for.is_some_and(|one| one.strategy_type() == ApplyStrategyType::ReportDiff);
        Case { binding, health, need, strategy_changed, reports_only }
    };
    bindings.iter().map(case).collect()
}

/// A binding without resources gets the strategy together with them.
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
        _ if binding.deleting => Need::Deleting,
        BindingState::Unscheduled if !observed.scheduled => Need::Blocked(Wait::Scheduling),
        BindingState::Unscheduled => Need::Removal,
        BindingState::Other(_) => Need::UnknownState,
        BindingState::Scheduled => match content(observed, binding) {
            Err(wait) => Need::Blocked(wait),
            // The binding was unscheduled and picked again; its previous state is not recorded.
            Ok(content) if binding.has_content() => Need::Update(content, Outdated::Snapshot),
            Ok(content) => Need::First(content),
        },
        BindingState::Bound => match content(observed, binding) {
            Err(wait) => Need::Blocked(wait),
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

/// Bindings by cluster, normally one each.
struct Neighbours<'a>(BTreeMap<&'a str, Vec<&'a BindingFacts<'a>>>);

impl<'a> Neighbours<'a> {
    fn new(bindings: &[&'a BindingFacts<'a>]) -> Self {
        let mut by_cluster: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for binding in bindings {
            by_cluster.entry(binding.cluster).or_default().push(*binding);
        }
        Self(by_cluster)
    }

    /// A cluster gets nothing new while an older binding is being cleaned up, or while it has two bindings. Other
    /// clusters are not affected.
    fn wait(&self, binding: &BindingFacts<'_>) -> Option<Wait> {
        if binding.deleting {
            return None;
        }
        let others = self.0.get(binding.cluster).into_iter().flatten().filter(|other| other.name != binding.name);
        let (older, duplicates): (Vec<_>, Vec<_>) = others.partition(|other| other.deleting);
        let named = |other: &&&BindingFacts<'_>| other.name.to_owned();
        let duplicate = duplicates.first().map(|other| Wait::DuplicateBinding { binding: named(other) });
        duplicate.or_else(|| older.first().map(|other| Wait::OlderBinding { binding: named(other) }))
    }
}
