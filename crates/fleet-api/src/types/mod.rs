//! Specs, statuses and their parts. The order of fields matters, because hashes depend on it.
//!
//! Optional fields stay optional: a default is a method of the value (`policy.placement_type()`). Never adds a
//! default while decoding, so that an object that is read and written again does not change. Explicit nulls are read
//! as absent.

mod approval;
mod binding;
mod cluster_profile;
mod embedded;
mod envelope;
mod eviction;
mod findings;
mod member;
mod overrides;
mod placement;
mod policy;
mod selectors;
mod snapshot;
mod strategy;
mod update_run;
mod work;

pub use approval::*;
pub use binding::*;
pub use cluster_profile::*;
pub use embedded::*;
pub use envelope::*;
pub use eviction::*;
pub use findings::*;
pub use member::*;
pub use overrides::*;
pub use placement::*;
pub use policy::*;
pub use selectors::*;
pub use snapshot::*;
pub use strategy::*;
pub use update_run::*;
pub use work::*;

pub use k8s_values::int_or_string::{IntOrString, PercentError, Rounding};
pub(crate) use k8s_values::nullable;
pub use k8s_values::{LabelSelector, LabelSelectorRequirement};

/// The schema of an integer without a stated width.
fn plain_integer(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "integer"})
}

/// Declares a closed set of words: an enum whose variants are spelled on the wire exactly as here, and in this order in
/// the schema. The word after `=` is what an absent value means.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident = $default:ident { $($word:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[schemars(inline)]
        pub enum $name {
            $($word,)+
        }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$word),+];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => stringify!($word),)+
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::$default
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

/// Declares a set of words that the schema leaves open: a word that we do not know is kept as it is.
macro_rules! open_words {
    ($(#[$doc:meta])* $name:ident { $($word:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($word,)+
            /// A word of another version, kept so that writing the object back changes nothing.
            Other(String),
        }

        impl $name {
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$word => stringify!($word),)+
                    Self::Other(word) => word,
                }
            }
        }

        impl From<String> for $name {
            fn from(word: String) -> Self {
                match word.as_str() {
                    $(stringify!($word) => Self::$word,)+
                    _ => Self::Other(word),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(Self::from)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string"})
            }
        }
    };
}

use {open_words, words};
