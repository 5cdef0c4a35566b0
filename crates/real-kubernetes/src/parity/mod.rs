//! The parity suite: one set of scripts, two API servers, and a comparison of the normalised responses. The real
//! kube-apiserver is the reference. Works with any base URL and bearer token.

mod age;
mod command;
mod compare;
mod crds;
mod descriptions;
mod divergence;
mod known;
mod kubectl;
mod normalise;
mod runner;
mod script;
mod target;
mod transcript;
mod variables;
mod watch;

pub use command::Parity;
