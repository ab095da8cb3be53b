//! Columns: as a statement's description has them, as Arrow's types, and their values on the wire.

use arrow_array::RecordBatch;
use arrow_schema::{DataType, TimeUnit};

use super::connect::{put, Reader};
use super::dialect::{FIREBIRD, LONGEST};
use crate::read::Column;
use crate::sql::{digits, is_bytes, number_word, Rows};
use venturi_base::data::column;
use venturi_base::data::upsert::Table;
use venturi_base::data::view::{Values, View};
use venturi_base::error::{Error, Kind as Failure, Result};

/// A column of an answer, as the server describes it.
#[derive(Debug, Clone, Default)]
pub struct Field {
    name: String,
    kind: u32,
    sub_type: u32,
    scale: i32,
    length: u32,
}

/// How a value travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Short,
    Long,
    /// With so many digits behind the point.
    Int64(u8),
    /// The same, as the decimal number that it is.
    Decimal(u8),
    Float,
    Double,
    Date,
    Time,
    Timestamp,
    Boolean,
    /// Its character set, and its bytes at most.
    Varying(u16, u16),
}

const UTF8: u16 = 4;
const OCTETS: u16 = 1;
/// Of 1970-01-01, among the days since 1858-11-17.
const EPOCH: i64 = 40_587;
/// Parts of a second that are kept, and of a day.
const SECOND: i64 = 10_000;
const DAY: i64 = 86_400 * SECOND;

impl Field {
    /// What is asked of each column of an answer: type, subtype, scale, length and name.
    pub const ITEMS: &'static [u8] = &[4, 7, 9, 11, 12, 13, 14, 19, 8];

    pub fn read_all(described: &[u8]) -> Result<Vec<Self>> {
        let mut from = Reader::new(described);
        let mut fields: Vec<Self> = Vec::new();
        let wrong = || Error::protocol("a statement's description that ends in the middle");
        while let Some(&[item]) = from.take(1) {
            // The end, of all or of a column; the beginning of the columns.
            match item {
                1 => break,
                4 | 5 | 8 => continue,
                2 => {
                    return Err(Error::usage(
                        "too many columns: their description has no room in an answer",
                    ));
                }
                _ => {}
            }
            let value = from.short_bytes().ok_or_else(wrong)?;
            let number = value
                .iter()
                .rev()
                .fold(0u32, |all, byte| (all << 8) | u32::from(*byte));
            if item == 9 {
                fields.push(Self::default());
            }
            let Some(field) = fields.last_mut() else {
                continue;
            };
            match item {
                11 => field.kind = number & !1,
                12 => field.sub_type = number,
                13 => field.scale = number as i32,
                14 => field.length = number,
                19 => field.name = String::from_utf8_lossy(value).into_owned(),
                _ => {}
            }
        }
        Ok(fields)
    }

    fn travels(&self) -> Result<Kind> {
        let digits = (-self.scale).clamp(0, 18) as u8;
        // NUMERIC and DECIMAL, or what is made of them.
        let is_decimal = self.scale < 0 || matches!(self.sub_type, 1 | 2);
        Ok(match self.kind {
            500 | 496 | 580 if is_decimal => Kind::Decimal(digits),
            500 => Kind::Short,
            496 => Kind::Long,
            580 => Kind::Int64(0),
            482 => Kind::Float,
            480 | 530 => Kind::Double,
            570 => Kind::Date,
            560 => Kind::Time,
            510 => Kind::Timestamp,
            32764 => Kind::Boolean,
            448 | 452 => Kind::Varying(self.sub_type as u16 & 0xff, self.length as u16),
            _ => {
                return Err(Error::usage(format!(
                    "column {}: it is of a type that is not read (a BLOB, or one of Firebird 4): cast it in a query, as CAST(... AS VARCHAR(8000))",
                    self.name
                )))
            }
        })
    }

