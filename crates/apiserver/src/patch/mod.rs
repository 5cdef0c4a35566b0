//! The three ways to say what should change in an object: JSON patch, JSON merge patch, strategic merge patch.
//!
//! Decides what the patched document is, from document and patch alone (and a schema, for the strategic one). Never
//! decides whether the result is valid, and knows nothing of field managers: server-side apply is elsewhere.

mod json;
mod merge;
mod strategic;

pub use json::json_patch;
pub use merge::merge_patch;
pub use strategic::strategic_merge_patch;

use crate::error::{ApiError, Details, Reason};

/// How the real server answers a patch that can be read but not applied. It keeps the reason to itself.
fn unprocessable() -> ApiError {
    let mut error = ApiError::new(Reason::Invalid, "the server rejected our request due to an error in our request");
    error.details = Some(Details::default());
    error
}
