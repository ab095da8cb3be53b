//! The table: which columns it has, how it is created, how a row is written to it.

use std::fmt::Write as _;

use super::options::{check_name, Options, Write};
use super::values::{cql_type, Null};
use venturi_base::data::upsert::Table;
use venturi_base::error::{Error, Result};

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
        let mut cql = format!("SELECT {} FROM {}", self.list(columns), self.path());
        if ranges {
            let key = self.list(&self.table.key[..self.partition_key]);
            let _ = write!(cql, " WHERE token({key}) >= ? AND token({key}) <= ?");
        }
        cql
    }
}

/// An identifier as it is written, capitals and all.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
