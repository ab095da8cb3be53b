//! Vectors of DuckDB -> columns: types by their ids, values as whole vectors where they lie as Arrow's do.
//!
//! DuckDB's own export (`duckdb_data_chunk_to_arrow`) makes arrays of a chunk's 2,048 rows value by value, which are
//! copied once more into a batch: of 2.0.1, with the scan, 6 % more CPU for integers, 10 % for text, 76 % where there are nulls.

use std::sync::Arc;

use arrow_buffer::{IntervalMonthDayNano, NullBuffer};
use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};

use super::answer::{Kind, Vector};
use crate::read::{self, infinite, large, midnight, out_of_range};
use venturi_base::data::column::Column;
use venturi_base::error::{Error, Kind as ErrorKind, Result};

/// A decimal of this many digits holds the most.
const DIGITS: u8 = 38;

/// How values lie in a vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    Bool,
    /// As Arrow has them, of so many bytes.
    Plain(usize),
    /// The same, of which two numbers mean that it has no end.
    Date,
    Timestamp,
    /// The same in a day of so many, of which the day's end is none to Arrow.
    Time(i64),
    /// `string_t`
    Bytes,
    Interval,
    /// 128 bits, with a sign or without.
    Huge(bool),
    /// A decimal: digits, those behind the point, bytes.
    Decimal(u8, u8, usize),
    Uuid,
    /// Numbers of so many bytes, for words.
    Enum(usize, Vec<String>),
    /// A map is a list of structs of two.
    List(Box<Form>),
    Array(usize, Box<Form>),
    Struct(Vec<Form>),
}

/// A column of an answer; one that Arrow has no type for is refused with what to write instead.
pub fn column(name: String, kind: &Kind) -> Result<(Form, read::Column)> {
    match layout(kind) {
        Some((form, data_type, native)) => Ok((
            form,
            read::Column {
                name,
                data_type,
                native,
            },
        )),
        None => Err(Error::usage(format!(
            "column {name} is {}, which has no type in Arrow here: cast it in a query, as \
             --query 'SELECT {name}::VARCHAR FROM ...'",
            called(kind.id())
        ))),
    }
}

/// What DuckDB calls a type that is refused.
fn called(id: i32) -> String {
    let name = match id {
        28 => "a UNION",
        29 => "BIT",
        30 => "TIME WITH TIME ZONE",
        35 => "BIGNUM",
        36 => "NULL",
        40 => "GEOMETRY",
        41 => "VARIANT",
        24..=26 | 33 => "of others, one of them",
        _ => return format!("of DuckDB's type {id}"),
    };
    name.to_owned()
}

