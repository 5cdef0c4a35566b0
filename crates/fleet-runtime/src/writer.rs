//! Sends writes: checks ownership and leadership, sends the request, counts it, and updates the cache from the response.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cache::{AnyCache, DeferredStatus, KnownRevision, NotDeferred, Origin, Owner, Signal};
use crate::decode::Decoded;
use crate::deferral::ObjectRef;
use crate::error::Error;
use crate::flag::Flag;
use crate::key::ObjectKey;
use crate::kind::KindId;
use crate::metrics::Metrics;
use crate::ownership::Ownership;
use crate::reader::{Caches, Reader};
use crate::restore::RestoreCounter;
use crate::write::{ClusterId, Op, PatchFormat, StatusFormat, Write, status_patch};

/// Timeout of a write. A webhook may take 10 s by default; this is enough for three of them.
const LONGEST_WRITE: Duration = Duration::from_secs(34);
/// Delays before the attempts to read the newest version after a failed write. In total about the time of a reconnect; after
/// that the watch is as fast.
const REFRESH_DELAYS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(100), Duration::from_millis(400), Duration::from_millis(1600)];

/// What all writes of a runtime share.
pub(crate) struct Writer {
    pub(crate) clients: Vec<kube::Client>,
    /// One per client.
    pub(crate) restores: Vec<RestoreCounter>,
    pub(crate) caches: Arc<Caches>,
    pub(crate) ownership: Ownership,
    pub(crate) strict: bool,
    pub(crate) component: String,
    pub(crate) leading: Flag,
    pub(crate) reader: Reader,
    pub(crate) metrics: Metrics,
}

impl Writer {
    /// Sends one write. Returns the stored object only if `wants_object`, to save a clone.
    pub(crate) async fn send(
        &self,
        controller: &'static str,
        write: &Write,
        wants_object: bool,
    ) -> Result<Written, Error> {
        if let Op::Problem(problem) = &write.op {
            let (kind, key, problem) = (write.kind.clone(), write.key.clone(), problem.clone());
            return Err(Error::Unwritable { kind, key, problem });
        }
        self.check_owned(controller, write)?;
        if !self.leading.is_set() {
            return Err(Error::NotLeading);
        }
        let combined = match self.with_deferred_status(write) {
            Combined::Same => None,
            Combined::Changed(combined) => Some(*combined),
            Combined::Nothing => {
                self.caches_of(write).for_each(|cache| cache.drop_deferred(&write.key));
                return Ok(Written::default());
            }
        };
        let write = combined.as_ref().unwrap_or(write);
        let (started, before) = (Instant::now(), self.before(write));
        let outcome = self.request(write).await;
        self.metrics.wrote(&write.kind, write.verb(), started.elapsed(), outcome.as_ref().err());
        if let (Ok(response), false) = (&outcome, write.dry_run) {
            self.check_restored(write, &before, response);
        }
        self.handle(write, outcome, wants_object).await
    }

    fn check_owned(&self, controller: &'static str, write: &Write) -> Result<(), Error> {
        let fields = self.ownership.violations(controller, write);
        if fields.is_empty() {
            return Ok(());
        }
        self.metrics.not_owned(controller);
        let error = Error::NotOwned { controller, kind: write.kind.clone(), key: write.key.clone(), fields };
        tracing::error!(controller, %error, "controller writes fields that it does not own");
        if self.strict { Err(error) } else { Ok(()) }
    }

    /// A status write also contains the status that was deferred before, because the plan started from it.
    fn with_deferred_status(&self, write: &Write) -> Combined {
        let Op::Status { new, format, base, .. } = &write.op else { return Combined::Same };
        let Some(pending) = self.caches_of(write).find_map(|cache| cache.pending_status(&write.key)) else {
            return Combined::Same;
        };
        if pending.old == *new {
            return Combined::Nothing;
        }
        let op = Op::Status { old: pending.old, new: new.clone(), format: *format, base: base.clone() };
        Combined::Changed(Box::new(Write { op, ..write.clone() }))
    }

