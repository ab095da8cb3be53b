//! How large a batch the server takes: by its settings, and by trying.
//!
//! A server says "Batch too large" and nothing else; what it counts (cells with their
//! timestamps, not the key of a partition) differs with its version and is in no answer. So the
//! largest batch that fits is found by sending batches at a consistency level that cannot be met:
//! the server checks the size first, and applies nothing.

use std::sync::OnceLock;

use scylla::client::session::Session;
use scylla::errors::DbError;
use scylla::statement::Consistency;
use tokio::sync::OnceCell;

use super::errors;
use super::execute::{is_too_large, Stream};
use super::link::Reply;
use super::server::{self, Replication};
use super::statement::Statement;
use venturi_base::error::{Error, Kind, Result};

/// A threshold as the server writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub name: String,
    pub value: String,
    /// In bytes.
    pub bytes: Option<u64>,
}

#[derive(Debug, Default)]
pub struct Limits {
    fail: Option<Setting>,
    /// Cannot be met by the keyspace's replicas.
    unmeetable: Option<Consistency>,
    /// Rows of the largest batch that fits, once it was looked for.
    largest: OnceCell<Option<usize>>,
    /// The server's first warning.
    warning: OnceLock<String>,
}

impl Limits {
    pub async fn read(session: &Session, replication: &Replication) -> Self {
        Self {
            fail: server::batch_size_fail_threshold(session).await,
            unmeetable: match replication.replicas() {
                Some(1) => Some(Consistency::Two),
                Some(2) => Some(Consistency::Three),
                _ => None,
            },
            ..Self::default()
        }
    }

    /// Before the clock starts: is a batch of this size refused?
    pub async fn check(&self, stream: &Stream, statement: &Statement) -> Result<()> {
        if statement.rows < 2 || self.unmeetable.is_none() {
            return Ok(());
        }
        match self.fits(stream, 0, statement, statement.rows).await? {
            Some(false) => {
                let said = Error::new(Kind::Server, format!("{}: Batch too large", stream.place))
                    .with_code("0x2200");
                Err(self.explain(stream, 0, statement, said).await)
            }
            _ => Ok(()),
        }
    }

    /// Says of a batch that was refused for its size what the limit is and what would fit.
    pub async fn explain(
        &self,
        stream: &Stream,
        lane: usize,
        statement: &Statement,
        said: Error,
    ) -> Error {
        let rows = statement.rows;
        let largest = self
            .largest
            .get_or_init(|| self.search(stream, lane, statement, rows))
            .await;
        let limit = match &self.fail {
            Some(setting) => format!("its {} is {}", setting.name, setting.value),
            None => "see its batch_size_fail_threshold".to_owned(),
        };
        let bytes = self.fail.as_ref().and_then(|setting| setting.bytes);
        let message = match largest {
            Some(largest) => {
                let size = match bytes {
                    Some(bytes) => format!(
                        ", and this batch has about {:.0} KiB by its count",
                        bytes as f64 / 1024.0 * rows as f64 / *largest as f64
                    ),
                    None => String::new(),
                };
                format!(
                    "{}: a batch of {rows} rows is too large for the server: {limit}{size}; {largest} rows fit: \
                     take --rows-per-batch {largest} or less, raise the setting in cassandra.yaml, \
                     or send rows one by one (--batch none --rows-per-batch 1 --in-flight 64)",
                    stream.place
                )
            }
            None => format!(
                "{}: a batch of {rows} rows is too large for the server: {limit}; take fewer --rows-per-batch, \
                 raise the setting in cassandra.yaml, or send rows one by one (--batch none --rows-per-batch 1 --in-flight 64)",
                stream.place
            ),
        };
        Error { message, ..said }
    }

    /// The server's first warning of a batch is kept: it writes one into its log for each.
    pub fn note<'a>(&self, mut warnings: impl Iterator<Item = &'a str>) {
        if let Some(first) = warnings.next() {
            self.warning.get_or_init(|| errors::line(first));
        }
    }

    pub fn warning(&self) -> Option<&str> {
        self.warning.get().map(String::as_str)
    }

    /// Bisection; `rows` are known not to fit. `None`: it cannot be found out.
    async fn search(
        &self,
        stream: &Stream,
        lane: usize,
        statement: &Statement,
        rows: usize,
    ) -> Option<usize> {
        let (mut fits, mut too_many) = (1, rows);
        while fits + 1 < too_many {
            let middle = fits + (too_many - fits) / 2;
            match self.fits(stream, lane, statement, middle).await {
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
        lane: usize,
        statement: &Statement,
        rows: usize,
    ) -> Result<Option<bool>> {
        let tried = self
            .unmeetable
            .and_then(|level| Some((level, stream.shape.first(statement, rows, level)?)));
        let Some((unmeetable, request)) = tried else {
            return Ok(None);
        };
        let reply = stream.ask(lane, request).await;
        if is_too_large(&reply) {
            return Ok(Some(false));
        }
        match reply {
            Reply::Said(answer) => Ok(match answer.refusal.map(|refusal| refusal.error) {
                Some(DbError::Unavailable { .. }) => Some(true),
                // Whatever else is wrong, the trial itself will say it better.
                _ => None,
            }),
            Reply::Done => Err(Error::new(
                Kind::Internal,
                format!(
                    "{}: a batch was applied at consistency {}, which so few replicas cannot meet",
                    stream.place,
                    errors::level(unmeetable)
                ),
            )),
            Reply::Late(_) | Reply::Lost(_) => Ok(None),
        }
    }
}
