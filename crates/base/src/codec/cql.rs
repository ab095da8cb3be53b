//! What a server of CQL's protocol 4 answers a SELECT with: pages of rows, and the types of their columns.
//!
//! Source: native_protocol_v4.spec, 4.2.5.2 (Rows) and 6 (data types).

pub mod values;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, IntervalUnit, TimeUnit};

use crate::data::column::Columns;
use crate::error::{Error, Result};

/// Kinds of a RESULT.
const ROWS: u32 = 2;
const PREPARED: u32 = 4;
const BIGINT: u16 = 2;
const DURATION: u16 = 0x15;
/// How servers call it in version 4 of the protocol; a number of its own came with 5.
const DURATION_TYPE: &str = "org.apache.cassandra.db.marshal.DurationType";
const GLOBAL_TABLE: u32 = 1;
const MORE_PAGES: u32 = 2;
const NO_METADATA: u32 = 4;
/// Types within types at most.
const DEPTH: usize = 16;

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

/// A column of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    pub name: String,
    /// As CQL calls it.
    pub native: String,
    pub form: Form,
    pub data_type: DataType,
}

/// A part of an answer; of a result that is no rows there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<'a> {
    pub columns: Vec<Definition>,
    /// By what the next page is asked for; `None`: this is the last.
    pub next: Option<&'a [u8]>,
    pub rows: usize,
    /// The rows, value by value.
    pub body: &'a [u8],
}

impl<'a> Page<'a> {
    /// Of a RESULT's body.
    pub fn parse(body: &'a [u8]) -> Result<Option<Self>> {
        let mut reader = Reader(body);
        if reader.u32()? != ROWS {
            return Ok(None);
        }
        let (columns, next) = reader.metadata()?;
        let Some(columns) = columns else {
            return Err(Error::protocol("rows without a word on their columns"));
        };
        let rows = reader.u32()? as usize;
        let page = Self {
            columns: defined(columns)?,
            next,
            rows,
            body: reader.0,
        };
        // Each value has its length at least.
        let least = rows.checked_mul(page.columns.len() * 4);
        match least.is_some_and(|least| least <= page.body.len()) {
            true => Ok(Some(page)),
            false => Err(short()),
        }
    }
}

/// What the server made of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    pub id: Vec<u8>,
    /// Whether each value that it takes is a bigint.
    pub variables: Vec<bool>,
    /// Of its rows; `None`: it gives none.
    pub columns: Option<Vec<Definition>>,
}

impl Prepared {
    /// Of a RESULT's body; `None`: it is of something else.
    pub fn parse(body: &[u8]) -> Result<Option<Self>> {
        let mut reader = Reader(body);
        if reader.u32()? != PREPARED {
            return Ok(None);
        }
        let id = reader.string()?.to_vec();
        let (flags, count) = (reader.u32()?, reader.u32()?);
        for _ in 0..reader.u32()? {
            reader.u16()?;
        }
        let variables = reader.columns(flags, count)?.into_iter();
        let variables = variables.map(|(_, kind)| kind == Kind::Plain(BIGINT));
        let variables = variables.collect();
        let columns = reader.metadata()?.0;
        Ok(Some(Self {
            id,
            variables,
            columns: columns.map(defined).transpose()?,
        }))
    }
}

/// Columns before it is known whether Arrow has them.
type Named = Vec<(String, Kind)>;

fn defined(columns: Named) -> Result<Vec<Definition>> {
    let columns = columns.into_iter();
    columns.map(|(name, kind)| kind.column(name)).collect()
}

/// Takes the row in front; where the next one begins.
#[inline]
pub fn row<'a>(bytes: &'a [u8], forms: &[Form], columns: &mut Columns) -> Result<&'a [u8]> {
    let mut reader = Reader(bytes);
    for (form, column) in forms.iter().zip(columns.each()) {
        match reader.value()? {
            Some(value) => values::push(form, column, value)?,
            None => column.push_null(),
        }
    }
    columns.row(bytes.len() - reader.0.len())?;
    Ok(reader.0)
}

/// A type, as the wire names it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Plain(u16),
    List(&'static str, Box<Kind>),
    Map(Box<[Kind; 2]>),
    /// As it is called, and its fields.
    Struct(String, Vec<(String, Kind)>),
    /// Of which Arrow has none here.
    Other(String),
}

impl Kind {
    fn column(self, name: String) -> Result<Definition> {
        match self.known() {
            Some((form, data_type)) => Ok(Definition {
                name,
                native: self.called(),
                form,
                data_type,
            }),
            None => Err(Error::usage(format!(
                "column {name} is {}, which has no type in Arrow here: take it as text in a query, as \
                 --query 'SELECT toJson({name}) AS {name} FROM ...'",
                self.called()
            ))),
        }
    }

    fn called(&self) -> String {
        match self {
            Self::Other(name) | Self::Struct(name, _) => name.clone(),
            Self::List(name, item) => format!("{name}<{}>", item.called()),
            Self::Map(pair) => format!("map<{}, {}>", pair[0].called(), pair[1].called()),
            Self::Plain(id) => match known(*id) {
                Some((native, ..)) => native.to_owned(),
                None => format!("of CQL's type {id:#06x}"),
            },
        }
    }

