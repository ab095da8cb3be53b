//! Upserts into MySQL: what is asked of the server besides, and one connection's way to execute a batch.

use std::sync::Arc;
use std::time::Duration;

use super::connect::{Connection, Row};
use super::dialect::MYSQL;
use super::errors::{self, Circumstances};
use super::server::literal;
use super::statement::{Statement, Statements};
use super::MySql;
use crate::database::{run_init, Database};
use crate::sql::Widths;
use crate::upsert::{Builder, Executing, Executor, Prepared, StatementKind, Upserts, Waits, Work};
use venturi_base::codec::mysql::message_length;
use venturi_base::data::upsert::{Batches, Table};
use venturi_base::error::{Error, Fate, Kind, Result};
use venturi_base::meter::clock::Stage;
use venturi_base::spec::TrialSpec;

/// How long the kernel waits for an answer before the runtime does: so long a stop or a stalled
/// server may go unnoticed.
const LOOK_UP: Duration = Duration::from_millis(100);

impl Upserts for MySql {
    type Builder = Statements;
    type Executor = Lane;

    // ON DUPLICATE KEY takes a key as often as it comes.
    const MERGES: bool = false;

    async fn builder(
        &self,
        connection: &mut Connection,
        table: &Table,
        batches: &Batches,
    ) -> Result<Statements> {
        MYSQL.check(table)?;
        let first = batches.get(0)?;
        let mut builder = Statements {
            kind: self.options.statement,
            max_allowed_packet: usize::MAX,
        };
        builder.check_parameters(table.schema.fields().len(), first.num_rows())?;
        let least = self.max_allowed_packet(connection).await;
        builder.max_allowed_packet = self.explained(connection, least)?;
        builder.build(table, &first)?;
        Ok(builder)
    }

    async fn make_space(&self, connection: &mut Connection) -> Result<()> {
        let server = self.server()?;
        let set = self.change_settings(connection, server).await;
        self.explained(connection, set)?;
        if connection.has_database {
            return Ok(());
        }
        let made = self.make_database(connection, server).await;
        self.explained(connection, made)?;
        run_init(self, connection).await?;
        let checked = self.check_mode(connection).await;
        self.explained(connection, checked)
    }

    fn absent(&self, table: &str) -> Error {
        let (within, user) = (self.within(), &self.access.user);
        let message = format!("there is no table {table}{within}, or {user:?} may not see it");
        let error = Error::new(Kind::Server, message).with_code(1146);
        self.circumstances.explain(error)
    }

    fn create_table(&self, table: &Table, batches: &Batches) -> Result<String> {
        self.server()?.create_table(table, batches, &self.options)
    }

    fn stored_bytes(&self, table: &str) -> (Vec<String>, String) {
        match self.server.get() {
            Some(server) => server.stored_bytes(&self.place.space, table),
            None => Default::default(),
        }
    }

    /// Columns of the table's unique indexes, in their order, with their collations, and what else is said of them.
    fn meet(table: &str) -> String {
        format!(
            "SELECT s.INDEX_NAME, s.COLUMN_NAME, c.COLLATION_NAME, c.EXTRA, s.SUB_PART FROM information_schema.STATISTICS s \
             LEFT JOIN information_schema.COLUMNS c ON c.TABLE_SCHEMA = s.TABLE_SCHEMA \
             AND c.TABLE_NAME = s.TABLE_NAME AND c.COLUMN_NAME = s.COLUMN_NAME \
             WHERE s.TABLE_SCHEMA = DATABASE() AND s.TABLE_NAME = {} AND s.NON_UNIQUE = 0 \
             ORDER BY s.INDEX_NAME, s.SEQ_IN_INDEX",
            literal(table)
        )
    }

    fn meets(table: &Table, batches: &Batches, rows: &[Row]) -> Result<Option<String>> {
        meets(table, rows, || Widths::of(table, batches))
    }

