//! Validation errors of one field, with Kubernetes' wording and machine-readable cause.

use std::fmt;

use k8s_values::go;
use serde_json::{Value, json};

/// Why a field was refused. The names are the `reason` of a `StatusCause`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    TypeInvalid,
    Internal,
}

impl Fault {
    /// The `reason` of a `StatusCause`.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Fault::NotFound => "FieldValueNotFound",
            Fault::Required => "FieldValueRequired",
            Fault::Duplicate => "FieldValueDuplicate",
            Fault::Invalid => "FieldValueInvalid",
            Fault::NotSupported => "FieldValueNotSupported",
            Fault::Forbidden => "FieldValueForbidden",
            Fault::TooLong => "FieldValueTooLong",
            Fault::TooMany => "FieldValueTooMany",
            Fault::TypeInvalid => "FieldValueTypeInvalid",
            Fault::Internal => "InternalError",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Fault::NotFound => "Not found",
            Fault::Required => "Required value",
            Fault::Duplicate => "Duplicate value",
            Fault::Invalid | Fault::TypeInvalid => "Invalid value",
            Fault::NotSupported => "Unsupported value",
            Fault::Forbidden => "Forbidden",
            Fault::TooLong => "Too long",
            Fault::TooMany => "Too many",
            Fault::Internal => "Internal error",
        }
    }
}

/// One finding: where, what kind, which value, and the reason in words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldError {
    pub(crate) fault: Fault,
    /// Dotted path with `[0]` for list items and `[key]` for map entries, as `spec.containers[0].image`.
    pub(crate) path: String,
    /// The offending value as it is printed; `None` for faults that print none.
    pub(crate) value: Option<String>,
    pub(crate) detail: String,
}

impl FieldError {
    pub(crate) fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { fault: Fault::Required, path: path.into(), value: None, detail: detail.into() }
    }

    pub(crate) fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { fault: Fault::Forbidden, path: path.into(), value: None, detail: detail.into() }
    }

    pub(crate) fn invalid(path: impl Into<String>, value: &Value, detail: impl Into<String>) -> Self {
        Self { fault: Fault::Invalid, path: path.into(), value: Some(printed(value)), detail: detail.into() }
    }

    pub(crate) fn type_invalid(path: impl Into<String>, value: &Value, detail: impl Into<String>) -> Self {
        Self { fault: Fault::TypeInvalid, path: path.into(), value: Some(printed(value)), detail: detail.into() }
    }

    pub(crate) fn duplicate(path: impl Into<String>, value: &Value) -> Self {
        Self { fault: Fault::Duplicate, path: path.into(), value: Some(printed(value)), detail: String::new() }
    }

    pub(crate) fn not_found(path: impl Into<String>, value: &Value) -> Self {
        Self { fault: Fault::NotFound, path: path.into(), value: Some(printed(value)), detail: String::new() }
    }

    /// `supported` is printed in the given order, each value quoted.
    pub(crate) fn not_supported<S: AsRef<str>>(path: impl Into<String>, value: &Value, supported: &[S]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|s| format!("{:?}", s.as_ref())).collect();
        let detail = if quoted.is_empty() { String::new() } else { format!("supported values: {}", quoted.join(", ")) };
        Self { fault: Fault::NotSupported, path: path.into(), value: Some(printed(value)), detail }
    }

    pub(crate) fn too_long(path: impl Into<String>, maximum: usize) -> Self {
        let unit = if maximum == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {maximum} {unit}");
        Self { fault: Fault::TooLong, path: path.into(), value: None, detail }
    }

    pub(crate) fn too_many(path: impl Into<String>, actual: usize, maximum: usize) -> Self {
        let unit = if maximum == 1 { "item" } else { "items" };
        let detail = format!("must have at most {maximum} {unit}");
        Self { fault: Fault::TooMany, path: path.into(), value: Some(actual.to_string()), detail }
    }

    /// The finding without its path: the `message` of a `StatusCause`.
    pub(crate) fn body(&self) -> String {
        let mut out = self.fault.text().to_owned();
        if let Some(value) = &self.value {
            out.push_str(": ");
            out.push_str(value);
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }

    pub(crate) fn to_cause(&self) -> Value {
        json!({"reason": self.fault.reason(), "message": self.body(), "field": self.path})
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

/// A value as Kubernetes prints it inside a message: strings quoted, scalars bare, null as `null`, the rest as JSON.
pub(crate) fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => go::quoted(text),
        other => go::json(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_printed_as_go_prints_them() {
        assert_eq!(printed(&json!("a\u{7}\u{1}\"\u{85}ü'")), r#""a\a\x01\"\u0085ü'""#);
        assert_eq!(printed(&json!({"a": "<b> & c", "n": [1, null]})), r#"{"a":"\u003cb\u003e \u0026 c","n":[1,null]}"#);
    }
}
