//! The target `work_manifests` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fleet_fuzz::check("work_manifests", input));
