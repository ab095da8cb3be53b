//! Postgres' binary formats: values, arrays of them, and the stream of COPY.
//!
//! Sources: the `send` functions of src/backend/utils/adt (int8send, timestamp_send,
//! numeric_send, array_send), and "Binary Format" of COPY in the manual.

use arrow_array::RecordBatch;
use arrow_schema::TimeUnit;

use super::dialect::POSTGRES;
use crate::sql::Widths;
use venturi_base::data::upsert::Table;
use venturi_base::data::view::{decimal, Values, View};
use venturi_base::error::Result;

/// Days and microseconds from 1970 to 2000, where Postgres begins to count.
pub const DAYS: i64 = 10_957;
pub const MICROS: i64 = DAYS * DAY_MICROS;
pub const DAY_MICROS: i64 = 86_400_000_000;

/// Before the rows of a COPY: who it is, no flags, nothing more; and behind them.
pub const HEADER: [u8; 19] = *b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
pub const END: [u8; 2] = (-1i16).to_be_bytes();

/// How a column travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric,
    Text,
    Bytea,
    Date,
    Time,
    Timestamp,
    TimestampTz,
}

impl Form {
    /// Of a column of the table that the set-up creates; another table's is cast to its own.
    pub fn of(table: &Table, at: usize) -> Result<Self> {
        let name = POSTGRES.column_type(table, at, &Widths::default())?;
        Ok(match name.split('(').next().unwrap_or_default() {
            "boolean" => Self::Bool,
            "smallint" => Self::Int2,
            "integer" => Self::Int4,
            "bigint" => Self::Int8,
            "real" => Self::Float4,
            "double precision" => Self::Float8,
            "numeric" | "decimal" => Self::Numeric,
            "bytea" => Self::Bytea,
            "date" => Self::Date,
            "time" => Self::Time,
            "timestamp" => Self::Timestamp,
            "timestamptz" => Self::TimestampTz,
            _ => Self::Text,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Int2 => "smallint",
            Self::Int4 => "integer",
            Self::Int8 => "bigint",
            Self::Float4 => "real",
            Self::Float8 => "double precision",
            Self::Numeric => "numeric",
            Self::Text => "text",
            Self::Bytea => "bytea",
            Self::Date => "date",
            Self::Time => "time",
            Self::Timestamp => "timestamp",
            Self::TimestampTz => "timestamptz",
        }
    }

    /// `pg_type.oid`
    fn oid(self) -> u32 {
        match self {
            Self::Bool => 16,
            Self::Bytea => 17,
            Self::Int8 => 20,
            Self::Int2 => 21,
            Self::Int4 => 23,
            Self::Text => 25,
            Self::Float4 => 700,
            Self::Float8 => 701,
            Self::Date => 1082,
            Self::Time => 1083,
            Self::Timestamp => 1114,
            Self::TimestampTz => 1184,
            Self::Numeric => 1700,
        }
    }
}

struct Column {
    form: Form,
    view: View,
}

/// A batch's columns, to be written.
pub struct Columns {
    rows: usize,
    columns: Vec<Column>,
}

impl Columns {
    pub fn of(table: &Table, forms: &[Form], rows: &RecordBatch) -> Result<Self> {
        let columns = rows.columns().iter().zip(forms).enumerate();
        let columns = columns.map(|(at, (array, &form))| {
            let view = View::of(table.column(at), array)?;
            Ok(Column { form, view })
        });
        Ok(Self {
            rows: rows.num_rows(),
            columns: columns.collect::<Result<_>>()?,
        })
    }

    /// One array a column.
    pub fn arrays(&self) -> Result<Vec<Vec<u8>>> {
        self.columns
            .iter()
            .map(|column| column.array(self.rows))
            .collect()
    }

    /// All rows as `COPY ... (FORMAT binary)` takes them.
    pub fn copy(&self) -> Result<Vec<u8>> {
        let mut out = HEADER.to_vec();
        self.rows(&mut out)?;
        out.extend_from_slice(&END);
        Ok(out)
    }

    /// The rows alone.
    pub fn rows(&self, out: &mut Vec<u8>) -> Result<()> {
        let fields = self.columns.len() as i16;
        for row in 0..self.rows {
            out.extend_from_slice(&fields.to_be_bytes());
            for column in &self.columns {
                column.put(row, out)?;
            }
        }
        Ok(())
    }
}

impl Column {
    fn array(&self, rows: usize) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(20 + 12 * rows);
        let nulls = i32::from(self.view.nulls().is_some());
        for word in [1, nulls, self.form.oid() as i32, rows as i32, 1] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        for row in 0..rows {
            self.put(row, &mut out)?;
        }
        Ok(out)
    }

