//! The target `fleet_file` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fleet_fuzz::check("fleet_file", input));
