//! What a database is asked before the clock: how many rows there are, their sums, and which of them a stream reads.

use arrow_schema::DataType;

use super::code::Code;
use super::driver::Link;
use crate::read::{by_hash, Baseline, Column, Split, Summed};
use crate::sql::Dialect;
use venturi_base::error::{Error, Kind, Result};

/// What all rows are held against.
#[derive(Default)]
pub struct Counted {
    pub summed: Summed,
    pub there: Option<Baseline>,
    pub note: Option<String>,
}

impl Counted {
    fn of(self, (rows, sums): (u64, crate::Sums)) -> Self {
        let there = Baseline {
            rows,
            sums,
            checksum: None,
        };
        Self {
            there: Some(there),
            ..self
        }
    }
}

/// Rows and sums by the first row of an answer.
pub fn counted(link: &mut Link, summed: &Summed, question: &str) -> Result<(u64, crate::Sums)> {
    let row = link.ask(question)?;
    let found = summed.found(row.iter().map(Option::as_deref));
    found.ok_or_else(|| {
        let name = link.base().name();
        let line = format!("{name}: no count and sums, but {row:?}: {question}");
        Error::new(Kind::Protocol, line)
    })
}

impl Code {
    /// What the database itself says of all rows; where it cannot, what a run of the statement has.
    pub(super) fn count_all(
        &self,
        link: &mut Link,
        from: &str,
        all: &str,
        sums: Vec<(String, Option<String>)>,
    ) -> Result<Counted> {
        let question = |summed: &Summed| format!("SELECT {} FROM {from}", summed.selected());
        let mut found = Counted {
            summed: Summed::new(sums.iter().cloned()),
            ..Counted::default()
        };
        let first = match counted(link, &found.summed, &question(&found.summed)) {
            Ok(there) => return Ok(found.of(there)),
            Err(error) => error,
        };
        found.note = Some(format!("not all sums were told: {first}"));
        // Which of them it was is seen without reading a row. A failure may break a transaction.
        let can = |sum: &String| {
            let question = format!("SELECT {sum} FROM {from} WHERE 1 = 0");
            self.connect()
                .is_ok_and(|mut link| link.ask(&question).is_ok())
        };
        let known = sums.into_iter().map(|(name, sum)| (name, sum.filter(can)));
        for summed in [Summed::new(known.collect::<Vec<_>>()), Summed::default()] {
            found.summed = summed;
            let told = counted(
                &mut self.connect()?,
                &found.summed,
                &question(&found.summed),
            );
            if let Ok(there) = told {
                return Ok(found.of(there));
            }
        }
        let mut link = self.connect()?;
        let mut statement = link.query(all)?;
        let mut rows = 0;
        for batch in link.execute(&mut statement)? {
            rows += batch.map_err(|error| link.base().broken(error))?.num_rows() as u64;
        }
        let note = "rows are held against those of a run of the query before, as they could not be counted by SQL";
        found.note = Some(note.into());
        Ok(found.of((rows, Default::default())))
    }

    /// What each stream reads; `None`: nothing; empty: all.
    pub(super) fn conditions(
        &self,
        link: &mut Link,
        vendor: &Vendor,
        from: &str,
        columns: &[Column],
    ) -> Result<Vec<Option<String>>> {
        let streams = self.spec.streams;
        let reading = &self.options.reading;
        let usual = match reading.split_by.is_some() || vendor.0.is_some() {
            true => Split::Hash,
            false => Split::Key,
        };
        let split = reading.split.unwrap_or(usual);
        if streams == 1 || split == Split::None {
            return Ok(vec![Some(String::new()); streams]);
        }
        let column = match &reading.split_by {
            None => columns.first(),
            Some(name) => columns.iter().find(|column| column.name == *name),
        };
        let column = column.ok_or_else(|| {
            let name = reading.split_by.as_deref().unwrap_or_default();
            Error::usage(format!("split_by {name}: there is no such column"))
        })?;
        if split == Split::Hash {
            let hash = vendor.hash(column, streams).ok_or_else(|| {
                Error::usage(
                    "split hash: how this database hashes is not known (it is of PostgreSQL, MySQL, SQLite and DuckDB): \
                     use split key",
                )
            })?;
            return Ok(by_hash(&hash, streams));
        }
        let dialect = vendor.dialect();
        let row = link.ask(&dialect.select_ends(column, from)?)?;
        Ok(dialect.by_ends(column, &row, streams))
    }
}

/// What is known of the SQL of the database behind a driver, by its name as the driver has it.
pub struct Vendor(Option<&'static Dialect>);

impl Vendor {
    pub fn of(name: &str) -> Self {
        Self(Dialect::of_vendor(name))
    }

    pub fn dialect(&self) -> &'static Dialect {
        self.0.unwrap_or(&Dialect::STANDARD)
    }

    /// The sum of a column's values, as text of any length.
    pub fn sum(&self, column: &Column) -> Option<String> {
        let dialect = self.0.filter(|_| !column.is_extension())?;
        let text = matches!(column.data_type, DataType::Utf8 | DataType::LargeUtf8);
        // Else lengths are those of its bytes in the database, which may be UTF-16.
        match text && !dialect.counts_utf8 {
            true => None,
            false => dialect.sum(column),
        }
    }

    /// `None`: nobody knows how that database hashes.
    pub fn hash(&self, column: &Column, streams: usize) -> Option<String> {
        self.0.map(|dialect| dialect.hash(column, streams))
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn by_vendor() {
        let number = Column::of(&Field::new("a\"b", DataType::Int64, true));
        let text = Column::of(&Field::new("t", DataType::Utf8, true));
        let duckdb = Vendor::of("duckdb");
        assert_eq!(
            duckdb.sum(&number).unwrap(),
            r#"COALESCE(CAST(sum("a""b") AS VARCHAR), '0')"#
        );
        assert!(duckdb.sum(&text).unwrap().contains("strlen"));
        assert_eq!(duckdb.hash(&text, 3).unwrap(), r#"hash("t") % 3"#);
        let other = Vendor::of("Snowflake");
        assert_eq!((other.sum(&number), other.hash(&text, 3)), (None, None));
        let ends = other.dialect().select_ends(&number, "t").unwrap();
        assert_eq!(
            ends,
            r#"SELECT COALESCE(CAST(min("a""b") AS VARCHAR), ''), COALESCE(CAST(max("a""b") AS VARCHAR), '') FROM t"#
        );
        assert!(other.dialect().select_ends(&text, "t").is_err());
        assert_eq!(Vendor::of("MySQL").dialect().quoted("a"), "`a`");
    }

    #[test]
    fn what_is_not_clear_is_not_summed() {
        let opaque = [("ARROW:extension:name".to_owned(), "arrow.opaque".to_owned())];
        let opaque = Field::new("n", DataType::Binary, true).with_metadata(opaque);
        assert_eq!(Vendor::of("duckdb").sum(&Column::of(&opaque)), None);
        #[cfg(feature = "sqlite")]
        assert_eq!(
            Vendor::of("SQLite").sum(&Column::of(&Field::new("t", DataType::Utf8, true))),
            None
        );
        #[cfg(feature = "postgres")]
        {
            let date = Column::of(&Field::new("d", DataType::Date32, true));
            assert!(Vendor::of("PostgreSQL")
                .dialect()
                .select_ends(&date, "t")
                .unwrap()
                .contains("isfinite"));
        }
    }
}