    /// A value with its length before it.
    fn put(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        if self.view.is_null(row) {
            out.extend_from_slice(&(-1i32).to_be_bytes());
            return Ok(());
        }
        match &self.view.values {
            Values::Boolean(values) => sized(&[u8::from(values.value(row))], out),
            Values::Int8(values) => self.integer(values[row].into(), out)?,
            Values::Int16(values) => self.integer(values[row].into(), out)?,
            Values::Int32(values) => self.integer(values[row].into(), out)?,
            Values::Int64(values) => self.integer(values[row].into(), out)?,
            Values::UInt8(values) => self.integer(values[row].into(), out)?,
            Values::UInt16(values) => self.integer(values[row].into(), out)?,
            Values::UInt32(values) => self.integer(values[row].into(), out)?,
            Values::UInt64(values) => self.integer(values[row].into(), out)?,
            Values::Float32(values) => sized(&values[row].to_be_bytes(), out),
            Values::Float64(values) => sized(&values[row].to_be_bytes(), out),
            Values::Text(values) => self.text(values.value(row), out)?,
            Values::Bytes(values) => sized(values.value(row), out),
            Values::Date(values) => {
                let days = i32::try_from(values[row] - DAYS)
                    .map_err(|_| self.view.refused(values[row], "Postgres has no such day"))?;
                sized(&days.to_be_bytes(), out);
            }
            Values::Time(values, unit) => {
                let micros = self.micros(values[row], *unit)?;
                if !(0..DAY_MICROS).contains(&micros) {
                    let why = "a day's time must be between 0 and 24 hours";
                    return Err(self.view.refused(values[row], why));
                }
                sized(&micros.to_be_bytes(), out);
            }
            Values::Timestamp(values, unit, _) => {
                let micros = self.micros(values[row], *unit)?;
                let since = micros.checked_sub(MICROS);
                let far = "Postgres has no time so far from 2000";
                let since = since.ok_or_else(|| self.view.refused(values[row], far))?;
                sized(&since.to_be_bytes(), out);
            }
            Values::Decimal(values) => numeric(&decimal(values, row), out),
        }
        Ok(())
    }

    fn integer(&self, value: i128, out: &mut Vec<u8>) -> Result<()> {
        let narrow = |_| {
            self.view
                .refused(value, "its column in Postgres is narrower")
        };
        match self.form {
            Form::Int2 => sized(&i16::try_from(value).map_err(narrow)?.to_be_bytes(), out),
            Form::Int4 => sized(&i32::try_from(value).map_err(narrow)?.to_be_bytes(), out),
            Form::Int8 => sized(&i64::try_from(value).map_err(narrow)?.to_be_bytes(), out),
            _ => numeric(&value.to_string(), out),
        }
        Ok(())
    }

    fn text(&self, value: &str, out: &mut Vec<u8>) -> Result<()> {
        if value.contains('\0') {
            return Err(self
                .view
                .refused(format_args!("{value:?}"), "Postgres' text has no zero byte"));
        }
        sized(value.as_bytes(), out);
        Ok(())
    }

    fn micros(&self, value: i64, unit: TimeUnit) -> Result<i64> {
        self.view.micros(value, unit, "Postgres")
    }
}

fn sized(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Digits of base 10,000, of a decimal number as `-12.5`.
fn numeric(text: &str, out: &mut Vec<u8>) {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (0x4000u16, digits),
        None => (0, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    // Groups of four, counted from the point.
    let head = (4 - whole.len() % 4) % 4;
    let tail = (4 - part.len() % 4) % 4;
    let zeros = |count| std::iter::repeat_n(b'0', count);
    let padded: Vec<u8> = zeros(head)
        .chain(whole.bytes())
        .chain(part.bytes())
        .chain(zeros(tail))
        .collect();
    let groups: Vec<i16> = padded
        .chunks(4)
        .map(|group| {
            group
                .iter()
                .fold(0, |sum, digit| sum * 10 + i16::from(digit - b'0'))
        })
        .collect();
    let first = groups
        .iter()
        .position(|group| *group != 0)
        .unwrap_or(groups.len());
    let last = groups
        .iter()
        .rposition(|group| *group != 0)
        .map_or(first, |at| at + 1);
    let weight = ((head + whole.len()) / 4) as i16 - 1 - first as i16;
    let used = &groups[first..last];
    let header = [
        used.len() as u16,
        if used.is_empty() { 0 } else { weight as u16 },
        if used.is_empty() { 0 } else { sign },
        part.len() as u16,
    ];
    out.extend_from_slice(&(8 + 2 * used.len() as i32).to_be_bytes());
    for word in header {
        out.extend_from_slice(&word.to_be_bytes());
    }
    for group in used {
        out.extend_from_slice(&group.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<i16> {
        let mut out = Vec::new();
        numeric(text, &mut out);
        assert_eq!(
            i32::from_be_bytes(out[..4].try_into().unwrap()) as usize,
            out.len() - 4
        );
        out[4..]
            .chunks(2)
            .map(|word| i16::from_be_bytes([word[0], word[1]]))
            .collect()
    }

    #[test]
    fn numerics_as_numeric_send_has_them() {
        assert_eq!(words("0"), [0, 0, 0, 0]);
        assert_eq!(words("1"), [1, 0, 0, 0, 1]);
        assert_eq!(words("12345678"), [2, 1, 0, 0, 1234, 5678]);
        assert_eq!(words("10000"), [1, 1, 0, 0, 1]);
        assert_eq!(words("-12.5"), [2, 0, 0x4000, 1, 12, 5000]);
        assert_eq!(words("0.00012"), [2, -1, 0, 5, 1, 2000]);
        assert_eq!(words("0.00"), [0, 0, 0, 2]);
        assert_eq!(
            words("18446744073709551615"),
            [5, 4, 0, 0, 1844, 6744, 737, 955, 1615]
        );
    }
}
