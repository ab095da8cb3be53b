//! What is asked and made before the clock starts, and asked again after it has stopped.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::connection::{Connection, Row};
use super::server::{literal, quoted, Family, Server};
use super::statement::Statements;
use super::{MySql, Plan};
use crate::database::shortened;
use crate::upsert::{self, Builder, Found, StatementKind, Work};
use crate::Identity;
use venturi_base::codec::sql::{Dialect, Widths};
use venturi_base::data::upsert::{Batches, Table};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::limit;
use venturi_base::meter::readers::listener::pid_of;
use venturi_base::meter::readers::network::is_own;

/// Clocks may differ by so much, in seconds, before it is worth a word.
const SKEW: f64 = 1.0;

impl MySql {
    pub(super) async fn make_plan(&self) -> Result<(Identity, Plan)> {
        let (table, batches) = Batches::make(&self.spec, &self.table)?;
        Dialect::MySql.check(&table)?;
        let columns = table.schema.fields().len();
        let mut builder = Statements {
            kind: self.options.statement,
            max_allowed_packet: usize::MAX,
        };
        builder.check_parameters(columns, batches.get(0)?.num_rows())?;
        // Without the database, which may have to be made.
        let host = &self.place.hosts[0];
        let mut connection = Connection::open(host, &self.access, None).await?;
        let (server, mut notes) = self.identify(&mut connection).await?;
        builder.max_allowed_packet = self.max_allowed_packet(&mut connection).await?;
        // Before the table is made: what cannot be sent leaves nothing behind.
        builder.build(&table, &batches.get(0)?)?;
        let work = Work::new(&self.spec, table, batches, builder)?;
        let atomic = self
            .set_up(&mut connection, &server, &work, &mut notes)
            .await?;
        let before = match self.options.common.setup || !self.spec.leads() {
            true => Found::default(),
            false => {
                let mut found = found(&mut connection, &work.table).await?;
                let indexes = connection.query(&unique_indexes(&work.table.name)).await?;
                let widths = || Widths::of(&work.table, &work.batches);
                found.meet = meet(&work.table, &indexes, widths)?;
                found
            }
        };
        let identity = Identity {
            address: self.place.address(),
            servers: self.place.hosts.len(),
            software: Some(server.software.clone()),
            protocol: match self.options.statement {
                StatementKind::Text => "mysql text",
                StatementKind::Prepared => "mysql prepared",
            }
            .into(),
            route: connection.route(),
            ..Identity::default()
        };
        let mut identity = identity.beside(connection.neighbour());
        if let Some(route) = identity.route.filter(|route| is_own(route.peer.ip())) {
            identity.same_machine = Some(true);
            identity.pid = match self.spec.include_setup {
                true => self.listening,
                false => pid_of(route.peer),
            };
        }
        if !self.spec.include_setup {
            let took = connection.round_trip().await?;
            identity.round_trip_ns = Some(took.as_nanos() as u64);
        }
        connection.quit().await;
        let plan = Plan {
            server,
            work: Arc::new(work),
            before,
            atomic,
            notes,
        };
        Ok((identity, plan))
    }

    async fn identify(&self, connection: &mut Connection) -> Result<(Server, Vec<String>)> {
        let said = connection
            .query("SELECT @@version, @@version_comment")
            .await?;
        let said = said.first().map(|row| {
            let text = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
            (text(0), text(1))
        });
        let (version, comment) = said.unwrap_or_default();
        let mut server = Server::identify(&version, &comment);
        if server.family == Family::SingleStore {
            if let Ok(Some(own)) = connection.value("SELECT @@memsql_version").await {
                server.software = format!("{} {own}", server.software);
            }
        }
        let mut notes = Vec::new();
        notes.extend(server.unused(&self.options));
        let before = unix_s();
        let theirs = connection.value("SELECT UNIX_TIMESTAMP(NOW(6))").await?;
        let after = unix_s();
        let theirs = theirs.and_then(|text| text.parse::<f64>().ok());
        notes.extend(theirs.and_then(|theirs| skew(theirs, before, after)));
        Ok((server, notes))
    }

    /// The least of all hosts.
    async fn max_allowed_packet(&self, connection: &mut Connection) -> Result<usize> {
        let mut least = packet_limit(connection).await?;
        for (at, host) in self.place.hosts.iter().enumerate().skip(1) {
            let asked = async {
                let mut other = Connection::open(host, &self.access, None).await?;
                let limit = packet_limit(&mut other).await?;
                other.quit().await;
                Ok(limit)
            };
            let limit = asked.await.map_err(|error: Error| {
                self.circumstances_at(at)
                    .explain(error)
                    .context("another host")
            });
            least = least.min(limit?);
        }
        Ok(least)
    }

