//! Doubles as text: what the standard library reads we read the same, bit for bit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use venturi_core::codec::timeseries::parse::number;

fuzz_target!(|bytes: &[u8]| {
    let ours = number::parse(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(value) = text.parse::<f64>() {
        assert_eq!(ours.map(f64::to_bits), Some(value.to_bits()), "{text}");
    }
});
