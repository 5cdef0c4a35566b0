//! The member agent and its side-car in a program of a fraction of the size of `kubefleet`, for members with little memory.

// Arithmetic on times can panic; `clippy.toml` lists the types for which it is allowed.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

fn main() -> std::process::ExitCode {
    kubefleet::run_member_agent()
}
