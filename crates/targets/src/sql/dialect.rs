//! What a database calls things in SQL, as facts. Each system's stands in its folder.

use arrow_schema::DataType;

use crate::duckdb::dialect::DUCKDB;
use crate::mysql::dialect::MYSQL;
use crate::postgres::dialect::POSTGRES;
use crate::read::{by_ranges, edges_of, Column};
use crate::sqlite::dialect::SQLITE;
use venturi_base::error::{Error, Result};

#[derive(Debug, Clone, Copy)]
pub struct Dialect {
    /// As options and messages name it.
    pub name: &'static str,
    /// How servers and drivers call themselves that speak it, or a part of that, in small letters.
    pub vendors: &'static [&'static str],
    pub quote: char,
    /// So many bytes or characters a name may have.
    pub longest_name: (usize, fn(&str) -> usize),
    /// So many `?` or `$n` a prepared statement may have.
    pub most_placeholders: usize,
    /// `$1`, not `?`.
    pub numbered: bool,
    /// The type of text to which a value is cast.
    pub text: &'static str,
    pub merge: Merge,
    /// What stands behind the type of a column that may be null.
    pub nullable: &'static str,
    /// The type of a column that holds Arrow's values without loss. Decimals have their own line.
    pub column_type: fn(&DataType) -> Option<String>,
    /// Digits of a decimal at most, and those behind its point; `None`: it is kept as text.
    pub decimals: Option<(i32, i32)>,
    /// The seed's own type of a column.
    pub usage_type: fn(&str) -> Option<&'static str>,
    /// Where strings of a key need a bound.
    pub index: Option<Index>,
    /// A column that is read back, as text; `None`: a plain cast.
    pub read_back: fn(&str, &DataType) -> Option<String>,
    /// What stands before, between and after conditions of which one holds.
    pub any: [&'static str; 3],
    pub literals: Literals,
    /// Lengths of text are those of UTF-8, whatever the database keeps.
    pub counts_utf8: bool,
    /// The sum of a column, given by its quoted name, as `read::Summed` has it; `None`: it has none.
    pub sum: fn(&Column, &str) -> Option<String>,
    /// An expression's value as a whole number, and such a number as a value of the column, for ranges; `None`:
    /// there are no ranges of such a column.
    pub position: fn(&Column, &str) -> Option<String>,
    pub bound: fn(&Column, i128) -> String,
    /// The hash of a column, given by its quoted name, 0 to `streams` - 1, or null.
    pub hash: fn(&Column, &str, usize) -> String,
}

/// All, in the order in which errors name them. A driver of Flight SQL or ADBC speaks any, whatever is built.
const ALL: [&Dialect; 4] = [MYSQL, POSTGRES, SQLITE, DUCKDB];

/// What happens to a row whose key is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// `ON CONFLICT (...) DO UPDATE SET`
    OnConflict,
    /// `ON DUPLICATE KEY UPDATE`
    OnDuplicateKey,
}

/// What an index holds of a key, and the types of a string and of bytes, by the most they have.
#[derive(Debug, Clone, Copy)]
pub struct Index {
    pub bytes: usize,
    pub text_type: fn(usize) -> String,
    pub bytes_type: fn(usize) -> String,
}

/// How values stand in a statement.
#[derive(Debug, Clone, Copy)]
pub struct Literals {
    /// `1`, not `true`.
    pub digits_for_booleans: bool,
    pub most_integer: u64,
    pub nanoseconds: Nanoseconds,
    /// What follows a time in UTC.
    pub utc: &'static [u8],
    /// Before bytes, before each one's two digits, and behind them.
    pub bytes: [&'static [u8]; 3],
    pub nul: Nul,
    /// A number without an end, or none; `None`: there is no such.
    pub infinite: fn(f64) -> Option<String>,
}

/// Which times keep them; the others keep microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nanoseconds {
    None,
    /// Those of a day, without a zone.
    Timestamps,
    All,
}

/// A NUL character in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nul {
    Refused,
    /// By a backslash, which is therefore written twice itself.
    Escaped,
    /// As bytes, between these.
    Bytes(&'static [u8], &'static [u8]),
}

