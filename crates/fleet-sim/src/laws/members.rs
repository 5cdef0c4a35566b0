//! Nothing is deleted on a member that the hub did not ask to delete, and nothing is applied that it forbids.
//!
//! Decides at each write of a member's agent on its own server, from the Works that the hub has there. A Work that was changed
//! a moment ago counts as it was, too: the agent may not have heard of it. Never judges what people do on members.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fleet_api::names::MemberNamespace;
use serde_json::Value;

use super::Lag;
use super::shadow::{Change, is_deleting, text};
use crate::state::{CLIENT_SIDE_APPLY, Strategies};

/// The Works of all members.
#[derive(Debug)]
pub(super) struct Members {
    lag: Lag,
    works: BTreeMap<String, BTreeMap<String, Vec<Version>>>,
    /// What was ever named by a Work, by member.
    named: BTreeMap<String, BTreeSet<Named>>,
    /// When an object on a member was last given another spec by the member's agent, and by somebody else.
    respecified: BTreeMap<(String, Named), [Option<Duration>; 2]>,
}

/// A Work as it was for some time. The last one has no end.
#[derive(Debug, Clone)]
struct Version {
    until: Option<Duration>,
    since: Duration,
    deleting: bool,
    strategy: Value,
    manifests: BTreeMap<Named, Value>,
}

/// `plural namespace/name`, with a regular plural of the kind.
type Named = String;

impl Members {
    pub(super) fn from(lag: Lag) -> Self {
        Self { lag, works: BTreeMap::new(), named: BTreeMap::new(), respecified: BTreeMap::new() }
    }

    pub(super) fn judge(&mut self, change: &Change) -> Option<String> {
        if change.id.is_on_hub() {
            self.note(change);
            return None;
        }
        // An agent has the name of its member.
        let member = change.id.server.as_str();
        let again = self.judge_spec(member, change);
        if change.actor != member {
            return None;
        }
        if change.verb == "DELETE" {
            return self.judge_deletion(member, change);
        }
        self.judge_write(member, change).or(again)
    }

    /// Every other spec makes a workload replace its pods. An agent gives one only for a new version of its Work, or because
    /// somebody else has changed the object.
    fn judge_spec(&mut self, member: &str, change: &Change) -> Option<String> {
        let generation = |object: &Value| object["metadata"]["generation"].as_i64();
        let object = format!("{} {}/{}", change.id.plural, change.id.namespace, change.id.name);
        if change.verb == "POST" {
            // Whatever was done to one of the same name that is gone says nothing of this one.
            self.respecified.remove(&(member.to_owned(), object));
            return None;
        }
        let before = change.before.as_deref().and_then(generation)?;
        let after = change.after.as_deref().filter(|after| !is_deleting(after)).and_then(generation)?;
        if after == before {
            return None;
        }
        let is_agent = change.actor == member;
        let times = self.respecified.entry((member.to_owned(), object.clone())).or_default();
        let [last, foreign] = *times;
        times[usize::from(!is_agent)] = Some(change.at);
        let last = last.filter(|_| is_agent)?;
        let (stale, now) = (self.lag.stale, change.at);
        // What came shortly before the last time may not have been known by then, but a little later.
        let is_news = |at: Duration| at > last || (at + stale > last && now < at + stale * 2);
        let versions = self.works.get(member).into_iter().flat_map(BTreeMap::values).flatten();
        let mut versions = versions.filter(|version| version.manifests.contains_key(&object));
        let has_reason = foreign.is_some_and(is_news)
            || versions.any(|version| is_news(version.since) || version.until.is_some_and(is_news));
        (!has_reason).then(|| format!("{object} is given another spec on {member}, and nothing has changed"))
    }

    /// How each Work was last to be applied.
    pub(super) fn strategies(&self) -> BTreeMap<String, Strategies> {
        let last = |versions: &Vec<Version>| {
            let strategy = versions.last()?.strategy["type"].as_str().unwrap_or(CLIENT_SIDE_APPLY);
            Some(strategy.to_owned())
        };
        let of_member = |works: &BTreeMap<String, Vec<Version>>| {
            works.iter().filter_map(|(name, versions)| Some((name.clone(), last(versions)?))).collect()
        };
        self.works.iter().map(|(member, works)| (member.clone(), of_member(works))).collect()
    }

