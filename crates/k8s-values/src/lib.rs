//! Values of Kubernetes objects, parsed, printed, compared and refused as Kubernetes does. Never does I/O or reads a clock.
//!
//! ```
//! use k8s_values::{GoDuration, IntOrString, Quantity, Selector, int_or_string::Rounding, merge_patch};
//! use serde_json::json;
//!
//! let (request, limit): (Quantity, Quantity) = ("1536Mi".parse()?, "2Gi".parse()?);
//! assert!(request < limit);
//! assert_eq!((&limit - &request).to_string(), "512Mi");
//!
//! assert_eq!("1.5h".parse::<GoDuration>()?.to_string(), "1h30m0s");
//! assert_eq!(IntOrString::from("25%").scaled(10, Rounding::Up)?, 3);
//!
//! let selector = Selector::parse("app=web,tier in (a,b),!old")?;
//! assert!(selector.matches(&[("app".to_owned(), "web".to_owned()), ("tier".to_owned(), "a".to_owned())].into()));
//!
//! let (old, new) = (json!({"spec": {"replicas": 2}}), json!({"spec": {"replicas": 3}}));
//! let patch = merge_patch::diff(&old, &new).unwrap_or_default();
//! assert_eq!(merge_patch::applied(&old, &patch), new);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// Arithmetic that can panic: `clippy.toml` names the types for which it is fine.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod duration;
pub mod go;
pub mod int_or_string;
pub mod json_patch;
pub mod merge_patch;
pub mod quantity;
pub mod selector;
pub mod validation;

pub use duration::GoDuration;
pub use int_or_string::IntOrString;
pub use quantity::Quantity;
pub use selector::{FieldSelector, LabelSelector, LabelSelectorRequirement, Selector};

#[cfg(test)]
mod tests;

use serde::{Deserialize, Deserializer};

/// Reads an explicit null as the default value: other clients write `conditions: null` for "none".
pub fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
