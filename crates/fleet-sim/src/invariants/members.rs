//! Agents delete and rewrite objects on members only for a reason, and apply nothing that the strategy of a Work
//! forbids.
//!
//! Each write of a member's agent to its own server is checked against the Works on the hub. A version of a Work that
//! was replaced a moment ago is accepted as well, until the agent has reported on a newer one. Writes of users are not
//! checked.
//!
//! `content` compares objects.

mod content;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fleet_api::names::MemberNamespace;
use serde_json::Value;

use super::Lag;
use super::shadow_model::{Change, RESTORE, is_deleting, text};
use crate::state::{CLIENT_SIDE_APPLY, FORGED_REASON, Strategies};
use content::{content, content_but_ownership, differs};

/// The Works of all members.
#[derive(Debug)]
pub(super) struct Members {
    lag: Lag,
    works: BTreeMap<String, BTreeMap<String, History>>,
    /// Objects that a Work ever contained, by member.
    named: BTreeMap<String, BTreeSet<ObjectName>>,
    /// By member and object.
    rewrites: BTreeMap<(String, ObjectName), Rewrites>,
}

/// All versions of the Works with one name.
#[derive(Debug, Clone, Default)]
struct History {
    /// Of the last version. A Work that a restore of the hub brings back counts as another Work.
    uid: String,
    restores: u32,
    versions: Vec<Version>,
    /// The latest generation of this uid that the member's agent has reported on; 0 before its first report.
    reported: i64,
}

/// The content of a Work from `since` until `until`; the current version has no end.
#[derive(Debug, Clone)]
struct Version {
    until: Option<Duration>,
    since: Duration,
    uid: String,
    generation: i64,
    deleting: bool,
    strategy: Value,
    manifests: BTreeMap<ObjectName, Value>,
}

impl Version {
    fn wants(&self, object: &str) -> bool {
        !self.deleting && self.manifests.contains_key(object)
    }

    /// Strategy and manifest of an object, if this version wants it.
    fn desired<'a>(&'a self, object: &str) -> Option<(&'a Value, &'a Value)> {
        self.manifests.get(object).filter(|_| !self.deleting).map(|manifest| (&self.strategy, manifest))
    }
}

impl History {
    /// The versions that the agent may have in its cache: the last one, and those that ended less than `stale` ago,
    /// unless the agent has reported on a later one.
    fn possible_versions(&self, at: Duration, stale: Duration) -> impl Iterator<Item = &Version> {
        let is_recent = move |version: &&Version| version.until.is_none_or(|until| at.saturating_sub(until) < stale);
        let is_possible = |version: &&Version| {
            if version.uid == self.uid { version.generation >= self.reported } else { self.reported == 0 }
        };
        self.versions.iter().filter(is_recent).filter(is_possible)
    }

    /// Whether the Work exists and every version that the agent may have in its cache wants the object.
    fn certainly_wants(&self, object: &str, at: Duration, stale: Duration) -> bool {
        let is_there = self.versions.last().is_some_and(|last| last.until.is_none());
        let first = self.versions.iter().find(|version| version.uid == self.uid).map(|first| first.since);
        let is_known = self.reported > 0 || first.is_some_and(|since| at.saturating_sub(since) >= stale);
        is_there && is_known && self.possible_versions(at, stale).all(|version| version.wants(object))
    }

    fn end(&mut self, at: Duration) {
        if let Some(last) = self.versions.last_mut() {
            last.until.get_or_insert(at);
        }
    }
}

/// The writes of an agent to one object, and the reasons for them.
#[derive(Debug, Clone, Default)]
struct Rewrites {
    /// When the agent last changed it.
    last: Option<Duration>,
    /// Times at which the Work changed for this object, or at which another client changed the object. Each time is
    /// listed once for each write that it justifies.
    reasons: Vec<Duration>,
}

/// Writes that one reason justifies: one to own an object, and one to apply its manifest.
const WRITES_PER_REASON: usize = 2;

impl Rewrites {
    fn has_reason(&mut self, at: Duration) {
        self.reasons.extend([at; WRITES_PER_REASON]);
    }

    /// Records that the agent creates the object. Without a recent reason, the missing object is the reason: the server may have
    /// deleted it with its namespace.
    fn recreate(&mut self, now: Duration, stale: Duration) {
        self.reasons.retain(|at| at.saturating_add(stale) > now);
        if self.reasons.is_empty() {
            self.has_reason(now);
        }
        self.spend(now, stale);
    }

