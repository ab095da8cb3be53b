#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| venturi_fuzz::postgres_copy::run(input));
