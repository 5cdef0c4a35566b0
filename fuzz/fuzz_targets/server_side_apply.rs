//! The target `server_side_apply` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fleet_fuzz::check("server_side_apply", input));
