#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| venturi_fuzz::charrow_ring::run(input));
