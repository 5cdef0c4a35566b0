//! The named formats of the Kubernetes library: `format.dns1123Label().validate(name)`.

use std::sync::LazyLock;

use k8s_values::validation;
use regex::Regex;

use super::super::eval::Evaluation;
use super::super::value::{Evaluated, Val};
use super::time::parse_timestamp;
use crate::schema::go_regex;

/// What is wrong with a text, or nothing.
type Check = fn(&str) -> Vec<String>;

const FORMATS: [(&str, Check); 13] = [
    ("dns1123Label", validation::dns1123_label),
    ("dns1123Subdomain", validation::dns1123_subdomain),
    ("dns1035Label", validation::dns1035_label),
    ("dns1123LabelPrefix", |text| validation::dns1123_label(&validation::masked_prefix(text))),
    ("dns1123SubdomainPrefix", |text| validation::dns1123_subdomain(&validation::masked_prefix(text))),
    ("dns1035LabelPrefix", |text| validation::dns1035_label(&validation::masked_prefix(text))),
    ("qualifiedName", validation::qualified_name),
    ("labelValue", validation::label_value),
    ("uuid", |text| unless(matches(&UUID, text), "does not match the UUID format")),
    ("byte", |text| unless(matches(&BASE64, text), "invalid base64")),
    ("uri", |text| unless(text.starts_with('/') || text.contains(":/"), "invalid uri")),
    ("date", |text| unless(parse_timestamp(&format!("{text}T00:00:00Z")).is_some(), "invalid date")),
    ("datetime", |text| unless(parse_timestamp(text).is_some(), "invalid datetime")),
];

static UUID: LazyLock<Option<Regex>> =
    LazyLock::new(|| go_regex("^(?i:[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})$").ok());
static BASE64: LazyLock<Option<Regex>> =
    LazyLock::new(|| go_regex("^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$").ok());

fn matches(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

fn unless(is_valid: bool, message: &str) -> Vec<String> {
    if is_valid { Vec::new() } else { vec![message.to_owned()] }
}

fn named(name: &str) -> Option<&'static str> {
    FORMATS.iter().map(|(known, _)| *known).find(|known| *known == name)
}

fn faults(format: &str, text: &str) -> Vec<String> {
    FORMATS.iter().find(|(name, _)| *name == format).map(|(_, check)| check(text)).unwrap_or_default()
}

pub(super) fn call<'a>(evaluation: &mut Evaluation<'a>, name: &str, args: &[Val<'a>]) -> Option<Evaluated<'a>> {
    Some(Ok(match (name, args) {
        ("format.named", [Val::Text(name)]) => {
            named(name).map_or(Val::Optional(None), |name| Val::some(Val::Format(name)))
        }
        ("validate", [Val::Format(format), Val::Text(text)]) => {
            if let Err(fault) = evaluation.charge_walk(text.len()) {
                return Some(Err(fault));
            }
            let faults = faults(format, text);
            if faults.is_empty() {
                Val::Optional(None)
            } else {
                Val::some(Val::list(faults.into_iter().map(Val::text).collect()))
            }
        }
        (name, []) => Val::Format(named(name.strip_prefix("format.")?)?),
        _ => return None,
    }))
}

#[test]
fn names_are_validated_by_format() {
    for (format, good, bad) in [
        ("dns1123Label", "a-b", "a.b"),
        ("dns1123Subdomain", "a.b", "A"),
        ("dns1035Label", "a1", "1a"),
        ("dns1123LabelPrefix", "a-", "-a"),
        ("qualifiedName", "example.com/Name", "Bad_/x"),
        ("labelValue", "", "-"),
        ("date", "2024-01-31", "2024-02-30"),
        ("datetime", "2024-01-31T00:00:00Z", "2024"),
        ("uri", "https://a", "a"),
        ("byte", "YQ==", "a"),
    ] {
        assert!(faults(format, good).is_empty(), "{format} {good}");
        assert!(!faults(format, bad).is_empty(), "{format} {bad}");
    }
}
