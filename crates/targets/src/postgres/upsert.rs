//! A batch as Postgres takes it, and one connection's way to execute it.

use std::error::Error as StdError;
use std::io::Cursor;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::{poll, SinkExt};
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type};
use tokio_postgres::Client;

use super::connect::{Answer, Driver, Link};
use super::dialect::POSTGRES;
use super::errors::of_batch;
use super::types::{Columns, Form};
use crate::upsert::{Builder, Executing, Executor, Prepared};
use venturi_base::data::upsert::Table;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::Stage;

/// The temporary table that COPY fills, one a connection.
const STAGING: &str = "venturi_staging";

/// How batches are made and sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// One INSERT with all values in it.
    Text,
    /// INSERT ... SELECT of arrays, one a column: a statement has no more than 65,535
    /// parameters, and with an array a column the same one takes batches of any size.
    Arrays,
    /// COPY into a temporary table, then INSERT ... SELECT from it.
    Copy,
}

/// A batch, ready to be sent.
#[derive(Debug)]
pub enum Statement {
    Text(String),
    Arrays(Vec<Encoded>),
    Copy(Arc<[u8]>),
}

/// A parameter in Postgres' binary format.
#[derive(Debug)]
pub struct Encoded(Vec<u8>);

impl ToSql for Encoded {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn StdError + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn StdError + Sync + Send>> {
        self.to_sql(kind, out)
    }
}

/// Makes statements of rows.
pub struct Rows {
    pub way: Way,
    pub forms: Vec<Form>,
}

impl Rows {
    pub fn new(way: Way, table: &Table) -> Result<Self> {
        let columns = 0..table.schema.fields().len();
        let forms = columns
            .map(|at| Form::of(table, at))
            .collect::<Result<_>>()?;
        Ok(Self { way, forms })
    }

    fn names(table: &Table) -> String {
        let names = table.schema.fields().iter();
        let names: Vec<_> = names.map(|field| POSTGRES.quoted(field.name())).collect();
        names.join(", ")
    }

    fn head(table: &Table) -> String {
        let name = POSTGRES.quoted(&table.name);
        format!("INSERT INTO {name} ({})", Self::names(table))
    }

    /// The upsert of arrays.
    fn upsert(&self, table: &Table) -> String {
        let arrays: Vec<_> = (1..)
            .zip(&self.forms)
            .map(|(number, form)| format!("${number}::{}[]", form.name()))
            .collect();
        format!(
            "{} SELECT * FROM unnest({}){}",
            Self::head(table),
            arrays.join(", "),
            POSTGRES.upsert_tail(table)
        )
    }

    /// What COPY fills, empty again after every transaction.
    fn staging(&self, table: &Table) -> String {
        let columns: Vec<_> = table
            .schema
            .fields()
            .iter()
            .zip(&self.forms)
            .map(|(field, form)| format!("{} {}", POSTGRES.quoted(field.name()), form.name()))
            .collect();
        format!(
            "CREATE TEMPORARY TABLE {STAGING} ({}) ON COMMIT DELETE ROWS",
            columns.join(", ")
        )
    }

    fn merge(table: &Table) -> String {
        format!(
            "{} SELECT {} FROM {STAGING}{}",
            Self::head(table),
            Self::names(table),
            POSTGRES.upsert_tail(table)
        )
    }
}

impl Builder for Rows {
    type Statement = Statement;

    fn build(&self, table: &Table, rows: &RecordBatch) -> Result<Statement> {
        if self.way == Way::Text {
            let mut text = Vec::new();
            POSTGRES.upsert_text(table, rows, &mut text)?;
            return String::from_utf8(text)
                .map(Statement::Text)
                .map_err(|_| Error::new(Kind::Internal, "a statement that is no text"));
        }
        let columns = Columns::of(table, &self.forms, rows)?;
        Ok(match self.way {
            Way::Copy => Statement::Copy(columns.copy()?.into()),
            _ => Statement::Arrays(columns.arrays()?.into_iter().map(Encoded).collect()),
        })
    }

    fn size(statement: &Statement) -> usize {
        match statement {
            Statement::Text(text) => text.len(),
            Statement::Arrays(arrays) => arrays.iter().map(|array| array.0.len()).sum(),
            Statement::Copy(bytes) => bytes.len(),
        }
    }
}