    /// Shows a status to the readers of the cache without sending it. False if no cache holds the object.
    pub(crate) fn defer(&self, controller: &'static str, write: &Write, owner: Owner) -> Result<bool, Error> {
        let Op::Status { new, format, base, .. } = &write.op else { return Ok(false) };
        self.check_owned(controller, write)?;
        if !self.leading.is_set() {
            return Err(Error::NotLeading);
        }
        let deferred = DeferredStatus { status: new.clone(), format: *format, owner };
        let mut is_deferred = false;
        for cache in self.caches_of(write) {
            match cache.defer(&write.key, base.as_deref(), deferred.clone()) {
                Ok(()) => is_deferred = true,
                Err(NotDeferred::NotCached) => {}
                Err(NotDeferred::Outdated) => {
                    return Err(Error::Outdated { kind: write.kind.clone(), key: write.key.clone() });
                }
            }
        }
        Ok(is_deferred)
    }

    /// Sends the deferred status of an object, if there still is one.
    pub(crate) async fn flush(&self, controller: &'static str, object: &ObjectRef) -> Result<(), Error> {
        let ObjectRef { cluster, kind, key } = object;
        let Some(pending) = self.caches.of(object).find_map(|cache| cache.pending_status(key)) else { return Ok(()) };
        let DeferredStatus { status, format, .. } = pending.new;
        let write = Write::status_raw(kind.clone(), key.clone(), pending.old, status, format, pending.version);
        match self.send(controller, &write.on(*cluster), false).await {
            Err(error) if error.is_not_found() => self.drop_deferred(object),
            sent => drop(sent?),
        }
        Ok(())
    }

    /// Asks the key that deferred the status of this object to write it.
    pub(crate) fn request_flush(&self, kind: &KindId, key: &ObjectKey) {
        let object = ObjectRef { cluster: ClusterId::MAIN, kind: kind.clone(), key: key.clone() };
        let pending: Vec<_> = self.caches.of(&object).filter_map(|cache| cache.pending_status(key)).collect();
        for pending in &pending {
            (pending.new.owner)(Signal::Flush);
        }
    }

    pub(crate) fn drop_deferred(&self, object: &ObjectRef) {
        self.caches.of(object).for_each(|cache| cache.drop_deferred(&object.key));
    }

    async fn request(&self, write: &Write) -> Result<Value, Error> {
        let (verb, kind, key) = (write.verb(), &write.kind, &write.key);
        let failed = |source: kube::Error| {
            let (kind, key) = (kind.clone(), key.clone());
            Error::Request { verb, kind, key, source: Box::new(source) }
        };
        let client = self.clients.get(write.cluster.0).ok_or_else(|| Error::Other("no such server".to_owned()))?;
        let request = request_of(write, &self.component).map_err(failed)?;
        if let Ok(response) = tokio::time::timeout(LONGEST_WRITE, client.request::<Decoded>(request)).await {
            let readable = |response: Decoded| response.readable().map_err(kube::Error::SerdeError);
            response.and_then(readable).map_err(failed)
        } else {
            let (kind, key) = (kind.clone(), key.clone());
            Err(Error::Timeout { verb, kind, key, seconds: LONGEST_WRITE.as_secs() })
        }
    }

    async fn handle(&self, write: &Write, outcome: Result<Value, Error>, wants_object: bool) -> Result<Written, Error> {
        match (&write.op, outcome) {
            (Op::Delete { uid, .. }, Ok(response)) if !write.dry_run && !is_still_there(&response) => {
                let responded = response["metadata"]["uid"].as_str().or(response["details"]["uid"].as_str());
                self.add_tombstone(write, uid.as_deref().or(responded));
                Ok(Written::default())
            }
            (Op::Delete { .. }, Err(error)) if error.is_not_found() => Ok(Written::default()),
            (_, Ok(response)) => Ok(self.accept(write, response, wants_object)),
            (_, Err(error)) => {
                if (error.is_conflict() || error.may_have_succeeded()) && !write.dry_run {
                    self.refresh_cache(write).await;
                }
                Err(error)
            }
        }
    }

