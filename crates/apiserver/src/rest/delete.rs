//! DELETE of one object and of a collection: removal at once, or marking for deletion (finalizers, grace period,
//! propagation).
//!
//! The garbage collector handles dependents; finalizers trigger it.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::admission::{Operation, Phase};
use super::call::{Call, dry_run_findings, refuse, store_failure};
use super::decode;
use super::meta::{self, printed_time};
use super::read;
use super::response::{Body, List, Response};
use super::selector::Selection;
use super::write::{admit, is_released, put};
use crate::error::ApiError;
use crate::field::FieldError;
use crate::store::{Action, Change, Entry, Expect, StoreError};

/// The finalizer by which the garbage collector is asked to delete dependents first.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer by which the garbage collector is asked to leave dependents alone.
pub(crate) const ORPHAN: &str = "orphan";

/// The delete options of a request, from the body or the query.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    grace_seconds: Option<i64>,
    propagation: Option<Propagation>,
    uid: Option<String>,
    resource_version: Option<String>,
    dry_run: bool,
    /// `orphanDependents: false`, the older way to ask for background deletion.
    cascade_asked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl DeleteOptions {
    fn of(call: &Call<'_>) -> Result<Self, ApiError> {
        let query = &call.request.options;
        let mut orphan = query.orphan_dependents;
        let mut policy = query.propagation_policy.clone();
        let mut out =
            Self { grace_seconds: query.grace_period_seconds, dry_run: query.is_dry_run(), ..Self::default() };
        let mut dry_run = query.dry_run.clone();
        if !call.request.body.is_empty() {
            let decoded = decode::body(call.request, call.served.info.is_custom(), ("v1", "DeleteOptions"))?;
            let body = decoded.map_err(ApiError::unclassified)?.value;
            let kind = body["kind"].as_str().unwrap_or("DeleteOptions");
            if kind != "DeleteOptions" {
                let version = body["apiVersion"].as_str().unwrap_or("v1");
                return Err(ApiError::unclassified(decode::not_registered(kind, version)));
            }
            let text = |value: &Value| value.as_str().map(str::to_owned);
            out.grace_seconds = body["gracePeriodSeconds"].as_i64().or(out.grace_seconds);
            orphan = body["orphanDependents"].as_bool().or(orphan);
            policy = text(&body["propagationPolicy"]).or(policy);
            out.uid = text(&body["preconditions"]["uid"]);
            out.resource_version = text(&body["preconditions"]["resourceVersion"]);
            dry_run.extend(body["dryRun"].as_array().into_iter().flatten().filter_map(text));
            out.dry_run |= !dry_run.is_empty();
        }
        out.cascade_asked = orphan == Some(false);
        out.propagation = chosen(orphan, policy.as_deref(), &dry_run)?;
        Ok(out)
    }
}

fn chosen(orphan: Option<bool>, policy: Option<&str>, dry_run: &[String]) -> Result<Option<Propagation>, ApiError> {
    let mut findings = Vec::new();
    if let (Some(_), Some(policy)) = (orphan, policy) {
        let text = "orphanDependents and deletionPropagation cannot be both set";
        findings.push(FieldError::invalid("propagationPolicy", &policy.into(), text));
    }
    let named = match policy {
        None => None,
        Some("Background") => Some(Propagation::Background),
        Some("Foreground") => Some(Propagation::Foreground),
        Some("Orphan") => Some(Propagation::Orphan),
        Some(other) => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            findings.push(FieldError::not_supported("propagationPolicy", &other.into(), &supported));
            None
        }
    };
    findings.extend(dry_run_findings(dry_run));
    refuse("DeleteOptions", &findings)?;
    let older = orphan.map(|orphan| if orphan { Propagation::Orphan } else { Propagation::Background });
    Ok(named.or(older))
}

pub(crate) async fn delete(call: &mut Call<'_>) -> Result<Response, ApiError> {
    let options = DeleteOptions::of(call)?;
    delete_with(call, &options).await
}

