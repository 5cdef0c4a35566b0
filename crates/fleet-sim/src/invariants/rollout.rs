//! Rolling updates respect maxUnavailable and maxSurge at every write to a binding.
//!
//! A cluster that becomes unavailable by itself counts as ready, and changed limits count in their old form, for as
//! long as the hub may not have received the change. A cluster has failed if its binding or its Works say so: the hub
//! may act on the status of a Work before it writes that of the binding. Staged runs are not checked here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fleet_api::types::RollingUpdateConfig;
use fleet_api::well_known::{annotations, labels, namespaces};
use jiff::{SignedDuration, Timestamp};
use k8s_values::int_or_string::{IntOrString, Rounding};
use serde_json::Value;

use super::Lag;
use super::shadow_model::{Change, Id, SCOPES, Scope, ShadowModel, current, is_deleting, is_true, parent, text};
use crate::simulation::HUB;

const WORKS: &str = "works";
/// Reason of `Available` if the availability of some resources cannot be tracked.
const UNTRACKABLE: &str = "NotAllWorkAreAvailabilityTrackable";

/// Ends of messages of conditions that are False because a step is in progress.
const UNDER_WAY: [&str; 5] = [
    "are being applied",
    "is in progress",
    "has not yet completed the apply op",
    "has not yet completed availability check",
    "has not yet completed diff reporting",
];

/// The availability of bindings and the recent limits of placements.
#[derive(Debug)]
pub(super) struct Rollouts {
    epoch: Timestamp,
    lag: Lag,
    availability: BTreeMap<Id, AvailabilityRecord>,
    failed_works: BTreeMap<Id, FailureRecord>,
    limits: BTreeMap<Id, Vec<(Duration, Limits)>>,
}

/// The availability of a binding in its current generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AvailabilityRecord {
    generation: i64,
    /// When it stopped being available; `Duration::MAX` while it is available; `None` if it never was.
    available_until: Option<Duration>,
    /// For a binding that cannot be tracked: when it became available. It counts once `unavailablePeriodSeconds` is over.
    untracked_since: Option<Timestamp>,
}

/// A failure that a Work reports in its current generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FailureRecord {
    generation: i64,
    /// When it no longer reported the failure; `Duration::MAX` while it does.
    until: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    /// Clusters that must be ready.
    needed: usize,
    /// Clusters that may have the resources.
    room: usize,
    /// How long a cluster that cannot be tracked counts as unavailable.
    unavailable_period: SignedDuration,
}

impl Rollouts {
    pub(super) fn from(epoch: Timestamp, lag: Lag) -> Self {
        Self { epoch, lag, availability: BTreeMap::new(), failed_works: BTreeMap::new(), limits: BTreeMap::new() }
    }

    pub(super) fn check(&mut self, shadow: &ShadowModel, change: &Change) -> Option<String> {
        if !change.id.is_on_hub() {
            return None;
        }
        let plural = change.id.plural.as_str();
        if plural == WORKS {
            self.record_failure(change);
            return None;
        }
        if let Some(scope) = SCOPES.iter().find(|scope| plural == scope.placements) {
            self.record_limits(shadow, scope, &change.id, change.at);
            return None;
        }
        let scope = SCOPES.iter().find(|scope| plural == scope.bindings)?;
        let binding = change.after.as_ref().or(change.before.as_ref())?;
        let placement = Id::on_hub(scope.placements, &change.id.namespace, parent(binding));
        self.record_limits(shadow, scope, &placement, change.at);
        let broken = self.check_binding(shadow, scope, &placement, change);
        self.record_availability(change);
        broken
    }

    fn check_binding(&self, shadow: &ShadowModel, scope: &Scope, placement: &Id, change: &Change) -> Option<String> {
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
        let has_failed = || is_known_unavailable(before) || self.has_failed_work(shadow, &change.id, before, change.at);
        if !disturbed || !is_member(shadow, before) || has_failed() {
            return None;
        }
        let is_ready = |id: &Id, one: &Value| {
            !is_deleting(one)
                && carries(one)
                && is_member(shadow, one)
                && self.was_ready(id, one, change.at, self.lag.stale)
        };
        let ready = clusters(others().filter(|(id, one)| is_ready(id, one)));
        (ready < limits.needed).then(|| {
            let cluster = text(&before["spec"]["targetCluster"]);
            format!(
                "maxUnavailable: {} is updated on {cluster} with only {ready} of {} other clusters ready",
                placement.name, limits.needed
            )
        })
    }

    /// Whether a binding was ready in its current generation less than `within` ago.
    pub(super) fn was_ready(&self, id: &Id, binding: &Value, at: Duration, within: Duration) -> bool {
        let latest =
            self.epoch.checked_add(at).and_then(|now| now.checked_add(self.lag.skew)).unwrap_or(Timestamp::MAX);
        let scope = SCOPES.iter().find(|scope| id.plural == scope.bindings);
        let placement = scope.map(|scope| Id::on_hub(scope.placements, &id.namespace, parent(binding)));
        let limits = placement.and_then(|placement| self.limits_of(&placement, at));
        let period = limits.map_or(SignedDuration::ZERO, |limits| limits.unavailable_period);
        let is_over = |since: Timestamp| since.checked_add(period).is_ok_and(|end| end <= latest);
        let trusted = |record: &AvailabilityRecord| {
            record.generation == generation(binding)
                && record.untracked_since.is_none_or(is_over)
                && record.available_until.is_some_and(|until| at.saturating_sub(until) < within)
        };
        self.availability.get(id).is_some_and(trusted)
    }

