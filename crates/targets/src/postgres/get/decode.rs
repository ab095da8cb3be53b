//! Values in Postgres' binary formats -> columns, straight from where the wire's bytes lie.
//!
//! Sources: the `send` functions of src/backend/utils/adt (`array_send`, `interval_send`,
//! `timestamp_send`), and "Binary Format" of COPY in the manual.

use arrow_array::RecordBatch;
use arrow_buffer::IntervalMonthDayNano;

use super::super::types::{DAYS, DAY_MICROS, HEADER, MICROS};
use super::numeric::Numeric;
use super::types::{form, Form};
use crate::read::{infinite, large, midnight, out_of_range, Question};
use venturi_base::data::column::{Column, Columns};
use venturi_base::error::{Error, Kind, Result};

/// Bytes of an array before its first value, where it has one dimension.
const ARRAY_HEAD: usize = 20;
/// The first bits of COPY's flags: what is unknown there must not be read.
const CRITICAL: u32 = 0xffff_0000;

pub struct Decoder {
    forms: Vec<Form>,
    columns: Columns,
    rows_per_batch: usize,
    /// Bytes of a row at most.
    limit: usize,
    /// Bytes of a COPY that are no whole row yet.
    rest: Vec<u8>,
    begun: bool,
    ended: bool,
}

impl Decoder {
    pub fn new(columns: &[tokio_postgres::Column], question: &Question) -> Result<Self> {
        let forms = columns.iter().map(|column| Ok(form(column)?.0));
        let forms = forms.collect::<Result<Vec<_>>>()?;
        Self::of(forms, question)
    }

    pub fn of(forms: Vec<Form>, question: &Question) -> Result<Self> {
        if forms.len() != question.schema.fields().len() {
            return Err(Error::protocol(
                "a stream's query has other columns than the whole one",
            ));
        }
        Ok(Self {
            forms,
            columns: Columns::new(&question.schema, question.limit)?,
            rows_per_batch: question.rows_per_batch,
            limit: question.limit,
            rest: Vec::new(),
            begun: false,
            ended: false,
        })
    }

    pub fn is_full(&self) -> bool {
        self.columns.rows() >= self.rows_per_batch
    }

