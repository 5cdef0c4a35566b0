//! One change of one object, as data. Plans are made of these; the writer performs them in order.
//!
//! Decides what is sent: nothing where nothing differs, and never over a version that the plan has not seen. Knows no
//! client.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::diff::{changed_fields, json_patch, merge_patch};
use crate::key::ObjectKey;
use crate::kind::KindId;

/// Which API server is meant. An agent with two (hub and member) connects the second by `Runtime::connect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Side(pub(crate) usize);

impl Side {
    /// The server that the runtime was made with.
    pub const MAIN: Self = Self(0);
}

/// A change to be made. Made by the constructors; a change of nothing is never sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    pub(crate) side: Side,
    pub(crate) kind: KindId,
    pub(crate) key: ObjectKey,
    pub(crate) op: Op,
    /// What it touches, in the words of `Ownership`. Empty for creations and deletions.
    pub(crate) fields: Vec<String>,
    pub(crate) soft: Option<Duration>,
    pub(crate) observed: bool,
    /// Field manager, where it is not the process's own.
    pub(crate) manager: Option<&'static str>,
    /// The server answers as if it had been done, and does nothing.
    pub(crate) dry_run: bool,
    pub(crate) explained: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Op {
    Create {
        body: Value,
    },
    Patch {
        subresource: Option<&'static str>,
        format: PatchFormat,
        body: Value,
        /// The version that the change is based on; part of the patch.
        base: Option<String>,
    },
    Replace {
        subresource: Option<&'static str>,
        body: Value,
    },
    Delete {
        uid: Option<String>,
        base: Option<String>,
        propagation: Propagation,
    },
    Nothing,
    /// An object that cannot be written as JSON; performing it is an error.
    Problem(String),
}

/// How the body of a patch is to be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchFormat {
    Merge,
    Json,
    Strategic,
    /// Server-side apply under this manager.
    Apply {
        manager: String,
        force: bool,
    },
}

/// What happens to the objects that an object owns when it is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Propagation {
    #[default]
    Background,
    Foreground,
    Orphan,
}

