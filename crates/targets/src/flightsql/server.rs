//! The server: how it is reached, and what it is asked outside of the clock.

use std::collections::{BTreeMap, VecDeque};
use std::future::{poll_fn, Future};
use std::task::Poll;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use prost::Message as _;

use super::SCHEME;
use crate::flight::call::Link;
use crate::flight::connect::Destination;
use crate::flight::get::Reader;
use crate::flight::offers::authenticate;
use crate::flight::options::{Address, Options as Transport};
use crate::flight::plan::{flight_info, Offer, Piece};
use crate::flight::reply::is_unknown;
use crate::flight::{first_contact, named, SERVER};
use venturi_base::codec::flight_sql::{
    sql_info, ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
    ActionCreatePreparedStatementResult, CommandGetSqlInfo, CommandGetTables,
    CommandPreparedStatementQuery, CommandStatementQuery, CommandStatementUpdate,
    DoPutUpdateResult, SqlMessage,
};
use venturi_base::codec::proto::{ActionType, Bytes, FlightDescriptor, FlightInfo};
use venturi_base::data::view::{Values, View};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::limit;
use venturi_base::meter::clock::StageClock;
use venturi_base::secrets::masked;

/// Bytes of an answer that is read outside of the clock, and its rows.
const ANSWER: u64 = 64 << 20;
const ANSWER_ROWS: usize = 100_000;
/// Letters of a statement in an error.
const SHOWN: usize = 200;
/// An action that all servers of Flight SQL list.
const SPEAKS: &str = "CreatePreparedStatement";

pub struct Server {
    pub address: Address,
    options: Transport,
    headers: Vec<(String, Vec<u8>)>,
    timeout: Duration,
    /// The header that the log-in gave for all further calls.
    login: Option<(String, Vec<u8>)>,
}

/// Connections by where they lead.
pub type Links = BTreeMap<Address, Link>;

/// The rows of a small answer.
pub struct Answer {
    pub schema: Option<SchemaRef>,
    pub batches: Vec<RecordBatch>,
}

impl Server {
    pub fn new(address: Address, options: Transport, timeout: Duration) -> Result<Self> {
        Ok(Self {
            headers: options.headers()?,
            address,
            options,
            timeout,
            login: None,
        })
    }

    /// The first connection, by which all others are logged in.
    pub async fn log_in(&mut self) -> Result<Link> {
        let link = self.connect(&self.address).await?;
        let login = self.within("logging in", authenticate(&link, &self.options));
        self.login = login.await?;
        Ok(link)
    }

    pub async fn connect(&self, address: &Address) -> Result<Link> {
        let destination = Destination {
            address: address.clone(),
            options: self.options.clone(),
            timeout: self.timeout,
            scheme: SCHEME,
        };
        let headers = self.headers.iter().cloned().chain(self.login.clone());
        Link::connect(destination.into(), address.authority(), headers.collect()).await
    }

