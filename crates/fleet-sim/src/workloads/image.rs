//! Whether an image exists, decided by its reference alone: by the grammar of references, and by words in name or tag
//! that say that it does not exist.

use std::fmt;

/// The result of a pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Image {
    Exists,
    /// The image does not exist.
    Missing,
    /// The reference does not parse.
    Invalid,
}

/// Words in a name or tag of an image that does not exist.
const MISSING: [&str; 5] = ["doesnotexist", "does-not-exist", "nonexistent", "non-existent", "no-such-"];

const LONGEST_TAG: usize = 128;

impl Image {
    pub(super) fn of(reference: &str) -> Self {
        if parse(reference).is_err() {
            return Self::Invalid;
        }
        let lower = reference.to_ascii_lowercase();
        if MISSING.iter().any(|word| lower.contains(word)) { Self::Missing } else { Self::Exists }
    }
}

struct NotAReference;

/// `[host[:port]/]path[/path…][:tag][@digest]`
fn parse(reference: &str) -> Result<(), NotAReference> {
    let (rest, digest) = match reference.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (reference, None),
    };
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return Err(NotAReference);
    }
    let (name, tag) = match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (rest, None),
    };
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Err(NotAReference);
    }
    let path = match name.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => {
            if !is_host(host) {
                return Err(NotAReference);
            }
            path
        }
        _ => name,
    };
    if path.split('/').all(is_component) { Ok(()) } else { Err(NotAReference) }
}

fn is_host(host: &str) -> bool {
    let (name, port) = host.split_once(':').unwrap_or((host, "1"));
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    name.split('.').all(part) && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Lower-case letters and digits, with single dots, one or two underscores or any number of dashes between them.
fn is_component(component: &str) -> bool {
    let bytes = component.as_bytes();
    let is_letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = bytes.first().is_some_and(is_letter) && bytes.last().is_some_and(is_letter);
    let separators = component.split(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    ends && separators
        .into_iter()
        .all(|separator| matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= LONGEST_TAG
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || byte == b'.' || byte == b'-')
}

fn is_digest(digest: &str) -> bool {
    const SHA256_LETTERS: usize = 64;
    digest.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == SHA256_LETTERS && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    })
}

/// A reference with default registry and tag.
#[derive(Debug, Clone, Copy)]
pub(super) struct Full<'a>(pub(super) &'a str);

impl fmt::Display for Full<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.0.split_once('/').map(|(host, _)| host);
        match host {
            Some(host) if host.contains(['.', ':']) || host == "localhost" => {}
            Some(_) => f.write_str("docker.io/")?,
            None => f.write_str("docker.io/library/")?,
        }
        f.write_str(self.0)?;
        let last = self.0.rsplit('/').next().unwrap_or_default();
        if last.contains([':', '@']) { Ok(()) } else { f.write_str(":latest") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_references_parse() {
        let digest = format!("nginx@sha256:{}", "a".repeat(64));
        for good in ["nginx", "nginx:1.29", "ghcr.io/a/b_c:v1-x", "localhost:5000/x", "a/b/c", "a--b/c__d", &digest] {
            assert_eq!(Image::of(good), Image::Exists, "{good}");
        }
        for bad in [
            "",
            "NGINX",
            "nginx:",
            "nginx:a b",
            "nginx::1",
            "a//b",
            "nginx@sha256:abc",
            "a___b",
            "-a",
            "nginx:1.0#rc",
            "https://a/b",
        ] {
            assert_eq!(Image::of(bad), Image::Invalid, "{bad}");
        }
    }

    #[test]
    fn some_words_mark_an_image_as_missing() {
        for missing in ["nginx:doesnotexist", "ghcr.io/no-such-team/web:1", "does-not-exist", "nginx:Nonexistent"] {
            assert_eq!(Image::of(missing), Image::Missing, "{missing}");
        }
    }

    #[test]
    fn full_references_have_registry_and_tag() {
        let full = |reference| Full(reference).to_string();
        assert_eq!(full("nginx"), "docker.io/library/nginx:latest");
        assert_eq!(full("team/web:2"), "docker.io/team/web:2");
        assert_eq!(full("ghcr.io/team/web"), "ghcr.io/team/web:latest");
        assert_eq!(full("localhost:5000/web"), "localhost:5000/web:latest");
    }
}
