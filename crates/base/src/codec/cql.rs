//! Values as CQL's protocol 4 sends them -> columns.
//!
//! Source: native_protocol_v4.spec, 6 (data types).

#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use arrow_buffer::IntervalMonthDayNano;

use crate::data::column::Column;
use crate::error::{Error, Result};

/// Bytes of a varint that is written as text: the work grows by the square of them.
const LONGEST: usize = 4096;
/// The most decimal digits that fit 64 bits, and the number behind them.
const DIGITS: usize = 19;
const CHUNK: u64 = 10u64.pow(DIGITS as u32);

/// How a value lies on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    Bool,
    Int8,
    Int16,
    Int32,
    /// A bigint, a counter, a time of the day in ns, a timestamp in ms.
    Int64,
    Float32,
    Float64,
    /// The bytes are the value, of any length.
    Bytes,
    Uuid,
    Date,
    Duration,
    /// These become text: they may have any size.
    Varint,
    Decimal,
    Inet,
    /// A list or a set.
    List(Box<Form>),
    Map(Box<[Form; 2]>),
    /// A tuple, or a type of a user's.
    Struct(Vec<Form>),
}

/// Adds a value that is no null.
#[inline]
pub fn push(form: &Form, column: &mut Column, value: &[u8]) -> Result<()> {
    let whole = matches!(
        form,
        Form::Bytes | Form::List(_) | Form::Map(_) | Form::Struct(_)
    );
    if value.is_empty() && !whole {
        // CQL's `empty`, which a number, a time, a uuid may be: Arrow has nothing between null and a value.
        column.push_null();
        return Ok(());
    }
    match form {
        Form::Bool => column.push_bool(fixed::<1>(value)?[0] != 0),
        Form::Int8 => column.push(i8::from_be_bytes(fixed(value)?)),
        Form::Int16 => column.push(i16::from_be_bytes(fixed(value)?)),
        Form::Int32 => column.push(i32::from_be_bytes(fixed(value)?)),
        Form::Int64 => column.push(i64::from_be_bytes(fixed(value)?)),
        Form::Float32 => column.push(f32::from_be_bytes(fixed(value)?)),
        Form::Float64 => column.push(f64::from_be_bytes(fixed(value)?)),
        Form::Bytes => column.push_bytes(value),
        Form::Uuid => column.push_bytes(&fixed::<16>(value)?),
        // Without a sign, 1970-01-01 in the middle.
        Form::Date => column.push((u32::from_be_bytes(fixed(value)?) ^ (1 << 31)) as i32),
        Form::Duration => duration(column, value),
        Form::Varint => {
            bounded(column, value)?;
            column.push_written(|out| {
                let (negative, digits) = digits(value);
                if negative {
                    out.push(b'-');
                }
                out.extend_from_slice(&digits);
            })?;
            Ok(())
        }
        Form::Decimal => {
            let (scale, unscaled) = value.split_first_chunk().ok_or_else(short)?;
            bounded(column, unscaled)?;
            column.push_written(|out| decimal(i32::from_be_bytes(*scale), unscaled, out))?;
            Ok(())
        }
        Form::Inet => {
            let text = match value.len() {
                4 => Ipv4Addr::from(fixed::<4>(value)?).to_string(),
                _ => Ipv6Addr::from(fixed::<16>(value)?).to_string(),
            };
            column.push_bytes(text.as_bytes())
        }
        Form::List(item) => list(column, value, |reader, items| {
            optional(item, items, reader.value()?)
        }),
        Form::Map(pair) => list(column, value, |reader, pairs| {
            pairs.push_struct(|columns| fields(&pair[..], columns, reader))
        }),
        Form::Struct(forms) => {
            let mut reader = Reader(value);
            column.push_struct(|columns| fields(forms, columns, &mut reader))?;
            over(&reader)
        }
    }
}

#[inline]
fn fixed<const N: usize>(value: &[u8]) -> Result<[u8; N]> {
    value.try_into().map_err(|_| short())
}

fn bounded(column: &Column, value: &[u8]) -> Result<()> {
    match value.len() <= LONGEST {
        true => Ok(()),
        false => Err(Error::protocol(format!(
            "column {}: a number of {} bytes, of which {LONGEST} are read at most",
            column.name(),
            value.len()
        ))),
    }
}

fn optional(form: &Form, column: &mut Column, value: Option<&[u8]>) -> Result<()> {
    match value {
        Some(value) => push(form, column, value),
        None => {
            column.push_null();
            Ok(())
        }
    }
}

/// Values one behind the other. Of a type to which fields were added later, the last may be missing.
fn fields(forms: &[Form], columns: &mut [Column], reader: &mut Reader<'_>) -> Result<()> {
    for (form, column) in forms.iter().zip(columns) {
        let value = match reader.0.is_empty() {
            true => None,
            false => reader.value()?,
        };
        optional(form, column, value)?;
    }
    Ok(())
}

