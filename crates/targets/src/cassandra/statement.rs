//! Rows as requests, made whole before the clock starts.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use scylla::cluster::{ClusterState, Node};
use scylla::frame::Compression;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;
use scylla::serialize::SerializationError;
use scylla::statement::batch::BatchType;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::Consistency;

use super::frame::{put_prepared, put_unprepared, Request};
use super::options::{BatchForm, StatementKind};
use super::schema::Layout;
use super::values::{encode, literal};
use crate::upsert;
use venturi_base::data::payload_bytes;
use venturi_base::data::upsert::Table;
use venturi_base::data::view::View;
use venturi_base::error::{Error, Kind, Result};

/// What is sent: everything that does not depend on the connection.
pub struct Statement {
    pub request: Request,
    pub rows: usize,
    /// Of the cluster's nodes, those that have the first row; none: any will do.
    pub replicas: Vec<u16>,
}

/// What the requests of a trial are made of.
pub struct Shape {
    /// `None`: every row by itself.
    pub batch: Option<BatchType>,
    pub form: BatchForm,
    pub kind: StatementKind,
    pub consistency: Consistency,
    pub compression: Option<Compression>,
    /// Of one row.
    pub row: PreparedStatement,
    /// `BEGIN BATCH ... APPLY BATCH` of so many rows.
    pub whole: HashMap<usize, PreparedStatement>,
}

impl Shape {
    /// Whether the server applies all of it or nothing where replicas are missing.
    pub fn is_whole(&self, rows: usize) -> bool {
        match self.batch {
            None | Some(BatchType::Logged) => true,
            Some(_) => rows < 2,
        }
    }

    /// A BATCH of the first rows of a statement, at another consistency; `None`: it is no batch,
    /// or one text, of which no part can be taken.
    pub fn first(
        &self,
        statement: &Statement,
        rows: usize,
        consistency: Consistency,
    ) -> Option<Request> {
        let (request, by) = (&statement.request, self.compression);
        match self.form {
            BatchForm::Message => request.first_of_batch(rows, consistency, by),
            BatchForm::Statement => {
                let width = self.row.get_variable_col_specs().len();
                let each = (self.batch?, &self.row.get_id()[..], width);
                request.first_of_statement(each, rows, consistency, by)
            }
        }
    }

    /// The text of a prepared statement that a server has forgotten.
    pub fn text(&self, id: &[u8]) -> Option<&str> {
        let all = self.whole.values().chain([&self.row]);
        let mut found = all.filter(|prepared| prepared.get_id()[..] == *id);
        found.next().map(PreparedStatement::get_statement)
    }
}

/// As many times the same statement, as one.
pub fn whole_batch<S: AsRef<str>>(kind: BatchType, rows: impl Iterator<Item = S>) -> String {
    let mut text = match kind {
        BatchType::Counter => "BEGIN COUNTER BATCH ",
        BatchType::Unlogged => "BEGIN UNLOGGED BATCH ",
        BatchType::Logged => "BEGIN BATCH ",
    }
    .to_owned();
    for row in rows {
        text.push_str(row.as_ref());
        text.push_str("; ");
    }
    text + "APPLY BATCH"
}

/// Where rows live, in a cluster of several nodes.
pub struct Nodes {
    pub cluster: Arc<ClusterState>,
    pub all: Vec<Arc<Node>>,
}

/// Makes the requests of a trial.
pub struct Builder {
    pub layout: Arc<Layout>,
    pub shape: Arc<Shape>,
    /// `None`: any node will do.
    pub nodes: Option<Nodes>,
}

impl Builder {
    fn bind(&self, columns: &[View], row: usize, body: &mut Vec<u8>) -> Result<()> {
        for (column, &(_, null)) in columns.iter().zip(&self.layout.bound) {
            encode(column, row, null, body)?;
        }
        Ok(())
    }

    fn text(&self, columns: &[View], row: usize) -> Result<String> {
        let mut columns = columns.iter();
        self.layout.statement(|_, null, text| match columns.next() {
            Some(column) => literal(column, row, null, text),
            None => Ok(()),
        })
    }