impl Dialect {
    /// What most databases have in common.
    pub const STANDARD: Self = Self {
        name: "sql",
        vendors: &[],
        quote: '"',
        longest_name: (usize::MAX, str::len),
        // The protocols count them in 16 bits.
        most_placeholders: 65_535,
        numbered: true,
        text: "VARCHAR",
        merge: Merge::OnConflict,
        // MySQL before 8 takes a timestamp for NOT NULL unless told otherwise.
        nullable: " NULL",
        column_type: standard_type,
        decimals: Some((1000, 1000)),
        usage_type: |_| None,
        index: None,
        read_back: |_, _| None,
        any: ["", " OR ", ""],
        literals: Literals {
            digits_for_booleans: false,
            most_integer: u64::MAX,
            nanoseconds: Nanoseconds::None,
            utc: b"",
            bytes: [b"x'", b"", b"'"],
            nul: Nul::Refused,
            infinite: |_| None,
        },
        counts_utf8: false,
        sum: standard_sum,
        position: |column, value| column.data_type.is_integer().then(|| value.to_owned()),
        bound: |_, number| number.to_string(),
        hash: standard_hash,
    };

    pub fn from_name(name: &str) -> Result<&'static Self> {
        let found = ALL.into_iter().find(|it| it.name == name);
        found.ok_or_else(|| {
            let known = ALL.map(|it| it.name).join(", ");
            Error::usage(format!("dialect: {name:?} is not known; known: {known}"))
        })
    }

    /// By the name that a server or a driver gives itself.
    pub fn of_vendor(name: &str) -> Option<&'static Self> {
        let name = name.to_lowercase();
        let is_named = |it: &&Self| it.vendors.iter().any(|vendor| name.contains(vendor));
        ALL.into_iter().find(is_named)
    }

    /// An identifier, quoted.
    pub fn quoted(&self, name: &str) -> String {
        let quote = self.quote;
        let twice = format!("{quote}{quote}");
        format!("{quote}{}{quote}", name.replace(quote, &twice))
    }

    /// The sum of a column, as text of any length. There are servers that cannot send a column of nulls.
    pub fn sum(&self, column: &Column) -> Option<String> {
        let sum = (self.sum)(column, &self.quoted(&column.name))?;
        Some(self.as_text(&sum, "0"))
    }

    pub fn hash(&self, column: &Column, streams: usize) -> String {
        (self.hash)(column, &self.quoted(&column.name), streams)
    }

    /// What asks for the least and the greatest value of a column, as text of whole numbers.
    pub fn select_ends(&self, column: &Column, from: &str) -> Result<String> {
        let name = self.quoted(&column.name);
        let end = |which: &str| {
            let position = (self.position)(column, &format!("{which}({name})"));
            position.map(|position| self.as_text(&position, ""))
        };
        match (end("min"), end("max")) {
            (Some(min), Some(max)) => Ok(format!("SELECT {min}, {max} FROM {from}")),
            _ => Err(Error::usage(format!(
                "split key: column {} is {}; ranges are made of whole numbers, dates and times: split hash takes any column",
                column.name,
                column.type_name()
            ))),
        }
    }

    /// Ranges of a column by that question's answer.
    pub fn by_ends(
        &self,
        column: &Column,
        answer: &[Option<String>],
        streams: usize,
    ) -> Vec<Option<String>> {
        let (name, ranges) = (self.quoted(&column.name), edges_of(answer, streams));
        by_ranges(&name, &ranges, |number| (self.bound)(column, number))
    }

    fn as_text(&self, value: &str, otherwise: &str) -> String {
        format!("COALESCE(CAST({value} AS {}), '{otherwise}')", self.text)
    }
}

fn standard_type(kind: &DataType) -> Option<String> {
    use super::ddl::{digits, is_bytes, is_text};
    let name = match kind {
        DataType::Boolean => "boolean",
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => "smallint",
        DataType::Int32 | DataType::UInt16 => "integer",
        DataType::Int64 | DataType::UInt32 => "bigint",
        DataType::UInt64 => "numeric(20)",
        DataType::Float16 | DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        kind if is_text(kind) => "text",
        kind if is_bytes(kind) => "bytea",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Time32(unit) | DataType::Time64(unit) => {
            return Some(format!("time({})", digits(*unit).min(6)))
        }
        DataType::Timestamp(unit, zone) => {
            let name = if zone.is_some() {
                "timestamptz"
            } else {
                "timestamp"
            };
            return Some(format!("{name}({})", digits(*unit).min(6)));
        }
        _ => return None,
    };
    Some(name.to_owned())
}

fn standard_sum(column: &Column, name: &str) -> Option<String> {
    Some(match &column.data_type {
        kind if kind.is_integer() => format!("sum({name})"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
            format!("sum(octet_length({name}))")
        }
        _ => return None,
    })
}

/// There is no hash that all have: it is made of the length and the last letter.
fn standard_hash(column: &Column, name: &str, streams: usize) -> String {
    if column.data_type.is_integer() {
        return format!("abs({name} % {streams})");
    }
    let value = format!("CAST({name} AS VARCHAR)");
    format!("(octet_length({value}) * 31 + COALESCE(ascii(right({value}, 1)), 0)) % {streams}")
}