    fn accept(&self, write: &Write, response: Value, wants_object: bool) -> Written {
        let version = response["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        if write.dry_run {
            return Written { version, object: wants_object.then_some(response) };
        }
        if is_removed(&response) {
            self.add_tombstone(write, response["metadata"]["uid"].as_str());
            return Written { version, object: wants_object.then_some(response) };
        }
        let object = wants_object.then(|| response.clone());
        self.update_cache(write, response);
        Written { version, object }
    }

    /// Reads the newest version into the cache after a conflict or a write without an answer, so that the next plan does not
    /// use the old one. If that fails, the watch brings it later.
    async fn refresh_cache(&self, write: &Write) {
        if self.caches_of(write).next().is_none() {
            return;
        }
        for pause in REFRESH_DELAYS {
            tokio::time::sleep(pause).await;
            let before = self.before(write);
            match self.reader.on(write.cluster).get(&write.kind, &write.key).await {
                Ok(Some(object)) => {
                    self.check_restored(write, &before, &object);
                    return self.update_cache(write, object);
                }
                Ok(None) => return,
                Err(error) => tracing::debug!(error = error.with_causes(), "cannot read the newest version yet"),
            }
        }
    }

    fn before(&self, write: &Write) -> BeforeRequest {
        let restores = self.restores.get(write.cluster.0).map(RestoreCounter::count).unwrap_or_default();
        BeforeRequest { restores, known: self.caches_of(write).map(|cache| cache.known(&write.key)).collect() }
    }

    /// A response that is older than what was known before the request shows that the server was restored.
    fn check_restored(&self, write: &Write, before: &BeforeRequest, response: &Value) {
        if !is_of_kind(write, response) {
            return;
        }
        let mut caches = self.caches_of(write).zip(&before.known);
        if caches.any(|(cache, known)| cache.shows_restore(*known, response))
            && let Some(restores) = self.restores.get(write.cluster.0)
        {
            restores.record(before.restores);
        }
    }

    fn update_cache(&self, write: &Write, mut object: Value) {
        if !is_of_kind(write, &object) {
            return;
        }
        let mut caches = self.caches_of(write).peekable();
        while let Some(cache) = caches.next() {
            // Each cache removes the fields that it does not hold.
            if caches.peek().is_some() {
                cache.put(&mut object.clone(), Origin::Response);
            } else {
                cache.put(&mut object, Origin::Response);
            }
        }
    }

    fn add_tombstone(&self, write: &Write, uid: Option<&str>) {
        for cache in self.caches_of(write) {
            cache.deleted_by_us(&write.key, uid);
        }
    }

    fn caches_of<'a>(&'a self, write: &'a Write) -> impl Iterator<Item = &'a Arc<dyn AnyCache>> {
        self.caches.holding(write.cluster, &write.kind, &write.key)
    }
}

/// A status write together with the status that was deferred before.
enum Combined {
    /// Nothing was deferred.
    Same,
    Changed(Box<Write>),
    /// The server has the new status already.
    Nothing,
}

/// What was known about an object before a request was sent for it.
struct BeforeRequest {
    restores: u64,
    /// One per cache that holds the object.
    known: Vec<KnownRevision>,
}

/// Whether a response is the written object. Others (a Status, a Scale) do not update the cache.
fn is_of_kind(write: &Write, response: &Value) -> bool {
    response["kind"].as_str().is_none_or(|kind| kind == &*write.kind.kind)
}

/// The result of a successful write.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// The new resourceVersion, if the object exists.
    pub(crate) version: Option<String>,
    /// The stored object, if it exists and was wanted.
    pub(crate) object: Option<Value>,
}

/// Whether the write removed the object: it was being deleted, and the write removed its last finalizer.
fn is_removed(response: &Value) -> bool {
    !response["metadata"]["deletionTimestamp"].is_null() && !is_still_there(response)
}

