//! SQL in the words of the database behind a driver, as far as its driver says which one that is.

use arrow_schema::{DataType, Field, TimeUnit};

use crate::read::Column;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use crate::read::Reads;
use venturi_base::codec::sql::Dialect;

/// What a field's metadata says where its values are of a type that Arrow has no own one for.
const EXTENSION: &str = "ARROW:extension:name";

pub struct Words {
    quoting: Dialect,
    sum: fn(&Column) -> Option<String>,
    /// `None`: nobody knows how that database hashes.
    hash: Option<fn(&Column, usize) -> String>,
    position: fn(&Column, &str) -> Option<String>,
    bound: fn(&Column, i128) -> String,
}

impl Words {
    /// By the vendor's name as the driver has it.
    pub fn of(vendor: &str) -> Self {
        let vendor = vendor.to_lowercase();
        let is = |name: &str| vendor.contains(name);
        match () {
            #[cfg(feature = "postgres")]
            () if is("postgres") => Self::from::<crate::postgres::Postgres>(),
            #[cfg(feature = "sqlite")]
            () if is("sqlite") => Self {
                // Lengths of text are those of its bytes in the file, which may be UTF-16.
                sum: |column| match column.data_type {
                    DataType::Utf8 => None,
                    _ => crate::sqlite::Sqlite::sum(column),
                },
                ..Self::from::<crate::sqlite::Sqlite>()
            },
            () if is("duckdb") => Self {
                quoting: Dialect::DuckDb,
                sum: duckdb_sum,
                hash: Some(|column, streams| {
                    format!("hash({}) % {streams}", Dialect::DuckDb.quoted(&column.name))
                }),
                position: whole,
                bound: |_, number| number.to_string(),
            },
            () => Self {
                quoting: match is("mysql") || is("mariadb") {
                    true => Dialect::MySql,
                    false => Dialect::DuckDb,
                },
                sum: |_| None,
                hash: None,
                position: whole,
                bound: |_, number| number.to_string(),
            },
        }
    }

    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    fn from<D: Reads>() -> Self {
        Self {
            quoting: D::DIALECT,
            sum: D::sum,
            hash: Some(D::hash),
            position: D::position,
            bound: D::bound,
        }
    }

    pub fn quoted(&self, name: &str) -> String {
        self.quoting.quoted(name)
    }

    /// The sum of a column's values, as text of any length.
    pub fn sum(&self, column: &Column) -> Option<String> {
        let plain = column.native != EXTENSION;
        let sum = plain.then(|| (self.sum)(column)).flatten();
        sum.map(|sum| as_text(&sum))
    }

    pub fn hash(&self, column: &Column, streams: usize) -> Option<String> {
        self.hash.map(|hash| hash(column, streams))
    }

    /// Whether streams share rows by a hash where nothing is said.
    pub fn hashes(&self) -> bool {
        self.hash.is_some()
    }

    /// The least and the greatest value as whole numbers; `None`: there are no ranges of such a column.
    pub fn ends(&self, column: &Column) -> Option<String> {
        let name = self.quoted(&column.name);
        let end = |which: &str| {
            let position = (self.position)(column, &format!("{which}({name})"));
            position.map(|position| as_text(&position))
        };
        Some(format!("{}, {}", end("min")?, end("max")?))
    }

    pub fn bound(&self, column: &Column, number: i128) -> String {
        (self.bound)(column, number)
    }
}

fn as_text(value: &str) -> String {
    format!("CAST({value} AS VARCHAR)")
}

fn whole(column: &Column, value: &str) -> Option<String> {
    column.data_type.is_integer().then(|| value.to_owned())
}

fn duckdb_sum(column: &Column) -> Option<String> {
    let name = Dialect::DuckDb.quoted(&column.name);
    Some(match column.data_type {
        ref kind if kind.is_integer() => format!("sum({name})"),
        DataType::Boolean => format!("count(*) FILTER (WHERE {name})"),
        DataType::Utf8 | DataType::LargeUtf8 => format!("sum(strlen({name}))"),
        DataType::Binary | DataType::LargeBinary => format!("sum(octet_length({name}))"),
        _ => return None,
    })
}

/// A column of what a driver gives; its type as Postgres calls it, as far as that is clear.
pub fn column(field: &Field) -> Column {
    let native = match field.data_type() {
        _ if field.metadata().contains_key(EXTENSION) => EXTENSION,
        DataType::Int16 => "int2",
        DataType::Int32 => "int4",
        DataType::Int64 => "int8",
        DataType::Date32 => "date",
        DataType::Timestamp(TimeUnit::Microsecond, None) => "timestamp",
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => "timestamptz",
        _ => "",
    };
    Column {
        name: field.name().clone(),
        data_type: field.data_type().clone(),
        native: native.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_vendor() {
        let number = column(&Field::new("a\"b", DataType::Int64, true));
        let text = column(&Field::new("t", DataType::Utf8, true));
        let duckdb = Words::of("duckdb");
        assert_eq!(
            duckdb.sum(&number).unwrap(),
            r#"CAST(sum("a""b") AS VARCHAR)"#
        );
        assert!(duckdb.sum(&text).unwrap().contains("strlen"));
        assert_eq!(duckdb.hash(&text, 3).unwrap(), r#"hash("t") % 3"#);
        let other = Words::of("Snowflake");
        assert_eq!((other.sum(&number), other.hash(&text, 3)), (None, None));
        let ends = r#"CAST(min("a""b") AS VARCHAR), CAST(max("a""b") AS VARCHAR)"#;
        assert_eq!(other.ends(&number).unwrap(), ends);
        assert_eq!(other.ends(&text), None);
        assert_eq!(Words::of("MySQL").quoted("a"), "`a`");
    }

    #[test]
    fn what_is_not_clear_is_not_summed() {
        let opaque = [(EXTENSION.to_owned(), "arrow.opaque".to_owned())];
        let opaque = Field::new("n", DataType::Binary, true).with_metadata(opaque);
        assert_eq!(Words::of("duckdb").sum(&column(&opaque)), None);
        #[cfg(feature = "sqlite")]
        assert_eq!(
            Words::of("SQLite").sum(&column(&Field::new("t", DataType::Utf8, true))),
            None
        );
        #[cfg(feature = "postgres")]
        {
            let date = column(&Field::new("d", DataType::Date32, true));
            assert!(Words::of("PostgreSQL")
                .ends(&date)
                .unwrap()
                .contains("isfinite"));
        }
    }
}
