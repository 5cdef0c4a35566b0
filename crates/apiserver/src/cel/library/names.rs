//! The named formats of the Kubernetes library: `format.dns1123Label().validate(name)`.

use std::sync::LazyLock;

use regex::Regex;

use super::super::eval::Evaluation;
use super::super::value::{Evaluated, Val};
use super::time::parse_timestamp;
use crate::schema::go_regex;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

/// Name, expression, most characters, what the text must be.
const PATTERNS: [(&str, &str, usize, &str); 10] = [
    (
        "dns1123Label",
        LABEL,
        63,
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
    ),
    (
        "dns1123Subdomain",
        SUBDOMAIN,
        253,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
    ),
    (
        "dns1035Label",
        LABEL_1035,
        63,
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
    ),
    (
        "dns1123LabelPrefix",
        LABEL,
        63,
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
    ),
    (
        "dns1123SubdomainPrefix",
        SUBDOMAIN,
        253,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
    ),
    (
        "dns1035LabelPrefix",
        LABEL_1035,
        63,
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
    ),
    (
        "qualifiedName",
        QUALIFIED,
        63,
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    ),
    (
        "labelValue",
        LABEL_VALUE,
        63,
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    ),
    (
        "uuid",
        "(?i:[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})",
        64,
        "does not match the UUID format",
    ),
    (
        "byte",
        "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})",
        usize::MAX,
        "invalid base64",
    ),
];

static COMPILED: LazyLock<Vec<Option<Regex>>> =
    LazyLock::new(|| PATTERNS.iter().map(|(_, pattern, ..)| go_regex(&format!("^({pattern})$")).ok()).collect());

const OTHERS: [&str; 3] = ["uri", "date", "datetime"];

fn named(name: &str) -> Option<&'static str> {
    PATTERNS.iter().map(|(known, ..)| *known).chain(OTHERS).find(|known| *known == name)
}

/// What is wrong with a text, or nothing.
fn faults(format: &str, text: &str) -> Vec<String> {
    if let Some(at) = PATTERNS.iter().position(|(name, ..)| *name == format) {
        let (name, pattern, limit, wanted) = PATTERNS[at];
        // A prefix may end in the dash that joins it to what follows; a qualified name may have a domain before it.
        let (domain, body) = match (name.ends_with("Prefix"), text.split_once('/')) {
            (true, _) => (None, text.strip_suffix('-').unwrap_or(text)),
            (false, Some((domain, body))) if name == "qualifiedName" => (Some(domain), body),
            _ => (None, text),
        };
        let mut out = Vec::new();
        if domain.is_some_and(|domain| !faults("dns1123Subdomain", domain).is_empty()) {
            out.push("prefix part must be a lowercase RFC 1123 subdomain".to_owned());
        }
        if text.len() > limit {
            out.push(format!("must be no more than {limit} characters"));
        }
        if !COMPILED[at].as_ref().is_some_and(|regex| regex.is_match(body)) {
            out.push(format!("{wanted} (regex used for validation is '{pattern}')"));
        }
        return out;
    }
    let good = match format {
        "date" => parse_timestamp(&format!("{text}T00:00:00Z")).is_some(),
        "datetime" => parse_timestamp(text).is_some(),
        _ => text.starts_with('/') || text.contains(":/"),
    };
    if good { Vec::new() } else { vec![format!("invalid {format}")] }
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
fn names_are_judged_by_their_format() {
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
