//! Errors of requests to an API server, and how to react to them: reconcile again at once, back off, or give up.

use crate::key::{ObjectKey, Revision};
use crate::kind::KindId;

/// A failed request or an unusable object.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {verb} {kind} {key}")]
    Request { verb: &'static str, kind: KindId, key: ObjectKey, source: Box<kube::Error> },
    #[error("cannot {verb} {kind} {key}: no answer within {seconds} s")]
    Timeout { verb: &'static str, kind: KindId, key: ObjectKey, seconds: u64 },
    #[error("{kind} {key} cannot be read")]
    Unreadable { kind: KindId, key: ObjectKey, source: serde_json::Error },
    #[error("cannot list {kind}: the answer has revision {revision}, and the server has shown {reached}")]
    Stale { kind: KindId, revision: Revision, reached: Revision },
    #[error("the watch of {kind} has not reached revision {revision} yet")]
    Behind { kind: KindId, revision: Revision },
    #[error("{kind} {key} has changed since it was observed")]
    Outdated { kind: KindId, key: ObjectKey },
    #[error("{kind} {key} cannot be written as JSON: {problem}")]
    Unwritable { kind: KindId, key: ObjectKey, problem: String },
    #[error("controller {controller} may not write {} of {kind} {key}", .fields.join(", "))]
    NotOwned { controller: &'static str, kind: KindId, key: ObjectKey, fields: Vec<String> },
    #[error("this process no longer holds the lease")]
    NotLeading,
    /// For controllers: fetched content that is inconsistent.
    #[error("{0}")]
    Other(String),
}

impl Error {
    /// The server's Status, if it answered.
    pub fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Request { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            _ => None,
        }
    }

    /// A message for users: the server's message, or the error with its causes.
    pub fn answer(&self) -> String {
        self.status().map_or_else(|| self.with_causes(), |status| status.message.clone())
    }

    /// Another client changed the object since it was read, or created it first.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Outdated { .. }) || self.status().is_some_and(|status| status.code == 409)
    }

    /// The object does not exist. An unknown kind also answers 404, but that answer does not name an object.
    pub fn is_not_found(&self) -> bool {
        let status = self.status().filter(|status| status.code == 404);
        status.and_then(|status| status.details.as_ref()).is_some_and(|details| !details.name.is_empty())
    }

    /// The server rejected the request, and would reject the same request again.
    pub fn is_rejection(&self) -> bool {
        self.status().is_some_and(|status| matches!(status.code, 400 | 403 | 405 | 413 | 415 | 422))
    }

    /// Whether the request was refused because its namespace is being deleted. The server answers 403, but no right is missing.
    fn is_in_terminating_namespace(&self) -> bool {
        let causes = self.status().and_then(|status| status.details.as_ref()).map(|details| &details.causes);
        causes.into_iter().flatten().any(|cause| cause.reason == NAMESPACE_TERMINATING)
    }

    /// Whether the server may have executed the request: there was no answer, or a 5xx.
    pub fn may_have_succeeded(&self) -> bool {
        match (self, self.status()) {
            (Self::Request { .. }, Some(status)) => status.code >= 500,
            (Self::Request { .. }, None) | (Self::Timeout { .. }, _) => true,
            _ => false,
        }
    }

    /// The error and its causes in one line, for logs.
    pub fn with_causes(&self) -> String {
        with_causes(self)
    }

    /// The label value in metrics.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Timeout { .. } => "timeout",
            Self::Unreadable { .. } | Self::Unwritable { .. } => "content",
            Self::Stale { .. } | Self::Behind { .. } => "stale",
            Self::Outdated { .. } => "conflict",
            Self::NotOwned { .. } => "not_owned",
            Self::NotLeading => "not_leading",
            Self::Other(_) => "other",
            Self::Request { .. } if self.is_in_terminating_namespace() => "terminating",
            Self::Request { .. } => match self.status().map(|status| status.code) {
                Some(409) => "conflict",
                Some(404) => "not_found",
                Some(429) => "throttled",
                Some(400..=499) => "refused",
                Some(_) => "server",
                None => "connection",
            },
        }
    }
}

/// The cause that an API server gives for refusing objects in a namespace that is being deleted.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// The message of a panic.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)")
}

/// An error and its causes in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16, reason: &str) -> Error {
        let details = serde_json::from_value(serde_json::json!({"name": "a"})).unwrap();
        answered_with(kube::core::Status::failure("no", reason).with_code(code).with_details(details))
    }

    fn answered_with(status: kube::core::Status) -> Error {
        let (kind, key) = (KindId::new("", "v1", "ConfigMap", "configmaps"), ObjectKey::namespaced("ns", "a"));
        Error::Request { verb: "patch", kind, key, source: Box::new(kube::Error::Api(Box::new(status))) }
    }

    #[test]
    fn a_status_code_decides_between_conflict_backoff_and_rejection() {
        let facts = |error: &Error| (error.class(), error.is_conflict(), error.is_not_found(), error.is_rejection());
        assert_eq!(facts(&answered(409, "Conflict")), ("conflict", true, false, false));
        assert_eq!(facts(&answered(409, "AlreadyExists")), ("conflict", true, false, false));
        assert_eq!(facts(&answered(404, "NotFound")), ("not_found", false, true, false));
        let unknown_kind = answered_with(kube::core::Status::failure("no", "NotFound").with_code(404));
        assert_eq!(facts(&unknown_kind), ("not_found", false, false, false));
        assert_eq!(facts(&answered(422, "Invalid")), ("refused", false, false, true));
        assert_eq!(facts(&answered(429, "TooManyRequests")), ("throttled", false, false, false));
        assert_eq!(facts(&answered(503, "ServiceUnavailable")), ("server", false, false, false));
        let lost = kube::Error::Service("connection reset".into());
        let (kind, key) = (KindId::new("", "v1", "Pod", "pods"), ObjectKey::namespaced("ns", "a"));
        let lost = Error::Request { verb: "get", kind, key, source: Box::new(lost) };
        assert_eq!(facts(&lost), ("connection", false, false, false));
    }

    #[test]
    fn a_refusal_in_a_namespace_that_is_being_deleted_is_no_missing_right() {
        let with_cause = |cause: &str| {
            let body = serde_json::json!({"status": "Failure", "message": "no", "reason": "Forbidden", "code": 403,
                "details": {"causes": [{"reason": cause}]}});
            let status: kube::core::Status = serde_json::from_value(body).unwrap();
            let (kind, key) = (KindId::new("", "v1", "ConfigMap", "configmaps"), ObjectKey::namespaced("ns", "a"));
            Error::Request { verb: "create", kind, key, source: Box::new(kube::Error::Api(Box::new(status))) }
        };
        assert_eq!(with_cause("NamespaceTerminating").class(), "terminating");
        assert!(with_cause("NamespaceTerminating").is_rejection(), "the same request is refused again");
        assert_eq!(with_cause("Other").class(), "refused");
    }

    #[test]
    fn a_log_line_has_the_object_and_every_cause() {
        let text = answered(422, "Invalid").with_causes();
        assert!(text.starts_with("cannot patch configmaps ns/a: ") && text.contains("no: Invalid"), "{text}");
    }
}