async fn delete_with(call: &mut Call<'_>, options: &DeleteOptions) -> Result<Response, ApiError> {
    loop {
        let entry = read::found(call).await?;
        check_preconditions(call, options, &entry)?;
        let old = call.shown_value(&entry);
        admit(call, Phase::Mutating, Operation::Delete, None, Some(&old), "DeleteOptions").await?;
        admit(call, Phase::Validating, Operation::Delete, None, Some(&old), "DeleteOptions").await?;
        let mut stored = entry.parse();
        let step = plan(call, options, &mut stored)?;
        if options.dry_run || step == Step::Nothing {
            return Ok(response(call, options, &entry, &stored, step));
        }
        let expect = Expect::Revision(entry.revision);
        let change = match step {
            Step::Remove => {
                let resource = call.served.info.storage.key.clone();
                Change { resource, key: entry.key.clone(), expect, action: Action::Delete }
            }
            _ => put(call, entry.key.clone(), expect, &stored),
        };
        match call.cluster.store().commit(vec![change], &[]).await {
            Ok(entries) => {
                if step == Step::Remove {
                    call.served.info.hooks.settle(&stored, &Value::Null, false, call.cluster.addresses());
                }
                let entry = entries.first().unwrap_or(&entry);
                return Ok(response(call, options, entry, &stored, step));
            }
            // Conflict: read the object again.
            Err(StoreError::Conflict { .. }) => {}
            Err(StoreError::NotFound) => return Err(call.not_found()),
            Err(error) => return Err(store_failure(&error)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Remove,
    Mark,
    /// It is marked already.
    Nothing,
}

/// The next step of the deletion; changes `stored` accordingly.
fn plan(call: &Call<'_>, options: &DeleteOptions, stored: &mut Value) -> Result<Step, ApiError> {
    let info = &call.served.info;
    let now = call.cluster.now();
    let before = stored.clone();
    let was_marked = stored["metadata"]["deletionTimestamp"].is_string();
    let holds_content =
        info.behaviour.spec_finalizers && stored["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    if was_marked && holds_content {
        return Err(call.conflict(
            "The system is ensuring all content is removed from this namespace.  Upon completion, this namespace will \
             automatically be purged by the system.",
        ));
    }
    set_propagation(stored, options.propagation);
    if let Some(finalizer) = info.behaviour.cleanup_finalizer.filter(|_| !was_marked) {
        let slot = meta::metadata(stored).entry("finalizers").or_insert_with(|| json!([]));
        if let Some(list) = slot.as_array_mut().filter(|list| !list.iter().any(|f| f == finalizer)) {
            list.push(finalizer.into());
        }
    }
    let grace = match info.hooks.grace_seconds(stored, options.grace_seconds) {
        // As kube-apiserver has it: a negative period is the shortest that is not none.
        negative if negative < 0 => 1,
        grace => grace,
    };
    let held = holds_content || stored["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    if was_marked {
        let metadata = meta::metadata(stored);
        let left = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
        if grace < left {
            let at = shortened(metadata.get("deletionTimestamp"), left, grace, now);
            metadata.insert("deletionTimestamp".to_owned(), printed_time(at).into());
            metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
        }
        let released = is_released(stored, info.behaviour.spec_finalizers);
        let changed = *stored != before;
        return Ok(if released && !held {
            Step::Remove
        } else if changed {
            Step::Mark
        } else {
            Step::Nothing
        });
    }
    if !held && grace == 0 {
        return Ok(Step::Remove);
    }
    let at = after(now, grace);
    let metadata = meta::metadata(stored);
    metadata.insert("deletionTimestamp".to_owned(), printed_time(at).into());
    if !info.behaviour.spec_finalizers {
        metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
    }
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|g| *g > 0) {
        metadata.insert("generation".to_owned(), (generation + 1).into());
    }
    if info.behaviour.spec_finalizers {
        stored["status"]["phase"] = "Terminating".into();
    }
    Ok(Step::Mark)
}

/// The time this many seconds later, at most the last one that can be printed.
fn after(time: Timestamp, seconds: i64) -> Timestamp {
    time.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

/// When a deletion ends that was to end at `at` after `before` seconds and now has `grace` seconds from the same start.
fn shortened(at: Option<&Value>, before: i64, grace: i64, now: Timestamp) -> Timestamp {
    let at: Option<Timestamp> = at.and_then(Value::as_str).and_then(|text| text.parse().ok());
    // A period so long that its end was cut has no start that could be computed.
    let start = at.and_then(|at| at.checked_sub(SignedDuration::from_secs(before)).ok());
    after(start.unwrap_or(now), grace)
}

/// Asks the garbage collector, by finalizer, for what the client wants done with dependents.
fn set_propagation(stored: &mut Value, propagation: Option<Propagation>) {
    let Some(propagation) = propagation else { return };
    let metadata = meta::metadata(stored);
    let present = metadata.get("finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut finalizers: Vec<Value> = present.into_iter().filter(|f| f != FOREGROUND && f != ORPHAN).collect();
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(FOREGROUND.into()),
        Propagation::Orphan => finalizers.push(ORPHAN.into()),
    }
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), finalizers.into());
    }
}

