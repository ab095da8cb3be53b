//! Rows as statements, made before the clock starts, and the driver's calls that execute them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arrow_array::RecordBatch;
use scylla::client::session::Session as Driver;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::response::query_result::QueryResult;
use scylla::statement::batch::{Batch, BatchStatement, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, Statement as Text};
use tokio::sync::OnceCell;

use super::dialect::{Layout, Replication};
use super::errors::{self, Written};
use super::options::{BatchForm, StatementKind};
use super::types::{encode, literal, Cells};
use super::verify::{batch_size_fail_threshold, Setting};
use super::{Cassandra, Contact};
use crate::upsert::{self, Executing, Found, Work};
use venturi_base::data::payload_bytes;
use venturi_base::data::upsert::{Batches, Table};
use venturi_base::data::view::View;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock};

/// A statement's placeholders are numbered with 16 bits.
const MOST_VALUES: usize = 65_535;
type Answer = std::result::Result<QueryResult, ExecutionError>;

/// A batch's rows as they are sent.
pub struct Statement {
    body: Body,
    rows: usize,
}

enum Body {
    /// Bound to what is prepared.
    Values(Vec<u8>),
    /// A text of each row.
    Batch(Batch),
    /// One of them all.
    Text(String),
}

/// How a trial's batches are sent.
pub struct Shape {
    /// `None`: every row by itself.
    pub batch: Option<BatchType>,
    form: BatchForm,
    kind: StatementKind,
    /// Of one row.
    row: PreparedStatement,
    /// Values of one row.
    width: usize,
    /// `BEGIN BATCH ... APPLY BATCH` of so many rows.
    whole: HashMap<usize, PreparedStatement>,
}

impl Shape {
    /// Whether the server applies all of it or nothing where replicas are missing.
    fn is_atomic(&self, rows: usize) -> bool {
        match self.batch {
            None | Some(BatchType::Logged) => true,
            Some(_) => rows < 2,
        }
    }
}

