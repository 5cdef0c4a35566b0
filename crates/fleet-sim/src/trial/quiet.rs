//! Agents that are started on a settled fleet have nothing to write.
//!
//! Decides which writes of such agents are needless, from what was there before and what each write made of it. Heartbeats
//! and differences that are told again change nothing but the times of looks; server-side apply asks a server whether
//! anything differs by applying, and changes nothing but who manages what. Everything else should have been written before the restart:
//! whoever writes it afterwards has missed a wake-up. Never compares two worlds: that is `state`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::network::{Carried, HUB_SERVER, Line};
use crate::state::{FleetState, difference};

/// Only requests of server-side apply say it.
const BY_SERVER_SIDE_APPLY: &str = "&force=";
/// Fields that say when somebody last looked. A look that finds nothing new moves nothing else.
const LOOKS: [&str; 2] = ["lastReceivedHeartbeat", "observationTime"];
/// What a server itself writes down about every write.
const BOOKKEEPING: [&str; 2] = ["resourceVersion", "managedFields"];

/// A write that took place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Written {
    server: String,
    what: String,
    verb: String,
    by_server_side_apply: bool,
    answer: Value,
}

impl Written {
    /// Nothing if it was only tried out.
    pub(super) fn of(carried: &Carried<'_>) -> Option<Self> {
        let Carried { actor, server, verb, path, answer, .. } = carried;
        if is_trial(path) {
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

fn is_trial(path: &str) -> bool {
    path.contains("dryRun=")
}

/// Every write that had no reason, as a sentence; with it those that failed.
pub(super) fn needless(before: &FleetState, written: &[Written], lines: &[Line]) -> Vec<String> {
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

/// A server-side apply that others' fields stand against is tried again and again, and told as failed.
fn is_conflict(line: &Line) -> bool {
    line.path.contains("&force=false") && line.outcome == "409"
}

fn is_write(line: &Line) -> bool {
    !matches!(line.verb.as_str(), "GET" | "WATCH" | "HEAD") && !is_trial(&line.path)
}

impl Written {
    fn is_needless(&self, before: Option<&Value>) -> Option<String> {
        let Some(before) = before else { return Some("it was not there before".to_owned()) };
        if self.verb == "DELETE" {
            return Some("it was there before".to_owned());
        }
        let [mut before, mut after] = [before, &self.answer].map(without_bookkeeping);
        if before == after {
            return (!self.by_server_side_apply).then(|| "it changed nothing".to_owned());
        }
        for object in [&mut before, &mut after] {
            forget(object, &LOOKS);
        }
        difference(&format!("{before:#}"), &format!("{after:#}"))
    }
}

fn without_bookkeeping(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        // Lists of built-in kinds do not repeat them.
        fields.retain(|field, _| !["apiVersion", "kind"].contains(&field.as_str()));
    }
    forget(&mut object, &BOOKKEEPING);
    object
}

fn forget(value: &mut Value, fields: &[&str]) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !fields.contains(&key.as_str()));
            map.values_mut().for_each(|inner| forget(inner, fields));
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| forget(inner, fields)),
        _ => {}
    }
}

/// An object somewhere.
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

    /// What is found needless of a write, on a member that has the map in its first version.
    fn needless_of(verb: &str, path: &str, mut answer: Value) -> Vec<String> {
        let has = ClusterState([("ConfigMap".to_owned(), vec![map(1, "x", 1)])].into());
        let before = FleetState { hub: ClusterState::default(), members: [("m1".to_owned(), has)].into() };
        answer["kind"] = "ConfigMap".into();
        let text = answer.to_string();
        let carried = Carried { at: Duration::ZERO, actor: "m1", server: "m1", verb, path, answer: text.as_bytes() };
        needless(&before, Written::of(&carried).as_slice(), &[])
    }

    #[test]
    fn looks_and_server_side_applies_that_change_nothing_are_no_matter() {
        assert_eq!(needless_of("PATCH", PATCH, map(2, "x", 2)), Vec::<String>::new());
        assert_eq!(needless_of("PATCH", APPLY, map(1, "x", 1)), Vec::<String>::new());
        assert_eq!(needless_of("PATCH", &format!("{PATCH}&dryRun=All"), map(2, "y", 1)), Vec::<String>::new());
    }

    #[test]
    fn whatever_changes_something_else_or_nothing_at_all_is_needless() {
        for (verb, path, answer, word) in [
            ("PATCH", PATCH, map(2, "y", 2), "\"key\": \"y\""),
            ("PATCH", APPLY, map(2, "y", 1), "\"key\": \"y\""),
            ("PATCH", PATCH, map(1, "x", 1), "it changed nothing"),
            ("DELETE", PATCH, map(2, "x", 1), "it was there before"),
        ] {
            let found = needless_of(verb, path, answer);
            assert!(found.len() == 1 && found[0].contains(word), "{verb} {path}: {found:?}");
        }
        let mut other = map(2, "x", 1);
        other["metadata"]["name"] = "b".into();
        assert!(needless_of("POST", PATCH, other)[0].contains("it was not there before"));
    }

    #[test]
    fn what_is_written_twice_is_judged_by_what_the_first_made_of_it() {
        let carry = |answer: Value| {
            let text = answer.to_string();
            let answer = text.as_bytes();
            let (actor, server, verb, path) = ("m1", "m1", "PATCH", PATCH);
            Written::of(&Carried { at: Duration::ZERO, actor, server, verb, path, answer })
        };
        let mut second = map(3, "y", 1);
        second["kind"] = "ConfigMap".into();
        let mut first = second.clone();
        first["metadata"]["resourceVersion"] = "2".into();
        let written: Vec<Written> = [first, second].into_iter().filter_map(carry).collect();
        let found = needless(&FleetState::default(), &written, &[]);
        assert_eq!(found.iter().filter(|one| one.ends_with("it changed nothing")).count(), 1, "{found:?}");
    }

    #[test]
    fn requests_that_failed_are_told() {
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
        let found = needless(&FleetState::default(), &[], &lines);
        assert!(found.len() == 1 && found[0].starts_with("failed after a restart"), "{found:?}");
    }
}
