//! The write path of create, update and patch: prepare, admit, validate, track owners, store, and retry after a conflict.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_values::go;
use serde_json::{Value, json};

use super::admission::{Attributes, Operation, Phase};
use super::call::{Call, from_storage, store_failure, to_storage};
use super::request::Verb;
use super::shape::{self, Writer};
use super::{meta, scale};
use crate::builtin;
use crate::error::{ApiError, Reason};
use crate::registry::{Handling, NameRule, PrepareContext, StorageKey};
use crate::store::{Action, Change, Encoded, Entry, Expect, Guard, Index, MAX_DEPTH, StoreError};

/// Maximum number of retries after a conflict. At each conflict another write succeeded.
const MAX_ATTEMPTS: usize = 64;

/// Maximum number of attempts to generate an unused name.
const MAX_NAME_ATTEMPTS: usize = 8;

/// Which part of an object a request may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything but the status, where that is a part of its own.
    Main,
    Status,
    /// `spec.finalizers` only.
    Finalizers,
    Whole,
}

impl Part {
    pub(crate) fn of(handling: Option<&Handling>) -> Self {
        match handling {
            Some(Handling::Status) => Part::Status,
            Some(Handling::Finalize) => Part::Finalizers,
            Some(Handling::WholeObject) => Part::Whole,
            _ => Part::Main,
        }
    }
}

/// The result of a write.
pub(crate) enum Written {
    Stored {
        entry: Arc<Entry>,
        created: bool,
    },
    /// Nothing was stored: a dry run, or the write removed the object. In the version of the request.
    Answer {
        object: Value,
        created: bool,
    },
}

/// Makes the new state of an object from the old one; both in the version of the request.
pub(crate) type Make<'m> = dyn Fn(Option<&Value>) -> Result<Value, ApiError> + Send + Sync + 'm;

/// The error for a patch that makes an object unreadable, with the reason.
pub(crate) type Unreadable<'m> = dyn Fn(&Value, &str) -> ApiError + Send + Sync + 'm;

/// An update of one object.
pub(crate) struct Update<'m> {
    pub(crate) part: Part,
    pub(crate) make: &'m Make<'m>,
    /// The object is created if it does not exist.
    pub(crate) may_create: bool,
    /// `make` has already recorded field owners.
    pub(crate) tracked: bool,
    /// PUT, which must say what it replaces unless the kind waives that.
    pub(crate) is_put: bool,
    /// Prints the result of a patch that cannot be read.
    pub(crate) unreadable: Option<&'m Unreadable<'m>>,
    pub(crate) options_kind: &'static str,
}

/// Stores a new object. `tracked` as in `Update`.
pub(crate) async fn create(
    call: &mut Call<'_>,
    object: Value,
    tracked: bool,
    options: &str,
) -> Result<Written, ApiError> {
    check_placement(call, &object)?;
    refuse_while_terminating(call, &object)?;
    let wants_generated = meta::text(&object, "name").is_empty() && !meta::text(&object, "generateName").is_empty();
    let attempts = if wants_generated { MAX_NAME_ATTEMPTS } else { 1 };
    for _ in 1..attempts {
        match create_once(call, object.clone(), tracked, options).await {
            Err(error) if error.reason == Reason::AlreadyExists => {}
            other => return other,
        }
    }
    create_once(call, object, tracked, options).await
}

/// A custom resource whose definition is being deleted takes no new objects.
fn refuse_while_terminating(call: &Call<'_>, object: &Value) -> Result<(), ApiError> {
    let info = &call.served.info;
    if !info.is_custom() || info.verbs.contains(&Verb::Create) {
        return Ok(());
    }
    let why = "create not allowed while custom resource definition is terminating";
    Err(ApiError::forbidden(&info.group, &info.plural, meta::text(object, "name"), why))
}

