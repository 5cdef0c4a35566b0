//! Fuzz targets for every input that crosses a trust boundary, and a runner that mutates a corpus by seed.
//!
//! A target is a plain function of bytes that panics when a property does not hold. The runner needs nothing but the stable
//! toolchain; `fuzz/` in the repository runs the same functions under libFuzzer. Corpora are in `fuzz/corpus`.

// Arithmetic that can panic, above all on times: `clippy.toml` names the types for which it is fine.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod corpus;
mod failure;
mod mutate;
pub mod run;
pub mod targets;
mod watchdog;
mod worker;

/// Runs one input through the target of this name, for libFuzzer's programs. Unknown names do nothing.
pub fn check(target: &str, input: &[u8]) {
    if let Some(target) = targets::find(target) {
        (target.check)(input);
    }
}
