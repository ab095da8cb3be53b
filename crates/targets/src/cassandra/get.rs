//! Gets: a table in ranges of tokens, or a query, page by page. The next page is asked for as soon as one has
//! come, before it is decoded. Rows of our own are written into a table before the clock starts.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures::stream::{self, TryStreamExt};
use scylla::client::session::Session as Driver;
use scylla::cluster::metadata::{ColumnType, NativeType};
use scylla::cluster::{ClusterState, Node};
use scylla::deserialize::row::ColumnIterator;
use scylla::errors::ExecutionError;
use scylla::frame::response::result::ColumnSpec;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::response::query_result::QueryResult;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, Statement};

use super::connect::Reached;
use super::dialect::{list, pieces, set_up, sum, Layout, Piece, Source as Table};
use super::errors::{self, Written};
use super::options::{self, Options, Write};
use super::types::{encode, read_column, Cells, Null};
use super::verify::{totals, unjudged};
use super::Cluster;
use crate::read::{
    compare, digest_of, distinct, same_types, schema, Baseline, Checks, Partition, Rows, Split,
    Summed, OWN_TABLE,
};
use crate::{each, Identity, LocalFuture, Session, Tally, Target, Verification};
use venturi_base::codec::cql::{push, Form};
use venturi_base::data::column::Columns;
use venturi_base::data::view::View;
use venturi_base::data::{upsert, Cursor, Source};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::halt;
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::meter::sockets::Sockets;
use venturi_base::spec::{Data, Operation, TrialSpec, Verify};

/// The key of our own rows, which have none: a partition's number, and the row's in it.
const PARTITION: &str = "venturi_partition";
const ROW: &str = "venturi_row";
/// Bytes of a partition's values: a batch of it is below what a server warns of (5 KiB by its measure).
const PARTITION_BYTES: usize = 2 << 10;
/// Bytes of a value's length, in front of it.
const LENGTH: usize = 4;
/// Partitions on their way at a time.
const AT_A_TIME: usize = 64;

/// Gets from it.
pub type Readable = Cluster<Plan>;

pub struct Plan {
    driver: Arc<Driver>,
    nodes: Vec<Arc<Node>>,
    /// Our own table, where this process has made it.
    made: Option<Layout>,
    note: Option<String>,
    /// What every stream asks, of its own pieces.
    prepared: PreparedStatement,
    /// Its columns as they were then: those of the statement change with the table.
    specs: Arc<[ColumnSpec<'static>]>,
    forms: Arc<[Form]>,
    schema: SchemaRef,
    pieces: Vec<Vec<Piece>>,
    summed: Arc<Summed>,
    /// Rows are digested one by one.
    digest: bool,
    totals: Option<Baseline>,
}

impl Readable {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        let place = options::parse_url(&spec.target)?;
        let options = Options::parse(&spec.options)?;
        let wrong = |what: &str| Err(Error::usage(format!("cassandra://: {what}")));
        if spec.operation != Operation::Get {
            return wrong("operations are get and upsert");
        }
        let (reading, table) = (&options.reading, options.common.table.as_deref());
        reading.check_names(table)?;
        reading.check_what(&spec, table)?;
        if matches!(reading.split, Some(Split::Key | Split::Hash)) || reading.split_by.is_some() {
            return wrong("the streams share rows by ranges of tokens: split = parts (or none: each reads all)");
        }
        if spec.streams > 1 && spec.data == Data::Remote && reading.split.is_none() {
            return wrong("several streams: how shall they share the rows? Give split (parts; none: each reads all)");
        }
        if options.is_any() {
            return wrong("consistency = any is for writes: take one");
        }
        Self::of(spec, place, options)
    }

    fn is_ours(&self) -> bool {
        self.spec.data != Data::Remote
    }

    fn table(&self) -> &str {
        self.options.common.table.as_deref().unwrap_or(OWN_TABLE)
    }

    /// How often the rows are read in all.
    fn times(&self) -> u64 {
        self.options.reading.times(self.spec.streams)
    }

