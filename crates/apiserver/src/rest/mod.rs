//! What the verbs of the API do: from a parsed request to an answer.

pub mod admission;
pub mod request;
pub mod response;