    /// Uses up the oldest reason for a write of the agent; false if there is none. A reason from shortly before the
    /// last write still counts, because the agent may have received it after that write.
    fn spend(&mut self, now: Duration, stale: Duration) -> bool {
        let last = self.last.replace(now);
        let is_news = |at: Duration| {
            last.is_none_or(|last| {
                at > last || (at.saturating_add(stale) > last && now < at.saturating_add(stale.saturating_mul(2)))
            })
        };
        self.reasons.retain(|at| is_news(*at));
        if self.reasons.is_empty() {
            return last.is_none();
        }
        self.reasons.remove(0);
        true
    }
}

/// `plural namespace/name`, with a regular plural of the kind.
type ObjectName = String;

impl Members {
    pub(super) fn from(lag: Lag) -> Self {
        Self { lag, works: BTreeMap::new(), named: BTreeMap::new(), rewrites: BTreeMap::new() }
    }

    pub(super) fn check(&mut self, change: &Change) -> Option<String> {
        if change.id.is_on_hub() {
            self.record(change);
            return None;
        }
        // The agent has the same name as its member.
        let member = change.id.server.as_str();
        let again = self.check_rewrite(member, change);
        if change.actor != member {
            return None;
        }
        if change.verb == "DELETE" {
            return self.check_deletion(member, change);
        }
        self.check_write(member, change).or(again)
    }

    /// An agent changes an object only for a new version of its Work, or because another client has changed it.
    fn check_rewrite(&mut self, member: &str, change: &Change) -> Option<String> {
        let (is_agent, stale) = (change.actor == member, self.lag.stale);
        let object = name_of_target(change);
        let rewrites = self.rewrites.entry((member.to_owned(), object.clone())).or_default();
        if change.verb == "POST" {
            // Writes to a deleted object of the same name do not count.
            rewrites.last = None;
            if is_agent {
                rewrites.recreate(change.at, stale);
            }
            return None;
        }
        let (before, after) = (change.before.as_deref()?, change.after.as_deref().filter(|after| !is_deleting(after))?);
        if !is_rewritten(before, after) {
            return None;
        }
        if !is_agent {
            rewrites.has_reason(change.at);
            return None;
        }
        let has_reason = rewrites.spend(change.at, stale);
        (!has_reason).then(|| format!("{object} is rewritten on {member} although nothing has changed"))
    }

    /// The last apply strategy of each Work, by member.
    pub(super) fn strategies(&self) -> BTreeMap<String, Strategies> {
        let last = |history: &History| {
            let strategy = history.versions.last()?.strategy["type"].as_str().unwrap_or(CLIENT_SIDE_APPLY);
            Some(strategy.to_owned())
        };
        let of_member = |works: &BTreeMap<String, History>| {
            works.iter().filter_map(|(name, history)| Some((name.clone(), last(history)?))).collect()
        };
        self.works.iter().map(|(member, works)| (member.clone(), of_member(works))).collect()
    }

    fn record(&mut self, change: &Change) {
        if change.id.plural == "namespaces" {
            if let Some(member) = MemberNamespace::cluster_of(&change.id.name)
                && (change.before.is_none() || change.begins_deletion())
            {
                // All Works in a member's namespace are deleted with it.
                let works = self.works.entry(member.to_string()).or_default();
                for history in works.values_mut() {
                    history.end(change.at);
                }
            }
            return;
        }
        let Some(member) = MemberNamespace::cluster_of(&change.id.namespace) else { return };
        if change.id.plural == "works" {
            self.record_work(member.as_str(), change);
        }
    }

    fn record_work(&mut self, member: &str, change: &Change) {
        let history = self.works.entry(member.to_owned()).or_default().entry(change.id.name.clone()).or_default();
        let Some(work) = &change.after else { return history.end(change.at) };
        history.restores += u32::from(change.actor == RESTORE);
        let uid = format!("{}/{}", text(&work["metadata"]["uid"]), history.restores);
        if history.uid != uid {
            // A new Work of the same name: reports on the old one do not count.
            history.end(change.at);
            (history.uid, history.reported) = (uid.clone(), 0);
        }
        if change.actor == member {
            let conditions = work["status"]["conditions"].as_array().into_iter().flatten();
            let own = conditions.filter(|one| one["reason"] != FORGED_REASON);
            let reported = own.filter_map(|one| one["observedGeneration"].as_i64()).max();
            history.reported = history.reported.max(reported.unwrap_or(0));
        }
        let manifests = work["spec"]["workload"]["manifests"].as_array().into_iter().flatten();
        let manifests: BTreeMap<ObjectName, Value> = manifests.map(|one| (named(one), one.clone())).collect();
        self.named.entry(member.to_owned()).or_default().extend(manifests.keys().cloned());
        let version = Version {
            until: None,
            since: change.at,
            uid,
            generation: work["metadata"]["generation"].as_i64().unwrap_or(0),
            deleting: is_deleting(work),
            strategy: work["spec"]["applyStrategy"].clone(),
            manifests,
        };
        let last = history.versions.last().filter(|last| last.until.is_none());
        let is_same = |last: &Version| {
            (last.deleting, &last.strategy, &last.manifests)
                == (version.deleting, &version.strategy, &version.manifests)
        };
        if last.is_some_and(is_same) {
            return;
        }
        let all = last.into_iter().flat_map(|last| last.manifests.keys()).chain(version.manifests.keys());
        let changed = |object: &&ObjectName| last.and_then(|last| last.desired(object)) != version.desired(object);
        for object in all.filter(changed).cloned().collect::<BTreeSet<ObjectName>>() {
            self.rewrites.entry((member.to_owned(), object)).or_default().has_reason(change.at);
        }
        history.end(change.at);
        history.versions.push(version);
    }

