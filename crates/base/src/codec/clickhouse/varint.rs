//! ClickHouse's lengths: seven bits a byte, the lowest first.

use crate::error::{Error, Result};

/// No number has more bytes; more is an error and not a longer number.
const LONGEST: usize = 10;

/// The number at `at` and the place behind it; `None`: it goes on behind the end.
#[inline]
pub fn read(bytes: &[u8], at: usize) -> Result<Option<(u64, usize)>> {
    match bytes.get(at) {
        Some(&byte) if byte < 0x80 => Ok(Some((u64::from(byte), at + 1))),
        Some(_) => long(bytes, at),
        None => Ok(None),
    }
}

fn long(bytes: &[u8], at: usize) -> Result<Option<(u64, usize)>> {
    let mut value = 0u64;
    let end = bytes.len().min(at + LONGEST);
    for (place, &byte) in bytes[at..end].iter().enumerate() {
        let bits = u64::from(byte & 0x7f);
        if place == LONGEST - 1 && byte > 1 {
            break;
        }
        value |= bits << (7 * place);
        if byte < 0x80 {
            return Ok(Some((value, at + place + 1)));
        }
    }
    if end - at < LONGEST {
        return Ok(None);
    }
    Err(Error::protocol(format!(
        "byte {at}: a length of more than 64 bits"
    )))
}

/// How many bytes `value` takes.
#[inline]
pub fn width(value: u64) -> usize {
    ((63 - (value | 1).leading_zeros() as usize) / 7) + 1
}

pub fn write(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1, u64::MAX >> bit]) {
            let mut bytes = vec![7];
            write(value, &mut bytes);
            assert_eq!(bytes.len() - 1, width(value), "{value}");
            assert_eq!(read(&bytes, 1).unwrap(), Some((value, bytes.len())));
            for end in 1..bytes.len() {
                assert_eq!(read(&bytes[..end], 1).unwrap(), None);
            }
        }
    }

    #[test]
    fn one_without_end_is_an_error() {
        assert!(read(&[0xff; 20], 0).is_err());
        assert!(read(&[0xff; 10], 0).is_err());
        assert_eq!(read(&[0xff; 9], 0).unwrap(), None);
        // Ten bytes with more than 64 bits in them.
        assert!(read(
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
            0
        )
        .is_err());
    }
}
