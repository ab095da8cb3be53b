//! Doubles as text: what the standard library reads we read the same, bit for bit.

use venturi_core::codec::timeseries::parse::number;

pub fn run(bytes: &[u8]) {
    let ours = number::parse(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(value) = text.parse::<f64>() {
        assert_eq!(ours.map(f64::to_bits), Some(value.to_bits()), "{text}");
    }
}