    fn note(&mut self, change: &Change) {
        if change.id.plural == "namespaces" {
            if let Some(member) = MemberNamespace::cluster_of(&change.id.name)
                && (change.before.is_none() || change.begins_deletion())
            {
                // All that is in it goes with it, and nothing of it comes back.
                let works = self.works.entry(member.to_string()).or_default();
                for versions in works.values_mut() {
                    end(versions, change.at);
                }
            }
            return;
        }
        let Some(member) = MemberNamespace::cluster_of(&change.id.namespace) else { return };
        if change.id.plural != "works" {
            return;
        }
        let versions = self.works.entry(member.to_string()).or_default().entry(change.id.name.clone()).or_default();
        let Some(work) = &change.after else { return end(versions, change.at) };
        let manifests = work["spec"]["workload"]["manifests"].as_array().into_iter().flatten();
        let manifests: BTreeMap<Named, Value> = manifests.map(|one| (named(one), one.clone())).collect();
        self.named.entry(member.to_string()).or_default().extend(manifests.keys().cloned());
        let (deleting, strategy) = (is_deleting(work), work["spec"]["applyStrategy"].clone());
        let same = |last: &&Version| {
            last.until.is_none()
                && (last.deleting, &last.strategy, &last.manifests) == (deleting, &strategy, &manifests)
        };
        if versions.last().is_none_or(|last| !same(&last)) {
            end(versions, change.at);
            versions.push(Version { until: None, since: change.at, deleting, strategy, manifests });
        }
    }

    /// What the agent may take for the present: Works as they are and as they were a moment ago.
    fn recent<'a>(&'a self, member: &str, at: Duration) -> impl Iterator<Item = &'a Version> {
        let works = self.works.get(member).into_iter().flat_map(BTreeMap::values).flatten();
        works.filter(move |version| version.until.is_none_or(|until| at.saturating_sub(until) < self.lag.stale))
    }

    fn judge_deletion(&self, member: &str, change: &Change) -> Option<String> {
        let name = change.id.name.as_str();
        if change.id.plural == "appliedworks" {
            let versions = self.works.get(member).and_then(|works| works.get(name))?;
            let wanted = versions.last().is_some_and(|last| last.until.is_none() && !last.deleting);
            return wanted.then(|| format!("the ledger of {name} is deleted on {member}, which the hub wants"));
        }
        let object = format!("{} {}/{name}", change.id.plural, change.id.namespace);
        if !self.named.get(member).is_some_and(|all| all.contains(&object)) {
            return Some(format!("{object} is deleted on {member} and was never placed there"));
        }
        let wants = |version: &&Version| {
            version.until.is_none()
                && !version.deleting
                && version.manifests.contains_key(&object)
                && change.at.saturating_sub(version.since) >= self.lag.stale
        };
        let wanted = self.recent(member, change.at).any(|version| wants(&version));
        wanted.then(|| format!("{object} is deleted on {member}, which the hub wants"))
    }

    fn judge_write(&self, member: &str, change: &Change) -> Option<String> {
        let object = format!("{} {}/{}", change.id.plural, change.id.namespace, change.id.name);
        let asking: Vec<(&Value, &Value)> = self
            .recent(member, change.at)
            .filter_map(|version| Some((&version.strategy, version.manifests.get(&object)?)))
            .collect();
        let after = change.after.as_deref()?;
        if asking.is_empty() {
            return None;
        }
        let all = |test: &dyn Fn(&Value, &Value) -> bool| asking.iter().all(|(strategy, one)| test(strategy, one));
        let content_changed = change.before.as_deref().is_none_or(|before| before["data"] != after["data"]);
        if content_changed && all(&|strategy, _| strategy["type"] == "ReportDiff") {
            return Some(format!("{object} is changed on {member} where differences are only to be reported"));
        }
        // What is created was not there: the server may have deleted it on its own, with its namespace.
        let there = change.before.as_deref().filter(|_| change.verb != "POST");
        let before = there.filter(|before| !is_owned(before) && !is_deleting(before))?;
        let forbids = |strategy: &Value, manifest: &Value| match text(&strategy["whenToTakeOver"]) {
            "Never" => true,
            "IfNoDiff" => differs(manifest, before),
            _ => false,
        };
        all(&forbids).then(|| format!("{object} is changed on {member} and may not be taken over"))
    }
}

fn end(versions: &mut [Version], at: Duration) {
    if let Some(last) = versions.last_mut() {
        last.until.get_or_insert(at);
    }
}

fn named(manifest: &Value) -> Named {
    let meta = &manifest["metadata"];
    let plural = format!("{}s", text(&manifest["kind"]).to_lowercase());
    format!("{plural} {}/{}", text(&meta["namespace"]), text(&meta["name"]))
}

fn is_owned(object: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.into_iter().any(|owner| owner["kind"] == "AppliedWork")
}

/// Whether what the manifest says of its data is otherwise in the object.
fn differs(manifest: &Value, object: &Value) -> bool {
    let data = manifest["data"].as_object().into_iter().flatten();
    data.into_iter().any(|(key, value)| object["data"].get(key) != Some(value))
}
