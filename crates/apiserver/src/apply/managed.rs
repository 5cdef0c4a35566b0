//! The managedFields of an object: which manager owns which fields, since when, and by which operation.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::fieldset::FieldSet;
use super::limits::{ANCIENT_CHANGES, MAX_UPDATE_MANAGERS};

const FIELDS_TYPE: &str = "FieldsV1";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// A field manager: name, operation, version and subresource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manager<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) operation: Operation,
    pub(super) api_version: Cow<'a, str>,
    pub(super) subresource: Cow<'a, str>,
}

impl Manager<'_> {
    /// The identity of an entry. An applier keeps its identity when it moves to another apiVersion. The form decides the
    /// order of managers in conflict messages.
    pub(super) fn identity(&self) -> String {
        let mut parts = Vec::with_capacity(4);
        let api_version = if self.operation == Operation::Apply { "" } else { &self.api_version };
        for (key, text) in [
            ("manager", self.name.as_ref()),
            ("operation", self.operation.as_str()),
            ("apiVersion", api_version),
            ("subresource", self.subresource.as_ref()),
        ] {
            if !text.is_empty() {
                parts.push(format!("{key:?}:{}", Value::from(text)));
            }
        }
        format!("{{{}}}", parts.join(","))
    }

    /// The manager as conflict messages name it.
    pub(super) fn printed(&self) -> String {
        let subresource = match self.subresource.as_ref() {
            "" => String::new(),
            name => format!(" with subresource {name:?}"),
        };
        let version = match self.operation {
            Operation::Update => format!(" using {}", self.api_version),
            Operation::Apply => String::new(),
        };
        format!("{:?}{subresource}{version}", self.name)
    }
}

/// One entry of managedFields.
#[derive(Debug, Clone)]
pub(super) struct Entry<'a> {
    pub(super) manager: Manager<'a>,
    pub(super) time: Option<Timestamp>,
    set: FieldSet<'a>,
    /// The stored form, as long as the set is what was stored: most entries pass a write unchanged.
    stored: Option<&'a Value>,
}

impl<'a> Entry<'a> {
    pub(super) fn new(manager: Manager<'a>, set: FieldSet<'a>, time: Option<Timestamp>) -> Self {
        Self { manager, time, set, stored: None }
    }

    pub(super) fn set(&self) -> &FieldSet<'a> {
        &self.set
    }

    pub(super) fn replace_set(&mut self, set: FieldSet<'a>) {
        if set != self.set {
            self.set = set;
            self.stored = None;
        }
    }

    fn seconds(&self) -> i64 {
        self.time.map_or(0, Timestamp::as_second)
    }

    /// `canonical`: the entry was written here, so its stored form can be used again.
    fn read(position: usize, entry: &'a Value, canonical: bool) -> Result<Self, String> {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        if text("apiVersion").is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType") {
            FIELDS_TYPE => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {position}")),
            other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {position}")),
        }
        let time = match entry.get("time").and_then(Value::as_str) {
            Some(text) => Some(text.parse().map_err(|error| format!("invalid time {text:?}: {error}"))?),
            None => None,
        };
        let stored = entry.get("fieldsV1");
        let set = stored.map_or_else(|| Ok(FieldSet::default()), FieldSet::from_fields)?;
        let manager = Manager {
            name: Cow::Borrowed(text("manager")),
            operation,
            api_version: Cow::Borrowed(text("apiVersion")),
            subresource: Cow::Borrowed(text("subresource")),
        };
        Ok(Self { manager, time, set, stored: stored.filter(|_| canonical) })
    }

    fn to_value(&self) -> Value {
        let mut out = Map::new();
        let manager = &self.manager;
        for (key, text) in [
            ("manager", manager.name.as_ref()),
            ("operation", manager.operation.as_str()),
            ("apiVersion", manager.api_version.as_ref()),
            ("subresource", manager.subresource.as_ref()),
            ("fieldsType", FIELDS_TYPE),
        ] {
            if !text.is_empty() {
                out.insert(key.to_owned(), json!(text));
            }
        }
        if let Some(time) = self.time {
            out.insert("time".to_owned(), json!(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()));
        }
        out.insert("fieldsV1".to_owned(), self.stored.cloned().unwrap_or_else(|| self.set.to_fields()));
        Value::Object(out)
    }
}