    async fn make_plan(&mut self) -> Result<Identity> {
        let Reached {
            driver,
            murmur,
            identity,
            note,
        } = self.reach().await?;
        let source = match self.is_ours() {
            true => Some(Source::make(&self.spec.data, self.spec.rows_per_batch)?),
            false => None,
        };
        let driver = Arc::new(driver);
        let mut made = None;
        if let Some(source) = source.as_ref().filter(|_| self.spec.leads()) {
            made = Some(self.load(&driver, source).await?);
        }
        match self.ask(&driver, murmur, source.as_ref()).await {
            Ok(plan) => {
                self.plan = Some(Plan { made, note, ..plan });
                Ok(identity)
            }
            Err(error) => {
                // Nobody else drops it: `clean` knows only what a plan that succeeded has made.
                if let Some(layout) = made {
                    let _ = self.clean_up(&driver, &layout).await;
                }
                Err(error)
            }
        }
    }

    /// Writes our own data into a table.
    async fn load(&self, driver: &Driver, source: &Source) -> Result<Layout> {
        let place = self.place.address();
        let rows = self.spec.planned_rows();
        let rows =
            rows.ok_or_else(|| Error::usage("too many rows: more than 64 bits can count"))?;
        let layout = own_layout(&self.place.space, self.table(), source, &self.options)?;
        set_up(driver, &place, &layout, self.options.replication).await?;
        match fill(driver, &place, &layout, source.cursor(Some(rows))).await {
            Ok(()) => Ok(layout),
            Err(error) => {
                let _ = self.clean_up(driver, &layout).await;
                Err(error)
            }
        }
    }

    async fn clean_up(&self, driver: &Driver, layout: &Layout) -> Result<()> {
        match self.options.common.keep {
            true => Ok(()),
            false => self.drop_table(driver, layout).await,
        }
    }

    /// In the trial's keyspace, with what the user wants each to begin with.
    async fn begin(&self, driver: &Driver) -> Result<()> {
        let used = driver.use_keyspace(&self.place.space, true).await;
        used.map_err(|error| {
            let place = self.place.address();
            Error::new(
                Kind::Server,
                format!("{place}: {}", errors::one_line(error)),
            )
        })?;
        self.run_init(driver).await
    }

    /// What is asked of whom, and what must come of it.
    async fn ask(
        &self,
        driver: &Arc<Driver>,
        murmur: bool,
        source: Option<&Source>,
    ) -> Result<Plan> {
        let (place, space) = (self.place.address(), &self.place.space);
        let query = self.options.reading.query.as_ref();
        let table = match (query, self.is_ours()) {
            (Some(_), _) => None,
            (None, true) => Some(Table::of(space, self.table(), [PARTITION].into_iter())),
            (None, false) => Some(Table::find(driver, space, self.table()).await?),
        };
        let what = match source {
            Some(source) => {
                let schema = source.schema();
                list(schema.fields().iter().map(|field| field.name().as_str()))
            }
            None => "*".to_owned(),
        };
        let text = match (&table, query) {
            (Some(table), _) => table.select(&what, murmur),
            (None, query) => query.cloned().unwrap_or_default(),
        };
        self.begin(driver).await?;
        let asked = Statement::new(&*text).with_page_size(self.page_size());
        let prepared = driver.prepare(asked).await;
        let prepared = prepared.map_err(|error| errors::prepare_error(&place, &error))?;
        let bound = self.binds_range(&prepared)?;
        let specs = prepared.get_current_result_set_col_specs();
        let specs: Arc<[_]> = specs.get().as_slice().into();
        let columns = specs.iter().map(read_column).collect::<Result<Vec<_>>>()?;
        if columns.is_empty() {
            return Err(Error::usage(format!(
                "{place}: query: it gives no rows: a get needs a SELECT"
            )));
        }
        let (columns, forms): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        distinct(&columns)?;
        let sums = columns.iter().map(|column| {
            let sum = table
                .as_ref()
                .and_then(|_| sum(&column.name, &column.native));
            (column.name.clone(), sum)
        });
        let summed = Summed::new(sums.filter(|_| self.spec.verify == Verify::Checksum));
        let mut expected = None;
        if self.spec.leads() && self.spec.verify != Verify::None {
            let text = match &table {
                Some(table) => table.select(&summed.selected(), bound),
                None => text,
            };
            let summed = table.as_ref().map(|_| &summed);
            let level = self.options.consistency();
            expected = Some(totals(driver, &place, &text, bound, summed, level).await?);
        }
        let schema = schema(&columns);
        // Rows of ours are known one by one, where they come back in the types that they went in.
        let ours = source.filter(|source| {
            self.spec.verify == Verify::Checksum && same_types(&source.schema(), &schema)
        });
        if let (Some(expected), Some(source)) = (&mut expected, ours) {
            expected.checksum = digest_of(source.cursor(self.spec.planned_rows()))?;
        }
        let state = driver.get_cluster_state();
        Ok(Plan {
            pieces: self.pieces(&state, bound)?,
            driver: driver.clone(),
            nodes: state.get_nodes_info().to_vec(),
            made: None,
            note: None,
            prepared,
            specs,
            forms: forms.into(),
            schema,
            summed: summed.into(),
            digest: ours.is_some(),
            totals: expected,
        })
    }

