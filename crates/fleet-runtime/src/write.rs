//! A write of one object as data. Plans consist of these; the writer sends them in order.
//!
//! A write that changes nothing is not sent. Never overwrites a version that the plan has not seen.

use std::borrow::Cow;
use std::time::Duration;

use k8s_values::{json_patch, merge_patch};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::diff::changed_fields;
use crate::key::ObjectKey;
use crate::kind::KindId;

/// Identifies an API server of a runtime. A member agent has two: the hub and, by `Runtime::connect`, its own cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ClusterId(pub(crate) usize);

impl ClusterId {
    /// The server of the client that `Runtime::new` was called with.
    pub const MAIN: Self = Self(0);
}

/// A write to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    pub(crate) cluster: ClusterId,
    pub(crate) kind: KindId,
    pub(crate) key: ObjectKey,
    pub(crate) op: Op,
    /// The changed fields, as `Ownership` names them. Empty for creations and deletions.
    pub(crate) fields: Vec<String>,
    /// How long it may be deferred.
    pub(crate) defer: Option<Duration>,
    pub(crate) best_effort: bool,
    /// The field manager, if it is not `Options::component`.
    pub(crate) manager: Option<&'static str>,
    pub(crate) dry_run: bool,
    pub(crate) report_rejection: bool,
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
        /// The resourceVersion that the change is based on; part of the patch.
        base: Option<String>,
    },
    /// A change of the status. The patch is made when it is sent, because a status that was deferred before is part of it.
    Status {
        old: Value,
        new: Value,
        format: StatusFormat,
        /// The resourceVersion that the change is based on; part of the patch.
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
    /// An object that cannot be serialized as JSON; sending it is an error.
    Problem(String),
}

/// The format in which a status is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusFormat {
    /// A merge patch. Lists are sent completely.
    Merge,
    /// A JSON patch with one operation per changed value.
    Parts,
}

/// The format of a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchFormat {
    Merge,
    Json,
    Strategic,
    /// Server-side apply with this field manager.
    Apply {
        manager: String,
        force: bool,
    },
}

/// What happens to dependents when an object is deleted.
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

/// An object type that can be written.
pub trait Writable: kube::Resource<DynamicType = ()> + Serialize {}
impl<K: kube::Resource<DynamicType = ()> + Serialize> Writable for K {}

impl Write {
    /// Creates an object. If it exists already, that is a conflict, and the key is planned again with the object in the cache.
    pub fn create<K: Writable>(object: &K) -> Self {
        let (kind, key) = (KindId::of::<K>(), ObjectKey::of(object));
        match value_of(object) {
            Ok(body) => Self::create_raw(kind, body),
            Err(problem) => Self::new(kind, key, Op::Problem(problem)),
        }
    }

