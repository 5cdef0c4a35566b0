//! The verbs of the API: from a parsed request to a response.
//!
//! The path of a write is: decode → prune and default → admit → prepare and validate → record field owners → compare →
//! store. Reads and watches return the stored bytes where nothing has to change.

pub(crate) mod admission;
pub(crate) mod call;
pub(crate) mod decode;
pub(crate) mod delete;
mod handle;
pub(crate) mod lifecycle;
pub(crate) mod meta;
mod modify;
mod printed;
mod read;
pub(crate) mod request;
pub(crate) mod response;
mod scale;
pub(crate) mod selector;
pub(crate) mod shape;
#[cfg(test)]
pub(crate) mod tests;
mod typeless;
mod watch;
mod write;

pub(crate) use write::is_released as write_released;
