//! KubeFleet's wire format as Rust types: kinds, fields, names, labels, conditions, hashes and admission texts. Never
//! does I/O or reads a clock.

// Arithmetic that can panic, above all on times: `clippy.toml` names the types for which it is fine.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod admission;
pub mod bits;
pub mod conditions;
pub mod hashes;
pub mod kinds;
pub mod names;
pub mod safe_text;
pub mod time;
pub mod types;
pub mod wake;
pub mod well_known;
pub mod yaml;
