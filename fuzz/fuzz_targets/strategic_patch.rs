//! The target `strategic_patch` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fleet_fuzz::check("strategic_patch", input));