/// `duckdb_type` of duckdb.h.
fn layout(kind: &Kind) -> Option<(Form, DataType, String)> {
    let timestamp = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(Into::into));
    let (form, data_type, native) = match kind.id() {
        1 => (Form::Bool, DataType::Boolean, "BOOLEAN"),
        2 => (Form::Plain(1), DataType::Int8, "TINYINT"),
        3 => (Form::Plain(2), DataType::Int16, "SMALLINT"),
        4 => (Form::Plain(4), DataType::Int32, "INTEGER"),
        5 => (Form::Plain(8), DataType::Int64, "BIGINT"),
        6 => (Form::Plain(1), DataType::UInt8, "UTINYINT"),
        7 => (Form::Plain(2), DataType::UInt16, "USMALLINT"),
        8 => (Form::Plain(4), DataType::UInt32, "UINTEGER"),
        9 => (Form::Plain(8), DataType::UInt64, "UBIGINT"),
        10 => (Form::Plain(4), DataType::Float32, "FLOAT"),
        11 => (Form::Plain(8), DataType::Float64, "DOUBLE"),
        12 => {
            let kind = timestamp(TimeUnit::Microsecond, None);
            (Form::Timestamp, kind, "TIMESTAMP")
        }
        13 => (Form::Date, DataType::Date32, "DATE"),
        14 => {
            let kind = DataType::Time64(TimeUnit::Microsecond);
            (Form::Time(86_400_000_000), kind, "TIME")
        }
        15 => {
            let kind = DataType::Interval(IntervalUnit::MonthDayNano);
            (Form::Interval, kind, "INTERVAL")
        }
        16 => (Form::Huge(true), DataType::Decimal128(DIGITS, 0), "HUGEINT"),
        17 => (Form::Bytes, DataType::Utf8, "VARCHAR"),
        18 => (Form::Bytes, DataType::Binary, "BLOB"),
        19 => {
            let (digits, scale, inside) = kind.decimal();
            let form = Form::Decimal(digits, scale, width(inside)?);
            let data_type = DataType::Decimal128(digits, scale as i8);
            return Some((form, data_type, format!("DECIMAL({digits},{scale})")));
        }
        20 => {
            let kind = timestamp(TimeUnit::Second, None);
            (Form::Timestamp, kind, "TIMESTAMP_S")
        }
        21 => {
            let kind = timestamp(TimeUnit::Millisecond, None);
            (Form::Timestamp, kind, "TIMESTAMP_MS")
        }
        22 => {
            let kind = timestamp(TimeUnit::Nanosecond, None);
            (Form::Timestamp, kind, "TIMESTAMP_NS")
        }
        23 => {
            let (inside, words) = kind.words();
            (Form::Enum(width(inside)?, words), DataType::Utf8, "ENUM")
        }
        24 => {
            let (form, data_type, native) = layout(&kind.item())?;
            let list = DataType::List(Arc::new(Field::new_list_field(data_type, true)));
            return Some((Form::List(form.into()), list, format!("{native}[]")));
        }
        25 => {
            let (mut forms, mut fields) = (Vec::new(), Vec::new());
            for (name, kind) in kind.fields() {
                let (form, data_type, _) = layout(&kind)?;
                forms.push(form);
                fields.push(Field::new(name, data_type, true));
            }
            let data_type = DataType::Struct(fields.into());
            (Form::Struct(forms), data_type, "STRUCT")
        }
        26 => {
            let [key, value] = kind.pair();
            let ((key, of_key, _), (value, of_value, _)) = (layout(&key)?, layout(&value)?);
            let key_field = Field::new("key", of_key, false);
            let fields = vec![key_field, Field::new("value", of_value, true)];
            let entries = Field::new("entries", DataType::Struct(fields.into()), false);
            let form = Form::List(Form::Struct(vec![key, value]).into());
            (form, DataType::Map(Arc::new(entries), false), "MAP")
        }
        27 => (Form::Uuid, DataType::FixedSizeBinary(16), "UUID"),
        31 => {
            let kind = timestamp(TimeUnit::Microsecond, Some("UTC"));
            (Form::Timestamp, kind, "TIMESTAMP WITH TIME ZONE")
        }
        32 => {
            let kind = DataType::Decimal128(DIGITS, 0);
            (Form::Huge(false), kind, "UHUGEINT")
        }
        33 => {
            let (item, count) = kind.items();
            let (form, data_type, native) = layout(&item)?;
            let list = DataType::List(Arc::new(Field::new_list_field(data_type, true)));
            let form = Form::Array(count, form.into());
            return Some((form, list, format!("{native}[{count}]")));
        }
        39 => {
            let kind = DataType::Time64(TimeUnit::Nanosecond);
            (Form::Time(86_400_000_000_000), kind, "TIME_NS")
        }
        42 => {
            let kind = timestamp(TimeUnit::Nanosecond, Some("UTC"));
            (Form::Timestamp, kind, "TIMESTAMP_NS WITH TIME ZONE")
        }
        _ => return None,
    };
    Some((form, data_type, native.to_owned()))
}

/// Bytes of the integer that a decimal or a word is kept in.
fn width(id: i32) -> Option<usize> {
    Some(match id {
        2 | 6 => 1,
        3 | 7 => 2,
        4 | 8 => 4,
        5 | 9 => 8,
        16 => 16,
        _ => return None,
    })
}

/// Adds a vector's values from one row to another; their bytes.
pub fn push(
    form: &Form,
    vector: &Vector<'_>,
    from: usize,
    to: usize,
    column: &mut Column,
) -> Result<usize> {
    let nulls = vector.validity(from, to);
    let nulls = nulls.as_ref();
    let rows = to - from;
    match form {
        Form::Plain(width) => {
            column.extend(vector.bytes(*width, from, to), nulls)?;
            return Ok(rows * width);
        }
        Form::Date => {
            let values = vector.bytes(4, from, to);
            let is_end = |it| i32::from_ne_bytes(it).checked_abs() == Some(i32::MAX);
            if ends::<4>(values, nulls, is_end) {
                return Err(infinite(column, "date"));
            }
            column.extend(values, nulls)?;
            return Ok(rows * 4);
        }
        Form::Timestamp => {
            let values = vector.bytes(8, from, to);
            let is_end = |it| i64::from_ne_bytes(it).checked_abs() == Some(i64::MAX);
            if ends::<8>(values, nulls, is_end) {
                return Err(infinite(column, "timestamp"));
            }
            column.extend(values, nulls)?;
            return Ok(rows * 8);
        }
        Form::Time(day) => {
            let values = vector.bytes(8, from, to);
            if ends::<8>(values, nulls, |it| i64::from_ne_bytes(it) == *day) {
                return Err(midnight(column));
            }
            column.extend(values, nulls)?;
            return Ok(rows * 8);
        }
        _ => {}
    }
    let mut size = 0;
    let mut items = None;
    for row in from..to {
        if nulls.is_some_and(|nulls| nulls.is_null(row - from)) {
            column.push_null();
            continue;
        }
        size += match form {
            Form::Bytes => {
                let value = vector.string(row);
                column.push_bytes(value)?;
                value.len() + 4
            }
            Form::List(item) => {
                let place = vector.bytes(16, row, row + 1);
                let at = |from: usize| number(&place[from..from + 8]) as usize;
                let (first, count) = (at(0), at(8));
                let all = items.get_or_insert_with(|| vector.items());
                list(item, all, first, count, column)?
            }
            Form::Array(count, item) => {
                let all = items.get_or_insert_with(|| vector.elements(*count));
                list(item, all, row * count, *count, column)?
            }
            Form::Struct(forms) => {
                let mut size = 0;
                column.push_struct(|columns| {
                    for (at, (form, column)) in forms.iter().zip(columns).enumerate() {
                        size += push(form, &vector.field(at), row, row + 1, column)?;
                    }
                    Ok(())
                })?;
                size
            }
            other => value(other, vector, row, column)?,
        };
    }
    Ok(size)
}

