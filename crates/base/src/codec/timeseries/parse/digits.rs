//! Decimal digits, eight of them at a time, and short decimals as doubles.
//!
//! What a store is sent is digits above all, and where a number ends can hardly be predicted: a
//! branch a digit costs more than all the arithmetic here. Whatever is long or unusual is left to
//! [`super::number`].

/// A sign, a point, as many digits as are looked at and what ends them, so that nothing here
/// looks whether the text goes on.
const BLOCK: usize = 48;
/// Digits that a word of 64 bits always has room for.
const MOST: usize = 19;

const TENS: [u64; 9] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
];

/// Powers of ten that doubles hold exactly.
const EXACT: [f64; MOST + 1] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19,
];

/// The highest 128 bits of 1 / 5^k, rounded up, in two words.
const FIFTHS: [(u64, u64); MOST + 1] = {
    let mut all = [(1 << 63, 0); MOST + 1];
    let mut k = 1;
    while k <= MOST {
        let divisor = 5u128.pow(k as u32);
        let mut rest = 1u128 << divisor.ilog2();
        let mut quotient = 0u128;
        let mut bit = 0;
        while bit < 128 {
            rest <<= 1;
            quotient <<= 1;
            if rest >= divisor {
                rest -= divisor;
                quotient |= 1;
            }
            bit += 1;
        }
        quotient += 1;
        all[k] = ((quotient >> 64) as u64, quotient as u64);
        k += 1;
    }
    all
};

/// A text that is shorter than a block, with zeros behind it.
#[cold]
fn padded(text: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..text.len()].copy_from_slice(text);
    block
}

/// The digits at the front of eight bytes, as a number, and how many there are.
#[inline(always)]
fn eight(block: &[u8; BLOCK], at: usize) -> (u64, usize) {
    // Beyond the mask, which tells the compiler that all is within the block, are only numbers
    // that are too long.
    let at = at & 31;
    let bytes = [
        block[at],
        block[at + 1],
        block[at + 2],
        block[at + 3],
        block[at + 4],
        block[at + 5],
        block[at + 6],
        block[at + 7],
    ];
    let low = u64::from_le_bytes(bytes) ^ 0x3030_3030_3030_3030;
    // Above 9 a byte reaches its upper half. What it carries changes bytes behind it only.
    let others = (low | low.wrapping_add(0x0606_0606_0606_0606)) & 0xF0F0_F0F0_F0F0_F0F0;
    let count = others.trailing_zeros() as usize / 8;
    // Zeros in front take the place of what is no digit; in two steps, as it may be everything.
    let half = 32 - 4 * count as u32;
    let digits = low << half << half;
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let low = (pairs & 0x0000_00FF_0000_00FF).wrapping_mul(0x000F_4240_0000_0064);
    let high = (pairs >> 16 & 0x0000_00FF_0000_00FF).wrapping_mul(0x0000_2710_0000_0001);
    (low.wrapping_add(high) >> 32, count)
}

/// The digits at the front of `text`, as a number, and how many there are: 1 to 19. None: there
/// is none, or there are more.
#[inline(always)]
pub fn parse_digits(text: &[u8]) -> Option<(u64, usize)> {
    let room;
    let block = match text.first_chunk() {
        Some(block) => block,
        None => {
            room = padded(text);
            &room
        }
    };
    let (mut number, mut count) = eight(block, 0);
    if count == 8 {
        let (more, further) = eight(block, 8);
        number = number * TENS[further] + more;
        count += further;
        if further == 8 {
            let (more, further) = eight(block, 16);
            if further > MOST - 16 {
                return None;
            }
            number = number * TENS[further] + more;
            count += further;
        }
    }
    (count > 0).then_some((number, count))
}

/// A decimal at the front of `text` and its length: a sign or none, digits, and digits behind a
/// point; 19 of them at most, no exponent. None: it is another one.
#[inline(always)]
pub fn decimal(text: &[u8]) -> Option<(f64, usize)> {
    let room;
    let block = match text.first_chunk() {
        Some(block) => block,
        None => {
            room = padded(text);
            &room
        }
    };
    let negative = block[0] == b'-';
    let mut at = usize::from(negative);
    let (mut number, mut digits) = eight(block, at);
    if digits == 0 {
        return None;
    }
    at += digits;
    if digits == 8 {
        let (more, further) = eight(block, at);
        if further == 8 {
            return None;
        }
        number = number * TENS[further] + more;
        at += further;
        digits += further;
    }
    let mut behind = 0;
    if block[at] == b'.' {
        let (more, further) = eight(block, at + 1);
        if further == 0 {
            return None;
        }
        at += 1 + further;
        behind = further;
        number = number.wrapping_mul(TENS[further]).wrapping_add(more);
        // Digits that have no room are found out below, whatever the number is by then. Where
        // values lie around a power of ten, nobody can foresee how many there are: no branch.
        if further == 8 {
            let (more, further) = eight(block, at);
            at += further;
            behind += further;
            number = number.wrapping_mul(TENS[further]).wrapping_add(more);
            let all = usize::from(further == 8);
            let (more, further) = eight(block, at);
            let further = further * all;
            at += further;
            behind += further;
            number = number
                .wrapping_mul(TENS[further])
                .wrapping_add(more * all as u64);
        }
        if digits + behind > MOST {
            return None;
        }
    }
    if block[at] | 0x20 == b'e' {
        return None;
    }
    let value = shifted(number, behind);
    Some((if negative { -value } else { value }, at))
}

