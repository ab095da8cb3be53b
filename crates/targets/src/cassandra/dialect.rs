//! The words of CQL: a table's columns, statements on it, how keyspace and table are made.

use std::collections::HashMap;
use std::fmt::Write as _;

use scylla::client::session::Session as Driver;

use super::connect::{execute, query_one, query_rows};
use super::options::{check_name, Options, Write};
use super::types::{cql_type, Null};
use crate::upsert::{is_own, occupied};
use venturi_base::data::upsert::Table;
use venturi_base::error::{Error, Kind, Result};

/// What a statement writes, in the order of its placeholders.
#[derive(Debug, Clone)]
pub struct Layout {
    pub keyspace: String,
    pub table: Table,
    write: Write,
    /// How many of the key's columns, from the first on, say where a row lives.
    partition_key: usize,
    /// Of the data, those that the table has.
    columns: Vec<usize>,
    /// Column and what its nulls become.
    pub bound: Vec<(usize, Null)>,
}

impl Layout {
    /// `own`: the workload's own rows, of which a table of counters keeps the hits, as its
    /// authors' did.
    pub fn new(keyspace: &str, mut table: Table, own: bool, options: &Options) -> Result<Self> {
        check_name("table", &table.name)?;
        let counters = options.write == Write::Counter;
        let left_out: Vec<usize> = match own && counters {
            true => table
                .add
                .extract_if(.., |at| table.schema.field(*at).name() != "hits")
                .collect(),
            false => Vec::new(),
        };
        let columns: Vec<usize> = (0..table.schema.fields().len())
            .filter(|at| !left_out.contains(at))
            .collect();
        let keys = table.key.len();
        let partition_key = options.partition_key.unwrap_or(keys);
        if !(1..=keys).contains(&partition_key) {
            return Err(Error::usage(format!(
                "partition_key = {partition_key}: the key has {keys} columns, of which 1 to {keys} can say where a row lives"
            )));
        }
        if counters {
            let set = table.set();
            if let Some(&at) = set.iter().find(|at| !left_out.contains(at)) {
                return Err(Error::usage(format!(
                    "column {:?} is neither in key nor in add: a table of counters has nothing but counters beside its key; \
                     leave the column out, or write plain columns with write = insert",
                    table.column(at)
                )));
            }
            if table.add.is_empty() {
                return Err(Error::usage(
                    "there is no column to add to (add), so there are no counters: write plain columns with write = insert",
                ));
            }
        }
        if let Some(&at) = columns
            .iter()
            .find(|&&at| cql_type(table.data_type(at)).is_none())
        {
            return Err(Error::usage(format!(
                "column {:?}: CQL has no type for Arrow's {}",
                table.column(at),
                table.data_type(at)
            )));
        }
        let bound = match options.write {
            Write::Insert => columns.iter().map(|&at| (at, Null::Null)).collect(),
            Write::Counter => {
                let counters = table.add.iter().map(|&at| (at, Null::Zero));
                let key = table.key.iter().map(|&at| (at, Null::Null));
                counters.chain(key).collect()
            }
        };
        Ok(Self {
            keyspace: keyspace.to_owned(),
            table,
            write: options.write,
            partition_key,
            columns,
            bound,
        })
    }

    /// `"keyspace"."table"`
    pub fn path(&self) -> String {
        format!("{}.{}", quoted(&self.keyspace), quoted(&self.table.name))
    }

    fn column(&self, at: usize) -> String {
        quoted(self.table.column(at))
    }

    fn list(&self, columns: &[usize]) -> String {
        let names: Vec<String> = columns.iter().map(|&at| self.column(at)).collect();
        names.join(", ")
    }

    /// `no_snapshots`: the server can be told not to keep a copy of what is dropped.
    pub fn create(&self, no_snapshots: bool) -> String {
        let mut cql = format!("CREATE TABLE {} (", self.path());
        for &at in &self.columns {
            let kind = match self.write {
                Write::Counter if self.table.add.contains(&at) => "counter",
                _ => cql_type(self.table.data_type(at)).unwrap_or("blob"),
            };
            // Writing to a string does not fail.
            let _ = write!(cql, "{} {kind}, ", self.column(at));
        }
        let (partition, clustering) = self.table.key.split_at(self.partition_key);
        let _ = write!(cql, "PRIMARY KEY (({})", self.list(partition));
        if !clustering.is_empty() {
            let _ = write!(cql, ", {}", self.list(clustering));
        }
        cql.push_str("))");
        if no_snapshots {
            cql.push_str(" WITH allow_auto_snapshot = false");
        }
        cql
    }