/// Whether one of the values that are there is such a one.
fn ends<const N: usize>(
    values: &[u8],
    nulls: Option<&NullBuffer>,
    is_end: impl Fn([u8; N]) -> bool,
) -> bool {
    let (values, _) = values.as_chunks::<N>();
    // What is null may hold anything: it is looked at closely only where there is such a number at all.
    values.iter().any(|value| is_end(*value))
        && values
            .iter()
            .enumerate()
            .any(|(row, value)| is_end(*value) && nulls.is_none_or(|nulls| nulls.is_valid(row)))
}

fn list(
    item: &Form,
    all: &Vector<'_>,
    first: usize,
    count: usize,
    column: &mut Column,
) -> Result<usize> {
    let mut size = 4;
    column.push_list(|items| {
        size += push(item, all, first, first + count, items)?;
        Ok(())
    })?;
    Ok(size)
}

/// Up to eight bytes without a sign.
fn number(bytes: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(eight)
}

fn sixteen(vector: &Vector<'_>, row: usize) -> u128 {
    let mut all = [0; 16];
    all.copy_from_slice(vector.bytes(16, row, row + 1));
    u128::from_le_bytes(all)
}

/// One value, of a form that has each by itself; its bytes.
fn value(form: &Form, vector: &Vector<'_>, row: usize, column: &mut Column) -> Result<usize> {
    match form {
        Form::Bool => {
            column.push_bool(vector.bytes(1, row, row + 1)[0] != 0)?;
            Ok(1)
        }
        Form::Interval => {
            let all = vector.bytes(16, row, row + 1);
            let (months, days) = (number(&all[..4]) as i32, number(&all[4..8]) as i32);
            let nanos = (number(&all[8..]) as i64).checked_mul(1000);
            let nanos = nanos.ok_or_else(|| out_of_range(column))?;
            column.push(IntervalMonthDayNano::new(months, days, nanos))?;
            Ok(16)
        }
        Form::Huge(signed) => {
            let raw = sixteen(vector, row);
            let number = raw as i128;
            let size = if *signed { number.unsigned_abs() } else { raw };
            if size >= 10u128.pow(DIGITS.into()) {
                let sign = if *signed && number < 0 { "-" } else { "" };
                return Err(large(column, &format!("{sign}{size}"), DIGITS, 0));
            }
            column.push(number)?;
            Ok(16)
        }
        Form::Decimal(.., width) => {
            // Sign-extended from its own width.
            let spare = 128 - 8 * *width as u32;
            let mut all = [0; 16];
            all[..*width].copy_from_slice(vector.bytes(*width, row, row + 1));
            column.push((u128::from_le_bytes(all) << spare) as i128 >> spare)?;
            Ok(16)
        }
        Form::Uuid => {
            // Its highest bit is turned round, so that it sorts as a number.
            let raw = sixteen(vector, row) ^ (1 << 127);
            column.push_bytes(&raw.to_be_bytes())?;
            Ok(16)
        }
        Form::Enum(width, words) => {
            let at = number(vector.bytes(*width, row, row + 1)) as usize;
            let word = words.get(at).ok_or_else(|| {
                let name = column.name();
                Error::protocol(format!(
                    "column {name}: a value that its ENUM has no word for"
                ))
            })?;
            column.push_bytes(word.as_bytes())?;
            Ok(word.len() + 4)
        }
        _ => Err(Error::new(
            ErrorKind::Internal,
            "a value that is no single one",
        )),
    }
}
