//! Text -> double, correctly rounded, as C's `strtod` reads it in the C locale.
//!
//! Points arrive as text with up to 17 digits, so this is the hottest loop of the store.

use super::digits;

/// A finite decimal at the start of `text`, and its length. What follows is the caller's business.
/// None: this needs [`parse`].
#[inline(always)]
pub fn plain(text: &[u8]) -> Option<(f64, usize)> {
    digits::decimal(text).or_else(|| unusual(text))
}

#[inline(never)]
fn unusual(text: &[u8]) -> Option<(f64, usize)> {
    let (value, length) = fast_float2::parse_partial::<f64, _>(text).ok()?;
    value.is_finite().then_some((value, length))
}

/// A whole text as `strtod` reads it; None where anything is left over.
pub fn parse(text: &[u8]) -> Option<f64> {
    if let Some((value, length)) = plain(text) {
        if length == text.len() {
            return Some(value);
        }
    }
    let text = std::str::from_utf8(text).ok()?;
    let text = text.trim_start_matches([' ', '\t']);
    let (negative, body) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = if let Some(digits) = strip(body, "0x") {
        hexadecimal(digits)?
    } else {
        // The library would take a second sign.
        if body.starts_with(['+', '-']) {
            return None;
        }
        body.parse::<f64>().ok()?
    };
    Some(if negative { -magnitude } else { magnitude })
}

fn strip<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix)
        .then(|| &text[prefix.len()..])
}

/// Hexadecimal digits, a point, a binary exponent: 1.8p3 is 12.
fn hexadecimal(text: &str) -> Option<f64> {
    let (digits, exponent) = match text.split_once(['p', 'P']) {
        None => (text, 0),
        Some((digits, exponent)) => (digits, exponent.parse::<i64>().ok()?),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut mantissa: u64 = 0;
    let mut exponent = exponent.clamp(-100_000, 100_000);
    for (place, digit) in whole.chars().chain(fraction.chars()).enumerate() {
        let digit = u64::from(digit.to_digit(16)?);
        let in_fraction = place >= whole.len();
        if mantissa >> 58 == 0 {
            mantissa = mantissa << 4 | digit;
            exponent -= 4 * i64::from(in_fraction);
        } else {
            // Beyond the bits that are kept: only whether anything was there matters.
            mantissa |= u64::from(digit != 0);
            exponent += 4 * i64::from(!in_fraction);
        }
    }
    Some(binary(mantissa, exponent))
}

/// mantissa * 2^exponent, rounded once.
fn binary(mantissa: u64, exponent: i64) -> f64 {
    if mantissa == 0 {
        return 0.0;
    }
    let highest = i64::from(63 - mantissa.leading_zeros()) + exponent;
    if highest > 1023 {
        return f64::INFINITY;
    }
    // How many bits a double of this size has room for.
    let room = if highest >= -1022 { 53 } else { highest + 1075 };
    if room < 0 {
        return 0.0;
    }
    let length = i64::from(64 - mantissa.leading_zeros());
    let drop = (length - room).max(0) as u32;
    let rounded = if drop == 0 {
        mantissa
    } else if drop > 63 {
        u64::from(mantissa > 1 << 63)
    } else {
        let (kept, rest, half) = (
            mantissa >> drop,
            mantissa & ((1 << drop) - 1),
            1 << (drop - 1),
        );
        kept + u64::from(rest > half || rest == half && kept & 1 == 1)
    };
    // Exact from here: in two steps, as one power may be too small for a double.
    let exponent = (exponent + i64::from(drop)) as i32;
    let half = exponent / 2;
    rounded as f64 * 2f64.powi(half) * 2f64.powi(exponent - half)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn same(text: &str) {
        let ours = parse(text.as_bytes()).map(f64::to_bits);
        assert_eq!(ours, text.parse::<f64>().ok().map(f64::to_bits), "{text}");
    }

    #[test]
    fn edges() {
        for text in [
            "0",
            "-0",
            "0.0",
            "1",
            "10.012345678901234",
            "9007199254740993",
            "9007199254740992.5",
            "18446744073709551615",
            "9999999999999999999",
            "99999999999999999999",
            "1e3",
            "1e-400",
            "1.5e308",
            "1.8e308",
            "4.9e-324",
            "2.4703282292062327e-324",
            ".5",
            "5.",
            "0.1",
            "1e23",
            "8.5e22",
            "123456789012345678901234567890",
            "0.000000000000000000000000001",
            "",
            "1..2",
            "1e",
            "e1",
            ".",
            "-",
            "1 ",
            "12a",
            "--1",
            "nan",
            "inf",
            "-inf",
            "infinity",
        ] {
            same(text);
        }
        assert_eq!(parse(b"0x10"), Some(16.0));
        assert_eq!(parse(b"-0X1.8p3"), Some(-12.0));
        assert_eq!(parse(b"0x1p-1074"), Some(f64::from_bits(1)));
        assert_eq!(parse(b"0x0.8p-1074"), Some(0.0));
        assert_eq!(parse(b"0x1.fffffffffffff8p0"), Some(2.0));
        assert_eq!(parse(b"0x1p1024"), Some(f64::INFINITY));
        assert_eq!(parse(b" +7"), Some(7.0));
        for wrong in ["0x", "0xg", "+-1", "0x1p", "1\0", "\u{661}"] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn any_double_comes_back(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            for text in [format!("{value}"), format!("{value:e}"), format!("{value:.16e}")] {
                same(&text);
                prop_assert_eq!(parse(text.as_bytes()).map(f64::to_bits), Some(bits));
            }
        }

        #[test]
        fn decimals_as_the_library(whole in 0u64.., decimals in "[0-9]{0,24}", dash: bool) {
            let sign = if dash { "-" } else { "" };
            same(&format!("{sign}{whole}.{decimals}"));
            same(&format!("{sign}{}.{decimals}", whole % 100));
        }

        #[test]
        fn halfway_between_two_doubles(bits in 1u64 << 52..1 << 53, shift in 1u32..12) {
            // 2^53 + 1 and the like: ties, and their neighbours.
            let tie = u128::from((bits << 1) + 1) << (shift - 1);
            for near in [tie - 1, tie, tie + 1] {
                same(&format!("{near}"));
                same(&format!("{near}.0"));
            }
        }

        #[test]
        fn anything(text in "[-+0-9.eExX nNaAiIfFp]{0,12}") {
            // No panic; and what the library takes, it reads the same.
            if !text.contains(['x', 'X', ' ']) && !text.starts_with("+-") && !text.starts_with("-+") {
                same(&text);
            }
        }
    }
}
