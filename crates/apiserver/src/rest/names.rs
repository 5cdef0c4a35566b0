//! What names, label keys and label values must look like, in the words in which Kubernetes refuses them.
//!
//! Decides about strings only. An empty list of findings means that the string is fine.

use crate::registry::NameRule;

const LABEL_PATTERN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_BYTES: usize = 253;
const LABEL_BYTES: usize = 63;

/// Findings about the name of an object.
pub fn name(rule: NameRule, value: &str) -> Vec<String> {
    match rule {
        NameRule::DnsSubdomain => dns_subdomain(value),
        NameRule::DnsLabel => dns_label(value),
        NameRule::DnsLabel1035 => dns_label_1035(value),
        NameRule::PathSegment => path_segment(value),
    }
}

/// As `name`, for a prefix that will get a suffix: a trailing dash is no fault.
pub fn name_prefix(rule: NameRule, prefix: &str) -> Vec<String> {
    if rule != NameRule::PathSegment && prefix.len() > 1 && prefix.ends_with('-') {
        return name(rule, &format!("{}a", &prefix[..prefix.len() - 1]));
    }
    name(rule, prefix)
}

pub fn dns_subdomain(value: &str) -> Vec<String> {
    let mut out = Vec::new();
    too_long(value, SUBDOMAIN_BYTES, &mut out);
    if !value.split('.').all(is_lower_label) {
        out.push(format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '{LABEL_PATTERN}(\\.{LABEL_PATTERN})*')"
        ));
    }
    out
}

pub fn dns_label(value: &str) -> Vec<String> {
    let mut out = Vec::new();
    too_long(value, LABEL_BYTES, &mut out);
    if !is_lower_label(value) {
        out.push(if !value.is_empty() && value.split('.').all(is_lower_label) {
            "must not contain dots".to_owned()
        } else {
            format!(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                 and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                 '{LABEL_PATTERN}')"
            )
        });
    }
    out
}

pub fn dns_label_1035(value: &str) -> Vec<String> {
    let mut out = Vec::new();
    too_long(value, LABEL_BYTES, &mut out);
    if !is_lower_label(value) || !value.starts_with(|c: char| c.is_ascii_lowercase()) {
        out.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    out
}

pub fn path_segment(value: &str) -> Vec<String> {
    if value == "." || value == ".." {
        return vec![format!("may not be '{value}'")];
    }
    ["/", "%"].iter().filter(|c| value.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

/// A label key, an annotation key, a finalizer: `[prefix/]name`.
pub fn qualified_name(value: &str) -> Vec<String> {
    const NAME_FORM: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                             alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                             validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let mut out = Vec::new();
    let parts: Vec<&str> = value.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                out.push("prefix part must be non-empty".to_owned());
            } else {
                out.extend(dns_subdomain(prefix).into_iter().map(|text| format!("prefix part {text}")));
            }
            *name
        }
        _ => {
            return vec![format!(
                "a valid label key {NAME_FORM} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        out.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_BYTES {
        out.push(format!("name part must be no more than {LABEL_BYTES} bytes"));
    }
    if !is_mixed_label(name) {
        out.push(format!("name part {NAME_FORM}"));
    }
    out
}

pub fn label_value(value: &str) -> Vec<String> {
    let mut out = Vec::new();
    too_long(value, LABEL_BYTES, &mut out);
    if !value.is_empty() && !is_mixed_label(value) {
        out.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
             validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        );
    }
    out
}

fn too_long(value: &str, maximum: usize, out: &mut Vec<String>) {
    if value.len() > maximum {
        out.push(format!("must be no more than {maximum} bytes"));
    }
}

fn is_lower_label(value: &str) -> bool {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    framed(value, fits, |b| fits(b) || b == b'-')
}

fn is_mixed_label(value: &str) -> bool {
    framed(value, |b| b.is_ascii_alphanumeric(), |b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// First and last byte fit `edge`, all fit `inner`; not empty.
fn framed(value: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = value.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(first), Some(last)) if edge(*first) && edge(*last))
        && bytes.iter().all(|b| inner(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_accepts_and_refuses() {
        let table = [
            (NameRule::DnsSubdomain, vec!["a", "a.b-c.d1"], vec!["", "A", "a_b", "a..b", "-a", "a."]),
            (NameRule::DnsLabel, vec!["a", "1-a"], vec!["", "a.b", "A", "-"]),
            (NameRule::DnsLabel1035, vec!["a", "a-1"], vec!["1a", "a.b", ""]),
            (NameRule::PathSegment, vec!["system:x", "A b"], vec!["a/b", "..", "a%b"]),
        ];
        for (rule, good, bad) in table {
            for value in good {
                assert!(name(rule, value).is_empty(), "{rule:?} {value}");
            }
            for value in bad {
                assert!(!name(rule, value).is_empty(), "{rule:?} {value}");
            }
        }
        assert!(!dns_subdomain(&"a".repeat(254)).is_empty() && dns_subdomain(&"a".repeat(253)).is_empty());
        assert!(name_prefix(NameRule::DnsSubdomain, "web-").is_empty());
        assert!(!name_prefix(NameRule::DnsSubdomain, "Web-").is_empty());
    }

    #[test]
    fn label_keys_and_values_have_their_own_form() {
        for good in ["app", "example.com/App_1", "a.b"] {
            assert!(qualified_name(good).is_empty(), "{good}");
        }
        for bad in ["", "/a", "A.com/x", "a/b/c", "-a", "example.com/"] {
            assert!(!qualified_name(bad).is_empty(), "{bad}");
        }
        assert!(label_value("").is_empty() && label_value("a_B.1").is_empty());
        assert!(!label_value("a b").is_empty() && !label_value(&"a".repeat(64)).is_empty());
    }
}