    fn page_size(&self) -> i32 {
        let usual = || i32::try_from(self.spec.rows_per_batch).unwrap_or(i32::MAX);
        self.options.page_size.unwrap_or_else(usual)
    }

    /// Whether a statement takes the ends of a range of tokens.
    fn binds_range(&self, prepared: &PreparedStatement) -> Result<bool> {
        let bigint = ColumnType::Native(NativeType::BigInt);
        let bound = prepared.get_variable_col_specs();
        let bound: Vec<bool> = bound.iter().map(|spec| *spec.typ() == bigint).collect();
        match bound[..] {
            [] => Ok(false),
            [true, true] => Ok(true),
            _ => Err(Error::usage(format!(
                "{}: query: two question marks are the ends of a stream's range, as in WHERE token(KEY) >= ? \
                 AND token(KEY) <= ?, and there are no others",
                self.place.address()
            ))),
        }
    }

    /// What each stream reads.
    fn pieces(&self, state: &ClusterState, bound: bool) -> Result<Vec<Vec<Piece>>> {
        let (streams, shares) = (
            self.spec.streams,
            self.options.reading.split != Some(Split::None),
        );
        if !bound {
            let whole = Piece {
                tokens: None,
                node: None,
            };
            return match streams == 1 || !shares {
                true => Ok(vec![vec![whole]; streams]),
                false => Err(Error::usage(format!(
                    "{}: streams cannot share these rows: a query needs WHERE token(KEY) >= ? AND token(KEY) <= ? \
                     in it (each stream binds its own range), and the cluster tokens that are numbers \
                     (Murmur3Partitioner)",
                    self.place.address()
                ))),
            };
        }
        let nodes = state.get_nodes_info();
        let place = |id| nodes.iter().position(|node| node.host_id == id);
        let ring = state.replica_locator().ring().iter();
        let ring: Vec<_> = match self.options.token_aware && nodes.len() > 1 {
            true => ring
                .filter_map(|(token, node)| Some((token.value(), place(node.host_id)?)))
                .collect(),
            false => Vec::new(),
        };
        Ok(match shares {
            true => pieces(streams, &ring),
            false => vec![pieces(1, &ring).concat(); streams],
        })
    }