    /// One row's statement; `show` appends the value of a column, or its placeholder.
    pub fn statement(
        &self,
        mut show: impl FnMut(usize, Null, &mut Vec<u8>) -> Result<()>,
    ) -> Result<String> {
        let mut cql = Vec::with_capacity(256);
        match self.write {
            Write::Insert => {
                let columns: Vec<usize> = self.bound.iter().map(|&(at, _)| at).collect();
                cql.extend_from_slice(
                    format!(
                        "INSERT INTO {} ({}) VALUES (",
                        self.path(),
                        self.list(&columns)
                    )
                    .as_bytes(),
                );
                for (place, &(at, null)) in self.bound.iter().enumerate() {
                    if place > 0 {
                        cql.extend_from_slice(b", ");
                    }
                    show(at, null, &mut cql)?;
                }
                cql.push(b')');
            }
            Write::Counter => {
                cql.extend_from_slice(format!("UPDATE {} SET ", self.path()).as_bytes());
                for (place, &(at, null)) in self.bound.iter().enumerate() {
                    let name = self.column(at);
                    let before = match place.checked_sub(self.table.add.len()) {
                        None if place == 0 => format!("{name} = {name} + "),
                        None => format!(", {name} = {name} + "),
                        Some(0) => format!(" WHERE {name} = "),
                        Some(_) => format!(" AND {name} = "),
                    };
                    cql.extend_from_slice(before.as_bytes());
                    show(at, null, &mut cql)?;
                }
            }
        }
        String::from_utf8(cql).map_err(|_| Error::usage("a text is not UTF-8"))
    }

    /// The statement to prepare.
    pub fn prepared(&self) -> Result<String> {
        self.statement(|_, _, cql| {
            cql.push(b'?');
            Ok(())
        })
    }

    /// Of a row of the data, what is sent.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Reads the added columns (or a key column, where there is none), of all rows or of those
    /// in a range of tokens.
    pub fn scan(&self, ranges: bool) -> String {
        let columns = match self.table.add.is_empty() {
            true => &self.table.key[..1],
            false => &self.table.add[..],
        };
        let key = self.list(&self.table.key[..self.partition_key]);
        select(&self.list(columns), &self.path(), &key, ranges)
    }
}

/// A table whose rows are read.
pub struct Source {
    path: String,
    /// Of its partitions.
    key: String,
}

impl Source {
    pub async fn find(driver: &Driver, keyspace: &str, table: &str) -> Result<Self> {
        let cql = "SELECT position, column_name, kind FROM system_schema.columns \
                   WHERE keyspace_name = ? AND table_name = ?";
        let found = query_rows::<(i32, String, String)>(driver, cql, &[keyspace, table]).await?;
        let mut key: Vec<(i32, String)> = found
            .into_iter()
            .filter(|(.., kind)| kind == "partition_key")
            .map(|(position, name, _)| (position, name))
            .collect();
        if key.is_empty() {
            return Err(Error::new(
                Kind::Server,
                format!("table {keyspace}.{table} is not there"),
            ));
        }
        key.sort();
        let names = key.iter().map(|(_, name)| name.as_str());
        Ok(Self::of(keyspace, table, names))
    }

    pub fn of<'a>(keyspace: &str, table: &str, key: impl Iterator<Item = &'a str>) -> Self {
        Self {
            path: format!("{}.{}", quoted(keyspace), quoted(table)),
            key: list(key),
        }
    }

    /// `ranges`: of rows whose tokens lie between two that are bound.
    pub fn select(&self, what: &str, ranges: bool) -> String {
        select(what, &self.path, &self.key, ranges)
    }
}

fn select(what: &str, path: &str, key: &str, ranges: bool) -> String {
    match ranges {
        true => format!("SELECT {what} FROM {path} WHERE token({key}) >= ? AND token({key}) <= ?"),
        false => format!("SELECT {what} FROM {path}"),
    }
}

/// A part of the ring of tokens, which one node has: what one statement after another reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The first and the last token; `None`: the statement is of no part of the ring.
    pub tokens: Option<(i64, i64)>,
    /// Who has it, as the cluster lists its nodes; `None`: whoever.
    pub node: Option<usize>,
}

/// By stream. `ring`: tokens in their order, each with the node that has what lies up to it and behind
/// the one before; empty: nodes are all the same.
pub fn pieces(streams: usize, ring: &[(i64, usize)]) -> Vec<Vec<Piece>> {
    let edge = |at: usize| i128::from(i64::MIN) + (1i128 << 64) * at as i128 / streams as i128;
    let part = |stream: usize| {
        let (mut low, high) = (edge(stream), edge(stream + 1) - 1);
        let mut found = Vec::new();
        let first = ring.partition_point(|(token, _)| i128::from(*token) < low);
        for (token, node) in &ring[first..] {
            let token = i128::from(*token);
            if token >= high {
                break;
            }
            found.push(piece(low, token, Some(*node)));
            low = token + 1;
        }
        // Behind the last token it goes on to the first.
        let next = ring.iter().find(|(token, _)| i128::from(*token) >= low);
        let node = next.or(ring.first()).map(|(_, node)| *node);
        found.push(piece(low, high, node));
        found
    };
    (0..streams).map(part).collect()
}