async fn create_once(
    call: &mut Call<'_>,
    mut object: Value,
    tracked: bool,
    options: &str,
) -> Result<Written, ApiError> {
    let cluster = call.cluster;
    let info = call.served.info.clone();
    let now = cluster.now();
    shape::prune_and_default(&call.served, &mut object)?;
    meta::start(&mut object, &info, call.namespace(), now, cluster.identities());
    if call.served.version().has_status()
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("status");
    }
    // Fields that admission adds have no owner, so owners are recorded first.
    if !tracked {
        shape::track_update(&call.served, None, &mut object, &writer(call, &call.manager()));
    }
    let object = admit(call, Phase::Mutating, Operation::Create, Some(object), None, options).await?;
    let mut object = object.unwrap_or_default();
    meta::generate_name(&mut object, cluster.identities());
    let mut stored = to_storage(&call.served, object);
    let prepared = info.hooks.prepare_create(&mut stored, &prepare_context(call));
    let shown = shown_form(call, &stored);
    let name = meta::text(&stored, "name").to_owned();
    let mut findings = metadata_findings(call, &stored, None);
    findings.extend(prepared.err().into_iter().flatten());
    findings.extend(shape::validate(&call.served, &shown, None, false));
    findings.extend(scale::findings(&call.served, &shown, false));
    findings.extend(info.hooks.validate_create(&stored));
    if !findings.is_empty() {
        info.hooks.settle(&stored, &Value::Null, false, cluster.addresses());
        return Err(call.invalid(&name, &findings));
    }
    call.warnings.extend(info.hooks.warnings(&stored, None));
    admit_unchanged(call, Operation::Create, &shown, None, options).await?;
    let key = crate::store::key_of(call.namespace(), &name);
    if call.request.options.is_dry_run() {
        if cluster.store().peek(&info.storage.key, &key).is_some() {
            return Err(taken(call, &key, &name));
        }
        refuse_too_deep(&stored)?;
        return Ok(Written::Answer { object: shown.into_owned(), created: true });
    }
    let change = put(call, key.clone(), Expect::Absent, &stored);
    match cluster.store().commit(vec![change], &namespace_guard(call)).await {
        Ok(entries) => stored_entry(entries, true),
        Err(StoreError::AlreadyExists) => Err(taken(call, &key, &name)),
        Err(StoreError::GuardMissing) => Err(ApiError::not_found("", "namespaces", call.namespace().unwrap_or(""))),
        Err(error) => Err(store_failure(&error)),
    }
}

/// Replaces an object by the result of `make`; repeats that after every conflict.
pub(crate) async fn update(call: &mut Call<'_>, update: &Update<'_>) -> Result<Written, ApiError> {
    let before = call.warnings.len();
    for _ in 0..MAX_ATTEMPTS {
        call.warnings.truncate(before);
        let found = call.cluster.store().get(&call.served.info.storage.key, &call.key()).await;
        let Some(entry) = found.map_err(|e| store_failure(&e))? else {
            if !update.may_create {
                return Err(call.not_found());
            }
            let object = (update.make)(None)?;
            match create(call, object, update.tracked, update.options_kind).await {
                Err(error) if error.reason == Reason::AlreadyExists => continue,
                other => return other,
            }
        };
        match update_once(call, update, &entry).await {
            Err(Failure::LostRace) => {}
            Err(Failure::Refused(error)) => return Err(error),
            Ok(written) => return Ok(written),
        }
    }
    Err(call.changed_meanwhile())
}

enum Failure {
    LostRace,
    Refused(ApiError),
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Failure::Refused(error)
    }
}

