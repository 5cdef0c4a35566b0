//! The verbs of the API: from a parsed request to a response.
//!
//! The path of a write is: decode → prune and default → admit → prepare and validate → record field owners → compare →
//! store. Reads and watches return the stored bytes where nothing has to change.

pub mod admission;
pub(crate) mod call;
pub mod decode;
pub mod delete;
mod handle;
pub mod lifecycle;
pub mod meta;
mod modify;
mod printed;
mod read;
pub mod request;
pub mod response;
mod scale;
pub mod selector;
pub mod shape;
#[cfg(test)]
pub(crate) mod tests;
mod typeless;
mod watch;
mod write;

pub(crate) use write::is_released as write_released;
