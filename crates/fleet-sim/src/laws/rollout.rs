//! maxUnavailable and maxSurge are kept at every move of a rolling update.
//!
//! Decides at each write that gives a binding other content, its first content, or takes it away: whether enough other
//! clusters stay ready, and whether no more clusters have the resources than may. A cluster that failed on its own counts
//! as ready for as long as the hub may not have heard of it, and limits count as they were for as long. Never judges staged
//! runs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fleet_api::types::RollingUpdateConfig;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Lag;
use super::shadow::{Change, Id, SCOPES, Scope, Shadow, current, is_deleting, is_true, parent, text};
use crate::world::HUB;

/// Why a binding counts as available whose resources nobody can look at.
const UNTRACKABLE: &str = "NotAllWorkAreAvailabilityTrackable";

/// How sentences end that say of a step that it is not decided yet.
const UNDER_WAY: [&str; 5] = [
    "are being applied",
    "is in progress",
    "has not yet completed the apply op",
    "has not yet completed availability check",
    "has not yet completed diff reporting",
];

/// What is remembered of bindings and limits.
#[derive(Debug)]
pub(super) struct Rollouts {
    origin: Timestamp,
    lag: Lag,
    standings: BTreeMap<Id, Standing>,
    limits: BTreeMap<Id, Vec<(Duration, Limits)>>,
}

/// How a binding was found in its present generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    generation: i64,
    /// Until when, if it was available in this generation; the end of time if it is now.
    available_until: Option<Duration>,
    /// From when on that may be trusted.
    trusted_from: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    /// How many clusters must be ready.
    needed: usize,
    /// How many clusters may have the resources.
    room: usize,
}

impl Rollouts {
    pub(super) fn from(origin: Timestamp, lag: Lag) -> Self {
        Self { origin, lag, standings: BTreeMap::new(), limits: BTreeMap::new() }
    }

    pub(super) fn judge(&mut self, shadow: &Shadow, change: &Change) -> Option<String> {
        if !change.id.is_on_hub() {
            return None;
        }
        let plural = change.id.plural.as_str();
        if let Some(scope) = SCOPES.iter().find(|scope| plural == scope.placements) {
            self.note_limits(shadow, scope, &change.id, change.at);
            return None;
        }
        let scope = SCOPES.iter().find(|scope| plural == scope.bindings)?;
        let binding = change.after.as_ref().or(change.before.as_ref())?;
        let placement = Id::on_hub(scope.placements, &change.id.namespace, parent(binding));
        self.note_limits(shadow, scope, &placement, change.at);
        let broken = self.judge_binding(shadow, scope, &placement, change);
        self.note_standing(shadow, &placement, change);
        broken
    }

    fn judge_binding(&self, shadow: &Shadow, scope: &Scope, placement: &Id, change: &Change) -> Option<String> {
        let spec = &shadow.get(placement).filter(|placement| !is_deleting(placement))?["spec"];
        if change.actor != HUB || spec["strategy"]["type"] == "External" {
            return None;
        }
        let before = change.before.as_deref()?;
        let limits = self.limits_of(placement, change.at)?;
        let moved = change.after.as_deref().filter(|after| !is_deleting(after) && content(after) != content(before));
        let gets_first = moved.is_some() && before["spec"]["state"] == "Scheduled";
        let removed = change.begins_deletion() && before["spec"]["state"] == "Unscheduled" && carries(before);
        let others = || shadow.of_placement(scope.bindings, placement).filter(|(id, _)| **id != change.id);
        if gets_first {
            let carrying = others().chain(moved.map(|after| (&change.id, after)));
            let carrying = clusters(carrying.filter(|(_, one)| takes_room(one) && is_member(shadow, one)));
            let free = moved.is_some_and(reports_only);
            return (carrying > limits.room && !free)
                .then(|| format!("maxSurge: {carrying} clusters have {} and {} may", placement.name, limits.room));
        }
        let disturbed = (moved.is_some() && carries(before)) || removed;
        if !disturbed || !is_member(shadow, before) || is_known_unavailable(before) {
            return None;
        }
        let is_ready = |id: &Id, one: &Value| {
            !is_deleting(one) && carries(one) && is_member(shadow, one) && self.was_ready(id, one, change.at)
        };
        let ready = clusters(others().filter(|(id, one)| is_ready(id, one)));
        (ready < limits.needed).then(|| {
            let cluster = text(&before["spec"]["targetCluster"]);
            format!(
                "maxUnavailable: {} is disturbed on {cluster} and only {ready} others of {} are ready",
                placement.name, limits.needed
            )
        })
    }

