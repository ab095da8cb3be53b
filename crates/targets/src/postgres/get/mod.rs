//! Gets from Postgres: `COPY (query) TO STDOUT (FORMAT binary)`, or rows by the extended protocol.

pub mod decode;
mod numeric;
mod rows;
pub mod types;

use std::pin::pin;

use bytes::Bytes;
use futures::SinkExt;

use super::connect::Link;
use super::dialect::POSTGRES;
use super::options::WireFormat;
use super::types::{Columns, Form, END, HEADER};
use super::Postgres;
use crate::database::{literal, Database};
use crate::read::{Column, Question, Reading, Reads};
use crate::upsert::name_of;
use venturi_base::data::upsert::Table;
use venturi_base::data::Cursor;
use venturi_base::error::{Error, Result};
use venturi_base::spec::TrialSpec;

use decode::Decoder;
use rows::Answer;

/// Bytes of our own data that are handed over at once.
const FILL: usize = 1 << 20;

impl Reads for Postgres {
    type Rows = Answer;

    fn reading(&self) -> &Reading {
        &self.options.reading
    }

    fn protocol(&self) -> String {
        format!("postgres-{}", name_of(&self.options.format()))
    }

    async fn columns(&self, link: &mut Link, select: &str) -> Result<Vec<Column>> {
        let prepared = link.driver.drive(link.client.prepare(select)).await;
        let prepared = self.check(prepared)?;
        prepared.columns().iter().map(types::column).collect()
    }

    /// The count, the sums and all streams see the same rows, whatever is written meanwhile.
    async fn snapshot(&self, link: &mut Link) -> Result<Option<String>> {
        const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        self.run(link, BEGIN).await?;
        let row = self.ask(link, "SELECT pg_export_snapshot()").await?;
        let name = row.into_iter().next().flatten();
        Ok(name.map(|name| format!("{BEGIN}; SET TRANSACTION SNAPSHOT {}", literal(&name))))
    }

    fn hold(&self, link: Link) {
        *self.held.lock() = Some(link);
    }

    fn release(&self) {
        drop(self.held.lock().take());
    }

    /// Ranges of the pages that a table lies in, by the place of each row, its ctid.
    async fn parts(
        &self,
        link: &mut Link,
        table: &str,
        streams: usize,
    ) -> Result<Vec<Option<String>>> {
        let name = literal(&POSTGRES.quoted(table));
        let question = format!(
            "SELECT relkind, pg_relation_size(oid) / current_setting('block_size')::bigint FROM pg_class WHERE oid = to_regclass({name})"
        );
        let row = self.ask(link, &question).await?;
        let mut row = row.into_iter().flatten();
        let (kind, pages) = (row.next().unwrap_or_default(), row.next());
        if !matches!(kind.as_str(), "r" | "m") {
            return Err(Error::usage(format!(
                "{}: split parts is for a plain table, whose rows lie in pages of its own, and {table} is none: use split key or hash",
                self.authority
            )));
        }
        let pages: u64 = pages.and_then(|pages| pages.parse().ok()).unwrap_or(0);
        Ok(by_pages(pages, streams))
    }

    async fn fill(&self, link: &mut Link, table: &Table, mut rows: Cursor) -> Result<()> {
        let forms = 0..table.schema.fields().len();
        let forms = forms
            .map(|at| Form::of(table, at))
            .collect::<Result<Vec<_>>>()?;
        let name = POSTGRES.quoted(&table.name);
        let Link { client, driver, .. } = link;
        let copy = format!("COPY {name} FROM STDIN (FORMAT binary)");
        let sink = driver.drive(client.copy_in::<_, Bytes>(&copy)).await;
        let mut sink = pin!(self.check(sink)?);
        let mut bytes = HEADER.to_vec();
        while let Some(item) = rows.next() {
            Columns::of(table, &forms, item.batch())?.rows(&mut bytes)?;
            if bytes.len() >= FILL {
                let piece = Bytes::from(std::mem::take(&mut bytes));
                self.check(driver.drive(sink.send(piece)).await)?;
            }
        }
        bytes.extend_from_slice(&END);
        self.check(driver.drive(sink.send(bytes.into())).await)?;
        self.check(driver.drive(sink.finish()).await).map(|_| ())?;
        // Hint bits are set by who reads a row first, which shall be no stream.
        self.run(link, &format!("VACUUM (ANALYZE) {name}")).await
    }

    async fn rows(&self, _: &TrialSpec, mut link: Link, question: Question) -> Result<Answer> {
        let format = self.options.format();
        let Link { client, driver, .. } = &mut link;
        // A COPY does not say what types its columns have; the query does, and is compared.
        let query = self.check(driver.drive(client.prepare(&question.statement)).await)?;
        let decoder = Decoder::new(query.columns(), &question)?;
        let statement = match format {
            WireFormat::Rows => query,
            WireFormat::Copy => {
                let copy = format!("COPY ({}) TO STDOUT (FORMAT binary)", question.statement);
                self.check(driver.drive(client.prepare(&copy)).await)?
            }
        };
        let place = self.authority.clone();
        Ok(Answer::new(link, format, statement, decoder, place))
    }
}

/// Equal ranges of pages; the last has no end.
fn by_pages(pages: u64, streams: usize) -> Vec<Option<String>> {
    let edge = |at: usize| (u128::from(pages) * at as u128 / streams as u128) as u64;
    let part = |stream: usize| {
        let (from, to) = (edge(stream), edge(stream + 1));
        let above = format!("ctid >= '({from},0)'::tid");
        match stream + 1 == streams {
            true => Some(above),
            false => (from < to).then(|| format!("{above} AND ctid < '({to},0)'::tid")),
        }
    };
    (0..streams).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_shared_out() {
        let two = [
            Some("ctid >= '(0,0)'::tid AND ctid < '(2,0)'::tid".to_owned()),
            Some("ctid >= '(2,0)'::tid".to_owned()),
        ];
        assert_eq!(by_pages(5, 2), two);
        let one = by_pages(1, 3);
        assert_eq!(one[..2], [None, None]);
        assert_eq!(one[2].as_deref(), Some("ctid >= '(0,0)'::tid"));
    }
}
