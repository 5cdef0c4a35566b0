//! JSON patch, JSON merge patch and strategic merge patch. Server-side apply is in `apply`.

mod json;
mod merge;
mod strategic;

pub use json::json_patch;
pub use merge::merge_patch;
pub use strategic::{go_map, strategic_merge_patch};

use crate::error::{ApiError, Details, Reason};

/// How the real server answers a patch that can be read but not applied. It keeps the reason to itself.
fn unprocessable() -> ApiError {
    let mut error = ApiError::new(Reason::Invalid, "the server rejected our request due to an error in our request");
    error.details = Some(Details::default());
    error
}
