//! What an SQL database is asked once it is connected to, whatever for: `upsert::Upserts` and `read::Reads`
//! add what only the one or the other needs.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::upsert::Common;
use crate::sql::Dialect;
use crate::Identity;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::limit;
use venturi_base::meter::sockets::Sockets;
use venturi_base::secrets::masked;
use venturi_base::spec::TrialSpec;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The plan's: it makes what is missing, where this process may.
    Plan,
    /// Of this number.
    Stream(usize),
    Verify,
    Clean,
}

pub trait Database: Send + Sync + 'static {
    type Link;

    const DIALECT: &'static Dialect;
    /// As people write it.
    const NAME: &'static str;
    /// Whether the statements of `init` are run before the table is dropped too.
    const CLEANS_AFTER_INIT: bool = false;

    fn common(&self) -> &Common;
    /// For errors: where it is.
    fn address(&self) -> String;
    /// For errors, behind a table's name: " in" what it is looked for.
    fn within(&self) -> String {
        String::new()
    }
    fn sockets(&self, _spec: &TrialSpec) -> Option<Arc<Sockets>> {
        None
    }

    /// `init` is run by whoever asks, once the connection has what tables are in.
    fn connect(
        &self,
        spec: &TrialSpec,
        purpose: Purpose,
    ) -> impl Future<Output = Result<Self::Link>>;
    fn has_space(&self, _link: &Self::Link) -> bool {
        true
    }
    /// Says good-bye, where the server wants to hear it.
    fn close(&self, _link: Self::Link) -> impl Future<Output = ()> {
        async {}
    }
    fn identify(
        &self,
        spec: &TrialSpec,
        link: &mut Self::Link,
    ) -> impl Future<Output = Result<Identity>>;
    /// Executes statements of text; their rows are dropped.
    fn run(&self, link: &mut Self::Link, sql: &str) -> impl Future<Output = Result<()>>;
    /// An answer's rows, as text.
    fn ask_all(
        &self,
        link: &mut Self::Link,
        sql: &str,
    ) -> impl Future<Output = Result<Vec<Vec<Option<String>>>>>;
    /// The values of an answer's first row, as text.
    fn ask(
        &self,
        link: &mut Self::Link,
        sql: &str,
    ) -> impl Future<Output = Result<Vec<Option<String>>>> {
        async move {
            Ok(self
                .ask_all(link, sql)
                .await?
                .into_iter()
                .next()
                .unwrap_or_default())
        }
    }
    /// A question whose answer is 0 where there is no such table.
    fn exists(table: &str) -> String;
    /// A statement after which there is no such table.
    fn drop_table(table: &str) -> String {
        format!("DROP TABLE IF EXISTS {}", Self::DIALECT.quoted(table))
    }
}

/// A connection that has run the user's own statements.
pub async fn connected<D: Database>(
    database: &D,
    spec: &TrialSpec,
    purpose: Purpose,
) -> Result<D::Link> {
    let most = Duration::from_nanos(spec.timeout_ns);
    let connected = limit::within(most, database.connect(spec, purpose)).await;
    let mut link = connected.unwrap_or_else(|over| {
        let message = format!("{}: no answer to the log-in for {over}", database.address());
        Err(Error::new(Kind::Timeout, message))
    })?;
    if (purpose != Purpose::Clean || D::CLEANS_AFTER_INIT) && database.has_space(&link) {
        run_init(database, &mut link).await?;
    }
    Ok(link)
}

/// Runs the user's own statements.
pub async fn run_init<D: Database>(database: &D, link: &mut D::Link) -> Result<()> {
    for statement in &database.common().init {
        let done = run(database, link, statement).await;
        done.map_err(|error| error.context(format_args!("--init {statement:?}")))?;
    }
    Ok(())
}

/// Executes statements; an error names the one that takes too long.
pub async fn run<D: Database>(database: &D, link: &mut D::Link, sql: &str) -> Result<()> {
    limit::patient(waiting(database, sql), database.run(link, sql)).await
}

/// The first row of an answer; an error names the question that takes too long.
pub async fn ask<D: Database>(
    database: &D,
    link: &mut D::Link,
    sql: &str,
) -> Result<Vec<Option<String>>> {
    limit::patient(waiting(database, sql), database.ask(link, sql)).await
}

fn waiting<D: Database>(database: &D, sql: &str) -> String {
    format!("{}: {}", database.address(), shortened(sql))
}

/// The beginning of a statement in one line, for errors.
pub fn shortened(statement: &str) -> String {
    let statement = masked(statement.to_owned());
    let line = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(100) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// The integers of an answer's first row.
pub async fn numbers<D: Database>(
    database: &D,
    link: &mut D::Link,
    select: &str,
) -> Result<Vec<i128>> {
    let row = ask(database, link, select).await?;
    let number = |text: Option<String>| {
        let text = text.unwrap_or_default();
        // A sum of what is no integer, in a table of somebody else's.
        let strange = || {
            let address = database.address();
            let message = format!("{address}: {text:?} is no number: {select}");
            Error::new(Kind::Server, message)
        };
        text.parse().map_err(|_| strange())
    };
    row.into_iter().map(number).collect()
}

pub async fn exists<D: Database>(database: &D, link: &mut D::Link, table: &str) -> Result<bool> {
    let found = numbers(database, link, &D::exists(table)).await?;
    Ok(found.first() > Some(&0))
}

/// A name as a string of SQL.
pub fn literal(name: &str) -> String {
    format!("'{}'", name.replace('\'', "''"))
}