/// A list's, a set's or a map's, each of which `next` takes.
fn list(
    column: &mut Column,
    value: &[u8],
    mut next: impl FnMut(&mut Reader<'_>, &mut Column) -> Result<()>,
) -> Result<()> {
    let mut reader = Reader(value);
    // An empty value is an empty list.
    let count = if value.is_empty() { 0 } else { reader.u32()? };
    // Each has its length at least.
    if count as usize > reader.0.len() / 4 {
        return Err(short());
    }
    column.push_list(|items| {
        for _ in 0..count {
            next(&mut reader, items)?;
        }
        over(&reader)
    })
}

fn over(reader: &Reader<'_>) -> Result<()> {
    match reader.0.is_empty() {
        true => Ok(()),
        false => Err(Error::protocol("bytes behind the last value in another")),
    }
}

fn duration(column: &mut Column, value: &[u8]) -> Result<()> {
    let mut rest = value;
    let mut next = || {
        let (number, after) = vint(rest)?;
        rest = after;
        // Zigzag: the sign is the lowest bit.
        Ok::<_, Error>((number >> 1) as i64 ^ -((number & 1) as i64))
    };
    let (months, days, nanos) = (next()?, next()?, next()?);
    let narrow = |number: i64| i32::try_from(number).map_err(|_| short());
    column.push(IntervalMonthDayNano::new(
        narrow(months)?,
        narrow(days)?,
        nanos,
    ))
}

/// A number without a sign: as many ones as its first byte begins with, so many bytes follow.
fn vint(bytes: &[u8]) -> Result<(u64, &[u8])> {
    let (&first, rest) = bytes.split_first().ok_or_else(short)?;
    let more = first.leading_ones() as usize;
    let (tail, rest) = rest.split_at_checked(more).ok_or_else(short)?;
    let head = u64::from(first) & (0xff >> more.min(8));
    let number = tail
        .iter()
        .fold(head, |all, byte| all << 8 | u64::from(*byte));
    Ok((number, rest))
}

/// Whether a number in two's complement, the highest byte first, is below zero, and its digits.
fn digits(value: &[u8]) -> (bool, Vec<u8>) {
    let negative = value.first().is_some_and(|first| first & 0x80 != 0);
    if value.len() <= 16 {
        let start = if negative { -1i128 } else { 0 };
        let number = value
            .iter()
            .fold(start, |all, byte| all << 8 | i128::from(*byte));
        return (negative, number.unsigned_abs().to_string().into_bytes());
    }
    // Limbs of 64 bits, the lowest first.
    let mut limbs: Vec<u64> = value
        .rchunks(8)
        .map(|chunk| {
            let start = if negative { u64::MAX } else { 0 };
            chunk
                .iter()
                .fold(start, |all, byte| all << 8 | u64::from(*byte))
        })
        .collect();
    if negative {
        let mut carry = true;
        for limb in &mut limbs {
            (*limb, carry) = (!*limb).overflowing_add(carry.into());
        }
        // The lowest number of all has no counterpart with as many bits.
        limbs.extend(carry.then_some(1));
    }
    let trim = |limbs: &mut Vec<u64>| {
        let used = limbs.iter().rposition(|limb| *limb != 0);
        limbs.truncate(used.map_or(0, |last| last + 1));
    };
    trim(&mut limbs);
    let mut chunks = Vec::new();
    while !limbs.is_empty() {
        let mut rest = 0u128;
        for limb in limbs.iter_mut().rev() {
            let whole = rest << 64 | u128::from(*limb);
            *limb = (whole / u128::from(CHUNK)) as u64;
            rest = whole % u128::from(CHUNK);
        }
        trim(&mut limbs);
        chunks.push(rest as u64);
    }
    let mut text = chunks.pop().unwrap_or(0).to_string().into_bytes();
    for chunk in chunks.iter().rev() {
        // Writing to memory does not fail.
        let _ = write!(text, "{chunk:0width$}", width = DIGITS);
    }
    (negative, text)
}

/// As Java's BigDecimal, and with it cqlsh, writes it: with an exponent where zeros would fill it up.
fn decimal(scale: i32, unscaled: &[u8], out: &mut Vec<u8>) {
    let (negative, digits) = digits(unscaled);
    if negative {
        out.push(b'-');
    }
    let exponent = digits.len() as i64 - 1 - i64::from(scale);
    if scale == 0 {
        out.extend_from_slice(&digits);
    } else if scale > 0 && exponent >= -6 {
        let scale = scale as usize;
        match digits.len().checked_sub(scale) {
            Some(whole) if whole > 0 => {
                out.extend_from_slice(&digits[..whole]);
                out.push(b'.');
                out.extend_from_slice(&digits[whole..]);
            }
            _ => {
                out.extend_from_slice(b"0.");
                out.resize(out.len() + scale - digits.len(), b'0');
                out.extend_from_slice(&digits);
            }
        }
    } else {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        let _ = write!(out, "E{exponent:+}");
    }
}

fn short() -> Error {
    Error::protocol("an answer of CQL that is cut short")
}

/// Takes values from the front of one that has others in it.
#[derive(Debug, Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    fn u32(&mut self) -> Result<u32> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(short)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*taken))
    }

    /// `None`: a null.
    #[inline]
    fn value(&mut self) -> Result<Option<&'a [u8]>> {
        let Ok(length) = usize::try_from(self.u32()? as i32) else {
            return Ok(None);
        };
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(short)?;
        self.0 = rest;
        Ok(Some(taken))
    }
}