fn check_preconditions(call: &Call<'_>, options: &DeleteOptions, entry: &Entry) -> Result<(), ApiError> {
    let info = &call.served.info;
    let refusal = |why: String| Err(ApiError::conflict(&info.group, &info.kind, call.name(), &why));
    if let Some(uid) = options.uid.as_ref().filter(|uid| ***uid != *entry.index.uid) {
        return refusal(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
             deleted and then recreated",
            entry.index.uid
        ));
    }
    let current = entry.revision.to_string();
    if let Some(version) = options.resource_version.as_ref().filter(|version| **version != current) {
        return refusal(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record \
             ({current}). The object might have been modified"
        ));
    }
    Ok(())
}

fn response(call: &mut Call<'_>, options: &DeleteOptions, entry: &Entry, stored: &Value, step: Step) -> Response {
    let info = call.served.info.clone();
    let mut response = if step != Step::Remove || info.behaviour.returns_deleted_object {
        let status = if options.cascade_asked && step != Step::Remove { 202 } else { 200 };
        if step == Step::Remove {
            // A response with the whole object shows no grace period.
            let mut gone = call.shown_value(entry);
            let metadata = meta::metadata(&mut gone);
            metadata.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
            metadata.entry("deletionTimestamp").or_insert_with(|| meta::printed_time(call.cluster.now()).into());
            Response::value(status, &gone)
        } else if options.dry_run {
            Response::value(status, &super::call::from_storage(&call.served, stored.clone()))
        } else {
            Response::object(status, call.shown(entry))
        }
    } else {
        let mut details = json!({"name": call.name(), "kind": info.plural, "uid": &*entry.index.uid});
        if !info.group.is_empty() {
            details["group"] = info.group.as_str().into();
        }
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
        });
        Response::value(200, &status)
    };
    response.warnings = std::mem::take(&mut call.warnings);
    response
}

/// Deletes what the selectors match, one by one, and answers the list of it.
pub(crate) async fn delete_collection(call: &mut Call<'_>) -> Result<Response, ApiError> {
    let options = DeleteOptions::of(call)?;
    let selection = Selection::parse(&call.request.options, &call.served.info, call.served.version())?;
    let listed = read::select(call, &selection).await?;
    for entry in &listed.entries {
        let (namespace, name) = entry.namespace_and_name();
        let mut request = call.request.clone();
        request.name = Some(name.to_owned());
        request.namespace = Some(namespace.to_owned()).filter(|n| !n.is_empty());
        let mut single =
            Call { cluster: call.cluster, request: &request, served: call.served.clone(), warnings: Vec::new() };
        let outcome = delete_with(&mut single, &options).await;
        call.warnings.append(&mut single.warnings);
        match outcome {
            Ok(_) => {}
            Err(error) if error.reason == crate::error::Reason::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let list = List {
        api_version: call.served.api_version(),
        kind: call.served.info.list_kind.clone(),
        resource_version: listed.revision.to_string(),
        items: listed.entries.iter().map(|entry| call.shown(entry)).collect(),
        typeless: !call.served.info.is_custom(),
        continue_token: read::end_of(call, None),
        ..List::default()
    };
    Ok(Response { status: 200, body: Body::List(list), warnings: std::mem::take(&mut call.warnings) })
}