/// As many times the same statement, as one.
pub fn batch_statement<S: AsRef<str>>(kind: BatchType, rows: impl Iterator<Item = S>) -> String {
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

/// Makes the statements of a trial.
pub struct Builder {
    layout: Arc<Layout>,
    shape: Arc<Shape>,
}

impl Builder {
    fn text(&self, columns: &[View], row: usize) -> Result<String> {
        let mut columns = columns.iter();
        self.layout.statement(|_, null, text| match columns.next() {
            Some(column) => literal(column, row, null, text),
            None => Ok(()),
        })
    }
}

impl upsert::Builder for Builder {
    type Statement = Statement;

    fn build(&self, _: &Table, batch: &RecordBatch) -> Result<Statement> {
        let bound = &self.layout.bound;
        let columns = bound
            .iter()
            .map(|&(at, _)| View::of(batch.schema_ref().field(at).name(), batch.column(at)))
            .collect::<Result<Vec<_>>>()?;
        let rows = batch.num_rows();
        let Shape {
            batch: kind,
            form,
            kind: statement,
            ..
        } = *self.shape;
        let body = match statement {
            StatementKind::Prepared => {
                let mut cells = Vec::with_capacity(rows * columns.len() * 14);
                for row in 0..rows {
                    for (column, &(_, null)) in columns.iter().zip(bound) {
                        encode(column, row, null, &mut cells)?;
                    }
                }
                cells.shrink_to_fit();
                Body::Values(cells)
            }
            StatementKind::Text => {
                let texts = (0..rows).map(|row| self.text(&columns, row));
                let texts = texts.collect::<Result<Vec<_>>>()?;
                match (kind, form) {
                    (Some(kind), BatchForm::Message) => {
                        let texts = texts.into_iter().map(|text| Text::new(text).into());
                        Body::Batch(Batch::new_with_statements(kind, texts.collect()))
                    }
                    (Some(kind), BatchForm::Statement) => {
                        Body::Text(batch_statement(kind, texts.iter()))
                    }
                    (None, _) => Body::Text(texts.concat()),
                }
            }
        };
        Ok(Statement { body, rows })
    }

    fn payload(&self, _: &Table, rows: &RecordBatch) -> Result<u64> {
        Ok(payload_bytes(&rows.project(self.layout.columns())?))
    }

    fn size(statement: &Statement) -> usize {
        size_of::<Statement>()
            + match &statement.body {
                Body::Values(cells) => cells.capacity(),
                Body::Text(text) => text.capacity(),
                Body::Batch(batch) => {
                    let text = |row: &BatchStatement| match row {
                        BatchStatement::Query(text) => text.contents.capacity(),
                        _ => 0,
                    };
                    let rows = batch.statements.iter();
                    rows.map(|row| size_of_val(row) + text(row)).sum()
                }
            }
    }
}

/// A stream: its session of the driver, which its lanes share.
pub struct Stream {
    driver: Arc<Driver>,
    shape: Arc<Shape>,
    limits: Arc<Limits>,
    /// For error lines.
    place: String,
    /// Batches of prepared rows, by their number.
    batches: RefCell<HashMap<usize, Rc<Batch>>>,
}

impl Stream {
    pub fn new(driver: Arc<Driver>, ready: &Ready, place: &str) -> Self {
        Self {
            driver,
            shape: ready.shape.clone(),
            limits: ready.limits.clone(),
            place: place.to_owned(),
            batches: RefCell::default(),
        }
    }

    fn batch_of(&self, kind: BatchType, rows: usize) -> Rc<Batch> {
        let made = || {
            let rows = vec![self.shape.row.clone().into(); rows];
            Rc::new(Batch::new_with_statements(kind, rows))
        };
        self.batches
            .borrow_mut()
            .entry(rows)
            .or_insert_with(made)
            .clone()
    }

    async fn send(&self, statement: &Statement) -> Answer {
        let Shape {
            batch,
            form,
            row,
            width,
            whole,
            ..
        } = &*self.shape;
        let (driver, rows) = (&self.driver, statement.rows);
        match (&statement.body, batch, form) {
            (Body::Values(cells), Some(kind), BatchForm::Message) => {
                let cells = Cells::new(cells, *width);
                let values: Vec<_> = cells.each(rows).collect();
                driver.batch(&self.batch_of(*kind, rows), values).await
            }
            (Body::Values(cells), _, _) => {
                // Whatever number of rows there is, the plan has prepared it.
                let prepared = batch.and_then(|_| whole.get(&rows)).unwrap_or(row);
                let cells = Cells::new(cells, rows * width);
                driver.execute_unpaged(prepared, cells).await
            }
            (Body::Batch(batch), _, _) => driver.batch(batch, vec![(); rows]).await,
            (Body::Text(text), _, _) => driver.query_unpaged(&**text, ()).await,
        }
    }

    /// The same of its first rows, as a BATCH at another consistency; `None`: it is no batch, or one text,
    /// of which no part can be taken.
    async fn send_first(
        &self,
        statement: &Statement,
        rows: usize,
        consistency: Consistency,
    ) -> Option<Answer> {
        let kind = self.shape.batch?;
        let mut batch = match &statement.body {
            Body::Values(_) => (*self.batch_of(kind, rows)).clone(),
            Body::Batch(all) => {
                Batch::new_with_statements(kind, all.statements.get(..rows)?.to_vec())
            }
            Body::Text(_) => return None,
        };
        batch.set_consistency(consistency);
        Some(match &statement.body {
            Body::Values(cells) => {
                let cells = Cells::new(cells, self.shape.width);
                let values: Vec<_> = cells.each(rows).collect();
                self.driver.batch(&batch, values).await
            }
            _ => self.driver.batch(&batch, vec![(); rows]).await,
        })
    }

    async fn call(&self, call: &upsert::Prepared<Statement>) -> Result<()> {
        let statement = &call.statement;
        let error = match self.send(statement).await {
            Ok(answer) => {
                self.limits.note(answer.warnings());
                return Ok(());
            }
            Err(error) => error,
        };
        let written = Written {
            rows: call.rows,
            whole: self.shape.is_atomic(statement.rows),
        };
        let refused = errors::execution_error(&self.place, &error, written);
        match is_too_large(&error) {
            true => Err(self.limits.explain(self, statement, refused).await),
            false => Err(refused),
        }
    }
}

/// Whether the server refused a batch for its size.
fn is_too_large(error: &ExecutionError) -> bool {
    let ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::Invalid, reason)) =
        error
    else {
        return false;
    };
    reason.contains("Batch too large")
}

