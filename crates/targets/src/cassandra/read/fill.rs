//! Our own rows, written into a table before the clock starts.
//!
//! They have no key, so the table has one beside them: a partition's number, and the row's in it. A partition
//! is one batch.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use futures::stream::{self, TryStreamExt};
use scylla::client::session::Session as Driver;
use scylla::statement::batch::{Batch, BatchType};

use super::super::errors::{self, Written};
use super::super::options::{Options, Write};
use super::super::schema::Layout;
use super::super::statement::FirstRow;
use super::super::values::{encode, Null};
use venturi_base::data::upsert::Table;
use venturi_base::data::view::View;
use venturi_base::data::{Cursor, Source};
use venturi_base::error::{Error, Result};
use venturi_base::halt;

pub const PARTITION: &str = "venturi_partition";
const ROW: &str = "venturi_row";
/// Bytes of a partition's values: a batch of it is below what a server warns of (5 KiB by its measure).
const BYTES: usize = 2 << 10;
/// Batches on their way at a time.
const AT_A_TIME: usize = 64;

/// The table of such rows.
pub fn layout(keyspace: &str, name: &str, source: &Source, options: &Options) -> Result<Layout> {
    let key = [
        Field::new(PARTITION, DataType::Int32, false),
        Field::new(ROW, DataType::Int32, false),
    ];
    let schema = source.schema();
    let fields = key
        .into_iter()
        .map(Arc::new)
        .chain(schema.fields().iter().cloned());
    let table = Table {
        name: name.to_owned(),
        schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
        key: vec![0, 1],
        add: Vec::new(),
    };
    let mut options = options.clone();
    (options.write, options.partition_key) = (Write::Insert, Some(1));
    Layout::new(keyspace, table, false, &options)
}

/// A partition in the making: its rows' values, one row's behind the other's.
#[derive(Default)]
struct Partition {
    number: i32,
    cells: Vec<u8>,
    ends: Vec<usize>,
}

impl Partition {
    fn push(&mut self, columns: &[View], row: usize) -> Result<()> {
        for key in [self.number, self.ends.len() as i32] {
            self.cells.extend_from_slice(&4u32.to_be_bytes());
            self.cells.extend_from_slice(&key.to_be_bytes());
        }
        for column in columns {
            encode(column, row, Null::Null, &mut self.cells)?;
        }
        self.ends.push(self.cells.len());
        Ok(())
    }

    /// This one, and an empty one that comes after it in its place.
    fn next(&mut self) -> Result<Self> {
        let number = self.number.checked_add(1).ok_or_else(|| {
            Error::usage("so many rows have more partitions than a table of Venturi's: fewer --rows-per-stream")
        })?;
        let next = Self {
            number,
            ..Self::default()
        };
        Ok(std::mem::replace(self, next))
    }
}

/// Cuts rows into partitions.
struct Partitions {
    rows: Cursor,
    open: Partition,
    ready: Vec<Partition>,
    over: bool,
}

impl Partitions {
    fn next(&mut self) -> Result<Option<Partition>> {
        while self.ready.is_empty() && !self.over {
            halt::check()?;
            let Some(item) = self.rows.next() else {
                self.over = true;
                if !self.open.ends.is_empty() {
                    self.ready.push(self.open.next()?);
                }
                break;
            };
            let batch = item.batch();
            let schema = batch.schema_ref();
            let view = |at: usize| View::of(schema.field(at).name(), batch.column(at));
            let columns = (0..batch.num_columns())
                .map(view)
                .collect::<Result<Vec<_>>>()?;
            for row in 0..batch.num_rows() {
                self.open.push(&columns, row)?;
                if self.open.cells.len() >= BYTES {
                    self.ready.push(self.open.next()?);
                }
            }
            self.ready.reverse();
        }
        Ok(self.ready.pop())
    }
}

/// Writes all rows.
pub async fn fill(driver: &Driver, place: &str, layout: &Layout, rows: Cursor) -> Result<()> {
    let insert = driver.prepare(layout.prepared()?).await;
    let insert = insert.map_err(|error| errors::of_prepare(place, &error))?;
    let width = layout.bound.len();
    let partitions = Partitions {
        rows,
        open: Partition::default(),
        ready: Vec::new(),
        over: false,
    };
    let all = stream::try_unfold(partitions, |mut partitions| async move {
        let next = partitions.next()?;
        Ok::<_, Error>(next.map(|partition| (partition, partitions)))
    });
    let write = |partition: Partition| {
        let insert = &insert;
        async move {
            let mut batch = Batch::new(BatchType::Unlogged);
            let mut values = Vec::with_capacity(partition.ends.len());
            let mut from = 0;
            for &end in &partition.ends {
                batch.append_statement(insert.clone());
                values.push(FirstRow {
                    cells: &partition.cells[from..end],
                    columns: width,
                });
                from = end;
            }
            let done = driver.batch(&batch, values).await;
            done.map(|_| ())
                .map_err(|error| errors::of_execution(place, &error, Written::default()))
        }
    };
    all.map_ok(write)
        .try_buffer_unordered(AT_A_TIME)
        .try_collect::<()>()
        .await
}

/// The names of our own columns are those of the source.
pub fn check_names(source: &Source) -> Result<()> {
    let schema = source.schema();
    match schema
        .fields()
        .iter()
        .find(|field| [PARTITION, ROW].contains(&field.name().as_str()))
    {
        Some(field) => Err(Error::usage(format!(
            "column {:?}: a table of Venturi's has one of that name: name it otherwise",
            field.name()
        ))),
        None => Ok(()),
    }
}
