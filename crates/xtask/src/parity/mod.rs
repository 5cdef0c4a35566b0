//! The parity suite: one set of scripts, two API servers, normalised answers side by side. The real kube-apiserver is
//! right by definition. Works against any base URL with a bearer token.

mod age;
pub mod command;
pub mod compare;
mod crds;
pub mod divergence;
mod kubectl;
mod normalise;
mod prose;
pub mod runner;
pub mod script;
pub mod target;
pub mod transcript;
mod variables;
mod watch;

pub use divergence::{Direction, Known};