/// Whether a deletion only began: finalizers or a grace period keep the object.
fn is_still_there(response: &Value) -> bool {
    let has_some = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
    response["kind"] != "Status"
        && (has_some(&response["metadata"]["finalizers"])
            || has_some(&response["spec"]["finalizers"])
            || response["metadata"]["deletionGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds > 0))
}

fn request_of(write: &Write, component: &str) -> Result<http::Request<Vec<u8>>, kube::Error> {
    let (kind, key) = (&write.kind, &write.key);
    let (namespace, name) = (key.namespace(), key.name());
    let manager = crate::watch::escaped(write.manager.unwrap_or(component));
    let dry_run = if write.dry_run { "&dryRun=All" } else { "" };
    let (method, path, format, body) = match &write.op {
        Op::Create { body } => (
            "POST",
            format!("{}?fieldManager={manager}{dry_run}", kind.collection_path(namespace)),
            JSON,
            body.to_string(),
        ),
        Op::Replace { subresource, body } => {
            let path = kind.object_path(namespace, name, *subresource);
            ("PUT", format!("{path}?fieldManager={manager}{dry_run}"), JSON, body.to_string())
        }
        Op::Patch { subresource, format, body, .. } => {
            let path = kind.object_path(namespace, name, *subresource);
            let query = match format {
                PatchFormat::Apply { manager, force } => {
                    format!("fieldManager={}&force={force}", crate::watch::escaped(manager))
                }
                _ => format!("fieldManager={manager}"),
            };
            ("PATCH", format!("{path}?{query}{dry_run}"), content_type(format), body.to_string())
        }
        Op::Status { old, new, format, base } => {
            let path = kind.object_path(namespace, name, Some("status"));
            let body = status_patch(old, new, *format, base.as_deref());
            let format = match format {
                StatusFormat::Merge => &PatchFormat::Merge,
                StatusFormat::Parts => &PatchFormat::Json,
            };
            ("PATCH", format!("{path}?fieldManager={manager}{dry_run}"), content_type(format), body.to_string())
        }
        Op::Delete { .. } | Op::Nothing | Op::Problem(_) => {
            ("DELETE", kind.object_path(namespace, name, None), JSON, delete_options(&write.op).to_string())
        }
    };
    let request = http::Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, format);
    request.body(body.into_bytes()).map_err(kube::Error::HttpError)
}

const JSON: &str = "application/json";

fn content_type(format: &PatchFormat) -> &'static str {
    match format {
        PatchFormat::Merge => "application/merge-patch+json",
        PatchFormat::Json => "application/json-patch+json",
        PatchFormat::Strategic => "application/strategic-merge-patch+json",
        PatchFormat::Apply { .. } => "application/apply-patch+yaml",
    }
}

fn delete_options(op: &Op) -> Value {
    let Op::Delete { uid, base, propagation } = op else { return Value::Null };
    let mut preconditions = json!({});
    if let Some(uid) = uid {
        preconditions["uid"] = uid.as_str().into();
    }
    if let Some(version) = base {
        preconditions["resourceVersion"] = version.as_str().into();
    }
    json!({
        "apiVersion": "v1", "kind": "DeleteOptions",
        "propagationPolicy": propagation.wire(), "preconditions": preconditions,
    })
}

/// The versions that the writes of one plan have created, so that a second write of an object does not conflict with the first.
#[derive(Debug, Default)]
pub(crate) struct OwnWrites {
    /// By object: the version that a write was based on, and the version that it created.
    created: BTreeMap<(ClusterId, KindId, ObjectKey), (String, String)>,
}

impl OwnWrites {
    /// Bases a write on the version that an earlier one created, if both are based on the same version.
    pub(crate) fn rebase(&self, write: &mut Write) {
        let created = self.created.get(&(write.cluster, write.kind.clone(), write.key.clone()));
        if let Some((base, version)) = created
            && write.base() == Some(base)
        {
            write.rebase(version);
        }
    }