    /// Bounds a call outside of the clock, and says of its error what was asked.
    pub async fn within<T>(&self, what: &str, call: impl Future<Output = Result<T>>) -> Result<T> {
        let place = self.address.authority();
        match limit::within(self.timeout, call).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => {
                let error = first_contact(error.context(what), &self.address, SCHEME);
                Err(named(error, &place))
            }
            Err(over) => Err(Error::new(
                Kind::Timeout,
                format!(
                    "{place}: {what}: no answer within {over}; {}",
                    self.address.doubt(SERVER, SCHEME)
                ),
            )),
        }
    }

    /// The same of a statement, which may take as long as the plan.
    async fn patient<T>(&self, query: &str, call: impl Future<Output = Result<T>>) -> Result<T> {
        let query = shown(query);
        let call = limit::patient(format!("{}: {query}", self.address.authority()), call);
        call.await.map_err(|error| match error.kind {
            Kind::Timeout => error,
            _ => {
                let error = first_contact(error.context(&query), &self.address, SCHEME);
                named(error, &self.address.authority())
            }
        })
    }

    pub async fn round_trip(&self, link: &Link) -> Option<Duration> {
        link.round_trip(self.timeout).await
    }

    /// Its name and version, as far as it tells; an error where it does not speak Flight SQL.
    pub async fn introduce(&self, link: &Link) -> Result<String> {
        let asked = self.within("asking who it is", self.info(link)).await;
        let error = match asked {
            Err(error) if error.kind == Kind::Protocol || is_unknown(&error) => error,
            other => return other,
        };
        // There are those that do not tell.
        let actions = link.unary("ListActions", &[], &[]);
        let actions = self.within("asking for its actions", actions).await;
        let named = |bytes: &Vec<u8>| {
            ActionType::decode(&bytes[..]).is_ok_and(|action| action.r#type == SPEAKS)
        };
        if actions.is_ok_and(|actions| actions.iter().any(named)) {
            return Ok(String::new());
        }
        Err(Error::new(
            Kind::Unsupported,
            format!(
                "{}; nor does it list the action {SPEAKS}: it is no server of Flight SQL. Of a plain Flight server flight://{}/TABLE is read, or ?command=TEXT",
                error.message,
                self.address.authority()
            ),
        ))
    }

    async fn info(&self, link: &Link) -> Result<String> {
        let asked = CommandGetSqlInfo {
            info: vec![sql_info::SERVER_NAME, sql_info::SERVER_VERSION],
        };
        let answer = self.answer(link, &asked.descriptor()).await?;
        let mut found = BTreeMap::new();
        for batch in &answer.batches {
            let strange = || Error::protocol("an answer to CommandGetSqlInfo that is none");
            let columns = batch.columns();
            let [names, values, ..] = columns else {
                return Err(strange());
            };
            let names = names.as_primitive_opt::<UInt32Type>().ok_or_else(strange)?;
            let values = values.as_union_opt().ok_or_else(strange)?;
            for row in 0..batch.num_rows() {
                let value = values.value(row);
                if let Some(text) = value.as_string_opt::<i32>() {
                    let shown: String = text.value(0).chars().take(80).collect();
                    found.insert(names.value(row), shown);
                }
            }
        }
        let words: Vec<String> = found.into_values().collect();
        Ok(words.join(" "))
    }

    /// All rows of a command's answer.
    async fn answer(&self, link: &Link, descriptor: &FlightDescriptor) -> Result<Answer> {
        let info = flight_info(link, descriptor).await?;
        let mut links = Links::from([(self.address.clone(), link.clone())]);
        let pieces = self.offer(&info)?.pieces(&self.address, 0, 1);
        let mut reader = Reader::new(self.linked(&pieces, &mut links).await?, vec![], ANSWER);
        let mut clock = StageClock::start();
        let mut batches: Vec<RecordBatch> = Vec::new();
        let mut rows = 0;
        while let Some(batch) = poll_fn(|cx| reader.poll_next(cx, &mut clock)).await? {
            rows += batch.num_rows();
            if rows > ANSWER_ROWS {
                poll_fn(|cx| {
                    reader.cancel(cx);
                    Poll::Ready(())
                })
                .await;
                let text = format!("over {ANSWER_ROWS} rows where a few were asked for");
                return Err(Error::protocol(text));
            }
            batches.push(batch);
        }
        Ok(Answer {
            schema: reader.schema().cloned(),
            batches,
        })
    }

    /// The same of a statement; errors have it in front.
    pub async fn query(&self, link: &Link, query: &str) -> Result<Answer> {
        let asked = CommandStatementQuery {
            query: query.to_owned(),
        };
        let descriptor = asked.descriptor();
        let asking = self.answer(link, &descriptor);
        self.patient(query, asking).await
    }

    /// The first row of a statement's answer, as text.
    pub async fn ask(&self, link: &Link, query: &str) -> Result<Vec<Option<String>>> {
        let answer = self.query(link, query).await?;
        let first = answer.batches.iter().find(|batch| batch.num_rows() > 0);
        let Some(batch) = first else {
            return Ok(Vec::new());
        };
        let schema = batch.schema();
        let columns = schema.fields().iter().zip(batch.columns());
        let cells = columns.map(|(field, column)| cell(&View::of(field.name(), column)?));
        cells.collect()
    }

    /// Whether there is a table of this name.
    pub async fn has_table(&self, link: &Link, table: &str) -> Result<bool> {
        let asked = CommandGetTables {
            table_name_filter_pattern: Some(table.to_owned()),
        };
        let descriptor = asked.descriptor();
        let answer = self.within("asking for its tables", self.answer(link, &descriptor));
        for batch in answer.await?.batches {
            let Some(names) = batch.column_by_name("table_name") else {
                return Err(Error::protocol(
                    "an answer to CommandGetTables that is none",
                ));
            };
            let names = View::of("table_name", names)?;
            for row in 0..batch.num_rows() {
                let same = |text: &str| text.eq_ignore_ascii_case(table);
                if matches!(&names.values, Values::Text(text) if same(text.value(row))) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Executes a statement that gives no rows.
    pub async fn run(&self, link: &Link, query: &str) -> Result<()> {
        let asked = CommandStatementUpdate {
            query: query.to_owned(),
        };
        // A FlightData of nothing but its descriptor.
        let request = Bytes {
            bytes: asked.descriptor().encode_to_vec(),
        };
        let request = request.encode_to_vec();
        let running = link.unary("DoPut", &[], &request);
        self.patient(query, running).await.map(drop)
    }

    /// A prepared statement's handle.
    pub async fn prepare(&self, link: &Link, query: &str) -> Result<Vec<u8>> {
        let asked = ActionCreatePreparedStatementRequest {
            query: query.to_owned(),
        };
        let body = asked.packed();
        let preparing = async {
            let answer = link.action(SPEAKS, &body).await?;
            ActionCreatePreparedStatementResult::unpacked(&answer)
        };
        let prepared = self.patient(query, preparing).await?;
        Ok(prepared.prepared_statement_handle)
    }

    pub async fn close(&self, link: &Link, handle: Vec<u8>) -> Result<()> {
        let asked = ActionClosePreparedStatementRequest {
            prepared_statement_handle: handle,
        };
        let body = asked.packed();
        let closing = link.action("ClosePreparedStatement", &body);
        let what = "closing a prepared statement";
        self.within(what, closing).await.map(drop)
    }

    /// Where the rows of a prepared statement, or of a text, are to be had.
    pub async fn planned(
        &self,
        link: &Link,
        query: &str,
        handle: Option<&[u8]>,
    ) -> Result<FlightInfo> {
        let descriptor = match handle {
            Some(handle) => CommandPreparedStatementQuery {
                prepared_statement_handle: handle.to_vec(),
            }
            .descriptor(),
            None => CommandStatementQuery {
                query: query.to_owned(),
            }
            .descriptor(),
        };
        let planning = flight_info(link, &descriptor);
        self.patient(query, planning).await
    }

    pub fn offer(&self, info: &FlightInfo) -> Result<Offer> {
        let secrets = !self.headers.is_empty() || self.login.is_some();
        Offer::of(info, &self.address, secrets)
    }

    /// Connections to where the pieces are, made where they are missing.
    pub async fn linked(
        &self,
        pieces: &[Piece],
        links: &mut Links,
    ) -> Result<VecDeque<(Link, Vec<u8>)>> {
        let mut linked = VecDeque::with_capacity(pieces.len());
        for piece in pieces {
            let link = match links.get(&piece.address) {
                Some(link) => link.clone(),
                None => {
                    let link = self.connect(&piece.address).await?;
                    links.insert(piece.address.clone(), link.clone());
                    link
                }
            };
            linked.push_back((link, piece.ticket.clone()));
        }
        Ok(linked)
    }
}

/// A statement as errors have it: one line, not too long.
pub fn shown(query: &str) -> String {
    let query = masked(query.to_owned());
    let line = query.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = line.chars().take(SHOWN).collect();
    let dots = if short.len() < line.len() { " ..." } else { "" };
    short + dots
}

/// The rows that a put has changed, by its last answer; `None`: the server does not say.
pub fn changed(answer: &[u8]) -> Result<Option<u64>> {
    let broken = |error| Error::protocol(format!("DoPutUpdateResult: {error}"));
    let result = Bytes::decode(answer).map_err(broken)?;
    // A zero is written as nothing, and so is no answer: what is in the table tells.
    if result.bytes.is_empty() {
        return Ok(None);
    }
    let result = DoPutUpdateResult::decode(&result.bytes[..]).map_err(broken)?;
    Ok(u64::try_from(result.record_count).ok())
}

/// The first value of a column, as text.
fn cell(column: &View) -> Result<Option<String>> {
    if column.is_null(0) {
        return Ok(None);
    }
    Ok(Some(match &column.values {
        Values::Int8(values) => values[0].to_string(),
        Values::Int16(values) => values[0].to_string(),
        Values::Int32(values) => values[0].to_string(),
        Values::Int64(values) => values[0].to_string(),
        Values::UInt8(values) => values[0].to_string(),
        Values::UInt16(values) => values[0].to_string(),
        Values::UInt32(values) => values[0].to_string(),
        Values::UInt64(values) => values[0].to_string(),
        Values::Text(values) => values.value(0).to_owned(),
        _ => {
            let text = format!("column {}: no number or text", column.name);
            return Err(Error::protocol(text));
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_in_errors() {
        assert_eq!(shown("SELECT 1\n  FROM t"), "SELECT 1 FROM t");
        assert_eq!(shown(&"ä".repeat(300)), "ä".repeat(200) + " ...");
    }

    #[test]
    fn rows_that_a_put_has_changed() {
        let answer = |count| {
            let result = DoPutUpdateResult {
                record_count: count,
            };
            let bytes = result.encode_to_vec();
            Bytes { bytes }.encode_to_vec()
        };
        assert_eq!(changed(&answer(7)).unwrap(), Some(7));
        assert_eq!(changed(&answer(0)).unwrap(), None);
        assert_eq!(changed(&answer(-1)).unwrap(), None);
        assert_eq!(changed(&[]).unwrap(), None);
        assert!(changed(&[0x0a, 9]).is_err());
    }
}
