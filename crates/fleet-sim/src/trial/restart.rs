//! A restart of all agents of a settled fleet must be a no-op: finds the writes of restarted agents that were not
//! needed.
//!
//! Heartbeats and repeated diff reports may change timestamps of reconciles. Server-side apply may change managed
//! fields, because an agent compares by applying. Any other write shows that an agent missed an event before the
//! restart.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::network::{CommittedWrite, HUB_SERVER, Line};
use crate::state::{FleetState, difference};

/// Part of the query of every server-side apply request.
const BY_SERVER_SIDE_APPLY: &str = "&force=";
/// Fields with the time of the last reconcile. A reconcile that finds nothing new changes no other field.
const RECONCILE_TIMES: [&str; 2] = ["lastReceivedHeartbeat", "observationTime"];
/// Fields that a server sets on every write.
const SERVER_FIELDS: [&str; 2] = ["resourceVersion", "managedFields"];

/// A write that was committed after the restart.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RestartWrite {
    server: String,
    what: String,
    verb: String,
    by_server_side_apply: bool,
    answer: Value,
}

impl RestartWrite {
    /// Returns `None` for a dry run.
    pub(super) fn of(write: &CommittedWrite<'_>) -> Option<Self> {
        let CommittedWrite { actor, server, verb, path, answer, .. } = write;
        if is_dry_run(path) {
            return None;
        }
        Some(Self {
            server: (*server).to_owned(),
            what: format!("{actor} {verb} {server}{path}"),
            verb: (*verb).to_owned(),
            by_server_side_apply: path.contains(BY_SERVER_SIDE_APPLY),
            answer: serde_json::from_slice(answer).unwrap_or_default(),
        })
    }
}

fn is_dry_run(path: &str) -> bool {
    path.contains("dryRun=")
}

/// Describes every needless write and every write that failed.
pub(super) fn needless_writes(before: &FleetState, written: &[RestartWrite], lines: &[Line]) -> Vec<String> {
    let mut known: BTreeMap<Key, Value> = BTreeMap::new();
    let all = before.members.iter().map(|(name, state)| (name.as_str(), state)).chain([(HUB_SERVER, &before.hub)]);
    for (server, state) in all {
        for (kind, objects) in &state.0 {
            known.extend(objects.iter().map(|object| (Key::of(server, kind, object), object.clone())));
        }
    }
    let mut found = Vec::new();
    for one in written {
        let kind = one.answer["kind"].as_str().unwrap_or_default();
        let key = Key::of(&one.server, kind, &one.answer);
        if let Some(why) = one.is_needless(known.get(&key)) {
            found.push(format!("needless after a restart: {}: {why}", one.what));
        }
        known.insert(key, one.answer.clone());
    }
    let failed = lines.iter().filter(|line| is_write(line) && !line.outcome.starts_with('2') && !is_conflict(line));
    found.extend(failed.map(|line| format!("failed after a restart: {line}")));
    found
}

/// Whether a server-side apply conflicts with fields of another manager. Agents retry it and report the failure.
fn is_conflict(line: &Line) -> bool {
    line.path.contains("&force=false") && line.outcome == "409"
}

fn is_write(line: &Line) -> bool {
    !matches!(line.verb.as_str(), "GET" | "WATCH" | "HEAD") && !is_dry_run(&line.path)
}

impl RestartWrite {
    fn is_needless(&self, before: Option<&Value>) -> Option<String> {
        let Some(before) = before else { return Some("it did not exist before".to_owned()) };
        if self.verb == "DELETE" {
            return Some("it existed before".to_owned());
        }
        let [mut before, mut after] = [before, &self.answer].map(without_server_fields);
        if before == after {
            return (!self.by_server_side_apply).then(|| "it changed nothing".to_owned());
        }
        for object in [&mut before, &mut after] {
            remove_fields(object, &RECONCILE_TIMES);
        }
        difference(&format!("{before:#}"), &format!("{after:#}"))
    }
}

fn without_server_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        // The items of a list of a built-in kind lack these fields.
        fields.retain(|field, _| !["apiVersion", "kind"].contains(&field.as_str()));
    }
    remove_fields(&mut object, &SERVER_FIELDS);
    object
}

fn remove_fields(value: &mut Value, fields: &[&str]) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !fields.contains(&key.as_str()));
            map.values_mut().for_each(|inner| remove_fields(inner, fields));
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| remove_fields(inner, fields)),
        _ => {}
    }
}

