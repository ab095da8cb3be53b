//! What is prepared before the clock starts: statements on the server, requests, limits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use scylla::statement::batch::BatchType;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::Statement as Text;

use super::errors;
use super::limits::Limits;
use super::options::{BatchForm, StatementKind};
use super::server::Replication;
use super::statement::{whole_batch, Builder, Nodes, Shape};
use super::{Cassandra, Contact};
use crate::upsert::{Found, Work};
use venturi_base::data::upsert::Batches;
use venturi_base::error::{Error, Result};
use venturi_base::meter::clock::StageClock;

/// A statement's placeholders are numbered with 16 bits.
const MOST_VALUES: usize = 65_535;

/// What the streams share.
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
        let row_text = layout.prepared()?;
        let row = prepare(contact, &row_text).await?;
        let replication = Replication::read(driver, &self.place.space).await?;
        let limits = match replication {
            Some(replication) => Limits::read(driver, &replication).await,
            None => Limits::default(),
        };
        let limits = Arc::new(limits);
        let (kind, form) = (self.options.batch(), self.options.batch_form);
        let whole = match (kind, form, self.options.statement) {
            (Some(kind), BatchForm::Statement, StatementKind::Prepared) => {
                self.prepare_whole(contact, &batches, kind, &row_text)
                    .await?
            }
            _ => HashMap::new(),
        };
        let shape = Arc::new(Shape {
            batch: kind,
            form,
            kind: self.options.statement,
            consistency: self.options.consistency(),
            compression: self.options.compression()?,
            row,
            whole,
        });
        let routed = self.options.token_aware && self.options.statement == StatementKind::Prepared;
        let nodes = (routed && contact.nodes.len() > 1).then(|| Nodes {
            cluster: driver.get_cluster_state(),
            all: contact.nodes.clone(),
        });
        let builder = Builder {
            layout: layout.clone(),
            shape: shape.clone(),
            nodes,
        };
        let work = Work::new(&self.spec, layout.table.clone(), batches, builder)?;
        let before = match self.options.common.setup || !self.spec.leads() {
            true => Found::default(),
            false => self.count(contact).await?.0,
        };
        if kind.is_some() {
            // A batch that the server refuses for its size is explained before the clock starts.
            let mut clock = StageClock::since(Instant::now());
            let first = work.statement(0, &mut clock)?;
            let stream = contact.stream(1, &shape, &limits, &|_| ()).await?;
            limits.check(&stream, &first.statement).await?;
        }
        Ok(Ready {
            work: Arc::new(work),
            shape,
            limits,
            before,
        })
    }

    /// One statement for each number of rows: all batches have the same but a file's last one.
    async fn prepare_whole(
        &self,
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
            let text = whole_batch(kind, std::iter::repeat_n(row, rows));
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
}

async fn prepare(contact: &Contact, text: &str) -> Result<PreparedStatement> {
    let prepared = contact.driver.prepare(Text::new(text)).await;
    prepared.map_err(|error| errors::of_prepare(&contact.place, &error))
}