    async fn executors(
        &self,
        spec: &TrialSpec,
        mut connection: Connection,
        work: &Work<Statements>,
    ) -> Result<Vec<Lane>> {
        let ready = self.make_ready(&mut connection, work).await;
        let atomic = self.explained(&connection, ready)?;
        // Every stream has a thread of its own.
        if spec.own().len() <= spec.threads {
            connection.alone(LOOK_UP.min(Duration::from_nanos(spec.timeout_ns) / 4));
        }
        Ok(vec![Lane(Box::new(State {
            circumstances: self.circumstances_at(connection.host()),
            connection,
            atomic,
        }))])
    }

    fn notes(&self) -> Vec<String> {
        self.notes.lock().clone()
    }
}

impl MySql {
    /// The least of all hosts.
    async fn max_allowed_packet(&self, connection: &mut Connection) -> Result<usize> {
        let mut least = packet_limit(connection).await?;
        for host in self.place.hosts.iter().skip(1) {
            let limit = async {
                let mut other = Connection::open(host, &self.access, None).await?;
                let limit = packet_limit(&mut other).await?;
                other.quit().await;
                Ok(limit)
            };
            let limit = limit.await.map_err(|error: Error| {
                let circumstances = self.circumstances_at(&host.authority());
                circumstances.explain(error).context("another host")
            });
            least = least.min(limit?);
        }
        Ok(least)
    }

    /// Prepares the statements. True: the table's engine undoes one that fails.
    async fn make_ready(
        &self,
        connection: &mut Connection,
        work: &Work<Statements>,
    ) -> Result<bool> {
        if self.options.statement == StatementKind::Prepared {
            for rows in batch_lengths(work)? {
                let upsert = MYSQL.upsert_placeholders(&work.table, rows);
                connection.prepare(rows, &upsert).await?;
            }
        }
        if let Some(atomic) = self.atomic.get() {
            return Ok(*atomic);
        }
        let engine = format!(
            "SELECT COALESCE(ENGINE, '') FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = {}",
            literal(&work.table.name)
        );
        let engine = connection.value(&engine).await?.unwrap_or_default();
        let atomic = self.server()?.is_atomic(&engine);
        Ok(*self.atomic.get_or_init(|| atomic))
    }
}

async fn packet_limit(connection: &mut Connection) -> Result<usize> {
    let said = connection.value("SELECT @@max_allowed_packet").await?;
    // A server that has no such setting has no such limit.
    let limit = said.and_then(|text| text.parse().ok());
    Ok(limit.unwrap_or(usize::MAX))
}

/// How many rows the batches have: all the same, but for the last one of a file.
fn batch_lengths(work: &Work<Statements>) -> Result<Vec<usize>> {
    let first = work.batches.get(0)?.num_rows();
    let last = work.batches.get(work.batches.count() - 1)?.num_rows();
    let mut lengths = vec![first, last];
    lengths.dedup();
    Ok(lengths)
}

