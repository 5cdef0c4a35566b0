//! The problems that a check has found, formatted as one message like Go's aggregated errors.
//!
//! One finding is printed as it is, several in brackets, and a repeated one once. Groups are flattened unless they
//! have a prefix.

use std::fmt;

/// Findings in order. Empty if the object is valid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings(Vec<String>);

impl Findings {
    pub fn none() -> Self {
        Self::default()
    }

    pub fn one(text: impl Into<String>) -> Self {
        Self(vec![text.into()])
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, text: impl Into<String>) {
        self.0.push(text.into());
    }

    /// Adds the findings of another group.
    pub fn absorb(&mut self, group: Findings) {
        self.0.extend(group.0);
    }

    /// The group as one finding, `prefix: [a, b]`; an empty group stays empty.
    #[must_use]
    pub fn under(self, prefix: &str) -> Findings {
        if self.is_empty() { self } else { Self::one(format!("{prefix}: {self}")) }
    }
}

impl<S: Into<String>> FromIterator<S> for Findings {
    fn from_iter<I: IntoIterator<Item = S>>(texts: I) -> Self {
        Self(texts.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut distinct: Vec<&str> = Vec::with_capacity(self.0.len());
        for text in &self.0 {
            if !distinct.contains(&text.as_str()) {
                distinct.push(text);
            }
        }
        match distinct[..] {
            [only] => f.write_str(only),
            _ => write!(f, "[{}]", distinct.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(texts: &[&str]) -> Findings {
        texts.iter().copied().collect()
    }

    #[test]
    fn several_findings_are_in_brackets() {
        assert_eq!(group(&["a"]).to_string(), "a");
        assert_eq!(group(&["a", "b"]).to_string(), "[a, b]");
    }

    #[test]
    fn repeated_findings_are_listed_once() {
        assert_eq!(group(&["a", "a"]).to_string(), "a");
        assert_eq!(group(&["b", "a", "b"]).to_string(), "[b, a]");
    }

    #[test]
    fn groups_without_a_prefix_are_flattened() {
        let mut outer = Findings::one("a");
        outer.absorb(group(&["b", "c"]));
        outer.absorb(Findings::none());
        assert_eq!(outer.to_string(), "[a, b, c]");

        let mut outer = Findings::one("a");
        outer.absorb(group(&["b", "c"]).under("policy"));
        outer.absorb(Findings::none().under("strategy"));
        assert_eq!(outer.to_string(), "[a, policy: [b, c]]");
    }

    #[test]
    fn findings_are_kept_in_order() {
        let mut findings = Findings::none();
        assert!(findings.is_empty());
        findings.add("z");
        findings.add("a");
        assert_eq!(findings.to_string(), "[z, a]");
    }
}
