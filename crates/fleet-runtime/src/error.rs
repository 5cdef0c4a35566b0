//! What can go wrong between this process and an API server.
//!
//! Decides which failures are conflicts (plan again at once), which mean "not there", and which are waited out.

use crate::key::ObjectKey;
use crate::kind::KindId;

/// A request that did not succeed, or an object that could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {verb} {kind} {key}")]
    Request { verb: &'static str, kind: KindId, key: ObjectKey, source: Box<kube::Error> },
    #[error("cannot {verb} {kind} {key}: no answer within {seconds} s")]
    Timeout { verb: &'static str, kind: KindId, key: ObjectKey, seconds: u64 },
    #[error("{kind} {key} cannot be read")]
    Unreadable { kind: KindId, key: ObjectKey, source: serde_json::Error },
    #[error("{kind} {key} cannot be written as JSON: {problem}")]
    Unwritable { kind: KindId, key: ObjectKey, problem: String },
    #[error("controller {controller} may not write {} of {kind} {key}", .fields.join(", "))]
    NotOwned { controller: &'static str, kind: KindId, key: ObjectKey, fields: Vec<String> },
    #[error("this process does not lead any more")]
    NotLeading,
    /// For controllers: a content that was fetched and does not fit.
    #[error("{0}")]
    Other(String),
}

impl Error {
    /// The server's own words, if it answered at all.
    pub fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Request { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            _ => None,
        }
    }

    /// What to tell people: the server's own words, or else what happened instead of an answer.
    pub fn answer(&self) -> String {
        self.status().map_or_else(|| self.with_causes(), |status| status.message.clone())
    }

    /// Somebody else wrote in between: the object has another version than the one the write was based on, or exists
    /// already.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.code == 409)
    }

    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    /// The server understood and refuses: the same request will be refused again.
    pub fn is_refusal(&self) -> bool {
        self.status().is_some_and(|status| matches!(status.code, 400 | 403 | 405 | 413 | 415 | 422))
    }

    /// Nobody knows whether the request took place: there is no answer, or one of a server in trouble.
    pub fn may_have_happened(&self) -> bool {
        match (self, self.status()) {
            (Self::Request { .. }, Some(status)) => status.code >= 500,
            (Self::Request { .. }, None) | (Self::Timeout { .. }, _) => true,
            _ => false,
        }
    }

    /// The error and what caused it, in one line for logs.
    pub fn with_causes(&self) -> String {
        with_causes(self)
    }

    /// A word for metrics.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Timeout { .. } => "timeout",
            Self::Unreadable { .. } | Self::Unwritable { .. } => "content",
            Self::NotOwned { .. } => "not_owned",
            Self::NotLeading => "not_leading",
            Self::Other(_) => "other",
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

/// What somebody said who panicked.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)")
}

/// An error and what caused it, in one line.
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
        let status = kube::core::Status::failure("no", reason).with_code(code);
        let (kind, key) = (KindId::new("", "v1", "ConfigMap", "configmaps"), ObjectKey::namespaced("ns", "a"));
        Error::Request { verb: "patch", kind, key, source: Box::new(kube::Error::Api(Box::new(status))) }
    }

    #[test]
    fn an_answer_says_whether_to_plan_again_wait_or_give_up() {
        let facts = |error: &Error| (error.class(), error.is_conflict(), error.is_not_found(), error.is_refusal());
        assert_eq!(facts(&answered(409, "Conflict")), ("conflict", true, false, false));
        assert_eq!(facts(&answered(409, "AlreadyExists")), ("conflict", true, false, false));
        assert_eq!(facts(&answered(404, "NotFound")), ("not_found", false, true, false));
        assert_eq!(facts(&answered(422, "Invalid")), ("refused", false, false, true));
        assert_eq!(facts(&answered(429, "TooManyRequests")), ("throttled", false, false, false));
        assert_eq!(facts(&answered(503, "ServiceUnavailable")), ("server", false, false, false));
        let lost = kube::Error::Service("connection reset".into());
        let (kind, key) = (KindId::new("", "v1", "Pod", "pods"), ObjectKey::namespaced("ns", "a"));
        let lost = Error::Request { verb: "get", kind, key, source: Box::new(lost) };
        assert_eq!(facts(&lost), ("connection", false, false, false));
    }

    #[test]
    fn a_log_line_has_the_object_and_every_cause() {
        let text = answered(422, "Invalid").with_causes();
        assert!(text.starts_with("cannot patch configmaps ns/a: ") && text.contains("no: Invalid"), "{text}");
    }
}
