//! The messages of names that are wrong, and that the checks agree with the patterns that they quote.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use regex::Regex;

use super::*;

fn check(messages: Vec<String>, expected: Expect) {
    expected.assert_eq(&messages.join("\n"));
}

#[test]
fn valid_names_have_no_error() {
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
fn dots_in_a_label_have_their_own_message() {
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
fn messages_about_subdomains() {
    check(
        dns1123_subdomain("a..b"),
        expect![
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        ],
    );
    check(dns1123_subdomain(&"x".repeat(254)), expect!["must be no more than 253 characters"]);
}

#[test]
fn messages_about_qualified_names_name_the_part() {
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
fn messages_about_label_values() {
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
        prop_assert_eq!(label_value(&text).is_empty(), anchored(&format!("({QUALIFIED_PATTERN})?")).is_match(&text));
        prop_assert_eq!(is_dns_label(&text), anchored(LABEL_PATTERN).is_match(&text));
        prop_assert_eq!(is_subdomain(&text), anchored(&subdomain_pattern(LABEL_PATTERN)).is_match(&text));
    }
}

#[test]
fn valid_names_pass() {
    for name in ["a", "0", "a-b", "web-1"] {
        assert!(
            dns1123_label(name).is_empty() && dns1123_subdomain(name).is_empty() && qualified_name(name).is_empty()
        );
    }
    assert!(dns1123_subdomain("a.b-c.d").is_empty());
    assert!(dns1035_label("a1").is_empty());
    assert!(qualified_name("a.b/C_d").is_empty());
    assert!(label_value("").is_empty() && label_value("A_b.c-1").is_empty());
    assert!(config_key("a.b_C-1").is_empty());
    assert!(path_segment("system:node").is_empty());
    assert!(port_name("http-1").is_empty() && port_number(65_535).is_empty());
    assert!(percent("25%").is_empty() && percent("150%").is_empty());
    assert!(header_name("X-A").is_empty() && environment_name("a b").is_empty());
    assert!(wildcard_subdomain("*.a.b").is_empty() && subdomain_with_underscores("_a.b_c").is_empty());
    assert_eq!(masked_prefix("web-"), "wea");
    assert!(dns1123_subdomain(&masked_prefix("web-")).is_empty());
}

#[test]
fn messages_name_the_violated_rule() {
    check(dns1123_label("a.b"), expect!["must not contain dots"]);
    check(
        dns1123_label("A"),
        expect![
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        ],
    );
    check(
        dns1123_subdomain("A_b"),
        expect![[
            r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        ]],
    );
    check(
        dns1035_label("1a"),
        expect![
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
        ],
    );
    check(
        qualified_name("a/b/c"),
        expect![
            "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ],
    );
    check(qualified_name("/b"), expect!["prefix part must be non-empty"]);
    check(
        qualified_name("A/"),
        expect![[r"
        prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        name part must be non-empty
        name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"]],
    );
    check(
        label_value("a b"),
        expect![
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        ],
    );
    check(
        config_key("..x y"),
        expect![[r"
        a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')
        must not start with '..'"]],
    );
    check(
        path_segment("a/b%"),
        expect![[r"
        may not contain '/'
        may not contain '%'"]],
    );
    check(
        port_name("-1--"),
        expect![[r"
        must contain at least one letter (a-z)
        must not contain consecutive hyphens
        must not begin or end with a hyphen"]],
    );
    check(port_number(0), expect!["must be between 1 and 65535, inclusive"]);
    for text in ["x", "5", "%", "-5%", "+5%", "5.5%"] {
        check(
            percent(text),
            expect![
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            ],
        );
    }
    check(dns1123_label(&"a".repeat(64)), expect!["must be no more than 63 characters"]);
    check(
        wildcard_subdomain("*"),
        expect![[
            r"a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        ]],
    );
    check(
        header_name("a b"),
        expect![
            "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
        ],
    );
    check(
        environment_name("a=b"),
        expect!["a valid environment variable name must consist only of printable ASCII characters other than '='"],
    );
}