/// Why rows with different keys meet in a table of somebody else's: another unique index, which
/// `ON DUPLICATE KEY` heeds as it does the key's, or a collation.
fn meets(
    table: &Table,
    indexes: &[Row],
    widths: impl Fn() -> Result<Widths>,
) -> Result<Option<String>> {
    let text = |row: &Row, at: usize| row.get(at).cloned().flatten().unwrap_or_default();
    let is_key = |name: &str| {
        let mut columns = table.key.iter().map(|&at| table.column(at));
        columns.any(|column| column.eq_ignore_ascii_case(name))
    };
    for rows in indexes.chunk_by(|a, b| text(a, 0) == text(b, 0)) {
        let columns: Vec<String> = rows.iter().map(|row| text(row, 1)).collect();
        // The server numbers such rows itself, each anew.
        if rows
            .iter()
            .any(|row| text(row, 3).contains("auto_increment") && !is_key(&text(row, 1)))
        {
            continue;
        }
        if columns.len() != table.key.len() || !columns.iter().all(|name| is_key(name)) {
            return Ok(Some(format!(
                "the table's unique index {} ({}) is not the key",
                text(&rows[0], 0),
                columns.join(", ")
            )));
        }
        if let Some(row) = rows.iter().find(|row| !text(row, 4).is_empty()) {
            let (column, length) = (text(row, 1), text(row, 4));
            return Ok(Some(format!(
                "the key's index has the first {length} of column {column} alone"
            )));
        }
        let exact = |row: &&Row| {
            let by = text(row, 2);
            by.is_empty() || by == "binary" || by.ends_with("_bin")
        };
        if let Some(row) = rows.iter().find(|row| !exact(row)) {
            let (column, by) = (text(row, 1), text(row, 2));
            return Ok(Some(format!(
                "the key's column {column} is compared by {by}"
            )));
        }
        // PAD SPACE: spaces at the end are ignored.
        let pads = |row: &&Row| {
            let by = text(row, 2);
            by.ends_with("_bin") && !(by.contains("_nopad_") || by.contains("_0900_"))
        };
        for row in rows.iter().filter(pads) {
            let (column, by) = (text(row, 1), text(row, 2));
            if widths()?.is_padded(table, &column) {
                return Ok(Some(format!(
                    "the key's column {column} has values with spaces at the end, which {by} ignores"
                )));
            }
        }
    }
    Ok(None)
}

/// One stream's connection, moved from call to call.
pub struct Lane(Box<State>);

pub struct State {
    connection: Connection,
    atomic: bool,
    circumstances: Circumstances,
}

impl Executor for Lane {
    type Statement = Statement;

    const WORK: Stage = Stage::Send;

    fn execute(mut self, call: Arc<Prepared<Statement>>) -> Executing<Self> {
        Box::pin(async move {
            let done = self.0.connection.upsert(&call.statement).await;
            let done = done.map_err(|error| self.0.explain(error, &call));
            (self, done)
        })
    }

    fn waits(&self) -> Option<Waits> {
        Some(self.0.connection.waits())
    }
}

impl State {
    fn explain(&self, error: Error, call: &Prepared<Statement>) -> Error {
        let code = error.code.as_ref().and_then(|code| code.parse().ok());
        let fate = match code {
            Some(code) => errors::fate(code, self.atomic, call.rows),
            None => Fate::Fatal,
        };
        let (rows, bytes) = (call.rows, message_length(&call.statement.packets));
        let batch = format!("a batch of {rows} rows ({bytes} bytes)");
        self.circumstances
            .explain(error.context(batch))
            .with_fate(fate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use venturi_base::data::usage::Usage;

    #[test]
    fn keys_that_meet() {
        let usage = Table::new("t", Usage::schema(), &Usage::roles()).unwrap();
        let index = |name: &str, by: Option<&str>| -> Vec<Row> {
            let row = |&at: &usize| {
                let by = by
                    .filter(|_| usage.column(at) == "ip_address")
                    .map(str::to_owned);
                vec![Some(name.to_owned()), Some(usage.column(at).to_owned()), by]
            };
            usage.key.iter().map(row).collect()
        };
        let meet = |indexes: &[Row]| meets(&usage, indexes, || Ok(Widths::default())).unwrap();
        for exact in [None, Some("utf8mb4_bin"), Some("binary")] {
            assert_eq!(meet(&index("PRIMARY", exact)), None);
        }
        let by = meet(&index("PRIMARY", Some("utf8mb4_general_ci"))).unwrap();
        assert_eq!(
            by,
            "the key's column ip_address is compared by utf8mb4_general_ci"
        );
        let mut two = index("PRIMARY", None);
        two.push(vec![Some("u".into()), Some("hits".into()), None]);
        let other = meet(&two).unwrap();
        assert_eq!(other, "the table's unique index u (hits) is not the key");
        two[usage.key.len()].push(Some("auto_increment".into()));
        assert_eq!(meet(&two), None);
    }
}
