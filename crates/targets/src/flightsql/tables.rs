//! Tables of our own, and how rows get there.

use prost::Message as _;

use super::session::Update;
use super::FlightSql;
use crate::flight::call::Link;
use crate::flight::drive;
use crate::flight::options::Ack;
use crate::flight::put::PutSession;
use crate::flight::reply::says;
use crate::sql::Dialect;
use crate::upsert::{is_own, occupied};
use venturi_base::codec::flight_sql::{
    CommandPreparedStatementUpdate, CommandStatementIngest, SqlMessage, TableDefinitionOptions,
};
use venturi_base::data::upsert::Table;
use venturi_base::data::Source;
use venturi_base::error::{Error, Result};
use venturi_base::spec::Operation;

/// What a put's rows are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// An ingest into the table.
    Ingest,
    /// Values of an INSERT that each stream prepares.
    Insert(String),
}

impl FlightSql {
    pub(super) fn table_of(&self, source: &Source) -> Table {
        Table {
            name: self.table(),
            schema: source.schema(),
            key: Vec::new(),
            add: Vec::new(),
        }
    }

    /// A table of our own; one of that name which is not ours stays.
    pub(super) async fn make_table(
        &mut self,
        link: &Link,
        dialect: &'static Dialect,
        table: &Table,
    ) -> Result<()> {
        let create = dialect.create_plain(table)?;
        let drop = format!("DROP TABLE IF EXISTS {}", dialect.quoted(&table.name));
        if is_own(&table.name) {
            self.server.run(link, &drop).await?;
            self.made = Some(drop);
            return self.server.run(link, &create).await;
        }
        if self.server.has_table(link, &table.name).await? {
            return Err(occupied(&table.name));
        }
        // Some servers do not list a table that is written in other letters: one that is there all the
        // same makes this fail, and only what this has made is dropped in the end.
        self.server.run(link, &create).await?;
        self.made = Some(drop);
        Ok(())
    }

    /// How rows get into a table that is there, and why not by an ingest.
    pub(super) async fn way(
        &self,
        link: &Link,
        dialect: &'static Dialect,
        source: &Source,
    ) -> Result<(Way, Option<String>)> {
        let table = self.table_of(source);
        let insert = Way::Insert(dialect.insert_placeholders(&table, 1));
        if self.spec.operation == Operation::Put && self.prepares() {
            return Ok((insert, None));
        }
        // Of no rows: whether the server knows it.
        let trying = self.put(link, &Way::Ingest, None, source, Some(0))?;
        let trying = drive(Box::new(Update::new(trying)), 1);
        match self.server.within("bulk ingest", trying).await {
            Ok(_) => Ok((Way::Ingest, None)),
            Err(error) if is_missing(&error) => {
                let note = format!(
                    "the server takes no bulk ingest ({}): the rows are values of a prepared INSERT",
                    error.message
                );
                Ok((insert, Some(note)))
            }
            Err(error) => Err(error),
        }
    }

    /// A put of so many rows; `handle`: of the prepared INSERT.
    pub(super) fn put(
        &self,
        link: &Link,
        way: &Way,
        handle: Option<Vec<u8>>,
        source: &Source,
        rows: Option<u64>,
    ) -> Result<PutSession> {
        let descriptor = match way {
            Way::Ingest => CommandStatementIngest {
                table_definition_options: Some(TableDefinitionOptions::append()),
                table: self.table(),
            }
            .descriptor(),
            Way::Insert(_) => CommandPreparedStatementUpdate {
                prepared_statement_handle: handle.unwrap_or_default(),
            }
            .descriptor(),
        };
        Ok(PutSession::new(
            link.clone(),
            vec![],
            descriptor.encode_to_vec(),
            self.encoder(source)?,
            source.cursor(rows),
            false,
            Ack::Stream,
        ))
    }

    /// A prepared statement, which is closed in the end.
    pub(super) async fn prepared(&self, link: &Link, statement: &str) -> Result<Vec<u8>> {
        let handle = self.server.prepare(link, statement).await?;
        self.handles.lock().push(handle.clone());
        Ok(handle)
    }

    /// Our own rows, into the table that is to be read.
    pub(super) async fn fill(
        &self,
        link: &Link,
        dialect: &'static Dialect,
        source: &Source,
    ) -> Result<()> {
        let rows = self.spec.planned_rows();
        let rows =
            rows.ok_or_else(|| Error::usage("too many rows: more than 64 bits can count"))?;
        let (way, _) = self.way(link, dialect, source).await?;
        let handle = match &way {
            Way::Ingest => None,
            Way::Insert(insert) => Some(self.prepared(link, insert).await?),
        };
        let put = self.put(link, &way, handle, source, Some(rows))?;
        let filled = drive(Box::new(Update::new(put)), usize::MAX).await;
        let what = format!(
            "{}: filling {}",
            self.server.address.authority(),
            self.table()
        );
        filled.map(drop).map_err(|error| error.context(what))
    }
}

/// Whether a server has no such command; one that refuses our rows is another matter.
fn is_missing(error: &Error) -> bool {
    says(error, "UNIMPLEMENTED") || says(error, "INVALID_ARGUMENT")
}