/// An object on one of the servers.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    server: String,
    kind: String,
    namespace: String,
    name: String,
}

impl Key {
    fn of(server: &str, kind: &str, object: &Value) -> Self {
        let word = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        Self { server: server.to_owned(), kind: kind.to_owned(), namespace: word("namespace"), name: word("name") }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::state::ClusterState;

    const APPLY: &str = "/api/v1/namespaces/shop/configmaps/a?fieldManager=x&force=true";
    const PATCH: &str = "/api/v1/namespaces/shop/configmaps/a?fieldManager=x";

    fn map(revision: u32, data: &str, looked: u32) -> Value {
        json!({
            "metadata": {"name": "a", "namespace": "shop", "resourceVersion": revision.to_string()},
            "data": {"key": data}, "status": {"details": [{"observationTime": looked}]},
        })
    }

    /// The needless writes among one write to a member that has the first version of the ConfigMap.
    fn needless_writes_of(verb: &str, path: &str, mut answer: Value) -> Vec<String> {
        let has = ClusterState([("ConfigMap".to_owned(), vec![map(1, "x", 1)])].into());
        let before = FleetState { hub: ClusterState::default(), members: [("m1".to_owned(), has)].into() };
        answer["kind"] = "ConfigMap".into();
        let text = answer.to_string();
        let write =
            CommittedWrite { at: Duration::ZERO, actor: "m1", server: "m1", verb, path, answer: text.as_bytes() };
        needless_writes(&before, RestartWrite::of(&write).as_slice(), &[])
    }

    #[test]
    fn reconcile_times_and_server_side_applies_without_changes_are_allowed() {
        assert_eq!(needless_writes_of("PATCH", PATCH, map(2, "x", 2)), Vec::<String>::new());
        assert_eq!(needless_writes_of("PATCH", APPLY, map(1, "x", 1)), Vec::<String>::new());
        assert_eq!(needless_writes_of("PATCH", &format!("{PATCH}&dryRun=All"), map(2, "y", 1)), Vec::<String>::new());
    }

    #[test]
    fn writes_that_change_other_fields_or_nothing_are_needless() {
        for (verb, path, answer, word) in [
            ("PATCH", PATCH, map(2, "y", 2), "\"key\": \"y\""),
            ("PATCH", APPLY, map(2, "y", 1), "\"key\": \"y\""),
            ("PATCH", PATCH, map(1, "x", 1), "it changed nothing"),
            ("DELETE", PATCH, map(2, "x", 1), "it existed before"),
        ] {
            let found = needless_writes_of(verb, path, answer);
            assert!(found.len() == 1 && found[0].contains(word), "{verb} {path}: {found:?}");
        }
        let mut other = map(2, "x", 1);
        other["metadata"]["name"] = "b".into();
        assert!(needless_writes_of("POST", PATCH, other)[0].contains("it did not exist before"));
    }

    #[test]
    fn a_second_write_is_compared_with_the_result_of_the_first() {
        let carry = |answer: Value| {
            let text = answer.to_string();
            let answer = text.as_bytes();
            let (actor, server, verb, path) = ("m1", "m1", "PATCH", PATCH);
            RestartWrite::of(&CommittedWrite { at: Duration::ZERO, actor, server, verb, path, answer })
        };
        let mut second = map(3, "y", 1);
        second["kind"] = "ConfigMap".into();
        let mut first = second.clone();
        first["metadata"]["resourceVersion"] = "2".into();
        let written: Vec<RestartWrite> = [first, second].into_iter().filter_map(carry).collect();
        let found = needless_writes(&FleetState::default(), &written, &[]);
        assert_eq!(found.iter().filter(|one| one.ends_with("it changed nothing")).count(), 1, "{found:?}");
    }

    #[test]
    fn failed_requests_are_reported() {
        let line = |verb: &str, path: &str, outcome: &str| Line {
            at: Duration::ZERO,
            until: Duration::ZERO,
            actor: "hub".into(),
            server: "".into(),
            verb: verb.to_owned(),
            path: path.to_owned(),
            outcome: outcome.to_owned(),
        };
        let lines = [
            line("GET", PATCH, "404"),
            line("PATCH", PATCH, "200"),
            line("PATCH", "/api/v1/namespaces/shop/configmaps/a?fieldManager=x&force=false", "409"),
            line("PATCH", PATCH, "409"),
        ];
        let found = needless_writes(&FleetState::default(), &[], &lines);
        assert!(found.len() == 1 && found[0].starts_with("failed after a restart"), "{found:?}");
    }
}
