//! Values of CQL <-> Arrow: which type is which, values to be bound, values as literals.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types;
use arrow_schema::{DataType, Field, Fields, IntervalUnit, TimeUnit};
use scylla::cluster::metadata::{CollectionType, ColumnType, NativeType};
use scylla::frame::response::result::ColumnSpec;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;
use scylla::serialize::SerializationError;

use crate::read::Column;
use venturi_base::codec::cql::Form;
use venturi_base::data::view::{decimal, Values, View};
use venturi_base::error::{Error, Result};

/// The CQL type that keeps every value of an Arrow type; `None`: there is none.
pub fn cql_type(data_type: &DataType) -> Option<&'static str> {
    Some(match data_type {
        DataType::Boolean => "boolean",
        DataType::Int8 => "tinyint",
        DataType::Int16 | DataType::UInt8 => "smallint",
        DataType::Int32 | DataType::UInt16 => "int",
        // CQL has no unsigned integers; larger values of uint64 are refused one by one.
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => "bigint",
        DataType::Float32 => "float",
        DataType::Float64 => "double",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text",
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "blob",
        DataType::Date32 => "date",
        DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, _) => "timestamp",
        // CQL's timestamp counts milliseconds: finer ones would make one key of two.
        DataType::Timestamp(_, _) => "bigint",
        DataType::Time32(_) | DataType::Time64(_) => "time",
        DataType::Decimal128(_, _) => "decimal",
        DataType::Dictionary(_, value) => cql_type(value)?,
        _ => return None,
    })
}

/// Appends `[int] length, bytes` of a row's value to `cells`, this column's after those of the columns
/// before; `null`: what stands for a null.
pub fn encode(column: &View, row: usize, null: Null, cells: &mut Vec<u8>) -> Result<()> {
    if column.is_null(row) {
        match null {
            Null::Null => cells.extend_from_slice(&(-1i32).to_be_bytes()),
            Null::Zero => value(cells, &0i64.to_be_bytes()),
        }
        return Ok(());
    }
    if null == Null::Zero {
        // A counter is added to by a bigint, whatever the width of the column.
        value(cells, &integer(column, row)?.to_be_bytes());
        return Ok(());
    }
    match &column.values {
        Values::Boolean(values) => value(cells, &[values.value(row).into()]),
        Values::Int8(values) => value(cells, &values[row].to_be_bytes()),
        Values::Int16(values) => value(cells, &values[row].to_be_bytes()),
        Values::UInt8(values) => value(cells, &i16::from(values[row]).to_be_bytes()),
        Values::Int32(values) => value(cells, &values[row].to_be_bytes()),
        Values::UInt16(values) => value(cells, &i32::from(values[row]).to_be_bytes()),
        Values::Float32(values) => value(cells, &values[row].to_be_bytes()),
        Values::Float64(values) => value(cells, &values[row].to_be_bytes()),
        Values::Text(values) => value(cells, values.value(row).as_bytes()),
        Values::Bytes(values) => value(cells, values.value(row)),
        Values::Date(values) => value(cells, &day(values[row]).to_be_bytes()),
        Values::Decimal(values) => {
            let values = values.as_primitive::<types::Decimal128Type>();
            let unscaled = values.value(row);
            let mut whole = [0; 20];
            whole[4..].copy_from_slice(&unscaled.to_be_bytes());
            // As short as the number allows, as everybody writes it: keys are compared by bytes.
            let spare = match unscaled < 0 {
                true => unscaled.leading_ones(),
                false => unscaled.leading_zeros(),
            };
            let from = (spare.saturating_sub(1) / 8) as usize;
            whole[from..from + 4].copy_from_slice(&i32::from(values.scale()).to_be_bytes());
            value(cells, &whole[from..]);
        }
        _ => value(cells, &integer(column, row)?.to_be_bytes()),
    }
    Ok(())
}

