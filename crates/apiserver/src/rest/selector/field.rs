//! Field selectors: `metadata.name=a,status.phase!=Running`. Values come from the stored object.

use serde_json::Value;

use crate::error::ApiError;
use crate::registry::{FieldSource, ResourceInfo, Version};

/// All terms must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<Term>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: String,
    value: String,
    equal: bool,
}

/// Terms are separated by commas; a backslash takes the next character literally.
pub fn parse(text: &str) -> Result<FieldSelector, String> {
    let mut terms = Vec::new();
    for part in split_terms(text).into_iter().filter(|p| !p.is_empty()) {
        let term = parse_term(&part)
            .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{part}'"))?
            .map_err(|why| format!("invalid field selector: {why}"))?;
        if !term.value.is_empty() || !term.field.is_empty() {
            terms.push(term);
        }
    }
    Ok(FieldSelector(terms))
}

fn split_terms(text: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            out.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        if let Some(last) = out.last_mut() {
            last.push(c);
        }
    }
    out
}

fn parse_term(part: &str) -> Option<Result<Term, String>> {
    let at = operator_position(part)?;
    let (field, rest) = part.split_at(at);
    let (equal, value) = match rest {
        r if r.starts_with("!=") => (false, &r[2..]),
        r if r.starts_with("==") => (true, &r[2..]),
        r => (true, &r[1..]),
    };
    Some(unescape(value).map(|value| Term { field: field.to_owned(), value, equal }))
}

fn operator_position(part: &str) -> Option<usize> {
    let bytes = part.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'=' => return Some(at),
            b'!' if bytes.get(at + 1) == Some(&b'=') => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some(next @ ('\\' | ',' | '=')) => out.push(next),
                Some(next) => return Err(format!("invalid escape sequence: \\{next}")),
                None => return Err("invalid escape sequence: \\".to_owned()),
            },
            ',' | '=' => return Err(format!("unescaped character in value: {}", u32::from(c))),
            _ => out.push(c),
        }
    }
    Ok(out)
}

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

impl FieldSelector {
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// The name that every match must have, if the selector demands one.
    pub fn exact_name(&self) -> Option<&str> {
        self.0.iter().find(|t| t.equal && t.field == NAME).map(|t| t.value.as_str())
    }

    pub(super) fn needs_object(&self) -> bool {
        self.0.iter().any(|t| t.field != NAME && t.field != NAMESPACE)
    }

    /// Refuses fields that the resource does not offer.
    pub(super) fn check(&self, info: &ResourceInfo, version: &Version) -> Result<(), ApiError> {
        for term in &self.0 {
            let field = &term.field;
            let known = field == NAME
                || (field == NAMESPACE && (info.namespaced || !info.is_custom()))
                || version.selectable.iter().any(|s| s.label == *field);
            if !known {
                return Err(ApiError::bad_request(refusal(field, info, version)));
            }
        }
        Ok(())
    }

    pub(super) fn matches(&self, namespace: &str, name: &str, version: &Version, object: &Value) -> bool {
        self.0.iter().all(|term| {
            let same = match term.field.as_str() {
                NAME => name == term.value,
                NAMESPACE => namespace == term.value,
                field => {
                    let source = version.selectable.iter().find(|s| s.label == field).map(|s| &s.source);
                    source.is_some_and(|source| value_of(source, object) == term.value)
                }
            };
            same == term.equal
        })
    }
}

fn refusal(field: &str, info: &ResourceInfo, version: &Version) -> String {
    if (info.group.as_str(), info.kind.as_str()) == ("batch", "Job") {
        return format!("field label {field:?} not supported for Job");
    }
    if !info.is_custom() && info.behaviour.default_field_selectors && version.selectable.is_empty() {
        return format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
    }
    format!("field label not supported: {field}")
}

fn value_of(source: &FieldSource, object: &Value) -> String {
    match source {
        FieldSource::Compute(compute) => compute(object),
        FieldSource::Path(path) => {
            let value = path.iter().try_fold(object, |value, key| value.get(key));
            match value {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::SelectableField;
    use crate::schema::Node;
    use serde_json::json;

    fn version() -> Version {
        let field = |label: &str| SelectableField {
            label: label.to_owned(),
            source: FieldSource::Path(label.split('.').map(str::to_owned).collect()),
        };
        let mut version = Version::new("v1", Node::default());
        version.selectable = vec![field("status.phase"), field("spec.on")];
        version
    }

    #[test]
    fn terms_match_by_name_namespace_and_declared_fields() {
        let object = json!({"status": {"phase": "Running"}, "spec": {"on": true}});
        let matches = |text: &str| parse(text).unwrap().matches("ns", "a", &version(), &object);
        assert!(matches("metadata.name=a,metadata.namespace==ns,status.phase=Running,spec.on=true"));
        assert!(!matches("metadata.name!=a") && matches("metadata.name!=b") && !matches("status.phase!=Running"));
        assert!(matches("") && matches(",") && !matches("metadata.name=a\\,b"));
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        assert_eq!(parse("foo").unwrap_err(), "invalid selector: 'foo'; can't understand 'foo'");
        assert_eq!(parse("a=b=c").unwrap_err(), "invalid field selector: unescaped character in value: 61");
    }

    #[test]
    fn undeclared_fields_are_refused() {
        let plain = ResourceInfo::built_in("", Version::new("v1", Node::default()), "ConfigMap", "configmaps");
        let text =
            |info: &ResourceInfo, version: &Version| parse("x=y").unwrap().check(info, version).unwrap_err().message;
        assert_eq!(
            text(&plain, &plain.versions[0]),
            r#""x" is not a known field selector: only "metadata.name", "metadata.namespace""#
        );
        assert_eq!(text(&plain, &version()), "field label not supported: x");
        assert_eq!(parse("metadata.name=q").unwrap().exact_name(), Some("q"));
    }
}