    fn request(&self, columns: &[View], rows: usize) -> Result<Request> {
        let Shape {
            consistency, row, ..
        } = &*self.shape;
        let (consistency, width) = (*consistency, columns.len());
        let bind = |row, body: &mut Vec<u8>| self.bind(columns, row, body);
        match (self.shape.batch, self.shape.kind, self.shape.form) {
            (Some(kind), StatementKind::Prepared, BatchForm::Message) => {
                Request::batch(kind, consistency, rows, |at, body| {
                    put_prepared(body, row.get_id(), width);
                    bind(at, body)
                })
            }
            (Some(kind), StatementKind::Text, BatchForm::Message) => {
                Request::batch(kind, consistency, rows, |at, body| {
                    put_unprepared(body, &self.text(columns, at)?);
                    Ok(())
                })
            }
            (Some(_), StatementKind::Prepared, BatchForm::Statement) => {
                let whole = self.shape.whole.get(&rows).ok_or_else(|| {
                    let message = format!("no statement of {rows} rows is prepared");
                    Error::new(Kind::Internal, message)
                })?;
                Request::execute(whole.get_id(), consistency, rows * width, |body| {
                    (0..rows).try_for_each(|at| bind(at, body))
                })
            }
            (Some(kind), StatementKind::Text, BatchForm::Statement) => {
                let texts = (0..rows).map(|at| self.text(columns, at));
                let texts = texts.collect::<Result<Vec<_>>>()?;
                Ok(Request::query(
                    &whole_batch(kind, texts.iter()),
                    consistency,
                ))
            }
            (None, StatementKind::Prepared, _) => {
                Request::execute(row.get_id(), consistency, width, |body| bind(0, body))
            }
            (None, StatementKind::Text, _) => {
                Ok(Request::query(&self.text(columns, 0)?, consistency))
            }
        }
    }

    fn replicas(&self, columns: &[View]) -> Result<Vec<u16>> {
        let Some(nodes) = &self.nodes else {
            return Ok(Vec::new());
        };
        let mut cells = Vec::new();
        self.bind(columns, 0, &mut cells)?;
        let first = FirstRow {
            cells: &cells,
            columns: columns.len(),
        };
        let token = self.shape.row.calculate_token(&first).ok().flatten();
        let Some(token) = token else {
            return Ok(Vec::new());
        };
        let (keyspace, table) = (&self.layout.keyspace, &self.layout.table.name);
        let found = nodes.cluster.get_token_endpoints(keyspace, table, token);
        let place = |id| nodes.all.iter().position(|node| node.host_id == id);
        let places = found.iter().filter_map(|(node, _)| place(node.host_id));
        Ok(places.map(|at| at as u16).collect())
    }
}

/// For the driver, which knows how a token is made of it: `[int] length, bytes` of each value.
pub struct FirstRow<'a> {
    pub cells: &'a [u8],
    pub columns: usize,
}

impl SerializeRow for FirstRow<'_> {
    fn serialize(
        &self,
        _: &RowSerializationContext<'_>,
        writer: &mut RowWriter,
    ) -> std::result::Result<(), SerializationError> {
        let mut rest = self.cells;
        for _ in 0..self.columns {
            let Some((length, after)) = rest.split_first_chunk::<4>() else {
                break;
            };
            let cell = writer.make_cell_writer();
            let length = usize::try_from(i32::from_be_bytes(*length)).ok();
            match length.and_then(|length| after.split_at_checked(length)) {
                Some((value, after)) => {
                    cell.set_value(value).map_err(SerializationError::new)?;
                    rest = after;
                }
                None => {
                    cell.set_null();
                    rest = after;
                }
            }
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.columns == 0
    }
}

impl upsert::Builder for Builder {
    type Statement = Statement;

    fn build(&self, _: &Table, rows: &RecordBatch) -> Result<Statement> {
        let columns = self
            .layout
            .bound
            .iter()
            .map(|&(at, _)| View::of(rows.schema_ref().field(at).name(), rows.column(at)))
            .collect::<Result<Vec<_>>>()?;
        let count = rows.num_rows();
        let request = self.request(&columns, count)?;
        Ok(Statement {
            request: request.compressed(self.shape.compression)?,
            rows: count,
            replicas: self.replicas(&columns)?,
        })
    }

    fn payload(&self, _: &Table, rows: &RecordBatch) -> Result<u64> {
        Ok(payload_bytes(&rows.project(self.layout.columns())?))
    }

    fn size(statement: &Statement) -> usize {
        size_of::<Statement>()
            + statement.request.body.capacity()
            + statement.replicas.capacity() * 2
    }
}
