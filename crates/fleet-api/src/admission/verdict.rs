//! The answer to an admission request: allowed, perhaps with a changed object, or denied with a code and a message.

use serde_json::Value;

use super::findings::Findings;

#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Allowed {
        message: String,
        /// The object to store instead of the received one.
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
    /// The object, or the result of a lookup, could not be read.
    BadRequest,
    Forbidden,
    /// A lookup failed for reasons unrelated to the request.
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

    /// Denies if there are findings; otherwise allows with the message `fine`.
    pub fn from_findings(findings: &Findings, fine: &str) -> Self {
        if findings.is_empty() { Self::allowed(fine) } else { Self::forbidden(findings.to_string()) }
    }

    pub fn is_allowed(&self) -> bool {
        matches!(self, Verdict::Allowed { .. })
    }

    pub fn message(&self) -> &str {
        match self {
            Verdict::Allowed { message, .. } | Verdict::Denied { message, .. } => message,
        }
    }

    /// A denial as an API server shows it, with the webhook entry.
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
    fn findings_are_a_refusal() {
        assert_eq!(Verdict::from_findings(&Findings::none(), "fine"), Verdict::allowed("fine"));
        let refused = Verdict::from_findings(&["a", "b"].into_iter().collect(), "fine");
        assert_eq!(refused, Verdict::forbidden("[a, b]"));
    }

    #[test]
    fn codes_are_those_of_http() {
        assert_eq!([Code::BadRequest, Code::Forbidden, Code::Internal].map(Code::number), [400, 403, 500]);
    }
}