    /// The column that a query gives.
    pub fn column(&self) -> Result<Column> {
        let (data_type, native) = match self.travels()? {
            Kind::Short => (DataType::Int16, "smallint"),
            Kind::Long => (DataType::Int32, "integer"),
            Kind::Int64(_) => (DataType::Int64, "bigint"),
            Kind::Decimal(scale) => (DataType::Decimal128(18, scale as i8), "decimal"),
            Kind::Float => (DataType::Float32, "float"),
            Kind::Double => (DataType::Float64, "double precision"),
            Kind::Date => (DataType::Date32, "date"),
            Kind::Time => (DataType::Time64(TimeUnit::Microsecond), "time"),
            Kind::Timestamp => (
                DataType::Timestamp(TimeUnit::Microsecond, None),
                "timestamp",
            ),
            Kind::Boolean => (DataType::Boolean, "boolean"),
            Kind::Varying(OCTETS, _) => (DataType::Binary, "octets"),
            Kind::Varying(..) => (DataType::Utf8, "varchar"),
        };
        Ok(Column {
            name: self.name.clone(),
            data_type,
            native: native.into(),
        })
    }
}

/// One row's values on the wire: which are null, then the others.
#[derive(Debug, Clone)]
pub struct Message {
    kinds: Vec<Kind>,
    /// The same for the server.
    pub blr: Vec<u8>,
}

impl Message {
    pub fn new(kinds: Vec<Kind>) -> Self {
        // Version 5, a block, message 0; a value and its null each.
        let mut blr = vec![5, 2, 4, 0];
        blr.extend_from_slice(&(2 * kinds.len() as u16).to_le_bytes());
        for kind in &kinds {
            match *kind {
                Kind::Short => blr.extend([7, 0]),
                Kind::Long => blr.extend([8, 0]),
                Kind::Int64(scale) | Kind::Decimal(scale) => {
                    blr.extend([16, (scale as i8).wrapping_neg() as u8]);
                }
                Kind::Float => blr.push(10),
                Kind::Double => blr.push(27),
                Kind::Date => blr.push(12),
                Kind::Time => blr.push(13),
                Kind::Timestamp => blr.push(35),
                Kind::Boolean => blr.push(23),
                Kind::Varying(set, length) => {
                    blr.push(38);
                    blr.extend(set.to_le_bytes());
                    blr.extend(length.to_le_bytes());
                }
            }
            blr.extend([7, 0]);
        }
        blr.extend([255, 76]);
        Self { kinds, blr }
    }

    pub fn of_answer(fields: &[Field]) -> Result<Self> {
        let kinds = fields.iter().map(Field::travels);
        Ok(Self::new(kinds.collect::<Result<_>>()?))
    }

    /// For `texts`: the server makes text of all but what would not be exact.
    pub fn as_text(fields: &[Field]) -> Self {
        const OTHERS: u16 = 64;
        let kind = |field: &Field| match field.travels() {
            Ok(kind @ (Kind::Float | Kind::Double | Kind::Varying(OCTETS, _))) => kind,
            Ok(Kind::Varying(_, length)) => Kind::Varying(UTF8, length),
            _ => Kind::Varying(UTF8, OTHERS),
        };
        Self::new(fields.iter().map(kind).collect())
    }

