//! Rows as SQL's literals, and as the plain text of a value.

use std::io::Write;

use arrow_array::RecordBatch;
use arrow_schema::TimeUnit;

use super::{digits, Dialect, Nanoseconds, Nul};
use venturi_base::codec::calendar::{date, signed, time, unsigned};
use venturi_base::data::upsert::Table;
use venturi_base::data::view::{decimal, Values, View};
use venturi_base::error::{Error, Result};

/// The rows of one batch, to be written value by value.
#[derive(Debug)]
pub struct Rows {
    dialect: &'static Dialect,
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    view: View,
    /// The last timestamp written and its text: most rows have the one of the row before.
    memo: Option<(i64, Vec<u8>)>,
}

impl Rows {
    pub fn new(dialect: &'static Dialect, table: &Table, rows: &RecordBatch) -> Result<Self> {
        let mut columns = Vec::with_capacity(rows.num_columns());
        for (at, array) in rows.columns().iter().enumerate() {
            columns.push(Column {
                view: View::of(table.column(at), array)?,
                memo: None,
            });
        }
        Ok(Self { dialect, columns })
    }

    pub fn view(&self, column: usize) -> &View {
        &self.columns[column].view
    }

    /// Appends `(1,'a',NULL)`.
    #[inline]
    pub fn tuple(&mut self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        let mut before = b'(';
        for column in &mut self.columns {
            out.push(before);
            before = b',';
            match column.view.is_null(row) {
                true => out.extend_from_slice(b"NULL"),
                false => column.literal(self.dialect, row, out)?,
            }
        }
        out.push(b')');
        Ok(())
    }

    /// Appends a value that is not null as it stands in a statement.
    pub fn literal(&mut self, column: usize, row: usize, out: &mut Vec<u8>) -> Result<()> {
        self.columns[column].literal(self.dialect, row, out)
    }

    /// Appends a value's text, not quoted; false: it is null. Bytes are appended as they are,
    /// booleans as `true` and `false`.
    pub fn text(&mut self, column: usize, row: usize, out: &mut Vec<u8>) -> Result<bool> {
        let column = &mut self.columns[column];
        if column.view.is_null(row) {
            return Ok(false);
        }
        column.text(self.dialect, row, out)?;
        Ok(true)
    }
}

impl Column {
    #[inline]
    fn literal(&mut self, dialect: &Dialect, row: usize, out: &mut Vec<u8>) -> Result<()> {
        match &self.view.values {
            Values::Text(values) => self.string(dialect, values.value(row), out),
            Values::Bytes(values) => {
                bytes(dialect, values.value(row), out);
                Ok(())
            }
            Values::Boolean(values) if dialect.literals.digits_for_booleans => {
                out.push(b'0' + u8::from(values.value(row)));
                Ok(())
            }
            Values::Float32(values) if !values[row].is_finite() => {
                self.infinite(dialect, f64::from(values[row]), out)
            }
            Values::Float64(values) if !values[row].is_finite() => {
                self.infinite(dialect, values[row], out)
            }
            Values::Date(_) | Values::Time(..) | Values::Timestamp(..) | Values::Decimal(_) => {
                out.push(b'\'');
                self.text(dialect, row, out)?;
                out.push(b'\'');
                Ok(())
            }
            _ => self.text(dialect, row, out),
        }
    }

    #[inline]
    fn text(&mut self, dialect: &Dialect, row: usize, out: &mut Vec<u8>) -> Result<()> {
        match &self.view.values {
            Values::Boolean(values) => {
                let word: &[u8] = if values.value(row) { b"true" } else { b"false" };
                out.extend_from_slice(word);
            }
            Values::Int8(values) => signed(values[row].into(), out),
            Values::Int16(values) => signed(values[row].into(), out),
            Values::Int32(values) => signed(values[row].into(), out),
            Values::Int64(values) => signed(values[row], out),
            Values::UInt8(values) => unsigned(values[row].into(), out),
            Values::UInt16(values) => unsigned(values[row].into(), out),
            Values::UInt32(values) => unsigned(values[row].into(), out),
            Values::UInt64(values) => {
                let value = values[row];
                let most = dialect.literals.most_integer;
                if value > most {
                    let why = format!("integers there end at {most}");
                    return Err(self.view.refused(value, why));
                }
                unsigned(value, out);
            }
            // Shortest digits that give the same value back.
            Values::Float32(values) => float(write!(out, "{:e}", values[row])),
            Values::Float64(values) => float(write!(out, "{:e}", values[row])),
            Values::Text(values) => out.extend_from_slice(values.value(row).as_bytes()),
            Values::Bytes(values) => out.extend_from_slice(values.value(row)),
            Values::Date(values) => {
                let days = values[row];
                if !date(days, out) {
                    return Err(self.out_of_years(days, "days"));
                }
            }
            Values::Time(values, unit) => {
                let (parts, digits) = (parts(*unit), digits(*unit));
                let value = values[row];
                if !(0..86_400 * parts).contains(&value) {
                    return Err(self
                        .view
                        .refused(value, "a day's time must be between 0 and 24 hours"));
                }
                let (part, digits) = match dialect.literals.nanoseconds {
                    Nanoseconds::All => (value % parts, digits),
                    _ => self.to_micros(dialect, value % parts, digits)?,
                };
                time(value / parts, part, digits, out);
            }
            Values::Timestamp(values, unit, zone) => {
                let (value, unit, zone) = (values[row], *unit, *zone);
                if let Some((last, text)) = &self.memo {
                    if *last == value {
                        out.extend_from_slice(text);
                        return Ok(());
                    }
                }
                let from = out.len();
                self.timestamp(dialect, value, unit, zone, out)?;
                let memo = self.memo.get_or_insert_default();
                memo.0 = value;
                memo.1.clear();
                memo.1.extend_from_slice(&out[from..]);
            }
            Values::Decimal(values) => out.extend_from_slice(decimal(values, row).as_bytes()),
        }
        Ok(())
    }

