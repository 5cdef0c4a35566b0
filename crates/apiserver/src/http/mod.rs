//! The edge of the server: HTTP in, HTTP out.

pub mod negotiate;
pub mod path;
