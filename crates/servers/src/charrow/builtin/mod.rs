//! The built-in engine: tables in memory, files that are read meanwhile, made rows.

mod files;
mod parse;
mod states;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use parking_lot::Mutex;

use super::config::StreamSpec;
use super::engine::{Engine, Raw, Ready, Run, Wanted};
use crate::shell::TableSpec;
use parse::{parse, Argument, From, Statement};
use venturi_base::data::{file, payload_bytes, Cursor, Source};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::spec::{Data, Values};

/// Rows of a block of made rows, where the query does not say.
const BLOCK_ROWS: u64 = 32_768;
/// Ready-made sources kept for the next query of the same words, as long as they fit in a query's
/// memory together.
const SOURCES: usize = 4;

struct Table {
    schema: SchemaRef,
    batches: Arc<Vec<RecordBatch>>,
}

pub struct Builtin {
    tables: BTreeMap<String, Table>,
    streams: BTreeMap<String, String>,
    /// By their words; with their bytes.
    sources: Mutex<Vec<(String, u64, Source)>>,
    states: states::States,
    /// No made block is larger.
    largest_block: u64,
}

impl Builtin {
    pub fn new(tables: &[TableSpec], streams: &[StreamSpec], largest_block: u64) -> Result<Self> {
        let mut engine = Self {
            tables: BTreeMap::new(),
            streams: BTreeMap::new(),
            sources: Mutex::default(),
            states: states::States::default(),
            largest_block,
        };
        for TableSpec { name, ipc } in tables {
            let (schema, batches) = file::read(name, ipc)?;
            let batches = Arc::new(batches);
            engine
                .tables
                .insert(name.clone(), Table { schema, batches });
        }
        for StreamSpec { name, path } in streams {
            files::check(name, path)?;
            engine.streams.insert(name.clone(), path.clone());
        }
        Ok(engine)
    }

    fn table(&self, name: &str, statement: &Statement, wanted: &Wanted) -> Result<Box<dyn Run>> {
        let columns = statement.columns.as_deref();
        if let Some(path) = self.streams.get(name) {
            return files::open(name, path, columns, statement.limit);
        }
        let Some(table) = self.tables.get(name) else {
            let known = self.tables.keys().chain(self.streams.keys());
            let known: Vec<_> = known.take(10).map(String::as_str).collect();
            return Err(Error::usage(format!(
                "there is no table {name:?}; here are: {}",
                match known.is_empty() {
                    true => "none".to_owned(),
                    false => known.join(", "),
                }
            )));
        };
        let kept = kept(&table.schema, columns)?;
        Ok(Box::new(Slices {
            schema: projected(&table.schema, kept.as_deref())?,
            kept,
            batches: table.batches.clone(),
            left: statement.limit.unwrap_or(u64::MAX),
            block_bytes: wanted.block_bytes,
            at: 0,
            row: 0,
            rows_a_block: 0,
        }))
    }

    fn records(
        &self,
        arguments: &[Argument],
        statement: &Statement,
        wanted: &Wanted,
    ) -> Result<Box<dyn Run>> {
        let known = ["rows", "columns", "values", "seed", "block_rows"];
        check(arguments, "records", &known)?;
        let number =
            |key: &str, default: u64| find(arguments, key).map_or(Ok(default), Argument::number);
        let rows = find(arguments, "rows").map(Argument::number).transpose()?;
        let columns = number("columns", 4)?;
        let block_rows = number("block_rows", BLOCK_ROWS)?;
        let values = match find(arguments, "values")
            .map(|given| given.value.to_lowercase())
            .as_deref()
        {
            None | Some("random") => Values::Random,
            Some("sequential") => Values::Sequential,
            Some(other) => {
                return Err(Error::usage(format!(
                    "records: values are random or sequential, not {other:?}"
                )))
            }
        };
        if !(1..=10_000).contains(&columns) || block_rows == 0 {
            return Err(Error::usage(
                "records: columns must be 1..10000, block_rows at least 1",
            ));
        }
        let bytes = block_rows.saturating_mul(8 * columns);
        self.fits("records", bytes)?;
        let kept = kept(
            &venturi_base::data::records::schema(columns as usize),
            statement.columns.as_deref(),
        )?;
        let data = Data::Records {
            columns: columns as usize,
            values,
            seed: number("seed", 0)?,
        };
        let key = format!("{data:?} {block_rows} {kept:?}");
        let source = self.source(&key, bytes, || {
            let source = Source::make(&data, block_rows as usize)?;
            match &kept {
                None => Ok(source),
                Some(kept) => projected_source(&source, kept, block_rows as usize),
            }
        })?;
        let limit = statement.limit;
        Ok(Box::new(Made {
            schema: source.schema(),
            cursor: source.cursor(match (rows, limit) {
                (Some(rows), Some(limit)) => Some(rows.min(limit)),
                (rows, limit) => rows.or(limit),
            }),
            digests: wanted.digests,
        }))
    }

    /// A block is made in memory: a client must not ask for one that is too large.
    fn fits(&self, what: &str, bytes: u64) -> Result<()> {
        if bytes <= self.largest_block {
            return Ok(());
        }
        Err(Error::new(
            Kind::Memory,
            format!(
                "{what}: a block of {bytes} bytes; a query's blocks may have {} (--query-memory): use fewer block_rows",
                self.largest_block
            ),
        ))
    }

