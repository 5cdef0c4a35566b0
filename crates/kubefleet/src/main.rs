//! The program `kubefleet`; everything is in the library.

// Arithmetic on times can panic; `clippy.toml` lists the types for which it is allowed.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

fn main() -> std::process::ExitCode {
    kubefleet::run()
}