impl Propagation {
    pub(crate) fn wire(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// An object type that writes can be made of.
pub trait Writable: kube::Resource<DynamicType = ()> + Serialize {}
impl<K: kube::Resource<DynamicType = ()> + Serialize> Writable for K {}

impl Write {
    /// Creates an object. If it exists already, that is a conflict: the plan is made again with it in sight.
    pub fn create<K: Writable>(object: &K) -> Self {
        let (kind, key) = (KindId::of::<K>(), ObjectKey::of(object));
        match value_of(object) {
            Ok(body) => Self::create_raw(kind, body),
            Err(problem) => Self::new(kind, key, Op::Problem(problem)),
        }
    }

    /// Changes everything but the status from `old` to `new`, if `old` is still what is stored.
    pub fn change<K: Writable>(old: &K, new: &K) -> Self {
        Self::difference(old, new, None)
    }

    /// Changes the status from `old` to `new`, if `old` is still what is stored.
    pub fn status<K: Writable>(old: &K, new: &K) -> Self {
        Self::difference(old, new, Some("status"))
    }

    /// The same as `status` by single operations, for statuses with long lists: what is sent is as large as the change.
    pub fn status_in_parts<K: Writable>(old: &K, new: &K) -> Self {
        let whole = Self::status(old, new);
        let Op::Patch { base, .. } = &whole.op else { return whole };
        let base = base.clone();
        let part = |object: &K| part_of(object, Some("status")).map(|mut part| part["status"].take());
        let (Ok(old_status), Ok(new_status)) = (part(old), part(new)) else { return whole };
        let mut operations: Vec<Value> = base.iter().map(|version| version_operation(version)).collect();
        if old_status.is_null() {
            operations.push(json!({"op": "add", "path": "/status", "value": new_status}));
        } else {
            operations.extend(json_patch(&old_status, &new_status, "/status"));
        }
        let op = Op::Patch { subresource: Some("status"), format: PatchFormat::Json, body: operations.into(), base };
        Self { op, ..whole }
    }

    /// Deletes the object that was seen (by its uid); fine if it is gone already.
    pub fn delete<K: Writable>(object: &K) -> Self {
        let op = Op::Delete { uid: object.meta().uid.clone(), base: None, propagation: Propagation::default() };
        Self::new(KindId::of::<K>(), ObjectKey::of(object), op)
    }

    /// `create` for an object without a Rust type.
    pub fn create_raw(kind: KindId, mut body: Value) -> Self {
        let key =
            ObjectKey::of_value(&body).unwrap_or_else(|| ObjectKey::new(body["metadata"]["namespace"].as_str(), ""));
        if let Some(metadata) = body["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
            metadata.remove("uid");
        }
        Self::new(kind, key, Op::Create { body })
    }

    /// A patch in any format, of any kind, without a precondition unless the body has one.
    pub fn patch_raw(kind: KindId, key: ObjectKey, format: PatchFormat, body: Value) -> Self {
        let fields = match format {
            PatchFormat::Json => fields_of_operations(&body),
            _ => changed_fields(&json!({}), &body),
        };
        let fields = fields.into_iter().filter(|field| !NAMES_THE_OBJECT.contains(&field.as_str())).collect();
        let op = Op::Patch { subresource: None, format, body, base: None };
        Self { fields, ..Self::new(kind, key, op) }
    }

    /// Replaces a whole object; the body's resourceVersion is the precondition.
    pub fn replace_raw(kind: KindId, body: Value) -> Self {
        let key = ObjectKey::of_value(&body).unwrap_or_else(|| ObjectKey::new(None, ""));
        Self::new(kind, key, Op::Replace { subresource: None, body })
    }

    /// `delete` for an object without a Rust type.
    pub fn delete_raw(kind: KindId, key: ObjectKey, uid: Option<String>) -> Self {
        Self::new(kind, key, Op::Delete { uid, base: None, propagation: Propagation::default() })
    }

    /// On another server than the main one.
    #[must_use]
    pub fn on(mut self, side: Side) -> Self {
        self.side = side;
        self
    }

    /// To a subresource such as `scale`. Changes and statuses know theirs already.
    #[must_use]
    pub fn to_subresource(mut self, name: &'static str) -> Self {
        if let Op::Patch { subresource, .. } | Op::Replace { subresource, .. } = &mut self.op {
            *subresource = Some(name);
        }
        self
    }

    /// A deletion of exactly the version that was seen.
    #[must_use]
    pub fn of_version(mut self, version: impl Into<String>) -> Self {
        if let Op::Delete { base, .. } = &mut self.op {
            *base = Some(version.into());
        }
        self
    }

    #[must_use]
    pub fn propagating(mut self, how: Propagation) -> Self {
        if let Op::Delete { propagation, .. } = &mut self.op {
            *propagation = how;
        }
        self
    }

    /// May wait: it is performed at the latest `window` after a plan of this key first wanted a soft write, and only if
    /// the plan made then still wants it. Steps in between cost nothing.
    #[must_use]
    pub fn coalesce(mut self, window: Duration) -> Self {
        self.soft = Some(window);
        self
    }

    /// Its failure stops nothing: the outcome is given to `Controller::conclude` instead.
    #[must_use]
    pub fn observed(mut self) -> Self {
        self.observed = true;
        self
    }

    /// Under this field manager instead of the process's own. Server-side apply names its manager itself.
    #[must_use]
    pub fn managed_by(mut self, manager: &'static str) -> Self {
        self.manager = Some(manager);
        self
    }

    /// Asks what would come of it. Nothing is stored, so that nothing is owned, counted as known or laid over a cache.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Its refusal by the server is no failure but an answer: nothing after it is written, and the refusal is given to
    /// `Controller::conclude`. All else that may go wrong is tried again as ever.
    #[must_use]
    pub fn explained(mut self) -> Self {
        self.explained = true;
        self
    }

    pub fn kind(&self) -> &KindId {
        &self.kind
    }

    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Whether there is anything to do.
    pub fn is_nothing(&self) -> bool {
        self.op == Op::Nothing
    }

    /// What is sent: the object of a creation, the body of a patch.
    pub fn body(&self) -> Option<&Value> {
        match &self.op {
            Op::Create { body } | Op::Patch { body, .. } | Op::Replace { body, .. } => Some(body),
            Op::Delete { .. } | Op::Nothing | Op::Problem(_) => None,
        }
    }

    /// The fields that it touches, for `Ownership`.
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// A word for metrics and messages.
    pub fn verb(&self) -> &'static str {
        match &self.op {
            _ if self.dry_run => "dry-run",
            Op::Create { .. } => "create",
            Op::Patch { subresource: Some("status"), .. } | Op::Replace { subresource: Some("status"), .. } => "status",
            Op::Patch { format: PatchFormat::Apply { .. }, .. } => "apply",
            Op::Patch { .. } => "patch",
            Op::Replace { .. } => "replace",
            Op::Delete { .. } => "delete",
            Op::Nothing | Op::Problem(_) => "none",
        }
    }

    fn new(kind: KindId, key: ObjectKey, op: Op) -> Self {
        Self {
            side: Side::MAIN,
            kind,
            key,
            op,
            fields: Vec::new(),
            soft: None,
            observed: false,
            explained: false,
            manager: None,
            dry_run: false,
        }
    }

    fn difference<K: Writable>(old: &K, new: &K, subresource: Option<&'static str>) -> Self {
        let (kind, key) = (KindId::of::<K>(), ObjectKey::of(old));
        let (old_value, new_value) = match (part_of(old, subresource), part_of(new, subresource)) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(problem), _) | (_, Err(problem)) => return Self::new(kind, key, Op::Problem(problem)),
        };
        let Some(mut body) = merge_patch(&old_value, &new_value) else { return Self::new(kind, key, Op::Nothing) };
        let fields = changed_fields(&old_value, &new_value);
        let base = old.meta().resource_version.clone();
        if let Some(version) = &base {
            set_base(&mut body, version);
        }
        let op = Op::Patch { subresource, format: PatchFormat::Merge, body, base };
        Self { fields, ..Self::new(kind, key, op) }
    }

    /// The version that the change is based on.
    pub(crate) fn base(&self) -> Option<&str> {
        match &self.op {
            Op::Patch { base, .. } | Op::Delete { base, .. } => base.as_deref(),
            Op::Replace { body, .. } => body["metadata"]["resourceVersion"].as_str(),
            _ => None,
        }
    }

    /// The same change, based on the version that an earlier write of the same plan led to.
    pub(crate) fn rebase(&mut self, version: &str) {
        match &mut self.op {
            Op::Patch { base, body, .. } => {
                *base = Some(version.to_owned());
                set_base(body, version);
            }
            Op::Delete { base, .. } => *base = Some(version.to_owned()),
            Op::Replace { body, .. } => set_base(body, version),
            _ => {}
        }
    }
}

