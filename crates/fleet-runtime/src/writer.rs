//! Performs writes: checks ownership and leadership, sends, counts, and lays the answer over the cache.
//!
//! Decides what an answer means: done, fine anyway, conflict, failure. Never decides what to write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cache::{Origin, Sink};
use crate::error::Error;
use crate::flag::Flag;
use crate::key::ObjectKey;
use crate::kind::KindId;
use crate::metrics::Metrics;
use crate::ownership::Ownership;
use crate::reader::Reader;
use crate::write::{Op, PatchFormat, Side, Write};

/// Longest time that a write may take. Somewhat more than the 10 s that a webhook may take by default, three times.
const LONGEST_WRITE: Duration = Duration::from_secs(34);
/// Pauses before the newest version is asked for once more. In all about as long as a connection takes to come back; after that
/// the watch is as quick.
const LOOKS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(100), Duration::from_millis(400), Duration::from_millis(1600)];

/// What all writes of a runtime share.
pub(crate) struct Writer {
    pub(crate) clients: Vec<kube::Client>,
    pub(crate) sinks: BTreeMap<(Side, KindId), Vec<Arc<dyn Sink>>>,
    pub(crate) ownership: Ownership,
    pub(crate) strict: bool,
    pub(crate) component: String,
    pub(crate) leading: Flag,
    pub(crate) reader: Reader,
    pub(crate) metrics: Metrics,
}

impl Writer {
    /// Performs one write. The object that it is answered with is kept if it is `wanted`.
    pub(crate) async fn perform(&self, controller: &'static str, write: &Write, wanted: bool) -> Result<Answer, Error> {
        if let Op::Problem(problem) = &write.op {
            let (kind, key, problem) = (write.kind.clone(), write.key.clone(), problem.clone());
            return Err(Error::Unwritable { kind, key, problem });
        }
        self.check_owned(controller, write)?;
        if !self.leading.is_up() {
            return Err(Error::NotLeading);
        }
        let started = Instant::now();
        let outcome = self.send(write).await;
        self.metrics.wrote(&write.kind, write.verb(), started.elapsed(), outcome.as_ref().err());
        self.judge(write, outcome, wanted).await
    }

    fn check_owned(&self, controller: &'static str, write: &Write) -> Result<(), Error> {
        let fields = self.ownership.violations(controller, write);
        if fields.is_empty() {
            return Ok(());
        }
        self.metrics.not_owned(controller);
        let error = Error::NotOwned { controller, kind: write.kind.clone(), key: write.key.clone(), fields };
        tracing::error!(controller, %error, "a controller writes what it does not own");
        if self.strict { Err(error) } else { Ok(()) }
    }

    async fn send(&self, write: &Write) -> Result<Value, Error> {
        let (verb, kind, key) = (write.verb(), &write.kind, &write.key);
        let failed = |source: kube::Error| {
            let (kind, key) = (kind.clone(), key.clone());
            Error::Request { verb, kind, key, source: Box::new(source) }
        };
        let client = self.clients.get(write.side.0).ok_or_else(|| Error::Other("no such server".to_owned()))?;
        let request = request_of(write, &self.component).map_err(failed)?;
        if let Ok(answer) = tokio::time::timeout(LONGEST_WRITE, client.request(request)).await {
            answer.map_err(failed)
        } else {
            let (kind, key) = (kind.clone(), key.clone());
            Err(Error::Timeout { verb, kind, key, seconds: LONGEST_WRITE.as_secs() })
        }
    }

    async fn judge(&self, write: &Write, outcome: Result<Value, Error>, wanted: bool) -> Result<Answer, Error> {
        match (&write.op, outcome) {
            (Op::Delete { uid, .. }, Ok(answer)) if !write.dry_run && !is_still_there(&answer) => {
                let answered = answer["metadata"]["uid"].as_str().or(answer["details"]["uid"].as_str());
                self.bury(write, uid.as_deref().or(answered));
                Ok(Answer::default())
            }
            (Op::Delete { .. }, Err(error)) if error.is_not_found() => Ok(Answer::default()),
            (_, Ok(answer)) => Ok(self.take_in(write, answer, wanted)),
            (_, Err(error)) => {
                if (error.is_conflict() || error.may_have_happened()) && !write.dry_run {
                    self.look_again(write).await;
                }
                Err(error)
            }
        }
    }

    fn take_in(&self, write: &Write, answer: Value, wanted: bool) -> Answer {
        let version = answer["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        if write.dry_run {
            return Answer { version, object: wanted.then_some(answer) };
        }
        if is_let_go(&answer) {
            self.bury(write, answer["metadata"]["uid"].as_str());
            return Answer { version, object: wanted.then_some(answer) };
        }
        let object = wanted.then(|| answer.clone());
        self.lay_over(write, answer);
        Answer { version, object }
    }

