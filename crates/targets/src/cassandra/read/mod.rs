//! Gets from Cassandra: a table in ranges of tokens, or a query, page by page over connections of our own.

mod count;
mod fill;
mod open;
mod pages;
mod ring;
mod statement;

use std::net::SocketAddr;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use scylla::client::session::Session as Driver;
use scylla::cluster::ClusterState;
use scylla::statement::Consistency;

use self::ring::{pieces, Piece};
use self::statement::Table;
use super::count::unjudged;
use super::dial::Access;
use super::errors;
use super::options::{self, Options};
use super::reach::Reached;
use super::schema::Layout;
use super::server;
use super::Cluster;
use crate::read::{
    compare, digest_of, distinct, same_types, schema, Column, Split, Summed, There, OWN_TABLE,
};
use crate::{each, Identity, LocalFuture, Session, Tally, Target, Verification};
use venturi_base::codec::cql::{Definition, Prepared};
use venturi_base::data::Source;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::sockets::Sockets;
use venturi_base::spec::{Data, Operation, TrialSpec, Verify};

/// Gets from it.
pub type Readable = Cluster<Plan>;

pub struct Plan {
    driver: Arc<Driver>,
    access: Access,
    nodes: Vec<SocketAddr>,
    /// Our own table, where this process has made it.
    made: Option<Layout>,
    note: Option<String>,
    /// What every stream asks, of its own pieces.
    text: String,
    columns: Arc<[Definition]>,
    schema: SchemaRef,
    pieces: Vec<Vec<Piece>>,
    summed: Arc<Summed>,
    /// Rows are digested one by one.
    digest: bool,
    there: Option<There>,
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
            access,
            software,
            identity,
            note,
        } = self.reach().await?;
        let place = self.place.address();
        let source = match self.is_ours() {
            true => Some(Source::make(&self.spec.data, self.spec.rows_per_batch)?),
            false => None,
        };
        let driver = Arc::new(driver);
        let mut made = None;
        if let Some(source) = source.as_ref().filter(|_| self.spec.leads()) {
            made = Some(self.load(&driver, &place, source).await?);
        }
        let planned = self.ask(&driver, access, software.murmur, source.as_ref());
        match planned.await {
            Ok(plan) => {
                self.plan = Some(Plan { made, note, ..plan });
                Ok(identity)
            }
            Err(error) => {
                // Nobody else drops it: `clean` knows only what a plan that succeeded has made.
                if let Some(layout) = made {
                    let _ = self.drop_table(&driver, &layout).await;
                }
                Err(error)
            }
        }
    }

    /// Writes our own data into a table.
    async fn load(&self, driver: &Driver, place: &str, source: &Source) -> Result<Layout> {
        let rows = self.spec.planned_rows();
        let rows =
            rows.ok_or_else(|| Error::usage("too many rows: more than 64 bits can count"))?;
        fill::check_names(source)?;
        let layout = fill::layout(&self.place.space, self.table(), source, &self.options)?;
        server::set_up(driver, place, &layout, self.options.replication).await?;
        let rows = source.cursor(Some(rows));
        match fill::fill(driver, place, &layout, rows).await {
            Ok(()) => Ok(layout),
            Err(error) => {
                let _ = self.drop_table(driver, &layout).await;
                Err(error)
            }
        }
    }

    /// What is asked of whom, and what must come of it.
    async fn ask(
        &self,
        driver: &Arc<Driver>,
        access: Access,
        murmur: bool,
        source: Option<&Source>,
    ) -> Result<Plan> {
        let (place, space) = (self.place.address(), &self.place.space);
        let query = self.options.reading.query.as_ref();
        let table = match (query, self.is_ours()) {
            (Some(_), _) => None,
            (None, true) => Some(Table::of(
                space,
                self.table(),
                &[fill::PARTITION.to_owned()],
            )),
            (None, false) => Some(Table::find(driver, space, self.table()).await?),
        };
        let what = match source {
            Some(source) => {
                let schema = source.schema();
                statement::list(schema.fields().iter().map(|field| field.name().as_str()))
            }
            None => "*".to_owned(),
        };
        let text = match (&table, query) {
            (Some(table), _) => table.select(&what, murmur),
            (None, query) => query.cloned().unwrap_or_default(),
        };
        let state = driver.get_cluster_state();
        let nodes = state.get_nodes_info().iter();
        let nodes: Vec<_> = nodes
            .map(|node| SocketAddr::new(node.address.ip(), node.address.port()))
            .collect();
        let (mut wire, _) = self.any(&access, &nodes).await?;
        let prepared = self.prepare(&mut wire, &access, &text).await?;
        let bound = self.bound(&prepared)?;
        let columns = prepared.columns.ok_or_else(|| {
            Error::usage(format!(
                "{place}: query: it gives no rows: a get needs a SELECT"
            ))
        })?;
        let named: Vec<_> = columns.iter().map(named).collect();
        distinct(&named)?;
        let sums = named.iter().map(|column| {
            let sum = table
                .as_ref()
                .and_then(|_| statement::sum(&column.name, &column.native));
            (column.name.clone(), sum)
        });
        let summed = Summed::new(sums.filter(|_| self.spec.verify == Verify::Checksum));
        let mut there = None;
        if self.spec.leads() && self.spec.verify != Verify::None {
            if table.is_none() {
                let used = driver.use_keyspace(space, true).await;
                used.map_err(|error| {
                    Error::new(Kind::Server, format!("{place}: {}", errors::line(error)))
                })?;
            }
            let text = match &table {
                Some(table) => table.select(&summed.selected(), bound),
                None => text.clone(),
            };
            let summed = table.as_ref().map(|_| &summed);
            let level = self.options.consistency();
            there = Some(count::there(driver, &place, &text, bound, summed, level).await?);
        }
        let schema = schema(&named);
        // Rows of ours are known one by one, where they come back in the types that they went in.
        let known = source.filter(|source| {
            self.spec.verify == Verify::Checksum && same_types(&source.schema(), &schema)
        });
        if let (Some(there), Some(source)) = (&mut there, known) {
            there.checksum = digest_of(source.cursor(self.spec.planned_rows()))?;
        }
        Ok(Plan {
            pieces: self.pieces(&state, bound)?,
            driver: driver.clone(),
            access,
            nodes,
            made: None,
            note: None,
            text,
            columns: columns.into(),
            schema,
            summed: summed.into(),
            digest: known.is_some(),
            there,
        })
    }

    /// Whether a statement takes the ends of a range of tokens.
    fn bound(&self, prepared: &Prepared) -> Result<bool> {
        match prepared.variables[..] {
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

    async fn drop_table(&self, driver: &Driver, layout: &Layout) -> Result<()> {
        if self.options.common.keep {
            return Ok(());
        }
        let drop = format!("DROP TABLE IF EXISTS {}", layout.path());
        server::execute(driver, &self.place.address(), &drop).await
    }

    fn check(&self, tallies: &[Tally]) -> Result<Verification> {
        let plan = self.plan()?;
        let there = plan.there.as_ref();
        let mut found = compare(&self.spec, &plan.summed, there, self.times(), tallies);
        let level = self.options.consistency();
        let weak = matches!(level, Consistency::One | Consistency::LocalOne);
        if weak && plan.nodes.len() > 1 && !self.is_ours() {
            unjudged(&mut found, level);
        }
        found.add_notes(plan.note.clone());
        Ok(found)
    }
}

fn named(column: &Definition) -> Column {
    Column {
        name: column.name.clone(),
        data_type: column.data_type.clone(),
        native: column.native.clone(),
    }
}

impl Target for Readable {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(self.make_plan())
    }

    fn planned_rows(&self) -> Option<u64> {
        Some(self.plan.as_ref()?.there?.rows * self.times())
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
                }) => self.drop_table(driver, layout).await,
                _ => Ok(()),
            }
        })
    }
}