    async fn open_stream(&self, stream: usize) -> Result<Box<dyn Session>> {
        let plan = self.plan()?;
        let driver = self.session(Some(stream)).await?;
        self.begin(&driver).await?;
        let checks = Checks {
            summed: (!plan.summed.columns.is_empty()).then(|| plan.summed.clone()),
            digest: plan.digest,
        };
        let place: Arc<str> = self.place.address().into();
        let limit = self.options.reading.max_block_bytes;
        let pieces = plan.pieces.get(stream).cloned().unwrap_or_default();
        let rows = Pages {
            asking: Arc::new(Asking {
                driver,
                prepared: plan.prepared.clone(),
                nodes: plan.nodes.clone(),
            }),
            pieces: pieces.into(),
            asked: None,
            begun: false,
            page: None,
            specs: plan.specs.clone(),
            forms: plan.forms.clone(),
            columns: Columns::new(&plan.schema, limit)?,
            ready: VecDeque::new(),
            rows_per_batch: self.spec.rows_per_batch,
            limit,
            carried: 0,
            place: place.clone(),
        };
        Ok(Box::new(Partition::new(Some(rows), checks, place)))
    }

    fn check(&self, tallies: &[Tally]) -> Result<Verification> {
        let plan = self.plan()?;
        let totals = plan.totals.as_ref();
        let mut found = compare(&self.spec, &plan.summed, totals, self.times(), tallies);
        let level = self.options.consistency();
        let weak = matches!(level, Consistency::One | Consistency::LocalOne);
        if weak && plan.nodes.len() > 1 && !self.is_ours() {
            unjudged(&mut found, level);
        }
        found.add_notes(plan.note.clone());
        Ok(found)
    }
}

impl Target for Readable {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(self.make_plan())
    }

    fn planned_rows(&self) -> Option<u64> {
        Some(self.plan.as_ref()?.totals?.rows * self.times())
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(each(group, async |stream| {
            Ok([self.open_stream(stream).await?])
        }))
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(async move { self.check(tallies) })
    }

    fn sockets(&self) -> Option<Arc<Sockets>> {
        self.kept_sockets()
    }

    fn clean<'a>(&'a self) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            match &self.plan {
                Some(Plan {
                    made: Some(layout),
                    driver,
                    ..
                }) => self.clean_up(driver, layout).await,
                _ => Ok(()),
            }
        })
    }
}

/// A stream's session, and what it asks by it.
struct Asking {
    driver: Driver,
    prepared: PreparedStatement,
    /// As the pieces number them.
    nodes: Vec<Arc<Node>>,
}

type Answer = std::result::Result<(QueryResult, PagingStateResponse), ExecutionError>;
type NextPage = Pin<Box<dyn Future<Output = Answer>>>;

impl Asking {
    /// Asks for a page of a piece, of the node that has it, where that is up.
    fn ask(self: &Arc<Self>, piece: Piece, from: PagingState) -> NextPage {
        let asking = self.clone();
        Box::pin(async move {
            let Self {
                driver, prepared, ..
            } = &*asking;
            let bound = piece
                .tokens
                .map_or_else(Vec::new, |(low, high)| vec![low, high]);
            let node = piece.node.and_then(|at| asking.nodes.get(at));
            let state = driver.get_cluster_state();
            let mut nodes = state.get_nodes_info().iter();
            let found = node.and_then(|node| nodes.find(|one| one.host_id == node.host_id));
            match found.filter(|node| node.is_connected()) {
                Some(node) => {
                    let node = NodeIdentifier::HostId(node.host_id);
                    let only = SingleTargetLoadBalancingPolicy::new(node, None);
                    let mut prepared = prepared.clone();
                    prepared.set_load_balancing_policy(Some(only));
                    driver.execute_single_page(&prepared, &bound, from).await
                }
                None => driver.execute_single_page(prepared, &bound, from).await,
            }
        })
    }
}

/// A stream's rows.
struct Pages {
    asking: Arc<Asking>,
    /// The first is being read.
    pieces: VecDeque<Piece>,
    asked: Option<NextPage>,
    begun: bool,
    /// A page that has come.
    page: Option<QueryResult>,
    specs: Arc<[ColumnSpec<'static>]>,
    forms: Arc<[Form]>,
    columns: Columns,
    /// Decoded.
    ready: VecDeque<RecordBatch>,
    rows_per_batch: usize,
    /// Bytes of an answer at most.
    limit: usize,
    /// Bytes of all of them.
    carried: u64,
    place: Arc<str>,
}

impl Pages {
    fn ask(&mut self, from: PagingState) {
        let piece = self.pieces.front().copied();
        self.asked = piece.map(|piece| self.asking.ask(piece, from));
    }