    /// `base` is the version that the plan based the write on, `version` the one that the write created.
    pub(crate) fn record(&mut self, write: &Write, base: Option<String>, version: Option<String>) {
        if let (Some(base), Some(version)) = (base, version) {
            self.created.insert((write.cluster, write.kind.clone(), write.key.clone()), (base, version));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_is_pending_while_finalizers_or_a_grace_period_keep_the_object() {
        let there = [
            json!({"kind": "Work", "metadata": {"finalizers": ["x"]}}),
            json!({"kind": "Namespace", "metadata": {}, "spec": {"finalizers": ["kubernetes"]}}),
            json!({"kind": "Pod", "metadata": {"deletionGracePeriodSeconds": 30}}),
        ];
        let gone = [
            json!({"kind": "Status", "status": "Success", "details": {"uid": "u"}}),
            json!({"kind": "ConfigMap", "metadata": {"name": "a"}}),
            json!({"kind": "Pod", "metadata": {"deletionGracePeriodSeconds": 0, "finalizers": []}}),
        ];
        assert!(there.iter().all(is_still_there) && !gone.iter().any(is_still_there));
        let deleting = |finalizers: Value| {
            let at = "2026-01-01T00:00:00Z";
            json!({"kind": "Work", "metadata": {"deletionTimestamp": at, "finalizers": finalizers}})
        };
        assert!(is_removed(&deleting(json!([]))) && !is_removed(&deleting(json!(["x"]))));
        assert!(!gone.iter().any(is_removed), "these are not being deleted");
    }

    #[test]
    fn requests_are_what_an_api_server_understands() {
        let kind = KindId::new("apps", "v1", "Deployment", "deployments");
        let key = ObjectKey::namespaced("ns", "a");
        let shown = |write: &Write| {
            let request = request_of(write, "hub agent").unwrap();
            let format = request.headers()["content-type"].to_str().unwrap().to_owned();
            let body = String::from_utf8(request.body().clone()).unwrap();
            format!("{} {} {format} {body}", request.method(), request.uri())
        };
        let body = json!({"metadata": {"namespace": "ns", "name": "a"}});
        let create = Write::create_raw(kind.clone(), body.clone());
        let apply = PatchFormat::Apply { manager: "m".into(), force: true };
        let apply = Write::patch_raw(kind.clone(), key.clone(), apply, json!({"a": 1}));
        let status =
            Write::patch_raw(kind.clone(), key.clone(), PatchFormat::Merge, json!({})).to_subresource("status");
        let replace = Write::replace_raw(kind.clone(), body);
        let delete = Write::delete_raw(kind, key, Some("u1".into())).of_version("7");
        let all = [create, apply, status, replace, delete].map(|write| shown(&write)).join("\n");
        expect_test::expect![[r#"
            POST /apis/apps/v1/namespaces/ns/deployments?fieldManager=hub%20agent application/json {"metadata":{"name":"a","namespace":"ns"}}
            PATCH /apis/apps/v1/namespaces/ns/deployments/a?fieldManager=m&force=true application/apply-patch+yaml {"a":1}
            PATCH /apis/apps/v1/namespaces/ns/deployments/a/status?fieldManager=hub%20agent application/merge-patch+json {}
            PUT /apis/apps/v1/namespaces/ns/deployments/a?fieldManager=hub%20agent application/json {"metadata":{"name":"a","namespace":"ns"}}
            DELETE /apis/apps/v1/namespaces/ns/deployments/a application/json {"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"resourceVersion":"7","uid":"u1"},"propagationPolicy":"Background"}"#]].assert_eq(&all);
    }

    #[test]
    fn only_a_write_based_on_the_same_version_is_rebased() {
        let kind = KindId::new("", "v1", "ConfigMap", "configmaps");
        let based_on = |version: &str| {
            let body = json!({"metadata": {"name": "a", "resourceVersion": version}});
            Write::replace_raw(kind.clone(), body)
        };
        let mut own_writes = OwnWrites::default();
        own_writes.record(&based_on("5"), Some("5".into()), Some("6".into()));
        let (mut same, mut other) = (based_on("5"), based_on("4"));
        own_writes.rebase(&mut same);
        own_writes.rebase(&mut other);
        assert_eq!((same.base(), other.base()), (Some("6"), Some("4")));
    }
}