    /// Whether a binding was found ready in its present generation, not too long ago.
    pub(super) fn was_ready(&self, id: &Id, binding: &Value, at: Duration) -> bool {
        let now = self.origin.checked_add(at).unwrap_or(Timestamp::MAX);
        let trusted = |standing: &Standing| {
            standing.generation == generation(binding)
                && standing.trusted_from <= now.checked_add(self.lag.skew).unwrap_or(Timestamp::MAX)
                && standing.available_until.is_some_and(|until| at.saturating_sub(until) < self.lag.stale)
        };
        self.standings.get(id).is_some_and(trusted)
    }

    fn note_standing(&mut self, shadow: &Shadow, placement: &Id, change: &Change) {
        let Some(binding) = &change.after else {
            self.standings.remove(&change.id);
            return;
        };
        // Whoever is only given up, or taken back, still has what it had.
        let is_untouched = change.before.as_deref().is_some_and(|before| keeps_content(before, binding));
        let standing = self.standings.get(&change.id);
        let before = standing.filter(|known| is_untouched || known.generation == generation(binding)).copied();
        let standing = if is_available(binding) {
            let period = shadow.get(placement).map_or(SignedDuration::ZERO, unavailable_period);
            let untrackable = current(binding, "Available").filter(|one| one["reason"] == UNTRACKABLE);
            let since = untrackable.and_then(|one| text(&one["lastTransitionTime"]).parse::<Timestamp>().ok());
            let trusted_from = since.and_then(|since| since.checked_add(period).ok()).unwrap_or(Timestamp::MIN);
            Standing { generation: generation(binding), available_until: Some(Duration::MAX), trusted_from }
        } else {
            let lost = before.and_then(|known| known.available_until).map(|until| until.min(change.at));
            let trusted_from = before.map_or(Timestamp::MIN, |known| known.trusted_from);
            Standing { generation: generation(binding), available_until: lost, trusted_from }
        };
        self.standings.insert(change.id.clone(), standing);
    }

    fn note_limits(&mut self, shadow: &Shadow, scope: &Scope, placement: &Id, at: Duration) {
        let Some(object) = shadow.get(placement) else {
            self.limits.remove(placement);
            return;
        };
        let bindings = shadow.of_placement(scope.bindings, placement).map(|(_, binding)| binding);
        let limits = limits(&object["spec"], bindings);
        let known = self.limits.entry(placement.clone()).or_default();
        // What was so before the oldest that still counts is forgotten.
        while known.get(1).is_some_and(|(since, _)| at.saturating_sub(*since) > self.lag.stale) {
            known.remove(0);
        }
        if known.last().is_none_or(|(_, last)| *last != limits) {
            known.push((at, limits));
        }
    }

    /// The widest limits that the hub may know of.
    fn limits_of(&self, placement: &Id, at: Duration) -> Option<Limits> {
        let known = self.limits.get(placement)?;
        let recent = known.iter().rposition(|(since, _)| at.saturating_sub(*since) > self.lag.stale).unwrap_or(0);
        let recent = || known[recent..].iter().map(|(_, limits)| limits);
        Some(Limits {
            needed: recent().map(|limits| limits.needed).min()?,
            room: recent().map(|limits| limits.room).max()?,
        })
    }
}