pub fn piece(from: i128, to: i128, node: Option<usize>) -> Piece {
    Piece {
        tokens: Some((from as i64, to as i64)),
        node,
    }
}

/// Columns by their names.
pub fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(quoted).collect();
    names.join(", ")
}

/// What a column's values are added up by; `None`: they are no integers.
pub fn sum(name: &str, native: &str) -> Option<String> {
    let whole = matches!(native, "tinyint" | "smallint" | "int" | "bigint");
    // The sum of an int is an int, whatever it would need.
    whole.then(|| format!("sum(CAST({} AS varint))", quoted(name)))
}

/// An identifier as it is written, capitals and all.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A keyspace's replication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replication(pub HashMap<String, String>);

impl Replication {
    pub async fn read(session: &Driver, keyspace: &str) -> Result<Option<Self>> {
        let cql = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
        let found = query_one::<(HashMap<String, String>,)>(session, cql, &[keyspace]).await?;
        Ok(found.map(|(replication,)| Self(replication)))
    }

    /// Over all data centres; `None`: a strategy that says it in another way.
    pub fn replicas(&self) -> Option<u32> {
        let numbers = self.0.iter().filter(|(key, _)| *key != "class");
        let each: Option<Vec<u32>> = numbers.map(|(_, number)| number.parse().ok()).collect();
        each.filter(|each| !each.is_empty())
            .map(|each| each.iter().sum())
    }

    /// As `replication` of a trial means it.
    pub fn is_simple(&self, factor: u32) -> bool {
        let class = self.0.get("class");
        class.is_some_and(|class| class.ends_with("SimpleStrategy"))
            && self.replicas() == Some(factor)
    }
}

async fn has_table(session: &Driver, keyspace: &str, table: &str) -> Result<bool> {
    let cql =
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
    let found = query_one::<(String,)>(session, cql, &[keyspace, table]).await?;
    Ok(found.is_some())
}

/// Whether a table can be told that no snapshot is kept of it when it is dropped: by default
/// Cassandra keeps all its files.
async fn has_snapshot_option(session: &Driver) -> bool {
    let cql =
        "SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'system_schema' \
               AND table_name = 'tables' AND column_name = 'allow_auto_snapshot'";
    matches!(query_one::<(String,)>(session, cql, &[]).await, Ok(Some(_)))
}

/// Keyspace and table as the trial wants them. `replication`: `None`, the default.
pub async fn set_up(
    session: &Driver,
    place: &str,
    layout: &Layout,
    replication: Option<u32>,
) -> Result<()> {
    let (keyspace, table) = (&layout.keyspace, &layout.table.name);
    let factor = replication.unwrap_or(1);
    let simple = format!(
        "{} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {factor}}} AND durable_writes = true",
        quoted(keyspace)
    );
    match Replication::read(session, keyspace).await? {
        None => execute(session, place, &format!("CREATE KEYSPACE {simple}")).await?,
        Some(found) if found.is_simple(factor) => {}
        Some(_) if keyspace.starts_with("venturi") => {
            execute(session, place, &format!("ALTER KEYSPACE {simple}")).await?;
        }
        Some(_) if replication.is_none() => {}
        Some(found) => {
            return Err(Error::usage(format!(
                "keyspace {keyspace} exists already, with another replication ({:?}), and is not Venturi's (its name does \
                 not begin with venturi): leave replication out, or name another keyspace: cassandra://host/keyspace",
                found.0
            )))
        }
    }
    if has_table(session, keyspace, table).await? {
        if !is_own(table) {
            return Err(occupied(table));
        }
        execute(session, place, &format!("DROP TABLE {}", layout.path())).await?;
    }
    let no_snapshots = has_snapshot_option(session).await;
    execute(session, place, &layout.create(no_snapshots)).await
}

/// Of a trial without set-up: is everything there?
pub async fn require_table(session: &Driver, layout: &Layout) -> Result<()> {
    let (keyspace, table) = (&layout.keyspace, &layout.table.name);
    let missing = match has_table(session, keyspace, table).await? {
        true => return Ok(()),
        false if Replication::read(session, keyspace).await?.is_none() => {
            format!("keyspace {keyspace}")
        }
        false => format!("table {keyspace}.{table}"),
    };
    Err(Error::new(
        Kind::Server,
        format!(
            "{missing} is not there, and --no-setup says not to create it: leave --no-setup out, or create it with\n{}",
            layout.create(false)
        )
        .replace('\n', " "),
    ))
}
