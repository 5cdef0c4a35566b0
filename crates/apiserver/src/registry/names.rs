//! The order of API versions, and the order in which names may be claimed.

use std::cmp::{Ordering, Reverse};

/// How mature a version name says it is. `None`: not of the form `v1`, `v1beta2`.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let major = rest[..digits].parse().ok()?;
    let (stage, minor) = match &rest[digits..] {
        "" => return Some((2, major, 0)),
        tail if tail.starts_with("beta") => (1, &tail[4..]),
        tail if tail.starts_with("alpha") => (0, &tail[5..]),
        _ => return None,
    };
    Some((stage, major, minor.parse().ok()?))
}

/// Preferred first: stable before beta before alpha, newer before older, unusual names last by alphabet.
pub(crate) fn compare_versions(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => Reverse(a).cmp(&Reverse(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_before_beta_before_alpha_before_others() {
        let mut versions = vec!["foo1", "v11alpha2", "v3beta1", "v10", "v1", "foo10", "v12alpha1", "v11beta2", "v2"];
        versions.sort_by(|a, b| compare_versions(a, b));
        assert_eq!(versions, ["v10", "v2", "v1", "v11beta2", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]);
    }
}