async fn update_once(call: &mut Call<'_>, update: &Update<'_>, entry: &Arc<Entry>) -> Result<Written, Failure> {
    let info = call.served.info.clone();
    let parsed = entry.parse();
    let old = call.shown_parsed(entry, &parsed);
    // Effects of a changed schema on a stored custom object are not changes of this request.
    let custom = info.is_custom().then(|| to_storage(&call.served, old.clone().into_owned()));
    let old_stored: &Value = custom.as_ref().unwrap_or(&parsed);
    let old: &Value = &old;
    let mut new = (update.make)(Some(old))?;
    mark_forgotten_owners(&mut new);
    check_placement(call, &new)?;
    check_preconditions(call, update, &new, entry)?;
    if let Some(refusal) = update.unreadable {
        if let Err(why) = shape::complete(&call.served, &mut new) {
            return Err(refusal(&(update.make)(Some(old))?, &why).into());
        }
    } else {
        shape::prune_and_default(&call.served, &mut new)?;
    }
    if !info.namespaced {
        meta::metadata(&mut new).remove("namespace");
    }
    // Custom objects also record owners of fields that a write to the status cannot change.
    let tracked = update.tracked || info.is_custom() && update.part == Part::Status;
    if tracked && !update.tracked {
        meta::carry_over(&mut new, old);
        shape::track_update(&call.served, Some(old), &mut new, &writer(call, &call.manager()));
    }
    let owners = new["metadata"].get("managedFields").cloned();
    keep_other_parts(&mut new, old, update.part, call.served.version().has_status());
    meta::carry_over(&mut new, old);
    if tracked {
        set_field(&mut new["metadata"], "managedFields", owners);
    } else {
        shape::track_update(&call.served, Some(old), &mut new, &writer(call, &call.manager()));
    }
    forget_time_of_scaling(call, &mut new);
    let new = admit(call, Phase::Mutating, Operation::Update, Some(new), Some(old), update.options_kind).await?;
    let mut new = new.unwrap_or_default();
    meta::carry_over(&mut new, old);
    let mut stored = to_storage(&call.served, new);
    let findings = prepare_and_validate(call, update.part, &mut stored, old_stored, Some(old));
    if !findings.is_empty() {
        info.hooks.settle(&stored, old_stored, false, call.cluster.addresses());
        return Err(call.invalid(call.name(), &findings).into());
    }
    if update.part != Part::Status {
        call.warnings.extend(info.hooks.warnings(&stored, Some(old_stored)));
    }
    let shown = shown_form(call, &stored);
    admit_unchanged(call, Operation::Update, &shown, Some(old), update.options_kind).await?;
    if call.request.options.is_dry_run() {
        refuse_too_deep(&stored)?;
        return Ok(Written::Answer { object: shown.into_owned(), created: false });
    }
    if let Some(written) = unchanged(&stored, &parsed, entry) {
        return Ok(written);
    }
    let outcome = store_update(call, entry, &stored).await;
    info.hooks.settle(&stored, old_stored, outcome.is_ok(), call.cluster.addresses());
    outcome
}

/// An empty list of owners means that they are to be forgotten. The built-in kinds drop empty lists, so it gets the form
/// that they keep.
fn mark_forgotten_owners(object: &mut Value) {
    if let Some(owners) = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut)
        && owners.is_empty()
    {
        owners.push(json!({}));
    }
}

async fn store_update(call: &Call<'_>, entry: &Entry, stored: &Value) -> Result<Written, Failure> {
    let expect = Expect::Revision(entry.revision);
    let goes = is_released(stored, call.served.info.behaviour.spec_finalizers);
    let change = if goes {
        let resource = call.served.info.storage.key.clone();
        Change { resource, key: entry.key.clone(), expect, action: Action::Delete }
    } else {
        put(call, entry.key.clone(), expect, stored)
    };
    match call.cluster.store().commit(vec![change], &[]).await {
        Ok(_) if goes => Ok(Written::Answer { object: shown_form(call, stored).into_owned(), created: false }),
        Ok(entries) => stored_entry(entries, false).map_err(Failure::Refused),
        Err(StoreError::Conflict { .. } | StoreError::NotFound) => Err(Failure::LostRace),
        Err(error) => Err(store_failure(&error).into()),
    }
}

