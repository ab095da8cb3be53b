//! Numbers as text: doubles as C's `%.17g` prints them, doubles in their shortest form, integers.
//!
//! 17 digits of a double between 2^-9 and 2^52 are made exactly in 128 bits: the value is
//! m / 2^s, its digits are the integer m x 10^p / 2^s, rounded half to even. All others go the
//! long way through the library.

use std::io::Write;

/// What a function of this file may write over, in bytes; a number itself has at most `LONGEST`.
pub const ROOM: usize = 48;

/// "-1.2345678901234567e-308".
pub const LONGEST: usize = 24;

/// Powers of ten from 0 on that fit.
const POWERS: [u64; 20] = {
    let mut powers = [1u64; 20];
    let mut at = 1;
    while at < 20 {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// Binary exponents for which the quick way is exact: 10^p fits 64 bits, and there is a
/// fraction to be rounded.
const LEAST: i32 = -9;
const MOST: i32 = 51;

/// By binary exponent from `LEAST` on: the decimal exponent of its least value, and from which
/// value on it is one more. (The doubles next to 0.1, 0.01 and 0.001 are above them.)
const EXPONENTS: [(i32, f64); (MOST - LEAST + 1) as usize] = {
    let mut all = [(0, f64::INFINITY); (MOST - LEAST + 1) as usize];
    let tens = [
        1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13,
        1e14, 1e15, 1e16,
    ];
    let mut at = 0;
    while at < all.len() {
        let least = f64::from_bits(((LEAST + at as i32 + 1023) as u64) << 52);
        let mut ten = 0;
        while tens[ten + 1] <= least {
            ten += 1;
        }
        all[at] = (ten as i32 - 3, tens[ten + 1]);
        at += 1;
    }
    all
};

const ZEROS: u64 = 0x3030_3030_3030_3030;

/// Eight decimal digits as bytes 0 to 9, the first in the lowest byte (Khuong's way: all eight
/// are divided at once).
#[inline]
fn eight(number: u32) -> u64 {
    let (high, low) = (u64::from(number / 10_000), u64::from(number % 10_000));
    let merged = high | low << 32;
    let top = ((merged * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let hundreds = ((merged - 100 * top) << 16) + top;
    let tens = ((hundreds * 103) >> 10) & 0x000f_000f_000f_000f;
    tens + ((hundreds - 10 * tens) << 8)
}

#[inline]
fn put<const N: usize>(out: &mut [u8; ROOM], at: usize, bytes: [u8; N]) {
    out[at..at + N].copy_from_slice(&bytes);
}

/// Writes a double as C's `%.17g`: 17 significant digits, without zeros at the end. Returns its
/// length; what lies behind it in `out` may have been written over.
#[inline]
pub fn seventeen(value: f64, out: &mut [u8; ROOM]) -> usize {
    let bits = value.to_bits();
    let binary = ((bits >> 52) & 0x7ff) as i32 - 1023;
    if !(LEAST..=MOST).contains(&binary) {
        return long_way(value, Some(16), out);
    }
    let mantissa = bits & ((1 << 52) - 1) | 1 << 52;
    let shift = 52 - binary;
    let (mut exponent, next) = EXPONENTS[(binary - LEAST) as usize];
    exponent += i32::from(value.abs() >= next);
    let product = u128::from(mantissa) * u128::from(POWERS[(16 - exponent) as usize]);
    let odd = (product >> shift) as u64 & 1;
    let rounded = product + u128::from((1u64 << (shift - 1)) - 1 + odd);
    // 17 digits, never 18: no double is nearer to a power of ten than half a last digit.
    let digits = ((rounded >> 64) as u64) << (64 - shift) | rounded as u64 >> shift;
    let first = (digits / POWERS[16]) as u8;
    let rest = digits % POWERS[16];
    let rest = u128::from(eight((rest / POWERS[8]) as u32))
        | u128::from(eight((rest % POWERS[8]) as u32)) << 64;
    let text = rest | u128::from(ZEROS) << 64 | u128::from(ZEROS);

    let mut at = (bits >> 63) as usize;
    out[0] = b'-';
    if exponent < 0 {
        let zeros = (-exponent) as usize;
        put(out, at, *b"0.00");
        at += 1 + zeros;
        out[at] = b'0' + first;
        put(out, at + 1, text.to_le_bytes());
        return at + 1 + (16 - rest.leading_zeros() as usize / 8);
    }
    let whole = exponent as usize;
    out[at] = b'0' + first;
    put(out, at + 1, text.to_le_bytes());
    out[at + whole + 1] = b'.';
    let fraction = rest >> (8 * whole);
    put(out, at + whole + 2, (text >> (8 * whole)).to_le_bytes());
    let fraction = 16 - fraction.leading_zeros() as usize / 8;
    at + whole + 1 + if fraction > 0 { fraction + 1 } else { 0 }
}

/// Writes a double with as few digits as tell it from every other, laid out as `seventeen` does.
pub fn shortest(value: f64, out: &mut [u8; ROOM]) -> usize {
    long_way(value, None, out)
}

/// Writes an integer. Returns its length.
#[inline]
pub fn integer(value: i64, out: &mut [u8; ROOM]) -> usize {
    let negative = usize::from(value < 0);
    out[0] = b'-';
    let mut left = value.unsigned_abs();
    if left < POWERS[8] {
        let digits = eight(left as u32);
        let zeros = (digits | 1 << 56).trailing_zeros() / 8;
        put(
            out,
            negative,
            ((digits | ZEROS) >> (8 * zeros)).to_le_bytes(),
        );
        return negative + 8 - zeros as usize;
    }
    let mut reversed = [0; 20];
    let mut length = 0;
    while left > 0 {
        reversed[length] = b'0' + (left % 10) as u8;
        left /= 10;
        length += 1;
    }
    for (to, digit) in out[negative..]
        .iter_mut()
        .zip(reversed[..length].iter().rev())
    {
        *to = *digit;
    }
    negative + length
}

/// By the library's digits: so many after the first, or as many as are needed.
#[cold]
fn long_way(value: f64, digits: Option<usize>, out: &mut [u8; ROOM]) -> usize {
    let mut at = 0;
    let mut add = |text: &[u8]| {
        out[at..at + text.len()].copy_from_slice(text);
        at += text.len();
    };
    if value.is_sign_negative() {
        add(b"-");
    }
    if !value.is_finite() {
        add(if value.is_nan() { b"nan" } else { b"inf" });
        return at;
    }
    let mut room = [0u8; 32];
    let mut left = &mut room[..];
    // "d.ddde-300": it always fits.
    let _ = match digits {
        Some(digits) => write!(left, "{:.*e}", digits, value.abs()),
        None => write!(left, "{:e}", value.abs()),
    };
    let unused = left.len();
    let text = &room[..32 - unused];
    let split = text.iter().position(|byte| *byte == b'e');
    let (mantissa, power) = text.split_at(split.unwrap_or(text.len()));
    let power = power
        .get(1..)
        .and_then(|power| std::str::from_utf8(power).ok());
    let exponent: i32 = power.and_then(|power| power.parse().ok()).unwrap_or(0);
    let mut all = [0u8; 17];
    let mut count = 0;
    for digit in mantissa.iter().filter(|byte| **byte != b'.') {
        all[count] = *digit;
        count += 1;
    }
    while count > 1 && all[count - 1] == b'0' {
        count -= 1;
    }
    let all = &all[..count];
    if !(-4..17).contains(&exponent) {
        add(&all[..1]);
        if count > 1 {
            add(b".");
            add(&all[1..]);
        }
        add(if exponent < 0 { b"e-" } else { b"e+" });
        let power = exponent.unsigned_abs();
        if power >= 100 {
            add(&[b'0' + (power / 100) as u8]);
        }
        add(&[b'0' + (power / 10 % 10) as u8, b'0' + (power % 10) as u8]);
    } else if exponent < 0 {
        add(&b"0.0000"[..(1 - exponent) as usize]);
        add(all);
    } else {
        let whole = exponent as usize + 1;
        add(&all[..whole.min(count)]);
        for _ in count..whole {
            add(b"0");
        }
        if count > whole {
            add(b".");
            add(&all[whole..]);
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::records::Random;

    fn ours(value: f64) -> String {
        let mut out = [b'?'; ROOM];
        let length = seventeen(value, &mut out);
        String::from_utf8(out[..length].to_vec()).unwrap()
    }

    fn of_c(value: f64) -> String {
        let mut out = [0u8; 64];
        // SAFETY: the format takes one double, and the buffer has its length.
        let length =
            unsafe { libc::snprintf(out.as_mut_ptr().cast(), 64, c"%.17g".as_ptr(), value) };
        String::from_utf8(out[..length as usize].to_vec()).unwrap()
    }

    #[test]
    fn seventeen_digits_are_those_of_c() {
        let mut random = Random::seeded(1);
        for _ in 0..100_000 {
            let bits = random.draw() as u64;
            let small = f64::from_bits(bits % (64 << 52) + ((1023 - 12) << 52));
            let integer = (bits >> 11) as f64;
            let tie = (bits >> 40) as f64 / 2f64.powi((bits & 63) as i32);
            let decimal = (bits >> 44) as f64 / 1e5;
            for value in [f64::from_bits(bits), small, -small, integer, tie, decimal] {
                assert_eq!(ours(value), of_c(value), "{:016x}", value.to_bits());
            }
        }
    }

    #[test]
    fn and_at_the_seams() {
        for power in -330..310 {
            let ten: f64 = format!("1e{power}").parse().unwrap();
            for bits in [-2i64, -1, 0, 1, 2] {
                let near = f64::from_bits(ten.to_bits().wrapping_add_signed(bits));
                for value in [near, -near, near * 5.0, near * 9.5] {
                    assert_eq!(ours(value), of_c(value), "{:016x}", value.to_bits());
                }
            }
        }
        for binary in -1074..1024 {
            let two = 2f64.powi(binary);
            for value in [
                two,
                two * 1.5,
                f64::from_bits(two.to_bits().wrapping_sub(1)),
            ] {
                assert_eq!(ours(value), of_c(value));
            }
        }
        for value in [
            0.0,
            -0.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MAX,
        ] {
            assert_eq!(ours(value), of_c(value));
        }
        assert_eq!(ours(10.0), "10");
        assert!(ours(-f64::MIN_POSITIVE).len() <= LONGEST);
    }

    #[test]
    fn the_shortest_comes_back_as_it_was() {
        let mut random = Random::seeded(2);
        let text = |value| {
            let mut out = [0; ROOM];
            let length = shortest(value, &mut out);
            String::from_utf8(out[..length].to_vec()).unwrap()
        };
        for _ in 0..20_000 {
            let value = f64::from_bits(random.draw() as u64);
            if value.is_finite() {
                let text = text(value);
                let back: f64 = text.parse().unwrap();
                assert_eq!(back.to_bits(), value.to_bits(), "{text}");
                assert!(text.len() <= ours(value).len());
            }
        }
        assert_eq!(text(0.1), "0.1");
        assert_eq!(text(1e23), "1e+23");
        assert_eq!(text(-120.0), "-120");
    }

    #[test]
    fn integers() {
        let mut random = Random::seeded(3);
        let mut all = vec![0, 7, -7, 10, 99_999_999, 100_000_000, i64::MAX, i64::MIN];
        all.extend((0..10_000).map(|at| random.draw() >> (at % 64)));
        for value in all {
            let mut out = [0; ROOM];
            let length = integer(value, &mut out);
            assert_eq!(out[..length], *value.to_string().as_bytes());
        }
    }
}
