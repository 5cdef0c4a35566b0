//! Validation of names, keys, ports and percentages. Every function returns Kubernetes' messages, or none for a valid text.
//!
//! The messages are exactly those of Kubernetes, double spaces included, because users and scripts search for them.

/// Longest DNS label, label value and name part of a label key, in bytes.
pub const LABEL_MAX_BYTES: usize = 63;
/// Longest DNS subdomain, in bytes.
pub const SUBDOMAIN_MAX_BYTES: usize = 253;
/// Longest name of a port, in bytes.
const PORT_NAME_MAX_BYTES: usize = 15;

const LABEL_PATTERN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED_PATTERN: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_RULE: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// A DNS label, such as the name of a namespace.
pub fn dns1123_label(text: &str) -> Vec<String> {
    let mut messages = too_long(text, LABEL_MAX_BYTES);
    if !is_dns_label(text) {
        messages.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            pattern(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL_PATTERN,
                &["my-name", "123-abc"],
            )
        });
    }
    messages
}

/// A DNS subdomain, such as the names of most objects.
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut messages = too_long(text, SUBDOMAIN_MAX_BYTES);
    if !is_subdomain(text) {
        messages.push(pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            &subdomain_pattern(LABEL_PATTERN),
            &["example.com"],
        ));
    }
    messages
}

/// As `dns1123_subdomain`, but labels may contain underscores.
pub fn subdomain_with_underscores(text: &str) -> Vec<String> {
    let fits = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label);
        is_framed(label, is_lowercase_alphanumeric, |byte| matches!(byte, b'-' | b'_'))
    };
    let mut messages = too_long(text, SUBDOMAIN_MAX_BYTES);
    if !text.split('.').all(fits) {
        messages.push(pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
            &subdomain_pattern("_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"),
            &["example.com"],
        ));
    }
    messages
}

/// A DNS label that starts with a letter, such as the name of a service.
pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut messages = too_long(text, LABEL_MAX_BYTES);
    if !(is_dns_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())) {
        messages.push(pattern(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    messages
}

/// A subdomain after `*.`.
pub fn wildcard_subdomain(text: &str) -> Vec<String> {
    let mut messages = too_long(text, SUBDOMAIN_MAX_BYTES);
    if !text.strip_prefix("*.").is_some_and(is_subdomain) {
        messages.push(pattern(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!("\\*\\.{}", subdomain_pattern(LABEL_PATTERN)),
            &["*.example.com"],
        ));
    }
    messages
}

/// A part of a URL path, such as the name of a role.
pub fn path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"].iter().filter(|part| text.contains(**part)).map(|part| format!("may not contain '{part}'")).collect()
}

/// A qualified name, `name` or `sub.domain/name`: keys of labels and annotations, finalizers, resource names.
pub fn qualified_name(text: &str) -> Vec<String> {
    let rule = || pattern(QUALIFIED_RULE, QUALIFIED_PATTERN, &["MyName", "my.name", "123-abc"]);
    let mut messages = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        ["", name] => {
            messages.push("prefix part must be non-empty".to_owned());
            name
        }
        [prefix, name] => {
            messages.extend(dns1123_subdomain(prefix).into_iter().map(|message| format!("prefix part {message}")));
            name
        }
        _ => {
            let hint = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a qualified name {} {hint}", rule())];
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    }
    messages.extend(too_long(name, LABEL_MAX_BYTES).into_iter().map(|message| format!("name part {message}")));
    if !is_qualified(name) {
        messages.push(format!("name part {}", rule()));
    }
    messages
}

/// The value of a label; the empty text is valid.
pub fn label_value(text: &str) -> Vec<String> {
    let mut messages = too_long(text, LABEL_MAX_BYTES);
    if !(text.is_empty() || is_qualified(text)) {
        messages.push(pattern(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            &format!("({QUALIFIED_PATTERN})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    messages
}

/// A key of a ConfigMap or Secret: it becomes a file name.
pub fn config_key(text: &str) -> Vec<String> {
    let mut messages = too_long(text, SUBDOMAIN_MAX_BYTES);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.is_empty() || !text.bytes().all(fits) {
        messages.push(pattern(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match text {
        "." | ".." => messages.push(format!("must not be '{text}'")),
        _ if text.starts_with("..") => messages.push("must not start with '..'".to_owned()),
        _ => {}
    }
    messages
}

/// The name of an environment variable.
pub fn environment_name(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if text.chars().all(|c| (' '..='~').contains(&c) && c != '=') {
        return Vec::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()]
}

/// The name of a port, as IANA registers them.
pub fn port_name(text: &str) -> Vec<String> {
    let mut messages = too_long(text, PORT_NAME_MAX_BYTES);
    if text.is_empty() || !text.bytes().all(|byte| is_lowercase_alphanumeric(byte) || byte == b'-') {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.contains(|c: char| c.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        messages.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        messages.push("must not begin or end with a hyphen".to_owned());
    }
    messages
}

pub fn port_number(port: i64) -> Vec<String> {
    if (1..=65_535).contains(&port) { Vec::new() } else { vec![between(1, 65_535)] }
}

/// A percentage in a field of a built-in kind. Signs are refused.
pub fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Vec::new();
    }
    let rule = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![pattern(rule, "[0-9]+%", &["1%", "93%"])]
}

/// The name of an HTTP header.
pub fn header_name(text: &str) -> Vec<String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Vec::new();
    }
    let rule = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![pattern(rule, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

/// The message for a number out of bounds.
pub fn between(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// A prefix of a name, as in `generateName`, in a form that the rules of whole names accept: it may end in a dash.
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

fn too_long(text: &str, most: usize) -> Vec<String> {
    if text.len() > most { vec![format!("must be no more than {most} characters")] } else { Vec::new() }
}

/// The rule in words, then examples, then the pattern.
fn pattern(rule: &str, pattern: &str, examples: &[&str]) -> String {
    let quoted: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{pattern}')", quoted.join(" or "))
}

fn subdomain_pattern(label: &str) -> String {
    format!("{label}(\\.{label})*")
}

fn is_lowercase_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_qualified(text: &str) -> bool {
    is_framed(text, |byte| byte.is_ascii_alphanumeric(), |byte| matches!(byte, b'-' | b'_' | b'.'))
}

fn is_dns_label(text: &str) -> bool {
    is_framed(text, is_lowercase_alphanumeric, |byte| byte == b'-')
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
mod tests;