/// Runs the kind's hooks on the stored form and collects every finding.
fn prepare_and_validate(
    call: &Call<'_>,
    part: Part,
    stored: &mut Value,
    old_stored: &Value,
    old: Option<&Value>,
) -> Vec<crate::field::FieldError> {
    let info = &call.served.info;
    let context = prepare_context(call);
    let mut findings = Vec::new();
    if part == Part::Status {
        info.hooks.prepare_status(stored, old_stored, &context);
    } else if part != Part::Finalizers {
        // An update keeps the finalizers of the specification, which are all that the other endpoint may change.
        findings.extend(info.hooks.prepare_update(stored, old_stored, &context).err().into_iter().flatten());
        if !info.hooks.covers_metadata() {
            let status_is_apart = call.served.version().has_status() || !info.is_custom();
            meta::count_generation(stored, old_stored, info, status_is_apart);
        }
    }
    let shown = shown_form(call, stored);
    // Metadata is judged for all kinds alike, and then once more with the rules of the kind.
    findings.extend(builtin::validate_metadata(stored, info.namespaced, NameRule::PathSegment, "metadata"));
    findings.extend(builtin::validate_metadata_update(stored, old_stored, "metadata"));
    findings.extend(metadata_findings(call, stored, Some(old_stored)));
    findings.extend(shape::validate(&call.served, &shown, old, part == Part::Status));
    findings.extend(scale::findings(&call.served, &shown, part == Part::Status));
    findings.extend(match part {
        Part::Status => info.hooks.validate_status(stored, old_stored),
        _ => info.hooks.validate_update(stored, old_stored),
    });
    findings
}

/// What is wrong with the metadata, unless the kind's hooks say it themselves.
fn metadata_findings(call: &Call<'_>, stored: &Value, old: Option<&Value>) -> Vec<crate::field::FieldError> {
    let info = &call.served.info;
    if info.hooks.covers_metadata() {
        return Vec::new();
    }
    match old {
        Some(old) => builtin::validate_metadata_update(stored, old, "metadata"),
        None => builtin::validate_metadata(stored, info.namespaced, info.behaviour.name_rule, "metadata"),
    }
}

/// The error for a name that is in use, possibly by an object that is being deleted.
fn taken(call: &Call<'_>, key: &str, name: &str) -> ApiError {
    let info = &call.served.info;
    let deleting = call.cluster.store().peek(&info.storage.key, key).is_some_and(|entry| entry.index.deleting);
    let error = if deleting { ApiError::being_deleted } else { ApiError::already_exists };
    error(&info.group, &info.plural, name)
}

fn prepare_context<'a>(call: &'a Call<'_>) -> PrepareContext<'a> {
    PrepareContext {
        now: call.cluster.now(),
        user: &call.request.user,
        addresses: call.cluster.addresses(),
        dry_run: call.request.options.is_dry_run(),
    }
}

/// Refuses an object whose name or namespace differs from that of the request.
fn check_placement(call: &Call<'_>, object: &Value) -> Result<(), ApiError> {
    let namespace = meta::text(object, "namespace");
    let wanted = call.namespace().unwrap_or("");
    // A namespace given for a kind that has none is ignored.
    if !namespace.is_empty() && namespace != wanted && call.served.info.namespaced {
        let text = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(text));
    }
    let name = meta::text(object, "name");
    // A name behind the collection means nothing to a create.
    let asked = if call.request.verb == Verb::Create && call.request.subresource.is_none() { "" } else { call.name() };
    if !asked.is_empty() && !name.is_empty() && name != asked {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({asked})"
        )));
    }
    Ok(())
}

/// The uid and resource version that the new object carries are conditions.
fn check_preconditions(call: &Call<'_>, update: &Update<'_>, new: &Value, entry: &Entry) -> Result<(), ApiError> {
    let uid = meta::text(new, "uid");
    if update.is_put && !uid.is_empty() && *uid != *entry.index.uid {
        return Err(call.conflict(&format!(
            "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
             failed: UID in precondition: {uid}, UID in object meta: {}",
            storage_path(call),
            entry.index.uid
        )));
    }
    let version = meta::text(new, "resourceVersion");
    if !version.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ApiError::unclassified(format!(
            "strconv.ParseUint: parsing {}: invalid syntax",
            go::quoted(version)
        )));
    }
    if version.is_empty() || version == "0" {
        if update.is_put && !call.served.info.behaviour.unconditional_update {
            let info = &call.served.info;
            return Err(ApiError::invalid(&info.group, &info.plural, call.name(), &[meta::version_required()]));
        }
    } else if version != entry.revision.to_string() {
        return Err(call.changed_meanwhile());
    }
    Ok(())
}