fn limits<'a>(spec: &Value, bindings: impl Iterator<Item = &'a Value>) -> Limits {
    let policy = &spec["policy"];
    let number = |value: &Value| usize::try_from(value.as_i64().unwrap_or_default()).unwrap_or_default();
    let target = match policy["placementType"].as_str() {
        Some("PickFixed") => policy["clusterNames"].as_array().map_or(0, Vec::len),
        Some("PickN") => number(&policy["numberOfClusters"]),
        _ => {
            let is_wanted = |one: &&Value| match text(&one["spec"]["state"]) {
                "Scheduled" => !is_deleting(one),
                state => state == "Bound",
            };
            bindings.filter(is_wanted).map(|one| text(&one["spec"]["targetCluster"])).collect::<BTreeSet<_>>().len()
        }
    };
    let config = &spec["strategy"]["rollingUpdate"];
    let unavailable = share(&config["maxUnavailable"], RollingUpdateConfig::DEFAULT_MAX_UNAVAILABLE, target);
    let surge = share(&config["maxSurge"], RollingUpdateConfig::DEFAULT_MAX_SURGE, target);
    Limits { needed: target.saturating_sub(unavailable), room: target + surge }
}

/// A number or a percentage, rounded up.
fn share(value: &Value, default: &str, of: usize) -> usize {
    if let Some(number) = value.as_u64() {
        return usize::try_from(number).unwrap_or(usize::MAX);
    }
    let given = value.as_str().unwrap_or(default);
    match given.strip_suffix('%').map(str::parse::<usize>) {
        Some(percent) => (percent.unwrap_or_default() * of).div_ceil(100),
        None => given.parse().unwrap_or_default(),
    }
}

fn unavailable_period(placement: &Value) -> SignedDuration {
    let seconds = placement["spec"]["strategy"]["rollingUpdate"]["unavailablePeriodSeconds"].as_i64();
    SignedDuration::from_secs(seconds.unwrap_or(RollingUpdateConfig::DEFAULT_UNAVAILABLE_PERIOD_SECONDS))
}

fn content(binding: &Value) -> [&Value; 3] {
    let spec = &binding["spec"];
    [&spec["resourceSnapshotName"], &spec["clusterResourceOverrideSnapshots"], &spec["resourceOverrideSnapshots"]]
}

fn keeps_content(before: &Value, after: &Value) -> bool {
    content(before) == content(after) && before["spec"]["applyStrategy"] == after["spec"]["applyStrategy"]
}

fn generation(binding: &Value) -> i64 {
    binding["metadata"]["generation"].as_i64().unwrap_or_default()
}

/// Whether its cluster has, or is about to get, resources.
fn carries(binding: &Value) -> bool {
    binding["spec"]["state"] == "Bound" || !text(&binding["spec"]["resourceSnapshotName"]).is_empty()
}

fn reports_only(binding: &Value) -> bool {
    let stays = !is_deleting(binding) && binding["spec"]["state"] != "Unscheduled";
    stays && binding["spec"]["applyStrategy"]["type"] == "ReportDiff"
}

fn takes_room(binding: &Value) -> bool {
    carries(binding) && !reports_only(binding)
}

/// A cluster that left the fleet counts for nothing.
fn is_member(shadow: &Shadow, binding: &Value) -> bool {
    shadow.get(&Id::on_hub("memberclusters", "", text(&binding["spec"]["targetCluster"]))).is_some()
}

pub(super) fn is_available(binding: &Value) -> bool {
    is_true(current(binding, "Available")) || is_true(current(binding, "DiffReported"))
}

/// Whether its present content is known to have failed: then nothing is lost by giving it another. What is under way is
/// not known to fail, and may serve all the same.
fn is_known_unavailable(binding: &Value) -> bool {
    let steps = ["Overridden", "WorkSynchronized", "Applied", "Available", "DiffReported"];
    let has_failed = |one: &Value| {
        let is_under_way = UNDER_WAY.iter().any(|words| text(&one["message"]).ends_with(words));
        one["status"] == "False" && !is_under_way
    };
    steps.iter().any(|step| current(binding, step).is_some_and(has_failed))
}

fn clusters<'a>(bindings: impl Iterator<Item = (&'a Id, &'a Value)>) -> usize {
    bindings.map(|(_, binding)| text(&binding["spec"]["targetCluster"])).collect::<BTreeSet<_>>().len()
}