    fn known(&self) -> Option<(Form, DataType)> {
        let field = |name: &str, kind: DataType| Field::new(name, kind, true);
        Some(match self {
            Self::Other(_) => return None,
            Self::Plain(id) => {
                let (_, form, data_type) = known(*id)?;
                (form, data_type)
            }
            Self::List(_, item) => {
                let (form, data_type) = item.known()?;
                let item = Arc::new(Field::new_list_field(data_type, true));
                (Form::List(form.into()), DataType::List(item))
            }
            Self::Map(pair) => {
                let ((key, of_key), (value, of_value)) = (pair[0].known()?, pair[1].known()?);
                let key_field = Field::new("key", of_key, false);
                let pair = Fields::from(vec![key_field, field("value", of_value)]);
                let entries = Field::new("entries", DataType::Struct(pair), false);
                let data_type = DataType::Map(Arc::new(entries), false);
                (Form::Map([key, value].into()), data_type)
            }
            Self::Struct(_, inner) => {
                let (mut forms, mut fields) = (Vec::new(), Vec::new());
                for (name, kind) in inner {
                    let (form, data_type) = kind.known()?;
                    forms.push(form);
                    fields.push(field(name, data_type));
                }
                if fields.is_empty() {
                    return None;
                }
                (Form::Struct(forms), DataType::Struct(fields.into()))
            }
        })
    }
}

/// A type that has no others in it.
fn known(id: u16) -> Option<(&'static str, Form, DataType)> {
    Some(match id {
        0x01 => ("ascii", Form::Bytes, DataType::Utf8),
        0x02 => ("bigint", Form::Int64, DataType::Int64),
        0x03 => ("blob", Form::Bytes, DataType::Binary),
        0x04 => ("boolean", Form::Bool, DataType::Boolean),
        0x05 => ("counter", Form::Int64, DataType::Int64),
        0x06 => ("decimal", Form::Decimal, DataType::Utf8),
        0x07 => ("double", Form::Float64, DataType::Float64),
        0x08 => ("float", Form::Float32, DataType::Float32),
        0x09 => ("int", Form::Int32, DataType::Int32),
        0x0b => {
            let kind = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
            ("timestamp", Form::Int64, kind)
        }
        0x0c => ("uuid", Form::Uuid, DataType::FixedSizeBinary(16)),
        0x0d => ("text", Form::Bytes, DataType::Utf8),
        0x0e => ("varint", Form::Varint, DataType::Utf8),
        0x0f => ("timeuuid", Form::Uuid, DataType::FixedSizeBinary(16)),
        0x10 => ("inet", Form::Inet, DataType::Utf8),
        0x11 => ("date", Form::Date, DataType::Date32),
        0x12 => ("time", Form::Int64, DataType::Time64(TimeUnit::Nanosecond)),
        0x13 => ("smallint", Form::Int16, DataType::Int16),
        0x14 => ("tinyint", Form::Int8, DataType::Int8),
        DURATION => {
            let kind = DataType::Interval(IntervalUnit::MonthDayNano);
            ("duration", Form::Duration, kind)
        }
        _ => return None,
    })
}

pub fn short() -> Error {
    Error::protocol("an answer of CQL that is cut short")
}

/// Takes things from the front of a message.
#[derive(Debug, Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(short)?;
        self.0 = rest;
        Ok(u16::from_be_bytes(*taken))
    }

    #[inline]
    fn u32(&mut self) -> Result<u32> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(short)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*taken))
    }

    fn string(&mut self) -> Result<&'a [u8]> {
        let length = self.u16()?;
        self.take(length.into())
    }

    /// Columns, where it has any, and the state by which the next page is asked for.
    fn metadata(&mut self) -> Result<(Option<Named>, Option<&'a [u8]>)> {
        let (flags, count) = (self.u32()?, self.u32()?);
        let next = match flags & MORE_PAGES {
            0 => None,
            _ => {
                let length = self.u32()? as usize;
                Some(self.take(length)?)
            }
        };
        if flags & NO_METADATA != 0 || count == 0 {
            return Ok((None, next));
        }
        Ok((Some(self.columns(flags, count)?), next))
    }

    fn columns(&mut self, flags: u32, count: u32) -> Result<Named> {
        let global = flags & GLOBAL_TABLE != 0 && count > 0;
        if global {
            self.string()?;
            self.string()?;
        }
        let mut columns = Vec::new();
        for _ in 0..count {
            if !global {
                self.string()?;
                self.string()?;
            }
            columns.push((self.text()?, self.kind(DEPTH)?));
        }
        Ok(columns)
    }

    /// `None`: a null.
    #[inline]
    fn value(&mut self) -> Result<Option<&'a [u8]>> {
        match usize::try_from(self.u32()? as i32) {
            Ok(length) => self.take(length).map(Some),
            Err(_) => Ok(None),
        }
    }

    fn kind(&mut self, depth: usize) -> Result<Kind> {
        let depth = depth.checked_sub(1).ok_or_else(|| {
            Error::protocol(format!(
                "a column of more than {DEPTH} types in one another"
            ))
        })?;
        Ok(match self.u16()? {
            0x00 => match self.text()? {
                name if name == DURATION_TYPE => Kind::Plain(DURATION),
                name => Kind::Other(name),
            },
            0x20 => Kind::List("list", self.kind(depth)?.into()),
            0x22 => Kind::List("set", self.kind(depth)?.into()),
            0x21 => Kind::Map([self.kind(depth)?, self.kind(depth)?].into()),
            0x30 => {
                self.string()?;
                let called = self.text()?;
                let mut fields = Vec::new();
                for _ in 0..self.u16()? {
                    fields.push((self.text()?, self.kind(depth)?));
                }
                Kind::Struct(called, fields)
            }
            0x31 => {
                let mut fields = Vec::new();
                for at in 0..self.u16()? {
                    fields.push((at.to_string(), self.kind(depth)?));
                }
                Kind::Struct("a tuple".to_owned(), fields)
            }
            id => Kind::Plain(id),
        })
    }

    fn text(&mut self) -> Result<String> {
        Ok(String::from_utf8_lossy(self.string()?).into_owned())
    }
}