    /// The next plan must not be made on what this one was, nor on what a write without an answer has changed since: brings
    /// the newest version into the cache. A version that cannot be had now will come by the watch.
    async fn look_again(&self, write: &Write) {
        if self.sinks_of(write).next().is_none() {
            return;
        }
        for pause in LOOKS {
            tokio::time::sleep(pause).await;
            match self.reader.on(write.side).get(&write.kind, &write.key).await {
                Ok(Some(object)) => return self.lay_over(write, object),
                Ok(None) => return,
                Err(error) => tracing::debug!(error = error.with_causes(), "the newest version cannot be read yet"),
            }
        }
    }

    fn lay_over(&self, write: &Write, mut object: Value) {
        // An answer that is no object (a Status, a Scale) has nothing to say about the cache.
        if object["kind"].as_str().is_some_and(|kind| kind != &*write.kind.kind) {
            return;
        }
        let mut sinks = self.sinks_of(write).peekable();
        while let Some(sink) = sinks.next() {
            // Each takes out what it does not hold.
            if sinks.peek().is_some() {
                sink.put(&mut object.clone(), Origin::Answer);
            } else {
                sink.put(&mut object, Origin::Answer);
            }
        }
    }

    fn bury(&self, write: &Write, uid: Option<&str>) {
        for sink in self.sinks_of(write) {
            sink.deleted_by_us(&write.key, uid);
        }
    }

    fn sinks_of<'a>(&'a self, write: &'a Write) -> impl Iterator<Item = &'a Arc<dyn Sink>> {
        let sinks = self.sinks.get(&(write.side, write.kind.clone()));
        sinks.into_iter().flatten().filter(|sink| sink.selection().takes_in(&write.key))
    }
}

/// What came of a write.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The version that it made, if the object is there.
    pub(crate) version: Option<String>,
    /// The object as stored, if there is one and it was wanted.
    pub(crate) object: Option<Value>,
}

/// Whether an object is gone with the write that it is the answer to: it was being deleted, and nothing holds it any more.
fn is_let_go(answer: &Value) -> bool {
    !answer["metadata"]["deletionTimestamp"].is_null() && !is_still_there(answer)
}

/// Whether a deletion was only begun: finalizers or a grace period hold the object.
fn is_still_there(answer: &Value) -> bool {
    let has_some = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
    answer["kind"] != "Status"
        && (has_some(&answer["metadata"]["finalizers"])
            || has_some(&answer["spec"]["finalizers"])
            || answer["metadata"]["deletionGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds > 0))
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

/// What the writes of one plan have led to, so that two writes of one object do not stand in each other's way.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// By object: the version that a write was based on, and the one that it made.
    made: BTreeMap<(Side, KindId, ObjectKey), (String, String)>,
}

impl Chain {
    /// Bases a write on the version that an earlier one made, if that was based on the same as this.
    pub(crate) fn follow(&self, write: &mut Write) {
        let made = self.made.get(&(write.side, write.kind.clone(), write.key.clone()));
        if let Some((base, version)) = made
            && write.base() == Some(base)
        {
            write.rebase(version);
        }
    }

    /// `base` is what the plan based the write on, `version` what it has led to.
    pub(crate) fn note(&mut self, write: &Write, base: Option<String>, version: Option<String>) {
        if let (Some(base), Some(version)) = (base, version) {
            self.made.insert((write.side, write.kind.clone(), write.key.clone()), (base, version));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_is_only_begun_while_something_holds_the_object() {
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
        let going = |finalizers: Value| {
            let at = "2026-01-01T00:00:00Z";
            json!({"kind": "Work", "metadata": {"deletionTimestamp": at, "finalizers": finalizers}})
        };
        assert!(is_let_go(&going(json!([]))) && !is_let_go(&going(json!(["x"]))));
        assert!(!gone.iter().any(is_let_go), "nobody deletes these");
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
    fn only_a_write_based_on_the_same_version_follows_an_earlier_one() {
        let kind = KindId::new("", "v1", "ConfigMap", "configmaps");
        let based_on = |version: &str| {
            let body = json!({"metadata": {"name": "a", "resourceVersion": version}});
            Write::replace_raw(kind.clone(), body)
        };
        let mut chain = Chain::default();
        chain.note(&based_on("5"), Some("5".into()), Some("6".into()));
        let (mut same, mut other) = (based_on("5"), based_on("4"));
        chain.follow(&mut same);
        chain.follow(&mut other);
        assert_eq!((same.base(), other.base()), (Some("6"), Some("4")));
    }
}
