//! Text -> double, correctly rounded, as C's `strtod` reads it in the C locale.
//!
//! Points arrive as text with up to 17 digits, so this is the hottest loop of the store.
//! Up to 19 digits are gathered in one integer, eight at a time, and multiplied by a
//! power of ten of 128 bits (Eisel and Lemire, "Number parsing at a gigabyte per
//! second"); whatever that does not settle goes to the standard library.

/// Powers of ten beyond these go the slow way; 17 digits of a measurement stay inside.
const LARGEST: i32 = 27;

/// 5^q for q from -27 to 27, as 128 bits with the highest one set; those of negative q
/// are rounded up, as the proof of the algorithm wants them.
static POWERS: [(u64, u64); 2 * LARGEST as usize + 1] = powers();

const fn powers() -> [(u64, u64); 2 * LARGEST as usize + 1] {
    let mut table = [(0, 0); 2 * LARGEST as usize + 1];
    let mut power: u128 = 1;
    let mut q = 0;
    while q <= LARGEST {
        let exact = power << power.leading_zeros();
        table[(LARGEST + q) as usize] = ((exact >> 64) as u64, exact as u64);
        if q > 0 {
            let inverse = reciprocal(power);
            table[(LARGEST - q) as usize] = ((inverse >> 64) as u64, inverse as u64);
        }
        power *= 5;
        q += 1;
    }
    table
}

/// floor(2^b / power) + 1, with the b that makes it 128 bits; `power` < 2^64, no power of two.
const fn reciprocal(power: u128) -> u128 {
    let bits = 128 - power.leading_zeros();
    // 2^bits / power has one bit before the point: 127 more are wanted.
    let mut rest = (1u128 << bits) - power;
    let mut quotient: u128 = 1;
    let mut step = 0;
    while step < 127 {
        rest <<= 1;
        quotient <<= 1;
        if rest >= power {
            rest -= power;
            quotient |= 1;
        }
        step += 1;
    }
    quotient + 1
}

/// mantissa * 10^exponent, rounded to even; None: not settled here.
fn scale(mantissa: u64, exponent: i32) -> Option<f64> {
    if mantissa == 0 {
        return Some(0.0);
    }
    if !(-LARGEST..=LARGEST).contains(&exponent) {
        return None;
    }
    let (high, low) = POWERS[(exponent + LARGEST) as usize];
    let zeros = mantissa.leading_zeros();
    let normal = mantissa << zeros;
    let mut product = normal as u128 * high as u128;
    if (product >> 64) as u64 & 0x1ff == 0x1ff {
        // Rounding may hang on what the power's lower half adds.
        product += (normal as u128 * low as u128) >> 64;
    }
    let (upper, lower) = ((product >> 64) as u64, product as u64);
    let top = (upper >> 63) as i32;
    let shift = top + 9;
    let mut bits = upper >> shift;
    let mut power = ((217_706 * exponent) >> 16) + 63 + top - zeros as i32 + 1023;
    // Exactly between two doubles: to even, which rounding up below would miss.
    if lower <= 1 && (-4..=23).contains(&exponent) && bits & 3 == 1 && bits << shift == upper {
        bits &= !1;
    }
    bits = (bits + (bits & 1)) >> 1;
    if bits >= 1 << 53 {
        bits = 1 << 52;
        power += 1;
    }
    Some(f64::from_bits(
        (bits & ((1 << 52) - 1)) | (power as u64) << 52,
    ))
}

/// Whether all eight bytes are digits, and their number.
fn eight(bytes: [u8; 8]) -> Option<u64> {
    let word = u64::from_le_bytes(bytes);
    let digits = word.wrapping_sub(0x3030_3030_3030_3030);
    let above = word.wrapping_add(0x4646_4646_4646_4646);
    if (digits | above) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let low = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let high = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    Some(low.wrapping_add(high) >> 32)
}

/// Gathers digits into `mantissa`; the position of the first byte that is none.
#[inline(always)]
fn gather(text: &[u8], mut at: usize, mantissa: &mut u64) -> usize {
    while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let Some(number) = eight(*chunk) else { break };
        *mantissa = mantissa.wrapping_mul(100_000_000).wrapping_add(number);
        at += 8;
    }
    while let Some(digit) = text.get(at).map(|byte| byte.wrapping_sub(b'0')) {
        if digit > 9 {
            break;
        }
        *mantissa = mantissa.wrapping_mul(10).wrapping_add(digit.into());
        at += 1;
    }
    at
}

/// A plain decimal (sign, digits, point, digits) at the start of `text`, and its length.
/// What follows is the caller's business. None: this needs [`parse`].
#[inline(always)]
pub fn plain(text: &[u8]) -> Option<(f64, usize)> {
    let negative = text.first() == Some(&b'-');
    let start = usize::from(negative);
    let mut mantissa = 0;
    let whole = short(text, start, &mut mantissa);
    let mut at = whole;
    let mut digits = whole - start;
    let mut decimals = 0;
    if text.get(at) == Some(&b'.') {
        at = gather(text, whole + 1, &mut mantissa);
        decimals = at - whole - 1;
        digits += decimals;
    }
    // Nineteen digits fit an integer of 64 bits whatever they are.
    if digits == 0 || digits > 19 || matches!(text.get(at), Some(b'e' | b'E' | b'x' | b'X')) {
        return None;
    }
    let magnitude = scale(mantissa, -(decimals as i32))?;
    Some((if negative { -magnitude } else { magnitude }, at))
}

/// As [`gather`], for the few digits before a point.
#[inline(always)]
fn short(text: &[u8], mut at: usize, mantissa: &mut u64) -> usize {
    while let Some(digit) = text.get(at).map(|byte| byte.wrapping_sub(b'0')) {
        if digit > 9 {
            break;
        }
        *mantissa = mantissa.wrapping_mul(10).wrapping_add(digit.into());
        at += 1;
    }
    at
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

    #[test]
    fn eight_digits() {
        assert_eq!(eight(*b"01234567"), Some(1_234_567));
        assert_eq!(eight(*b"99999999"), Some(99_999_999));
        for at in 0..8 {
            for byte in [b'/', b':', 0, 0xff, b' ', b'.', b'-'] {
                let mut text = *b"12345678";
                text[at] = byte;
                assert_eq!(eight(text), None, "{text:?}");
            }
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
