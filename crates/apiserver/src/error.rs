//! Error responses: the `Status` object with its code and reason.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value, json};

use crate::field::FieldError;

/// The machine-readable `reason` of a `Status`, each with its HTTP code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Gone,
    Expired,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    /// A path that no part of the server claims; answered in plain text.
    NoSuchPath,
    ServiceUnavailable,
    Timeout,
    /// An error that kube-apiserver does not classify: 500 with a bare message.
    Unclassified,
}

impl Reason {
    pub(crate) fn code(self) -> u16 {
        match self {
            Reason::BadRequest => 400,
            Reason::Unauthorized => 401,
            Reason::Forbidden => 403,
            Reason::NotFound | Reason::NoSuchPath => 404,
            Reason::MethodNotAllowed => 405,
            Reason::NotAcceptable => 406,
            Reason::AlreadyExists | Reason::Conflict => 409,
            Reason::Gone | Reason::Expired => 410,
            Reason::RequestEntityTooLarge => 413,
            Reason::UnsupportedMediaType => 415,
            Reason::Invalid => 422,
            Reason::TooManyRequests => 429,
            Reason::InternalError | Reason::Unclassified => 500,
            Reason::ServiceUnavailable => 503,
            Reason::Timeout => 504,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Reason::BadRequest => "BadRequest",
            Reason::Unauthorized => "Unauthorized",
            Reason::Forbidden => "Forbidden",
            Reason::NotFound | Reason::NoSuchPath => "NotFound",
            Reason::MethodNotAllowed => "MethodNotAllowed",
            Reason::NotAcceptable => "NotAcceptable",
            Reason::AlreadyExists => "AlreadyExists",
            Reason::Conflict => "Conflict",
            Reason::Gone => "Gone",
            Reason::Expired => "Expired",
            Reason::RequestEntityTooLarge => "RequestEntityTooLarge",
            Reason::UnsupportedMediaType => "UnsupportedMediaType",
            Reason::Invalid => "Invalid",
            Reason::TooManyRequests => "TooManyRequests",
            Reason::InternalError => "InternalError",
            Reason::ServiceUnavailable => "ServiceUnavailable",
            Reason::Timeout => "Timeout",
            Reason::Unclassified => "",
        }
    }
}

/// The object of a `Status`. `kind` holds the plural resource name where Kubernetes puts that there.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Details {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) uid: String,
    pub(crate) causes: Vec<Value>,
    pub(crate) retry_after_seconds: u32,
}

impl Details {
    pub(crate) fn to_value(&self) -> Value {
        let mut out = Map::new();
        for (key, text) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)] {
            if !text.is_empty() {
                out.insert(key.to_owned(), json!(text));
            }
        }
        if !self.causes.is_empty() {
            out.insert("causes".to_owned(), json!(self.causes));
        }
        if self.retry_after_seconds > 0 {
            out.insert("retryAfterSeconds".to_owned(), json!(self.retry_after_seconds));
        }
        Value::Object(out)
    }
}

/// A refused request.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    pub(crate) reason: Reason,
    pub(crate) message: String,
    pub(crate) details: Option<Details>,
}

impl ApiError {
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), details: None }
    }

    fn about(reason: Reason, group: &str, resource: &str, name: &str, message: String) -> Self {
        let details =
            Details { name: name.to_owned(), group: group.to_owned(), kind: resource.to_owned(), ..Details::default() };
        Self { reason, message, details: Some(details) }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Reason::BadRequest, message)
    }

    pub(crate) fn unclassified(message: impl Into<String>) -> Self {
        Self::new(Reason::Unclassified, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        let causes = vec![json!({"message": message})];
        Self {
            reason: Reason::InternalError,
            message: format!("Internal error occurred: {message}"),
            details: Some(Details { causes, ..Details::default() }),
        }
    }

    pub(crate) fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {name:?} not found", qualified(group, resource));
        Self::about(Reason::NotFound, group, resource, name, message)
    }

    pub(crate) fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", qualified(group, resource));
        Self::about(Reason::AlreadyExists, group, resource, name, message)
    }

    /// The name is still held by an object that is on its way out.
    pub(crate) fn being_deleted(group: &str, resource: &str, name: &str) -> Self {
        let mut error = Self::already_exists(group, resource, name);
        error.message = format!("object is being deleted: {}", error.message);
        error
    }

    pub(crate) fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", qualified(group, resource));
        Self::about(Reason::Conflict, group, resource, name, message)
    }

    pub(crate) fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let resource_text = qualified(group, resource);
        let message = match (resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{resource_text} is forbidden: {why}"),
            (false, false) => format!("{resource_text} {name:?} is forbidden: {why}"),
        };
        Self::about(Reason::Forbidden, group, resource, name, message)
    }

    /// `kind` is the kind here, not the resource, as Kubernetes has it for this one reason.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, findings: &[FieldError]) -> Self {
        let texts: Vec<String> = dedup(findings.iter().map(ToString::to_string));
        let list = if texts.len() == 1 { texts[0].clone() } else { format!("[{}]", texts.join(", ")) };
        let message = format!("{} {name:?} is invalid: {list}", qualified(group, kind));
        let mut error = Self::about(Reason::Invalid, group, kind, name, message);
        if let Some(details) = &mut error.details {
            details.causes = findings.iter().map(FieldError::to_cause).collect();
        }
        error
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(Reason::Expired, message)
    }

    pub(crate) fn code(&self) -> u16 {
        self.reason.code()
    }

    /// The `Status` object of the answer.
    pub(crate) fn to_status(&self) -> Value {
        let mut out = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code(),
        });
        if self.reason != Reason::Unclassified {
            out["reason"] = self.reason.as_str().into();
        }
        if let (Some(details), Some(object)) = (&self.details, out.as_object_mut()) {
            object.insert("details".to_owned(), details.to_value());
        }
        out
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn dedup(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut known = BTreeSet::new();
    texts.filter(|text| known.insert(text.clone())).collect()
}
