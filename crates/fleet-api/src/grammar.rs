//! Validation of names, label keys and label values, with the messages of Kubernetes.
//!
//! The messages are exactly those of Kubernetes, double spaces included, because users and scripts search for them.

/// Longest DNS label, label value and name part of a label key, in bytes.
pub const LABEL_MAX_BYTES: usize = 63;
/// Longest DNS subdomain, in bytes.
pub const SUBDOMAIN_MAX_BYTES: usize = 253;

const QUALIFIED_PATTERN: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE_PATTERN: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const DNS_LABEL_PATTERN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_PATTERN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";

const QUALIFIED_RULE: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const LABEL_VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const DNS_LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";

/// Errors of a text that should be a DNS label, such as a namespace name.
pub fn dns1123_label(text: &str) -> Vec<String> {
    let mut complaints = too_long(text, LABEL_MAX_BYTES);
    if !is_dns_label(text) {
        complaints.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            breaks(DNS_LABEL_RULE, DNS_LABEL_PATTERN, &["my-name", "123-abc"])
        });
    }
    complaints
}

/// Errors of a text that should be a DNS subdomain, such as most object names.
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut complaints = too_long(text, SUBDOMAIN_MAX_BYTES);
    if !is_subdomain(text) {
        complaints.push(breaks(SUBDOMAIN_RULE, SUBDOMAIN_PATTERN, &["example.com"]));
    }
    complaints
}

/// Errors of a text that should be a qualified name, such as a label key: `name` or `sub.domain/name`.
pub fn qualified_name(text: &str) -> Vec<String> {
    let rule = || breaks(QUALIFIED_RULE, QUALIFIED_PATTERN, &["MyName", "my.name", "123-abc"]);
    let mut complaints = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        ["", name] => {
            complaints.push("prefix part must be non-empty".to_owned());
            name
        }
        [prefix, name] => {
            complaints
                .extend(dns1123_subdomain(prefix).into_iter().map(|complaint| format!("prefix part {complaint}")));
            name
        }
        _ => {
            let hint = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a qualified name {} {hint}", rule())];
        }
    };
    if name.is_empty() {
        complaints.push("name part must be non-empty".to_owned());
    }
    complaints.extend(too_long(name, LABEL_MAX_BYTES).into_iter().map(|complaint| format!("name part {complaint}")));
    if !is_qualified(name) {
        complaints.push(format!("name part {}", rule()));
    }
    complaints
}

/// Errors of a text that should be a label value; the empty text is valid.
pub fn label_value(text: &str) -> Vec<String> {
    let mut complaints = too_long(text, LABEL_MAX_BYTES);
    if !(text.is_empty() || is_qualified(text)) {
        complaints.push(breaks(LABEL_VALUE_RULE, LABEL_VALUE_PATTERN, &["MyValue", "my_value", "12345"]));
    }
    complaints
}

fn too_long(text: &str, most: usize) -> Vec<String> {
    if text.len() > most { vec![format!("must be no more than {most} characters")] } else { Vec::new() }
}

fn breaks(rule: &str, pattern: &str, examples: &[&str]) -> String {
    let quoted: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{pattern}')", quoted.join(" or "))
}

fn is_qualified(text: &str) -> bool {
    is_framed(text, |byte| byte.is_ascii_alphanumeric(), |byte| matches!(byte, b'-' | b'_' | b'.'))
}

fn is_dns_label(text: &str) -> bool {
    is_framed(text, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit(), |byte| byte == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

/// Whether a text is not empty, has only `plain` and `inner` bytes, and neither starts nor ends with an `inner` one.
fn is_framed(text: &str, plain: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else { return false };
    plain(first) && plain(last) && bytes.iter().all(|&byte| plain(byte) || inner(byte))
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    fn check(complaints: Vec<String>, expected: Expect) {
        expected.assert_eq(&complaints.join("\n"));
    }

    #[test]
    fn names_that_are_fine_draw_no_complaint() {
        for text in ["a", "my-name", "0-9", &"x".repeat(63)] {
            assert!(dns1123_label(text).is_empty(), "{text}");
        }
        for text in ["a.b", "example.com", "1.2.3", &format!("{}.com", "x".repeat(200))] {
            assert!(dns1123_subdomain(text).is_empty(), "{text}");
        }
        for text in ["a", "My_Name.x-1", "example.com/MyName", &format!("example.com/{}", "x".repeat(63))] {
            assert!(qualified_name(text).is_empty(), "{text}");
        }
        for text in ["", "a", "My_Value.1", &"x".repeat(63)] {
            assert!(label_value(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_label_says_when_only_dots_are_wrong() {
        check(dns1123_label("a.b"), expect!["must not contain dots"]);
        check(
            dns1123_label("A"),
            expect![
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ],
        );
        check(dns1123_label(&"x".repeat(64)), expect!["must be no more than 63 characters"]);
    }

    #[test]
    fn a_subdomain_says_its_rule_and_its_length() {
        check(
            dns1123_subdomain("a..b"),
            expect![
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ],
        );
        check(dns1123_subdomain(&"x".repeat(254)), expect!["must be no more than 253 characters"]);
    }

    #[test]
    fn a_qualified_name_says_which_part_is_wrong() {
        check(
            qualified_name(""),
            expect![[r"
                name part must be non-empty
                name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"]],
        );
        check(qualified_name("/c"), expect!["prefix part must be non-empty"]);
        check(
            qualified_name("A_/c"),
            expect![
                "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ],
        );
        check(qualified_name(&"x".repeat(64)), expect!["name part must be no more than 63 characters"]);
        check(
            qualified_name("a/b/c"),
            expect![
                "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ],
        );
    }

    #[test]
    fn a_label_value_says_its_rule() {
        check(
            label_value("b c"),
            expect![
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ],
        );
        assert_eq!(label_value(&"-".repeat(64)).len(), 2);
    }

    proptest! {
        #[test]
        fn the_checks_agree_with_the_patterns_they_quote(text in "[a-cA-C0-1._/ -]{0,6}") {
            let anchored = |pattern: &str| Regex::new(&format!("^(?:{pattern})$")).unwrap();
            prop_assert_eq!(is_qualified(&text), anchored(QUALIFIED_PATTERN).is_match(&text));
            prop_assert_eq!(label_value(&text).is_empty(), anchored(LABEL_VALUE_PATTERN).is_match(&text));
            prop_assert_eq!(is_dns_label(&text), anchored(DNS_LABEL_PATTERN).is_match(&text));
            prop_assert_eq!(is_subdomain(&text), anchored(SUBDOMAIN_PATTERN).is_match(&text));
        }
    }
}