/// Fields of a patch that say which object is meant and change nothing.
const NAMES_THE_OBJECT: [&str; 6] =
    ["apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"];

/// The fields that a JSON patch touches: `/spec/a/0` is `spec.a`.
fn fields_of_operations(operations: &Value) -> Vec<String> {
    let field = |operation: &Value| {
        let path = operation["path"].as_str()?.strip_prefix('/')?;
        let named = path.split('/').take_while(|name| *name != "-" && name.parse::<usize>().is_err());
        Some(named.collect::<Vec<_>>().join("."))
    };
    operations
        .as_array()
        .into_iter()
        .flatten()
        .filter(|operation| operation["op"] != "test")
        .filter_map(field)
        .collect()
}

/// Where an object says which version it is; in a JSON patch, what makes another version a conflict.
const VERSION_PATH: &str = "/metadata/resourceVersion";

fn version_operation(version: &str) -> Value {
    json!({"op": "replace", "path": VERSION_PATH, "value": version})
}

fn set_base(body: &mut Value, version: &str) {
    for operation in body.as_array_mut().into_iter().flatten().filter(|one| one["path"] == VERSION_PATH) {
        *operation = version_operation(version);
    }
    if let Some(fields) = body.as_object_mut() {
        let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("resourceVersion".to_owned(), version.into());
        }
    }
}

fn value_of<K: Writable>(object: &K) -> Result<Value, String> {
    let mut value = serde_json::to_value(object).map_err(|error| error.to_string())?;
    if let Some(fields) = value.as_object_mut() {
        // Types of k8s-openapi write these two, others may not; a server wants them.
        fields.entry("apiVersion").or_insert_with(|| K::api_version(&()).into());
        fields.entry("kind").or_insert_with(|| K::kind(&()).into());
    }
    Ok(value)
}

