//! The string formats that kube-apiserver checks. Other formats (including `int32` and `int64`) are ignored.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use jiff::civil::Date;
use k8s_values::{GoDuration, validation};
use regex::Regex;

use super::Schema;
use super::pattern::go_regex;

/// A format as a schema names it, with its check.
pub(super) struct Format<'a> {
    pub(super) name: &'a str,
    check: fn(&str) -> bool,
}

impl Format<'_> {
    pub(super) fn accepts(&self, text: &str) -> bool {
        (self.check)(text)
    }
}

/// The checked format of a schema, if it has one.
pub(super) fn fault(schema: &Schema) -> Option<Format<'_>> {
    let name = schema.constraints.format.as_deref()?;
    Some(Format { name, check: check_of(name)? })
}

/// Dashes do not count in a format's name.
fn check_of(name: &str) -> Option<fn(&str) -> bool> {
    Some(match name.replace('-', "").as_str() {
        "bsonobjectid" => |text| text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "uri" => is_request_uri,
        "email" => |text| matches(&EMAIL, text),
        "hostname" => is_hostname,
        "ipv4" => |text| text.contains('.') && is_ip(text),
        "ipv6" => |text| text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr,
        "mac" => |text| matches(&MAC, text),
        "uuid" => |text| matches(&UUID, text),
        "uuid3" => |text| matches(&UUID3, text),
        "uuid4" => |text| matches(&UUID4, text),
        "uuid5" => |text| matches(&UUID5, text),
        "isbn" => |text| is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10,
        "isbn13" => is_isbn13,
        "creditcard" => is_credit_card,
        "ssn" => |text| matches(&SSN, text),
        "hexcolor" => |text| matches(&HEX_COLOR, text),
        "rgbcolor" => |text| matches(&RGB_COLOR, text),
        "byte" => |text| matches(&BASE64, text),
        "password" => |_| true,
        "date" => is_date,
        "duration" => is_duration,
        "datetime" => is_date_time,
        "k8sshortname" => |text| validation::dns1123_label(text).is_empty(),
        "k8slongname" => |text| validation::dns1123_subdomain(text).is_empty(),
        _ => return None,
    })
}

type Compiled = LazyLock<Option<Regex>>;

macro_rules! patterns {
    ($($name:ident = $pattern:expr;)*) => { $(static $name: Compiled = LazyLock::new(|| go_regex($pattern).ok());)* };
}

patterns! {
    EMAIL = r#"^("[^"]*"\s*)?(<[^@<>\s]+@[^@<>\s]+>|[^@<>()\s,;]+@[^@<>()\s,;]+)$"#;
    HOSTNAME = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
    MAC = r"^([0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}|[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){7}|([0-9a-fA-F]{4}\.){2}[0-9a-fA-F]{4})$";
    UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID3 = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID4 = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    UUID5 = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    SSN = r"^\d{3}[- ]?\d{2}[- ]?\d{4}$";
    HEX_COLOR = r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
    RGB_COLOR = r"^rgb\((\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,){2}\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$";
    BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$";
    CLOCK = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
    WORD_DURATION = r"(?i)[0-9]+\s*(ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|week|wk)";
}

fn matches(pattern: &Compiled, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

fn is_request_uri(text: &str) -> bool {
    let absolute = text.split_once(':').is_some_and(|(scheme, rest)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
            && rest.starts_with('/')
    });
    (text.starts_with('/') || absolute)
        && !text.bytes().any(|byte| byte <= b' ' || byte == 0x7f)
        && percents_are_whole(text)
}

fn percents_are_whole(text: &str) -> bool {
    text.split('%').skip(1).all(|part| part.len() >= 2 && part.bytes().take(2).all(|byte| byte.is_ascii_hexdigit()))
}

fn is_hostname(text: &str) -> bool {
    matches(&HOSTNAME, text) && text.len() <= 255 && text.split('.').all(|part| part.len() <= 63)
}

/// Leading zeros are tolerated, as the real server does for old objects.
fn is_ip(text: &str) -> bool {
    let octets = text.split('.').count() == 4
        && text.split('.').all(|part| part.bytes().all(|b| b.is_ascii_digit()) && part.parse::<u8>().is_ok());
    octets || text.parse::<IpAddr>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let bits = if address.contains(':') { 128 } else { 32 };
    is_ip(address)
        && length.bytes().all(|b| b.is_ascii_digit())
        && length.parse::<u8>().is_ok_and(|length| length <= bits)
}

