//! Prepares an object of a built-in kind before validation: fields that only the server sets, fields that this endpoint
//! must not change, and the generation.
//!
//! The caller has run `default` before. The only error is an address that cannot be allocated.

mod addresses;
mod pod;
mod service;
mod workloads;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::defaults::default;
use super::values::{Object, at, field, items, list, set_path, sub, text};
use super::{BuiltinKind, wire};
use crate::field::FieldError;

pub(crate) use addresses::{AddressPool, ServiceAddresses};

/// The requesting user, as far as objects record it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requester {
    pub(crate) username: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: Map<String, Value>,
}

/// The cluster state that preparation may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) now: Timestamp,
    pub(crate) requester: &'a Requester,
    pub(crate) addresses: &'a dyn ServiceAddresses,
    /// Dry run: no address or port may be allocated.
    pub(crate) dry_run: bool,
}

/// Prepares a new object whose `metadata.uid` and name are set already. After `Ok` the caller calls `settle`.
pub(crate) fn prepare_create(
    kind: &BuiltinKind,
    object: &mut Value,
    context: &Context<'_>,
) -> Result<(), Vec<FieldError>> {
    let Value::Object(map) = object else { return Ok(()) };
    // Nodes register themselves together with their status.
    if kind.status_is_separate && kind.kind != "Node" {
        map.remove("status");
    }
    if kind.generation.first > 0 {
        sub(map, "metadata").insert("generation".to_owned(), json!(kind.generation.first));
    }
    match (kind.group, kind.kind) {
        ("", "Pod") => pod::create(map, context.now),
        ("", "Namespace") => namespace_finalizer(map),
        ("", "PersistentVolume") => {
            let now = json!(wire::time_text(context.now));
            map.insert("status".to_owned(), json!({"phase": "Pending", "lastPhaseTransitionTime": now}));
        }
        ("", "PersistentVolumeClaim") => same_data_sources(map),
        ("", "Service") => service::create(map, context)?,
        ("", "ServiceAccount") => secret_names_only(map),
        ("apps", "DaemonSet") => workloads::daemon_set_create(map),
        ("discovery.k8s.io", "EndpointSlice") => drop_old_topology(map, &Value::Null),
        ("batch", "Job") => workloads::job_create(map),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => remember_storage_version(map),
        ("apiregistration.k8s.io", "APIService") => local_is_available(map, context.now),
        ("certificates.k8s.io", "CertificateSigningRequest") => record_requester(map, context.requester),
        _ => {}
    }
    refresh(kind, object);
    Ok(())
}

/// Prepares the replacement of an object: what belongs to other endpoints stays as it was. After `Ok` the caller calls
/// `settle`.
pub(crate) fn prepare_update(
    kind: &BuiltinKind,
    object: &mut Value,
    old: &Value,
    context: &Context<'_>,
) -> Result<(), Vec<FieldError>> {
    let Value::Object(map) = object else { return Ok(()) };
    if kind.status_is_separate {
        set_path(map, "status", at(old, "status").clone());
    }
    match (kind.group, kind.kind) {
        ("", "Namespace") => set_path(map, "spec.finalizers", at(old, "spec.finalizers").clone()),
        ("", "PersistentVolumeClaim") => same_data_sources(map),
        ("", "Service") => service::update(map, old, context)?,
        ("", "ServiceAccount") => secret_names_only(map),
        ("apps", "DaemonSet") => workloads::daemon_set_update(map, old),
        ("discovery.k8s.io", "EndpointSlice") => drop_old_topology(map, at(old, "endpoints")),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => remember_storage_version(map),
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            set_path(map, "spec", at(old, "spec").clone());
        }
        _ => {}
    }
    refresh(kind, object);
    raise_generation(kind, object, old);
    Ok(())
}

/// The older labels of endpoints cannot be written any more; a list that has them is kept as it was.
fn drop_old_topology(slice: &mut Object, old: &Value) {
    if slice.get("endpoints") == Some(old) {
        return;
    }
    for endpoint in items(slice, "endpoints") {
        endpoint.remove("deprecatedTopology");
    }
}

/// Prepares a write to `status` (or `approval`): everything but the status stays as it was.
pub(crate) fn prepare_status_update(kind: &BuiltinKind, object: &mut Value, old: &Value, context: &Context<'_>) {
    let Value::Object(map) = object else { return };
    for path in kind.kept_on_status_write {
        set_path(map, path, at(old, path).clone());
    }
    set_path(map, "metadata.generation", at(old, "metadata.generation").clone());
    match (kind.group, kind.kind) {
        ("", "Pod") => {
            let class = at(old, "status.qosClass").clone();
            if !class.is_null() {
                super::values::put(sub(map, "status"), "qosClass", class);
            }
        }
        ("", "PersistentVolume") => volume_phase_time(map, old, context.now),
        _ => {}
    }
    refresh(kind, object);
}