/// What a connection has prepared.
enum Ready {
    Nothing,
    Upsert(tokio_postgres::Statement),
    Copy {
        copy: tokio_postgres::Statement,
        merge: tokio_postgres::Statement,
    },
}

/// A connection; several share one where several batches are in flight on it.
pub struct Call {
    client: Rc<Client>,
    ready: Rc<Ready>,
    /// `None`: a task of its own drives the connection.
    driver: Option<Driver>,
    place: Arc<str>,
}

/// A connection's handles, one for every batch that may be in flight.
pub async fn ready(
    mut link: Link,
    rows: &Rows,
    table: &Table,
    in_flight: usize,
    place: Arc<str>,
) -> Answer<Vec<Call>> {
    let ready = match rows.way {
        Way::Text => Ready::Nothing,
        Way::Arrays => {
            let upsert = rows.upsert(table);
            let prepared = link.driver.drive(link.client.prepare(&upsert)).await?;
            Ready::Upsert(prepared)
        }
        Way::Copy => {
            link.run(&rows.staging(table)).await?;
            let copy = format!(
                "COPY {STAGING} ({}) FROM STDIN (FORMAT binary)",
                Rows::names(table)
            );
            let copy = link.driver.drive(link.client.prepare(&copy)).await?;
            let merge = Rows::merge(table);
            let merge = link.driver.drive(link.client.prepare(&merge)).await?;
            Ready::Copy { copy, merge }
        }
    };
    let (client, ready) = (Rc::new(link.client), Rc::new(ready));
    let call = |driver| Call {
        client: client.clone(),
        ready: ready.clone(),
        driver,
        place: place.clone(),
    };
    if in_flight == 1 {
        return Ok(vec![call(Some(link.driver))]);
    }
    // On this thread's own runtime; it ends when the last of the calls lets the client go.
    tokio::spawn(link.driver);
    Ok((0..in_flight).map(|_| call(None)).collect())
}

async fn apply(client: &Client, ready: &Ready, statement: &Statement) -> Answer<()> {
    match (statement, ready) {
        (Statement::Arrays(arrays), Ready::Upsert(upsert)) => {
            let arrays = arrays.iter().map(|array| array as &(dyn ToSql + Sync));
            client.execute_raw(upsert, arrays).await.map(|_| ())
        }
        (Statement::Copy(bytes), Ready::Copy { copy, merge }) => {
            let done = transact(client, copy, merge, bytes.clone()).await;
            if done.is_err() && !client.is_closed() {
                // Without a transaction it is a warning only.
                let _ = client.batch_execute("ROLLBACK").await;
            }
            done
        }
        (Statement::Text(text), _) => client.batch_execute(text).await,
        // A statement of another way than the connection's: never made.
        _ => client.batch_execute("").await,
    }
}

/// COPY and merge in one transaction, in two trips to the server.
async fn transact(
    client: &Client,
    copy: &tokio_postgres::Statement,
    merge: &tokio_postgres::Statement,
    bytes: Arc<[u8]>,
) -> Answer<()> {
    let (begun, sink) = futures::join!(client.batch_execute("BEGIN"), client.copy_in(copy));
    begun?;
    let mut sink = pin!(sink?);
    sink.send(Cursor::new(bytes)).await?;
    // What follows goes out behind the rows, before the server has said that it has them.
    let none = || std::iter::empty::<&(dyn ToSql + Sync)>();
    let mut finish = pin!(sink.finish());
    let finished = poll!(finish.as_mut());
    let (merged, committed) = {
        let rest = async {
            futures::join!(
                client.execute_raw(merge, none()),
                client.batch_execute("COMMIT")
            )
        };
        match finished {
            std::task::Poll::Ready(finished) => {
                finished?;
                rest.await
            }
            std::task::Poll::Pending => {
                let (finished, rest) = futures::join!(finish, rest);
                finished?;
                rest
            }
        }
    };
    merged?;
    committed
}

impl Executor for Call {
    type Statement = Statement;

    const WORK: Stage = Stage::Send;

    fn execute(mut self, call: Arc<Prepared<Statement>>) -> Executing<Self> {
        Box::pin(async move {
            let (client, ready) = (self.client.clone(), self.ready.clone());
            let work = apply(&client, &ready, &call.statement);
            let done = match &mut self.driver {
                Some(driver) => driver.drive(work).await,
                None => work.await,
            };
            let done = done.map_err(|error| of_batch(&self.place, &error, call.rows));
            (self, done)
        })
    }
}