    /// Database and table, as the rules on what is Venturi's want it. True: the table's engine
    /// undoes a statement that fails.
    async fn set_up(
        &self,
        connection: &mut Connection,
        server: &Server,
        work: &Work<Statements>,
        notes: &mut Vec<String>,
    ) -> Result<bool> {
        let table = &work.table;
        let database = &self.place.space;
        let makes = self.options.common.setup && self.spec.leads();
        if makes {
            for sql in server.settings() {
                if let Err(error) = connection.run(sql).await {
                    if error.code.is_none() {
                        return Err(error);
                    }
                    notes.push(format!("{sql} was refused ({})", error.message));
                }
            }
            let known = "SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ";
            let known = format!("{known}{}", literal(database));
            if connection.value(&known).await?.is_none() {
                connection
                    .run(&server.create_database(database, &self.options))
                    .await?;
            }
        }
        connection.run(&format!("USE {}", quoted(database))).await?;
        self.begin(connection, server).await?;
        let name = &table.name;
        let described = format!(
            "SELECT COALESCE(ENGINE, '') FROM information_schema.TABLES WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {}",
            literal(database),
            literal(name)
        );
        if makes {
            if connection.value(&described).await?.is_some() {
                if !upsert::is_own(name) {
                    return Err(upsert::occupied(name));
                }
                connection
                    .run(&format!("DROP TABLE {}", quoted(name)))
                    .await?;
            }
            connection
                .run(&server.create_table(table, &work.batches, &self.options)?)
                .await?;
        }
        let engine = connection.value(&described).await?.ok_or_else(|| {
            let message = match makes {
                true => format!("table {name} was made, and is not there"),
                false => format!(
                    "there is no table {name} in {database}, or {:?} may not see it: without --no-setup Venturi creates it; or name another by --table",
                    self.access.user
                ),
            };
            Error::new(Kind::Server, message).with_code(1146)
        })?;
        Ok(server.is_atomic(&engine))
    }

    /// Bytes that the table takes; `None`: the server does not tell.
    pub(super) async fn stored_bytes(
        &self,
        connection: &mut Connection,
        server: &Server,
    ) -> Option<u64> {
        // MySQL keeps such answers for a day otherwise; no other server knows the setting.
        let _ = connection
            .run("SET SESSION information_schema_stats_expiry = 0")
            .await;
        let (before, question) = server.stored_bytes(&self.place.space, &self.table);
        if let Some(before) = before {
            let _ = connection.run(&before).await;
        }
        let told = connection.value(&question).await.ok()??;
        told.parse::<f64>().ok().map(|bytes| bytes as u64)
    }
}

async fn packet_limit(connection: &mut Connection) -> Result<usize> {
    let told = connection.value("SELECT @@max_allowed_packet").await?;
    // A server that has no such setting has no such limit.
    Ok(told
        .and_then(|text| text.parse().ok())
        .unwrap_or(usize::MAX))
}

/// Rows and sums of a table.
pub(super) async fn found(connection: &mut Connection, table: &Table) -> Result<Found> {
    let select = Dialect::MySql.select_found(table);
    let rows = limit::patient(shortened(&select), connection.query(&select)).await?;
    let row = rows.into_iter().next().unwrap_or_default();
    let mut numbers = row.into_iter().map(|value| match value {
        // The sum of no rows.
        None => Ok(0),
        Some(text) => text.parse::<i128>().map_err(|_| {
            Error::protocol(format!(
                "the server counts {text:?}, which is no whole number"
            ))
        }),
    });
    let keys = numbers.next().transpose()?.unwrap_or(0);
    Ok(Found {
        keys: u64::try_from(keys).unwrap_or(0),
        sums: numbers.collect::<Result<_>>()?,
        ..Found::default()
    })
}

/// Columns of the table's unique indexes, in their order, with their collations, and what else is said of them.
fn unique_indexes(table: &str) -> String {
    format!(
        "SELECT s.INDEX_NAME, s.COLUMN_NAME, c.COLLATION_NAME, c.EXTRA, s.SUB_PART FROM information_schema.STATISTICS s \
         LEFT JOIN information_schema.COLUMNS c ON c.TABLE_SCHEMA = s.TABLE_SCHEMA \
         AND c.TABLE_NAME = s.TABLE_NAME AND c.COLUMN_NAME = s.COLUMN_NAME \
         WHERE s.TABLE_SCHEMA = DATABASE() AND s.TABLE_NAME = {} AND s.NON_UNIQUE = 0 \
         ORDER BY s.INDEX_NAME, s.SEQ_IN_INDEX",
        literal(table)
    )
}

/// Why rows with different keys meet in a table of somebody else's: another unique index, which
/// `ON DUPLICATE KEY` heeds as it does the key's, or a collation.
fn meet(
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

/// How many rows the batches have: all the same, but for the last one of a file.
pub(super) fn batch_lengths(work: &Work<Statements>) -> Result<Vec<usize>> {
    let first = work.batches.get(0)?.num_rows();
    let last = work.batches.get(work.batches.count() - 1)?.num_rows();
    let mut lengths = vec![first, last];
    lengths.dedup();
    Ok(lengths)
}

pub(super) fn prepared_text(table: &Table, rows: usize) -> String {
    Dialect::MySql.upsert_placeholders(table, rows)
}

fn unix_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// How far the server's clock is off, in words. It was read between `before` and `after`.
fn skew(theirs: f64, before: f64, after: f64) -> Option<String> {
    let (ahead, behind) = (theirs - after, before - theirs);
    let off = ahead.max(behind);
    (off > SKEW).then(|| {
        let way = if ahead > behind { "ahead of" } else { "behind" };
        format!(
            "the server's clock is {off:.1} s {way} this host's: what it stamps by itself (logs, NOW()) is off by as much; \
             Venturi's figures are taken by this host's clock alone"
        )
    })
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
        let meet = |indexes: &[Row]| meet(&usage, indexes, || Ok(Widths::default())).unwrap();
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

    #[test]
    fn clocks_that_differ() {
        assert_eq!(skew(100.5, 100.0, 101.0), None);
        assert_eq!(skew(101.9, 100.0, 101.0), None);
        let ahead = skew(3700.0, 100.0, 100.1).unwrap();
        assert!(
            ahead.starts_with("the server's clock is 3599.9 s ahead of"),
            "{ahead}"
        );
        let behind = skew(90.0, 100.0, 130.0).unwrap();
        assert!(behind.contains("10.0 s behind"), "{behind}");
    }
}
