//! A column of Arrow's -> cells and strings of ClickHouse's.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::{ArrowNativeType, Buffer};
use arrow_schema::{DataType, TimeUnit};

use super::types::{Column, Layout, Names, Type};
use super::varint;
use crate::data::view::resolved;
use crate::error::{Error, Result};

/// What becomes of a value.
enum How {
    /// It is the cell: bytes from here on.
    Plain(Buffer),
    Bool(BooleanArray),
    Days(Buffer),
    /// Into 32 bits, after a change of unit.
    Seconds(Buffer, Change),
    Ticks(Buffer, Change),
    Narrow(Buffer),
    Uuid(Buffer),
    Code(Arc<Names>),
    Text,
}

/// From Arrow's unit of time to another.
#[derive(Clone, Copy)]
enum Change {
    Times(i64),
    By(i64),
}

impl Change {
    fn new(unit: TimeUnit, digits: u8) -> Self {
        let has: u32 = match unit {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        };
        let digits = u32::from(digits.min(9));
        match digits.checked_sub(has) {
            Some(more) => Change::Times(10i64.pow(more)),
            None => Change::By(10i64.pow(has - digits)),
        }
    }

    fn apply(self, value: i64) -> Option<i64> {
        match self {
            Change::Times(factor) => value.checked_mul(factor),
            Change::By(factor) => (value % factor == 0).then(|| value / factor),
        }
    }
}

/// One column on its way out.
pub struct Taker {
    name: String,
    how: How,
    array: ArrayRef,
    width: Option<usize>,
    nullable: bool,
}

impl Taker {
    pub fn new(column: &Column, array: &ArrayRef) -> Result<Self> {
        let array = resolved(array)?;
        let nullable = column.kind.nullable();
        if !nullable && array.null_count() > 0 {
            return Err(Error::usage(format!(
                "column {}: there are nulls, and the table's type {} has none",
                column.name, column.kind
            )));
        }
        let plain = column.kind.plain();
        let how = how(plain, &array).ok_or_else(|| {
            Error::usage(format!(
                "column {}: Arrow's {} is not written as {}",
                column.name,
                array.data_type(),
                column.kind
            ))
        })?;
        Ok(Self {
            name: column.name.clone(),
            how,
            array,
            width: match plain.layout() {
                Layout::Cells(width) => Some(width),
                Layout::Strings => None,
            },
            nullable,
        })
    }

    /// Bytes of a cell; `None`: strings.
    pub fn width(&self) -> Option<usize> {
        self.width
    }

    /// For a nullable column a byte a row: 1 is null. For others none.
    pub fn flags(&self, start: usize, rows: usize, out: &mut Vec<u8>) {
        if self.nullable {
            match self.array.nulls() {
                Some(nulls) => {
                    out.extend((start..start + rows).map(|row| u8::from(nulls.is_null(row))));
                }
                None => out.resize(out.len() + rows, 0),
            }
        }
    }

    /// Adds to each row's bytes what it takes in RowBinary.
    pub fn add_widths(&self, start: usize, widths: &mut [usize]) {
        let nulls = self.array.nulls();
        for (row, sum) in widths.iter_mut().enumerate() {
            *sum += usize::from(self.nullable);
            if nulls.is_some_and(|nulls| nulls.is_null(start + row)) {
                continue;
            }
            *sum += match self.width {
                Some(width) => width,
                None => {
                    let length = self.text(start + row).len();
                    length + varint::width(length as u64)
                }
            };
        }
    }

    /// The bytes of a string; what lies under a null is nothing.
    #[inline]
    pub fn text(&self, row: usize) -> &[u8] {
        if self.array.is_null(row) {
            return &[];
        }
        match self.array.data_type() {
            DataType::Utf8 => self.array.as_string::<i32>().value(row).as_bytes(),
            DataType::LargeUtf8 => self.array.as_string::<i64>().value(row).as_bytes(),
            DataType::Binary => self.array.as_binary::<i32>().value(row),
            DataType::LargeBinary => self.array.as_binary::<i64>().value(row),
            _ => &[],
        }
    }

    fn wrong(&self, row: usize, what: &str) -> Error {
        Error::usage(format!("column {}, row {row}: {what}", self.name))
    }