/// A lane of a stream.
pub struct Executor(pub Rc<Stream>);

impl upsert::Executor for Executor {
    type Statement = Statement;

    const WORK: Stage = Stage::Send;

    fn execute(self, call: Arc<upsert::Prepared<Statement>>) -> Executing<Self> {
        Box::pin(async move {
            let answer = self.0.call(&call).await;
            (self, answer)
        })
    }
}

/// How large a batch the server takes: by its settings, and by trying.
///
/// A server says "Batch too large" and nothing else; what it counts differs with its version and is in no
/// answer. So the largest batch that fits is found by sending batches at a consistency level that cannot be
/// met: the server checks the size first, and applies nothing.
#[derive(Debug, Default)]
pub struct Limits {
    fail: Option<Setting>,
    /// Cannot be met by the keyspace's replicas.
    unmeetable: Option<Consistency>,
    /// Rows of the largest batch that fits, once it was looked for.
    largest: OnceCell<Option<usize>>,
    /// The server's first warning of a batch: it writes one into its log for each.
    warning: OnceLock<String>,
}

impl Limits {
    async fn read(session: &Driver, keyspace: &str) -> Result<Self> {
        let Some(replication) = Replication::read(session, keyspace).await? else {
            return Ok(Self::default());
        };
        Ok(Self {
            fail: batch_size_fail_threshold(session).await,
            unmeetable: match replication.replicas() {
                Some(1) => Some(Consistency::Two),
                Some(2) => Some(Consistency::Three),
                _ => None,
            },
            ..Self::default()
        })
    }

    /// Before the clock starts: is a batch of this size refused?
    async fn check(&self, stream: &Stream, statement: &Statement) -> Result<()> {
        match self.fits(stream, statement, statement.rows).await? {
            Some(false) => {
                let refused = format!("{}: Batch too large", stream.place);
                let refused = Error::new(Kind::Server, refused).with_code("0x2200");
                Err(self.explain(stream, statement, refused).await)
            }
            _ => Ok(()),
        }
    }

    /// Of a batch that was refused for its size: what the limit is and what would fit.
    async fn explain(&self, stream: &Stream, statement: &Statement, refused: Error) -> Error {
        let (place, rows) = (&stream.place, statement.rows);
        let search = || self.search(stream, statement);
        let largest = *self.largest.get_or_init(search).await;
        let limit = match &self.fail {
            Some(setting) => format!("its {} is {}", setting.name, setting.value),
            None => "see its batch_size_fail_threshold".to_owned(),
        };
        let (fit, take) = match largest {
            Some(largest) => {
                let bytes = self.fail.as_ref().and_then(|setting| setting.bytes);
                let size = bytes.map_or_else(String::new, |bytes| {
                    let size = bytes as f64 / 1024.0 * rows as f64 / largest as f64;
                    format!(", and this batch has about {size:.0} KiB by its count")
                });
                let fit = format!("{size}; {largest} rows fit: ");
                (fit, format!("--rows-per-batch {largest} or less"))
            }
            None => ("; ".to_owned(), "fewer --rows-per-batch".to_owned()),
        };
        let message = format!(
            "{place}: a batch of {rows} rows is too large for the server: {limit}{fit}take {take}, raise the setting \
             in cassandra.yaml, or send rows one by one (--batch none --rows-per-batch 1 --in-flight 64)"
        );
        Error { message, ..refused }
    }

    fn note<'a>(&self, mut warnings: impl Iterator<Item = &'a str>) {
        if let Some(first) = warnings.next() {
            self.warning.get_or_init(|| errors::one_line(first));
        }
    }

    pub fn warning(&self) -> Option<&str> {
        self.warning.get().map(String::as_str)
    }

    /// Bisection; all its rows are known not to fit. `None`: it cannot be found out.
    async fn search(&self, stream: &Stream, statement: &Statement) -> Option<usize> {
        let (mut fits, mut too_many) = (1, statement.rows);
        while fits + 1 < too_many {
            let middle = fits + (too_many - fits) / 2;
            match self.fits(stream, statement, middle).await {
                Ok(Some(true)) => fits = middle,
                Ok(Some(false)) => too_many = middle,
                Ok(None) | Err(_) => return None,
            }
        }
        Some(fits)
    }

    /// Whether the first `rows` of a batch would be taken; they are not applied.
    async fn fits(
        &self,
        stream: &Stream,
        statement: &Statement,
        rows: usize,
    ) -> Result<Option<bool>> {
        let Some(unmeetable) = self.unmeetable.filter(|_| rows > 1) else {
            return Ok(None);
        };
        match stream.send_first(statement, rows, unmeetable).await {
            Some(Ok(_)) => Err(Error::new(
                Kind::Internal,
                format!(
                    "{}: a batch was applied at consistency {}, which so few replicas cannot meet",
                    stream.place,
                    errors::level_name(unmeetable)
                ),
            )),
            Some(Err(error)) if is_too_large(&error) => Ok(Some(false)),
            Some(Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(
                DbError::Unavailable { .. },
                _,
            )))) => Ok(Some(true)),
            // Whatever else is wrong, the trial itself will say it better.
            _ => Ok(None),
        }
    }
}