    fn check_deletion(&self, member: &str, change: &Change) -> Option<String> {
        let (name, works) = (change.id.name.as_str(), self.works.get(member));
        if change.id.plural == "appliedworks" {
            let last = works.and_then(|works| works.get(name)).and_then(|history| history.versions.last())?;
            let wanted = last.until.is_none() && !last.deleting;
            return wanted.then(|| format!("the AppliedWork {name} is deleted on {member} although the hub wants it"));
        }
        let object = name_of_target(change);
        if !self.named.get(member).is_some_and(|all| all.contains(&object)) {
            return Some(format!("{object} is deleted on {member} although it was never placed there"));
        }
        let mut works = works.into_iter().flat_map(BTreeMap::values);
        let wanted = works.any(|history| history.certainly_wants(&object, change.at, self.lag.stale));
        wanted.then(|| format!("{object} is deleted on {member} although the hub wants it"))
    }

    fn check_write(&self, member: &str, change: &Change) -> Option<String> {
        let object = name_of_target(change);
        let works = self.works.get(member).into_iter().flat_map(BTreeMap::values);
        let versions = works.flat_map(|history| history.possible_versions(change.at, self.lag.stale));
        let asking: Vec<(&Value, &Value)> =
            versions.filter_map(|version| Some((&version.strategy, version.manifests.get(&object)?))).collect();
        let after = change.after.as_deref()?;
        if asking.is_empty() {
            return None;
        }
        let all = |test: &dyn Fn(&Value, &Value) -> bool| asking.iter().all(|(strategy, one)| test(strategy, one));
        // If take-over is allowed, the agent becomes an owner of the object even with ReportDiff.
        let is_changed = |before: &Value| content_but_ownership(before) != content_but_ownership(after);
        if change.before.as_deref().is_none_or(is_changed) && all(&|strategy, _| strategy["type"] == "ReportDiff") {
            return Some(format!("{object} is changed on {member} although differences are only to be reported"));
        }
        // An object that is created did not exist: the server may have deleted it with its namespace.
        let there = change.before.as_deref().filter(|_| change.verb != "POST");
        let before = there.filter(|before| !is_owned(before) && !is_deleting(before))?;
        let forbids = |strategy: &Value, manifest: &Value| match text(&strategy["whenToTakeOver"]) {
            "Never" => true,
            "IfNoDiff" => differs(manifest, before, strategy["comparisonOption"] == "FullComparison"),
            _ => false,
        };
        all(&forbids).then(|| format!("{object} is changed on {member} although it may not be taken over"))
    }
}

/// Whether a write changed the generation of an object or, if its kind has none, its content.
fn is_rewritten(before: &Value, after: &Value) -> bool {
    let field = |object: &Value, name: &str| object["metadata"][name].clone();
    let (old, new) = (field(before, "generation"), field(after, "generation"));
    if old.is_number() && new.is_number() {
        return old != new;
    }
    // Only agents and users write ConfigMaps, so each new resourceVersion counts. The first server-side apply of a
    // manager changes only managed fields, which an agent cannot predict.
    let is_new_version = || field(before, "resourceVersion") != field(after, "resourceVersion");
    content(before) != content(after)
        || (after["kind"] == "ConfigMap" && is_new_version() && managers(before) == managers(after))
}

/// The managed fields without times.
fn managers(object: &Value) -> Vec<[&Value; 3]> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries.map(|entry| [&entry["manager"], &entry["operation"], &entry["fieldsV1"]]).collect()
}

fn name_of_target(change: &Change) -> ObjectName {
    format!("{} {}/{}", change.id.plural, change.id.namespace, change.id.name)
}

fn named(manifest: &Value) -> ObjectName {
    let meta = &manifest["metadata"];
    let plural = format!("{}s", text(&manifest["kind"]).to_lowercase());
    format!("{plural} {}/{}", text(&meta["namespace"]), text(&meta["name"]))
}

fn is_owned(object: &Value) -> bool {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten().any(content::is_of_agent)
}
