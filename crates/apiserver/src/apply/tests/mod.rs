//! The fixture language of the tests: a list of writes in YAML, and the object with its owners as it prints afterwards.
//!
//! A step is `verb manager: body`. Verbs: `create`, `update` (PUT), `merge` (JSON merge patch), `apply`, `force` (apply
//! with force), `status` (PUT of the status subresource), `apply-status`. Bodies need no apiVersion, kind or name.
//! Every step is a minute later than the one before; `@n` in the output is the minute of an entry.

// The expectations are written by expect-test, always with hashes.
#![allow(clippy::needless_raw_string_hashes)]

mod conflicts;
mod edges;
mod entries;
mod fields;
mod growth;
mod kind;
mod owners;
mod properties;
mod pruning;
mod refusals;
mod values;

use std::fmt::Write;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{FieldSet, Reset, Target, Writer, apply, keep_times_of_no_op, managed, meta, track_update};
use crate::error::ApiError;
use crate::schema::Schema;

pub(super) const API_VERSION: &str = "example.com/v1";
const MINUTE_SECONDS: i64 = 60;

/// The object under test and the clock.
pub(super) struct Fixture {
    schema: Schema,
    pub(super) live: Option<Value>,
    minute: i64,
    pub(super) api_version: &'static str,
}

impl Fixture {
    pub(super) fn new() -> Self {
        Self { schema: kind::web(), live: None, minute: 0, api_version: API_VERSION }
    }

    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(self.minute * MINUTE_SECONDS)
    }

    /// One write. Objects are kept as a server would: a status sent to the main resource is dropped and so on.
    pub(super) fn step(&mut self, verb: &str, manager: &str, body: &Value) -> Result<(), ApiError> {
        self.minute += 1;
        let subresource = if verb.ends_with("status") { "status" } else { "" };
        if self.live.is_none() && (verb == "merge" || !subresource.is_empty()) {
            return Err(ApiError::not_found("example.com", "webs", "web"));
        }
        let reset = if subresource.is_empty() { Reset::status() } else { Reset::all_but_status() };
        let target = Target { schema: &self.schema, kind: "Web", reset: &reset, blank: None };
        let writer = Writer { manager, subresource, api_version: self.api_version, now: self.now() };
        let live = self.live.as_ref();
        let mut new = match verb {
            "apply" | "force" | "apply-status" => {
                apply(&target, live, &self.completed(body), &writer, verb == "force")?
            }
            _ => {
                let mut new = match verb {
                    "merge" => merge_patched(live.unwrap_or(&Value::Null), body),
                    _ => self.completed(body),
                };
                track_update(&target, live, &mut new, &writer);
                new
            }
        };
        persist(live, &mut new, subresource);
        self.live = Some(new);
        Ok(())
    }

    fn completed(&self, body: &Value) -> Value {
        let mut object = json!({"apiVersion": self.api_version, "kind": "Web", "metadata": {"name": "web"}});
        for (name, value) in body.as_object().into_iter().flatten() {
            match (name.as_str(), value) {
                ("metadata", Value::Object(fields)) => {
                    for (field, value) in fields {
                        object["metadata"][field] = value.clone();
                    }
                }
                _ => object[name] = value.clone(),
            }
        }
        object
    }

    /// The object without what every object has, then its owners.
    fn printed(&self) -> String {
        let Some(live) = &self.live else { return "nothing\n".to_owned() };
        let mut object = live.clone();
        let list = meta::take_managed_fields(&mut object);
        for name in ["name", "uid"] {
            object["metadata"].as_object_mut().unwrap().remove(name);
        }
        let root = object.as_object_mut().unwrap();
        root.remove("apiVersion");
        root.remove("kind");
        if root["metadata"] == json!({}) {
            root.remove("metadata");
        }
        let yaml = if root.is_empty() { String::new() } else { serde_saphyr::to_string(&object).unwrap() };
        yaml + &owners(list.as_ref())
    }
}

fn owners(list: Option<&Value>) -> String {
    let mut out = String::new();
    for entry in list.and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        let minute = match text("time") {
            "" => "never".to_owned(),
            time => (time.parse::<Timestamp>().unwrap().as_second() / MINUTE_SECONDS).to_string(),
        };
        let version = text("apiVersion").trim_start_matches("example.com/");
        let subresource = if text("subresource").is_empty() { "" } else { " status" };
        writeln!(out, "{} {} {version}{subresource} @{minute}", text("manager"), text("operation")).unwrap();
        for path in FieldSet::from_fields(&entry["fieldsV1"]).unwrap().to_paths() {
            writeln!(out, "  {path}").unwrap();
        }
    }
    out
}

/// What a server does around apply: the subresource decides which half of the object is written.
fn persist(live: Option<&Value>, new: &mut Value, subresource: &str) {
    let mut stored = if subresource.is_empty() { new.clone() } else { live.cloned().unwrap_or_default() };
    let status = if subresource.is_empty() { live.and_then(|live| live.get("status")) } else { new.get("status") };
    let status = status.cloned();
    let root = stored.as_object_mut().unwrap();
    root.remove("status");
    if let Some(status) = status {
        root.insert("status".to_owned(), status);
    }
    stored["metadata"]["uid"] = json!("1");
    let list = meta::managed_fields(new).cloned();
    meta::take_managed_fields(&mut stored);
    meta::put_managed_fields(&mut stored, list);
    if let Some(live) = live {
        keep_times_of_no_op(live, &mut stored);
    }
    *new = stored;
}

fn merge_patched(base: &Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else { return patch.clone() };
    let mut out = base.as_object().cloned().unwrap_or_default();
    for (name, change) in changes {
        if change.is_null() {
            out.remove(name);
        } else {
            let merged = merge_patched(out.get(name).unwrap_or(&Value::Null), change);
            out.insert(name.clone(), merged);
        }
    }
    Value::Object(out)
}

pub(super) fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// Runs the steps and prints refusals, then the object and its owners.
pub(super) fn run(steps: &str) -> String {
    let mut fixture = Fixture::new();
    let mut out = String::new();
    for step in yaml(steps).as_array().unwrap() {
        let (head, body) = step.as_object().unwrap().iter().next().unwrap();
        let (verb, manager) = head.split_once(' ').unwrap_or((head, ""));
        let (manager, version) = manager.split_once(" in ").unwrap_or((manager, "v1"));
        fixture.api_version = if version == "v1" { API_VERSION } else { "example.com/v1beta1" };
        if let Some(live) = &mut fixture.live {
            live["apiVersion"] = json!(fixture.api_version);
        }
        let before = fixture.live.clone();
        match fixture.step(verb, manager, body) {
            Err(error) => {
                writeln!(out, "{head}: {} {}", error.code(), error.message).unwrap();
                for cause in error.details.map(|details| details.causes).unwrap_or_default() {
                    let text = |key: &str| cause[key].as_str().unwrap_or_default().to_owned();
                    writeln!(out, "  {} | {} | {}", text("reason"), text("field"), text("message")).unwrap();
                }
            }
            Ok(()) if before.is_some() && before == fixture.live => writeln!(out, "{head}: no change").unwrap(),
            Ok(()) => {}
        }
    }
    out + &fixture.printed()
}

#[track_caller]
pub(super) fn check(steps: &str, expected: &expect_test::Expect) {
    expected.assert_eq(&run(steps));
}

/// The fields that each manager owns.
pub(super) fn owned_sets(object: &Value) -> Vec<(String, FieldSet<'_>)> {
    let managed = managed::Managed::read(meta::managed_fields(object), true).unwrap();
    managed.entries.into_iter().map(|(identity, entry)| (identity, entry.set().clone())).collect()
}