    /// Takes a row, value by value; `get` gives the bytes of each, or none of a null.
    pub fn row<'a>(
        &mut self,
        mut get: impl FnMut(usize) -> Result<Option<&'a [u8]>>,
    ) -> Result<()> {
        let mut size = 0;
        let columns = self.columns.each().iter_mut().zip(&self.forms);
        for (at, (column, form)) in columns.enumerate() {
            match get(at)? {
                None => column.push_null(),
                Some(value) => size += push(form, column, value)?,
            }
        }
        self.columns.row(size)
    }

    /// The batch of what is there; none of no rows.
    pub fn finish(&mut self) -> Result<Option<RecordBatch>> {
        self.columns.finish()
    }

    /// Takes a piece of a COPY, which as a rule is one row.
    pub fn copied(&mut self, piece: &[u8]) -> Result<()> {
        if self.rest.is_empty() {
            let used = self.take(piece)?;
            self.rest.extend_from_slice(&piece[used..]);
            return Ok(());
        }
        let mut whole = std::mem::take(&mut self.rest);
        whole.extend_from_slice(piece);
        let used = self.take(&whole)?;
        whole.drain(..used);
        self.rest = whole;
        Ok(())
    }

    /// The COPY is over: it must have said so itself.
    pub fn end_copy(&self) -> Result<()> {
        match self.ended && self.rest.is_empty() {
            true => Ok(()),
            false => Err(Error::protocol(
                "the COPY broke off in the midst of its rows",
            )),
        }
    }

    /// Takes whole rows from the front; returns the bytes taken.
    fn take(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut at = 0;
        if !self.begun {
            let Some(head) = bytes.get(..HEADER.len()) else {
                return Ok(0);
            };
            let (flags, more) = (u32_at(head, 11)?, u32_at(head, 15)? as usize);
            if head[..11] != HEADER[..11] || flags & CRITICAL != 0 {
                return Err(Error::protocol("the server's answer is no COPY in binary; is something between here and PostgreSQL?"));
            }
            self.bounded(more)?;
            if bytes.len() < head.len() + more {
                return Ok(0);
            }
            at = head.len() + more;
            self.begun = true;
        }
        while at < bytes.len() {
            match self.length(&bytes[at..])? {
                None => break,
                Some(length) => {
                    if !self.ended {
                        self.tuple(&bytes[at + 2..at + length])?;
                    }
                    at += length;
                }
            }
        }
        Ok(at)
    }

    /// Bytes of the row in front, if it is there as a whole.
    #[inline]
    fn length(&mut self, bytes: &[u8]) -> Result<Option<usize>> {
        if self.ended {
            return Err(Error::protocol("bytes behind the end of the COPY"));
        }
        let Some(count) = bytes.first_chunk::<2>() else {
            return Ok(None);
        };
        match i16::from_be_bytes(*count) {
            -1 => {
                self.ended = true;
                return Ok(Some(2));
            }
            count if count as usize == self.forms.len() && count >= 0 => {}
            count => {
                let (known, count) = (self.forms.len(), count);
                let what = format!("a row of {count} values where the query has {known} columns");
                return Err(Error::protocol(what));
            }
        }
        let mut at = 2;
        for _ in 0..self.forms.len() {
            let Some(length) = bytes.get(at..).and_then(<[u8]>::first_chunk::<4>) else {
                return Ok(None);
            };
            at += 4;
            match i32::from_be_bytes(*length) {
                -1 => {}
                length @ 0.. => at += length as usize,
                _ => return Err(Error::protocol("a value of a negative length")),
            }
        }
        self.bounded(at)?;
        Ok((at <= bytes.len()).then_some(at))
    }

    /// What is announced is waited for, and kept meanwhile.
    fn bounded(&self, bytes: usize) -> Result<()> {
        match bytes <= self.limit {
            true => Ok(()),
            false => Err(Error::new(
                Kind::Memory,
                format!(
                    "a row of {bytes} bytes, of which {} are taken at most: raise max_block_size",
                    self.limit
                ),
            )),
        }
    }

    /// A row that is there as a whole, behind its count.
    #[inline]
    fn tuple(&mut self, bytes: &[u8]) -> Result<()> {
        let (mut at, mut size) = (0, 0);
        let columns = self.columns.each().iter_mut().zip(&self.forms);
        for (column, form) in columns {
            let length = u32_at(bytes, at)? as i32;
            at += 4;
            match length {
                -1 => column.push_null(),
                length => {
                    let value = bytes.get(at..at + length as usize).ok_or_else(short)?;
                    at += value.len();
                    size += push(form, column, value)?;
                }
            }
        }
        self.columns.row(size)
    }
}

pub fn short() -> Error {
    Error::protocol("a value that is shorter than its type")
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    let found = bytes.get(at..).and_then(<[u8]>::first_chunk::<4>);
    Ok(u32::from_be_bytes(*found.ok_or_else(short)?))
}

#[inline]
fn fixed<const N: usize>(value: &[u8]) -> Result<[u8; N]> {
    value.try_into().map_err(|_| short())
}