    /// Whether a Work with the content of the binding reports a failure, or did so until the hub may have received it.
    fn has_failed_work(&self, shadow: &ShadowModel, id: &Id, binding: &Value, at: Duration) -> bool {
        let namespace = format!("{}{}", namespaces::MEMBER_PREFIX, text(&binding["spec"]["targetCluster"]));
        let is_its = |work: &Value| {
            let meta = &work["metadata"];
            text(&meta["labels"][labels::PARENT_BINDING]) == id.name
                && text(&meta["labels"][labels::PARENT_PLACEMENT_NAMESPACE]) == id.namespace
                && meta["annotations"][annotations::PARENT_RESOURCE_SNAPSHOT] == binding["spec"]["resourceSnapshotName"]
        };
        let has_failed = |id: &Id, work: &Value| {
            let record = self.failed_works.get(id).filter(|record| record.generation == generation(work));
            record.is_some_and(|record| at.saturating_sub(record.until) < self.lag.stale)
        };
        let mut works = shadow.on_hub(WORKS).filter(|(id, work)| id.namespace == namespace && is_its(work));
        works.any(|(id, work)| has_failed(id, work))
    }

    fn record_failure(&mut self, change: &Change) {
        let Some(work) = &change.after else {
            self.failed_works.remove(&change.id);
            return;
        };
        let generation = generation(work);
        if is_known_unavailable(work) {
            self.failed_works.insert(change.id.clone(), FailureRecord { generation, until: Duration::MAX });
        } else if let Some(record) = self.failed_works.get_mut(&change.id) {
            record.until = record.until.min(change.at);
        }
    }

    fn record_availability(&mut self, change: &Change) {
        let Some(binding) = &change.after else {
            self.availability.remove(&change.id);
            return;
        };
        // A binding that is only unscheduled, or scheduled again, keeps its content.
        let is_untouched = change.before.as_deref().is_some_and(|before| keeps_content(before, binding));
        let record = self.availability.get(&change.id);
        let before = record.filter(|known| is_untouched || known.generation == generation(binding)).copied();
        let record = if is_available(binding) {
            let untrackable = current(binding, "Available").filter(|one| one["reason"] == UNTRACKABLE);
            let untracked_since = untrackable.and_then(|one| text(&one["lastTransitionTime"]).parse().ok());
            AvailabilityRecord {
                generation: generation(binding),
                available_until: Some(Duration::MAX),
                untracked_since,
            }
        } else {
            let lost = before.and_then(|known| known.available_until).map(|until| until.min(change.at));
            let untracked_since = before.and_then(|known| known.untracked_since);
            AvailabilityRecord { generation: generation(binding), available_until: lost, untracked_since }
        };
        self.availability.insert(change.id.clone(), record);
    }

    fn record_limits(&mut self, shadow: &ShadowModel, scope: &Scope, placement: &Id, at: Duration) {
        let Some(object) = shadow.get(placement) else {
            self.limits.remove(placement);
            return;
        };
        let bindings = shadow.of_placement(scope.bindings, placement).map(|(_, binding)| binding);
        let limits = limits(&object["spec"], bindings);
        let known = self.limits.entry(placement.clone()).or_default();
        // Remove limits that were replaced longer than `stale` ago.
        while known.get(1).is_some_and(|(since, _)| at.saturating_sub(*since) > self.lag.stale) {
            known.remove(0);
        }
        if known.last().is_none_or(|(_, last)| *last != limits) {
            known.push((at, limits));
        }
    }

    /// The widest limits that the hub may still know.
    fn limits_of(&self, placement: &Id, at: Duration) -> Option<Limits> {
        let known = self.limits.get(placement)?;
        let recent = known.iter().rposition(|(since, _)| at.saturating_sub(*since) > self.lag.stale).unwrap_or(0);
        let recent = || known[recent..].iter().map(|(_, limits)| limits);
        Some(Limits {
            needed: recent().map(|limits| limits.needed).min()?,
            room: recent().map(|limits| limits.room).max()?,
            unavailable_period: recent().map(|limits| limits.unavailable_period).min()?,
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
    let period = config["unavailablePeriodSeconds"].as_i64();
    let period = period.unwrap_or(RollingUpdateConfig::DEFAULT_UNAVAILABLE_PERIOD_SECONDS);
    Limits {
        needed: target.saturating_sub(unavailable),
        room: target + surge,
        unavailable_period: SignedDuration::from_secs(period),
    }
}

/// A number or a percentage, rounded up.
fn share(value: &Value, default: &str, of: usize) -> usize {
    let given = IntOrString::of_value(value).unwrap_or_else(|| default.into());
    let number = match &given {
        IntOrString::String(text) if !text.ends_with('%') => text.parse().ok(),
        _ => given.scaled(of, Rounding::Up).ok(),
    };
    number.and_then(|number| usize::try_from(number).ok()).unwrap_or_default()
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

/// Whether its cluster has the resources or is about to get them.
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

/// Clusters that left the fleet do not count.
fn is_member(shadow: &ShadowModel, binding: &Value) -> bool {
    shadow.get(&Id::on_hub("memberclusters", "", text(&binding["spec"]["targetCluster"]))).is_some()
}

pub(super) fn is_available(binding: &Value) -> bool {
    is_true(current(binding, "Available")) || is_true(current(binding, "DiffReported"))
}

/// Whether the current content of a binding or Work is known to have failed; then an update loses nothing. Content that is still being
/// applied may already work, so it does not count as failed.
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
