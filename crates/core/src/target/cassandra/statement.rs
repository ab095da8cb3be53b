//! Rows as statements, made before the clock starts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use scylla::serialize::batch::{BatchValues, BatchValuesIterator};
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;
use scylla::serialize::SerializationError;
use scylla::statement::batch::{Batch, BatchStatement, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::Statement as Text;

use super::options::StatementKind;
use super::schema::Layout;
use super::values::Column;
use crate::data::payload_bytes;
use crate::data::upsert::Table;
use crate::error::Result;
use crate::target::upsert;

/// What is sent: everything that does not depend on the connection.
pub enum Statement {
    /// A batch of prepared statements and what is bound to them.
    Batch {
        batch: Arc<Batch>,
        rows: Rows,
    },
    /// A batch of texts.
    Texts(Batch),
    Row(Rows),
    Text(Text),
}

impl Statement {
    /// Whether the server applies all of it or nothing where replicas are missing.
    pub fn is_whole(&self) -> bool {
        match self {
            Self::Batch { batch, .. } => is_whole(batch),
            Self::Texts(batch) => is_whole(batch),
            Self::Row(_) | Self::Text(_) => true,
        }
    }
}

fn is_whole(batch: &Batch) -> bool {
    batch.statements.len() < 2 || matches!(batch.get_type(), BatchType::Logged)
}

/// Bound values as the protocol's bytes: `[int] length, bytes`, value by value, row by row.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    cells: Vec<u8>,
    columns: usize,
    rows: usize,
}

impl Rows {
    #[cfg(test)]
    pub fn of(cells: Vec<u8>, columns: usize, rows: usize) -> Self {
        Self {
            cells,
            columns,
            rows,
        }
    }

    pub fn iter(&self) -> RowsIter<'_> {
        RowsIter {
            cells: &self.cells,
            columns: self.columns,
            left: self.rows,
        }
    }

    /// The first `rows` of them.
    pub fn first(&self, rows: usize) -> RowsIter<'_> {
        RowsIter {
            left: rows.min(self.rows),
            ..self.iter()
        }
    }

    pub fn len(&self) -> usize {
        self.rows
    }
}

/// Rows still to be bound.
#[derive(Debug, Clone, Copy)]
pub struct RowsIter<'a> {
    cells: &'a [u8],
    columns: usize,
    left: usize,
}

impl<'a> RowsIter<'a> {
    /// The next value, `None` for a null.
    #[inline]
    fn cell(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.cells.split_first_chunk::<4>()?;
        let length = usize::try_from(i32::from_be_bytes(*length)).ok();
        let (cell, rest) = rest.split_at_checked(length.unwrap_or(0))?;
        self.cells = rest;
        length.map(|_| cell)
    }

    #[inline]
    fn write(&mut self, writer: &mut RowWriter) -> std::result::Result<(), SerializationError> {
        for _ in 0..self.columns {
            let cell = writer.make_cell_writer();
            match self.cell() {
                Some(bytes) => cell.set_value(bytes).map_err(SerializationError::new)?,
                None => cell.set_null(),
            };
        }
        Ok(())
    }
}

impl<'r> BatchValuesIterator<'r> for RowsIter<'_> {
    #[inline]
    fn serialize_next(
        &mut self,
        _: &RowSerializationContext<'_>,
        writer: &mut RowWriter,
    ) -> Option<std::result::Result<(), SerializationError>> {
        self.left = self.left.checked_sub(1)?;
        Some(self.write(writer))
    }

    #[inline]
    fn is_empty_next(&mut self) -> Option<bool> {
        self.skip_next().map(|()| self.columns == 0)
    }

    #[inline]
    fn skip_next(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        for _ in 0..self.columns {
            self.cell();
        }
        Some(())
    }
}

impl<'a> BatchValues for RowsIter<'a> {
    type BatchValuesIter<'r>
        = RowsIter<'a>
    where
        Self: 'r;

    #[inline]
    fn batch_values_iter(&self) -> RowsIter<'a> {
        *self
    }
}