    /// What a page leaves to ask for.
    fn ask_next(&mut self, state: PagingStateResponse) {
        match state {
            PagingStateResponse::HasMorePages { state } => self.ask(state),
            PagingStateResponse::NoMorePages => {
                self.pieces.pop_front();
                self.ask(PagingState::start());
            }
        }
    }

    fn decode(&mut self, answer: QueryResult) -> Result<()> {
        let broken = |error: &dyn std::fmt::Display| {
            Error::protocol(format!(
                "a page cannot be read: {}",
                errors::one_line(error)
            ))
        };
        let page = answer.into_rows_result().map_err(|error| broken(&error))?;
        let bytes = page.rows_bytes_size();
        self.carried += bytes as u64;
        if bytes > self.limit {
            return Err(Error::new(
                Kind::Memory,
                format!(
                    "an answer of {bytes} bytes, of which {} are taken at most: take a smaller page_size, or raise \
                     max_block_size",
                    self.limit
                ),
            ));
        }
        if page.column_specs().as_slice() != &*self.specs {
            return Err(Error::protocol(
                "the answer has other columns than the statement had when it was planned; was the table altered?",
            ));
        }
        let mut left = bytes;
        let rows = page
            .rows::<ColumnIterator>()
            .map_err(|error| broken(&error))?;
        for row in rows {
            let row = row.map_err(|error| broken(&error))?;
            let mut bytes = 0;
            for ((form, column), value) in self.forms.iter().zip(self.columns.each()).zip(row) {
                let value = value.map_err(|error| broken(&error))?;
                left = left.saturating_sub(LENGTH);
                match value.slice {
                    Some(value) => {
                        bytes += value.as_slice().len();
                        push(form, column, value.as_slice())?;
                    }
                    None => column.push_null(),
                }
            }
            left = left.saturating_sub(bytes);
            self.columns.row(bytes)?;
            if self.columns.rows() == self.rows_per_batch {
                self.ready.extend(self.columns.finish()?);
            }
        }
        match left {
            0 => Ok(()),
            _ => Err(Error::protocol(format!(
                "{left} bytes behind the last row of a page"
            ))),
        }
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<RecordBatch>>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Poll::Ready(Ok(Some(batch)));
            }
            if let Some(page) = self.page.take() {
                let decoded = self.decode(page);
                clock.mark(Stage::Decode);
                decoded?;
                continue;
            }
            if !std::mem::replace(&mut self.begun, true) {
                self.ask(PagingState::start());
            }
            let Some(asked) = &mut self.asked else {
                let batch = self.columns.finish()?;
                clock.mark(Stage::Decode);
                return Poll::Ready(Ok(batch));
            };
            let answer = asked.as_mut().poll(cx);
            clock.mark(Stage::Receive);
            if answer.is_pending() {
                clock.wait(Stage::AwaitInput);
            }
            let (page, state) = ready!(answer).map_err(|error| {
                errors::execution_error(&self.place, &error, Written::default())
            })?;
            self.page = Some(page);
            self.ask_next(state);
            if let Some(asked) = &mut self.asked {
                if let Poll::Ready(answer) = asked.as_mut().poll(cx) {
                    self.asked = Some(Box::pin(std::future::ready(answer)));
                }
                // The driver sends it before this page is decoded.
                clock.mark(Stage::Send);
                clock.wait(Stage::AwaitInput);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }
}

impl Rows for Pages {
    fn poll_rows(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<RecordBatch>>> {
        let polled = self.poll(cx, clock);
        polled.map_err(|error| match error.message.starts_with(&*self.place) {
            true => error,
            false => error.context(&self.place),
        })
    }

    fn carried(&self) -> u64 {
        self.carried
    }
}

/// The table of our own rows.
fn own_layout(keyspace: &str, name: &str, source: &Source, options: &Options) -> Result<Layout> {
    let schema = source.schema();
    let mut names = schema.fields().iter().map(|field| field.name());
    if let Some(name) = names.find(|name| [PARTITION, ROW].contains(&name.as_str())) {
        return Err(Error::usage(format!(
            "column {name:?}: a table of Venturi's has one of that name: name it otherwise"
        )));
    }
    let key = [PARTITION, ROW].map(|name| Arc::new(Field::new(name, DataType::Int32, false)));
    let fields = key.into_iter().chain(schema.fields().iter().cloned());
    let table = upsert::Table {
        name: name.to_owned(),
        schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
        key: vec![0, 1],
        add: Vec::new(),
    };
    let mut options = options.clone();
    (options.write, options.partition_key) = (Write::Insert, Some(1));
    Layout::new(keyspace, table, false, &options)
}

/// A partition in the making: so many rows' values, one row's behind the other's.
#[derive(Default)]
struct Filling {
    number: i32,
    rows: i32,
    cells: Vec<u8>,
}

/// Cuts rows into partitions.
struct Partitions {
    rows: Cursor,
    open: Filling,
    ready: VecDeque<Filling>,
}

impl Partitions {
    fn next(&mut self) -> Result<Option<Filling>> {
        while self.ready.is_empty() {
            halt::check()?;
            let Some(item) = self.rows.next() else {
                if self.open.rows > 0 {
                    self.close()?;
                }
                break;
            };
            let batch = item.batch();
            let schema = batch.schema_ref();
            let view = |at: usize| View::of(schema.field(at).name(), batch.column(at));
            let columns = (0..batch.num_columns()).map(view);
            let columns = columns.collect::<Result<Vec<_>>>()?;
            for row in 0..batch.num_rows() {
                for key in [self.open.number, self.open.rows] {
                    self.open.cells.extend_from_slice(&4u32.to_be_bytes());
                    self.open.cells.extend_from_slice(&key.to_be_bytes());
                }
                for column in &columns {
                    encode(column, row, Null::Null, &mut self.open.cells)?;
                }
                self.open.rows += 1;
                if self.open.cells.len() >= PARTITION_BYTES {
                    self.close()?;
                }
            }
        }
        Ok(self.ready.pop_front())
    }

