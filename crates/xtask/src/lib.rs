//! The project's chores as a library: tests, generated files, real Kubernetes components on loopback, and the parity suite
//! that holds two API servers against each other. Tests of other crates start real servers through it. It decides
//! nothing about fleets.

pub mod bench;
pub mod cargo;
pub mod codegen;
pub mod codegen_builtin;
pub mod console;
pub mod coverage;
pub mod http;
pub mod parity;
pub mod real;
pub mod signals;
pub mod sim;
pub mod test;