    /// Changes everything but the status from `old` to `new`. A conflict if the stored version is not that of `old`.
    pub fn change<K: Writable>(old: &K, new: &K) -> Self {
        let (kind, key) = (KindId::of::<K>(), ObjectKey::of(old));
        let (old_value, new_value) = match (without_status(old), without_status(new)) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(problem), _) | (_, Err(problem)) => return Self::new(kind, key, Op::Problem(problem)),
        };
        let Some(mut body) = merge_patch::diff(&old_value, &new_value) else {
            return Self::new(kind, key, Op::Nothing);
        };
        let fields = changed_fields(&old_value, &new_value);
        let base = old.meta().resource_version.clone();
        if let Some(version) = &base {
            set_base(&mut body, version);
        }
        let op = Op::Patch { subresource: None, format: PatchFormat::Merge, body, base };
        Self { fields, ..Self::new(kind, key, op) }
    }

    /// Changes the status from `old` to `new`. A conflict if the stored version is not that of `old`.
    pub fn status<K: Writable>(old: &K, new: &K) -> Self {
        Self::status_change(old, new, StatusFormat::Merge)
    }

    /// As `status`, as a JSON patch. For statuses with long lists: the request is only as large as the change.
    pub fn status_in_parts<K: Writable>(old: &K, new: &K) -> Self {
        Self::status_change(old, new, StatusFormat::Parts)
    }

    fn status_change<K: Writable>(old: &K, new: &K, format: StatusFormat) -> Self {
        let (kind, key) = (KindId::of::<K>(), ObjectKey::of(old));
        let (old_part, new_part) = match (status_of(old), status_of(new)) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(problem), _) | (_, Err(problem)) => return Self::new(kind, key, Op::Problem(problem)),
        };
        if old_part == new_part {
            return Self::new(kind, key, Op::Nothing);
        }
        let fields = changed_fields(&old_part, &new_part);
        let status = |mut part: Value| part.get_mut("status").map(Value::take).unwrap_or_default();
        let base = old.meta().resource_version.clone();
        Self { fields, ..Self::status_raw(kind, key, status(old_part), status(new_part), format, base) }
    }

    /// A change of a status whose fields were checked before.
    pub(crate) fn status_raw(
        kind: KindId,
        key: ObjectKey,
        old: Value,
        new: Value,
        format: StatusFormat,
        base: Option<String>,
    ) -> Self {
        Self::new(kind, key, Op::Status { old, new, format, base })
    }

    /// Deletes the object with the uid of `object`. Succeeds if it is gone already.
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
        let fields = fields.into_iter().filter(|field| !IDENTITY_FIELDS.contains(&field.as_str())).collect();
        let op = Op::Patch { subresource: None, format, body, base: None };
        Self { fields, ..Self::new(kind, key, op) }
    }

    /// Replaces a whole object; the body's resourceVersion is the precondition. Drops `managedFields`: the reader decodes them
    /// without `fieldsV1`, and sending those would release the fields of every owner. The API server then keeps its own.
    pub fn replace_raw(kind: KindId, mut body: Value) -> Self {
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        let key = ObjectKey::of_value(&body).unwrap_or_else(|| ObjectKey::new(None, ""));
        Self::new(kind, key, Op::Replace { subresource: None, body })
    }

    /// `delete` for an object without a Rust type.
    pub fn delete_raw(kind: KindId, key: ObjectKey, uid: Option<String>) -> Self {
        Self::new(kind, key, Op::Delete { uid, base: None, propagation: Propagation::default() })
    }

    /// On another server than the main one.
    #[must_use]
    pub fn on(mut self, cluster: ClusterId) -> Self {
        self.cluster = cluster;
        self
    }

    /// To a subresource such as `scale`. Changes and statuses already have theirs.
    #[must_use]
    pub fn to_subresource(mut self, name: &'static str) -> Self {
        if let Op::Patch { subresource, .. } | Op::Replace { subresource, .. } = &mut self.op {
            *subresource = Some(name);
        }
        self
    }

    /// Deletes only this version.
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

    /// A status that may be deferred for `window`: readers of the cache see it at once, and later changes of the status are sent
    /// together with it. The runtime waits longer if the last write of the object took long (see `deferral`).
    #[must_use]
    pub fn deferrable(mut self, window: Duration) -> Self {
        self.defer = Some(window);
        self
    }

    /// `deferrable` if there is a window.
    #[must_use]
    pub fn deferrable_for(self, window: Option<Duration>) -> Self {
        Self { defer: window, ..self }
    }

    /// Its failure does not fail the reconcile. The result is passed to `Controller::on_results`.
    #[must_use]
    pub fn best_effort(mut self) -> Self {
        self.best_effort = true;
        self
    }

    /// Uses this field manager instead of `Options::component`. Server-side apply has its own.
    #[must_use]
    pub fn managed_by(mut self, manager: &'static str) -> Self {
        self.manager = Some(manager);
        self
    }

    /// The server validates the write and returns its result without storing it. Ownership is not checked, and caches are not
    /// updated.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// If the server rejects it, the remaining writes of the plan are dropped and the rejection is passed to
    /// `Controller::on_results`. Other failures are retried as usual.
    #[must_use]
    pub fn report_rejection(mut self) -> Self {
        self.report_rejection = true;
        self
    }

    pub fn kind(&self) -> &KindId {
        &self.kind
    }

    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Whether it changes nothing.
    pub fn is_nothing(&self) -> bool {
        self.op == Op::Nothing
    }

    /// The request body: the object of a creation, the patch of a change.
    pub fn body(&self) -> Option<Cow<'_, Value>> {
        match &self.op {
            Op::Create { body } | Op::Patch { body, .. } | Op::Replace { body, .. } => Some(Cow::Borrowed(body)),
            Op::Status { old, new, format, base } => Some(Cow::Owned(status_patch(old, new, *format, base.as_deref()))),
            Op::Delete { .. } | Op::Nothing | Op::Problem(_) => None,
        }
    }

    pub(crate) fn is_status(&self) -> bool {
        matches!(self.op, Op::Status { .. })
    }

    /// The changed fields, for `Ownership`.
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// The label value in metrics and messages.
    pub fn verb(&self) -> &'static str {
        match &self.op {
            _ if self.dry_run => "dry-run",
            Op::Create { .. } => "create",
            Op::Status { .. } | Op::Replace { subresource: Some("status"), .. } => "status",
            Op::Patch { format: PatchFormat::Apply { .. }, .. } => "apply",
            Op::Patch { .. } => "patch",
            Op::Replace { .. } => "replace",
            Op::Delete { .. } => "delete",
            Op::Nothing | Op::Problem(_) => "none",
        }
    }

    fn new(kind: KindId, key: ObjectKey, op: Op) -> Self {
        Self {
            cluster: ClusterId::MAIN,
            kind,
            key,
            op,
            fields: Vec::new(),
            defer: None,
            best_effort: false,
            report_rejection: false,
            manager: None,
            dry_run: false,
        }
    }

    /// The resourceVersion that the change is based on.
    pub(crate) fn base(&self) -> Option<&str> {
        match &self.op {
            Op::Patch { base, .. } | Op::Status { base, .. } | Op::Delete { base, .. } => base.as_deref(),
            Op::Replace { body, .. } => body["metadata"]["resourceVersion"].as_str(),
            _ => None,
        }
    }

    /// Bases the change on the version that an earlier write of the same plan created.
    pub(crate) fn rebase(&mut self, version: &str) {
        match &mut self.op {
            Op::Patch { base, body, .. } => {
                *base = Some(version.to_owned());
                set_base(body, version);
            }
            Op::Status { base, .. } | Op::Delete { base, .. } => *base = Some(version.to_owned()),
            Op::Replace { body, .. } => set_base(body, version),
            _ => {}
        }
    }
}