/// The part of an object that one endpoint writes: the status, or all but the status and what the server keeps.
fn part_of<K: Writable>(object: &K, subresource: Option<&str>) -> Result<Value, String> {
    let mut value = serde_json::to_value(object).map_err(|error| error.to_string())?;
    let Some(fields) = value.as_object_mut() else { return Err("not an object".to_owned()) };
    if let Some(name) = subresource {
        fields.retain(|field, _| field == name);
        return Ok(value);
    }
    fields.remove("status");
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        for kept_by_server in ["resourceVersion", "managedFields", "generation", "uid", "creationTimestamp"] {
            metadata.remove(kept_by_server);
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use expect_test::{Expect, expect};
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};

    use super::*;

    fn map(version: Option<&str>, data: &[(&str, &str)]) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("a".into());
        map.metadata.namespace = Some("ns".into());
        map.metadata.uid = version.map(|_| "u1".into());
        map.metadata.resource_version = version.map(str::to_owned);
        map.data = Some(data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect());
        map
    }

    fn check(write: &Write, expected: Expect) {
        let body = write.body().map_or_else(String::new, ToString::to_string);
        expected.assert_eq(&format!("{} {} {} {body} {:?}", write.verb(), write.kind(), write.key(), write.fields()));
    }

    #[test]
    fn a_creation_has_no_version_and_says_what_it_is() {
        let write = Write::create(&map(Some("5"), &[("k", "v")]));
        check(
            &write,
            expect![[
                r#"create configmaps ns/a {"apiVersion":"v1","data":{"k":"v"},"kind":"ConfigMap","metadata":{"name":"a","namespace":"ns"}} []"#
            ]],
        );
        assert!(!write.is_nothing());
    }

    #[test]
    fn a_change_carries_what_differs_and_the_version_it_was_based_on() {
        let (old, new) = (map(Some("5"), &[("k", "v"), ("x", "y")]), map(Some("5"), &[("k", "w")]));
        check(
            &Write::change(&old, &new),
            expect![[
                r#"patch configmaps ns/a {"data":{"k":"w","x":null},"metadata":{"resourceVersion":"5"}} ["data.k", "data.x"]"#
            ]],
        );
        check(&Write::change(&old, &old), expect!["none configmaps ns/a  []"]);
        assert!(Write::change(&old, &old).is_nothing());
        let mut newer = old.clone();
        newer.metadata.resource_version = Some("9".into());
        newer.metadata.generation = Some(4);
        assert!(Write::change(&old, &newer).is_nothing(), "what the server keeps is not ours to change");
    }

    #[test]
    fn a_status_is_a_part_of_its_own() {
        let mut old = Namespace::default();
        old.metadata.name = Some("a".into());
        old.metadata.resource_version = Some("7".into());
        let mut new = old.clone();
        new.metadata.labels = Some(BTreeMap::from([("k".into(), "v".into())]));
        new.status.get_or_insert_default().phase = Some("Active".into());
        check(
            &Write::status(&old, &new),
            expect![[
                r#"status namespaces a {"metadata":{"resourceVersion":"7"},"status":{"phase":"Active"}} ["status.phase"]"#
            ]],
        );
        check(
            &Write::change(&old, &new),
            expect![[
                r#"patch namespaces a {"metadata":{"labels":{"k":"v"},"resourceVersion":"7"}} ["metadata.labels[k]"]"#
            ]],
        );
    }

    #[test]
    fn a_status_in_parts_carries_single_operations_and_its_version() {
        let mut old = Namespace::default();
        old.metadata.name = Some("a".into());
        old.metadata.resource_version = Some("7".into());
        let mut new = old.clone();
        new.status.get_or_insert_default().phase = Some("Active".into());
        check(
            &Write::status_in_parts(&old, &new),
            expect![[
                r#"status namespaces a [{"op":"replace","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/status","value":{"phase":"Active"}}] ["status.phase"]"#
            ]],
        );
        let mut newer = new.clone();
        newer.status.get_or_insert_default().phase = Some("Terminating".into());
        let mut write = Write::status_in_parts(&new, &newer);
        write.rebase("8");
        check(
            &write,
            expect![[
                r#"status namespaces a [{"op":"replace","path":"/metadata/resourceVersion","value":"8"},{"op":"replace","path":"/status/phase","value":"Terminating"}] ["status.phase"]"#
            ]],
        );
        assert!(Write::status_in_parts(&new, &new).is_nothing());
    }

    #[test]
    fn a_deletion_is_of_what_was_seen() {
        let write = Write::delete(&map(Some("5"), &[])).of_version("5").propagating(Propagation::Foreground);
        let Op::Delete { uid, base, propagation } = &write.op else { panic!("{write:?}") };
        assert_eq!((uid.as_deref(), base.as_deref(), propagation.wire()), (Some("u1"), Some("5"), "Foreground"));
    }

    #[test]
    fn raw_patches_name_the_fields_they_touch() {
        let (kind, key) = (KindId::of::<ConfigMap>(), ObjectKey::namespaced("ns", "a"));
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
        let apply = PatchFormat::Apply { manager: "m".into(), force: true };
        let write = Write::patch_raw(kind.clone(), key.clone(), apply, body);
        assert_eq!((write.verb(), write.fields()), ("apply", ["data.k".to_owned()].as_slice()));
        let operations = json!([
            {"op": "test", "path": "/metadata/uid", "value": "u1"},
            {"op": "add", "path": "/metadata/finalizers/-", "value": "x"},
            {"op": "remove", "path": "/spec/list/0/deep"},
        ]);
        let write = Write::patch_raw(kind, key, PatchFormat::Json, operations);
        assert_eq!(write.fields(), ["metadata.finalizers", "spec.list"]);
    }

    #[test]
    fn a_second_write_of_a_plan_follows_the_first() {
        let (old, new) = (map(Some("5"), &[]), map(Some("5"), &[("k", "v")]));
        let mut write = Write::change(&old, &new);
        assert_eq!(write.base(), Some("5"));
        write.rebase("6");
        assert_eq!((write.base(), &write.body().unwrap()["metadata"]["resourceVersion"]), (Some("6"), &json!("6")));
    }
}
