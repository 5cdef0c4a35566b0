//! The target `json_body` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fleet_fuzz::check("json_body", input));