    fn nulls<'a>(&self, from: &mut Reader<'a>) -> Option<&'a [u8]> {
        from.take(self.kinds.len().div_ceil(32) * 4)
    }

    /// Passes over a row; `None`: it is not there as a whole.
    #[inline]
    pub fn skip(&self, from: &mut Reader<'_>) -> Option<()> {
        let nulls = self.nulls(from)?;
        for (at, kind) in self.kinds.iter().enumerate() {
            if is_null(nulls, at) {
                continue;
            }
            match kind {
                Kind::Int64(_) | Kind::Decimal(_) | Kind::Double | Kind::Timestamp => {
                    from.take(8)?;
                }
                Kind::Varying(..) => {
                    from.bytes()?;
                }
                _ => {
                    from.take(4)?;
                }
            }
        }
        Some(())
    }

    /// A row's values to the columns that are made of them.
    #[inline]
    pub fn decode(&self, row: &[u8], columns: &mut [column::Column]) -> Result<()> {
        let short = || Error::new(Failure::Internal, "a row that is shorter than it was");
        let mut from = Reader::new(row);
        let nulls = self.nulls(&mut from).ok_or_else(short)?;
        for (at, (kind, column)) in self.kinds.iter().zip(columns).enumerate() {
            if is_null(nulls, at) {
                column.push_null();
                continue;
            }
            let mut number = || from.number().ok_or_else(short);
            match kind {
                Kind::Short => column.push(number()? as i16)?,
                Kind::Long => column.push(number()? as i32)?,
                Kind::Float => column.push(f32::from_bits(number()?))?,
                Kind::Date => column.push(number()? as i32 - EPOCH as i32)?,
                Kind::Time => column.push(i64::from(number()?) * (1_000_000 / SECOND))?,
                Kind::Timestamp => {
                    let days = i64::from(number()? as i32) - EPOCH;
                    let parts = days * DAY + i64::from(number()?);
                    column.push(parts * (1_000_000 / SECOND))?;
                }
                Kind::Boolean => column.push_bool(number()? >> 24 != 0)?,
                Kind::Int64(_) => column.push(from.long().ok_or_else(short)?)?,
                Kind::Decimal(_) => column.push(i128::from(from.long().ok_or_else(short)?))?,
                Kind::Double => {
                    column.push(f64::from_bits(from.long().ok_or_else(short)? as u64))?;
                }
                Kind::Varying(..) => column.push_bytes(from.bytes().ok_or_else(short)?)?,
            }
        }
        Ok(())
    }

    /// A row's values as text, bytes in hexadecimal digits.
    pub fn texts(&self, row: &[u8]) -> Vec<Option<String>> {
        let mut from = Reader::new(row);
        let nulls = self.nulls(&mut from).unwrap_or_default();
        let mut text = |(at, kind): (usize, &Kind)| {
            if is_null(nulls, at) {
                return None;
            }
            Some(match kind {
                Kind::Float => format!("{:e}", f32::from_bits(from.number()?)),
                Kind::Double => format!("{:e}", f64::from_bits(from.long()? as u64)),
                Kind::Varying(OCTETS, _) => from
                    .bytes()?
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect(),
                _ => String::from_utf8_lossy(from.bytes()?).into_owned(),
            })
        };
        self.kinds.iter().enumerate().map(&mut text).collect()
    }

    /// Of a table's rows, for statements that take them.
    pub fn of_table(table: &Table) -> Result<Self> {
        let kinds = table.schema.fields().iter().map(|field| {
            let kind = match field.data_type() {
                DataType::Dictionary(_, values) => values,
                kind => kind,
            };
            Ok(match kind {
                DataType::Boolean => Kind::Boolean,
                DataType::Int8 | DataType::Int16 | DataType::UInt8 => Kind::Short,
                DataType::Int32 | DataType::UInt16 => Kind::Long,
                DataType::Int64 | DataType::UInt32 | DataType::UInt64 => Kind::Int64(0),
                DataType::Float16 | DataType::Float32 => Kind::Float,
                DataType::Float64 => Kind::Double,
                DataType::Date32 | DataType::Date64 => Kind::Date,
                DataType::Time32(_) | DataType::Time64(_) => Kind::Time,
                DataType::Timestamp(..) => Kind::Timestamp,
                DataType::Decimal32(_, scale)
                | DataType::Decimal64(_, scale)
                | DataType::Decimal128(_, scale)
                | DataType::Decimal256(_, scale) => Kind::Decimal((*scale).max(0) as u8),
                kind if is_bytes(kind) => Kind::Varying(OCTETS, LONGEST as u16),
                _ => Kind::Varying(UTF8, 4 * LONGEST as u16),
            })
        });
        Ok(Self::new(kinds.collect::<Result<_>>()?))
    }

    /// A batch's rows, one behind the other, and where each ends.
    pub fn encode(&self, table: &Table, rows: &RecordBatch) -> Result<(Vec<u8>, Vec<usize>)> {
        let mut written = Rows::new(FIREBIRD, table, rows)?;
        let views: Vec<View> = (0..self.kinds.len())
            .map(|at| written.view(at).clone())
            .collect();
        let (mut out, mut ends) = (Vec::new(), Vec::with_capacity(rows.num_rows()));
        let mut decimal = Vec::new();
        for row in 0..rows.num_rows() {
            let nulls = out.len();
            out.resize(nulls + self.kinds.len().div_ceil(32) * 4, 0);
            for (at, view) in views.iter().enumerate() {
                if view.is_null(row) {
                    out[nulls + at / 8] |= 1 << (at % 8);
                    continue;
                }
                if let Values::Decimal(_) = &view.values {
                    decimal.clear();
                    written.text(at, row, &mut decimal)?;
                }
                value(view, row, &decimal, &mut out)?;
            }
            ends.push(out.len());
        }
        Ok((out, ends))
    }
}