    /// Writes a cell a row; under a null are zeros.
    pub fn cells(&self, start: usize, rows: usize, out: &mut Vec<u8>) -> Result<()> {
        let at = out.len();
        match &self.how {
            How::Plain(buffer) => {
                let width = self.width.unwrap_or(0);
                out.extend_from_slice(&buffer[start * width..(start + rows) * width]);
            }
            How::Bool(values) => {
                let values = values.values();
                out.extend((start..start + rows).map(|row| u8::from(values.value(row))));
            }
            How::Days(buffer) => self.each(
                buffer,
                start,
                rows,
                |days: i32| {
                    let days = u16::try_from(days).ok();
                    days.map(u16::to_le_bytes)
                        .ok_or("a Date is of 1970 to 2149")
                },
                out,
            )?,
            How::Seconds(buffer, change) => self.each(
                buffer,
                start,
                rows,
                |time: i64| {
                    let seconds = change
                        .apply(time)
                        .ok_or("a DateTime has whole seconds only")?;
                    let seconds = u32::try_from(seconds).ok();
                    seconds
                        .map(u32::to_le_bytes)
                        .ok_or("a DateTime is of 1970 to 2106")
                },
                out,
            )?,
            How::Ticks(buffer, change) => self.each(
                buffer,
                start,
                rows,
                |time: i64| {
                    let ticks = change.apply(time).map(i64::to_le_bytes);
                    ticks.ok_or("the time does not fit into the column's digits")
                },
                out,
            )?,
            How::Narrow(buffer) if self.width == Some(4) => {
                self.each(
                    buffer,
                    start,
                    rows,
                    |value: i128| {
                        let value = i32::try_from(value).ok();
                        value
                            .map(i32::to_le_bytes)
                            .ok_or("a decimal of too many digits")
                    },
                    out,
                )?;
            }
            How::Narrow(buffer) => self.each(
                buffer,
                start,
                rows,
                |value: i128| {
                    let value = i64::try_from(value).ok();
                    value
                        .map(i64::to_le_bytes)
                        .ok_or("a decimal of too many digits")
                },
                out,
            )?,
            How::Uuid(buffer) => {
                let (cells, _) = buffer[start * 16..(start + rows) * 16].as_chunks::<16>();
                for cell in cells {
                    let value = u128::from_be_bytes(*cell).rotate_left(64);
                    out.extend_from_slice(&value.to_le_bytes());
                }
            }
            How::Code(names) => {
                for row in start..start + rows {
                    let text = self.text(row);
                    let code = match self.array.is_null(row) {
                        true => 0,
                        false => std::str::from_utf8(text)
                            .ok()
                            .and_then(|text| names.code(text))
                            .ok_or_else(|| self.wrong(row, "not a name of the enumeration"))?,
                    };
                    match self.width {
                        Some(1) => out.push(code as u8),
                        _ => out.extend_from_slice(&code.to_le_bytes()),
                    }
                }
            }
            How::Text => {}
        }
        self.blank(start, &mut out[at..]);
        Ok(())
    }

    fn each<T: ArrowNativeType, const W: usize>(
        &self,
        buffer: &Buffer,
        start: usize,
        rows: usize,
        make: impl Fn(T) -> std::result::Result<[u8; W], &'static str>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let values = &buffer.typed_data::<T>()[start..start + rows];
        out.reserve(rows * W);
        for (row, value) in values.iter().enumerate() {
            match make(*value) {
                Ok(cell) => out.extend_from_slice(&cell),
                Err(_) if self.array.is_null(start + row) => out.extend_from_slice(&[0; W]),
                Err(what) => return Err(self.wrong(start + row, what)),
            }
        }
        Ok(())
    }

    /// Zeros under nulls: what lies there in Arrow may be anything.
    fn blank(&self, start: usize, cells: &mut [u8]) {
        let (Some(nulls), Some(width)) = (self.array.nulls(), self.width) else {
            return;
        };
        if nulls.null_count() == 0 {
            return;
        }
        for (row, cell) in cells.chunks_exact_mut(width).enumerate() {
            if nulls.is_null(start + row) {
                cell.fill(0);
            }
        }
    }
}

fn how(kind: &Type, array: &ArrayRef) -> Option<How> {
    let given = array.data_type();
    let text = matches!(
        given,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary
    );
    // The values from the first on, as bytes.
    let values = || {
        let data = array.to_data();
        let width = match given {
            DataType::FixedSizeBinary(width) => *width as usize,
            other => other.primitive_width()?,
        };
        Some(data.buffers().first()?.slice(data.offset() * width))
    };
    Some(match (kind, given) {
        (Type::String, _) if text => How::Text,
        (Type::Enum8(names) | Type::Enum16(names), _) if text => How::Code(names.clone()),
        (Type::Bool | Type::UInt8, DataType::Boolean) => How::Bool(array.as_boolean().clone()),
        (Type::Date, DataType::Date32) => How::Days(values()?),
        (Type::DateTime(_), DataType::Timestamp(unit, _)) => {
            How::Seconds(values()?, Change::new(*unit, 0))
        }
        (Type::DateTime64(digits, _), DataType::Timestamp(unit, _)) => {
            match Change::new(*unit, *digits) {
                Change::Times(1) => How::Plain(values()?),
                change => How::Ticks(values()?, change),
            }
        }
        (Type::Decimal(digits, scale), DataType::Decimal128(_, given))
            if *given == *scale as i8 =>
        {
            match digits {
                0..=18 => How::Narrow(values()?),
                _ => How::Plain(values()?),
            }
        }
        (Type::Uuid, DataType::FixedSizeBinary(16)) => How::Uuid(values()?),
        (Type::FixedString(width), DataType::FixedSizeBinary(given))
            if *width == *given as usize =>
        {
            How::Plain(values()?)
        }
        _ if kind.arrow() == *given && given.is_primitive() => How::Plain(values()?),
        _ => return None,
    })
}
