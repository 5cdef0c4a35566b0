//! The answer to an admission request.
//!
//! Decides its form only: allowed, perhaps with a changed object, or denied with a code and a message.

use serde_json::Value;

/// What became of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Allowed {
        message: String,
        /// The object to store instead of the one that was sent.
        patched: Option<Value>,
    },
    Denied {
        code: Code,
        message: String,
    },
}

/// HTTP status of a denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// The object or a lookup it needs could not be read.
    BadRequest,
    Forbidden,
    /// A lookup failed for reasons that have nothing to do with the request.
    Internal,
}

impl Code {
    pub fn number(self) -> u16 {
        match self {
            Code::BadRequest => 400,
            Code::Forbidden => 403,
            Code::Internal => 500,
        }
    }
}

impl Verdict {
    pub fn allowed(message: impl Into<String>) -> Self {
        Verdict::Allowed { message: message.into(), patched: None }
    }

    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::denied(Code::Forbidden, message)
    }

    pub fn denied(code: Code, message: impl Into<String>) -> Self {
        Verdict::Denied { code, message: message.into() }
    }

    pub fn is_allowed(&self) -> bool {
        matches!(self, Verdict::Allowed { .. })
    }

    pub fn message(&self) -> &str {
        match self {
            Verdict::Allowed { message, .. } | Verdict::Denied { message, .. } => message,
        }
    }

    /// A denial as the user of an API server reads it, who also learns which webhook entry it came from.
    #[must_use]
    pub fn from_entry(self, entry: &str) -> Self {
        match self {
            Verdict::Denied { code, message } => {
                Self::denied(code, format!("admission webhook \"{entry}\" denied the request: {message}"))
            }
            allowed @ Verdict::Allowed { .. } => allowed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denials_name_their_entry_and_permissions_do_not() {
        let denied = Verdict::denied(Code::Internal, "no").from_entry("fleet.pod.validating");
        assert_eq!(denied.message(), r#"admission webhook "fleet.pod.validating" denied the request: no"#);
        assert!(!denied.is_allowed());
        assert_eq!(Verdict::allowed("yes").from_entry("x"), Verdict::allowed("yes"));
    }

    #[test]
    fn codes_are_those_of_http() {
        assert_eq!([Code::BadRequest, Code::Forbidden, Code::Internal].map(Code::number), [400, 403, 500]);
    }
}
