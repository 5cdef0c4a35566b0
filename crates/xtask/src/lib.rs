//! Development tasks: tests, generated files, real Kubernetes components on loopback, and the parity suite that compares two
//! API servers. Tests of other crates start real servers with it.

// Arithmetic on times can panic; `clippy.toml` lists the types for which it is allowed.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

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