/// All entries of an object by the identity of their manager.
#[derive(Debug, Clone, Default)]
pub(super) struct Managed<'a> {
    pub(super) entries: BTreeMap<String, Entry<'a>>,
}

impl<'a> Managed<'a> {
    /// Reads a managedFields list; anything but a list counts as none. `canonical` says that the list was written
    /// here, and not by a client.
    pub(super) fn read(list: Option<&'a Value>, canonical: bool) -> Result<Self, String> {
        let mut entries = BTreeMap::new();
        for (position, value) in list.and_then(Value::as_array).into_iter().flatten().enumerate() {
            let entry = Entry::read(position, value, canonical)?;
            entries.insert(entry.manager.identity(), entry);
        }
        Ok(Self { entries })
    }

    /// The list to store; `None` without owners.
    pub(super) fn to_value(&self) -> Option<Value> {
        let mut entries: Vec<&Entry<'a>> = self.entries.values().collect();
        entries.sort_by(|a, b| {
            let key = |entry: &Entry<'a>| (entry.manager.operation, entry.seconds());
            key(a).cmp(&key(b)).then_with(|| {
                let (a, b) = (&a.manager, &b.manager);
                (&a.name, &a.api_version, &a.subresource).cmp(&(&b.name, &b.api_version, &b.subresource))
            })
        });
        (!entries.is_empty()).then(|| Value::Array(entries.into_iter().map(Entry::to_value).collect()))
    }

    pub(super) fn drop_empty(&mut self) {
        self.entries.retain(|_, entry| !entry.set.is_empty());
    }

    /// Adds what a writer has set to what it owned before.
    pub(super) fn add(&mut self, manager: Manager<'a>, set: FieldSet<'a>, now: Timestamp) {
        let identity = manager.identity();
        if let Some(known) = self.entries.get_mut(&identity) {
            known.replace_set(known.set.union(&set));
            known.time = Some(now);
        } else {
            self.entries.insert(identity, Entry::new(manager, set, Some(now)));
        }
    }

    /// Merges the oldest updaters of each apiVersion into one, until there are no more than the limit.
    pub(super) fn cap_updaters(&mut self) {
        let mut updaters: Vec<(i64, String)> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.manager.operation == Operation::Update)
            .map(|(identity, entry)| (entry.seconds(), identity.clone()))
            .collect();
        let Some(mut surplus) = updaters.len().checked_sub(MAX_UPDATE_MANAGERS) else { return };
        updaters.sort_by_key(|(seconds, identity)| Reverse((*seconds, identity.clone())));
        let mut first_of_version: BTreeMap<String, String> = BTreeMap::new();
        while let (Some((_, identity)), true) = (updaters.pop(), surplus > 0) {
            let Some(version) = self.entries.get(&identity).map(|entry| entry.manager.api_version.to_string()) else {
                continue;
            };
            match first_of_version.get(&version).cloned() {
                None => {
                    first_of_version.insert(version, identity);
                }
                Some(first) => surplus -= usize::from(self.merge_ancient(&first, &identity)),
            }
        }
    }

    /// Merges one more updater into the collecting entry of its apiVersion, which the first one becomes if there is
    /// none yet. False when the updater is that entry itself.
    fn merge_ancient(&mut self, first: &str, identity: &str) -> bool {
        let Some(entry) = self.entries.get(identity) else { return false };
        let bucket = Manager {
            name: Cow::Borrowed(ANCIENT_CHANGES),
            operation: Operation::Update,
            api_version: entry.manager.api_version.clone(),
            subresource: Cow::Borrowed(""),
        };
        let bucket_identity = bucket.identity();
        if bucket_identity == identity {
            return false;
        }
        if !self.entries.contains_key(&bucket_identity)
            && let Some(mut renamed) = self.entries.remove(first)
        {
            renamed.manager = bucket;
            self.entries.insert(bucket_identity.clone(), renamed);
        }
        if let Some(merged) = self.entries.remove(identity)
            && let Some(collecting) = self.entries.get_mut(&bucket_identity)
        {
            collecting.replace_set(collecting.set.union(&merged.set));
            collecting.time = merged.time;
        }
        true
    }
}