    fn source(
        &self,
        key: &str,
        bytes: u64,
        make: impl FnOnce() -> Result<Source>,
    ) -> Result<Source> {
        let mut sources = self.sources.lock();
        if let Some((_, _, source)) = sources.iter().find(|(known, ..)| known == key) {
            return Ok(source.clone());
        }
        let kept = |sources: &[(String, u64, Source)]| {
            sources.iter().map(|(_, bytes, _)| bytes).sum::<u64>()
        };
        while sources.len() >= SOURCES
            || !sources.is_empty() && kept(&sources) + bytes > self.largest_block
        {
            sources.remove(0);
        }
        let source = make()?;
        sources.push((key.to_owned(), bytes, source.clone()));
        Ok(source)
    }
}

impl Engine for Builtin {
    fn start(&self, _: &str, query: &str, wanted: &Wanted) -> Result<Box<dyn Run>> {
        let statement = parse(query)?;
        match &statement.from {
            From::Table(name) => self.table(name, &statement, wanted),
            From::Function { name, arguments } => match name.as_str() {
                "records" => self.records(arguments, &statement, wanted),
                "state_rows" => self.states.start(arguments, &statement),
                other => Err(Error::usage(format!(
                    "the built-in engine has no function {other}; it has records(rows = n, columns = 4, values = random, seed = 0, block_rows = {BLOCK_ROWS}) and state_rows(rows = n, seed = 0, block_rows = {})",
                    states::BLOCK_ROWS
                ))),
            },
        }
    }

    /// Rows that are made are kept for the next query of the same words.
    fn prepare(&self, query: &str) -> Result<()> {
        let wanted = Wanted {
            digests: false,
            block_bytes: self.largest_block,
        };
        self.start("", query, &wanted).map(drop)
    }

    fn name(&self) -> String {
        "built-in".into()
    }
}

fn find<'a>(arguments: &'a [Argument], key: &str) -> Option<&'a Argument> {
    arguments.iter().find(|argument| argument.key == key)
}

fn check(arguments: &[Argument], function: &str, known: &[&str]) -> Result<()> {
    match arguments
        .iter()
        .find(|given| !known.contains(&given.key.as_str()))
    {
        None => Ok(()),
        Some(other) => Err(Error::usage(format!(
            "{function} has no argument {}; it has {}",
            other.key,
            known.join(", ")
        ))),
    }
}

/// The places of these columns. `None`: all of them.
fn kept(schema: &Schema, columns: Option<&[String]>) -> Result<Option<Vec<usize>>> {
    let Some(columns) = columns else {
        return Ok(None);
    };
    let place = |name: &String| {
        schema.index_of(name).map_err(|_| {
            let known: Vec<_> = schema
                .fields()
                .iter()
                .take(30)
                .map(|field| field.name().as_str())
                .collect();
            Error::usage(format!(
                "there is no column {name:?}; there are {}",
                known.join(", ")
            ))
        })
    };
    columns.iter().map(place).collect::<Result<_>>().map(Some)
}

fn projected(schema: &SchemaRef, kept: Option<&[usize]>) -> Result<SchemaRef> {
    match kept {
        None => Ok(schema.clone()),
        Some(kept) => Ok(Arc::new(schema.project(kept)?)),
    }
}

/// One block's rows of a source, fewer columns, as a source of their own.
fn projected_source(source: &Source, kept: &[usize], block_rows: usize) -> Result<Source> {
    let mut cursor = source.cursor(Some(block_rows as u64));
    let item = cursor
        .next()
        .ok_or_else(|| Error::new(Kind::Internal, "a source without rows"))?;
    let batch = item.batch().project(kept)?;
    Source::from_batches(batch.schema(), vec![batch], block_rows)
}

/// Made rows: the same few batches again and again.
struct Made {
    schema: SchemaRef,
    cursor: Cursor,
    digests: bool,
}

impl Run for Made {
    fn schema(&mut self) -> Result<Option<SchemaRef>> {
        Ok(Some(self.schema.clone()))
    }

    fn next(&mut self) -> Result<Raw> {
        let Some(item) = self.cursor.next() else {
            return Ok(Raw::End);
        };
        Ok(Raw::Ready(Ready {
            batch: item.batch().clone(),
            payload: item.payload,
            digest: self.digests.then(|| item.digest()).transpose()?,
        }))
    }
}

/// A table in memory, slice by slice; nothing is copied.
struct Slices {
    schema: SchemaRef,
    kept: Option<Vec<usize>>,
    batches: Arc<Vec<RecordBatch>>,
    left: u64,
    block_bytes: u64,
    /// Where it is.
    at: usize,
    row: usize,
    /// Of the batch that it is in.
    rows_a_block: usize,
}

impl Run for Slices {
    fn schema(&mut self) -> Result<Option<SchemaRef>> {
        Ok(Some(self.schema.clone()))
    }

    fn next(&mut self) -> Result<Raw> {
        while let Some(batch) = self.batches.get(self.at).filter(|_| self.left > 0) {
            if self.row >= batch.num_rows() {
                (self.at, self.row, self.rows_a_block) = (self.at + 1, 0, 0);
                continue;
            }
            let batch = match &self.kept {
                None => batch.clone(),
                Some(kept) => batch.project(kept)?,
            };
            if self.rows_a_block == 0 {
                let blocks = payload_bytes(&batch)
                    .div_ceil(self.block_bytes.max(1))
                    .max(1);
                let rows = (batch.num_rows() as u64).div_ceil(blocks).max(1);
                self.rows_a_block = rows as usize;
            }
            let rows = self
                .rows_a_block
                .min(batch.num_rows() - self.row)
                .min(usize::try_from(self.left).unwrap_or(usize::MAX));
            let batch = batch.slice(self.row, rows);
            self.row += rows;
            self.left -= rows as u64;
            return Ok(Raw::Ready(Ready {
                payload: payload_bytes(&batch),
                digest: None,
                batch,
            }));
        }
        Ok(Raw::End)
    }
}
