//! Collects validation errors, and the checks that many kinds share.

use k8s_values::selector::{Selector, SelectorError};
use k8s_values::{go, validation};
use serde_json::{Value, json};

use crate::builtin::values::{at, list, text, texts};
use crate::field::FieldError;

/// Gives the messages for a text that breaks a rule.
pub(super) type NameCheck = fn(&str) -> Vec<String>;

#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) Vec<FieldError>);

pub(super) const IMMUTABLE: &str = "field is immutable";
const NEGATIVE: &str = "must be greater than or equal to 0";

impl Findings {
    pub(super) fn required(&mut self, path: impl Into<String>, detail: &str) {
        self.0.push(FieldError::required(path, detail));
    }

    pub(super) fn forbidden(&mut self, path: impl Into<String>, detail: impl Into<String>) {
        self.0.push(FieldError::forbidden(path, detail));
    }

    pub(super) fn invalid(&mut self, path: impl Into<String>, value: &Value, detail: impl Into<String>) {
        let error = FieldError::invalid(path, value, detail);
        self.0.push(match printed_selector(value) {
            Some(selector) => FieldError { value: Some(selector), ..error },
            None => error,
        });
    }

    pub(super) fn duplicate(&mut self, path: impl Into<String>, value: &Value) {
        self.0.push(FieldError::duplicate(path, value));
    }

    pub(super) fn not_supported(&mut self, path: impl Into<String>, value: &Value, supported: &[&str]) {
        self.0.push(FieldError::not_supported(path, value, supported));
    }

    pub(super) fn push(&mut self, error: FieldError) {
        self.0.push(error);
    }

    /// One finding per message.
    pub(super) fn messages(&mut self, path: &str, value: &str, messages: Vec<String>) {
        for message in messages {
            self.invalid(path, &json!(value), message);
        }
    }

    /// A text that must be there and follow a rule.
    pub(super) fn named(&mut self, path: &str, value: &str, rule: NameCheck) {
        if value.is_empty() {
            self.required(path, "");
        } else {
            self.messages(path, value, rule(value));
        }
    }