/// One row.
impl SerializeRow for Rows {
    #[inline]
    fn serialize(
        &self,
        _: &RowSerializationContext<'_>,
        writer: &mut RowWriter,
    ) -> std::result::Result<(), SerializationError> {
        self.iter().write(writer)
    }

    fn is_empty(&self) -> bool {
        self.columns == 0
    }
}

/// Nothing is bound to texts.
pub fn unbound(rows: usize) -> RowsIter<'static> {
    RowsIter {
        cells: &[],
        columns: 0,
        left: rows,
    }
}

/// Makes the statements of a trial.
pub struct Builder {
    layout: Arc<Layout>,
    /// `None`: every row by itself.
    batch: Option<BatchType>,
    /// `None`: texts.
    prepared: Option<PreparedStatement>,
    /// One batch for each number of rows: all but a file's last one have the same.
    batches: Mutex<HashMap<usize, Arc<Batch>>>,
}

impl Builder {
    pub fn new(
        layout: Arc<Layout>,
        batch: Option<BatchType>,
        kind: StatementKind,
        prepared: &PreparedStatement,
    ) -> Self {
        Self {
            layout,
            batch,
            prepared: (kind == StatementKind::Prepared).then(|| prepared.clone()),
            batches: Mutex::default(),
        }
    }

    fn shared(&self, kind: BatchType, prepared: &PreparedStatement, rows: usize) -> Arc<Batch> {
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Arc::new(batch_of(kind, prepared, rows));
        batches.entry(rows).or_insert_with(make).clone()
    }

    fn bind(&self, columns: &[Column], rows: usize) -> Result<Rows> {
        let mut bound = Rows {
            cells: Vec::with_capacity(rows * columns.len() * 14),
            columns: columns.len(),
            rows,
        };
        for row in 0..rows {
            for (column, &(_, null)) in columns.iter().zip(&self.layout.bound) {
                column.encode(row, null, &mut bound.cells)?;
            }
        }
        bound.cells.shrink_to_fit();
        Ok(bound)
    }

    fn text(&self, columns: &[Column], row: usize) -> Result<String> {
        let mut columns = columns.iter();
        self.layout.statement(|_, null, text| match columns.next() {
            Some(column) => column.literal(row, null, text),
            None => Ok(()),
        })
    }
}

/// A batch of as many times the same statement.
pub fn batch_of(kind: BatchType, prepared: &PreparedStatement, rows: usize) -> Batch {
    let statements = vec![BatchStatement::PreparedStatement(prepared.clone()); rows];
    Batch::new_with_statements(kind, statements)
}

impl upsert::Builder for Builder {
    type Statement = Statement;

    fn build(&self, _: &Table, rows: &RecordBatch) -> Result<Statement> {
        let columns = self
            .layout
            .bound
            .iter()
            .map(|&(at, _)| Column::new(rows, at))
            .collect::<Result<Vec<_>>>()?;
        let count = rows.num_rows();
        Ok(match (self.batch, &self.prepared) {
            (Some(kind), Some(prepared)) => Statement::Batch {
                rows: self.bind(&columns, count)?,
                batch: self.shared(kind, prepared, count),
            },
            (Some(kind), None) => {
                let texts = (0..count)
                    .map(|row| Ok(Text::new(self.text(&columns, row)?).into()))
                    .collect::<Result<_>>()?;
                Statement::Texts(Batch::new_with_statements(kind, texts))
            }
            (None, Some(_)) => Statement::Row(self.bind(&columns, count)?),
            (None, None) => Statement::Text(Text::new(self.text(&columns, 0)?)),
        })
    }

    fn payload(&self, _: &Table, rows: &RecordBatch) -> Result<u64> {
        Ok(payload_bytes(&rows.project(self.layout.columns())?))
    }

    fn size(statement: &Statement) -> usize {
        let text = |statement: &BatchStatement| match statement {
            BatchStatement::Query(text) => text.contents.len() + size_of::<BatchStatement>(),
            _ => 0,
        };
        size_of::<Statement>()
            + match statement {
                Statement::Batch { rows, .. } | Statement::Row(rows) => rows.cells.capacity(),
                Statement::Texts(batch) => batch.statements.iter().map(text).sum(),
                Statement::Text(text) => text.contents.len(),
            }
    }
}