#[inline]
fn is_null(nulls: &[u8], at: usize) -> bool {
    nulls
        .get(at / 8)
        .is_some_and(|byte| byte >> (at % 8) & 1 == 1)
}

#[inline]
fn value(view: &View, row: usize, decimal: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let float = |value: f64| match value.is_finite() {
        true => Ok(()),
        false => Err(view.refused(number_word(value), "firebird has no such number")),
    };
    let mut word = |value: i32| out.extend_from_slice(&value.to_be_bytes());
    match &view.values {
        Values::Boolean(values) => word(i32::from(values.value(row)) << 24),
        Values::Int8(values) => word(values[row].into()),
        Values::Int16(values) => word(values[row].into()),
        Values::Int32(values) => word(values[row]),
        Values::UInt8(values) => word(values[row].into()),
        Values::UInt16(values) => word(values[row].into()),
        Values::Int64(values) => out.extend_from_slice(&values[row].to_be_bytes()),
        Values::UInt32(values) => out.extend_from_slice(&i64::from(values[row]).to_be_bytes()),
        Values::UInt64(values) => {
            let number = i64::try_from(values[row]).map_err(|_| {
                let why = format!("firebird's integers end at {}", i64::MAX);
                view.refused(values[row], why)
            })?;
            out.extend_from_slice(&number.to_be_bytes());
        }
        Values::Float32(values) => {
            float(values[row].into())?;
            out.extend_from_slice(&values[row].to_be_bytes());
        }
        Values::Float64(values) => {
            float(values[row])?;
            out.extend_from_slice(&values[row].to_be_bytes());
        }
        Values::Text(values) => {
            let text = values.value(row);
            if text.len() > LONGEST && text.chars().count() > LONGEST {
                return Err(too_long(view, text.chars().count(), "characters"));
            }
            put(out, text.as_bytes());
        }
        Values::Bytes(values) => {
            let bytes = values.value(row);
            if bytes.len() > LONGEST {
                return Err(too_long(view, bytes.len(), "bytes"));
            }
            put(out, bytes);
        }
        Values::Date(values) => word(day(view, values[row])?),
        Values::Time(values, unit) => {
            let parts = parts(view, values[row], *unit)?;
            if !(0..DAY).contains(&parts) {
                let why = "a day's time must be between 0 and 24 hours";
                return Err(view.refused(values[row], why));
            }
            word(parts as i32);
        }
        Values::Timestamp(values, unit, _) => {
            let parts = parts(view, values[row], *unit)?;
            word(day(view, parts.div_euclid(DAY))?);
            word(parts.rem_euclid(DAY) as i32);
        }
        Values::Decimal(_) => {
            let digits: Vec<u8> = decimal
                .iter()
                .copied()
                .filter(|digit| *digit != b'.')
                .collect();
            let number = std::str::from_utf8(&digits)
                .ok()
                .and_then(|text| text.parse::<i64>().ok());
            let number = number.ok_or_else(|| {
                let text = String::from_utf8_lossy(decimal).into_owned();
                view.refused(text, "firebird's decimals have 18 digits")
            })?;
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
    Ok(())
}

fn too_long(view: &View, length: usize, what: &str) -> Error {
    let why = format!("a column of Venturi's tables holds {LONGEST} in firebird");
    view.refused(format_args!("a value of {length} {what}"), why)
}

/// Since 1858-11-17.
fn day(view: &View, days: i64) -> Result<i32> {
    const YEARS: std::ops::RangeInclusive<i64> = -719_162..=2_932_896;
    match YEARS.contains(&days) {
        true => Ok((days + EPOCH) as i32),
        false => {
            let what = format_args!("a date {days} days from 1970");
            Err(view.refused(what, "firebird has the years 1 to 9999 only"))
        }
    }
}

/// Of 100 microseconds, which is what is kept.
fn parts(view: &View, value: i64, unit: TimeUnit) -> Result<i64> {
    let all = 10i64.pow(digits(unit) as u32);
    match all <= SECOND {
        true => value.checked_mul(SECOND / all),
        false => (value % (all / SECOND) == 0).then(|| value / (all / SECOND)),
    }
    .ok_or_else(|| {
        let what = format_args!("a time of {value} in {unit:?}s");
        view.refused(what, "firebird keeps 100 microseconds")
    })
}