    fn timestamp(
        &self,
        dialect: &Dialect,
        value: i64,
        unit: TimeUnit,
        zone: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let parts = parts(unit);
        let seconds = value.div_euclid(parts);
        let nanos = match dialect.literals.nanoseconds {
            Nanoseconds::All => true,
            Nanoseconds::Timestamps => !zone,
            Nanoseconds::None => false,
        };
        let (part, digits) = match (value.rem_euclid(parts), digits(unit)) {
            (part, digits) if nanos => (part, digits),
            (part, digits) => self.to_micros(dialect, part, digits)?,
        };
        if !date(seconds.div_euclid(86_400), out) {
            return Err(self.out_of_years(seconds, "seconds"));
        }
        out.push(b' ');
        time(seconds.rem_euclid(86_400), part, digits, out);
        if zone {
            out.extend_from_slice(dialect.literals.utc);
        }
        Ok(())
    }

    /// A second's fraction for a database that keeps microseconds.
    fn to_micros(&self, dialect: &Dialect, part: i64, digits: usize) -> Result<(i64, usize)> {
        match digits {
            9 if part % 1000 != 0 => Err(self.view.refused(
                format_args!("a time with {part} ns"),
                format!("{} keeps microseconds", dialect.name),
            )),
            9 => Ok((part / 1000, 6)),
            _ => Ok((part, digits)),
        }
    }

    #[inline]
    fn string(&self, dialect: &Dialect, text: &str, out: &mut Vec<u8>) -> Result<()> {
        if !unusual(text.as_bytes()) {
            out.push(b'\'');
            out.extend_from_slice(text.as_bytes());
            out.push(b'\'');
            return Ok(());
        }
        let nul = dialect.literals.nul;
        let escapes = nul == Nul::Escaped;
        if text.contains('\0') && !escapes {
            // A statement ends at its first NUL there.
            let Nul::Bytes(head, tail) = nul else {
                let why = format!("{} keeps no NUL characters in text", dialect.name);
                return Err(self.view.refused(format_args!("{text:?}"), why));
            };
            out.extend_from_slice(head);
            bytes(dialect, text.as_bytes(), out);
            out.extend_from_slice(tail);
            return Ok(());
        }
        out.push(b'\'');
        for &byte in text.as_bytes() {
            match byte {
                b'\'' => out.extend_from_slice(b"''"),
                b'\\' if escapes => out.extend_from_slice(b"\\\\"),
                0 if escapes => out.extend_from_slice(b"\\0"),
                byte => out.push(byte),
            }
        }
        out.push(b'\'');
        Ok(())
    }

    fn infinite(&self, dialect: &Dialect, value: f64, out: &mut Vec<u8>) -> Result<()> {
        let Some(literal) = (dialect.literals.infinite)(value) else {
            let why = format!("{} has no such number", dialect.name);
            return Err(self.view.refused(number_word(value), why));
        };
        out.extend_from_slice(literal.as_bytes());
        Ok(())
    }

    fn out_of_years(&self, value: i64, unit: &str) -> Error {
        self.view.refused(
            format_args!("a date {value} {unit} from 1970"),
            "databases agree on the years 1 to 9999 only",
        )
    }
}

/// Writing to memory cannot fail.
fn float(done: std::io::Result<()>) {
    debug_assert!(done.is_ok());
}

fn parts(unit: TimeUnit) -> i64 {
    10i64.pow(digits(unit) as u32)
}

/// Whether a string holds a byte that may not stand in quotes as it is: eight at a time.
#[inline]
pub(super) fn unusual(text: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let quote = |word: u64| zero(word ^ (ONES * b'\'' as u64));
    let slash = |word: u64| zero(word ^ (ONES * b'\\' as u64));
    let any = |word: u64| zero(word) | quote(word) | slash(word);
    let mut words = text.chunks_exact(8);
    let mut found = 0;
    for word in &mut words {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        found |= any(u64::from_ne_bytes(eight));
    }
    let rest = words.remainder();
    found != 0 || rest.iter().any(|byte| matches!(byte, 0 | b'\'' | b'\\'))
}

/// A number that is infinite, or none.
pub fn number_word(value: f64) -> &'static str {
    match (value.is_nan(), value > 0.0) {
        (true, _) => "NaN",
        (false, true) => "Infinity",
        (false, false) => "-Infinity",
    }
}

fn bytes(dialect: &Dialect, value: &[u8], out: &mut Vec<u8>) {
    let [head, each, tail] = dialect.literals.bytes;
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(head);
    for byte in value {
        out.extend_from_slice(each);
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
    out.extend_from_slice(tail);
}