    fn close(&mut self) -> Result<()> {
        let number = self.open.number.checked_add(1).ok_or_else(|| {
            Error::usage("so many rows have more partitions than a table of Venturi's: fewer --rows-per-stream")
        })?;
        let next = Filling {
            number,
            ..Filling::default()
        };
        self.ready
            .push_back(std::mem::replace(&mut self.open, next));
        Ok(())
    }
}

/// Writes all rows, each partition as one batch.
async fn fill(driver: &Driver, place: &str, layout: &Layout, rows: Cursor) -> Result<()> {
    let insert = driver.prepare(layout.prepared()?).await;
    let insert = &insert.map_err(|error| errors::prepare_error(place, &error))?;
    let partitions = Partitions {
        rows,
        open: Filling::default(),
        ready: VecDeque::new(),
    };
    let all = stream::try_unfold(partitions, |mut partitions| async move {
        let next = partitions.next()?;
        Ok::<_, Error>(next.map(|partition| (partition, partitions)))
    });
    let write = |partition: Filling| async move {
        let rows = partition.rows as usize;
        let batch = vec![insert.clone().into(); rows];
        let batch = Batch::new_with_statements(BatchType::Unlogged, batch);
        let cells = Cells::new(&partition.cells, layout.bound.len());
        let values: Vec<_> = cells.each(rows).collect();
        let done = driver.batch(&batch, values).await;
        done.map(|_| ())
            .map_err(|error| errors::execution_error(place, &error, Written::default()))
    };
    all.map_ok(write)
        .try_buffer_unordered(AT_A_TIME)
        .try_collect::<()>()
        .await
}
