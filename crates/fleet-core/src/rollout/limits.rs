//! maxUnavailable and maxSurge as numbers. Percentages are of the wanted clusters, rounded up.

use std::collections::BTreeSet;
use std::fmt;

use fleet_api::types::{
    BindingState, IntOrString, PlacementPolicy, PlacementSpec, PlacementType, RollingUpdateConfig, Rounding,
};
use jiff::SignedDuration;

use super::observed::BindingFacts;
use super::report::Fault;

/// The limits of a rollout, and how much of them is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Number of wanted clusters.
    pub target: usize,
    pub max_unavailable: usize,
    pub max_surge: usize,
    /// Clusters that are ready and not being deleted.
    pub ready: usize,
    /// Clusters that have resources, including those being removed.
    pub carrying: usize,
}

impl Budget {
    /// How many clusters must be ready.
    pub fn needed(&self) -> usize {
        self.target.saturating_sub(self.max_unavailable)
    }

    /// How many ready clusters may be disturbed. `None` if there are already too few; then only failed clusters may be
    /// disturbed.
    pub fn spare(&self) -> Option<usize> {
        self.ready.checked_sub(self.needed())
    }

    /// How many more clusters may get the resources.
    pub fn room(&self) -> usize {
        self.target.saturating_add(self.max_surge).saturating_sub(self.carrying)
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, max_unavailable, max_surge, ready, carrying } = self;
        write!(f, "{ready} ready and {carrying} carrying of {target} wanted")?;
        write!(f, " (maxUnavailable {max_unavailable}, maxSurge {max_surge})")
    }
}

/// The limits as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    pub target: usize,
    pub max_unavailable: usize,
    pub max_surge: usize,
    /// How long untrackable resources do not count as ready.
    pub unavailable_period: SignedDuration,
}

impl Limits {
    pub(super) fn of(spec: &PlacementSpec, bindings: &[&BindingFacts<'_>]) -> Result<Self, Fault> {
        let target = target(spec, bindings);
        let config = spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let most = config.and_then(|config| config.max_unavailable.as_ref());
        let surge = config.and_then(|config| config.max_surge.as_ref());
        let seconds = config.and_then(|config| config.unavailable_period_seconds);
        let seconds = seconds.unwrap_or(RollingUpdateConfig::DEFAULT_UNAVAILABLE_PERIOD_SECONDS);
        Ok(Self {
            target,
            max_unavailable: share("maxUnavailable", most, RollingUpdateConfig::DEFAULT_MAX_UNAVAILABLE, target)?,
            max_surge: share("maxSurge", surge, RollingUpdateConfig::DEFAULT_MAX_SURGE, target)?,
            unavailable_period: SignedDuration::from_secs(seconds.max(0)),
        })
    }
}

/// The number of wanted clusters: the number in the policy, or for PickAll the number of picked clusters.
fn target(spec: &PlacementSpec, bindings: &[&BindingFacts<'_>]) -> usize {
    let policy = spec.policy.as_ref();
    match policy.map(PlacementPolicy::placement_type).unwrap_or_default() {
        PlacementType::PickAll => {
            let wanted = bindings.iter().filter(|binding| match binding.spec.state {
                BindingState::Scheduled => !binding.deleting,
                // A deleted binding leaves a gap until another one replaces it.
                BindingState::Bound => true,
                BindingState::Unscheduled | BindingState::Other(_) => false,
            });
            wanted.map(|binding| binding.cluster).collect::<BTreeSet<_>>().len()
        }
        PlacementType::PickFixed => policy.and_then(|policy| policy.cluster_names.as_ref()).map_or(0, Vec::len),
        PlacementType::PickN => {
            let wanted = policy.and_then(|policy| policy.number_of_clusters).unwrap_or_default();
            usize::try_from(wanted).unwrap_or_default()
        }
    }
}

fn share(field: &'static str, given: Option<&IntOrString>, default: &str, target: usize) -> Result<usize, Fault> {
    let fallback = IntOrString::from(default);
    let value = given.unwrap_or(&fallback);
    let number = match value {
        // The schema also accepts a plain number as text.
        IntOrString::String(text) if !text.ends_with('%') => text.parse().ok(),
        _ => value.scaled(target, Rounding::Up).ok(),
    };
    match number {
        Some(number) => Ok(usize::try_from(number).unwrap_or_default()),
        None => Err(Fault::Limit { field, text: value.to_string() }),
    }
}