/// Ends a preparation that succeeded: when the object was `stored`, what its predecessor held and it does not is free
/// again; when it was not, what it took is. Not to be called after a dry run.
pub(crate) fn settle(kind: &BuiltinKind, object: &Value, old: &Value, stored: bool, addresses: &dyn ServiceAddresses) {
    if (kind.group, kind.kind) == ("", "Service") {
        let (from, kept) = if stored { (old, object) } else { (object, old) };
        service::free_difference(from, kept, addresses);
    }
}

/// Reserves the addresses and ports of a stored Service.
pub(crate) fn reserve(service: &Value, addresses: &dyn ServiceAddresses) {
    service::reserve(service, addresses);
}

/// Releases the addresses and ports of a deleted object.
#[cfg(test)]
pub(crate) fn release(kind: &BuiltinKind, object: &Value, addresses: &dyn ServiceAddresses) {
    settle(kind, object, &Value::Null, false, addresses);
}

/// kube-apiserver defaults objects again when it reads them back; wrong types were refused before.
fn refresh(kind: &BuiltinKind, object: &mut Value) {
    let _ = default(kind, object);
}

fn raise_generation(kind: &BuiltinKind, object: &mut Value, old: &Value) {
    let before = at(old, "metadata.generation").as_u64().unwrap_or_default();
    let changed = kind.generation.raised_by.iter().any(|path| at(object, path) != at(old, path));
    let next = if changed { before + 1 } else { before };
    if let Value::Object(map) = object {
        set_path(map, "metadata.generation", if next == 0 { Value::Null } else { json!(next) });
    }
}

fn namespace_finalizer(namespace: &mut Object) {
    namespace.insert("status".to_owned(), json!({"phase": "Active"}));
    let spec = sub(namespace, "spec");
    let finalizers = spec.entry("finalizers".to_owned()).or_insert_with(|| json!([]));
    if let Value::Array(names) = finalizers
        && !names.contains(&json!("kubernetes"))
    {
        names.push(json!("kubernetes"));
    }
}

/// `dataSource` is the older, narrower name of `dataSourceRef`; each fills the other.
fn same_data_sources(claim: &mut Object) {
    let spec = sub(claim, "spec");
    let (old, new) = (field(spec, "dataSource").clone(), field(spec, "dataSourceRef").clone());
    if !old.is_null() && new.is_null() {
        spec.insert("dataSourceRef".to_owned(), old);
    } else if old.is_null() && !new.is_null() && text(&new, "namespace").is_empty() {
        let classic = matches!(
            (text(&new, "apiGroup"), text(&new, "kind")),
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        );
        if classic {
            spec.insert("dataSource".to_owned(), new);
        }
    }
}

fn secret_names_only(account: &mut Object) {
    for secret in super::values::items(account, "secrets") {
        let name = field(secret, "name").clone();
        secret.clear();
        secret.insert("name".to_owned(), name);
    }
}

fn remember_storage_version(definition: &mut Object) {
    let whole = Value::Object(definition.clone());
    let storage = list(&whole, "spec.versions").iter().find(|version| version["storage"] == json!(true));
    let Some(name) = storage.map(|version| at(version, "name")) else { return };
    let stored = sub(definition, "status").entry("storedVersions".to_owned()).or_insert_with(|| json!([]));
    if let Value::Array(names) = stored
        && !names.contains(name)
    {
        names.push(name.clone());
    }
}

fn local_is_available(service: &mut Object, now: Timestamp) {
    if service.get("spec").is_some_and(|spec| at(spec, "service").is_null()) {
        let condition = json!({"type": "Available", "status": "True", "reason": "Local",
            "message": "Local APIServices are always available", "lastTransitionTime": wire::time_text(now)});
        service.insert("status".to_owned(), json!({"conditions": [condition]}));
    }
}

fn record_requester(request: &mut Object, requester: &Requester) {
    let spec = sub(request, "spec");
    spec.insert("username".to_owned(), json!(requester.username));
    spec.insert("uid".to_owned(), json!(requester.uid));
    spec.insert("groups".to_owned(), json!(requester.groups));
    spec.insert("extra".to_owned(), Value::Object(requester.extra.clone()));
}

fn volume_phase_time(volume: &mut Object, old: &Value, now: Timestamp) {
    let new = Value::Object(volume.clone());
    let (before, after) = (at(old, "status.lastPhaseTransitionTime"), at(&new, "status.lastPhaseTransitionTime"));
    let same_phase = text(old, "status.phase") == text(&new, "status.phase");
    if same_phase && after.is_null() {
        set_path(volume, "status.lastPhaseTransitionTime", before.clone());
    } else if !same_phase && (after.is_null() || after == before) {
        set_path(volume, "status.lastPhaseTransitionTime", json!(wire::time_text(now)));
    }
}

#[cfg(test)]
mod tests;
