//! A `numeric` as the wire has it: into a decimal, and as text.
//!
//! Source: `numeric_send` and `numeric_out` of src/backend/utils/adt/numeric.c.

use std::io::Write;

use super::decode::short;
use venturi_base::error::Result;

/// Of a number's digits, each of which is four of ours.
const BASE: i128 = 10_000;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const INFINITE: u16 = 0xd000;
const MINUS_INFINITE: u16 = 0xf000;

/// A number as `numeric_send` writes it: digits of base 10,000.
pub struct Numeric<'a> {
    /// The first digit stands for so many powers of 10,000.
    weight: i32,
    sign: u16,
    /// Places behind the point.
    scale: usize,
    digits: &'a [[u8; 2]],
}

impl<'a> Numeric<'a> {
    #[inline]
    pub fn of(value: &'a [u8]) -> Result<Self> {
        let (words, rest) = value.as_chunks::<2>();
        let [count, weight, sign, scale, digits @ ..] = words else {
            return Err(short());
        };
        if digits.len() != usize::from(u16::from_be_bytes(*count)) || !rest.is_empty() {
            return Err(short());
        }
        Ok(Self {
            weight: i16::from_be_bytes(*weight).into(),
            sign: u16::from_be_bytes(*sign),
            scale: usize::from(u16::from_be_bytes(*scale)),
            digits,
        })
    }

    /// In units of the last of `scale` places; `None`: it does not fit.
    #[inline]
    pub fn scaled(&self, digits: u8, scale: i8) -> Option<i128> {
        if self.sign != 0 && self.sign != NEGATIVE {
            return None;
        }
        let behind = self.digits.len() as i32 - 1 - self.weight;
        let mut shift = i32::from(scale) - 4 * behind;
        // Of the last digit only its first places count: 38 of them fit, up to three more would not.
        let cut = (-shift).clamp(0, 3);
        let part = 10i128.pow(cut.unsigned_abs());
        let last = self.digits.len().saturating_sub(1);
        let mut number = 0i128;
        for (at, digit) in self.digits.iter().enumerate() {
            let digit = i128::from(u16::from_be_bytes(*digit));
            let (base, digit) = match at == last {
                true if digit % part != 0 => return None,
                true => (BASE / part, digit / part),
                false => (BASE, digit),
            };
            number = number.checked_mul(base)?.checked_add(digit)?;
        }
        shift += cut;
        if number != 0 {
            let factor = 10i128.checked_pow(shift.unsigned_abs())?;
            number = match shift {
                0.. => number.checked_mul(factor)?,
                _ if number % factor == 0 => number / factor,
                _ => return None,
            };
        }
        let most = 10i128.checked_pow(digits.into())?;
        match number < most {
            true if self.sign == NEGATIVE => Some(-number),
            true => Some(number),
            false => None,
        }
    }

    pub fn text(&self) -> String {
        let mut out = Vec::new();
        self.write(&mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    /// As `numeric_out` writes it.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self.sign {
            NAN => return out.extend_from_slice(b"NaN"),
            INFINITE => return out.extend_from_slice(b"Infinity"),
            MINUS_INFINITE => return out.extend_from_slice(b"-Infinity"),
            NEGATIVE => out.push(b'-'),
            _ => {}
        }
        // The digit that stands for 10,000 to the power of `at`.
        let digit = |at: i32| {
            let place = usize::try_from(self.weight - at).ok();
            place
                .and_then(|place| self.digits.get(place))
                .map_or(0, |digit| u16::from_be_bytes(*digit))
        };
        let first = digit(self.weight.max(0));
        // Writing to memory does not fail.
        let _ = write!(out, "{first}");
        for at in (0..self.weight.max(0)).rev() {
            let _ = write!(out, "{:04}", digit(at));
        }
        if self.scale > 0 {
            out.push(b'.');
            let start = out.len();
            for at in 1..=self.scale.div_ceil(4) as i32 {
                let _ = write!(out, "{:04}", digit(-at));
            }
            out.truncate(start + self.scale);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(digits: &[i16], weight: i16, sign: u16, scale: i16) -> Vec<u8> {
        let head = [digits.len() as i16, weight, sign as i16, scale];
        let words = head.iter().chain(digits);
        words.flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn numbers() {
        for (digits, weight, sign, scale, text, units) in [
            (&[][..], 0, 0, 0, "0", Some(0)),
            (&[], 0, 0, 2, "0.00", Some(0)),
            (&[1], 0, 0, 0, "1", Some(100)),
            (&[1234, 5678], 1, 0, 0, "12345678", Some(1_234_567_800)),
            (&[1], 1, 0, 0, "10000", Some(1_000_000)),
            (&[12, 5000], 0, NEGATIVE, 1, "-12.5", Some(-1250)),
            (&[1, 2000], -1, 0, 5, "0.00012", None),
            (&[5], -1, 0, 4, "0.0005", None),
            (&[500], -1, 0, 2, "0.05", Some(5)),
            (&[1, 0, 3], 2, 0, 0, "100000003", Some(10_000_000_300)),
            (&[], 0, NAN, 0, "NaN", None),
            (&[], 0, MINUS_INFINITE, 0, "-Infinity", None),
        ] {
            let wire = wire(digits, weight, sign, scale);
            let number = Numeric::of(&wire).unwrap();
            assert_eq!(number.text(), text);
            assert_eq!(number.scaled(20, 2), units, "{text}");
        }
        let wide = wire(&[9999; 9], 8, 0, 0);
        assert_eq!(
            Numeric::of(&wide).unwrap().scaled(38, 0),
            Some(10i128.pow(36) - 1)
        );
        assert_eq!(Numeric::of(&wide).unwrap().scaled(35, 0), None);
        // 38 digits, of which the last group of four holds two: with all four they would not fit.
        let cents = wire(
            &[9999, 9999, 9999, 9999, 9999, 9999, 9999, 9999, 9999, 9900],
            8,
            0,
            2,
        );
        assert_eq!(
            Numeric::of(&cents).unwrap().scaled(38, 2),
            Some(10i128.pow(38) - 1)
        );
        let wider = wire(&[9999; 11], 10, 0, 0);
        assert_eq!(Numeric::of(&wider).unwrap().scaled(38, 0), None);
        assert!(Numeric::of(&wider[1..]).is_err() && Numeric::of(&wider[..10]).is_err());
    }
}
