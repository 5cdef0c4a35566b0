//! The rules for names, keys and ports. Every function returns kube-apiserver's messages, or none for a valid value.

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_MAXIMUM: usize = 63;
const SUBDOMAIN_MAXIMUM: usize = 253;

pub fn dns_label(name: &str) -> Vec<String> {
    let mut out = too_long(name, LABEL_MAXIMUM);
    if !is_dns_label(name) {
        out.push(if is_dns_subdomain(name) {
            "must not contain dots".to_owned()
        } else {
            pattern(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    out
}

pub fn dns_subdomain(name: &str) -> Vec<String> {
    let mut out = too_long(name, SUBDOMAIN_MAXIMUM);
    if !is_dns_subdomain(name) {
        out.push(pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            &format!("{LABEL}(\\.{LABEL})*"),
            &["example.com"],
        ));
    }
    out
}

/// As `dns_subdomain`, where labels may also hold underscores.
pub fn subdomain_with_underscores(name: &str) -> Vec<String> {
    const LABEL: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
    let fits = |label: &str| {
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        let label = label.strip_prefix('_').unwrap_or(label);
        edge(label.chars().next())
            && edge(label.chars().last())
            && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_'))
    };
    let mut out = too_long(name, SUBDOMAIN_MAXIMUM);
    if !name.split('.').all(fits) {
        out.push(pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
            &format!("{LABEL}(\\.{LABEL})*"),
            &["example.com"],
        ));
    }
    out
}

pub fn dns_1035_label(name: &str) -> Vec<String> {
    let mut out = too_long(name, LABEL_MAXIMUM);
    if !(is_dns_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase())) {
        out.push(pattern(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    out
}

pub fn wildcard_subdomain(name: &str) -> Vec<String> {
    let mut out = too_long(name, SUBDOMAIN_MAXIMUM);
    if !name.strip_prefix("*.").is_some_and(is_dns_subdomain) {
        out.push(pattern(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!("\\*\\.{LABEL}(\\.{LABEL})*"),
            &["*.example.com"],
        ));
    }
    out
}

pub fn path_segment(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"].iter().filter(|part| name.contains(**part)).map(|part| format!("may not contain '{part}'")).collect()
}

const QUALIFIED_WORDS: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

fn qualified_pattern() -> String {
    pattern(QUALIFIED_WORDS, QUALIFIED, &["MyName", "my.name", "123-abc"])
}

/// Label keys, annotation keys, finalizers, resource names: `name` or `prefix/name`.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                out.push("prefix part must be non-empty".to_owned());
            } else {
                out.extend(dns_subdomain(prefix).into_iter().map(|message| format!("prefix part {message}")));
            }
            *name
        }
        _ => {
            let words = qualified_pattern();
            return vec![format!(
                "a qualified name {words} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        out.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAXIMUM {
        out.push(format!("name part must be no more than {LABEL_MAXIMUM} characters"));
    }
    if !is_word(name) {
        out.push(format!("name part {}", qualified_pattern()));
    }
    out
}

pub fn label_value(value: &str) -> Vec<String> {
    let mut out = too_long(value, LABEL_MAXIMUM);
    if !value.is_empty() && !is_word(value) {
        out.push(pattern(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            &format!("({QUALIFIED})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    out
}

/// Keys of ConfigMaps and Secrets: they become file names.
pub fn config_key(key: &str) -> Vec<String> {
    let mut out = too_long(key, SUBDOMAIN_MAXIMUM);
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if key.is_empty() || !key.chars().all(fits) {
        out.push(pattern(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match key {
        "." | ".." => out.push(format!("must not be '{key}'")),
        _ if key.starts_with("..") => out.push("must not start with '..'".to_owned()),
        _ => {}
    }
    out
}

pub fn environment_name(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if name.chars().all(|c| (' '..='~').contains(&c) && c != '=') {
        return Vec::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()]
}

/// Names of ports, as IANA registers them.
pub fn port_name(name: &str) -> Vec<String> {
    let mut out = too_long(name, 15);
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        out.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.contains(|c: char| c.is_ascii_lowercase()) {
        out.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        out.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        out.push("must not begin or end with a hyphen".to_owned());
    }
    out
}

pub fn port_number(port: i64) -> Vec<String> {
    if (1..=65_535).contains(&port) { Vec::new() } else { vec![between(1, 65_535)] }
}

pub fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()) {
        return Vec::new();
    }
    let words = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![pattern(words, "[0-9]+%", &["1%", "93%"])]
}

pub fn header_name(name: &str) -> Vec<String> {
    if !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Vec::new();
    }
    let words = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![pattern(words, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

pub fn between(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// A `generateName` may end in a dash, since more is to follow.
pub fn masked_prefix(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut kept: String = rest.to_owned();
            kept.pop();
            format!("{kept}a")
        }
        _ => prefix.to_owned(),
    }
}

fn too_long(text: &str, maximum: usize) -> Vec<String> {
    if text.len() > maximum { vec![format!("must be no more than {maximum} characters")] } else { Vec::new() }
}

fn is_dns_label(name: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && edge(name.chars().next())
        && edge(name.chars().last())
}

fn is_dns_subdomain(name: &str) -> bool {
    name.split('.').all(is_dns_label)
}

fn is_word(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && edge(text.chars().next())
        && edge(text.chars().last())
}

/// The rule in words, then examples, then the pattern.
fn pattern(words: &str, pattern: &str, examples: &[&str]) -> String {
    let quoted: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{words} (e.g. {}regex used for validation is '{pattern}')", quoted.join(" or "))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(messages: &[String], expected: &Expect) {
        expected.assert_eq(&messages.join("\n"));
    }

    #[test]
    fn good_names_pass() {
        for name in ["a", "0", "a-b", "web-1"] {
            assert!(dns_label(name).is_empty() && dns_subdomain(name).is_empty() && qualified_name(name).is_empty());
        }
        assert!(dns_subdomain("a.b-c.d").is_empty());
        assert!(dns_1035_label("a1").is_empty());
        assert!(qualified_name("a.b/C_d").is_empty());
        assert!(label_value("").is_empty() && label_value("A_b.c-1").is_empty());
        assert!(config_key("a.b_C-1").is_empty());
        assert!(path_segment("system:node").is_empty());
        assert!(port_name("http-1").is_empty() && port_number(65_535).is_empty());
        assert!(percent("25%").is_empty() && header_name("X-A").is_empty() && environment_name("a b").is_empty());
        assert!(wildcard_subdomain("*.a.b").is_empty());
        assert_eq!(masked_prefix("web-"), "wea");
        assert!(dns_subdomain(&masked_prefix("web-")).is_empty());
    }

    #[test]
    fn bad_names_are_told_why() {
        check(&dns_label("a.b"), &expect!["must not contain dots"]);
        check(
            &dns_label("A"),
            &expect![
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ],
        );
        check(
            &dns_subdomain("A_b"),
            &expect![[
                r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]],
        );
        check(
            &dns_1035_label("1a"),
            &expect![
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ],
        );
        check(
            &qualified_name("a/b/c"),
            &expect![
                "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ],
        );
        check(&qualified_name("/b"), &expect!["prefix part must be non-empty"]);
        check(
            &qualified_name("A/"),
            &expect![[r"
            prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            name part must be non-empty
            name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"]],
        );
        check(
            &label_value("a b"),
            &expect![
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ],
        );
        check(
            &config_key("..x y"),
            &expect![[r"
            a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')
            must not start with '..'"]],
        );
        check(
            &path_segment("a/b%"),
            &expect![[r"
            may not contain '/'
            may not contain '%'"]],
        );
        check(
            &port_name("-1--"),
            &expect![[r"
            must contain at least one letter (a-z)
            must not contain consecutive hyphens
            must not begin or end with a hyphen"]],
        );
        check(&port_number(0), &expect!["must be between 1 and 65535, inclusive"]);
        check(
            &percent("x"),
            &expect![
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            ],
        );
        check(&dns_label(&"a".repeat(64)), &expect!["must be no more than 63 characters"]);
        check(
            &wildcard_subdomain("*"),
            &expect![[
                r"a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]],
        );
        check(
            &header_name("a b"),
            &expect![
                "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
            ],
        );
        check(
            &environment_name("a=b"),
            &expect![
                "a valid environment variable name must consist only of printable ASCII characters other than '='"
            ],
        );
    }
}
