//! Semantic versions.

use std::cmp::Ordering;

use super::super::value::{Evaluated, Fault, Val};
use super::quantity::order;

#[derive(Debug, Clone)]
pub(in crate::cel) struct Semver {
    numbers: [u64; 3],
    pre: Vec<String>,
}

impl Semver {
    /// With `lenient` a leading `v`, leading zeros and missing parts are let through.
    fn parse(text: &str, lenient: bool) -> Result<Self, String> {
        let text = if lenient { text.strip_prefix('v').unwrap_or(text) } else { text };
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let text = text.split_once('+').map_or(text, |(version, _)| version);
        let (core, pre) = text.split_once('-').map_or((text, None), |(core, pre)| (core, Some(pre)));
        let parts: Vec<&str> = core.split('.').collect();
        if parts.len() > 3 || (parts.len() < 3 && !lenient) {
            return Err("No Major.Minor.Patch elements found".to_owned());
        }
        let mut numbers = [0; 3];
        for (number, part) in numbers.iter_mut().zip(&parts) {
            if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(format!("Invalid character(s) found in number {part:?}"));
            }
            if part.len() > 1 && part.starts_with('0') && !lenient {
                return Err(format!("Number must not contain leading zeroes {part:?}"));
            }
            *number = part.parse().map_err(|_| format!("number {part:?} is too large"))?;
        }
        let pre: Vec<String> = pre.map(|pre| pre.split('.').map(str::to_owned).collect()).unwrap_or_default();
        if pre.iter().any(|part| part.is_empty() || !part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')) {
            return Err("Invalid prerelease".to_owned());
        }
        Ok(Self { numbers, pre })
    }

    pub(in crate::cel) fn cmp(&self, other: &Self) -> Ordering {
        let releases = match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let parts = self.pre.iter().zip(&other.pre).map(|(a, b)| match (a.parse::<u64>(), b.parse::<u64>()) {
                    (Ok(a), Ok(b)) => a.cmp(&b),
                    (Ok(_), Err(_)) => Ordering::Less,
                    (Err(_), Ok(_)) => Ordering::Greater,
                    (Err(_), Err(_)) => a.cmp(b),
                });
                parts.fold(Ordering::Equal, Ordering::then).then(self.pre.len().cmp(&other.pre.len()))
            }
        };
        self.numbers.cmp(&other.numbers).then(releases)
    }
}

pub(super) fn call<'a>(name: &str, args: &[Val<'a>]) -> Option<Evaluated<'a>> {
    let part = |version: &Semver, at: usize| Val::Int(i64::try_from(version.numbers[at]).unwrap_or(i64::MAX));
    Some(Ok(match (name, args) {
        ("semver" | "isSemver", [Val::Text(text), rest @ ..]) => {
            let parsed = Semver::parse(text, matches!(rest, [Val::Bool(true)]));
            if name == "isSemver" {
                return Some(Ok(Val::Bool(parsed.is_ok())));
            }
            return Some(parsed.map(|version| Val::Semver(version.into())).map_err(Fault::new));
        }
        ("isGreaterThan", [Val::Semver(a), Val::Semver(b)]) => Val::Bool(a.cmp(b) == Ordering::Greater),
        ("isLessThan", [Val::Semver(a), Val::Semver(b)]) => Val::Bool(a.cmp(b) == Ordering::Less),
        ("compareTo", [Val::Semver(a), Val::Semver(b)]) => order(a.cmp(b)),
        ("major", [Val::Semver(version)]) => part(version, 0),
        ("minor", [Val::Semver(version)]) => part(version, 1),
        ("patch", [Val::Semver(version)]) => part(version, 2),
        _ => return None,
    }))
}

#[test]
fn versions_are_ordered_as_in_semver() {
    let parse = |text| Semver::parse(text, false).unwrap();
    for pair in ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0", "1.0.1", "2.0.0"].windows(2)
    {
        assert_eq!(parse(pair[0]).cmp(&parse(pair[1])), Ordering::Less, "{pair:?}");
    }
    assert!(Semver::parse("v1.2", false).is_err() && Semver::parse("v1.2", true).is_ok());
    assert!(Semver::parse("01.0.0", false).is_err() && Semver::parse("1.0.0-", false).is_err());
}