/// What is made before the clock starts, for all streams.
pub struct Ready {
    pub work: Arc<Work<Builder>>,
    pub shape: Arc<Shape>,
    pub limits: Arc<Limits>,
    pub before: Found,
}

impl Cassandra {
    /// The table is there: statements, limits, and what it holds before the trial.
    pub(super) async fn get_ready(&self, contact: &Contact, batches: Batches) -> Result<Ready> {
        let Contact { driver, layout, .. } = contact;
        let text = layout.prepared()?;
        let row = prepare(contact, &text).await?;
        let (batch, form) = (self.options.batch(), self.options.batch_form);
        let statement = self.options.statement;
        let whole = match (batch, form, statement) {
            (Some(kind), BatchForm::Statement, StatementKind::Prepared) => {
                prepare_batches(contact, &batches, kind, &text).await?
            }
            _ => HashMap::new(),
        };
        let shape = Arc::new(Shape {
            batch,
            form,
            kind: statement,
            row,
            width: layout.bound.len(),
            whole,
        });
        let builder = Builder {
            layout: layout.clone(),
            shape: shape.clone(),
        };
        let ready = Ready {
            work: Arc::new(Work::new(
                &self.spec,
                layout.table.clone(),
                batches,
                builder,
            )?),
            shape,
            limits: Arc::new(Limits::read(driver, &self.place.space).await?),
            before: match self.options.common.setup || !self.spec.leads() {
                true => Found::default(),
                false => self.count(contact).await?.0,
            },
        };
        if batch.is_some() {
            // A batch that the server refuses for its size is explained before the clock starts.
            let mut clock = StageClock::since(Instant::now());
            let first = ready.work.statement(0, &mut clock)?;
            let stream = Stream::new(driver.clone(), &ready, &contact.place);
            ready.limits.check(&stream, &first.statement).await?;
        }
        Ok(ready)
    }
}

/// One statement for each number of rows: all batches have the same but a file's last one.
async fn prepare_batches(
    contact: &Contact,
    batches: &Batches,
    kind: BatchType,
    row: &str,
) -> Result<HashMap<usize, PreparedStatement>> {
    let width = contact.layout.bound.len();
    let last = batches.count().saturating_sub(1);
    let mut whole = HashMap::new();
    for batch in [0, last] {
        let rows = batches.get(batch)?.num_rows();
        if rows * width > MOST_VALUES {
            let most = MOST_VALUES / width.max(1);
            return Err(Error::usage(format!(
                "batch_form = statement binds {} values to one statement, which takes {MOST_VALUES}: \
                 take --rows-per-batch {most} or less, or --batch-form message",
                rows * width
            )));
        }
        if whole.contains_key(&rows) {
            continue;
        }
        let text = batch_statement(kind, std::iter::repeat_n(row, rows));
        let prepared = prepare(contact, &text).await.map_err(|mut error| {
            if error.message.contains("allowed maximum") {
                error.message += ": take fewer --rows-per-batch, --batch-form message, \
                                  or raise prepared_statements_cache_size in cassandra.yaml";
            }
            error
        })?;
        whole.insert(rows, prepared);
    }
    Ok(whole)
}

async fn prepare(contact: &Contact, text: &str) -> Result<PreparedStatement> {
    let prepared = contact.driver.prepare(Text::new(text)).await;
    prepared.map_err(|error| errors::prepare_error(&contact.place, &error))
}
