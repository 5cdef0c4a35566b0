//! Values of Kubernetes objects, parsed, printed, compared and refused as Kubernetes does. Never does I/O or reads a clock.
//!
//! ```
//! use k8s_values::Quantity;
//!
//! let request: Quantity = "1536Mi".parse()?;
//! let limit: Quantity = "2Gi".parse()?;
//! assert!(request < limit);
//! assert_eq!((&limit - &request).to_string(), "512Mi");
//! assert_eq!("1.5GB".parse::<Quantity>().unwrap_err().to_string(), "quantities must match the regular expression \
//!     '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
//! # Ok::<(), k8s_values::quantity::QuantityError>(())
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