/// number / 10^places, correctly rounded, for up to 19 places.
#[inline(always)]
fn shifted(number: u64, places: usize) -> f64 {
    if number < 1 << 53 {
        // Both are exact, and division rounds once.
        return number as f64 / EXACT[places];
    }
    eisel_lemire(number, places)
}

/// Lemire, "Number Parsing at a Gigabyte per Second" (2021), algorithm 1. Numbers here are never
/// too small or too large for a normal double, and the product's 128 bits always suffice (his
/// section 9 shows it down to 10^-27).
#[inline(always)]
fn eisel_lemire(number: u64, places: usize) -> f64 {
    let zeros = number.leading_zeros();
    let number = number << zeros;
    let (upper, lower) = FIFTHS[places];
    let product = u128::from(number) * u128::from(upper);
    let (mut high, mut low) = ((product >> 64) as u64, product as u64);
    if high & 0x1FF == 0x1FF {
        let more = ((u128::from(number) * u128::from(lower)) >> 64) as u64;
        let (sum, carry) = low.overflowing_add(more);
        low = sum;
        high += u64::from(carry);
    }
    let above = (high >> 63) as u32;
    let shift = above + 64 - 52 - 3;
    let mut mantissa = high >> shift;
    // 217706 / 2^16 is log2(10): the power of two just below 10^-places.
    let power = ((-(places as i32) * 217_706) >> 16) + 63;
    let mut exponent = power + above as i32 - zeros as i32 + 1023;
    if low <= 1 && places <= 4 && mantissa & 3 == 1 && mantissa << shift == high {
        // Halfway between two doubles: to the even one.
        mantissa &= !1;
    }
    mantissa += mantissa & 1;
    mantissa >>= 1;
    if mantissa >> 53 == 1 {
        mantissa = 1 << 52;
        exponent += 1;
    }
    f64::from_bits(mantissa & !(1 << 52) | (exponent as u64) << 52)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same at the end of a text, and with much behind it.
    fn followed(text: &str, by: &str) -> [Vec<u8>; 2] {
        let end = [text, by].concat().into_bytes();
        let more = [&end[..], &[b' '; BLOCK]].concat();
        [end, more]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn integers(number: u64, digits in 1usize..=20, by in "[^0-9]?") {
            let text = format!("{number:020}");
            let text = &text[20 - digits..];
            let expected = (digits <= MOST).then(|| (text.parse().unwrap(), digits));
            for text in followed(text, &by) {
                prop_assert_eq!(parse_digits(&text), expected);
            }
        }

        #[test]
        fn decimals_as_the_library_reads_them(
            before in "-?[0-9]{1,15}",
            behind in "(\\.[0-9]{1,18})?",
            by in "[^0-9.eE]?",
        ) {
            let text = format!("{before}{behind}");
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            let value: f64 = text.parse().unwrap();
            let expected = (digits <= MOST).then_some((value.to_bits(), text.len()));
            for text in followed(&text, &by) {
                let found = decimal(&text).map(|(value, end)| (value.to_bits(), end));
                prop_assert_eq!(found, expected);
            }
        }

        #[test]
        fn halfway_between_two_doubles(bits in 1u64 << 52..1 << 53, down in 0u32..11, tens in 0u32..5) {
            // Ties, and their neighbours, on both sides of the point.
            let odd = ((bits << 1) + 1) >> down << down;
            for near in [odd - 1, odd, odd + 1] {
                let text = (near as u128 * 10u128.pow(tens)).to_string();
                let split = text.len() - tens as usize;
                let text = format!("{}.{}0", &text[..split], &text[split..]);
                if let Some((value, _)) = decimal(text.as_bytes()) {
                    prop_assert_eq!(value.to_bits(), text.parse::<f64>().unwrap().to_bits());
                }
            }
        }

        #[test]
        fn any_text(text in "[-+0-9.eE]{0,45}") {
            if let Some((value, end)) = decimal(text.as_bytes()) {
                prop_assert_eq!(value.to_bits(), text[..end].parse::<f64>().unwrap().to_bits());
                prop_assert!(!text[end..].starts_with(|c: char| c.is_ascii_digit() || c == 'e'));
            }
        }
    }

    #[test]
    fn what_is_left_to_others() {
        for text in [
            "",
            ".5",
            "5.",
            "1e3",
            "1.5E3",
            "+1",
            "nan",
            "--1",
            "1234567890123456",
        ] {
            for text in followed(text, "") {
                assert_eq!(decimal(&text), None, "{text:?}");
            }
        }
        assert_eq!(decimal(b"0x10"), Some((0.0, 1)));
        let (value, end) = decimal(b"-0.0\r\n").unwrap();
        assert!(value == 0.0 && value.is_sign_negative() && end == 4);
    }
}