fn is_isbn10(text: &str) -> bool {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| !matches!(c, '-' | ' '))
        .map(|c| if c == 'X' || c == 'x' { 10 } else { c.to_digit(10).unwrap_or(99) })
        .collect();
    digits.len() == 10
        && digits[..9].iter().all(|digit| *digit < 10)
        && digits[9] <= 10
        && digits.iter().zip((1..=10).rev()).map(|(digit, weight)| digit * weight).sum::<u32>() % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits: Option<Vec<u32>> = text.chars().filter(|c| !matches!(c, '-' | ' ')).map(|c| c.to_digit(10)).collect();
    digits.is_some_and(|digits| {
        let sum: u32 = digits.iter().zip([1, 3].iter().cycle()).map(|(digit, weight)| digit * weight).sum();
        digits.len() == 13 && sum.is_multiple_of(10)
    })
}

/// The Luhn checksum over 13 to 16 digits.
fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let sum: u32 = digits
        .iter()
        .rev()
        .zip([false, true].iter().cycle())
        .map(|(digit, doubled)| if *doubled { digit * 2 / 10 + digit * 2 % 10 } else { *digit })
        .sum();
    (13..=16).contains(&digits.len()) && sum.is_multiple_of(10)
}

pub(crate) fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let Some((date, clock)) = lower.split_once('t') else { return false };
    let captures = CLOCK.as_ref().and_then(|pattern| pattern.captures(clock));
    is_date(date) && captures.is_some_and(|found| &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59")
}

fn is_duration(text: &str) -> bool {
    text.parse::<GoDuration>().is_ok() || matches(&WORD_DURATION, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts on the left of `|` fit the format, those on the right do not.
    #[test]
    fn each_format_accepts_its_own_values() {
        let table = [
            (
                "date-time",
                "2024-05-01T10:00:00Z 2024-05-01t10:00:00.5+02:00 | 2024-05-01 2024-13-01T00:00:00Z 2024-05-01T24:00:00Z",
            ),
            ("date", "2024-02-29 | 2023-02-29 2024-2-9"),
            ("byte", "YQ== YWJj | YQ= a"),
            ("duration", "1h30m 1.5s 0 3days | soon 5"),
            ("ipv4", "10.0.0.1 010.0.0.1 | ::1 10.0.0 10.0.0.256"),
            ("ipv6", "::1 fe80::1 | 10.0.0.1 :::"),
            ("cidr", "10.0.0.0/8 ::/0 | 10.0.0.0 10.0.0.0/33"),
            ("mac", "01:23:45:67:89:ab 0123.4567.89ab | 01:23"),
            ("uuid", "123E4567-e89b-12d3-a456-426614174000 | 123"),
            ("uuid4", "123e4567-e89b-42d3-a456-426614174000 | 123e4567-e89b-12d3-a456-426614174000"),
            ("hostname", "a.example.com localhost | a_b -a"),
            ("uri", "https://a.b/c /path | a.b http%zz"),
            ("email", "a@b.c | a b@"),
            ("isbn", "0321751043 978-0321751041 | 0321751044 9780321751042"),
            ("creditcard", "4111111111111111 | 4111111111111112"),
            ("hexcolor", "#fff 00FF00 | #ffff"),
            ("rgbcolor", "rgb(0,255,31) | rgb(0,256,0)"),
            ("ssn", "111-22-3333 | 111"),
            ("bsonobjectid", "507f1f77bcf86cd799439011 | 507f"),
            ("password", "anything |"),
            ("k8s-short-name", "a-b | a.b A"),
            ("k8s-long-name", "a-b.c | a..b -a"),
        ];
        for (name, texts) in table {
            let check = check_of(name).unwrap();
            let (good, bad) = texts.split_once('|').unwrap();
            good.split_whitespace().for_each(|text| assert!(check(text), "{name} should accept {text}"));
            bad.split_whitespace().for_each(|text| assert!(!check(text), "{name} should refuse {text}"));
        }
        assert!(check_of("int32").is_none() && check_of("int64").is_none());
    }
}