    /// A domain, a slash, and a path, as `acme.io/foo`.
    pub(super) fn domain_path(&mut self, path: &str, value: &str) {
        if value.is_empty() {
            self.required(path, "");
            return;
        }
        let Some((domain, rest)) =
            value.split_once('/').filter(|(domain, rest)| !domain.is_empty() && !rest.is_empty())
        else {
            self.invalid(path, &json!(value), "must be a domain-prefixed path (such as \"acme.io/foo\")");
            return;
        };
        self.messages(path, domain, validation::dns1123_subdomain(domain));
        if !rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)) {
            let why = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
            self.invalid(path, &json!(rest), why);
        }
    }

    /// One of a few words; absence is a finding of its own.
    pub(super) fn one_of(&mut self, path: impl Into<String>, value: &Value, supported: &[&str]) {
        let path = path.into();
        match value.as_str().unwrap_or_default() {
            "" => self.required(path, ""),
            word if supported.contains(&word) => {}
            _ => self.not_supported(path, value, supported),
        }
    }

    /// As `one_of`, where absence is fine.
    pub(super) fn maybe_one_of(&mut self, path: impl Into<String>, value: &Value, supported: &[&str]) {
        if !value.is_null() && !value.as_str().is_some_and(|word| supported.contains(&word)) {
            self.not_supported(path, value, supported);
        }
    }

    /// Numbers that count something. `fields` are children of `path` in `object`.
    pub(super) fn not_negative(&mut self, object: &Value, path: &str, fields: &[&str]) {
        for field in fields {
            let value = at(object, field);
            if value.as_i64().is_some_and(|number| number < 0) {
                self.invalid(child(path, field), value, NEGATIVE);
            }
        }
    }

    /// Fields that no update may change. `fields` are children of `path` in both objects.
    pub(super) fn immutable(&mut self, new: &Value, old: &Value, path: &str, fields: &[&str]) {
        for field in fields {
            if at(new, field) != at(old, field) {
                self.invalid(child(path, field), at(new, field), IMMUTABLE);
            }
        }
    }

    /// A whole number that is not negative, or a percentage.
    pub(super) fn amount_or_percent(&mut self, path: &str, value: &Value) {
        if let Some(text) = value.as_str() {
            for message in validation::percent(text) {
                self.invalid(path, value, message);
            }
        } else if value.as_i64().is_some_and(|number| number < 0) {
            self.invalid(path, value, NEGATIVE);
        }
    }

    pub(super) fn at_most_hundred_percent(&mut self, path: &str, value: &Value) {
        if value.as_str().is_some_and(|text| validation::percent(text).is_empty() && amount(value) > 100) {
            self.invalid(path, value, "must not be greater than 100%");
        }
    }

    /// Labels of an object or of a selector.
    pub(super) fn labels(&mut self, object: &Value, field: &str, path: &str) {
        for (key, value) in texts(object, field) {
            self.messages(path, key, validation::qualified_name(key));
            self.messages(path, value, validation::label_value(value));
        }
    }

    /// A label selector (`matchLabels`, `matchExpressions`).
    pub(super) fn label_selector(&mut self, selector: &Value, path: &str) {
        self.labels(selector, "matchLabels", &format!("{path}.matchLabels"));
        for (index, requirement) in list(selector, "matchExpressions").iter().enumerate() {
            let path = format!("{path}.matchExpressions[{index}]");
            self.operator(requirement, &["In", "NotIn", "Exists", "DoesNotExist"], &path);
            self.key_and_values(requirement, true, &path);
        }
    }

    /// The operator of a requirement, and whether it has as many values as that needs.
    pub(super) fn operator(&mut self, requirement: &Value, known: &[&str], path: &str) {
        let (operator, values) = (text(requirement, "operator"), list(requirement, "values"));
        let place = child(path, "values");
        match operator {
            other if !known.contains(&other) => {
                self.invalid(child(path, "operator"), &json!(other), "not a valid selector operator");
            }
            "In" | "NotIn" if values.is_empty() => {
                self.required(place, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                self.forbidden(place, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "Gt" | "Lt" if values.len() != 1 => {
                self.required(place, "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
            _ => {}
        }
    }

    /// The key of a requirement, and its values unless any may be listed.
    pub(super) fn key_and_values(&mut self, requirement: &Value, check_values: bool, path: &str) {
        let key = text(requirement, "key");
        self.messages(&child(path, "key"), key, validation::qualified_name(key));
        for (index, value) in list(requirement, "values").iter().enumerate().filter(|_| check_values) {
            let value = value.as_str().unwrap_or_default();
            self.messages(&format!("{path}.values[{index}]"), value, validation::label_value(value));
        }
    }
}

/// A label selector with both of its fields as Go prints it, in the order of the struct; `None` for other values, whose
/// fields are printed in alphabetical order.
fn printed_selector(value: &Value) -> Option<String> {
    let labels = value.get("matchLabels").filter(|labels| labels.is_object())?;
    let expressions = value.get("matchExpressions").filter(|expressions| expressions.is_array())?;
    Some(format!(r#"{{"matchLabels":{},"matchExpressions":{}}}"#, go::json(labels), go::json(expressions)))
}

/// `path.field`, or `field` at the top.
pub(super) fn child(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// The number in an int-or-percent.
pub(super) fn amount(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.trim_end_matches('%').parse().unwrap_or_default(),
        other => other.as_i64().unwrap_or_default(),
    }
}

/// Whether a label selector matches labels; an error if it is invalid.
pub(super) fn selects(selector: &Value, labels: &Value) -> Result<bool, SelectorError> {
    let matches = |selector: Selector| selector.matches_by(|key| labels.get(key).and_then(Value::as_str));
    Selector::of_value(selector).map(matches)
}

/// Whether a label selector has no requirement at all.
pub(super) fn is_empty_selector(selector: &Value) -> bool {
    crate::builtin::values::map(selector, "matchLabels").is_empty() && list(selector, "matchExpressions").is_empty()
}