/// The etcd key that kube-apiserver would use.
fn storage_path(call: &Call<'_>) -> String {
    let info = &call.served.info;
    let kind = match (info.group.as_str(), info.plural.as_str()) {
        ("", "services") => "services/specs".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "nodes") => "minions".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        (group @ ("apiextensions.k8s.io" | "apiregistration.k8s.io"), plural) => format!("{group}/{plural}"),
        (group, plural) if info.is_custom() => format!("{group}/{plural}"),
        (_, plural) => plural.to_owned(),
    };
    let namespace = call.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    format!("/registry/{kind}/{namespace}{}", call.name())
}

/// Scaling is recorded without a time.
fn forget_time_of_scaling(call: &Call<'_>, object: &mut Value) {
    if call.request.subresource.as_deref() != Some("scale") {
        return;
    }
    let manager = call.manager();
    for entry in object["metadata"]["managedFields"].as_array_mut().into_iter().flatten() {
        if entry["subresource"] == "scale"
            && entry["manager"] == manager.as_str()
            && let Some(entry) = entry.as_object_mut()
        {
            entry.remove("time");
        }
    }
}

/// Restores the fields of the old object that this request must not change.
fn keep_other_parts(new: &mut Value, old: &Value, part: Part, has_status: bool) {
    match part {
        Part::Whole => {}
        Part::Main => {
            if has_status {
                copy_field(new, old, "status");
            }
        }
        Part::Status => {
            let status = new.get("status").cloned();
            let managed = new["metadata"].get("managedFields").cloned();
            *new = old.clone();
            set_field(new, "status", status);
            if let Some(managed) = managed {
                meta::metadata(new).insert("managedFields".to_owned(), managed);
            }
        }
        Part::Finalizers => {
            let finalizers = new["spec"].get("finalizers").cloned();
            *new = old.clone();
            new["spec"]["finalizers"] = finalizers.unwrap_or_else(|| json!([]));
        }
    }
}

fn copy_field(new: &mut Value, old: &Value, key: &str) {
    set_field(new, key, old.get(key).cloned());
}

fn set_field(object: &mut Value, key: &str, value: Option<Value>) {
    if let Some(fields) = object.as_object_mut() {
        match value {
            Some(value) => fields.insert(key.to_owned(), value),
            None => fields.remove(key),
        };
    }
}

/// The write if it changes nothing: only the times of field owners may differ.
fn unchanged(new: &Value, old: &Value, entry: &Arc<Entry>) -> Option<Written> {
    let same = same_but(new, old, "metadata", |new, old| same_but(new, old, "managedFields", same_owners));
    same.then(|| Written::Stored { entry: entry.clone(), created: false })
}

/// Whether two objects are equal, with the values of one key compared by `judge`.
fn same_but(new: &Value, old: &Value, key: &str, judge: impl Fn(&Value, &Value) -> bool) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return new == old };
    let same = |(name, value): (&String, &Value)| match old.get(name) {
        Some(other) if name == key => judge(value, other),
        other => other == Some(value),
    };
    new.len() == old.len() && new.iter().all(same)
}

/// Whether two lists of field owners differ in nothing but times.
fn same_owners(new: &Value, old: &Value) -> bool {
    let (Some(new), Some(old)) = (new.as_array(), old.as_array()) else { return new == old };
    new.len() == old.len() && new.iter().zip(old).all(|(new, old)| same_but(new, old, "time", |_, _| true))
}

