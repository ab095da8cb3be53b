//! What a database is asked before the clock: how many rows there are, their sums, and which of them a stream reads.

use super::code::Code;
use super::driver::Link;
use super::words::Words;
use crate::read::{by_hash, by_ranges, edges_of, Column, Split, Summed, There};
use venturi_base::error::{Error, Kind, Result};

/// What all rows are held against.
#[derive(Default)]
pub struct Counted {
    pub summed: Summed,
    pub there: Option<There>,
    pub note: Option<String>,
}

impl Counted {
    fn of(self, (rows, sums): (u64, crate::Sums)) -> Self {
        let there = There {
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
        words: &Words,
        from: &str,
        columns: &[Column],
    ) -> Result<Vec<Option<String>>> {
        let streams = self.spec.streams;
        let reading = &self.options.reading;
        let usual = match reading.split_by.is_some() || words.hashes() {
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
            let hash = words.hash(column, streams).ok_or_else(|| {
                Error::usage(
                    "split hash: how this database hashes is not known (it is of PostgreSQL, SQLite and DuckDB): \
                     use split key",
                )
            })?;
            return Ok(by_hash(&hash, streams));
        }
        let ends = words.ends(column).ok_or_else(|| {
            Error::usage(format!(
                "split key: column {} is {}; ranges are made of whole numbers: split hash takes any column",
                column.name, column.data_type
            ))
        })?;
        let row = link.ask(&format!("SELECT {ends} FROM {from}"))?;
        let ranges = edges_of(&row, streams);
        let name = words.quoted(&column.name);
        Ok(by_ranges(&name, &ranges, |number| {
            words.bound(column, number)
        }))
    }
}
