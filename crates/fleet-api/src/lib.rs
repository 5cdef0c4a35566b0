//! KubeFleet's wire format as Rust types: what a user, a script or another agent can see, and nothing else.
//!
//! Decides how objects are spelled: kinds, fields, names, labels, conditions, hashes, admission texts. Never does I/O,
//! never reads a clock, never decides what should happen next (that is `fleet-core`).

pub mod admission;
pub mod bits;
pub mod conditions;
pub mod go_json;
pub mod grammar;
pub mod hashes;
pub mod kinds;
pub mod names;
pub mod quantity;
pub mod selector;
pub mod time;
pub mod types;
pub mod well_known;
pub mod yaml;
