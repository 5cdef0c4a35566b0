//! Names and keys as types, and the formulas of derived names.
//!
//! A text becomes a name by `parse`, and a derived name only by its constructor, so no value of these types is
//! invalid.

mod derived;
mod key;

pub use derived::{
    ApprovalRequestName, BindingName, BindingSuffix, DrainEvictionName, GatePosition, MemberNamespace,
    MemberRoleBindingName, MemberRoleName, OverrideSnapshotName, PolicySnapshotName, ResourceSnapshotName,
    SnapshotPart, WorkBase, WorkName, WorkPart,
};
pub use key::{PlacementKey, PlacementKeyError};

use std::fmt;
use std::sync::Arc;

use k8s_values::validation;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} cannot be the name of a {what}: {}", complaints.join("; "))]
pub struct NameError {
    pub text: String,
    pub what: &'static str,
    pub complaints: Vec<String>,
}

/// Declares a name in one line: what it names, the check of the text, the maximum length in bytes.
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident: $what:literal, $check:path, max $max:expr;)+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub struct $name(Arc<str>);

            impl $name {
                /// Maximum length in bytes.
                pub const MAX_BYTES: usize = $max;

                pub fn parse(text: &str) -> Result<Self, NameError> {
                    let mut complaints = $check(text);
                    if complaints.is_empty() && text.len() > Self::MAX_BYTES {
                        complaints.push(format!("must be no more than {} bytes", Self::MAX_BYTES));
                    }
                    if complaints.is_empty() {
                        return Ok(Self(text.into()));
                    }
                    Err(NameError { text: text.to_owned(), what: $what, complaints })
                }

                pub fn as_str(&self) -> &str {
                    &self.0
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(&self.0)
                }
            }

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    fmt::Debug::fmt(&self.0, f)
                }
            }

            impl AsRef<str> for $name {
                fn as_ref(&self) -> &str {
                    &self.0
                }
            }

            impl std::borrow::Borrow<str> for $name {
                fn borrow(&self) -> &str {
                    &self.0
                }
            }

            impl std::str::FromStr for $name {
                type Err = NameError;

                fn from_str(text: &str) -> Result<Self, NameError> {
                    Self::parse(text)
                }
            }
        )+

        #[cfg(test)]
        const DECLARED: &[(&str, usize, fn(&str) -> bool)] =
            &[$((stringify!($name), $max, |text| $name::parse(text).is_ok())),+];
    };
}

/// A stage's name: lower-case letters and digits, so that it can be parsed from an approval request's name.
fn stage_word(text: &str) -> Vec<String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        return Vec::new();
    }
    vec!["must consist of lower case letters and digits".to_owned()]
}

names! {
    /// A ClusterResourcePlacement or ResourcePlacement. It becomes a label value.
    PlacementName: "placement", validation::dns1123_subdomain, max validation::LABEL_MAX_BYTES;
    /// A member cluster. It becomes a label value; its namespace allows even less (see `MemberNamespace`).
    ClusterName: "member cluster", validation::dns1123_subdomain, max validation::LABEL_MAX_BYTES;
    /// A namespace.
    NamespaceName: "namespace", validation::dns1123_label, max validation::LABEL_MAX_BYTES;
    /// A ClusterResourceOverride or ResourceOverride. It becomes a label value.
    OverrideName: "override", validation::dns1123_subdomain, max validation::LABEL_MAX_BYTES;
    /// A ClusterStagedUpdateRun or StagedUpdateRun. It becomes a label value.
    RunName: "staged update run", validation::dns1123_subdomain, max validation::LABEL_MAX_BYTES;
    /// A ClusterStagedUpdateStrategy or StagedUpdateStrategy.
    StrategyName: "staged update strategy", validation::dns1123_subdomain, max validation::SUBDOMAIN_MAX_BYTES;
    /// A stage of a strategy.
    StageName: "stage", stage_word, max validation::LABEL_MAX_BYTES;
}

/// Position of a snapshot in the history of its owner, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Index(pub u32);

impl Index {
    pub const FIRST: Index = Index(0);

    /// Parses a decimal number without sign or leading zeros.
    pub fn parse(text: &str) -> Option<Self> {
        let canonical = text == "0" || !text.starts_with(['0', '+']);
        text.parse().ok().filter(|_| canonical).map(Self)
    }

    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests;
