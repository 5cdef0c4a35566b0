//! The state of one request: its resource, its warnings, and the conversion of stored objects to the requested version.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::request::{FieldValidation, Request};
use super::shape;
use crate::error::{ApiError, Reason};
use crate::field::FieldError;
use crate::registry::Served;
use crate::server::Cluster;
use crate::store::{Entry, StoreError, key_of};

/// A field manager's name has at most this many bytes when it comes from a user agent.
const MAX_MANAGER_BYTES: usize = 128;

pub(crate) struct Call<'a> {
    pub(crate) cluster: &'a Arc<Cluster>,
    pub(crate) request: &'a Request,
    pub(crate) served: Served,
    pub(crate) warnings: Vec<String>,
}

impl Call<'_> {
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.request.namespace.as_deref().filter(|_| self.served.info.namespaced)
    }

    pub(crate) fn name(&self) -> &str {
        self.request.name.as_deref().unwrap_or("")
    }

    pub(crate) fn key(&self) -> Box<str> {
        key_of(self.namespace(), self.name())
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.served.info.group, &self.served.info.plural, self.name())
    }

    pub(crate) fn conflict(&self, why: &str) -> ApiError {
        ApiError::conflict(&self.served.info.group, &self.served.info.plural, self.name(), why)
    }

    pub(crate) fn changed_meanwhile(&self) -> ApiError {
        self.conflict("the object has been modified; please apply your changes to the latest version and try again")
    }

    pub(crate) fn invalid(&self, name: &str, findings: &[FieldError]) -> ApiError {
        // Findings are about the stored form: aliased kinds of another group are named by the group they are stored in.
        ApiError::invalid(self.served.info.storage.group(), &self.served.info.kind, name, findings)
    }

    /// The field manager of this request.
    pub(crate) fn manager(&self) -> String {
        manager(self.request).to_owned()
    }

    pub(crate) fn field_validation(&self) -> FieldValidation {
        match self.request.options.field_validation.as_deref() {
            Some("Strict") => FieldValidation::Strict,
            Some("Ignore") => FieldValidation::Ignore,
            _ => FieldValidation::Warn,
        }
    }

    /// Refuses options that no write accepts. `kind` is as `CreateOptions`.
    pub(crate) fn check_write_options(&self, kind: &str) -> Result<(), ApiError> {
        let options = &self.request.options;
        let mut findings = Vec::new();
        findings.extend(dry_run_findings(&options.dry_run));
        if let Some(manager) = &options.field_manager {
            if manager.len() > MAX_MANAGER_BYTES {
                findings.push(FieldError::too_long("fieldManager", MAX_MANAGER_BYTES));
            }
            if let Some((position, odd)) = manager.char_indices().find(|(_, c)| c.is_control()) {
                let text = format!("invalid character U+{:04X} (at position {position})", u32::from(odd));
                findings.push(FieldError::invalid("fieldManager", &manager.as_str().into(), text));
            }
        }
        if let Some(value) = &options.field_validation
            && !matches!(value.as_str(), "Ignore" | "Warn" | "Strict")
        {
            let supported = ["", "Ignore", "Strict", "Warn"];
            findings.push(FieldError::not_supported("fieldValidation", &value.as_str().into(), &supported));
        }
        refuse(kind, &findings)
    }

    /// The options of the request as admission sees them.
    pub(crate) fn options_object(&self, kind: &str) -> Value {
        let options = &self.request.options;
        let mut out = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if let Some(map) = out.as_object_mut() {
            put(map, "fieldManager", options.field_manager.as_deref());
            put(map, "fieldValidation", options.field_validation.as_deref());
            if options.is_dry_run() {
                map.insert("dryRun".to_owned(), json!(options.dry_run));
            }
        }
        out
    }

    /// Unknown and duplicate fields: an error, warnings or nothing, as the request wants it.
    pub(crate) fn note_field_findings(&mut self, mut texts: Vec<String>) -> Result<(), ApiError> {
        match self.field_validation() {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => self.warnings.append(&mut texts),
            FieldValidation::Strict if texts.is_empty() => {}
            FieldValidation::Strict => {
                let kind = &self.served.info.kind;
                let version = &self.served.version().name;
                return Err(ApiError::bad_request(format!(
                    "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {}",
                    texts.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// The object in the requested version, as bytes: the stored ones where possible.
    pub(crate) fn shown(&self, entry: &Entry) -> Bytes {
        shown(&self.served, entry)
    }

    /// The object in the requested version.
    pub(crate) fn shown_value(&self, entry: &Entry) -> Value {
        let object = entry.parse();
        if is_stored_form(&self.served, entry) { object } else { from_storage(&self.served, object) }
    }

    /// As `shown_value`, for an entry that is parsed already; borrowed where nothing differs.
    pub(crate) fn shown_parsed<'s>(&self, entry: &Entry, stored: &'s Value) -> Cow<'s, Value> {
        if is_stored_form(&self.served, entry) {
            Cow::Borrowed(stored)
        } else {
            Cow::Owned(from_storage(&self.served, stored.clone()))
        }
    }
}

/// The field manager of a request: the one that it names, or the program that sent it.
pub(crate) fn manager(request: &Request) -> &str {
    if let Some(manager) = &request.options.field_manager {
        return manager;
    }
    let agent = request.user_agent.split('/').next().unwrap_or("").trim();
    let mut end = agent.len().min(MAX_MANAGER_BYTES);
    while !agent.is_char_boundary(end) {
        end -= 1;
    }
    if agent.is_empty() { "unknown" } else { &agent[..end] }
}

/// Whether stored bytes are already what is to be shown.
fn is_stored_form(served: &Served, entry: &Entry) -> bool {
    served.is_storage_version() && (!served.info.is_custom() || entry.shape == served.version().shape)
}

/// A stored object in a served version, as bytes: the stored ones where possible.
pub(crate) fn shown(served: &Served, entry: &Entry) -> Bytes {
    if is_stored_form(served, entry) {
        return entry.bytes.clone();
    }
    Bytes::from(from_storage(served, entry.parse()).to_string())
}

fn put(map: &mut Map<String, Value>, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        map.insert(key.to_owned(), value.into());
    }
}

/// A stored object in the version of the request.
pub(crate) fn from_storage(served: &Served, mut object: Value) -> Value {
    object["apiVersion"] = served.api_version().into();
    object["kind"] = served.info.kind.as_str().into();
    if let Some(conversion) = &served.version().conversion {
        conversion.to_served(&mut object);
    }
    if served.info.is_custom() {
        // Fails only if the defaults of a changed schema are too large; the object is then shown with some of them.
        let _ = shape::prune_and_default(served, &mut object);
    }
    object
}

/// An object of the version of the request as it is stored.
pub(crate) fn to_storage(served: &Served, mut object: Value) -> Value {
    object["apiVersion"] = served.info.storage.api_version.as_str().into();
    if let Some(conversion) = &served.version().conversion {
        conversion.to_storage(&mut object);
    }
    if served.info.is_custom()
        && !served.is_storage_version()
        && let Some(stored) = served.info.version(&served.info.storage.version)
    {
        // Fields that the stored version does not have are lost. An object whose defaults are too large is also too large to store.
        let _ = shape::prune_and_default_by(&stored.schema, &mut object);
    }
    object
}

/// Validation errors of the `dryRun` values of a request.
pub(crate) fn dry_run_findings(values: &[String]) -> Option<FieldError> {
    let odd = values.iter().any(|value| value != "All");
    odd.then(|| FieldError::not_supported("dryRun", &json!(values), &["All"]))
}

/// 422 about the options of a request, if there is anything to say.
pub(crate) fn refuse(kind: &str, findings: &[FieldError]) -> Result<(), ApiError> {
    if findings.is_empty() { Ok(()) } else { Err(ApiError::invalid("meta.k8s.io", kind, "", findings)) }
}

/// The response to a store error for a client that named no version.
pub(crate) fn store_failure(error: &StoreError) -> ApiError {
    match error {
        StoreError::Expired { .. } => ApiError::expired(error.to_string()),
        StoreError::Future { .. } => ApiError::new(Reason::Timeout, error.to_string()),
        StoreError::TooDeep { .. } => ApiError::bad_request(error.to_string()),
        StoreError::LogFailed(_) => ApiError::new(Reason::ServiceUnavailable, error.to_string()),
        StoreError::TooLarge | StoreError::TooLargeToSend { .. } => ApiError::unclassified(error.to_string()),
        other => ApiError::internal(other.to_string()),
    }
}