/// Appends a row's value as a CQL literal.
pub fn literal(column: &View, row: usize, null: Null, text: &mut Vec<u8>) -> Result<()> {
    if column.is_null(row) {
        text.extend_from_slice(match null {
            Null::Null => b"null",
            Null::Zero => b"0",
        });
        return Ok(());
    }
    // Writing to memory does not fail.
    macro_rules! shown {
        ($($what:tt)*) => {{ let _ = write!(text, $($what)*); }};
    }
    macro_rules! float {
        ($number:expr) => {{
            let number = $number;
            match number.is_finite() {
                true => shown!("{number:?}"),
                false if number.is_nan() => shown!("NaN"),
                false if number > 0.0 => shown!("Infinity"),
                false => shown!("-Infinity"),
            }
        }};
    }
    match &column.values {
        Values::Boolean(values) => shown!("{}", values.value(row)),
        Values::Float32(values) => float!(values[row]),
        Values::Float64(values) => float!(values[row]),
        Values::Text(values) => quoted(values.value(row), text),
        Values::Bytes(values) => blob(values.value(row), text),
        // As a number it is what the protocol's bytes are.
        Values::Date(values) => shown!("{}", day(values[row])),
        Values::Decimal(values) => shown!("{}", decimal(values, row)),
        Values::Time(..) => {
            let ns = integer(column, row)?;
            let (seconds, ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
            let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
            shown!("'{hours:02}:{minutes:02}:{:02}.{ns:09}'", seconds % 60);
        }
        _ => shown!("{}", integer(column, row)?),
    }
    Ok(())
}

/// CQL's date is unsigned, with 1970-01-01 in the middle.
fn day(days: i64) -> u32 {
    (days as u32) ^ (1 << 31)
}

/// A value of an integer, or of a time in the unit that CQL counts it in.
fn integer(column: &View, row: usize) -> Result<i64> {
    let beyond = |number: &dyn Display| {
        Error::usage(format!(
            "column {:?}: {number} is beyond what CQL's bigint and counter keep (2^63 - 1)",
            column.name
        ))
    };
    let times = |number: i64, by: i64| number.checked_mul(by).ok_or_else(|| beyond(&number));
    Ok(match &column.values {
        Values::Int8(values) => values[row].into(),
        Values::Int16(values) => values[row].into(),
        Values::Int32(values) => values[row].into(),
        Values::Int64(values) => values[row],
        Values::UInt8(values) => values[row].into(),
        Values::UInt16(values) => values[row].into(),
        Values::UInt32(values) => values[row].into(),
        Values::UInt64(values) => i64::try_from(values[row]).map_err(|_| beyond(&values[row]))?,
        Values::Timestamp(values, TimeUnit::Second, _) => times(values[row], 1000)?,
        Values::Timestamp(values, ..) => values[row],
        Values::Time(values, unit) => times(
            values[row],
            match unit {
                TimeUnit::Second => 1_000_000_000,
                TimeUnit::Millisecond => 1_000_000,
                TimeUnit::Microsecond => 1000,
                TimeUnit::Nanosecond => 1,
            },
        )?,
        _ => {
            return Err(Error::usage(format!(
                "column {:?} holds no integers",
                column.name
            )))
        }
    })
}

/// What a null becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Null {
    Null,
    /// A counter that nothing is added to.
    Zero,
}

fn value(cells: &mut Vec<u8>, bytes: &[u8]) {
    // Arrow's own offsets and the batch's bounds keep it below 2 GiB.
    cells.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
    cells.extend_from_slice(bytes);
}

fn quoted(value: &str, text: &mut Vec<u8>) {
    text.push(b'\'');
    for part in value.split_inclusive('\'') {
        text.extend_from_slice(part.as_bytes());
        if part.ends_with('\'') {
            text.push(b'\'');
        }
    }
    text.push(b'\'');
}

fn blob(value: &[u8], text: &mut Vec<u8>) {
    text.extend_from_slice(b"0x");
    for byte in value {
        let _ = write!(text, "{byte:02x}");
    }
}

/// Rows' values as `encode` puts them, of which the driver takes so many.
#[derive(Clone, Copy)]
pub struct Cells<'a> {
    pub cells: &'a [u8],
    pub columns: usize,
}

impl<'a> Cells<'a> {
    pub fn new(cells: &'a [u8], columns: usize) -> Self {
        Self { cells, columns }
    }

    /// One row after the other.
    pub fn each(self, rows: usize) -> impl Iterator<Item = Self> + 'a {
        let (mut rest, columns) = (self.cells, self.columns);
        (0..rows).map(move |_| {
            let all = rest;
            for _ in 0..columns {
                rest = next_cell(rest).map_or(&[], |(_, rest)| rest);
            }
            let cells = &all[..all.len() - rest.len()];
            Self::new(cells, columns)
        })
    }
}

/// The value in front, `None` for a null, and what follows it.
fn next_cell(cells: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (length, rest) = cells.split_first_chunk::<4>()?;
    match usize::try_from(i32::from_be_bytes(*length)) {
        Ok(length) => rest
            .split_at_checked(length)
            .map(|(value, rest)| (Some(value), rest)),
        Err(_) => Some((None, rest)),
    }
}

impl SerializeRow for Cells<'_> {
    fn serialize(
        &self,
        _: &RowSerializationContext<'_>,
        writer: &mut RowWriter,
    ) -> std::result::Result<(), SerializationError> {
        let mut cells = self.cells;
        for _ in 0..self.columns {
            let Some((value, rest)) = next_cell(cells) else {
                break;
            };
            cells = rest;
            let cell = writer.make_cell_writer();
            match value {
                Some(value) => cell.set_value(value).map_err(SerializationError::new)?,
                None => cell.set_null(),
            };
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.columns == 0
    }
}

/// A column that is read: its type here, as CQL calls it, and how its values lie on the wire.
pub fn read_column(spec: &ColumnSpec<'_>) -> Result<(Column, Form)> {
    let (name, native) = (spec.name(), native_name(spec.typ()));
    match wire_form(spec.typ()) {
        Some((form, data_type)) => {
            let name = name.to_owned();
            let column = Column {
                name,
                data_type,
                native,
            };
            Ok((column, form))
        }
        None => Err(Error::usage(format!(
            "column {name} is {native}, which has no type in Arrow here: take it as text in a query, as \
             --query 'SELECT toJson({name}) AS {name} FROM ...'"
        ))),
    }
}