/// Fields of a patch that identify the object and change nothing.
const IDENTITY_FIELDS: [&str; 6] =
    ["apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"];

/// The fields that a JSON patch changes: `/spec/a/0` is `spec.a`.
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

/// In a JSON patch, replacing it with the expected version makes another stored version a conflict.
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
        // The server requires these two; k8s-openapi types serialize them, other types may not.
        fields.entry("apiVersion").or_insert_with(|| K::api_version(&()).into());
        fields.entry("kind").or_insert_with(|| K::kind(&()).into());
    }
    Ok(value)
}

/// Everything but the status and the fields that the server sets.
fn without_status<K: Writable>(object: &K) -> Result<Value, String> {
    let mut value = serde_json::to_value(object).map_err(|error| error.to_string())?;
    let Some(fields) = value.as_object_mut() else { return Err(NOT_AN_OBJECT.to_owned()) };
    fields.remove("status");
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        for set_by_server in ["resourceVersion", "managedFields", "generation", "uid", "creationTimestamp"] {
            metadata.remove(set_by_server);
        }
    }
    Ok(value)
}

/// An object with the status alone.
fn status_of<K: Writable>(object: &K) -> Result<Value, String> {
    let mut value = serde_json::to_value(object).map_err(|error| error.to_string())?;
    let Some(fields) = value.as_object_mut() else { return Err(NOT_AN_OBJECT.to_owned()) };
    fields.retain(|field, _| field == "status");
    Ok(value)
}

const NOT_AN_OBJECT: &str = "not an object";

/// The patch that changes the status from `old` to `new`.
pub(crate) fn status_patch(old: &Value, new: &Value, format: StatusFormat, base: Option<&str>) -> Value {
    match format {
        StatusFormat::Merge => {
            let part = |status: &Value| if status.is_null() { json!({}) } else { json!({ "status": status }) };
            let mut body = merge_patch::diff(&part(old), &part(new)).unwrap_or_else(|| json!({}));
            if let Some(version) = base {
                set_base(&mut body, version);
            }
            body
        }
        StatusFormat::Parts => {
            let mut operations: Vec<Value> = base.into_iter().map(version_operation).collect();
            if old.is_null() {
                operations.push(json!({"op": "add", "path": "/status", "value": new}));
            } else {
                operations.extend(json_patch::diff(old, new, "/status"));
            }
            operations.into()
        }
    }
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
        let body = write.body().map_or_else(String::new, |body| body.to_string());
        expected.assert_eq(&format!("{} {} {} {body} {:?}", write.verb(), write.kind(), write.key(), write.fields()));
    }

    #[test]
    fn a_creation_has_no_version_and_has_its_kind() {
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
    fn a_change_contains_the_difference_and_the_version_it_is_based_on() {
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
    fn a_status_is_written_separately() {
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
    fn a_status_in_parts_contains_single_operations_and_its_version() {
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
    fn a_deletion_has_the_uid_and_version_as_preconditions() {
        let write = Write::delete(&map(Some("5"), &[])).of_version("5").propagating(Propagation::Foreground);
        let Op::Delete { uid, base, propagation } = &write.op else { panic!("{write:?}") };
        assert_eq!((uid.as_deref(), base.as_deref(), propagation.wire()), (Some("u1"), Some("5"), "Foreground"));
    }

    #[test]
    fn audit_03_a_replacement_leaves_the_owners_of_fields_to_the_server() {
        let read = json!({"metadata": {"name": "a", "managedFields": [{"manager": "other", "operation": "Update"}]}});
        let write = Write::replace_raw(KindId::of::<ConfigMap>(), read);
        assert_eq!(write.body().as_deref(), Some(&json!({"metadata": {"name": "a"}})));
    }

    #[test]
    fn raw_patches_list_the_fields_they_change() {
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
    fn a_write_can_be_rebased_on_another_version() {
        let (old, new) = (map(Some("5"), &[]), map(Some("5"), &[("k", "v")]));
        let mut write = Write::change(&old, &new);
        assert_eq!(write.base(), Some("5"));
        write.rebase("6");
        assert_eq!((write.base(), &write.body().unwrap()["metadata"]["resourceVersion"]), (Some("6"), &json!("6")));
    }
}