/// An object that is being deleted and that nothing holds back any more.
pub(crate) fn is_released(stored: &Value, spec_finalizers: bool) -> bool {
    let metadata = &stored["metadata"];
    let none = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    metadata["deletionTimestamp"].is_string()
        && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && none(&metadata["finalizers"])
        && (!spec_finalizers || none(&stored["spec"]["finalizers"]))
}

/// The error that the store would return, for a write that does not reach it.
fn refuse_too_deep(stored: &Value) -> Result<(), ApiError> {
    let depth = crate::store::depth(stored);
    if depth > MAX_DEPTH { Err(store_failure(&StoreError::TooDeep { depth })) } else { Ok(()) }
}

pub(crate) fn put(call: &Call<'_>, key: Box<str>, expect: Expect, stored: &Value) -> Change {
    // Only what was written through the storage version is known to be in its final form.
    let shape = if call.served.is_storage_version() { call.served.version().shape } else { 0 };
    let action = Action::Put { body: Encoded::new(stored), index: Index::of(stored), shape };
    Change { resource: call.served.info.storage.key.clone(), key, expect, action }
}

fn stored_entry(entries: Vec<Arc<Entry>>, created: bool) -> Result<Written, ApiError> {
    let entry = entries.into_iter().next();
    entry.map(|entry| Written::Stored { entry, created }).ok_or_else(|| ApiError::internal("the write was lost"))
}

/// The stored form as the version of the request shows it.
fn shown_form<'s>(call: &Call<'_>, stored: &'s Value) -> Cow<'s, Value> {
    if call.served.is_storage_version() {
        return Cow::Borrowed(stored);
    }
    Cow::Owned(from_storage(&call.served, stored.clone()))
}

/// Objects of a namespace are not created after it is gone.
fn namespace_guard(call: &Call<'_>) -> Vec<Guard> {
    match call.namespace() {
        Some(namespace) if call.cluster.registry().is_built_in("", "namespaces") => {
            vec![Guard::Exists { resource: StorageKey::new("", "namespaces"), key: namespace.into() }]
        }
        _ => Vec::new(),
    }
}

pub(crate) fn writer<'a>(call: &'a Call<'_>, manager: &'a str) -> Writer<'a> {
    Writer { manager, subresource: call.request.subresource.as_deref().unwrap_or(""), now: call.cluster.now() }
}

/// Runs the validating phase; the object is copied only if a validating step needs it.
async fn admit_unchanged(
    call: &mut Call<'_>,
    operation: Operation,
    object: &Value,
    old: Option<&Value>,
    options: &str,
) -> Result<(), ApiError> {
    let subresource = call.request.subresource.as_deref();
    if call.cluster.admission().handles(Phase::Validating, operation, &call.served.info, subresource) {
        admit(call, Phase::Validating, operation, Some(object.clone()), old, options).await?;
    }
    Ok(())
}

/// Runs one phase of admission over a write; the object may come back changed.
pub(crate) async fn admit(
    call: &mut Call<'_>,
    phase: Phase,
    operation: Operation,
    object: Option<Value>,
    old: Option<&Value>,
    options: &str,
) -> Result<Option<Value>, ApiError> {
    let chain = call.cluster.admission();
    if !chain.handles(phase, operation, &call.served.info, call.request.subresource.as_deref()) {
        return Ok(object);
    }
    let name = object.as_ref().map(|o| meta::text(o, "name").to_owned()).filter(|n| !n.is_empty());
    let name = name.unwrap_or_else(|| call.name().to_owned());
    let version = call.served.version().name.clone();
    let info = call.served.info.clone();
    let mut attributes = Attributes {
        cluster: call.cluster,
        user: &call.request.user,
        operation,
        info: &info,
        version: &version,
        subresource: call.request.subresource.as_deref(),
        namespace: call.namespace(),
        name: &name,
        object,
        old: old.cloned(),
        options: call.options_object(options),
        dry_run: call.request.options.is_dry_run(),
    };
    let warnings = chain.run(phase, &mut attributes).await?;
    let object = attributes.object;
    call.warnings.extend(warnings);
    Ok(object)
}