fn native_name(kind: &ColumnType<'_>) -> String {
    match kind {
        ColumnType::Native(kind) => match simple_type(kind) {
            Some((native, ..)) => native.to_owned(),
            None => format!("{kind:?}").to_lowercase(),
        },
        ColumnType::Collection { typ, .. } => match typ {
            CollectionType::List(item) => format!("list<{}>", native_name(item)),
            CollectionType::Set(item) => format!("set<{}>", native_name(item)),
            CollectionType::Map(key, value) => {
                format!("map<{}, {}>", native_name(key), native_name(value))
            }
            other => format!("{other:?}"),
        },
        ColumnType::Vector { typ, dimensions } => {
            format!("vector<{}, {dimensions}>", native_name(typ))
        }
        ColumnType::UserDefinedType { definition, .. } => definition.name.to_string(),
        ColumnType::Tuple(_) => "a tuple".to_owned(),
        other => format!("{other:?}"),
    }
}

/// `None`: Arrow has no type for it here.
fn wire_form(kind: &ColumnType<'_>) -> Option<(Form, DataType)> {
    let list = |item: &ColumnType<'_>| {
        let (form, data_type) = wire_form(item)?;
        let item = Arc::new(Field::new_list_field(data_type, true));
        Some((Form::List(form.into()), DataType::List(item)))
    };
    let record = |fields: Vec<(String, &ColumnType<'_>)>| {
        let (mut forms, mut named) = (Vec::new(), Vec::new());
        for (name, kind) in fields {
            let (form, data_type) = wire_form(kind)?;
            forms.push(form);
            named.push(Field::new(name, data_type, true));
        }
        (!named.is_empty()).then(|| (Form::Struct(forms), DataType::Struct(named.into())))
    };
    match kind {
        ColumnType::Native(kind) => simple_type(kind).map(|(_, form, data_type)| (form, data_type)),
        ColumnType::Collection { typ, .. } => match typ {
            CollectionType::List(item) | CollectionType::Set(item) => list(item),
            CollectionType::Map(key, value) => {
                let ((key, of_key), (value, of_value)) = (wire_form(key)?, wire_form(value)?);
                let key_field = Field::new("key", of_key, false);
                let pair = Fields::from(vec![key_field, Field::new("value", of_value, true)]);
                let entries = Field::new("entries", DataType::Struct(pair), false);
                let data_type = DataType::Map(Arc::new(entries), false);
                Some((Form::Map([key, value].into()), data_type))
            }
            _ => None,
        },
        ColumnType::UserDefinedType { definition, .. } => {
            let fields = definition.field_types.iter();
            record(
                fields
                    .map(|(name, kind)| (name.to_string(), kind))
                    .collect(),
            )
        }
        ColumnType::Tuple(kinds) => {
            let fields = kinds.iter().enumerate();
            record(fields.map(|(at, kind)| (at.to_string(), kind)).collect())
        }
        _ => None,
    }
}

/// A type that has no others in it.
fn simple_type(kind: &NativeType) -> Option<(&'static str, Form, DataType)> {
    Some(match kind {
        NativeType::Ascii => ("ascii", Form::Bytes, DataType::Utf8),
        NativeType::BigInt => ("bigint", Form::Int64, DataType::Int64),
        NativeType::Blob => ("blob", Form::Bytes, DataType::Binary),
        NativeType::Boolean => ("boolean", Form::Bool, DataType::Boolean),
        NativeType::Counter => ("counter", Form::Int64, DataType::Int64),
        NativeType::Decimal => ("decimal", Form::Decimal, DataType::Utf8),
        NativeType::Double => ("double", Form::Float64, DataType::Float64),
        NativeType::Float => ("float", Form::Float32, DataType::Float32),
        NativeType::Int => ("int", Form::Int32, DataType::Int32),
        NativeType::Timestamp => {
            let kind = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
            ("timestamp", Form::Int64, kind)
        }
        NativeType::Uuid => ("uuid", Form::Uuid, DataType::FixedSizeBinary(16)),
        NativeType::Text => ("text", Form::Bytes, DataType::Utf8),
        NativeType::Varint => ("varint", Form::Varint, DataType::Utf8),
        NativeType::Timeuuid => ("timeuuid", Form::Uuid, DataType::FixedSizeBinary(16)),
        NativeType::Inet => ("inet", Form::Inet, DataType::Utf8),
        NativeType::Date => ("date", Form::Date, DataType::Date32),
        NativeType::Time => ("time", Form::Int64, DataType::Time64(TimeUnit::Nanosecond)),
        NativeType::SmallInt => ("smallint", Form::Int16, DataType::Int16),
        NativeType::TinyInt => ("tinyint", Form::Int8, DataType::Int8),
        NativeType::Duration => {
            let kind = DataType::Interval(IntervalUnit::MonthDayNano);
            ("duration", Form::Duration, kind)
        }
        _ => return None,
    })
}