/// Adds a value; the bytes that it has in the column, which of a number as text may be many more.
#[inline]
fn push(form: &Form, column: &mut Column, value: &[u8]) -> Result<usize> {
    let pushed = match form {
        Form::Bool => column.push_bool(fixed::<1>(value)?[0] != 0),
        Form::Int2 => column.push(i16::from_be_bytes(fixed(value)?)),
        Form::Int4 => column.push(i32::from_be_bytes(fixed(value)?)),
        Form::Int8 => column.push(i64::from_be_bytes(fixed(value)?)),
        Form::Oid => column.push(u32::from_be_bytes(fixed(value)?)),
        Form::Float4 => column.push(f32::from_be_bytes(fixed(value)?)),
        Form::Float8 => column.push(f64::from_be_bytes(fixed(value)?)),
        Form::Time => match i64::from_be_bytes(fixed(value)?) {
            DAY_MICROS => Err(midnight(column)),
            micros => column.push(micros),
        },
        Form::Bytes => column.push_bytes(value),
        Form::Date => match i32::from_be_bytes(fixed(value)?) {
            i32::MIN | i32::MAX => Err(infinite(column, "date")),
            days => match days.checked_add(DAYS as i32) {
                Some(days) => column.push(days),
                None => Err(out_of_range(column)),
            },
        },
        Form::Timestamp => match i64::from_be_bytes(fixed(value)?) {
            i64::MIN | i64::MAX => Err(infinite(column, "timestamp")),
            micros => match micros.checked_add(MICROS) {
                Some(micros) => column.push(micros),
                None => Err(out_of_range(column)),
            },
        },
        Form::Decimal(digits, scale) => {
            let number = Numeric::of(value)?;
            match number.scaled(*digits, *scale) {
                Some(number) => column.push(number),
                None => Err(large(column, &number.text(), *digits, *scale)),
            }
        }
        Form::Numeric => {
            let number = Numeric::of(value)?;
            return column.push_written(|out| number.write(out));
        }
        Form::Jsonb => match value.split_first() {
            Some((1, text)) => column.push_bytes(text),
            _ => Err(Error::protocol("jsonb of another version than 1")),
        },
        Form::Interval => interval(column, fixed(value)?),
        Form::Array(inner) => return array(inner, column, value),
    };
    pushed.map(|()| value.len())
}

fn interval(column: &mut Column, value: [u8; 16]) -> Result<()> {
    let micros = i64::from_be_bytes(fixed(&value[..8])?);
    let days = i32::from_be_bytes(fixed(&value[8..12])?);
    let months = i32::from_be_bytes(fixed(&value[12..])?);
    let ends = [(i64::MAX, i32::MAX), (i64::MIN, i32::MIN)];
    if ends
        .iter()
        .any(|(m, d)| (micros, days, months) == (*m, *d, *d))
    {
        return Err(infinite(column, "interval"));
    }
    let nanos = micros
        .checked_mul(1000)
        .ok_or_else(|| out_of_range(column))?;
    column.push(IntervalMonthDayNano::new(months, days, nanos))
}

/// Dimensions, whether there are nulls, the type; of each dimension its length and its lowest index; values.
fn array(inner: &Form, column: &mut Column, value: &[u8]) -> Result<usize> {
    match u32_at(value, 0)? {
        0 => return column.push_list(|_| Ok(())).map(|()| 0),
        1 => {}
        dimensions => {
            return Err(Error::protocol(format!(
            "column {name}: an array of {dimensions} dimensions, where a list of Arrow has one: \
                 cast it in a query, {name}::text",
            name = column.name()
        )))
        }
    }
    let count = u32_at(value, 12)?;
    let mut rest = value.get(ARRAY_HEAD..).ok_or_else(short)?;
    let mut size = 0;
    column.push_list(|items| {
        for _ in 0..count {
            let length = u32_at(rest, 0)? as i32;
            rest = &rest[4..];
            if length == -1 {
                items.push_null();
                continue;
            }
            let item = usize::try_from(length)
                .ok()
                .and_then(|length| rest.get(..length));
            let item = item.ok_or_else(short)?;
            rest = &rest[item.len()..];
            size += push(inner, items, item)?;
        }
        match rest.is_empty() {
            true => Ok(()),
            false => Err(Error::protocol("bytes behind the last value of an array")),
        }
    })?;
    Ok(size)
}

#[cfg(test)]
mod tests;
