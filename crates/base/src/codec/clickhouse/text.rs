//! Reads the text of a type. Nothing recurses deeper than `DEEP`.

use std::sync::Arc;

use super::types::{Names, Type};
use crate::error::{Error, Result};

/// Types inside types at most: `LowCardinality(Nullable(T))` has three levels.
const DEEP: usize = 4;
/// Bytes of a type's text that are read at most (an enumeration may be long).
const MOST_TEXT: usize = 1 << 20;
/// The widest FixedString that ClickHouse makes.
const WIDEST: usize = 0xff_ffff;

pub(super) struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, rest: text }
    }

    pub fn parse_type(mut self) -> Result<Type> {
        if self.text.len() > MOST_TEXT {
            return Err(Error::protocol(format!(
                "a type's text of {} bytes; at most {MOST_TEXT} are read",
                self.text.len()
            )));
        }
        let found = self.read(DEEP)?;
        match self.rest.trim() {
            "" => Ok(found),
            _ => Err(self.wrong("something follows it")),
        }
    }

    fn wrong(&self, what: &str) -> Error {
        let shown: String = self.text.chars().take(100).collect();
        Error::protocol(format!("type {shown}: {what}"))
    }

    fn read(&mut self, deep: usize) -> Result<Type> {
        if deep == 0 {
            return Err(self.wrong("too deep"));
        }
        let name = self.word();
        Ok(match name {
            "Int8" => Type::Int8,
            "Int16" => Type::Int16,
            "Int32" => Type::Int32,
            "Int64" => Type::Int64,
            "UInt8" => Type::UInt8,
            "UInt16" => Type::UInt16,
            "UInt32" => Type::UInt32,
            "UInt64" => Type::UInt64,
            "Float32" => Type::Float32,
            "Float64" => Type::Float64,
            "Bool" => Type::Bool,
            "String" => Type::String,
            "Date" => Type::Date,
            "Date32" => Type::Date32,
            "UUID" => Type::Uuid,
            "FixedString" => {
                let width = self.inside(|read| read.number())?;
                let width = usize::try_from(width).ok().filter(|n| (1..=WIDEST).contains(n));
                Type::FixedString(width.ok_or_else(|| self.wrong("1 to 16777215 bytes"))?)
            }
            "DateTime" => match self.rest.starts_with('(') {
                true => Type::DateTime(Some(self.inside(|read| read.string())?.into())),
                false => Type::DateTime(None),
            },
            "DateTime64" => {
                let (digits, zone) = self.inside(|read| {
                    let digits = read.number()?;
                    let zone = match read.takes(',') {
                        true => Some(Arc::from(read.string()?)),
                        false => None,
                    };
                    Ok((digits, zone))
                })?;
                let digits = u8::try_from(digits).ok().filter(|digits| *digits <= 9);
                Type::DateTime64(digits.ok_or_else(|| self.wrong("0 to 9 digits"))?, zone)
            }
            "Decimal" => {
                let (digits, scale) = self.inside(|read| {
                    let digits = read.number()?;
                    let scale = match read.takes(',') {
                        true => read.number()?,
                        false => 0,
                    };
                    Ok((digits, scale))
                })?;
                self.decimal(digits, scale)?
            }
            "Decimal32" | "Decimal64" | "Decimal128" => {
                let scale = self.inside(|read| read.number())?;
                let digits = match name {
                    "Decimal32" => 9,
                    "Decimal64" => 18,
                    _ => 38,
                };
                self.decimal(digits, scale)?
            }
            "Enum8" => Type::Enum8(Arc::new(self.names(-128..=127)?)),
            "Enum16" => Type::Enum16(Arc::new(self.names(-32768..=32767)?)),
            "Nullable" => match self.inside(|read| read.read(deep - 1))? {
                Type::Nullable(_) | Type::LowCardinality(_) => {
                    return Err(self.wrong("Nullable of what cannot be null"))
                }
                inner => Type::Nullable(Box::new(inner)),
            },
            "LowCardinality" => match self.inside(|read| read.read(deep - 1))? {
                Type::LowCardinality(_) => return Err(self.wrong("LowCardinality twice")),
                inner => Type::LowCardinality(Box::new(inner)),
            },
            _ => return Err(self.wrong(
                "not read here in RowBinary or Native; cast the column in the query (toString), or use format arrow or parquet",
            )),
        })
    }

    fn decimal(&self, digits: i64, scale: i64) -> Result<Type> {
        match (u8::try_from(digits), u8::try_from(scale)) {
            (Ok(digits @ 1..=38), Ok(scale)) if scale <= digits => Ok(Type::Decimal(digits, scale)),
            _ => Err(self.wrong("1 to 38 digits, of these at most all behind the point")),
        }
    }

    fn names(&mut self, codes: std::ops::RangeInclusive<i64>) -> Result<Names> {
        self.inside(|read| {
            let mut names = Vec::new();
            loop {
                let name = read.string()?;
                read.expect('=')?;
                let code = read.number()?;
                if !codes.contains(&code) {
                    return Err(read.wrong("a code out of its range"));
                }
                names.push((name, code as i16));
                if !read.takes(',') {
                    return Ok(Names(names));
                }
            }
        })
    }

    /// What is between brackets.
    fn inside<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.expect('(')?;
        let found = read(self)?;
        self.expect(')')?;
        Ok(found)
    }

    fn word(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        let other = |letter: char| !letter.is_ascii_alphanumeric();
        let end = self.rest.find(other).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn takes(&mut self, sign: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, sign: char) -> Result<()> {
        match self.takes(sign) {
            true => Ok(()),
            false => Err(self.wrong(&format!("a {sign} is missing"))),
        }
    }

    fn number(&mut self) -> Result<i64> {
        let negative = self.takes('-');
        let found: Option<i64> = self.word().parse().ok();
        match found {
            Some(number) if negative => Ok(-number),
            Some(number) => Ok(number),
            None => Err(self.wrong("a number is missing")),
        }
    }

    fn string(&mut self) -> Result<String> {
        self.expect('\'')?;
        let mut out = String::new();
        let mut letters = self.rest.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\'' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(out);
                }
                '\\' => match letters.next() {
                    Some((_, 'n')) => out.push('\n'),
                    Some((_, 't')) => out.push('\t'),
                    Some((_, 'r')) => out.push('\r'),
                    Some((_, '0')) => out.push('\0'),
                    Some((_, other)) => out.push(other),
                    None => break,
                },
                other => out.push(other),
            }
        }
        Err(self.wrong("a string without its end"))
    }
}
