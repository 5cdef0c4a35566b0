//! The parity suite: one set of scripts, two API servers, and a comparison of the normalised responses. The real
//! kube-apiserver is the reference. Works with any base URL and bearer token.

mod age;
pub mod command;
pub mod compare;
mod crds;
mod descriptions;
pub mod divergence;
mod kubectl;
mod normalise;
pub mod runner;
pub mod script;
pub mod target;
pub mod transcript;
mod variables;
mod watch;

pub use divergence::{Direction, Known};
